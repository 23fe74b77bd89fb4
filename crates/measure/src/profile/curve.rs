//! What a switch carries of what it is asked for, as a profile has it step by step.

use lab::SwitchKind;

use super::cases::{Load, Tunnel, Way};
use super::report::{Entry, Report};

/// What is carried against what is asked for, both as parts of what the median round carried at
/// most.
#[derive(Clone, Debug, PartialEq)]
pub struct Curve {
    /// Asked and carried, by rising asked; the first is nothing.
    points: Vec<(f64, f64)>,
}

impl Curve {
    /// The curve of an entry; none of streams, which have no steps.
    pub fn of(entry: &Entry) -> Option<Self> {
        let most = entry.fps.median;
        let steps = entry
            .curve
            .iter()
            .filter_map(|step| Some((step.target_fps? / most, step.carried_fps.median / most)));
        let mut points: Vec<(f64, f64)> = steps.filter(|(asked, _)| *asked > 0.0).collect();
        if points.is_empty() || most <= 0.0 {
            return None;
        }
        points.push((0.0, 0.0));
        points.sort_by(|one, other| one.0.total_cmp(&other.0));
        Some(Self { points })
    }

    /// What is carried if so much is asked for. Between steps it is interpolated; beyond the last
    /// it is what that carried.
    pub fn carried(&self, asked: f64) -> f64 {
        let above = self.points.partition_point(|(step, _)| *step < asked);
        match (above.checked_sub(1).map(|below| self.points[below]), self.points.get(above)) {
            (None, first) => first.map_or(0.0, |(_, carried)| *carried),
            (Some((_, last)), None) => last,
            (Some((below, least)), Some((above, most))) => {
                least + (most - least) * (asked - below) / (above - below)
            }
        }
    }
}

impl Report {
    /// The entries of frames that one plans with: of those with the most processors and the fewest
    /// far hosts that were measured.
    pub fn planned(&self, switch: SwitchKind, way: Way, tunnel: Tunnel) -> Vec<&Entry> {
        let there = || {
            self.results.iter().filter(|it| {
                (it.switch, it.way, it.tunnel, it.load) == (switch, way, tunnel, Load::Frames)
            })
        };
        let cores = there().map(|it| it.cores).max();
        let hosts = there().map(|it| it.far).min();
        there().filter(|it| (Some(it.cores), Some(it.far)) == (cores, hosts)).collect()
    }

    /// The curve of frames whose size is next to this one, by how many times larger one is, among
    /// those that one plans with.
    pub fn curve(&self, switch: SwitchKind, way: Way, tunnel: Tunnel, size: u32) -> Option<Curve> {
        let far = |it: &Entry| (f64::from(it.size) / f64::from(size)).ln().abs();
        let there = self.planned(switch, way, tunnel).into_iter();
        there.min_by(|one, other| far(one).total_cmp(&far(other))).and_then(Curve::of)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_curve_is_interpolated_and_goes_on_as_its_last_step() {
        let points = vec![(0.0, 0.0), (0.5, 0.5), (1.0, 0.9), (1.25, 0.7)];
        let curve = Curve { points };
        let near = |asked: f64, carried: f64| {
            let told = curve.carried(asked);
            assert!((told - carried).abs() < 1e-12, "{asked}: {told}");
        };
        near(0.0, 0.0);
        near(0.25, 0.25);
        near(0.75, 0.7);
        near(1.0, 0.9);
        near(1.125, 0.8);
        near(9.0, 0.7);
    }
}
