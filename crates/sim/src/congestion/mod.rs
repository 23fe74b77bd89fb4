//! Congestion control of lossless classes, at the servers: lanes, whose turn each is, and reports.
//!
//! ```text
//!  machine ─▶ lane's queue ─window─▶ turn ─▶ NIC ─▶ fabric, which marks ─▶ far host
//!                  ▲                                                          │
//!                  └──────────────── reports, in a class of their own ◀───────┘
//! ```
//!
//! A **lane** here is what one machine sends to one far host in one class; elsewhere in this crate
//! a class is called a lane, so this one is a [`Way`]. A way's frames wait at the sender, in a
//! queue of their own, while its [window](window) is used up or the NIC has enough. A UDP socket
//! blocks while its way's queue is full, and for no other way's.
//!
//! As a reference there are the limiters of QCN in the windows' stead: switches sample what waits
//! ([`crate::fabric`]) and give [notice](limiter) to the sender of what they find; the far host
//! tells nothing.
//!
//! This knows queues and numbers; hosts move frames.

mod limiter;
mod window;

use std::collections::{BTreeMap, VecDeque};

use crate::packet::{Handle, Packets, Queue, Report};
use crate::scenario::{Congestion, Scenario};
use crate::time::Time;
use limiter::Limiter;
use window::{Leave, Window};

/// A report's frame, on a physical link: a tunnel's headers and some numbers.
pub(crate) const REPORT: u32 = 84;

/// How much a report waits for, in longest frames, as TCP's acknowledgements do: reports take 3.4 %
/// of the other direction, and windows of two datagrams need not wait for [`REPORT_DELAY`].
const REPORT_EVERY: u64 = 2;

/// How long a report waits for as much: about a round trip, so that what is sent one by one
/// does not wait much longer than it travels.
pub(crate) const REPORT_DELAY: Time = Time::from_picos(20_000_000);

/// How many longest frames wait in a way until sockets block: what a link of 10 Gb/s sends while
/// stacks learn that there is room, four times.
const ROOM: u64 = 32;

/// No way.
const NOBODY: u32 = u32::MAX;

/// What one machine sends to one far host in one class.
#[derive(Debug)]
struct Way {
    machine: u32,
    lane: u8,
    /// Whether it is among those whose turn comes.
    in_turn: bool,
    /// When an event looks at it.
    wake_at: Time,
    control: Control,
    queue: Queue,
    /// Flows of datagrams whose sockets block until the queue has room.
    sleepers: Vec<u32>,
    owed: Owed,
}

/// What holds a way back.
#[derive(Debug)]
enum Control {
    /// What is under way, which reports make less.
    Window(Window),
    /// A rate, which notices make smaller.
    Limiter(Limiter),
}

impl Control {
    /// When a frame of `len` bytes may leave that is next now.
    fn leave(&mut self, now: Time, len: u32) -> Leave {
        match self {
            Self::Window(window) => window.leave(now, len),
            Self::Limiter(limiter) => match limiter.ready_at(now) {
                at if at > now => Leave::At(at),
                _ => Leave::Now,
            },
        }
    }

    /// A frame leaves.
    fn send(&mut self, now: Time, len: u32) {
        match self {
            Self::Window(window) => window.send(now, len),
            Self::Limiter(limiter) => limiter.send(now, len),
        }
    }
}

/// What the far host has of a way, and did not report yet.
#[derive(Clone, Copy, Debug, Default)]
struct Owed {
    bytes: u32,
    marked: u32,
    /// When it is reported at the latest; nothing waits if absent.
    due: Option<Time>,
}

/// What a receiving host does about a frame that has come.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Answer {
    /// It reports at once.
    Now,
    /// It reports so late at the latest.
    By(Time),
    /// A later report is on its way already.
    Nothing,
}

/// What may be done for a class of a host.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Turn {
    /// This frame of this machine leaves. If its way has room again, those who wait for that
    /// are to be woken.
    Send { way: u32, machine: u32, handle: Handle, has_room: bool },
    /// This way is to be looked at then.
    Wake { way: u32, at: Time },
}

impl Way {
    fn has_room(&self, datagram: u64) -> bool {
        self.queue.bytes < ROOM * datagram
    }
}

