//! How much a trace's averages may be trusted: dependent samples are worth fewer.

use alloc::vec::Vec;

use units::Rng;

/// A figure of a trace, and between what it lies with the confidence that was asked for, from
/// either side.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Estimate {
    /// It is below this with one minus the confidence.
    pub low: f64,
    /// As it is in the trace.
    pub value: f64,
    /// It is above this with one minus the confidence.
    pub high: f64,
}

/// How many samples one that is independent of all before counts for: the variance of means of
/// blocks beside that of independent samples, for blocks that double until it stops to grow
/// (Flyvbjerg and Petersen, 1989). At least 1.
pub(crate) fn correlation_samples(rates: &[f64]) -> f64 {
    /// Fewer blocks than this say nothing of their variance.
    const BLOCKS: usize = 32;
    let all = variance(rates);
    let mut worth: f64 = 1.0;
    if all == 0.0 {
        return worth;
    }
    let mut means = rates.to_vec();
    let mut block = 1.0;
    while means.len() / 2 >= BLOCKS {
        means = means.chunks_exact(2).map(|pair| (pair[0] + pair[1]) / 2.0).collect();
        block *= 2.0;
        worth = worth.max(block * variance(&means) / all);
    }
    worth
}

fn variance(values: &[f64]) -> f64 {
    let count = values.len() as f64;
    let mean = values.iter().sum::<f64>() / count;
    values.iter().map(|it| (it - mean) * (it - mean)).sum::<f64>() / count
}

/// Estimates of the mean of each column of `rows`, by resampling blocks that are longer than
/// samples depend on each other (Künsch, 1989).
pub(crate) fn estimates(
    columns: &[Vec<f64>],
    correlation: f64,
    confidence: f64,
    rng: &mut Rng,
) -> Vec<Estimate> {
    const RESAMPLES: usize = 200;
    const MOST_BLOCKS: usize = 1000;
    const LEAST_BLOCKS: usize = 8;
    let samples = columns[0].len();
    let block = (libm::ceil(4.0 * correlation) as usize)
        .max(samples.div_ceil(MOST_BLOCKS))
        .clamp(1, (samples / LEAST_BLOCKS).max(1));
    let sums: Vec<Vec<f64>> = columns
        .iter()
        .map(|column| column.chunks_exact(block).map(|it| it.iter().sum::<f64>()).collect())
        .collect();
    let blocks = sums[0].len();
    let mut means: Vec<Vec<f64>> = columns.iter().map(|_| Vec::with_capacity(RESAMPLES)).collect();
    let mut drawn = Vec::with_capacity(blocks);
    for _ in 0..RESAMPLES {
        drawn.clear();
        drawn.extend((0..blocks).map(|_| rng.below(blocks as u64) as usize));
        for (sums, means) in sums.iter().zip(&mut means) {
            let sum: f64 = drawn.iter().map(|place| sums[*place]).sum();
            means.push(sum / (blocks * block) as f64);
        }
    }
    let at = |part: f64| libm::round(part * (RESAMPLES - 1) as f64) as usize;
    let estimate = |(column, mut means): (&Vec<f64>, Vec<f64>)| {
        means.sort_unstable_by(f64::total_cmp);
        let value = column.iter().sum::<f64>() / samples as f64;
        let (low, high) = (means[at(1.0 - confidence)], means[at(confidence)]);
        Estimate { low: low.min(value), value, high: high.max(value) }
    };
    columns.iter().zip(means).map(estimate).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samples_that_repeat_are_worth_fewer() {
        let mut rng = Rng::new(3);
        let independent: Vec<f64> = (0..4096).map(|_| rng.unit_f64()).collect();
        let worth = correlation_samples(&independent);
        assert!((1.0..2.0).contains(&worth), "{worth}");
        let repeated: Vec<f64> = independent.iter().flat_map(|it| [*it; 16]).collect();
        let worth = correlation_samples(&repeated);
        assert!((14.0..32.0).contains(&worth), "{worth}");
        assert_eq!(correlation_samples(&[5.0; 1000]), 1.0);
    }

    #[test]
    fn the_interval_of_a_mean_contains_it_as_often_as_is_said() {
        let mut rng = Rng::new(11);
        let mut below = 0;
        for _ in 0..200 {
            let trace: Vec<f64> = (0..250).flat_map(|_| [rng.unit_f64(); 4]).collect();
            let correlation = correlation_samples(&trace);
            let found = estimates(&[trace], correlation, 0.95, &mut rng)[0];
            below += usize::from(found.high < 0.5);
        }
        // 10 are expected, and blocks of finite length make intervals a little too short.
        assert!(below <= 24, "{below}");
    }
}
