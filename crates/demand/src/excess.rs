//! How much is asked for beyond a capacity.

use alloc::vec::Vec;

use crate::bracket::Bracket;
use crate::grid::Grid;
use crate::source::{Share, Source};
use crate::tail::Tail;

/// E(S − C)⁺, what independent sources ask for beyond the capacity of the grid, on average. Each
/// source counts as often as its number says.
///
/// For the lower end rates are rounded down. For the upper end each is divided between the steps
/// around it such that its mean stays: that raises the mean of every convex function, and this is
/// one.
pub fn excess<'a>(grid: Grid, sources: impl IntoIterator<Item = (&'a Source, u32)>) -> Bracket {
    let mut high = StopLoss::new(grid);
    let mut low = StopLoss::new(grid);
    let mut operations = 0.0;
    for (source, count) in sources {
        let divided = divided(source, grid.step());
        let down: Vec<Share> =
            source.shares().iter().map(|(rate, share)| (rate / grid.step(), *share)).collect();
        for _ in 0..count {
            high.push(&divided);
            low.push(&down);
        }
        operations += (divided.len() as f64 + 2.0) * f64::from(count);
    }
    // The last sums run over the grid, and all of their terms are positive.
    operations += grid.cells() as f64 + 8.0;
    let Bracket { low, high } =
        Bracket { low: low.excess(), high: high.excess() }.widened(operations * f64::EPSILON);
    Bracket { low: low.max(0.0), high }
}

/// Each rate as two neighbouring steps with the same mean.
fn divided(source: &Source, step: u64) -> Vec<Share> {
    let mut shares: Vec<Share> = Vec::with_capacity(2 * source.shares().len());
    for (rate, share) in source.shares() {
        let (steps, rest) = (rate / step, rate % step);
        let upper = rest as f64 / step as f64;
        shares.push((steps, share * (1.0 - upper)));
        if rest > 0 {
            shares.push((steps + 1, share * upper));
        }
    }
    shares
}

/// A sum in whole steps, and how far it is above a threshold on average.
struct StopLoss {
    grid: Grid,
    tail: Tail,
    /// E(S − N − 1)⁺ in steps, N being the steps that the capacity has.
    beyond: f64,
}

impl StopLoss {
    fn new(grid: Grid) -> Self {
        Self { grid, tail: Tail::new(grid.cells()), beyond: 0.0 }
    }

    /// E(S + k − t)⁺ = E(S − t)⁺ + Σ P(S > j) over the k steps below t: again, nothing is
    /// subtracted.
    fn push(&mut self, shares: &[Share]) {
        let term = |(steps, share): &Share| share * (self.beyond + self.tail.last(*steps));
        self.beyond = shares.iter().map(term).sum();
        self.tail.push(shares);
    }

    /// E(S − C)⁺. Whatever is above the capacity is at least N + 1 steps.
    fn excess(&self) -> f64 {
        let (step, cells) = (self.grid.step(), self.grid.cells());
        let first = (cells + 1) * step - self.grid.capacity();
        self.beyond * step as f64 + first as f64 * self.tail.above(cells)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_excess_of_two_coins_is_that_of_both_on() {
        let source = Source::on_off(70, 0.5);
        for cells in [10, 64, 100, 1024] {
            let excess = excess(Grid::new(100, cells), [(&source, 2)]);
            assert!(excess.contains(0.25 * 40.0), "{excess:?}");
        }
    }

    #[test]
    fn a_constant_above_the_capacity_exceeds_it_by_their_difference() {
        let excess = excess(Grid::new(100, 1024), [(&Source::constant(1_000_007), 1)]);
        assert!(excess.contains(999_907.0) && excess.width() < 1e-9, "{excess:?}");
    }

    #[test]
    fn what_fits_exceeds_nothing() {
        let excess = excess(Grid::new(100, 1024), [(&Source::on_off(10, 0.9), 10)]);
        assert_eq!(excess, Bracket { low: 0.0, high: 0.0 });
    }
}
