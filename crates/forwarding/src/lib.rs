//! How fast the switch is by itself: frames between ports in its own memory, with nothing behind
//! them.
//!
//! ```text
//!   generator j ─▶ MemoryPort ─▶ Plane ─▶ MemoryPort ─▶ sink k
//!   └────────── one thread, or one for these and one for the plane ──────────┘
//! ```
//!
//! With one thread the three take turns, and the switch's own share of the time can be told apart:
//! cycles are counted around [`Plane::turn`] alone, the reading of its clock included. With two
//! threads the whole is as fast as its slower half.

#![forbid(unsafe_code)]

use std::sync::atomic::{AtomicBool, Ordering};

use kernel::{clock, cycles};
pub use lossless::ClassKind;
use lossless::{Classes, PortConfig, Settings};
use plane::{NoGate, NoPeers, NoResponder};
use port::memory::{MemoryConfig, MemoryEnd, MemoryPort, pair};
use units::{Instant, Mac, Span, Ticks};
use wire::ethernet::{Header, ethertype};

/// Slots of a port in each direction: two bursts and as many again on their way back.
const SLOTS: u32 = 256;

/// The most frames that a generator sends before the next one's turn: what the plane takes in a
/// visit.
const BURST: usize = 64;

/// Frames that are carried before the clock starts, so that memory is there and caches are warm.
const WARM_UP: u64 = 100_000;

/// Who sends to whom. Every sender and every receiver has a port of its own.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Flows {
    /// Each of so many senders has its own receiver.
    Pairs(u32),
    /// So many senders have one receiver, so frames wait for it.
    Incast(u32),
}

/// How the work is shared among processors.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Threads {
    /// Generators, switch and sinks take turns.
    One,
    /// The switch has a thread of its own.
    Two,
}

/// What is measured.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct MemoryRun {
    /// What the frames' class promises.
    pub kind: ClassKind,
    /// Bytes a frame, from the Ethernet header on; at least that header.
    pub size: u32,
    /// Who sends to whom.
    pub flows: Flows,
    /// How the work is shared.
    pub threads: Threads,
    /// How long generators send.
    pub duration: Span,
}

/// What was carried.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct MemoryResult {
    /// Frames that the sinks got, after warming up.
    pub frames: u64,
    /// Bytes of those frames.
    pub bytes: u64,
    /// Frames that were sent and did not arrive; none of a lossless class.
    pub lost: u64,
    /// From the first frame to the last, generators and sinks included.
    pub elapsed: Span,
    /// The part of it that the switch took, where it can be told: with one thread, on a processor
    /// that counts.
    pub switch: Option<Share>,
}

/// The switch's part of a run.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Share {
    /// The time inside the switch's turns.
    pub time: Span,
    /// The same in cycles of the time stamp counter.
    pub cycles: u64,
}

/// Why nothing can be measured.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
pub enum MemoryRunError {
    /// The frames are too short for a header, or too long for a slot.
    #[error("cannot carry frames of {0} bytes between memory ports: choose {min} to {max}", min = Header::LEN, max = MAX_SIZE)]
    Size(u32),
    /// Nobody sends, or there would be more ports than a switch has.
    #[error("cannot carry {0} flows between memory ports: choose 1 to {MAX_FLOWS}")]
    Flows(u32),
}

const MAX_SIZE: u32 = 65_536;
const MAX_FLOWS: u32 = 256;

/// Bytes of a slot that frames up to the usual length lie in, so that short frames are as far apart
/// as in earnest.
const SLOT_SIZE: u32 = 2048;

/// Carries frames between memory ports for a while.
///
/// # Errors
///
/// [`MemoryRunError`]
pub fn memory_throughput(run: &MemoryRun) -> Result<MemoryResult, MemoryRunError> {
    let mut world = World::new(run.kind, run.size, run.flows)?;
    while world.ends.arrived < WARM_UP {
        world.round(clock::now());
    }
    let warm = world.ends.arrived;
    let (elapsed, arrived, switch) = match run.threads {
        Threads::One => one_thread(&mut world, run.duration),
        Threads::Two => two_threads(&mut world, run.duration),
    };
    world.drain();
    let frames = arrived - warm;
    Ok(MemoryResult {
        frames,
        bytes: frames * u64::from(run.size),
        lost: world.ends.sent - world.ends.arrived,
        elapsed,
        switch,
    })
}

/// A switch between ports in its own memory that books its time as an agent's does.
type Plane = plane::Plane<MemoryPort, NoPeers, NoResponder, NoGate, Cycles>;

/// The processor's counter; how fast it is, nobody asks here.
#[derive(Clone, Copy, Debug, Default)]
pub struct Cycles;

impl Ticks for Cycles {
    #[inline]
    fn now(&self) -> u64 {
        cycles::now().unwrap_or(0)
    }

    fn per_second(&self) -> u64 {
        1_000_000_000
    }
}

/// Generators and sinks at the ports of a plane, to be driven a round at a time.
pub struct World {
    plane: Plane,
    ends: Ends,
}

/// What is outside the switch.
struct Ends {
    generators: Vec<(MemoryEnd, [u8; Header::LEN])>,
    sinks: Vec<MemoryEnd>,
    size: usize,
    sent: u64,
    arrived: u64,
}

