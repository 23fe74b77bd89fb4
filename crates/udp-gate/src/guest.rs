//! The gate before a guest, whose sockets only the guest's own kernel sees.
//!
//! A program in the guest tells what room they have (`wire::room`). Between us and them is a queue,
//! the guest's receive ring, so a socket's room is what was told last, less what may still be on
//! its way there:
//!
//! ```text
//!   gate ─▶ datagrams ─▶ Ask 2 ─▶ datagrams ─▶ Ask 1 ─▶ datagrams ─▶ sockets
//!    ▲        later                 earlier              counted by whoever heard Ask 1
//!    └──────────────── Tell: Ask 1 was heard, these sockets are so full ◀────┘
//! ```
//!
//! An Ask goes through the same queue as the datagrams. Whoever has heard it finds everything that
//! went before in the sockets, read already, or gone; so what is on its way is what went after the
//! last Ask that was heard. This needs no agreement of what a datagram is charged, and no count of
//! those that arrive: what the guest's firewall drops or what nobody listens to is forgotten with
//! the next Ask.
//!
//! # What it relies on
//!
//! The guest's kernel handles frames in the order in which they went: one receive queue, and no
//! receive packet steering (`rps_cpus`). What a frame is charged is bounded by [`charge`].
//!
//! # What is not known
//!
//! To a port of which nothing was told, one datagram goes at a time: the kernel's own rule is that
//! an empty socket takes anything. It is lost if the socket was filled before the gate was on, or
//! before its port was forgotten for others. Where nobody listens, or nobody who would get the
//! datagram, as much as [`ALLOWANCE`] may be on its way: the guest may be a router, and a socket
//! that is opened meanwhile has room for that.

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

/// After so long without a word from the guest's program, or a sign that it hears us, it is taken
/// for dead, and nothing is held any more. As long as a receiver may take nothing before it counts
/// as stalled.
const SILENCE: Duration = Duration::from_secs(10);

/// After so long an Ask is given up, and whoever still waits asks again.
const RETRY: Duration = Duration::from_millis(20);

/// How often the gate looks at what time has changed.
const ROUND: Duration = Duration::from_secs(1);

/// What may be on its way where nobody is known to listen, in bytes of a socket's buffer. A third
/// of what a socket has unless it asks for another (`net.core.rmem_default`: 212,992).
const ALLOWANCE: u64 = 64 << 10;

/// How many ports' sockets are known at a time.
const MOST_PORTS: usize = 4096;

/// The most ports in one Ask.
const MOST_WANTS: usize = 128;

/// Says of each datagram to a guest whether its socket has room. It knows nothing until it
/// [hears](Self::hear) a program in the guest, and says [`Verdict::Free`] until then.
///
/// It is told the time and makes no system call.
#[derive(Debug)]
pub struct GuestGate {
    /// Tells its Asks from those of others, before it, at the same port.
    life: NonZeroU32,
    now: Instant,
    round_at: Instant,
    guest: Option<Guest>,
    /// How many Asks have gone, ever.
    asks: u64,
    /// The last of them that was heard.
    heard: u64,
    /// The last of them that is not waited for any more.
    given_up: u64,
    asked_at: Instant,
    /// Since when Asks have gone and none was heard.
    unheard_since: Option<Instant>,
    /// Who speaks another version of the protocol has not been answered.
    is_misread: bool,
    /// When such a one was answered last. Perhaps it answers, too.
    answered_at: Option<Instant>,
    /// Ports to ask about, each once.
    wanted: Vec<u16>,
    ports: HashMap<u16, Port, BuildHasherDefault<Mixer>>,
    /// As of which Ask there was nothing to forget of `ports`.
    crowded: Option<u64>,
    fragments: Fragments,
    /// What the verdict on the last frame rests on, for `passed`.
    last: Option<(Passing, u64)>,
    /// Somebody was held since the last look at the clock.
    holds: bool,
    /// An Ask was given up.
    is_late: bool,
    /// Why nothing is held although somebody in the guest has spoken.
    fault: Option<Fault>,
}

/// A program in the guest.
#[derive(Clone, Copy, Debug)]
struct Guest {
    session: u64,
    /// The latest of its messages.
    number: u64,
    spoke_at: Instant,
    /// It has not been answered.
    is_owed: bool,
    /// The Ask with which the gate's books begin: until it is heard, nothing is held.
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

/// A port, and what is known of its sockets.
#[derive(Debug, Default)]
struct Port {
    /// What was told of its sockets, if anything was.
    sockets: Option<Vec<Known>>,
    /// They were another program's, perhaps before the guest began anew: to be told of before
    /// anything goes.
    is_doubted: bool,
    /// When the guest said that it would tell again once there is room.
    follows: Option<Instant>,
    /// Bytes that may be on their way: those sent before the `epoch`-th Ask, and those since. No
    /// other Ask went between the latter.
    earlier: u64,
    later: u64,
    epoch: u64,
    /// The last Ask about it.
    asked: u64,
    is_wanted: bool,
    /// How many bytes somebody waits for; 0: nobody.
    awaited: u32,
}

#[derive(Clone, Copy, Debug)]
struct Known {
    name: Name,
    occupied: u32,
    limit: u32,
}

impl GuestGate {
    /// A gate before a guest that has not spoken yet. No other gate there has had this `life`.
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

