//! What processors did meanwhile, and so what it was that could do no more.

use std::collections::BTreeMap;
use std::thread::sleep;
use std::time::{Duration, Instant};

use lab::{Lab, ThreadTime};
use serde::{Deserialize, Serialize};
use units::Span;

use crate::environment::busy_here;
use crate::points::LostAt;
use crate::stats::median;
use crate::{Bench, MeasureError};

/// Who runs for this share of the time can do no more.
const FULL: f64 = 0.9;

/// Processors that are busy for this share of the time have none left.
const NONE_LEFT: f64 = 0.95;

/// How often a wait looks whether the user wants to stop.
const GLANCE: Duration = Duration::from_millis(50);

/// What could do no more, so that no more was carried.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Bound {
    /// The switch: its busiest thread had a processor for itself and used it, or frames were lost
    /// in it.
    Switch,
    /// The senders: they ran all the time. A bridge's work is done in their time.
    Senders,
    /// The receiver: it ran all the time, or frames were lost at its socket.
    Receiver,
    /// The processors: none was left, and more than one wanted it.
    Processors,
    /// Nobody ran all the time: they waited for one another, for a window or to be woken.
    Waiting,
}

/// The share of the time that each ran.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Busy {
    /// The busiest of the switch's threads, of a processor; none of a bridge, which has none.
    pub switch: Option<f64>,
    /// A sender, on average, of a processor.
    pub sender: f64,
    /// The receiver, of a processor.
    pub receiver: f64,
    /// All processors that the lab may use, whatever they ran.
    pub machine: f64,
}

/// What processors did for the middle part of a run.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Processors {
    /// The share of the time that the busiest of the switch's threads ran.
    pub busiest: Option<f64>,
    /// The share that it ran or was ready to.
    pub wanted: f64,
    /// The time of processors that all its threads had, a second.
    pub all: f64,
    /// The share that the processors that we may use were busy.
    pub machine: f64,
}

impl Processors {
    /// Looks at the middle part of a run that begins now.
    pub fn watch(bench: &Bench<'_>, lab: &Lab, duration: Span) -> Result<Self, MeasureError> {
        let part = Duration::from(duration) / 5;
        wait(bench, part)?;
        let before = Sample::take(lab)?;
        wait(bench, 3 * part)?;
        Ok(Sample::take(lab)?.since(&before))
    }

    /// Looks at all that is done meanwhile.
    pub fn during<T>(
        lab: &Lab,
        work: impl FnOnce() -> Result<T, MeasureError>,
    ) -> Result<(T, Self), MeasureError> {
        let before = Sample::take(lab)?;
        let done = work()?;
        Ok((done, Sample::take(lab)?.since(&before)))
    }
}

fn wait(bench: &Bench<'_>, time: Duration) -> Result<(), MeasureError> {
    let end = Instant::now() + time;
    while let Some(left) = end.checked_duration_since(Instant::now()) {
        bench.go_on()?;
        sleep(left.min(GLANCE));
    }
    Ok(())
}

/// What threads and processors had until one moment.
struct Sample {
    at: Instant,
    threads: BTreeMap<u32, ThreadTime>,
    /// Of the processors that we may use.
    machine_ns: u64,
    /// How many those are.
    cores: usize,
}

impl Sample {
    fn take(lab: &Lab) -> Result<Self, MeasureError> {
        let threads = lab.switch_threads()?.into_iter().map(|it| (it.id, it)).collect();
        let (machine_ns, cores) = busy_here()?;
        Ok(Self { at: Instant::now(), threads, machine_ns, cores })
    }

    fn since(&self, before: &Self) -> Processors {
        let ns = self.at.duration_since(before.at).as_nanos().max(1) as f64;
        let had = self.threads.values().map(|now| {
            let then = before.threads.get(&now.id).copied().unwrap_or_default();
            let ran = now.ran_ns.saturating_sub(then.ran_ns) as f64 / ns;
            (ran, ran + now.waited_ns.saturating_sub(then.waited_ns) as f64 / ns)
        });
        let busiest = had.clone().max_by(|one, other| one.0.total_cmp(&other.0));
        Processors {
            busiest: busiest.map(|(ran, _)| ran),
            wanted: busiest.map_or(0.0, |(_, wanted)| wanted),
            all: had.map(|(ran, _)| ran).sum(),
            machine: self.machine_ns.saturating_sub(before.machine_ns) as f64
                / ns
                / self.cores.max(1) as f64,
        }
    }
}

