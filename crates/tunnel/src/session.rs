//! One end of a session: streams both ways, and what bounds them together.

use alloc::collections::{BTreeMap, BTreeSet, VecDeque};
use core::num::NonZeroU16;
use core::ops::RangeInclusive;

use units::{Instant, Span};

use crate::asking::Asking;
use crate::greeting::Greeting;
use crate::incoming::{Fate, Incoming};
use crate::message::{Data, Ends, Hello, Life, MOST_RANGES, Message, Report, Room};
use crate::message::{Stream, VERSION};
use crate::number::expand;
use crate::outbound::Outbound;
use crate::ranges::Ranges;
use crate::recovery::{Packet, Recovery};
use crate::window::{Acknowledged, Window};

/// A packet with a frame comes no later than so many that were sent after it: those have less than 2^30 bytes, and a stream's
/// window no more than that, so that 32 bits of its offset say which place is meant.
const REACH: u64 = 1 << 14;

/// The widest window of a stream.
const WIDEST: u32 = 1 << 30;

/// So many frames of each stream are kept, however many others stand still.
const LEAST: usize = 4;

/// After so many probes without an answer the window collapses (RFC 9002 §7.6.1).
const PERSISTENT: u32 = 3;

/// How a session is.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Config {
    /// Bytes of each stream that we take unasked, of the first life of the far end that we know.
    pub unsolicited: u32,
    /// Bytes of each stream that may be underway to us, or wait here, of all lives of the far end together: no fewer than the
    /// longest frame has, so what is below 65,535 counts as that, and no more than 2^30.
    pub stream_window: u32,
    /// The most bytes that we have in the fabric.
    pub most_in_flight: u32,
    /// The most frames that we keep until they are taken. One stream keeps no more than are left for all others; but each may
    /// keep four, however many others stand still, so that memory is to be had for four frames more of each stream.
    pub most_frames: usize,
    /// The most streams to us in one life of the far end: who sends on others, or asks after them, is refused.
    pub most_streams: usize,
    /// Bytes of a full datagram.
    pub datagram: u32,
    /// What is lost is sent again: the fabric may drop.
    pub repairs: bool,
}

/// Whether a frame may be sent.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Admission {
    /// It may.
    Go,
    /// The far end is not heard, or has not told that it hears us.
    Alone,
    /// The far receiver has granted no more, or too many of its frames are kept: only this stream waits.
    NoCredit,
    /// The fabric has enough of us.
    NoWindow,
}

/// What came of what arrived.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Arrival<R> {
    /// To be handed to its egress; once that has taken it, [`Session::took`] wants to know.
    Deliver {
        /// Whose it is.
        stream: Stream,
        /// The life of the far end that sent it.
        from: Life,
        /// Where it begins.
        offset: u64,
        /// Its handle.
        frame: R,
    },
    /// Not wanted: its handle is free.
    Release(R),
}

/// What has gone wrong and was repaired, or refused.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Counters {
    /// Frames sent for the first time.
    pub sent: u64,
    /// Frames sent again.
    pub resent: u64,
    /// Packets that were found lost.
    pub lost: u64,
    /// Frames that came again, or too late to tell whether they did.
    pub repeated: u64,
    /// Frames that came beyond what was granted.
    pub beyond: u64,
    /// Frames of streams beyond the most that there may be, and questions after such.
    pub refused: u64,
    /// Packets for another life, or of one.
    pub stale: u64,
    /// Bytes that the far end sent and that did not come in time, where it does not repair.
    pub missed: u64,
    /// The far end began anew.
    pub resets: u64,
}

/// The far end, in a life in which it has named ours.
#[derive(Clone, Copy, Debug)]
struct Peer {
    life: Life,
    repairs: bool,
    unsolicited: u64,
    /// We have named its life, too, and it has told that it heard.
    knows_us: bool,
}

