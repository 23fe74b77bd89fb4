//! How much of the time, and of the traffic, is too much; and whether that is within a goal.

use alloc::vec::Vec;

use crate::bracket::Bracket;
use crate::deviations::{self, Mix};
use crate::excess::excess;
use crate::grid::Grid;
use crate::load::Load;

/// How finely to compute.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Precision {
    /// Cells of the first grid, unless rates have a common divisor that makes a coarser one exact.
    pub cells: u64,
    /// Cells up to which a grid is refined, at most 65,536.
    pub most_cells: u64,
    /// A bracket that is no wider than this part of its upper end is good enough.
    pub width: f64,
    /// So is one whose upper end is no more than this.
    pub negligible: f64,
}

impl Default for Precision {
    fn default() -> Self {
        Self { cells: 1024, most_cells: 16_384, width: 0.05, negligible: 1e-12 }
    }
}

/// What sources ask for beyond a capacity.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Risk {
    /// The share of time in which they ask for more.
    pub time: Bracket,
    /// The share of what they ask for that is more: E(S − C)⁺ / E S.
    pub traffic: Bracket,
}

/// Whether an overload is within a goal.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Verdict {
    /// It is no more than the goal.
    Within,
    /// It is more.
    Beyond,
    /// The finest grid cannot tell: the two are as close as rounding.
    Undecided,
}

/// The risk of independent sources, refined until it is as precise as asked for, if it gets there.
pub fn risk(capacity: u64, mix: Mix<'_>, precision: Precision) -> Risk {
    let mean: f64 = mix.iter().map(|(it, count)| f64::from(*count) * it.mean()).sum();
    let at = |grid| {
        let time = load(grid, mix).overload();
        let excess = excess(grid, mix.iter().copied());
        let part = |excess: f64| if mean > 0.0 { (excess / mean).min(1.0) } else { 0.0 };
        Risk { time, traffic: Bracket { low: part(excess.low), high: part(excess.high) } }
    };
    let mut grid = first_grid(capacity, mix, precision);
    loop {
        let risk = at(grid);
        let is_good = [risk.time, risk.traffic]
            .iter()
            .all(|it| it.width() <= precision.width || it.high <= precision.negligible);
        match finer(grid, precision) {
            Some(finer) if !is_good => grid = finer,
            _ => return risk,
        }
    }
}

/// Whether the share of time in which independent sources ask for more than the capacity is at most
/// `epsilon`. Chernoff's bound may accept; only the exact sum refuses.
pub fn decide(capacity: u64, mix: Mix<'_>, epsilon: f64, precision: Precision) -> Verdict {
    let peaks = mix.iter().try_fold(0u64, |sum, (it, count)| {
        sum.checked_add(it.peak().checked_mul(u64::from(*count))?)
    });
    if peaks.is_some_and(|peaks| peaks <= capacity) {
        return Verdict::Within;
    }
    if deviations::chernoff(capacity, mix).1 <= libm::log(epsilon) {
        return Verdict::Within;
    }
    let mut grid = first_grid(capacity, mix, precision);
    loop {
        let overload = load(grid, mix).overload();
        if overload.high <= epsilon {
            return Verdict::Within;
        }
        if overload.low > epsilon {
            return Verdict::Beyond;
        }
        match finer(grid, precision) {
            Some(finer) => grid = finer,
            None => return Verdict::Undecided,
        }
    }
}

/// Grids with up to so many cells are used if they make rounding unnecessary: as the first one of
/// [`Precision::default`] refined twice.
const EXACT_CELLS: u64 = 4096;

fn first_grid(capacity: u64, mix: Mix<'_>, precision: Precision) -> Grid {
    let sources: Vec<_> = mix.iter().filter(|(_, count)| *count > 0).map(|(it, _)| *it).collect();
    Grid::fitting(capacity, sources, precision.cells, EXACT_CELLS.max(precision.cells))
}

fn finer(grid: Grid, precision: Precision) -> Option<Grid> {
    grid.finer().filter(|finer| finer.cells() <= precision.most_cells)
}

fn load(grid: Grid, mix: Mix<'_>) -> Load {
    let mut load = Load::new(grid);
    for (source, count) in mix {
        load.push_many(&grid.bin(source), *count);
    }
    load
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::source::Source;

    const GBIT: u64 = 1_000_000_000;

    #[test]
    fn a_goal_is_met_until_one_machine_too_many() {
        let source = Source::on_off(100_000_000, 0.1);
        let decide = |count| decide(GBIT, &[(&source, count)], 1e-3, Precision::default());
        // P(Bin(38, 0.1) > 10) is 9.0e-4, and with 39 it is 1.15e-3.
        assert_eq!(decide(10), Verdict::Within);
        assert_eq!(decide(38), Verdict::Within);
        assert_eq!(decide(39), Verdict::Beyond);
    }

    #[test]
    fn risk_is_as_precise_as_asked_for() {
        let one = Source::on_off(99_999_989, 0.1);
        let other = Source::new([(3, 0.5), (7_000_003, 0.3), (41_000_017, 0.2)]).unwrap();
        let risk = risk(GBIT, &[(&one, 30), (&other, 20)], Precision::default());
        assert!(risk.time.width() <= 0.05 && risk.time.low > 0.0, "{risk:?}");
        assert!(risk.traffic.width() <= 0.05 && risk.traffic.low > 0.0, "{risk:?}");
    }

    #[test]
    fn the_share_of_traffic_is_that_of_the_binomial() {
        // 20 sources of 100 Mb/s, each on for 0.4 of the time, on a link of 1 Gb/s.
        let source = Source::on_off(100_000_000, 0.4);
        let risk = risk(GBIT, &[(&source, 20)], Precision::default());
        let binomial = |k: i32| {
            let choose = (0..k).fold(1.0, |all, i| all * f64::from(20 - i) / f64::from(i + 1));
            choose * libm::pow(0.4, k.into()) * libm::pow(0.6, (20 - k).into())
        };
        let lost: f64 = (11..=20).map(|k| f64::from(k - 10) * binomial(k)).sum();
        assert!((risk.traffic.middle() / (lost / 8.0) - 1.0).abs() < 1e-12);
    }
}
