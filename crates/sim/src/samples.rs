//! How long queues are and who is paused, over time.
//!
//! ```text
//!  looks       ││││││││││││││││      every queue, as often as the scenario says
//!  stretches   └──┘└──┘└──┘└──┘      the longest that a queue was, how often a lane was paused
//! ```
//!
//! A stretch is one look, until there are as many as memory is set aside for; then each two become
//! one. So a run of any length takes the same memory, and its beginning is told as finely as its
//! end.
//!
//! Looking changes nothing of a run, and is no event.

use std::fmt;

use crate::fabric::Fabric;
use crate::graph::Graph;
use crate::host::Hosts;
use crate::machines::machine;
use crate::scenario::Scenario;
use crate::time::Time;
use crate::whose::Whose;

/// The most stretches of a run; an even number.
const MOST_STRETCHES: usize = 2048;

/// The most that is kept of all places in all stretches: 32 MiB.
const MOST_SPOTS: usize = 1 << 22;

/// What was seen of all queues.
pub struct Samples {
    every: Time,
    /// Each queue's port and class.
    places: Vec<(String, String)>,
    /// How many looks make a stretch, and how many there were in all.
    looks: u64,
    seen: u64,
    /// How many stretches there may be.
    most: usize,
    /// By stretch and place.
    spots: Vec<Spot>,
    /// What is seen now.
    now: Vec<Spot>,
}

/// A queue in a stretch.
#[derive(Clone, Copy, Debug, Default)]
struct Spot {
    /// The most bytes.
    bytes: u32,
    /// Looks at which it was paused.
    paused: u32,
}

/// A queue in a stretch in which it was not empty, or paused.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Sample<'a> {
    /// When the stretch begins, in nanoseconds.
    pub start_ns: u64,
    /// How long it is.
    pub span_ns: u64,
    /// The port: `leaf0-server3` sends from the first to the second, `worker@3/0` and `server3` are
    /// a virtual switch's.
    pub port: &'a str,
    /// The class.
    pub class: &'a str,
    /// The most that waited.
    pub queue_bytes: u64,
    /// The share of looks at which it was paused.
    pub paused: f64,
}

impl fmt::Debug for Samples {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Samples")
            .field("places", &self.places.len())
            .field("seen", &self.seen)
            .finish_non_exhaustive()
    }
}

impl Samples {
    /// Will look at every queue, so often.
    pub(crate) fn new(
        scenario: &Scenario,
        graph: &Graph,
        lanes: &[String],
        fabric: &Fabric,
        hosts: &Hosts,
        every: Time,
    ) -> Self {
        let mut places = Vec::new();
        look(fabric, hosts, |whose, lane, _, _| {
            let name = match whose {
                Whose::Port(port) => graph.link_name(port),
                Whose::Machine(number) => machine(scenario, number),
                Whose::Uplink(host) => graph.name(host).to_string(),
            };
            places.push((name, lanes[usize::from(lane)].clone()));
        });
        let most = (MOST_SPOTS / places.len().max(1)).clamp(16, MOST_STRETCHES) & !1;
        Self { every, places, looks: 1, seen: 0, most, spots: Vec::new(), now: Vec::new() }
    }

    /// When the next look is due.
    pub(crate) fn due(&self) -> Time {
        Time::from_picos((self.seen + 1).saturating_mul(self.every.as_picos()))
    }

    /// Takes all looks that are due until `now`. Nothing has changed since the last event, so that
    /// one serves for all.
    #[cold]
    pub(crate) fn look(&mut self, now: Time, fabric: &Fabric, hosts: &Hosts) {
        let mut due = (now.as_picos() / self.every.as_picos()).saturating_sub(self.seen);
        if due == 0 {
            return;
        }
        let seen = &mut self.now;
        seen.clear();
        look(fabric, hosts, |_, _, bytes, paused| {
            seen.push(Spot {
                bytes: u32::try_from(bytes).unwrap_or(u32::MAX),
                paused: paused.into(),
            });
        });
        while due > 0 {
            let left = self.seen.next_multiple_of(self.looks) - self.seen;
            let left = if left == 0 { self.begin_stretch() } else { left };
            let count = left.min(due);
            let last = self.spots.len() - self.places.len();
            for (spot, now) in self.spots[last..].iter_mut().zip(&self.now) {
                spot.bytes = spot.bytes.max(now.bytes);
                let paused = now.paused * u32::try_from(count).unwrap_or(u32::MAX);
                spot.paused = spot.paused.saturating_add(paused);
            }
            self.seen += count;
            due -= count;
        }
    }

    /// Makes room for another stretch; how many looks it has.
    fn begin_stretch(&mut self) -> u64 {
        let places = self.places.len();
        if self.spots.len() == self.most * places {
            for stretch in 0..self.most / 2 {
                for place in 0..places {
                    let [a, b] =
                        [0, 1].map(|half| self.spots[(2 * stretch + half) * places + place]);
                    let both = Spot {
                        bytes: a.bytes.max(b.bytes),
                        paused: a.paused.saturating_add(b.paused),
                    };
                    self.spots[stretch * places + place] = both;
                }
            }
            self.spots.truncate(self.most / 2 * places);
            self.looks *= 2;
        }
        self.spots.resize(self.spots.len() + places, Spot::default());
        self.looks
    }

    /// What there is to tell, in the order of time.
    pub fn iter(&self) -> impl Iterator<Item = Sample<'_>> {
        let stretches = self.spots.chunks(self.places.len().max(1)).enumerate();
        stretches.flat_map(move |(stretch, spots)| {
            let begun = stretch as u64 * self.looks;
            let looks = self.looks.min(self.seen - begun);
            let [start_ns, span_ns] = [begun, looks]
                .map(|count| Time::from_picos(count * self.every.as_picos()).as_nanos());
            let told =
                self.places.iter().zip(spots).filter(|(_, spot)| spot.bytes > 0 || spot.paused > 0);
            told.map(move |((port, class), spot)| Sample {
                start_ns,
                span_ns,
                port,
                class,
                queue_bytes: spot.bytes.into(),
                paused: f64::from(spot.paused) / looks as f64,
            })
        })
    }
}

/// Looks at every queue: whose it is, its lane, its bytes, and whether it is paused. Always in the
/// same order.
fn look(fabric: &Fabric, hosts: &Hosts, mut see: impl FnMut(Whose, u8, u64, bool)) {
    fabric.look(|port, lane, bytes, paused| see(Whose::Port(port), lane, bytes, paused));
    hosts.look(see);
}
