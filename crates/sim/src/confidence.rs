//! How well a mean is known.

/// Neighbouring queries share queues and are alike; batches of them hardly.
const BATCHES: usize = 20;

/// Student's t for 19 degrees of freedom, 97.5 %.
const T_19: f64 = 2.093;

/// Samples that a batch has at least, to tell anything.
const LEAST: usize = 10;

/// Half the width of the 95 % confidence interval of the mean of `times`, by the means of 20
/// batches; none of less than 10 samples a batch. Batches that are still alike tell less than as
/// many that are not: their variance counts as much more as that of a first-order autoregressive
/// process would.
pub(crate) fn mean_error(times: &[u64]) -> Option<f64> {
    let size = times.len() / BATCHES;
    if size < LEAST {
        return None;
    }
    let mean = |batch: &[u64]| batch.iter().map(|ns| *ns as f64).sum::<f64>() / batch.len() as f64;
    let means: Vec<f64> = times.chunks_exact(size).take(BATCHES).map(mean).collect();
    let middle = means.iter().sum::<f64>() / BATCHES as f64;
    let off: Vec<f64> = means.iter().map(|it| it - middle).collect();
    let squares: f64 = off.iter().map(|it| it * it).sum();
    let alike =
        off.windows(2).map(|pair| pair[0] * pair[1]).sum::<f64>() / squares.max(f64::MIN_POSITIVE);
    let alike = alike.max(0.0);
    let variance = squares / (BATCHES - 1) as f64 * (1.0 + alike) / (1.0 - alike);
    Some(T_19 * (variance / BATCHES as f64).sqrt())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_error_of_a_mean_is_that_of_its_batches() {
        assert_eq!(mean_error(&[5; 199]), None);
        assert_eq!(mean_error(&[5; 200]), Some(0.0));
        // Batches of 10 whose means are 10 and 30 in turn: deviation 10 × √(20/19).
        let times: Vec<u64> = (0..200).map(|n| if n / 10 % 2 == 0 { 10 } else { 30 }).collect();
        let error = mean_error(&times).unwrap();
        assert!((error - 2.093 * 10.0 / 19_f64.sqrt()).abs() < 1e-9, "{error}");
    }

    #[test]
    fn batches_that_are_alike_tell_less() {
        // Ten batches of 10, then ten of 30: of 19 neighbours 18 are alike, (18 - 1) / 20 = 0.85
        // after all.
        let times: Vec<u64> = (0..200).map(|n| if n < 100 { 10 } else { 30 }).collect();
        let error = mean_error(&times).unwrap();
        let alone = 2.093 * 10.0 / 19_f64.sqrt();
        assert!((error / alone - (1.85_f64 / 0.15).sqrt()).abs() < 1e-9, "{error}");
    }
}