/// One end. `F` is the handle of a frame that goes out, `R` of one that comes in.
#[derive(Clone, Debug)]
pub struct Session<F, R> {
    config: Config,
    me: Life,
    peer: Option<Peer>,
    /// A life of the far end that was heard and has not named ours: anybody may have said that.
    newcomer: Option<Life>,
    greeting: Greeting,
    outbound: BTreeMap<Stream, Outbound<F>>,
    incoming: Incoming<R>,
    recovery: Recovery,
    window: Window,
    /// Frames that are kept until they are taken.
    kept: usize,
    /// To be sent again, as the window allows: what has credit.
    due: BTreeSet<(Stream, u64)>,
    /// To be sent again now.
    probes: VecDeque<(Stream, u64)>,
    came: Ranges,
    /// The highest number of a packet with a frame that has come.
    newest: u64,
    owes_report: bool,
    /// Marks that we have seen, and marks that the far end has.
    marked: u32,
    their_marked: u32,
    asking: Asking,
    silent_since: Option<Instant>,
    counters: Counters,
}

impl<F: Copy, R> Session<F, R> {
    /// An end that remembers nothing, in a life after all others that it had.
    pub fn new(now: Instant, config: Config, me: Life) -> Self {
        let config = Config { stream_window: config.stream_window.clamp(u16::MAX.into(), WIDEST), ..config };
        Self {
            config,
            me,
            peer: None,
            newcomer: None,
            greeting: Greeting::new(now),
            outbound: BTreeMap::new(),
            incoming: Incoming::new(config),
            recovery: Recovery::new(),
            window: Window::new(config.datagram, config.most_in_flight.into()),
            kept: 0,
            due: BTreeSet::new(),
            probes: VecDeque::new(),
            came: Ranges::default(),
            newest: 0,
            owes_report: false,
            marked: 0,
            their_marked: 0,
            asking: Asking::new(),
            silent_since: None,
            counters: Counters::default(),
        }
    }

    /// What has gone wrong.
    pub fn counters(&self) -> Counters {
        Counters { missed: self.counters.missed + self.incoming.missed(), ..self.counters }
    }

    /// The smoothed round trip, bytes in the fabric, and the most that may be there.
    pub fn path(&self) -> (Span, u64, u64) {
        (self.recovery.round_trip(), self.recovery.in_flight(), self.window.bytes())
    }

    /// Whether a frame of so many bytes may be sent on a stream.
    pub fn admit(&mut self, stream: Stream, len: NonZeroU16) -> Admission {
        let Some(Peer { knows_us: true, unsolicited, .. }) = self.peer else { return Admission::Alone };
        let out = self.outbound.entry(stream).or_insert_with(|| Outbound::new(unsolicited));
        if !out.has_credit(len) {
            self.asking.begin(stream);
            return Admission::NoCredit;
        }
        if !self.config.repairs {
            return Admission::Go;
        }
        // A stream that stands still does not stop others, nor do many.
        if out.len() >= self.config.most_frames.saturating_sub(self.kept).max(LEAST) {
            return Admission::NoCredit;
        }
        if !self.due.is_empty() || !self.has_window(len.get()) {
            return Admission::NoWindow;
        }
        Admission::Go
    }

    /// Sends a frame that was admitted. If lost packets are sent again, its handle is kept until the far receiver has it.
    ///
    /// # Panics
    ///
    /// If it was not admitted.
    pub fn send(&mut self, now: Instant, stream: Stream, len: NonZeroU16, frame: F) -> Data {
        let ends = self.ends().expect("a frame is sent to somebody who is there");
        let out = self.outbound.get_mut(&stream).expect("a frame is sent after it was admitted");
        self.counters.sent += 1;
        if !self.config.repairs {
            let (number, offset) = (self.recovery.forgotten() as u32, out.skip(len) as u32);
            return Data { ends, number, stream, offset, len };
        }
        let offset = out.send(self.recovery.next(), len, frame);
        self.kept += 1;
        self.asking.begin(stream);
        let number = self.recovery.sent(Packet { sent_at: now, stream, offset, len: len.get() });
        Data { ends, number: number as u32, stream, offset: offset as u32, len }
    }

    /// A frame that is to be sent again now, and what to say of it; none if its sender has taken it back, so that only its place
    /// is told of.
    pub fn resend(&mut self, now: Instant) -> Option<(Option<F>, Data)> {
        let ends = self.ends()?;
        while let Some((stream, offset)) = self.probes.pop_front() {
            self.due.remove(&(stream, offset));
            if let Some(again) = self.resend_one(now, ends, stream, offset) {
                return Some(again);
            }
        }
        while let Some((stream, offset)) = self.due.first().copied() {
            let len = self
                .outbound
                .get_mut(&stream)
                .and_then(|out| out.due(offset))
                .map_or(0, |(_, len)| len.get());
            if !self.has_window(len) {
                return None;
            }
            self.due.remove(&(stream, offset));
            if let Some(again) = self.resend_one(now, ends, stream, offset) {
                return Some(again);
            }
        }
        None
    }

