//! What networks had of a switch's thread beside one another.

use std::time::Instant;

use model::{AgentStatus, ThreadUse};
use serde::{Deserialize, Serialize};

use crate::stats;

/// What a victim's network and all others had of the thread.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Spent {
    /// The part of the time in which the thread was the victim's.
    pub victim: f64,
    /// The part in which it was the others'.
    pub others: f64,
    /// How long it took over one of the victim's frames, in nanoseconds.
    pub victim_frame_ns: f64,
    /// How long over one of the others'.
    pub others_frame_ns: f64,
    /// The longest visit to one of the others' ports lately, in microseconds.
    pub longest_visit_us: f64,
}

/// What they had until one moment.
#[derive(Clone, Copy, Debug)]
pub struct Sample {
    at: Instant,
    victim: Sum,
    others: Sum,
    longest_visit_us: u64,
}

#[derive(Clone, Copy, Debug, Default)]
struct Sum {
    ns: u64,
    frames: u64,
}

impl Sum {
    fn add(&mut self, used: &ThreadUse) {
        self.ns += used.used_ns;
        self.frames += used.frames;
    }

    fn since(self, before: Self) -> Self {
        Self {
            ns: self.ns.saturating_sub(before.ns),
            frames: self.frames.saturating_sub(before.frames),
        }
    }

    fn frame_ns(self) -> f64 {
        self.ns as f64 / self.frames.max(1) as f64
    }
}

impl Sample {
    /// By what an agent says now, where this is the victim's network.
    pub fn of(status: &AgentStatus, victim: &str) -> Self {
        let mut sample = Self {
            at: Instant::now(),
            victim: Sum::default(),
            others: Sum::default(),
            longest_visit_us: 0,
        };
        for network in &status.networks {
            if network.name.0 == victim {
                sample.victim.add(&network.thread);
            } else {
                sample.others.add(&network.thread);
                let longest = &mut sample.longest_visit_us;
                *longest = (*longest).max(network.thread.longest_visit_us);
            }
        }
        sample
    }

    /// What they have had since `before`.
    pub fn since(&self, before: &Self) -> Spent {
        let ns = self.at.duration_since(before.at).as_nanos().max(1) as f64;
        let (victim, others) = (self.victim.since(before.victim), self.others.since(before.others));
        Spent {
            victim: victim.ns as f64 / ns,
            others: others.ns as f64 / ns,
            victim_frame_ns: victim.frame_ns(),
            others_frame_ns: others.frame_ns(),
            longest_visit_us: self.longest_visit_us as f64,
        }
    }
}

impl Spent {
    /// The medians of some rounds, and the longest visit of all; none of none.
    pub fn of_rounds(rounds: &[Self]) -> Option<Self> {
        let median = |of: fn(&Self) -> f64| stats::median(rounds.iter().map(of));
        Some(Self {
            victim: median(|one| one.victim)?,
            others: median(|one| one.others)?,
            victim_frame_ns: median(|one| one.victim_frame_ns)?,
            others_frame_ns: median(|one| one.others_frame_ns)?,
            longest_visit_us: rounds.iter().map(|one| one.longest_visit_us).fold(0.0, f64::max),
        })
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn what_was_had_in_between_is_told() {
        let at = Instant::now();
        let sum = |ns, frames| Sum { ns, frames };
        let before = Sample { at, victim: sum(100, 1), others: sum(0, 0), longest_visit_us: 90 };
        let after = Sample {
            at: at + Duration::from_micros(1),
            victim: sum(300, 3),
            others: sum(600, 20),
            longest_visit_us: 30,
        };
        let spent = after.since(&before);
        assert_eq!((spent.victim, spent.others), (0.2, 0.6));
        assert_eq!((spent.victim_frame_ns, spent.others_frame_ns), (100.0, 30.0));
        let rounds = [spent, Spent { longest_visit_us: 7.0, ..spent }];
        assert_eq!(Spent::of_rounds(&rounds), Some(spent));
        assert_eq!(Spent::of_rounds(&[]), None);
    }
}
