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
//! blocks while its way's queue is full, and for no other way's. Ways that may send take
//! [turns](turns).
//!
//! Where [credit](credit) is granted, a way waits for that, too: receiving hosts [grant](downlinks)
//! it for their links, by the terms of machines' networks.
//!
//! As references there are two more. With the limiters of QCN in the windows' stead switches sample
//! what waits ([`crate::fabric`]) and give [notice](limiter) to the sender of what they find; the
//! far host tells nothing. With backpressure (BFC) a way is what one *flow* sends, and waits while
//! the host's switch has it paused.
//!
//! This knows queues and numbers; hosts move frames.

mod credit;
mod downlinks;
mod limiter;
mod turns;
mod window;

use std::collections::BTreeMap;

use crate::fabric::{Filter, FlowId};
use crate::packet::{Handle, Packets, Queue, Report};
use crate::scenario::{Congestion, Scenario};
use crate::time::Time;
pub(crate) use credit::Look;
use credit::{Allowed, Credit};
pub(crate) use downlinks::Downlinks;
use limiter::Limiter;
use tunnel::grants::Progress;
use turns::{Place, Turns};
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

/// How many longest frames a way sends in a turn, while other ways of its machine wait: a message
/// of 20 kB in one go.
const TURN: u64 = 16;

/// No way.
const NOBODY: u32 = u32::MAX;

/// What one machine sends to one far host in one class, or one flow of that.
#[derive(Debug)]
struct Way {
    key: Key,
    /// Whether it is among those whose turn comes.
    in_turn: bool,
    /// Whether it is among those that are paused.
    is_paused: bool,
    /// When an event looks at it.
    wake_at: Time,
    control: Control,
    /// None where no credit is granted.
    credit: Option<Credit>,
    /// What it may send until its turn is over.
    turn: u64,
    queue: Queue,
    /// Flows of datagrams whose sockets block until the queue has room.
    sleepers: Vec<u32>,
    owed: Owed,
}

/// Whose a way is: a machine, the host that it sends to, a class, and a flow by its hash where
/// flows have ways of their own.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
struct Key {
    machine: u32,
    host: u32,
    lane: u8,
    flow: u32,
}