impl World {
    /// Ports for these flows, each frame's way known, nothing sent.
    ///
    /// # Errors
    ///
    /// [`MemoryRunError`]
    pub fn new(kind: ClassKind, size: u32, flows: Flows) -> Result<Self, MemoryRunError> {
        let (senders, receivers) = match flows {
            Flows::Pairs(pairs) => (pairs, pairs),
            Flows::Incast(senders) => (senders, 1),
        };
        if senders == 0 || senders > MAX_FLOWS {
            return Err(MemoryRunError::Flows(senders));
        }
        if (size as usize) < Header::LEN || size > MAX_SIZE {
            return Err(MemoryRunError::Size(size));
        }
        let switch = Settings { classes: Classes::all(kind), ..Settings::default() };
        let mut plane =
            Plane::with_stages(switch, datapath::Settings::default(), NoResponder, NoGate);
        let served = PortConfig { permits: plane::PERMITS, ..PortConfig::default() };
        let mut attach = |number: u32| {
            let config = MemoryConfig { slots: SLOTS, slot_size: size.max(SLOT_SIZE) };
            let (port, end) = pair(config);
            let id = plane
                .attach(Instant::ZERO, port, served, datapath::PortConfig::default())
                .expect("the number was checked");
            plane.datapath_mut().pin(id, Mac::local(number), 0);
            end
        };
        let sinks = (0..receivers).map(&mut attach).collect();
        let generators = (0..senders).map(|sender| {
            let (source, destination) =
                (Mac::local(receivers + sender), Mac::local(sender % receivers));
            let header = Header::new(destination, source, ethertype::IPV4);
            (attach(receivers + sender), zerocopy::transmute!(header))
        });
        let generators = generators.collect();
        Ok(Self {
            ends: Ends { generators, sinks, size: size as usize, sent: 0, arrived: 0 },
            plane,
        })
    }

    /// A burst of each generator, a turn of the switch, and all that the sinks were given. Returns
    /// how many frames they got.
    pub fn round(&mut self, now: Instant) -> u64 {
        self.ends.send();
        turn(&mut self.plane, now);
        self.ends.take()
    }

    /// Rounds without generators, until nothing is on its way.
    fn drain(&mut self) {
        while turn(&mut self.plane, clock::now()) | (self.ends.take() > 0) {}
    }
}

impl Ends {
    fn send(&mut self) {
        for (end, header) in &mut self.generators {
            let sent = end.send_batch(BURST, |slot| {
                slot[..Header::LEN].copy_from_slice(header);
                self.size
            });
            self.sent += sent as u64;
        }
    }

    fn take(&mut self) -> u64 {
        let taken = self.sinks.iter_mut().map(|sink| sink.receive(usize::MAX, |_| ()) as u64).sum();
        self.arrived += taken;
        taken
    }
}

/// One turn of the switch; nothing tells it which generator sent, so it looks at every port.
fn turn(plane: &mut Plane, now: Instant) -> bool {
    plane.mark_all_rx_ready();
    plane.turn(now)
}

fn one_thread(world: &mut World, duration: Span) -> (Span, u64, Option<Share>) {
    let World { plane, ends } = world;
    let (begun, first) = (clock::now(), cycles::now());
    let until = begun + duration;
    let mut spent = 0;
    let now = loop {
        ends.send();
        let before = cycles::now();
        turn(plane, clock::now());
        spent += cycles_since(before).unwrap_or(0);
        ends.take();
        let now = clock::now();
        if now >= until {
            break now;
        }
    };
    let elapsed = now.since(begun);
    let share = cycles_since(first).map(|all| {
        // The counter's rate is what it counted in the time that passed.
        let ns = u128::from(elapsed.as_nanos()) * u128::from(spent) / u128::from(all.max(1));
        Share { time: Span::from_nanos(ns as u64), cycles: spent }
    });
    (elapsed, ends.arrived, share)
}

fn two_threads(world: &mut World, duration: Span) -> (Span, u64, Option<Share>) {
    let World { plane, ends } = world;
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let switch = scope.spawn(|| {
            // Only a turn after the last frame was sent can tell that none is left.
            while {
                let stopped = stop.load(Ordering::Acquire);
                let moved = turn(plane, clock::now());
                if !moved {
                    std::thread::yield_now();
                }
                moved || !stopped || plane.switch().total().held > 0
            } {}
        });
        let begun = clock::now();
        while clock::now().since(begun) < duration {
            ends.send();
            if ends.take() == 0 {
                std::thread::yield_now();
            }
        }
        let (elapsed, arrived) = (clock::now().since(begun), ends.arrived);
        stop.store(true, Ordering::Release);
        while !switch.is_finished() {
            ends.take();
        }
        (elapsed, arrived, None)
    })
}

fn cycles_since(before: Option<u64>) -> Option<u64> {
    Some(cycles::now()?.wrapping_sub(before?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lossless_switch_delivers_all_that_was_sent() {
        for threads in [Threads::One, Threads::Two] {
            for flows in [Flows::Pairs(1), Flows::Pairs(3), Flows::Incast(8)] {
                let kind = ClassKind::Lossless;
                let run =
                    MemoryRun { kind, size: 64, flows, threads, duration: Span::from_millis(10) };
                let result = memory_throughput(&run).unwrap();
                assert_eq!(result.lost, 0, "{run:?}");
                assert_eq!(result.bytes, 64 * result.frames);
            }
        }
    }

    #[test]
    fn an_incast_overwhelms_a_lossy_class() {
        let (kind, flows) = (ClassKind::Lossy, Flows::Incast(8));
        let run = MemoryRun {
            kind,
            size: 64,
            flows,
            threads: Threads::One,
            duration: Span::from_millis(10),
        };
        assert!(memory_throughput(&run).unwrap().lost > 0);
    }

    #[test]
    fn what_cannot_be_carried_is_said() {
        let size = |size| World::new(ClassKind::Lossless, size, Flows::Pairs(1)).err();
        assert_eq!(size(13), Some(MemoryRunError::Size(13)));
        assert_eq!(size(14), None);
        let flows = World::new(ClassKind::Lossless, 64, Flows::Incast(0)).err();
        assert_eq!(flows, Some(MemoryRunError::Flows(0)));
    }
}
