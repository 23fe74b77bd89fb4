//! Rates as whole numbers of steps.

use alloc::vec::Vec;

use crate::source::{Share, Source};

/// Amounts in equal steps up to a capacity. Sums of sources are computed on it: in whole steps, so
/// that rates are rounded once up and once down, and the truth lies between.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Grid {
    capacity: u64,
    step: u64,
}

/// The most steps up to a capacity. A finer grid would tell nothing more of what was measured.
pub const FINEST: u64 = 1 << 16;

impl Grid {
    /// A grid of about `cells` steps up to `capacity`, at most 65,536.
    ///
    /// # Panics
    ///
    /// If `cells` is zero.
    pub fn new(capacity: u64, cells: u64) -> Self {
        assert!(cells > 0, "a grid has steps");
        Self { capacity, step: capacity.div_ceil(cells.min(FINEST)).max(1) }
    }

    /// The grid on which these sources need no rounding, if it has at most `most` cells; otherwise
    /// one of `cells`.
    pub fn fitting<'a>(
        capacity: u64,
        sources: impl IntoIterator<Item = &'a Source>,
        cells: u64,
        most: u64,
    ) -> Self {
        let rates = sources.into_iter().flat_map(|it| it.shares().iter().map(|(rate, _)| *rate));
        let step = rates.fold(0, gcd);
        if step == 0 || capacity / step > most {
            return Self::new(capacity, cells);
        }
        Self { capacity, step }
    }

    /// The grid of half the step, unless this is as fine as grids get.
    pub fn finer(self) -> Option<Self> {
        (self.step > 1 && self.cells() * 2 <= FINEST)
            .then_some(Self { step: self.step.div_ceil(2), ..self })
    }

    /// What is not to be exceeded.
    pub fn capacity(self) -> u64 {
        self.capacity
    }

    /// How much a step is.
    pub fn step(self) -> u64 {
        self.step
    }

    /// How many whole steps the capacity has.
    pub fn cells(self) -> u64 {
        self.capacity / self.step
    }

    /// A source in steps of this grid.
    pub fn bin(self, source: &Source) -> Binned {
        let high: Vec<Share> = steps(source, |rate| rate.div_ceil(self.step));
        let low: Vec<Share> = steps(source, |rate| rate / self.step);
        let exact = high.len() == source.shares().len() && high == low;
        Binned { grid: self, high, low: (!exact).then_some(low) }
    }
}

fn steps(source: &Source, round: impl Fn(u64) -> u64) -> Vec<Share> {
    let mut steps: Vec<Share> = Vec::with_capacity(source.shares().len());
    for (rate, share) in source.shares() {
        let step = round(*rate);
        match steps.last_mut() {
            Some(last) if last.0 == step => last.1 += share,
            _ => steps.push((step, *share)),
        }
    }
    steps
}

/// The greatest common divisor; of zero and a number, the number.
pub fn gcd(mut a: u64, mut b: u64) -> u64 {
    while b > 0 {
        (a, b) = (b, a % b);
    }
    a
}

/// A source in steps of a grid: rates rounded up, and down.
#[derive(Clone, Debug, PartialEq)]
pub struct Binned {
    grid: Grid,
    /// Steps and shares of time, rounded up, by rising step.
    pub(crate) high: Vec<Share>,
    /// The same rounded down, unless nothing was rounded.
    pub(crate) low: Option<Vec<Share>>,
}

impl Binned {
    /// The grid whose steps these are.
    pub fn grid(&self) -> Grid {
        self.grid
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_with_a_common_divisor_are_not_rounded() {
        let sources = [Source::on_off(100_000_000, 0.1), Source::on_off(350_000_000, 0.2)];
        let grid = Grid::fitting(1_000_000_000, &sources, 1024, 4096);
        assert_eq!((grid.step(), grid.cells()), (50_000_000, 20));
        assert!(sources.iter().all(|it| grid.bin(it).low.is_none()));
    }

    #[test]
    fn other_rates_are_rounded_both_ways() {
        let source = Source::on_off(100_000_007, 0.1);
        let grid = Grid::fitting(1_000_000_000, [&source, &Source::constant(3)], 1024, 4096);
        assert_eq!((grid.step(), grid.cells()), (976_563, 1023));
        let binned = grid.bin(&source);
        assert_eq!(binned.high, [(0, 0.9), (103, 0.1)]);
        assert_eq!(binned.low.unwrap(), [(0, 0.9), (102, 0.1)]);
    }

    #[test]
    fn a_grid_gets_finer_until_it_tells_nothing_more() {
        let mut grid = Grid::new(1_000_000_007, 1024);
        let mut times = 0;
        while let Some(finer) = grid.finer() {
            assert!(finer.cells() > grid.cells() && finer.cells() <= FINEST);
            (grid, times) = (finer, times + 1);
        }
        assert_eq!(times, 6);
        assert_eq!(Grid::new(0, 1024).cells(), 0);
        assert_eq!(Grid::new(3, 1024).finer(), None);
    }
}
