//! Completion times, and what is told of them.

use alloc::vec::Vec;

use serde::{Deserialize, Serialize};

/// A set of samples. Quantiles are exact: a run has thousands of samples, not billions, so all of
/// them are kept.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Samples {
    values: Vec<u64>,
    sorted: bool,
}

/// Completion times in microseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct TimesUs {
    /// The mean.
    pub mean: f64,
    /// The median.
    pub p50: f64,
    /// 95 of 100 were at most this.
    pub p95: f64,
    /// 99 of 100 were at most this.
    pub p99: f64,
    /// 999 of 1000 were at most this.
    pub p999: f64,
    /// The longest.
    pub max: f64,
}

impl Samples {
    /// Adds samples.
    pub fn extend(&mut self, values: impl IntoIterator<Item = u64>) {
        self.values.extend(values);
        self.sorted = false;
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.values.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.values.is_empty()
    }

    /// The mean; 0 of none.
    pub fn mean(&self) -> f64 {
        if self.is_empty() {
            return 0.0;
        }
        // Sums of nanoseconds stay below 2^53 for a hundred days.
        self.values.iter().map(|value| *value as f64).sum::<f64>() / self.len() as f64
    }

    /// The smallest sample that a share `p` of all does not exceed; 0 of none.
    pub fn quantile(&mut self, p: f64) -> u64 {
        if !self.sorted {
            self.values.sort_unstable();
            self.sorted = true;
        }
        let rank = libm::ceil(p * self.len() as f64) as usize;
        self.values.get(rank.clamp(1, self.len().max(1)) - 1).copied().unwrap_or(0)
    }

    /// Nanoseconds told as microseconds.
    pub fn times_us(&mut self) -> TimesUs {
        let mut us = |p| self.quantile(p) as f64 / 1e3;
        let (p50, p95, p99, p999, max) = (us(0.5), us(0.95), us(0.99), us(0.999), us(1.0));
        TimesUs { mean: self.mean() / 1e3, p50, p95, p99, p999, max }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_samples() {
        let mut samples = Samples::default();
        assert_eq!((samples.quantile(0.5), samples.mean()), (0, 0.0));
        samples.extend((1..=1000).rev().map(|us| us * 1000));
        let times = samples.times_us();
        let told = [times.p50, times.p95, times.p99, times.p999, times.max];
        assert_eq!(told, [500.0, 950.0, 990.0, 999.0, 1000.0]);
        assert_eq!((times.mean, samples.quantile(0.0)), (500.5, 1000));
    }
}
