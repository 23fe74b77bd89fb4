//! Demands against which a switch's profile is held: constant ones, of which some ask for less of
//! its time than there is and some for more, by a tenth at least.
//!
//! Mixes take turns, so that a few of them already have all kinds: less and more; within the host
//! and, every other pair, by the link; frames of one size and, every other four, each sender's own.

use serde::Serialize;
use units::Rng;

use crate::plan::Plan;
use crate::profile::Costs;

/// The least and the most that is asked for of the switch's time.
const LEAST: f64 = 0.5;
const MOST: f64 = 1.5;

/// Nearer to all of its time than this, a profile tells nothing.
pub const MARGIN: f64 = 0.1;

/// Constant demands of several senders together.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Mix {
    /// What is asked for of the switch's time, as the median round of its profile has it: 1 is all
    /// of it.
    pub load: f64,
    /// Whether frames go to another host.
    pub is_far: bool,
    /// What each sender asks for.
    pub demands: Vec<Demand>,
}

/// What a sender asks for.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Demand {
    /// Bytes a frame.
    pub frame: u32,
    /// Frames a second.
    pub frames_per_sec: f64,
}

impl Mix {
    /// Whether the switch carries it, by its profile.
    pub fn fits(&self) -> bool {
        self.load <= 1.0
    }

    /// What all senders ask for, in frames a second.
    pub fn frames_per_sec(&self) -> f64 {
        self.demands.iter().map(|it| it.frames_per_sec).sum()
    }
}

/// Draws so many mixes of so many senders for the switch of a host; none if it has no profile.
pub fn mixes(plan: &Plan, host: usize, count: u32, senders: u32, seed: u64) -> Option<Vec<Mix>> {
    let costs = plan.kind_of(host).costs.as_ref()?;
    let mut rng = Rng::new(seed);
    Some((0..count).map(|number| drawn(costs, number, senders, &mut rng)).collect())
}

fn drawn(costs: &Costs, number: u32, senders: u32, rng: &mut Rng) -> Mix {
    let turn = |every: u32| number / every % 2 == 1;
    let (from, to) = if turn(1) { (1.0 + MARGIN, MOST) } else { (LEAST, 1.0 - MARGIN) };
    let load = from + (to - from) * rng.unit_f64();
    let (is_far, is_mixed) = (turn(2), turn(4));
    let (least, most) = costs.frames;
    let ratio = f64::from(most) / f64::from(least);
    let mut size = || {
        let size = f64::from(least) * ratio.powf(rng.unit_f64());
        (size.round() as u32).clamp(least, most)
    };
    let first = size();
    let sizes: Vec<u32> =
        (0..senders).map(|sender| if is_mixed && sender > 0 { size() } else { first }).collect();
    let parts: Vec<f64> = sizes.iter().map(|_| 0.5 + rng.unit_f64()).collect();
    let all: f64 = parts.iter().sum();
    let demands = sizes.iter().zip(&parts).map(|(frame, part)| {
        let secs = costs.typical.secs((*frame).into(), f64::from(u8::from(is_far)));
        Demand { frame: *frame, frames_per_sec: load * part / all / secs }
    });
    Mix { load, is_far, demands: demands.collect() }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::fs;

    use super::*;

    fn costs() -> Costs {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("host.json");
        let entry = |way: &str, tunnel: &str, size: u32, fps: f64| {
            serde_json::json!({
                "switch": "zovn", "way": way, "tunnel": tunnel, "load": "frames", "offload": false,
                "size": size, "fps": {"q1": 0.9 * fps, "median": fps}, "bound_by": "switch",
                "at_least": false,
            })
        };
        let results = [
            entry("host", "none", 64, 200e3),
            entry("host", "none", 1514, 100e3),
            entry("link", "geneve", 64, 50e3),
            entry("link", "geneve", 1514, 25e3),
        ];
        let profile = serde_json::json!({"experiment": "profile", "results": results});
        fs::write(&path, profile.to_string()).unwrap();
        Costs::read(&path, "zovn", Some("geneve")).unwrap()
    }

    fn all(seed: u64) -> Vec<Mix> {
        let (costs, mut rng) = (costs(), Rng::new(seed));
        (0..80).map(|number| drawn(&costs, number, 3, &mut rng)).collect()
    }

    #[test]
    fn mixes_ask_for_less_and_for_more_in_turn_and_never_for_nearly_all() {
        for (number, mix) in all(1).iter().enumerate() {
            assert_eq!(mix.fits(), number % 2 == 0);
            let (from, to) = if mix.fits() { (0.5, 0.9) } else { (1.1, 1.5) };
            assert!((from..=to).contains(&mix.load), "{mix:?}");
            assert_eq!(mix.is_far, number / 2 % 2 == 1);
            let sizes: BTreeSet<_> = mix.demands.iter().map(|it| it.frame).collect();
            assert!(sizes.iter().all(|size| (64..=1514).contains(size)), "{sizes:?}");
            // Three drawn sizes are hardly ever the same.
            assert_eq!(sizes.len() > 1, number / 4 % 2 == 1, "{mix:?}");
        }
        assert_eq!(all(1), all(1));
        assert_ne!(all(1), all(2));
    }

    #[test]
    fn what_senders_ask_for_adds_up_to_the_load_by_the_median_round() {
        let costs = costs();
        for mix in all(3) {
            let remote = if mix.is_far { 1.0 } else { 0.0 };
            let secs = |it: &Demand| costs.typical.secs(it.frame.into(), remote);
            let load: f64 = mix.demands.iter().map(|it| it.frames_per_sec * secs(it)).sum();
            assert!((load - mix.load).abs() < 1e-9, "{load} {mix:?}");
            let all = mix.frames_per_sec();
            assert!(mix.demands.iter().all(|it| it.frames_per_sec > 0.05 * all), "{mix:?}");
        }
    }
}
