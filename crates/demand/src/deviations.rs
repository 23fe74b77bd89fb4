//! Large deviations: bounds by exponential moments, and effective bandwidths.
//!
//! With Λ(s) = log E e^(sX) of a source, P(Σ X > C) ≤ e^(Σ Λ(s) − sC) for every s > 0 (Chernoff).
//! The bound adds up over sources, so it sorts and explains: a source costs its effective bandwidth
//! α(s) = Λ(s)/s (Kelly, *Notes on effective bandwidths*, 1996, for sources without buffers), and
//! sources fit if Σ α(s) ≤ C + log(ε)/s. The bound is far from tight, by 17 for 40 machines, so it
//! may accept and never refuses.

use crate::source::Source;

/// Sources, each as often as its number says.
pub type Mix<'a> = &'a [(&'a Source, u32)];

/// log E e^(sX). `s` is in seconds for each unit of the rates.
pub fn log_moment(source: &Source, s: f64) -> f64 {
    // The largest power is taken out, so that nothing overflows.
    let peak = source.peak() as f64;
    let terms = source.shares().iter().map(|(rate, share)| (*rate as f64, share));
    s * peak + libm::log(terms.map(|(rate, share)| share * libm::exp(s * (rate - peak))).sum())
}

/// The effective bandwidth at `s`: between the mean, for small `s`, and the peak.
pub fn effective_bandwidth(source: &Source, s: f64) -> f64 {
    if s > 0.0 { log_moment(source, s) / s } else { source.mean() }
}

/// The `s` that bounds the overload of this mix best, and the bound's logarithm, which is 0 if the
/// mean is not below the capacity.
pub fn chernoff(capacity: u64, mix: Mix<'_>) -> (f64, f64) {
    let capacity_rate = capacity as f64;
    let exponent = |s: f64| {
        let sum: f64 = mix.iter().map(|(it, count)| f64::from(*count) * log_moment(it, s)).sum();
        sum - s * capacity_rate
    };
    let mean: f64 = mix.iter().map(|(it, count)| f64::from(*count) * it.mean()).sum();
    if mean >= capacity_rate {
        return (0.0, 0.0);
    }
    let s = minimum(1.0 / capacity_rate.max(1.0), exponent);
    (s, exponent(s).min(0.0))
}

/// The `s` at which a host of this capacity is filled furthest by machines in these proportions, if
/// the bound alone decides at `epsilon`: where sources are compared by effective bandwidth, this is
/// the `s` to compare them at.
///
/// `None` if the mix asks for nothing.
pub fn filling_tilt(capacity: u64, mix: Mix<'_>, epsilon: f64) -> Option<f64> {
    let peak = mix.iter().filter(|(_, count)| *count > 0).map(|(it, _)| it.peak()).max()?;
    if peak == 0 || capacity == 0 {
        return None;
    }
    // So many copies of the mix fit at s: (s C + log ε) / Λ(s), which is positive from
    // s = −log ε / C on, rises, and falls again.
    let capacity = capacity as f64;
    let least = -libm::log(epsilon) / capacity;
    let copies = |s: f64| {
        let sum: f64 = mix.iter().map(|(it, count)| f64::from(*count) * log_moment(it, s)).sum();
        -(s * capacity + libm::log(epsilon)) / sum
    };
    Some(least + minimum(least, |more| copies(least + more)))
}

/// Where a function of s > 0 that falls and then rises is least: found by doubling from `start`, or
/// halving, then by golden sections.
fn minimum(start: f64, value: impl Fn(f64) -> f64) -> f64 {
    const STEPS: u32 = 64;
    let mut middle = start;
    let mut least = value(middle);
    for factor in [2.0, 0.5] {
        for _ in 0..STEPS {
            let next = value(middle * factor);
            if next >= least {
                break;
            }
            (middle, least) = (middle * factor, next);
        }
    }
    const GOLDEN: f64 = 0.618_033_988_749_894_9;
    let (mut low, mut high) = (middle / 2.0, middle * 2.0);
    let inner = |low: f64, high: f64| (high - GOLDEN * (high - low), low + GOLDEN * (high - low));
    let (mut left, mut right) = inner(low, high);
    let (mut at_left, mut at_right) = (value(left), value(right));
    // To a ten-thousandth.
    for _ in 0..20 {
        if at_left <= at_right {
            (high, right, at_right) = (right, left, at_left);
            left = inner(low, high).0;
            at_left = value(left);
        } else {
            (low, left, at_left) = (left, right, at_right);
            right = inner(low, high).1;
            at_right = value(right);
        }
    }
    (low + high) / 2.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bound_of_forty_on_off_machines_is_the_relative_entropy() {
        let source = Source::on_off(100_000_000, 0.1);
        let (_, bound) = chernoff(1_000_000_000, &[(&source, 40)]);
        // 40 machines, of which a quarter instead of a tenth is on.
        let entropy = 0.25 * libm::log(0.25 / 0.1) + 0.75 * libm::log(0.75 / 0.9);
        assert!((bound + 40.0 * entropy).abs() < 1e-6, "{bound}");
        assert!((libm::exp(bound) - 2.5e-2).abs() < 5e-4);
    }

    #[test]
    fn effective_bandwidth_rises_from_mean_to_peak() {
        let source = Source::on_off(100, 0.1);
        assert_eq!(effective_bandwidth(&source, 0.0), 10.0);
        let mut before = 10.0;
        for s in [1e-6, 1e-3, 1e-2, 0.1, 1.0, 10.0, 1e4] {
            let now = effective_bandwidth(&source, s);
            assert!(now >= before - 1e-6 && now <= 100.0, "{s}: {now}");
            before = now;
        }
        assert!(before > 99.9);
    }

    #[test]
    fn a_mean_above_the_capacity_has_no_bound() {
        assert_eq!(chernoff(100, &[(&Source::constant(101), 1)]), (0.0, 0.0));
    }

    #[test]
    fn the_filling_tilt_is_that_of_a_full_host() {
        let source = Source::on_off(100, 0.1);
        let s = filling_tilt(1_000, &[(&source, 1)], 1e-3).unwrap();
        let fit = (s * 1_000.0 + libm::log(1e-3)) / log_moment(&source, s);
        let (best, bound) = chernoff(1_000, &[(&source, fit as u32)]);
        assert!(bound <= libm::log(1e-3) && bound > 1.2 * libm::log(1e-3), "{bound}");
        assert!((best / s - 1.0).abs() < 0.1, "{best} {s}");
        assert_eq!(filling_tilt(1_000, &[], 1e-3), None);
    }
}