    /// Whether so many bytes more may be in the fabric. One frame always may.
    fn has_window(&self, len: u16) -> bool {
        let in_flight = self.recovery.in_flight();
        in_flight == 0 || in_flight + u64::from(len) <= self.window.bytes()
    }

    fn resend_one(
        &mut self,
        now: Instant,
        ends: Ends,
        stream: Stream,
        offset: u64,
    ) -> Option<(Option<F>, Data)> {
        let out = self.outbound.get_mut(&stream)?;
        let (frame, len) = out.due(offset)?;
        let number = self.recovery.sent(Packet { sent_at: now, stream, offset, len: len.get() });
        out.resent(offset, number);
        self.counters.resent += 1;
        Some((frame, Data { ends, number: number as u32, stream, offset: offset as u32, len }))
    }

    /// Between whom frames are sent; none as long as nobody would take them.
    fn ends(&self) -> Option<Ends> {
        self.peer.filter(|peer| peer.knows_us).map(|peer| Ends { from: self.me, to: peer.life })
    }

    /// Whether a message is from the life of the far end that we know to this life of ours. If not, both have to introduce
    /// themselves.
    fn is_current(&mut self, now: Instant, ends: Ends) -> bool {
        if let Some(peer) = &mut self.peer
            && (ends.from, ends.to) == (peer.life, self.me)
        {
            if !peer.knows_us {
                peer.knows_us = true;
                self.greeting.rest();
            }
            self.silent_since = None;
            return true;
        }
        self.counters.stale += 1;
        self.notice(ends.from);
        self.greeting.answer(now);
        false
    }

    /// Somebody has spoken who may be the far end in a new life. Named in our next hello, it can show that it has heard it.
    fn notice(&mut self, life: Life) {
        let is_new = self.peer.is_none_or(|peer| life.is_after(peer.life));
        if is_new && self.newcomer.replace(life) != Some(life) {
            self.greeting.begin_anew();
        }
    }

    /// The far end says who it is. `release` has each handle of what came and will come again.
    pub fn handle_hello(&mut self, now: Instant, hello: &Hello, release: impl FnMut(R)) {
        let [oldest, newest] = hello.versions;
        if !(oldest..=newest).contains(&VERSION) {
            return;
        }
        let names_us = hello.to == Some(self.me);
        match self.peer {
            Some(peer) if peer.life == hello.from => self.newcomer = None,
            // It was long underway.
            Some(peer) if !hello.from.is_after(peer.life) => return self.counters.stale += 1,
            // Only who has heard us knows this life of ours.
            _ if names_us => self.meet(now, hello, release),
            _ => self.notice(hello.from),
        }
        if names_us {
            self.silent_since = None;
            self.owes_report = true;
        } else {
            self.greeting.answer(now);
        }
    }

    /// The far end is another than the one that we knew, if we knew one: what it had not taken is sent from the beginning.
    fn meet(&mut self, now: Instant, hello: &Hello, release: impl FnMut(R)) {
        if let Some(Peer { life, .. }) = self.peer {
            self.counters = self.counters();
            self.counters.resets += 1;
            self.incoming.begin_anew(life, release);
        }
        self.peer = Some(Peer {
            life: hello.from,
            repairs: hello.repairs,
            unsolicited: hello.unsolicited.into(),
            knows_us: false,
        });
        self.newcomer = None;
        self.greeting.meet(now);
        self.recovery = Recovery::new();
        self.window = Window::new(self.config.datagram, self.config.most_in_flight.into());
        (self.came, self.newest) = (Ranges::default(), 0);
        (self.marked, self.their_marked) = (0, 0);
        self.due.clear();
        self.probes.clear();
        for (stream, out) in &mut self.outbound {
            out.reset(hello.unsolicited.into());
            self.due.extend(out.due_above(0).map(|offset| (*stream, offset)));
        }
    }

