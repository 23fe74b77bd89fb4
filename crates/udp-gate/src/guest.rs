//! The gate before a guest, whose sockets only the guest's kernel sees.
//!
//! A program in the guest reports how much room they have (`wire::room`). Between the gate and the
//! sockets is a queue, the guest's receive ring. So a socket's room is what was last reported, less
//! the bytes that may still be in that queue:
//!
//! ```text
//!   gate ─▶ datagrams ─▶ Ask 2 ─▶ datagrams ─▶ Ask 1 ─▶ datagrams ─▶ sockets
//!    ▲        later                 earlier              counted by whoever heard Ask 1
//!    └──────────────── Tell: Ask 1 was heard, these sockets are so full ◀────┘
//! ```
//!
//! An Ask passes through the same queue as the datagrams. When the program receives it, all earlier
//! datagrams are in the sockets, already read, or dropped. So only datagrams that were sent after
//! the last received Ask are in flight. Both sides need not agree on what a datagram is charged,
//! nor count arrivals: datagrams that the guest's firewall drops, or that have no socket, are
//! forgotten with the next Ask.
//!
//! # What it relies on
//!
//! The guest's kernel handles frames in order: one receive queue, and no receive packet steering
//! (`rps_cpus`). [`charge`] bounds what a frame is charged.
//!
//! # What is not known
//!
//! To a port without a report, one datagram is sent at a time, because the kernel lets an empty
//! socket take any datagram. It is lost if the socket was filled before the gate was on, or before
//! its port was evicted for others. To a port where no socket would receive the datagram, up to
//! [`ALLOWANCE`] may be in flight: the guest may be a router, and a socket that is opened meanwhile
//! has room for that.

use std::collections::HashMap;
use std::hash::BuildHasherDefault;
use std::num::NonZeroU32;
use std::time::{Duration, Instant};

use units::Mac;
use wire::room::{Common, Draft, Group, Kind, Message, Unreadable, Want};

use super::fragments::Fragments;
use super::programs::Name;
use super::question::{Passing, Question};
use super::sockets::{Datagram, Fit, Mixer, Tightest, fit, tightest};
use super::verdict::Verdict;
use port::FrameView;

/// The guest's program counts as dead after this time without a message, or without a sign that it
/// receives ours. Then nothing is held any more. It is also the time after which a receiver that
/// takes nothing is stalled.
const SILENCE: Duration = Duration::from_secs(10);

/// The time after which an Ask is given up. Whoever still waits asks again.
const RETRY: Duration = Duration::from_millis(20);

/// The interval at which time limits are checked.
const ROUND: Duration = Duration::from_secs(1);

/// The most that may be in flight to a port without a listener, in bytes of a socket's buffer: a
/// third of the default buffer (`net.core.rmem_default`: 212,992).
const ALLOWANCE: u64 = 64 << 10;

/// The number of ports whose state is kept.
const MOST_PORTS: usize = 4096;

/// The most ports in one Ask.
const MOST_WANTS: usize = 128;

/// Says for each datagram to a guest whether its socket has room. Until it [hears](Self::hear) a
/// program in the guest, it answers [`Verdict::Free`].
///
/// It is passed the time and makes no system call.
#[derive(Debug)]
pub struct GuestGate {
    /// Distinguishes its Asks from those of earlier gates at the same port.
    life: NonZeroU32,
    now: Instant,
    round_at: Instant,
    guest: Option<Guest>,
    /// The number of Asks sent.
    asks: u64,
    /// The last Ask that was received.
    heard: u64,
    /// The last Ask that is no longer waited for.
    given_up: u64,
    asked_at: Instant,
    /// Since when Asks were sent and none was received.
    unheard_since: Option<Instant>,
    /// A program with another version of the protocol is to be answered.
    is_misread: bool,
    /// When such a program was last answered. It may answer in turn.
    answered_at: Option<Instant>,
    /// Ports to ask about, without duplicates.
    wanted: Vec<u16>,
    ports: HashMap<u16, Port, BuildHasherDefault<Mixer>>,
    /// The Ask at which no port could be evicted.
    crowded: Option<u64>,
    fragments: Fragments,
    /// The datagram of the last verdict, for `passed`.
    last: Option<(Passing, u64)>,
    /// A flow was held since the last tick.
    holds: bool,
    /// An Ask was given up.
    is_late: bool,
    /// Why nothing is held although a program in the guest has sent messages.
    fault: Option<Fault>,
}

