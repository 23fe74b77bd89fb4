//! The load of independent sources on one capacity, added up one by one.

use crate::bracket::Bracket;
use crate::grid::{Binned, Grid};
use crate::source::Share;
use crate::tail::Tail;

/// A sum of independent sources beside a capacity. Says how likely the sum is above it, and what
/// that would be with one more source.
///
/// A source costs a multiplication and an addition for each of its states and each cell of the
/// grid; to ask what one would do costs one for each of its states. Sources are not taken away
/// again: what is left is added up anew.
#[derive(Clone, Debug)]
pub struct Load {
    grid: Grid,
    high: Tail,
    /// Rates rounded down, once something was rounded.
    low: Option<Tail>,
    /// How many floating-point operations are between a share of time and a tail.
    operations: f64,
}

impl Load {
    /// No source yet.
    pub fn new(grid: Grid) -> Self {
        Self { grid, high: Tail::new(grid.cells()), low: None, operations: 0.0 }
    }

    /// The grid on which the sum is computed.
    pub fn grid(&self) -> Grid {
        self.grid
    }

    /// Adds a source that is independent of all others.
    ///
    /// # Panics
    ///
    /// If the source was binned for another grid.
    pub fn push(&mut self, source: &Binned) {
        assert_eq!(source.grid(), self.grid, "a source in steps of another grid");
        if source.low.is_some() && self.low.is_none() {
            self.low = Some(self.high.clone());
        }
        if let Some(low) = &mut self.low {
            low.push(rounded_down(source));
        }
        self.high.push(&source.high);
        self.operations += operations(source);
    }

    /// Adds as many independent sources of one kind.
    pub fn push_many(&mut self, source: &Binned, count: u32) {
        for _ in 0..count {
            self.push(source);
        }
    }

    /// The share of time in which the sum is above the capacity.
    pub fn overload(&self) -> Bracket {
        self.above(self.grid.capacity())
    }

    /// The share of time in which the sum is above `amount`, which is at most the capacity.
    pub fn above(&self, amount: u64) -> Bracket {
        // In whole steps, more than `amount` is more than the steps that it has.
        let step = amount / self.grid.step();
        let high = self.high.above(step);
        let low = self.low.as_ref().map_or(high, |low| low.above(step));
        Bracket { low, high }.widened(self.operations * f64::EPSILON).probability()
    }

    /// The largest amount that the sum reaches for more than `share` of the time, up to a step
    /// above the capacity; rounded down, like the rates.
    pub fn reached_for(&self, share: f64) -> u64 {
        let tail = self.low.as_ref().unwrap_or(&self.high);
        // Chances may have been rounded up.
        let share = share * (1.0 + 2.0 * self.operations * f64::EPSILON);
        let step = tail.quantile(share).unwrap_or(self.grid.cells() + 1);
        step * self.grid.step()
    }

    /// The share of time in which the sum would be above the capacity with one more source.
    pub fn overload_with(&self, source: &Binned) -> Bracket {
        assert_eq!(source.grid(), self.grid, "a source in steps of another grid");
        let high = self.high.above_with(&source.high);
        let low = match &self.low {
            Some(low) => low.above_with(rounded_down(source)),
            None => self.high.above_with(rounded_down(source)),
        };
        let operations = self.operations + operations(source);
        Bracket { low, high }.widened(operations * f64::EPSILON).probability()
    }
}

fn rounded_down(source: &Binned) -> &[Share] {
    source.low.as_ref().unwrap_or(&source.high)
}

/// A source is as many terms as it has states, each rounded once when it is multiplied and once
/// when it is added.
fn operations(source: &Binned) -> f64 {
    source.high.len() as f64 + 1.0
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::source::Source;

    #[test]
    fn forty_on_off_machines_exceed_a_gigabit_as_the_binomial_says() {
        let source = Source::on_off(100_000_000, 0.1);
        let grid = Grid::fitting(1_000_000_000, [&source], 1024, 4096);
        let mut load = Load::new(grid);
        load.push_many(&grid.bin(&source), 40);
        // P(Bin(40, 0.1) > 10), by fractions.
        assert!(load.overload().contains(1.469_722_497_224_262e-3), "{:?}", load.overload());
        assert!(load.overload().width() < 1e-12);
    }

    #[test]
    fn what_a_source_would_do_is_what_it_does() {
        let source = Source::new([(0, 0.5), (30, 0.3), (71, 0.2)]).unwrap();
        let grid = Grid::new(200, 64);
        let binned = grid.bin(&source);
        let mut load = Load::new(grid);
        for _ in 0..10 {
            let foreseen = load.overload_with(&binned);
            load.push(&binned);
            let is = load.overload();
            assert!((foreseen.low - is.low).abs() <= 1e-12 * is.low, "{foreseen:?} {is:?}");
            assert!((foreseen.high - is.high).abs() <= 1e-12 * is.high, "{foreseen:?} {is:?}");
        }
    }

    #[test]
    fn what_can_not_be_exceeded_is_not() {
        let grid = Grid::new(1_000, 1024);
        let mut load = Load::new(grid);
        load.push_many(&grid.bin(&Source::on_off(100, 0.5)), 10);
        assert_eq!(load.overload(), Bracket { low: 0.0, high: 0.0 });
        assert!(load.above(999).contains(1.0 / 1024.0));
        assert_eq!([0.9, 0.5, 1e-4].map(|share| load.reached_for(share)), [300, 500, 1_000]);
    }
}
