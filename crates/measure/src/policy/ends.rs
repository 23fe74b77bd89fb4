//! Both machines, served by one thread: one sends flows, the other takes them.
//!
//! ```text
//!   turn:  taker ─take─▶ Arrivals, Delays        and again, until the load is done
//!          sender ─put─▶ ports, sequence number, time
//! ```
//!
//! The thread keeps to one core and never sleeps.

use std::sync::atomic::AtomicBool;
use std::time::Duration;

use vhost::nic::Nic;

use super::frames::{Datagram, MOST_FLOWS, Pair};
use super::segments::{SIZE, Writer};
use crate::vhost::arrivals::Arrivals;
use crate::vhost::clock::{Bucket, Clock};
use crate::vhost::delays::Delays;
use crate::vhost::foremost::Foremost;
use crate::vhost::frames::Kind;
use crate::vhost::sink::Carried;
use crate::vhost::watch::{Broken, Run};

/// How many frames are put, and how many taken, before the other has its turn.
pub const BURST: usize = 64;

/// How many frames a paced sender that was held up may send at once.
const DEBT: f64 = 256.0;

/// The first flow that is used once: those before are used again and again.
const FIRST_NEW: u32 = 10_000_000;

/// The front-ends of two ports.
#[derive(Debug)]
pub struct Ends {
    _foremost: Foremost,
    clock: Clock,
    pair: Pair,
    sides: [Side; 2],
    size: u32,
    /// What the cards' buffers have the headers of.
    ready_for: Option<Protocol>,
    /// The next flow that has not been used.
    next: u32,
}

#[derive(Debug)]
struct Side {
    nic: Nic,
    /// Frames that the switch's ring took, ever.
    sent: u64,
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Protocol {
    Udp,
    Tcp,
}

/// Which flow each frame is of.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Flows {
    /// So many take turns.
    Turns(u32),
    /// Each its own.
    New,
}

/// How long a load lasts.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Until {
    /// So long.
    Time(Duration),
    /// Until so many frames are sent.
    Frames(u64),
}

/// What the ends are to do.
#[derive(Clone, Copy, Debug)]
pub struct Load {
    /// Which of the two machines sends.
    pub from: usize,
    /// What it sends.
    pub flows: Flows,
    /// How many frames a second; as many as the switch takes if absent.
    pub offered: Option<f64>,
    /// For how long.
    pub until: Until,
}

/// What came.
struct Sink {
    from: usize,
    size: usize,
    turns: Option<u32>,
    arrivals: Arrivals,
    strangers: u64,
    delays: Delays,
}

impl Ends {
    /// Ends of these cards, each of them connected, whose frames have `size` bytes.
    pub fn new(cards: [Nic; 2], pair: Pair, size: u32) -> Self {
        let (foremost, clock) = (Foremost::here(), Clock::calibrate());
        let sides = cards.map(|nic| Side { nic, sent: 0 });
        let (ready_for, next) = (None, FIRST_NEW);
        Self { _foremost: foremost, clock, pair, sides, size, ready_for, next }
    }

    /// Has both cards ready to send segments, and says how each writes them.
    pub fn of_segments(&mut self) -> [Writer; 2] {
        let pair = self.pair;
        let writers = [0, 1].map(|from| Writer::new(&pair, from));
        self.ready_for(Protocol::Tcp, SIZE, |from| writers[from].frame(&pair));
        writers
    }

    /// The first flow that has not been used, and both cards.
    pub fn parts(&mut self) -> (u32, [&mut Nic; 2]) {
        let [left, right] = &mut self.sides;
        (self.next, [&mut left.nic, &mut right.nic])
    }

    /// All flows before this one have been used.
    pub fn used(&mut self, next: u32) {
        self.next = next;
    }

    fn ready_for(&mut self, protocol: Protocol, size: u32, frame: impl Fn(usize) -> Vec<u8>) {
        if self.ready_for == Some(protocol) {
            return;
        }
        for (from, side) in self.sides.iter_mut().enumerate() {
            let bytes = frame(from);
            let offload = Kind::Datagram.offload();
            side.nic.prepare(size as usize, offload, |_, frame| frame.write(0, &bytes));
        }
        self.ready_for = Some(protocol);
    }

    /// The clock by which delays are told.
    pub fn clock(&self) -> Clock {
        self.clock
    }