/// A program in the guest.
#[derive(Clone, Copy, Debug)]
struct Guest {
    session: u64,
    /// The number of its latest message.
    number: u64,
    spoke_at: Instant,
    /// It is to be answered.
    is_owed: bool,
    /// The first Ask of the gate's accounts. Nothing is held until it was received.
    from: u64,
    page: u32,
    lost: u32,
}

#[derive(Clone, Copy, Debug)]
enum Fault {
    Silent,
    Deaf,
    Version(u8),
}

/// A port and the state of its sockets.
#[derive(Debug, Default)]
struct Port {
    /// The last report about its sockets, if any.
    sockets: Option<Vec<Known>>,
    /// The report came from an earlier program, perhaps before the guest restarted. A new report is
    /// needed before anything is sent.
    is_doubted: bool,
    /// When the guest promised another report once there is room.
    follows: Option<Instant>,
    /// Bytes that may be in flight: those sent before the `epoch`-th Ask, and those sent after it
    /// and before the next.
    earlier: u64,
    later: u64,
    epoch: u64,
    /// The last Ask about it.
    asked: u64,
    is_wanted: bool,
    /// The number of bytes that a held flow waits for; 0 if none waits.
    awaited: u32,
}

#[derive(Clone, Copy, Debug)]
struct Known {
    name: Name,
    occupied: u32,
    limit: u32,
}

impl GuestGate {
    /// A gate before a guest from which nothing was received. `life` must differ from all earlier
    /// gates there.
    pub fn new(now: Instant, life: NonZeroU32) -> Self {
        Self {
            life,
            now,
            round_at: now + ROUND,
            guest: None,
            asks: 0,
            heard: 0,
            given_up: 0,
            asked_at: now,
            unheard_since: None,
            is_misread: false,
            answered_at: None,
            wanted: Vec::new(),
            ports: HashMap::default(),
            crowded: None,
            fragments: Fragments::new(1 << 16),
            last: None,
            holds: false,
            is_late: false,
            fault: None,
        }
    }

    /// Handles a frame that the guest has sent to [`wire::room::DESTINATION`].
    pub fn hear(&mut self, now: Instant, frame: &[u8]) {
        self.now = now;
        let message = match Message::parse(frame) {
            Ok(message) => message,
            Err(Unreadable::Version(version)) => {
                self.fault = Some(Fault::Version(version));
                self.is_misread =
                    self.answered_at.is_none_or(|at| now.saturating_duration_since(at) >= ROUND);
                return;
            }
            Err(Unreadable::Foreign | Unreadable::Malformed) => return,
        };
        let Common { kind, session, number, .. } = message.common;
        let is_known = self.guest.is_some_and(|guest| guest.session == session);
        match kind {
            Kind::Hello if !is_known => self.meet(&message.common),
            Kind::Hello | Kind::Tell if is_known => self.note(number, &message),
            Kind::Bye if is_known => self.part(None),
            _ => {}
        }
    }

    /// Whether a frame may go to the guest now.
    pub fn verdict(&mut self, frame: &FrameView<'_>) -> Verdict {
        self.last = None;
        let Some(Guest { page, .. }) = self.guest else { return Verdict::Free };
        let question = match Question::read(0, frame, &self.fragments, |len| charge(len, page)) {
            Ok(question) => question,
            Err((verdict, passing)) => {
                self.last = passing.map(|passing| (passing, ALLOWANCE));
                return verdict;
            }
        };
        let number = question.datagram.destination_port;
        if !self.has_place(number) {
            if self.is_on() {
                self.holds = true;
                return Verdict::Hold(question.flow(false), None);
            }
            self.begin_anew();
        }
        let is_on = self.is_on();
        let Self { fragments, ports, .. } = self;
        let port = ports.entry(number).or_default();
        let aside = u64::from(fragments.set_aside(number.into()));
        let tightest = port.tightest(&question.datagram, aside, question.need);
        let flow = question.flow(tightest.is_some_and(|tightest| tightest.connected));
        let limit = tightest.map_or(ALLOWANCE, |tightest| port.limit(tightest.socket));
        self.last = question.passing(fragments, number.into()).map(|passing| (passing, limit));
        let has_room = match tightest {
            Some(tightest) => tightest.has_room,
            None => {
                let taken = port.on_its_way() + aside;
                let confirmed = port.sockets.is_some() && !question.begins;
                taken == 0 || (confirmed && taken + u64::from(question.need) <= ALLOWANCE)
            }
        };
        if has_room && !port.is_doubted || !is_on {
            port.awaited = 0;
            return Verdict::Go(flow);
        }
        // Ask for a quarter of the buffer at once: otherwise there would be a message for each
        // datagram that is read.
        port.awaited = question.need.max(u32::try_from(limit / 4).unwrap_or(u32::MAX));
        self.holds = true;
        self.want_if_unsure(number);
        Verdict::Hold(flow, None)
    }