    /// Takes in a frame that the guest has sent to [`wire::room::DESTINATION`].
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
                return Verdict::Hold(question.flow(false));
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
        // A quarter at once: told of each datagram that was read, we would tell of each that we
        // send.
        port.awaited = question.need.max(u32::try_from(limit / 4).unwrap_or(u32::MAX));
        self.holds = true;
        self.want_if_unsure(number);
        Verdict::Hold(flow)
    }

    /// The frame that the last verdict was about has been transmitted.
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
        // Early enough for an answer while there is still room.
        if port.on_its_way() > limit / 4 && !self.is_asked(number) {
            self.want(number);
        }
    }

    /// What is to be said to the guest next, behind all that was transmitted until now;
    /// [`asked`](Self::asked) once it is.
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

    /// What [`ask`](Self::ask) returned was transmitted.
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

    /// Does what time asks for.
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
            // Whoever still waits says so again; some are gone.
            self.ports.values_mut().for_each(|port| port.awaited = 0);
        }
    }

    /// To be called before sleeping: how long at most, before the next [tick](Self::tick), although
    /// the guest says nothing. `None`: nobody is held.
    pub fn wait(&mut self) -> Option<Duration> {
        (std::mem::take(&mut self.holds) || self.asks > self.settled()).then_some(RETRY)
    }

    /// Whether the guest should have answered since this was asked last. Perhaps it cannot: its
    /// transmit ring is full of frames for another guest, which waits for this one.
    pub fn is_late(&mut self) -> bool {
        std::mem::take(&mut self.is_late)
    }

    /// Whether a program in the guest is heard, and hears us.
    pub fn is_on(&self) -> bool {
        self.guest.is_some_and(|guest| self.heard >= guest.from)
    }

    /// What the guest's operator ought to know, in sentences; nothing if all is well.
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
        if let Some(lost @ 1..) = self.guest.map(|guest| guest.lost) {
            notes.push(format!("its UDP sockets had no room for {lost} datagrams, which are lost"));
        }
        notes
    }

    /// A program begins to speak.
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
        // Who has heard an Ask of another life, or none, does not say what of ours has arrived.
        if life != self.life.get() {
            return;
        }
        let (from, heard) = (guest.from, heard.min(self.asks));
        // What was told before may be older than what has gone since, and is in no books.
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

    /// A program speaks no more.
    fn part(&mut self, fault: Option<Fault>) {
        (self.guest, self.unheard_since, self.fault) = (None, None, fault);
        self.ports.clear();
        self.wanted.clear();
        self.fragments = Fragments::new(1 << 16);
    }

    /// Before it is on, it has met more ports than it has places for: what has gone is what went
    /// before the next Ask, and is in no books.
    fn begin_anew(&mut self) {
        self.ports.clear();
        self.wanted.clear();
        if let Some(guest) = &mut self.guest {
            (guest.from, guest.is_owed) = (self.asks + 1, true);
        }
    }

    /// The last Ask that is not waited for: it was heard, or took too long.
    fn settled(&self) -> u64 {
        self.heard.max(self.given_up)
    }

    /// Whether an Ask about a port is on its way.
    fn is_asked(&self, number: u16) -> bool {
        self.ports.get(&number).is_some_and(|port| port.asked > self.settled())
    }

    fn want(&mut self, number: u16) {
        let port = self.ports.entry(number).or_default();
        if !std::mem::replace(&mut port.is_wanted, true) {
            self.wanted.push(number);
        }
    }

    /// Asks about a port where somebody is held, unless the guest is about to tell.
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

    /// Whether the books have a place for a port. Of others, those are forgotten of which nothing
    /// is on its way.
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
            // An answer settles what is on its way.
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

    /// What is told of its sockets takes the place of what was told, and counts all that went
    /// before the `heard`-th Ask.
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

    /// Whether it can be forgotten: all that was sent there has arrived, and nobody waits.
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

/// What a guest's kernel charges for a frame of `len` bytes, at most.
///
/// Its driver fills buffers that it has made beforehand, and charges all of a buffer. Linux's
/// virtio_net has whole pages for them at worst (`add_recvbuf_big`, and `add_recvbuf_mergeable`
/// after large frames), and the head of a `sk_buff` of its own beside them: 256 bytes, and 512 for
/// what it holds. Elsewhere it may be twice the frame, as in our own gate.
fn charge(len: usize, page: u32) -> usize {
    (2 * len).max(len.next_multiple_of(page as usize)) + 1280
}

#[cfg(test)]
mod tests;