    /// Puts a load on the switch, until it is done and the switch has delivered what it will.
    ///
    /// # Errors
    ///
    /// [`Broken`]
    pub fn run(&mut self, load: Load, stop: &AtomicBool) -> Result<Carried, Broken> {
        let Load { from, flows, offered, until } = load;
        let (clock, size, pair) = (self.clock, self.size, self.pair);
        self.ready_for(Protocol::Udp, size, |from| pair.frame(from, size));
        let (duration, frames) = match until {
            Until::Time(time) => (clock.ticks(time), u64::MAX),
            Until::Frames(frames) => (u64::MAX, frames),
        };
        let [left, right] = &mut self.sides;
        let (sender, taker) = if from == 0 { (left, right) } else { (right, left) };
        let first = sender.sent;
        let mut sink = Sink::new(from, size, flows, first);
        let (mut flow, turns) = match flows {
            Flows::Turns(turns) => (0, 0..turns),
            Flows::New => (self.next, FIRST_NEW..MOST_FLOWS),
        };
        let mut run = Run::begin(clock, stop);
        let began = run.turn()?;
        let mut pace = offered.map(|rate| Bucket::new(clock, rate, DEBT, began));
        let mut in_time = 0;
        let carried = loop {
            let now = run.turn()?;
            let taken = taker.nic.receive(BURST, |frame, len| sink.take(frame, len, now));
            taker.nic.publish();
            // What the switch does not know whom to give to, it gives to everybody.
            sender.nic.receive(BURST, |_, _| ());
            let mut sent = 0;
            if !run.is_over() {
                let now = Clock::now();
                let most = pace.as_mut().map_or(BURST, |bucket| bucket.due(now)).min(BURST);
                let left = frames - (sender.sent - first).min(frames);
                let Side { nic, sent: all } = &mut *sender;
                sent = nic.send(most.min(left.try_into().unwrap_or(BURST)), |_, frame| {
                    Datagram { flow, sequence: *all, ticks: now }.write(frame, from, size);
                    *all += 1;
                    flow += 1;
                    if flow == turns.end {
                        flow = turns.start;
                    }
                });
                if let Some(bucket) = &mut pace {
                    bucket.done(sent);
                }
            }
            sender.nic.publish();
            run.moved(taken + sent);
            let (all, received) = (sender.sent - first, sink.arrivals.received);
            if !run.is_over() {
                if run.lasted() >= duration || all >= frames {
                    in_time = received;
                    run.end();
                }
            } else if (all == received || run.is_silent()) && sender.nic.on_their_way() == 0 {
                break sink.told(all, in_time, run.seconds(), run.busy());
            }
        };
        if flows == Flows::New {
            self.next = flow;
        }
        Ok(carried)
    }
}

impl Sink {
    fn new(from: usize, size: u32, flows: Flows, first: u64) -> Self {
        let turns = match flows {
            Flows::Turns(turns) => Some(turns),
            Flows::New => None,
        };
        Self {
            from,
            size: size as usize,
            turns,
            arrivals: Arrivals::new(turns.unwrap_or(1), first),
            strangers: 0,
            delays: Delays::default(),
        }
    }

    /// Books a frame of this length that came.
    #[inline]
    fn take(&mut self, frame: vhost::nic::Frame<'_>, len: usize, now: u64) {
        let datagram = Datagram::read(frame, self.from).filter(|_| len == self.size);
        let flow = |flow: u32| match self.turns {
            Some(turns) => (flow < turns).then_some(flow),
            None => Some(0),
        };
        match datagram.and_then(|it| Some((flow(it.flow)?, it))) {
            Some((flow, Datagram { sequence, ticks, .. })) => {
                self.arrivals.book(flow, sequence);
                self.delays.book(now.saturating_sub(ticks));
            }
            None => self.strangers += 1,
        }
    }

    fn told(self, sent: u64, in_time: u64, seconds: f64, busy: f64) -> Carried {
        let Arrivals { received, duplicates, out_of_order, .. } = self.arrivals;
        Carried {
            sent,
            to_stalled: 0,
            received,
            in_time,
            duplicates,
            // Flows of one frame each have no order among them.
            out_of_order: if self.turns.is_some() { out_of_order } else { 0 },
            strangers: self.strangers,
            seconds,
            busy,
            delays: self.delays,
        }
    }
}