    /// The frame of the last verdict was transmitted.
    pub fn passed(&mut self) {
        let Some((passing, limit)) = self.last.take() else { return };
        let (number, bytes) = match passing {
            Passing::Whole { slot, bytes } => (slot, bytes),
            Passing::First { whole, slot, bytes } => {
                return self.fragments.begin(self.now, whole, slot, bytes);
            }
            Passing::Later { whole, last: true } => match self.fragments.end(whole) {
                Some(queued) => queued,
                None => return,
            },
            Passing::Later { .. } => return,
        };
        let number = number as u16;
        let port = self.ports.entry(number).or_default();
        port.send(self.asks, bytes);
        // Early enough that the answer arrives while there is still room.
        if port.on_its_way() > limit / 4 && !self.is_asked(number) {
            self.want(number);
        }
    }

    /// The next message to the guest. It must be transmitted behind all frames so far; call
    /// [`asked`](Self::asked) afterwards.
    pub fn ask(&self) -> Option<Draft> {
        let life = self.life.get();
        if self.is_misread {
            let common =
                Common { kind: Kind::Ask, life, session: 0, number: 0, heard: 0, page: 0, lost: 0 };
            return Some(Draft::new(Mac::local(0), &common));
        }
        let guest = self.guest?;
        let waits = self.asks > self.settled();
        if !guest.is_owed && (self.wanted.is_empty() || waits) {
            return None;
        }
        let common = Common {
            kind: Kind::Ask,
            life,
            session: guest.session,
            number: self.asks + 1,
            heard: if self.is_on() { guest.number } else { 0 },
            page: 0,
            lost: 0,
        };
        let mut draft = Draft::new(Mac::local(0), &common);
        for port in self.wanted.iter().take(MOST_WANTS) {
            let bytes = self.ports.get(port).map_or(0, |port| port.awaited);
            let fits = draft.ask(Want { port: *port, bytes });
            debug_assert!(fits, "{MOST_WANTS} ports fit into a message");
        }
        Some(draft)
    }

    /// The message of [`ask`](Self::ask) was transmitted.
    pub fn asked(&mut self, now: Instant) {
        self.now = now;
        if std::mem::take(&mut self.is_misread) {
            self.answered_at = Some(now);
            return;
        }
        self.asked_at = now;
        self.asks += 1;
        self.unheard_since.get_or_insert(now);
        for number in self.wanted.drain(..self.wanted.len().min(MOST_WANTS)) {
            if let Some(port) = self.ports.get_mut(&number) {
                (port.asked, port.is_wanted) = (self.asks, false);
            }
        }
        if let Some(guest) = &mut self.guest {
            guest.is_owed = false;
        }
    }

    /// Handles expired time limits.
    pub fn tick(&mut self, now: Instant) {
        self.now = now;
        let Some(guest) = &mut self.guest else { return };
        if now.saturating_duration_since(guest.spoke_at) > SILENCE {
            return self.part(Some(Fault::Silent));
        }
        if self.unheard_since.is_some_and(|since| now.saturating_duration_since(since) > SILENCE) {
            return self.part(Some(Fault::Deaf));
        }
        if self.asks > self.settled() && now.saturating_duration_since(self.asked_at) >= RETRY {
            (self.given_up, self.is_late) = (self.asks, true);
        }
        if now >= self.round_at {
            self.round_at = now + ROUND;
            self.fragments.expire(now);
            // Flows that still wait ask again; some are gone.
            self.ports.values_mut().for_each(|port| port.awaited = 0);
        }
    }