    /// A frame has come, or only its place, marked by the fabric or not. `arrived` is told what to do with it and with others
    /// that it was waited for.
    ///
    /// The caller has seen that the frame is as long as `data` says, and drops the packet if it is not: what streams are granted
    /// counts on it.
    pub fn handle_data(
        &mut self,
        now: Instant,
        data: &Data,
        is_marked: bool,
        frame: Option<R>,
        mut arrived: impl FnMut(Arrival<R>),
    ) {
        let number = expand(data.number, self.newest);
        let is_current = self.is_current(now, data.ends);
        let is_late = is_current && number + REACH <= self.newest;
        self.counters.repeated += u64::from(is_late);
        if !is_current || is_late {
            return frame.map(Arrival::Release).into_iter().for_each(&mut arrived);
        }
        self.newest = self.newest.max(number);
        let Peer { repairs, .. } = self.peer.expect("whoever is current is known");
        let fate = self.incoming.arrived(now, data, repairs, frame, arrived);
        match fate {
            Fate::Fresh => {}
            Fate::Repeated => self.counters.repeated += 1,
            Fate::Beyond => self.counters.beyond += 1,
            Fate::Refused => self.counters.refused += 1,
        }
        if repairs && matches!(fate, Fate::Fresh | Fate::Repeated) {
            self.came.insert(number);
            self.owes_report = true;
            self.marked = self.marked.wrapping_add(is_marked.into());
        }
    }

    /// The receiver has taken a frame that was delivered, or never will.
    pub fn took(&mut self, stream: Stream, from: Life, offset: u64) {
        if self.peer.is_some_and(|peer| peer.life == from) {
            self.incoming.took(stream, offset);
        } else {
            self.incoming.took_leftover(stream, from, offset);
        }
    }

    /// Forgets frames whose senders take them back, and which nobody needs any more. Their places in their streams are told of,
    /// without them.
    pub fn withdraw(&mut self, mut is_gone: impl FnMut(F) -> bool) {
        self.outbound.values_mut().for_each(|out| out.withdraw(&mut is_gone));
    }

    /// Gives frames up that are not known to be taken, of one stream or of all: `given_up` has each. Whether the far receiver has
    /// them cannot be known. Their places in their streams are told of, without them, once the far end is heard again.
    pub fn abandon(&mut self, stream: Option<Stream>, mut given_up: impl FnMut(F)) {
        for (_, out) in
            self.outbound.iter_mut().filter(|(its, _)| stream.is_none_or(|stream| stream == **its))
        {
            out.withdraw(|frame| {
                given_up(frame);
                true
            });
        }
    }

    /// Since when nothing at all is heard of the far end although it owes an answer: frames are not known to be taken, or streams
    /// wait for credit. None if it owes nothing, also if it was not met yet. One that is there and hears us answers within a tenth of a
    /// second and a round trip, whatever becomes of frames; longer silence is the fabric's or its end. [`Self::poll`] keeps this up to date.
    pub fn silent_since(&self) -> Option<Instant> {
        self.silent_since
    }

    /// The far end reports. `completed` has each frame that its receiver has taken.
    pub fn handle_report(&mut self, now: Instant, report: &Report, mut completed: impl FnMut(F)) {
        if !self.is_current(now, report.ends) {
            return;
        }
        self.acknowledge(now, report);
        for Room { stream, taken, limit } in &report.rooms {
            let Some(out) = self.outbound.get_mut(stream) else { continue };
            let (taken, limit) = (expand(*taken, out.sent()), expand(*limit, out.limit()));
            let before = out.len();
            let limit_before = out.limit();
            if out.granted(taken, limit, &mut completed) {
                self.asking.hurry();
            }
            self.due.extend(out.due_above(limit_before).map(|offset| (*stream, offset)));
            self.kept -= before - out.len();
            if !out.asks() {
                self.asking.end(*stream);
            }
        }
        let repairs = self.peer.is_none_or(|peer| peer.repairs);
        for ask in &report.asks {
            let is_known = self.incoming.asked(now, ask, repairs);
            self.counters.refused += u64::from(!is_known);
            // Whoever asks is to know that it is heard, if no more.
            self.owes_report = true;
        }
    }

