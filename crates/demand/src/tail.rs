//! How likely a sum of sources is above each step of a grid.

use alloc::vec;
use alloc::vec::Vec;

use crate::source::Share;

/// P(S > j) for each step j from 0 to the capacity, where S is a sum in whole steps.
///
/// To add an independent X is a convolution of tails: P(S + X > j) = Σ P(X = k) · P(S > j − k), and
/// below zero the tail is 1. All terms are positive, so the relative error is that of as many
/// additions and multiplications, however small the result; a transform by FFT would have an
/// absolute error near 1e-16 instead.
#[derive(Debug)]
pub(crate) struct Tail {
    above: Vec<f64>,
    /// What the next sum is written to, once there was one.
    spare: Vec<f64>,
}

impl Clone for Tail {
    fn clone(&self) -> Self {
        Self { above: self.above.clone(), spare: Vec::new() }
    }
}

impl Tail {
    /// The sum of nothing.
    pub fn new(cells: u64) -> Self {
        let len = usize::try_from(cells).expect("grids have at most FINEST cells") + 1;
        Self { above: vec![0.0; len], spare: Vec::new() }
    }

    /// Adds an independent source.
    pub fn push(&mut self, shares: &[Share]) {
        let len = self.above.len();
        self.spare.resize(len, 0.0);
        let shift = |steps: u64| usize::try_from(steps).map_or(len, |it| it.min(len));
        let (first, others) = shares.split_first().expect("a source has a share");
        let (sure, rest) = self.spare.split_at_mut(shift(first.0));
        sure.fill(first.1);
        rest.iter_mut().zip(&self.above).for_each(|(it, above)| *it = first.1 * above);
        for (steps, share) in others {
            let (sure, rest) = self.spare.split_at_mut(shift(*steps));
            sure.iter_mut().for_each(|it| *it += share);
            rest.iter_mut().zip(&self.above).for_each(|(it, above)| *it += share * above);
        }
        core::mem::swap(&mut self.above, &mut self.spare);
    }

    /// P(S > step).
    pub fn above(&self, step: u64) -> f64 {
        self.above[usize::try_from(step).expect("a step of the grid")]
    }

    /// The first step that S exceeds with a chance of no more than `share`, if there is one.
    pub fn quantile(&self, share: f64) -> Option<u64> {
        let step = self.above.partition_point(|above| *above > share);
        (step < self.above.len()).then_some(step as u64)
    }

    /// P(S + X > capacity), of an independent X.
    pub fn above_with(&self, shares: &[Share]) -> f64 {
        let last = self.above.len() as u64 - 1;
        let term = |(steps, share): &Share| match last.checked_sub(*steps) {
            Some(step) => share * self.above(step),
            None => *share,
        };
        shares.iter().map(term).sum()
    }

    /// Σ P(S > j) over the last `steps` steps, of which those below zero count 1 each: by how many
    /// steps S + `steps` is above the capacity and a step, beyond what S alone is, on average.
    pub fn last(&self, steps: u64) -> f64 {
        let len = self.above.len();
        let within = usize::try_from(steps).map_or(len, |it| it.min(len));
        let sum: f64 = self.above[len - within..].iter().sum();
        sum + (steps - within as u64) as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tail_is_that_of_the_sum() {
        let mut tail = Tail::new(2);
        let coin = [(0, 0.5), (1, 0.5)];
        tail.push(&coin);
        tail.push(&coin);
        // 0, 1 and 2 with a quarter, a half and a quarter.
        assert_eq!(tail.above, [0.75, 0.25, 0.0]);
        assert_eq!(tail.above_with(&coin), 0.125);
        assert_eq!(tail.above_with(&[(9, 1.0)]), 1.0);
        assert_eq!([0.8, 0.75, 0.3, 0.1].map(|it| tail.quantile(it)), [0, 0, 1, 2].map(Some));
        assert_eq!(Tail::new(0).quantile(0.0), Some(0));
        assert_eq!(tail.last(2), 0.25);
        assert_eq!(tail.last(5), 3.0);
    }
}