    /// To be called before sleeping. Returns the longest time before the next [tick](Self::tick) if
    /// the guest sends nothing; `None` if nothing is held.
    pub fn wait(&mut self) -> Option<Duration> {
        (std::mem::take(&mut self.holds) || self.asks > self.settled()).then_some(RETRY)
    }

    /// Whether an answer of the guest is overdue since the last call. The guest may be unable to
    /// answer: its transmit ring may be full of frames for another guest, which waits for this one.
    pub fn is_late(&mut self) -> bool {
        std::mem::take(&mut self.is_late)
    }

    /// Whether a program in the guest and the gate receive each other's messages.
    pub fn is_on(&self) -> bool {
        self.guest.is_some_and(|guest| self.heard >= guest.from)
    }

    /// Notes for the guest's operator, in sentences; empty if all is well.
    pub fn notes(&self) -> Vec<String> {
        let mut notes = Vec::new();
        match self.fault {
            None => {}
            Some(Fault::Silent) => notes.push(
                "`zovn guest` has not been heard for 10 s: UDP sockets in the guest lose what they are sent when full"
                    .into(),
            ),
            Some(Fault::Deaf) => notes.push(
                "`zovn guest` has not heard us for 10 s: UDP sockets in the guest lose what they are sent when full; see that \
                 nothing in the guest drops frames of the type 0x88b5"
                    .into(),
            ),
            Some(Fault::Version(version)) => notes.push(format!(
                "`zovn guest` speaks version {version} of its protocol, and this agent {}: use the same release of zovn",
                wire::room::VERSION
            )),
        }
        notes
    }

    /// How many datagrams found no room at any of the guest's sockets, as its program says.
    pub fn lost(&self) -> u64 {
        self.guest.map_or(0, |guest| guest.lost.into())
    }

    /// A program has sent its first message.
    fn meet(&mut self, common: &Common) {
        self.ports.values_mut().for_each(|port| port.is_doubted = port.sockets.is_some());
        if self.guest.is_none() {
            self.ports.clear();
            self.wanted.clear();
        }
        let from = self.guest.map_or(self.asks + 1, |guest| guest.from);
        self.guest = Some(Guest {
            session: common.session,
            number: common.number,
            spoke_at: self.now,
            is_owed: true,
            from,
            page: common.page.clamp(4096, 65_536),
            lost: common.lost,
        });
    }

    fn note(&mut self, number: u64, message: &Message<'_>) {
        let Some(guest) = &mut self.guest else { return };
        if number <= guest.number {
            return;
        }
        let Common { kind, life, heard, lost, .. } = message.common;
        (guest.number, guest.spoke_at, guest.lost) = (number, self.now, lost);
        guest.is_owed |= kind == Kind::Hello;
        // A program that has received no Ask of this life says nothing about what has arrived.
        if life != self.life.get() {
            return;
        }
        let (from, heard) = (guest.from, heard.min(self.asks));
        // Earlier reports may be older than what was sent since, for which there are no accounts.
        if heard < from.max(self.heard) {
            return;
        }
        if heard > self.heard {
            self.heard = heard;
            self.unheard_since = (self.asks > heard).then_some(self.now);
        }
        self.fault = None;
        for group in message.groups() {
            if let Some(port) = self.ports.get_mut(&group.port) {
                port.learn(self.now, self.heard, &group);
            }
        }
    }

    /// A program has stopped.
    fn part(&mut self, fault: Option<Fault>) {
        (self.guest, self.unheard_since, self.fault) = (None, None, fault);
        self.ports.clear();
        self.wanted.clear();
        self.fragments = Fragments::new(1 << 16);
    }

    /// Before the gate is on, it may meet more ports than it can keep. What was sent to them is
    /// covered by the next Ask and needs no account.
    fn begin_anew(&mut self) {
        self.ports.clear();
        self.wanted.clear();
        if let Some(guest) = &mut self.guest {
            (guest.from, guest.is_owed) = (self.asks + 1, true);
        }
    }

    /// The last Ask that is no longer waited for: it was received, or took too long.
    fn settled(&self) -> u64 {
        self.heard.max(self.given_up)
    }

    /// Whether an Ask about a port is in flight.
    fn is_asked(&self, number: u16) -> bool {
        self.ports.get(&number).is_some_and(|port| port.asked > self.settled())
    }

    fn want(&mut self, number: u16) {
        let port = self.ports.entry(number).or_default();
        if !std::mem::replace(&mut port.is_wanted, true) {
            self.wanted.push(number);
        }
    }

