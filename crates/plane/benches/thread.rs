//! What is left of the switch's thread for a network that is guaranteed frames, while others do
//! with it what they can.
//!
//! `cargo bench -p plane --bench thread`. The switch and everybody else take turns on one thread,
//! and time passes in the switch's turns alone: so it has a processor of its own.
//!
//! ```text
//!   victim: 64 bytes, 50,000 a second ─▶ port ─┐        ┌─▶ port ─▶ when did it come?
//!                                              ├─ Plane ┤
//!   8 ports: 64 bytes, as fast as they can ────┘        └─▶ a port that takes a while for each
//! ```
//!
//! Then three networks that all send as fast as they can, and what each has of the thread.

#![expect(clippy::print_stdout, reason = "what is measured is printed")]

use std::cell::Cell;

use datapath::Network;
use kernel::cycles::Counter;
use lossless::{PortConfig, Settings};
use plane::{NoGate, NoPeers, NoResponder, ThreadTerms};
use port::memory::{MemoryConfig, MemoryEnd, MemoryPort, pair};
use port::{FrameView, Left, Port, PortError, Slot, Taken};
use units::{Instant, Mac, Span, Ticks};
use wire::ethernet::{Header, ethertype};

thread_local! {
    /// Ticks that passed outside of the switch.
    static ELSEWHERE: Cell<u64> = const { Cell::new(0) };
}

/// The ticks of the switch.
#[derive(Default)]
struct Own(Counter);

impl Ticks for Own {
    #[inline]
    fn now(&self) -> u64 {
        self.0.now() - ELSEWHERE.get()
    }

    fn per_second(&self) -> u64 {
        self.0.per_second()
    }
}

type Plane = plane::Plane<Costly, NoPeers, NoResponder, NoGate, Own>;

/// A port in memory whose receiver takes a while for each frame, as a container's does.
struct Costly {
    port: MemoryPort,
    counter: Counter,
    ticks: u64,
    look: u32,
}

impl Port for Costly {
    fn receive(
        &mut self,
        most: usize,
        arrived: impl FnMut(Slot, &FrameView<'_>),
    ) -> Result<Left, PortError> {
        self.port.receive(most, arrived)
    }

    fn frame(&self, slot: Slot) -> FrameView<'_> {
        self.port.frame(slot)
    }

    fn release(&mut self, slot: Slot) {
        self.port.release(slot);
    }

    fn frames_a_look(&self) -> u32 {
        self.look
    }

    fn transmit(&mut self, frame: &FrameView<'_>) -> Result<Taken, PortError> {
        if self.ticks > 0 {
            let begun = self.counter.now();
            while self.counter.now().wrapping_sub(begun) < self.ticks {}
        }
        self.port.transmit(frame)
    }

    fn deliver(&mut self) -> Result<(), PortError> {
        self.port.deliver()
    }

    fn flush(&mut self) -> Result<bool, PortError> {
        self.port.flush()
    }
}

/// A network: senders and one receiver.
struct Side {
    senders: Vec<(MemoryEnd, [u8; Header::LEN])>,
    sink: MemoryEnd,
}

fn attach(plane: &mut Plane, network: u16, number: u32, cost: Span) -> MemoryEnd {
    let (port, end) = pair(MemoryConfig { slots: 256, slot_size: 2048 });
    let counter = Counter::default();
    let ticks =
        (u128::from(cost.as_nanos()) * u128::from(counter.per_second()) / 1_000_000_000) as u64;
    let look = if ticks > 0 { 1 } else { 16 };
    let network = Network::new(network).expect("few networks");
    let config = PortConfig { permits: plane::PERMITS, ..PortConfig::default() };
    let forwarding = datapath::PortConfig { network, ..Default::default() };
    let device = Costly { port, counter, ticks, look };
    let id = plane.attach(Instant::ZERO, device, config, forwarding).expect("few ports");
    plane.datapath_mut().pin(id, Mac::local(number), 0);
    end
}

