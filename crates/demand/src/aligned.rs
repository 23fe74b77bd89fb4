//! Whether machines are as independent as their sum takes them for.

use core::fmt;

use alloc::vec;
use alloc::vec::Vec;

use crate::bracket::Bracket;
use crate::risk::{Precision, risk};
use crate::source::Source;

/// The sum of traces that were recorded at the same time, beside the sum of their models.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Aligned {
    /// The share of time above the capacity if machines are independent.
    pub predicted: Bracket,
    /// The share of the samples in which the sum of the traces is above it.
    pub observed: f64,
    /// The variance of the sum of the traces beside the sum of their variances: 1 if they are
    /// independent, their number if they are alike.
    pub variance: f64,
}

impl Aligned {
    /// Compares sources with their traces, which all have the same times. `None` if a trace has no
    /// sample, or they differ in length.
    pub fn new(capacity: u64, machines: &[(&Source, &[u64])]) -> Option<Self> {
        let samples = machines.first()?.1.len();
        if samples == 0 || machines.iter().any(|(_, trace)| trace.len() != samples) {
            return None;
        }
        let mix: Vec<(&Source, u32)> = machines.iter().map(|(source, _)| (*source, 1)).collect();
        let mut sums = vec![0u64; samples];
        let mut apart = 0.0;
        for (_, trace) in machines {
            sums.iter_mut().zip(*trace).for_each(|(sum, rate)| *sum = sum.saturating_add(*rate));
            apart += variance(trace);
        }
        let above = sums.iter().filter(|sum| **sum > capacity).count();
        Some(Self {
            predicted: risk(capacity, &mix, Precision::default()).time,
            observed: above as f64 / samples as f64,
            variance: if apart > 0.0 { variance(&sums) / apart } else { 1.0 },
        })
    }

    /// Whether machines move together more than chance explains: then groups of them are to be
    /// summed by [`Source::together`].
    pub fn is_dependent(&self) -> bool {
        self.variance > 1.5
    }
}

impl fmt::Display for Aligned {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { predicted, observed, variance } = self;
        write!(f, "above capacity for {observed:.2e} of the time, predicted {predicted}; ")?;
        if self.is_dependent() {
            write!(f, "the sum varies {variance:.1} times as much as independent machines would")
        } else {
            write!(f, "the sum varies as that of independent machines")
        }
    }
}

fn variance(values: &[u64]) -> f64 {
    let count = values.len() as f64;
    let mean = values.iter().map(|it| *it as f64).sum::<f64>() / count;
    values.iter().map(|it| (*it as f64 - mean) * (*it as f64 - mean)).sum::<f64>() / count
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::ToString;
    use units::Rng;

    #[test]
    fn machines_that_move_together_are_seen() {
        let mut rng = Rng::new(9);
        let source = Source::on_off(100, 0.25);
        let mut trace =
            || -> Vec<u64> { (0..10_000).map(|_| 100 * u64::from(rng.below(4) == 0)).collect() };
        let (one, other) = (trace(), trace());
        let apart = Aligned::new(100, &[(&source, &one), (&source, &other)]).unwrap();
        assert!(!apart.is_dependent() && (apart.variance - 1.0).abs() < 0.05, "{apart}");
        assert!((apart.observed / apart.predicted.middle() - 1.0).abs() < 0.1, "{apart}");
        let alike = Aligned::new(100, &[(&source, &one), (&source, &one)]).unwrap();
        assert!(alike.is_dependent() && (alike.variance - 2.0).abs() < 1e-9);
        assert!(alike.to_string().ends_with("2.0 times as much as independent machines would"));
        assert_eq!(Aligned::new(100, &[(&source, &one), (&source, &[])]), None);
    }
}