/// All ways.
#[derive(Debug)]
pub(crate) struct Ways {
    /// The longest frame.
    datagram: u64,
    /// Whether ways have limiters, not windows: the rate of links in bits a second, and a seed.
    limiters: Option<(u64, u64)>,
    /// How many classes there are, reports included, and which of them are controlled.
    lanes: usize,
    controlled: Vec<bool>,
    ways: Vec<Way>,
    numbers: BTreeMap<(u32, u32, u8), u32>,
    /// By packet: its way. Only packets that have one are looked up.
    owners: Vec<u32>,
    /// By host and class: ways that have a frame that may leave, as far as is known.
    turns: Vec<VecDeque<u32>>,
}

impl Ways {
    /// None where nothing is controlled.
    pub(crate) fn new(scenario: &Scenario, hosts: u32, lanes: &[String]) -> Option<Self> {
        (scenario.virtual_network.congestion != Congestion::None).then(|| Self {
            datagram: scenario.longest_frame(),
            limiters: (scenario.virtual_network.congestion == Congestion::Qcn)
                .then(|| (scenario.link.rate.bits_per_sec(), scenario.run.seed)),
            lanes: lanes.len(),
            controlled: lanes.iter().map(|name| scenario.is_controlled(name)).collect(),
            ways: Vec::new(),
            numbers: BTreeMap::new(),
            owners: Vec::new(),
            turns: vec![VecDeque::new(); hosts as usize * lanes.len()],
        })
    }

    /// Whether a class is controlled.
    pub(crate) fn controls(&self, lane: u8) -> bool {
        self.controlled[usize::from(lane)]
    }

    /// The class that reports travel in: the highest.
    pub(crate) fn report_lane(&self) -> u8 {
        self.lanes as u8 - 1
    }

    /// The machine that sends by a way, and its class.
    pub(crate) fn sender(&self, way: u32) -> (u32, u8) {
        let Way { machine, lane, .. } = self.ways[way as usize];
        (machine, lane)
    }

    /// The way from a machine to a host in a class.
    pub(crate) fn number(&mut self, machine: u32, host: u32, lane: u8) -> u32 {
        let Self { numbers, ways, limiters, datagram, .. } = self;
        *numbers.entry((machine, host, lane)).or_insert_with(|| {
            let control = match limiters {
                None => Control::Window(Window::new(*datagram)),
                Some((link, seed)) => {
                    Control::Limiter(Limiter::new(*link, *seed ^ (1 + ways.len() as u64)))
                }
            };
            ways.push(Way {
                machine,
                lane,
                in_turn: false,
                wake_at: Time::NEVER,
                control,
                queue: Queue::default(),
                sleepers: Vec::new(),
                owed: Owed::default(),
            });
            ways.len() as u32 - 1
        })
    }

    /// Whether the way from a machine to a host in a class has as much waiting as it may.
    pub(crate) fn is_full(&self, machine: u32, host: u32, lane: u8) -> bool {
        let way = self.numbers.get(&(machine, host, lane));
        way.is_some_and(|way| !self.ways[*way as usize].has_room(self.datagram))
    }

    /// Has a flow of datagrams wait until that way has room.
    pub(crate) fn wait(&mut self, machine: u32, host: u32, lane: u8, flow: u32) {
        let way = self.number(machine, host, lane);
        self.ways[way as usize].sleepers.push(flow);
    }

    /// The flows that wait for a way, which go on.
    pub(crate) fn wake(&mut self, way: u32) -> Vec<u32> {
        std::mem::take(&mut self.ways[way as usize].sleepers)
    }

    /// A frame of a machine waits in its way, which belongs to `from`, the machine's host.
    pub(crate) fn push(&mut self, packets: &mut Packets, from: u32, way: u32, handle: Handle) {
        let place = handle.index();
        if place >= self.owners.len() {
            self.owners.resize(place + 1, NOBODY);
        }
        self.owners[place] = way;
        // The outer header says so, whatever the machine's own does.
        packets[handle].ecn_capable |= self.limiters.is_none();
        self.ways[way as usize].queue.push(packets, handle);
        self.line_up(from, way);
    }