fn side(plane: &mut Plane, network: u16, senders: u32, cost: Span) -> Side {
    let base = u32::from(network) * 100;
    let sink = attach(plane, network, base, cost);
    let senders = (1..=senders).map(|from| {
        let header = Header::new(Mac::local(base), Mac::local(base + from), ethertype::IPV4);
        (attach(plane, network, base + from, Span::ZERO), zerocopy::transmute!(header))
    });
    Side { senders: senders.collect(), sink }
}

/// A plane, what is outside, and the switch's time.
struct World {
    plane: Plane,
    sides: Vec<Side>,
    own: Own,
    begun: u64,
}

impl World {
    /// Networks 1 and up, each with so many senders and frames that take its receiver so long.
    fn new(sides: &[(u32, Span)]) -> Self {
        let own = Own::default();
        let (settings, begun) = (Settings::default(), own.now());
        let mut plane =
            Plane::with_stages(settings, datapath::Settings::default(), NoResponder, NoGate);
        let sides = (1..).zip(sides);
        let sides = sides.map(|(network, it)| side(&mut plane, network, it.0, it.1)).collect();
        Self { plane, sides, own, begun }
    }

    /// Nanoseconds of the switch.
    fn now(&self) -> u64 {
        let ticks = u128::from(self.own.now() - self.begun);
        (ticks * 1_000_000_000 / u128::from(self.own.per_second())) as u64
    }

    /// Fills the rings of a network's senders.
    fn flood(&mut self, side: usize) {
        for (end, header) in &mut self.sides[side].senders {
            end.send_batch(256, |slot| {
                slot[..Header::LEN].copy_from_slice(header);
                64
            });
        }
    }

    /// Sends one frame that came at this time, if there is a place for it.
    fn send(&mut self, side: usize, came: u64) -> bool {
        let (end, header) = &mut self.sides[side].senders[0];
        end.send_batch(1, |slot| {
            slot[..Header::LEN].copy_from_slice(header);
            slot[STAMP].copy_from_slice(&came.to_ne_bytes());
            64
        }) > 0
    }

    /// A turn of the switch, after what has happened outside.
    fn turn(&mut self, left: u64) -> bool {
        let now = self.own.0.now();
        ELSEWHERE.set(ELSEWHERE.get() + now - left);
        self.plane.mark_all_rx_ready();
        let moved = self.plane.turn(Instant::from_nanos(self.now()));
        self.plane.settle(moved);
        moved
    }
}

const STAMP: std::ops::Range<usize> = 16..24;

/// What became of the victim's frames.
#[derive(Default)]
struct Outcome {
    waits_ns: Vec<u64>,
    others: u64,
    longest: [Span; 2],
}

fn victim(
    cost: Span,
    adversaries: u32,
    terms: Option<Vec<ThreadTerms>>,
    every: Span,
    last: Span,
) -> Outcome {
    let mut world = World::new(&[(1, Span::ZERO), (adversaries.max(1), cost)]);
    world.plane.share_thread(terms);
    let mut outcome = Outcome::default();
    let (mut next, end) = (0, last.as_nanos());
    let mut idle = 0;
    loop {
        // By the switch's time, and what it had nothing to do.
        let left = world.own.0.now();
        let now = world.now() + idle;
        if now >= end {
            break;
        }
        world.sides[0].sink.receive(usize::MAX, |frame| {
            // Counters of two cores may differ by a little.
            let came = frame.bytes[STAMP].try_into().expect("eight bytes");
            outcome.waits_ns.push(now.saturating_sub(u64::from_ne_bytes(came)));
        });
        // What has no place waits with its sender.
        while next <= now && world.send(0, next) {
            next += every.as_nanos();
        }
        if adversaries > 0 {
            world.flood(1);
        }
        outcome.others += world.sides[1].sink.receive(usize::MAX, |_| ()) as u64;
        if !world.turn(left) {
            idle += next.saturating_sub(world.now() + idle);
        }
    }
    let uses = world.plane.thread_use();
    outcome.longest = [uses[1].longest, uses[2].longest];
    outcome
}