impl Busy {
    /// The median of each; none of a switch that once had no threads.
    pub fn middle(all: impl Iterator<Item = Self> + Clone) -> Self {
        let of =
            |figure: fn(&Self) -> f64| median(all.clone().map(|it| figure(&it))).unwrap_or(0.0);
        let has_threads = all.clone().all(|it| it.switch.is_some());
        Self {
            switch: has_threads.then(|| of(|it| it.switch.unwrap_or(0.0))),
            sender: of(|it| it.sender),
            receiver: of(|it| it.receiver),
            machine: of(|it| it.machine),
        }
    }
}

impl Bound {
    /// What could do no more where as much was sent as senders could.
    ///
    /// `wanted` is the share of the time that the switch's busiest thread ran or was ready to;
    /// `lost` is where frames were lost, if more were than one tolerates.
    pub fn of(busy: &Busy, wanted: f64, lost: Option<&LostAt>) -> Self {
        let is_short_of_time = wanted >= FULL && busy.switch.is_some_and(|it| it < FULL);
        match lost {
            Some(lost) if 2 * lost.receiver_socket > lost.total() => return Self::Receiver,
            Some(_) if is_short_of_time => return Self::Processors,
            Some(_) => return Self::Switch,
            None => {}
        }
        if busy.switch.is_some_and(|it| it >= FULL) {
            Self::Switch
        } else if busy.sender >= FULL {
            Self::Senders
        } else if busy.receiver >= FULL {
            Self::Receiver
        } else if is_short_of_time || busy.machine >= NONE_LEFT {
            Self::Processors
        } else {
            Self::Waiting
        }
    }
}

impl std::fmt::Display for Bound {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(match self {
            Self::Switch => "switch",
            Self::Senders => "senders",
            Self::Receiver => "receiver",
            Self::Processors => "processors",
            Self::Waiting => "waiting",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_busiest_of_a_switchs_threads_counts() {
        let at = Instant::now();
        let threads = |times: [(u32, u64, u64); 2]| {
            times.map(|(id, ran_ns, waited_ns)| (id, ThreadTime { id, ran_ns, waited_ns })).into()
        };
        let before =
            Sample { at, threads: threads([(1, 5, 0), (2, 100, 0)]), machine_ns: 0, cores: 2 };
        let after = Sample {
            at: at + Duration::from_nanos(1000),
            threads: threads([(2, 700, 300), (3, 50, 0)]),
            machine_ns: 1000,
            cores: 2,
        };
        let told = after.since(&before);
        let near = |one: f64, other: f64| (one - other).abs() < 1e-9;
        assert!(near(told.busiest.unwrap(), 0.6) && near(told.wanted, 0.9), "{told:?}");
        assert!(near(told.all, 0.65) && near(told.machine, 0.5), "{told:?}");
    }

    #[test]
    fn who_runs_all_the_time_is_the_bound() {
        let bound = |switch, sender, receiver, machine, wanted| {
            Bound::of(&Busy { switch, sender, receiver, machine }, wanted, None)
        };
        assert_eq!(bound(Some(0.97), 0.5, 0.4, 1.0, 0.98), Bound::Switch);
        assert_eq!(bound(Some(0.6), 0.95, 0.4, 0.8, 0.6), Bound::Senders);
        assert_eq!(bound(None, 0.5, 0.95, 0.8, 0.0), Bound::Receiver);
        assert_eq!(bound(Some(0.6), 0.5, 0.4, 0.8, 0.95), Bound::Processors);
        assert_eq!(bound(None, 0.7, 0.7, 0.99, 0.0), Bound::Processors);
        assert_eq!(bound(Some(0.2), 0.3, 0.3, 0.4, 0.2), Bound::Waiting);
    }

    #[test]
    fn where_frames_are_lost_is_the_bound() {
        let bound = |switch, wanted, lost: LostAt| {
            let busy = Busy { switch, sender: 1.0, receiver: 1.0, machine: 1.0 };
            Bound::of(&busy, wanted, Some(&lost))
        };
        let socket = LostAt { receiver_socket: 60, switch_in: 40, ..LostAt::default() };
        let inside = LostAt { receiver_socket: 40, switch_out: 60, ..LostAt::default() };
        assert_eq!(bound(None, 0.0, socket), Bound::Receiver);
        assert_eq!(bound(None, 0.0, inside), Bound::Switch);
        assert_eq!(bound(Some(0.5), 0.95, inside), Bound::Processors);
    }
}