    /// A way may have a frame that may leave.
    pub(crate) fn line_up(&mut self, host: u32, way: u32) {
        let it = &mut self.ways[way as usize];
        if !it.in_turn && !it.queue.is_empty() {
            it.in_turn = true;
            self.turns[host as usize * self.lanes + usize::from(it.lane)].push_back(way);
        }
    }

    /// Whether an event that says so is the one that a way waits for.
    pub(crate) fn is_due(&mut self, way: u32, now: Time) -> bool {
        let it = &mut self.ways[way as usize];
        let is_due = it.wake_at == now;
        if is_due {
            it.wake_at = Time::NEVER;
        }
        is_due
    }

    /// What is next for a class of a host, whose NIC has room: ways take turns of a frame each.
    pub(crate) fn next(
        &mut self,
        packets: &Packets,
        now: Time,
        host: u32,
        lane: u8,
    ) -> Option<Turn> {
        let turns = &mut self.turns[host as usize * self.lanes + usize::from(lane)];
        while let Some(way) = turns.pop_front() {
            let it = &mut self.ways[way as usize];
            it.in_turn = false;
            let Some(head) = it.queue.head() else { continue };
            let bytes = packets[head].bytes;
            match it.control.leave(now, bytes) {
                Leave::Now => {
                    it.control.send(now, bytes);
                    it.queue.pop(packets);
                    let (machine, has_room) = (it.machine, it.has_room(self.datagram));
                    if !it.queue.is_empty() {
                        it.in_turn = true;
                        turns.push_back(way);
                    }
                    return Some(Turn::Send { way, machine, handle: head, has_room });
                }
                Leave::At(at) if at < it.wake_at => {
                    it.wake_at = at;
                    return Some(Turn::Wake { way, at });
                }
                Leave::At(_) | Leave::Later => {}
            }
        }
        None
    }

    /// A frame has come to its host. One that finds its switch without room counts as marked.
    pub(crate) fn arrive(
        &mut self,
        packets: &mut Packets,
        now: Time,
        handle: Handle,
        finds_room: bool,
    ) -> (u32, Answer) {
        let way = self.owner(handle);
        if let Control::Limiter(_) = self.ways[way as usize].control {
            return (way, Answer::Nothing);
        }
        let packet = &mut packets[handle];
        let owed = &mut self.ways[way as usize].owed;
        owed.bytes += packet.bytes;
        if packet.marked || !finds_room {
            owed.marked += packet.bytes;
        }
        // Machines are not told.
        packet.marked = false;
        let answer = if u64::from(owed.bytes) >= REPORT_EVERY * self.datagram {
            Answer::Now
        } else if owed.due.is_none() {
            let due = now + REPORT_DELAY;
            owed.due = Some(due);
            Answer::By(due)
        } else {
            Answer::Nothing
        };
        (way, answer)
    }

    /// Whether something of a way is to be reported at this time.
    pub(crate) fn owes(&self, way: u32, now: Time) -> bool {
        self.ways[way as usize].owed.due == Some(now)
    }

    /// What is to be reported of a way.
    pub(crate) fn take_report(&mut self, way: u32) -> Report {
        let Owed { bytes, marked, .. } = std::mem::take(&mut self.ways[way as usize].owed);
        Report { way, bytes, marked }
    }

    /// A report has come back.
    pub(crate) fn handle_report(&mut self, now: Time, report: Report) {
        let Report { way, bytes, marked } = report;
        if let Control::Window(window) = &mut self.ways[way as usize].control {
            window.report(now, bytes.into(), marked.into());
        }
    }

    /// The way of a packet that is under way in a controlled class.
    pub(crate) fn owner(&self, handle: Handle) -> u32 {
        self.owners[handle.index()]
    }

    /// A switch's notice has come to a way's host.
    pub(crate) fn handle_notice(&mut self, now: Time, way: u32, feedback: u8) {
        if let Control::Limiter(limiter) = &mut self.ways[way as usize].control {
            limiter.notice(now, feedback);
        }
    }

    /// Frames that wait.
    pub(crate) fn held(&self, packets: &Packets) -> u64 {
        self.ways.iter().map(|way| way.queue.len(packets)).sum()
    }
}