    /// Asks about a port with a held flow, unless the guest has promised a report.
    fn want_if_unsure(&mut self, number: u16) {
        let (now, asked) = (self.now, self.is_asked(number));
        let port = &self.ports[&number];
        let follows =
            port.follows.is_some_and(|since| now.saturating_duration_since(since) < RETRY);
        let sure = port.sockets.is_some() && !port.is_doubted && port.on_its_way() == 0 && follows;
        if !asked && !sure {
            self.want(number);
        }
    }

    /// Whether the state of a port can be kept. Evicts ports to which nothing is in flight.
    fn has_place(&mut self, number: u16) -> bool {
        if self.ports.len() < MOST_PORTS || self.ports.contains_key(&number) {
            return true;
        }
        if self.crowded != Some(self.heard) {
            let heard = self.heard;
            self.ports.retain(|_, port| !port.is_idle(heard));
            self.crowded = (self.ports.len() >= MOST_PORTS).then_some(heard);
        }
        if self.crowded.is_some()
            && let Some(guest) = &mut self.guest
        {
            // An answer settles what is in flight.
            guest.is_owed |= self.asks <= self.heard.max(self.given_up);
        }
        self.crowded.is_none()
    }
}

impl Port {
    fn on_its_way(&self) -> u64 {
        self.earlier + self.later
    }

    fn send(&mut self, asks: u64, bytes: u32) {
        if asks > self.epoch {
            (self.earlier, self.later, self.epoch) = (self.on_its_way(), 0, asks);
        }
        self.later += u64::from(bytes);
    }

    /// Replaces the report about its sockets. The new one includes everything that was sent before
    /// the `heard`-th Ask.
    fn learn(&mut self, now: Instant, heard: u64, group: &Group<'_>) {
        if heard >= self.epoch {
            self.earlier = 0;
        }
        if heard > self.epoch {
            self.later = 0;
        }
        let known = |socket: wire::room::Socket| Known {
            name: Name {
                local: socket.local.to_bits(),
                remote: socket.remote.to_bits(),
                local_port: group.port,
                remote_port: socket.remote_port,
                v6: socket.v6,
                v6_only: socket.v6_only,
                device: 0,
                namespace: 0,
            },
            occupied: socket.occupied,
            limit: socket.limit,
        };
        let sockets = self.sockets.get_or_insert_default();
        sockets.clear();
        sockets.extend(group.sockets().map(known));
        (self.follows, self.is_doubted) = (group.follows.then_some(now), false);
    }

    /// Whether the port can be evicted: everything sent there has arrived, and nothing waits.
    fn is_idle(&self, heard: u64) -> bool {
        let arrived = self.on_its_way() == 0 || heard > self.epoch;
        arrived && !self.is_wanted && self.awaited == 0
    }

    fn tightest(&self, datagram: &Datagram, aside: u64, need: u32) -> Option<Tightest<usize>> {
        let sockets = self.sockets.as_deref().unwrap_or_default();
        let fitting = |(place, known): (usize, &Known)| -> Option<(usize, Fit)> {
            Some((place, fit(&known.name, datagram)?))
        };
        let coming = self.on_its_way() + aside;
        let has_room = |place: usize| {
            let Known { occupied, limit, .. } = sockets[place];
            let taken = u64::from(occupied) + coming;
            taken == 0 || taken + u64::from(need) <= u64::from(limit)
        };
        tightest(datagram.to_all, sockets.iter().enumerate().filter_map(fitting), has_room)
    }

    fn limit(&self, place: usize) -> u64 {
        self.sockets.as_ref().map_or(ALLOWANCE, |sockets| sockets[place].limit.into())
    }
}

/// The most that a guest's kernel charges a socket's buffer for a frame of `len` bytes.
///
/// Its driver allocates buffers beforehand and charges each one whole. Linux's virtio_net uses
/// whole pages at worst (`add_recvbuf_big`, and `add_recvbuf_mergeable` after large frames), and a
/// separate `sk_buff` head: 256 bytes, and 512 for its data. Other drivers may charge twice the
/// frame, as in our own gate.
fn charge(len: usize, page: u32) -> usize {
    (2 * len).max(len.next_multiple_of(page as usize)) + 1280
}

#[cfg(test)]
mod tests;