    fn acknowledge(&mut self, now: Instant, report: &Report) {
        let Self { recovery, outbound, window, .. } = self;
        let next = recovery.next();
        let in_flight = recovery.in_flight();
        let ranges = report.came.iter().map(|[first, last]| {
            let last = expand(*last, next);
            last.saturating_sub(u64::from((last as u32).wrapping_sub(*first)))..=last
        });
        let (mut packets, mut bytes, mut largest) = (0, 0, 0);
        let newest = recovery.acknowledged(now, ranges, |number, packet| {
            packets += 1;
            bytes += u64::from(packet.len);
            largest = largest.max(number);
            if let Some(out) = outbound.get_mut(&packet.stream) {
                out.there(packet.offset);
            }
        });
        let Some(newest) = newest else { return };
        // An older report, which tells of fewer, may come later.
        let more = report.marked.wrapping_sub(self.their_marked).cast_signed().max(0).cast_unsigned();
        self.their_marked = self.their_marked.wrapping_add(more);
        let marked = u64::from(more).min(packets);
        window.acknowledged(
            now,
            Acknowledged {
                packets,
                marked,
                bytes,
                in_flight,
                largest,
                largest_sent_at: newest.sent_at,
                next,
            },
        );
        self.find_lost(now);
    }

    fn find_lost(&mut self, now: Instant) {
        let Self { recovery, outbound, window, due, counters, .. } = self;
        recovery.find_lost(now, |number, Packet { sent_at, stream, offset, .. }| {
            counters.lost += 1;
            window.lost(now, sent_at);
            if outbound.get_mut(&stream).is_some_and(|out| out.lost(offset, number)) {
                due.insert((stream, offset));
            }
        });
    }

    /// Does what time asks for. `arrived` is told what to do with frames that have waited long enough for others.
    pub fn handle_deadline(&mut self, now: Instant, arrived: impl FnMut(Arrival<R>)) {
        if let Some(Peer { life, .. }) = self.peer {
            self.incoming.give_up(now, life, arrived);
        }
        if self.recovery.deadline().is_none_or(|at| at > now) {
            return;
        }
        if self.recovery.is_overtaken() {
            return self.find_lost(now);
        }
        let Self { recovery, outbound, probes, window, .. } = self;
        recovery.probe(now, |number, Packet { stream, offset, .. }| {
            let is_wanted = outbound.get_mut(&stream).is_some_and(|out| out.lost(offset, number));
            if is_wanted {
                probes.push_back((stream, offset));
            }
            is_wanted
        });
        if recovery.probes() == PERSISTENT {
            window.collapse(now);
        }
    }

    /// When something falls due although nothing is heard.
    pub fn deadline(&self) -> Option<Instant> {
        let all = [
            self.recovery.deadline(),
            self.incoming.deadline(),
            self.greeting.deadline(),
            self.asking.deadline(),
        ];
        all.into_iter().flatten().min()
    }

    /// What is to be said, after all that has arrived was told of: call it until there is no more.
    pub fn poll(&mut self, now: Instant) -> Option<Message> {
        let is_owed = self.kept > 0 || !self.asking.is_empty();
        self.silent_since = is_owed.then(|| self.silent_since.unwrap_or(now));
        if self.greeting.is_due(now, self.ends().is_some()) {
            return Some(Message::Hello(self.hello()));
        }
        let ends = self.peer.map(|peer| Ends { from: self.me, to: peer.life })?;
        let rooms = self.incoming.rooms();
        let outbound = &mut self.outbound;
        let asks = self.asking.due(now, |stream| {
            let out = outbound.get_mut(&stream)?;
            (!out.was_heard()).then_some(out.sent())
        });
        if !self.owes_report && rooms.is_empty() && asks.is_empty() {
            return None;
        }
        self.owes_report = false;
        // A range has no room for more numbers than that; those before were told of long ago.
        let range = |range: RangeInclusive<u64>| {
            let first = (*range.start()).max(range.end().saturating_sub(u16::MAX.into()));
            [first as u32, *range.end() as u32]
        };
        let came = self.came.iter().take(MOST_RANGES).map(range);
        Some(Message::Report(Report { ends, marked: self.marked, came: came.collect(), rooms, asks }))
    }

    fn hello(&self) -> Hello {
        Hello {
            from: self.me,
            to: self.newcomer.or(self.peer.map(|peer| peer.life)),
            versions: [VERSION; 2],
            repairs: self.config.repairs,
            // What the peer sent may wait here still when the newcomer takes its place.
            unsolicited: match (self.peer, self.newcomer) {
                (Some(_), Some(_)) => 0,
                _ => self.incoming.unsolicited(),
            },
        }
    }

    /// Frames that are kept and not known to be taken, of all streams.
    pub fn kept(&self) -> usize {
        self.kept
    }
}
