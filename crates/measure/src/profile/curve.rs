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
        let steps = entry.curve.iter().filter_map(|step| {
            let target_fps = step.target_fps?;
            // Of less than the switch carries, what was not sent is what senders fell short of by
            // themselves. Of more, it may be that the switch held them back.
            let is_less = target_fps < most;
            let asked_fps = if is_less { target_fps.min(step.sent_fps) } else { target_fps };
            Some((asked_fps / most, step.carried_fps.median / most))
        });
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
    use super::super::processors::{Bound, Busy};
    use super::super::report::Step;
    use super::*;
    use crate::stats::Quartiles;

    /// The curve of a switch that carries 100 frames a second, by what senders aimed at, sent, and
    /// what of it was carried.
    fn curve<const N: usize>(steps: [(f64, f64, f64); N]) -> Curve {
        let all = |fps: f64| Quartiles::of([fps]).unwrap();
        let step = |(target, sent_fps, carried): (f64, f64, f64)| Step {
            target_fps: Some(target),
            sent_fps,
            carried_fps: all(carried),
            loss_ratio: 1.0 - carried / sent_fps,
        };
        let entry = Entry {
            switch: SwitchKind::Zovn,
            way: Way::Host,
            tunnel: Tunnel::None,
            far: 0,
            underlay: None,
            cores: 1,
            load: Load::Frames,
            offload: false,
            size: 64,
            fps: all(100.0),
            gbps: all(1.0),
            bound_by: Bound::Switch,
            at_least: false,
            busy: Busy::default(),
            switch_ns_per_frame: None,
            curve: steps.map(step).to_vec(),
            lost: 0,
            duplicates: 0,
            balanced: None,
        };
        Curve::of(&entry).unwrap()
    }

    #[test]
    fn what_senders_fall_short_of_by_themselves_is_not_asked_for() {
        // Of 80 frames 60 were sent, and all of these were carried.
        let short = curve([(50.0, 50.0, 50.0), (80.0, 60.0, 60.0), (110.0, 99.0, 99.0)]);
        assert_eq!(short.points, [(0.0, 0.0), (0.5, 0.5), (0.6, 0.6), (1.1, 0.99)]);
        assert!((short.carried(0.8) - 0.756).abs() < 1e-9, "{}", short.carried(0.8));
        // What the switch loses, and what it holds back beyond what it carries, is asked for.
        let lossy = curve([(80.0, 80.0, 60.0), (125.0, 125.0, 70.0)]);
        assert_eq!(lossy.points, [(0.0, 0.0), (0.8, 0.6), (1.25, 0.7)]);
        let held = curve([(125.0, 90.0, 90.0)]);
        assert_eq!(held.points, [(0.0, 0.0), (1.25, 0.9)]);
    }

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