fn victims() {
    let (last, every) = (Span::from_secs(2), Span::from_micros(20));
    let guaranteed = ThreadTerms { min: Span::from_millis(150), ..ThreadTerms::default() };
    let cases = [
        (0, "none", None),
        (8, "none", None),
        (8, "equal", Some(ThreadTerms::default())),
        (8, "min", Some(guaranteed)),
    ];
    println!(
        "{:>8} {:>5} {:>6} {:>12} {:>9} {:>9} {:>9} {:>12} {:>15}",
        "a frame",
        "ports",
        "terms",
        "of 50000/s",
        "p50 us",
        "p99 us",
        "p99.9 us",
        "others/s",
        "visits us"
    );
    for cost in [Span::ZERO, Span::from_micros(3), Span::from_micros(20)] {
        for (adversaries, label, terms) in cases {
            let terms = terms.map(|terms| vec![ThreadTerms::default(), terms]);
            let mut outcome = victim(cost, adversaries, terms, every, last);
            outcome.waits_ns.sort_unstable();
            let at = |part: f64| {
                let place = (outcome.waits_ns.len() as f64 * part) as usize;
                outcome.waits_ns.get(place).copied().unwrap_or(0) as f64 / 1e3
            };
            let due = last.as_nanos() / every.as_nanos();
            println!(
                "{:>8} {:>5} {:>6} {:>10.2} % {:>9.1} {:>9.1} {:>9.1} {:>12.0} {:>7.0}, {:>6.0}",
                cost.to_string(),
                adversaries,
                label,
                outcome.waits_ns.len() as f64 * 100.0 / due as f64,
                at(0.5),
                at(0.99),
                at(0.999),
                outcome.others as f64 / last.as_secs_f64(),
                outcome.longest[0].as_nanos() as f64 / 1e3,
                outcome.longest[1].as_nanos() as f64 / 1e3,
            );
        }
    }
}

/// The largest part by which a network's share of a tenth of a second was more or less than its
/// terms say.
fn shares() {
    let weight = |weight| std::num::NonZeroU16::new(weight).expect("some");
    let terms = [(100, 1), (0, 2), (0, 1)]
        .map(|(min, it)| ThreadTerms { min: Span::from_millis(min), weight: weight(it) });
    let expected = [0.1 + 0.9 / 4.0, 0.9 / 2.0, 0.9 / 4.0];
    let sides = [(1, Span::ZERO), (7, Span::from_micros(3)), (20, Span::from_micros(20))];
    let mut world = World::new(&sides);
    world.plane.share_thread(Some([&[ThreadTerms::default()], &terms[..]].concat()));
    let mut worst = [0f64; 3];
    let window = |world: &mut World| {
        let begun = world.now();
        let used = |world: &World| {
            let uses = world.plane.thread_use();
            [1, 2, 3].map(|network: usize| uses[network].used.as_nanos() as f64)
        };
        let before = used(world);
        while world.now() < begun + 100_000_000 {
            let left = world.own.0.now();
            for side in 0..3 {
                world.flood(side);
                world.sides[side].sink.receive(usize::MAX, |_| ());
            }
            world.turn(left);
        }
        let (after, passed) = (used(world), (world.now() - begun) as f64);
        [0, 1, 2].map(|side| (after[side] - before[side]) / passed / expected[side] - 1.0)
    };
    window(&mut world);
    for _ in 0..20 {
        let off = window(&mut world);
        worst.iter_mut().zip(off).for_each(|(worst, off)| *worst = worst.max(off.abs()));
    }
    println!("shares of 100 ms, off by at most: {:.2?} %", worst.map(|it| it * 100.0));
}

fn main() {
    victims();
    shares();
}
