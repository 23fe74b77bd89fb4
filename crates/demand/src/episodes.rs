//! How often a sum rises above a capacity, and for how long.

use crate::bracket::Bracket;
use crate::grid::Grid;
use crate::load::Load;
use crate::model::Model;

/// How often the sum is above the capacity, and how long each time.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Episodes {
    /// How often the sum rises above the capacity, a second.
    pub per_second: Bracket,
    /// The mean length of a stay above it, in seconds; `None` if the sum may never rise there.
    pub mean_secs: Option<Bracket>,
}

/// The episodes of overload of independent machines. Each model counts as often as its number
/// says.
///
/// A machine that jumps from rate a to rate b lifts the sum above C if the others are between C −
/// b and C − a then. Others are seen at a random time by it, so the number of such jumps is Σ
/// (jumps a second) · P(C − b < others ≤ C − a), whatever the shape of holding times; the mean
/// length is the share of time above, divided by it. How much lengths differ does depend on the
/// shape.
pub fn episodes(grid: Grid, machines: &[(&Model, u32)]) -> Episodes {
    let binned: alloc::vec::Vec<_> =
        machines.iter().map(|(model, count)| (grid.bin(&model.source()), *count)).collect();
    let sum = |without: Option<usize>| {
        let mut load = Load::new(grid);
        for (place, (source, count)) in binned.iter().enumerate() {
            load.push_many(source, count - u32::from(without == Some(place)));
        }
        load
    };
    let mut per_second = Bracket { low: 0.0, high: 0.0 };
    for (place, (model, count)) in machines.iter().enumerate().filter(|(_, (_, count))| *count > 0)
    {
        let others = sum(Some(place));
        for (from, to, often) in model.moves().filter(|(from, to, _)| to > from) {
            let lifts = lifts(&others, from, to);
            per_second.low += f64::from(*count) * often * lifts.low;
            per_second.high += f64::from(*count) * often * lifts.high;
        }
    }
    let above = sum(None).overload();
    let mean_secs = (per_second.low > 0.0)
        .then(|| Bracket { low: above.low / per_second.high, high: above.high / per_second.low });
    Episodes { per_second, mean_secs }
}

/// The chance that the sum of the others is such that a jump takes it above the capacity.
fn lifts(others: &Load, from: u64, to: u64) -> Bracket {
    let capacity = others.grid().capacity();
    // A rate above the capacity is too much whatever the others do.
    let above = |rate: u64| match capacity.checked_sub(rate) {
        Some(rest) => others.above(rest),
        None => Bracket { low: 1.0, high: 1.0 },
    };
    let (after, before) = (above(to), above(from));
    Bracket { low: after.low - before.high, high: after.high - before.low }.probability()
}

#[cfg(test)]
mod tests {
    use super::*;
    use units::Span;

    fn on_off(rate: u64) -> Model {
        Model::on_off(rate, Span::from_secs(2), Span::from_secs(6)).unwrap()
    }

    #[test]
    fn one_machine_above_the_capacity_is_one_episode_a_cycle() {
        let model = on_off(200);
        let found = episodes(Grid::new(100, 64), &[(&model, 1)]);
        assert!(found.per_second.contains(1.0 / 8.0));
        assert!(found.mean_secs.unwrap().contains(2.0));
    }

    #[test]
    fn two_machines_are_above_while_both_are_on() {
        let model = on_off(60);
        let found = episodes(Grid::fitting(100, [&model.source()], 64, 64), &[(&model, 2)]);
        // Each comes on once in 8 s, and the other is on for a quarter of the time. Both are on for
        // a sixteenth of it.
        assert!(found.per_second.contains(2.0 / 8.0 / 4.0), "{found:?}");
        assert!(found.mean_secs.unwrap().contains(1.0), "{found:?}");
    }

    #[test]
    fn what_always_fits_has_no_episodes() {
        let model = on_off(50);
        let found = episodes(Grid::new(100, 64), &[(&model, 2)]);
        assert_eq!(
            found,
            Episodes { per_second: Bracket { low: 0.0, high: 0.0 }, mean_secs: None }
        );
    }
}
