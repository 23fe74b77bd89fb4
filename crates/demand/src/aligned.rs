//! Whether machines are as independent as their sum takes them for.

use alloc::vec::Vec;

use units::Instant;

use crate::grid::{FINEST, Grid};
use crate::load::Load;
use crate::series::Series;
use crate::source::Source;

/// The sum of traces that were recorded at the same times.
#[derive(Clone, Debug, Default)]
pub struct Aligned {
    traces: usize,
    /// The times that all traces have, and what they sum to.
    sums: Vec<(Instant, u64)>,
    /// The sum of the traces' variances.
    apart: f64,
}

/// The sum of traces beside the sum of their models.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Dependence {
    /// What the sum is above for no more than the share of time that was asked for, if machines are
    /// independent.
    pub predicted: u64,
    /// The same, of the samples.
    pub observed: u64,
    /// The variance of the sum of the traces beside the sum of their variances: 1 if they are
    /// independent, their number if they are alike.
    pub variance: f64,
}

impl Aligned {
    /// Adds a trace. Times that it or one before does not have do not count.
    pub fn push(&mut self, trace: &Series) {
        let mut samples = trace.samples().iter().copied();
        self.traces += 1;
        self.apart += variance(trace.rates());
        if self.traces == 1 {
            self.sums = samples.collect();
            return;
        }
        let mut next = samples.next();
        self.sums.retain_mut(|(at, sum)| {
            while next.is_some_and(|it| it.0 < *at) {
                next = samples.next();
            }
            let rate = next.filter(|it| it.0 == *at).map(|it| it.1);
            *sum = sum.saturating_add(rate.unwrap_or(0));
            rate.is_some()
        });
    }

    /// How many traces there are.
    pub fn traces(&self) -> usize {
        self.traces
    }

    /// How many times all traces have.
    pub fn samples(&self) -> usize {
        self.sums.len()
    }

    /// Compares the sum with that of the traces' models, which are independent; `share` is the
    /// share of time for which it may be higher than what is told. `None` of fewer than two traces,
    /// or samples.
    pub fn compare(&self, sources: &[Source], share: f64) -> Option<Dependence> {
        if self.traces < 2 || self.sums.len() < 2 {
            return None;
        }
        let mut sums: Vec<u64> = self.sums.iter().map(|it| it.1).collect();
        let varies = variance(sums.iter().copied());
        sums.sort_unstable();
        let above = libm::floor(share * sums.len() as f64) as usize;
        let observed = sums[sums.len() - 1 - above.min(sums.len() - 1)];
        let grid = Grid::fitting(reach(sources, share), sources, FINEST, FINEST);
        let mut load = Load::new(grid);
        sources.iter().for_each(|it| load.push(&grid.bin(it)));
        Some(Dependence {
            predicted: load.reached_for(share),
            observed,
            variance: if self.apart > 0.0 { varies / self.apart } else { 1.0 },
        })
    }
}

impl Dependence {
    /// Whether machines move together more than chance explains: then groups of them are to be
    /// summed by [`Source::together`].
    pub fn is_dependent(&self) -> bool {
        self.variance > 1.5
    }
}

/// What the sum of independent sources is above for no more than `share` of the time, at most
/// (Chebyshev's inequality).
fn reach(sources: &[Source], share: f64) -> u64 {
    let peak = sources.iter().fold(0u64, |sum, it| sum.saturating_add(it.peak()));
    let mean: f64 = sources.iter().map(Source::mean).sum();
    let variance: f64 = sources.iter().map(Source::variance).sum();
    let reach = libm::ceil(mean + libm::sqrt(variance / share)) as u64;
    reach.min(peak).max(1)
}

fn variance(values: impl ExactSizeIterator<Item = u64> + Clone) -> f64 {
    let count = values.len() as f64;
    let mean = values.clone().map(|it| it as f64).sum::<f64>() / count;
    values.map(|it| (it as f64 - mean) * (it as f64 - mean)).sum::<f64>() / count
}

#[cfg(test)]
mod tests {
    use super::*;
    use units::{Rng, Span};

    fn series(rates: &[u64]) -> Series {
        Series::from_rates(Instant::ZERO, Span::from_secs(1), rates).unwrap()
    }

    fn sum(traces: &[&[u64]]) -> Aligned {
        let mut sum = Aligned::default();
        traces.iter().for_each(|it| sum.push(&series(it)));
        sum
    }

    #[test]
    fn machines_that_move_together_are_seen() {
        let mut rng = Rng::new(9);
        let mut trace =
            || -> Vec<u64> { (0..10_000).map(|_| 100 * u64::from(rng.below(4) == 0)).collect() };
        let [one, other] = [trace(), trace()];
        let sources = [Source::on_off(100, 0.25), Source::on_off(100, 0.25)];
        // Both send for a sixteenth of the time, or for a quarter.
        let apart = sum(&[&one, &other]).compare(&sources, 0.1).unwrap();
        assert!(!apart.is_dependent() && (apart.variance - 1.0).abs() < 0.05, "{apart:?}");
        assert_eq!((apart.predicted, apart.observed), (100, 100));
        let alike = sum(&[&one, &one]).compare(&sources, 0.1).unwrap();
        assert!(alike.is_dependent() && (alike.variance - 2.0).abs() < 1e-9, "{alike:?}");
        assert_eq!((alike.predicted, alike.observed), (100, 200));
    }

    #[test]
    fn only_times_that_all_traces_have_are_compared() {
        let one = series(&[1, 2, 3, 4, 5]);
        let odd = |it: Instant| it.as_nanos() / 1_000_000_000 % 2 == 1;
        let mut sum = Aligned::default();
        for trace in [&one, &one.filtered(odd).unwrap(), &one] {
            sum.push(trace);
        }
        assert_eq!((sum.traces(), sum.samples()), (3, 2));
        assert_eq!(sum.sums.iter().map(|it| it.1).collect::<Vec<_>>(), [6, 12]);
        let late = Instant::from_nanos(99_000_000_000);
        sum.push(&Series::from_rates(late, Span::from_secs(1), &[1, 2]).unwrap());
        assert_eq!((sum.samples(), sum.compare(&[], 0.1)), (0, None));
        let mut alone = Aligned::default();
        alone.push(&one);
        assert_eq!(alone.compare(&[Source::constant(3)], 0.1), None);
    }
}