/// What holds a way back.
#[derive(Debug)]
enum Control {
    /// Nothing but credit.
    Credit,
    /// What is under way, which reports make less.
    Window(Window),
    /// A rate, which notices make smaller.
    Limiter(Limiter),
    /// The switch that its host is connected to, which pauses this flow.
    Flow(FlowId),
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
            Self::Credit | Self::Flow(_) => Leave::Now,
        }
    }

    /// A frame leaves.
    fn send(&mut self, now: Time, len: u32) {
        match self {
            Self::Window(window) => window.send(now, len),
            Self::Limiter(limiter) => limiter.send(now, len),
            Self::Credit | Self::Flow(_) => {}
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
    /// This way waits for credit, and is to be looked at then.
    Look { way: u32, at: Time },
}

impl Way {
    fn has_room(&self, datagram: u64) -> bool {
        self.queue.bytes < ROOM * datagram
    }
}

/// What holds all ways back.
#[derive(Clone, Copy, Debug)]
enum Kind {
    /// Only credit.
    Credit,
    Windows,
    /// Of links of so many bits a second, with this seed.
    Limiters {
        link: u64,
        seed: u64,
    },
    Flows,
}

impl Kind {
    /// In which line a machine's ways take turns: each has its own, or all are one.
    fn line(self, machine: u32) -> u32 {
        match self {
            Self::Credit | Self::Windows => machine,
            Self::Limiters { .. } | Self::Flows => 0,
        }
    }
}

/// What a host is told of paused flows of a class, and its ways that wait for that.
#[derive(Clone, Debug)]
struct Paused {
    told: Filter,
    ways: Vec<u32>,
}

/// All ways.
#[derive(Debug)]
pub(crate) struct Ways {
    /// The longest frame.
    datagram: u64,
    kind: Kind,
    /// What a way may be sent before it was granted anything, where credit is granted.
    unsolicited: Option<u64>,
    /// How many classes there are, reports included, and which of them are controlled.
    lanes: usize,
    controlled: Vec<bool>,
    ways: Vec<Way>,
    numbers: BTreeMap<Key, u32>,
    /// Numbers of ways that are no more.
    free: Vec<u32>,
    /// By packet: its way. Only packets that have one are looked up.
    owners: Vec<u32>,
    /// By host and class: ways that have a frame that may leave, as far as is known.
    turns: Vec<Turns>,
    /// By host and class.
    paused: Vec<Paused>,
}

impl Ways {
    /// None where nothing is controlled.
    pub(crate) fn new(scenario: &Scenario, hosts: u32, lanes: &[String]) -> Option<Self> {
        let kind = match scenario.virtual_network.congestion {
            Congestion::None if !scenario.virtual_network.grants => return None,
            Congestion::None => Kind::Credit,
            Congestion::Lanes => Kind::Windows,
            Congestion::Qcn => {
                Kind::Limiters { link: scenario.link.rate.bits_per_sec(), seed: scenario.run.seed }
            }
            Congestion::Bfc => Kind::Flows,
        };
        let places = hosts as usize * lanes.len();
        Some(Self {
            datagram: scenario.longest_frame(),
            kind,
            unsolicited: scenario.virtual_network.grants.then(|| downlinks::unsolicited(scenario)),
            lanes: lanes.len(),
            controlled: lanes.iter().map(|name| scenario.is_controlled(name)).collect(),
            ways: Vec::new(),
            numbers: BTreeMap::new(),
            free: Vec::new(),
            owners: Vec::new(),
            turns: vec![Turns::default(); places],
            paused: vec![Paused { told: Filter::EMPTY, ways: Vec::new() }; places],
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
        let Key { machine, lane, .. } = self.ways[way as usize].key;
        (machine, lane)
    }

    fn key(&self, machine: u32, host: u32, lane: u8, hash: u32) -> Key {
        let flow = if let Kind::Flows = self.kind { hash } else { 0 };
        Key { machine, host, lane, flow }
    }

    /// The way from a machine to a host in a class, for a flow of this hash.
    pub(crate) fn number(&mut self, machine: u32, host: u32, lane: u8, hash: u32) -> u32 {
        let key = self.key(machine, host, lane, hash);
        if let Some(way) = self.numbers.get(&key) {
            return *way;
        }
        let control = match self.kind {
            Kind::Credit => Control::Credit,
            Kind::Windows => Control::Window(Window::new(self.datagram)),
            Kind::Limiters { link, seed } => {
                Control::Limiter(Limiter::new(link, seed ^ (1 + self.ways.len() as u64)))
            }
            Kind::Flows => Control::Flow(FlowId::of(hash)),
        };
        let way = Way {
            key,
            in_turn: false,
            is_paused: false,
            wake_at: Time::NEVER,
            control,
            credit: self.unsolicited.map(Credit::new),
            turn: self.turn(),
            queue: Queue::default(),
            sleepers: Vec::new(),
            owed: Owed::default(),
        };
        let number = match self.free.pop() {
            Some(number) => {
                self.ways[number as usize] = way;
                number
            }
            None => {
                self.ways.push(way);
                self.ways.len() as u32 - 1
            }
        };
        self.numbers.insert(key, number);
        number
    }

    /// Forgets a flow's way of which nothing waits: flows come and go, and windows and rates are to
    /// be remembered.
    pub(crate) fn forget_if_idle(&mut self, way: u32) {
        let it = &self.ways[way as usize];
        if let Control::Flow(_) = it.control
            && it.queue.is_empty()
            && it.sleepers.is_empty()
        {
            self.numbers.remove(&it.key);
            self.free.push(way);
        }
    }

    /// Whether the way of a flow from a machine to a host in a class has as much waiting as it may.
    pub(crate) fn is_full(&self, machine: u32, host: u32, lane: u8, hash: u32) -> bool {
        let way = self.numbers.get(&self.key(machine, host, lane, hash));
        way.is_some_and(|way| !self.ways[*way as usize].has_room(self.datagram))
    }

    /// Has a flow of datagrams wait until that way has room.
    pub(crate) fn wait(&mut self, machine: u32, host: u32, lane: u8, hash: u32, flow: u32) {
        let way = self.number(machine, host, lane, hash);
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
        packets[handle].ecn_capable |= matches!(self.kind, Kind::Windows);
        self.ways[way as usize].queue.push(packets, handle);
        self.line_up(from, way);
    }

    /// A way may have a frame that may leave.
    pub(crate) fn line_up(&mut self, host: u32, way: u32) {
        let turn = self.turn();
        let it = &mut self.ways[way as usize];
        if !it.in_turn && !it.is_paused && !it.queue.is_empty() {
            it.in_turn = true;
            let place = if it.turn < turn { Place::First } else { Place::Last };
            let turns = &mut self.turns[host as usize * self.lanes + usize::from(it.key.lane)];
            turns.push(self.kind.line(it.key.machine), way, place);
        }
    }

    /// How many bytes a turn has; a frame, if none.
    fn turn(&self) -> u64 {
        match self.kind {
            Kind::Credit | Kind::Windows => TURN * self.datagram,
            Kind::Limiters { .. } | Kind::Flows => 0,
        }
    }

    /// A host's switch tells of paused flows of a class.
    pub(crate) fn obey(&mut self, host: u32, lane: u8, told: Filter) {
        let it = &mut self.paused[host as usize * self.lanes + usize::from(lane)];
        it.told = told;
        for way in std::mem::take(&mut it.ways) {
            self.ways[way as usize].is_paused = false;
            self.line_up(host, way);
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

    /// What is next for a class of a host, whose NIC has room.
    pub(crate) fn next(
        &mut self,
        packets: &Packets,
        now: Time,
        host: u32,
        lane: u8,
    ) -> Option<Turn> {
        let place = host as usize * self.lanes + usize::from(lane);
        let turn = self.turn();
        let (turns, paused) = (&mut self.turns[place], &mut self.paused[place]);
        while let Some(way) = turns.pop() {
            let it = &mut self.ways[way as usize];
            it.in_turn = false;
            let Some(head) = it.queue.head() else { continue };
            if let Control::Flow(flow) = it.control
                && paused.told.contains(flow)
            {
                it.is_paused = true;
                paused.ways.push(way);
                continue;
            }
            let bytes = packets[head].bytes;
            let allowed = it.credit.as_mut().map_or(Allowed::Now, |it| it.allows(now, bytes));
            match allowed {
                Allowed::Now => {}
                Allowed::Later => continue,
                Allowed::LookAt(at) => return Some(Turn::Look { way, at }),
            }
            match it.control.leave(now, bytes) {
                Leave::Now => {
                    it.control.send(now, bytes);
                    if let Some(credit) = &mut it.credit {
                        credit.send(bytes);
                    }
                    it.queue.pop(packets);
                    let (machine, has_room) = (it.key.machine, it.has_room(self.datagram));
                    it.turn = it.turn.saturating_sub(bytes.into());
                    let is_over = it.turn == 0 || it.queue.is_empty();
                    if is_over {
                        it.turn = turn;
                    }
                    let line = self.kind.line(machine);
                    if !it.queue.is_empty() {
                        it.in_turn = true;
                        turns.push(line, way, if is_over { Place::Last } else { Place::First });
                    }
                    turns.pass(line);
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
        let way = match self.kind {
            Kind::Windows => self.owner(handle),
            Kind::Credit => return (self.owner(handle), Answer::Nothing),
            Kind::Limiters { .. } | Kind::Flows => return (NOBODY, Answer::Nothing),
        };
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
        let limit = self.ways[way as usize].credit.as_ref().map_or(0, Credit::granted);
        Report { way, bytes, marked, limit }
    }

    /// Whether something of a way was not reported yet.
    pub(crate) fn has_news(&self, way: u32) -> bool {
        self.ways[way as usize].owed.bytes > 0
    }

    /// A frame of a way, of so many bytes, has come to its host, which grants credit.
    pub(crate) fn receive(&mut self, way: u32, bytes: u32) -> Progress {
        self.credit(way).arrive(bytes)
    }

    /// A host that grants credit hears that so much of a way was sent.
    pub(crate) fn hear(&mut self, way: u32, sent: u64) -> Progress {
        self.credit(way).hear(sent)
    }

    /// A host grants a way so much, and is to report that.
    pub(crate) fn grant(&mut self, way: u32, limit: u64) {
        self.credit(way).grant(limit);
    }

    /// The time has come at which a way wanted to look whether it waits for credit.
    pub(crate) fn look(&mut self, now: Time, way: u32) -> Look {
        self.credit(way).look(now)
    }

    /// The host that a way leads to.
    pub(crate) fn receiver(&self, way: u32) -> u32 {
        self.ways[way as usize].key.host
    }

    fn credit(&mut self, way: u32) -> &mut Credit {
        self.ways[way as usize].credit.as_mut().expect("credit is granted")
    }

    /// A report has come back.
    pub(crate) fn handle_report(&mut self, now: Time, report: Report) {
        let Report { way, bytes, marked, limit } = report;
        let it = &mut self.ways[way as usize];
        if let Control::Window(window) = &mut it.control {
            window.report(now, bytes.into(), marked.into());
        }
        if let Some(credit) = &mut it.credit {
            credit.raise(limit);
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
