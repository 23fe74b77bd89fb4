//! One end of a session: its handshake, and what it sends and receives.
//!
//! The handshake (docs/protocol.md has the messages):
//!
//! ```text
//!             a HELLO names our incarnation           a report or frame to our incarnation
//!  Listening ──────────────────────────────▶ HalfOpen ────────────────────────▶ Established
//!      ▲                                        ▲                                    │
//!      │                                        └── a HELLO of another incarnation ──┤
//!      │                                            names our next one               │
//!      └─────────────────── our end begins a new incarnation ────────────────────────┘
//! ```
//!
//! Our *next* incarnation is a random number that only an incarnation of the peer is told that is
//! not accepted yet. Whoever names it has received that, so it is there now. With it begins a new
//! incarnation of ours: so no two incarnations accept each other twice.
//!
//! Frames are sent only in `Established`: the peer would drop earlier ones.

use alloc::vec::Vec;
use core::num::NonZeroU16;
use core::ops::RangeInclusive;

use units::{Class, ClassSet, Instant, Rng};

use crate::answer::Answer;
use crate::config::{MAX_FRAME_LEN, SessionConfig};
use crate::exchange::{Admission, Arrival, Counters, Epoch, Lane, PathMetrics, Payload};
use crate::grants::Progress;
use crate::handshake::{Answer as HelloAnswer, Handshake, HelloTimer};
use crate::message::{
    Data, Ends, Hello, Incarnation, MAX_MARKS, MAX_RANGES, Message, Report, Stream, WindowProbe,
};
use crate::message::{OLDEST, Return, Unsolicited, VERSION, WITH_CONTEXT};
use crate::number::expand;
use crate::quota::Claim;
use crate::ranges::Ranges;
use crate::receiver::{Fate, Origin, Probed, Receiver};
use crate::sender::{Again, Sender};

/// The most packets by which a data packet may be late. The packets that were sent after it carry
/// less than 2^30 bytes, and no stream's window is wider. So 32 bits of an offset identify a
/// position in its stream.
const MAX_REORDERING: u64 = 1 << 14;

/// What is to be sent to the peer.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
enum Pending {
    Nothing,
    /// A report: something has arrived or was consumed. It may wait for a frame to go with.
    Report,
    /// A report that the peer waits for.
    Reply,
}

/// One end. `F` is the handle of a frame that is sent, `R` of one that is received.
#[derive(Clone, Debug)]
pub struct Session<F, R> {
    config: SessionConfig,
    me: Incarnation,
    /// Our next incarnation.
    next: Incarnation,
    rng: Rng,
    handshake: Handshake,
    /// The newest version that both ends speak.
    version: u8,
    /// The classes that the peer retransmits.
    reliable: ClassSet,
    epoch: Epoch,
    /// A new incarnation is to forget streams: all are in use and some are idle, or one contradicts
    /// itself.
    needs_incarnation: bool,
    answer: HelloAnswer,
    hello: HelloTimer,
    sender: Sender<F>,
    receiver: Receiver<R>,
    came: Ranges,
    /// The highest number of a data packet received; it follows leaps only in part.
    newest: u64,
    pending: Pending,
    /// Marked packets received, and which of them no report has named yet.
    marked: u32,
    marks: Ranges,
    unanswered_since: Option<Instant>,
    counters: Counters,
}

impl<F: Copy, R> Session<F, R> {
    /// An end that remembers nothing. `rng` draws its incarnations: nobody may be able to guess its
    /// seed.
    pub fn new(now: Instant, config: SessionConfig, mut rng: Rng) -> Self {
        let config = config.clamped();
        Self {
            config,
            me: Incarnation::random(&mut rng),
            next: Incarnation::random(&mut rng),
            rng,
            handshake: Handshake::Listening,
            version: OLDEST,
            reliable: ClassSet::NONE,
            epoch: Epoch::default(),
            needs_incarnation: false,
            answer: HelloAnswer::default(),
            hello: HelloTimer::new(now),
            sender: Sender::new(config),
            receiver: Receiver::new(config),
            came: Ranges::default(),
            newest: 0,
            pending: Pending::Nothing,
            marked: 0,
            marks: Ranges::default(),
            unanswered_since: None,
            counters: Counters::default(),
        }
    }

    /// The counters.
    pub fn counters(&self) -> Counters {
        let unrecovered = self.counters.unrecovered + self.receiver.unrecovered();
        Counters { unrecovered, ecn_marked: self.sender.marks(), ..self.counters }
    }

    /// The path to the peer.
    pub fn path(&self) -> PathMetrics {
        self.sender.path()
    }

    /// Our incarnation.
    pub fn incarnation(&self) -> Incarnation {
        self.me
    }

    /// The current epoch.
    pub fn epoch(&self) -> Epoch {
        self.epoch
    }

    /// Whether the handshake is complete.
    pub fn is_established(&self) -> bool {
        self.ends().is_some()
    }

    /// The newest version that both ends speak, once an incarnation of the peer is accepted.
    pub fn version(&self) -> Option<u8> {
        self.handshake.peer().map(|_| self.version)
    }

    /// Whether frames may have a [context](crate::Context), and may be given back, if the peer is
    /// there; `None` if it is not known yet.
    pub fn carries_contexts(&self) -> Option<bool> {
        self.version().map(|version| version >= WITH_CONTEXT)
    }

    /// Whether a frame of `len` bytes, or a part of one, may be sent on a stream. A stream that is
    /// new is of this lane, and stays so until it is forgotten. The limit of outstanding frames
    /// does not apply to a part that `continues` a frame: the peer can use the frame only with all
    /// its parts.
    pub fn admit(
        &mut self,
        lane: Lane,
        stream: Stream,
        len: NonZeroU16,
        continues: bool,
    ) -> Admission {
        match self.ends() {
            Some(_) if self.sender.has_place(stream) => {
                self.sender.admit(lane, stream, len, continues)
            }
            // No stream is idle, so some frames will soon be consumed.
            Some(_) if !self.sender.is_any_idle() => Admission::NoCredit,
            Some(_) => {
                self.needs_incarnation = true;
                Admission::NoSession
            }
            None => Admission::NoSession,
        }
    }

    /// The result of [`admit`](Self::admit), without its effects, and how many bytes the stream may
    /// still send.
    pub fn outlook(&self, lane: Lane, stream: Stream, len: NonZeroU16) -> (Admission, u64) {
        match self.ends() {
            Some(_) => self.sender.outlook(lane, stream, len),
            None => (Admission::NoSession, 0),
        }
    }

    /// Whether a stream may not send `len` bytes before it is granted more credit.
    pub fn waits_for_grant(&self, stream: Stream, len: NonZeroU16) -> bool {
        self.sender.waits_for_grant(stream, len)
    }

    /// Whether something may be sent by some stream of a lane: the handshake is complete, nothing
    /// of the lane is to be retransmitted first, and its window is open.
    pub fn is_open(&self, lane: Lane) -> bool {
        self.is_established() && self.sender.is_open(lane)
    }

    /// Whether a datagram of `len` bytes that a network card will cut should be sent, if its frame
    /// is [admitted](Self::admit). Not if it exceeds a quarter of the lane's window, or while
    /// large datagrams are paused.
    pub fn may_send_large(&self, now: Instant, lane: Lane, len: NonZeroU16) -> bool {
        self.sender.may_send_large(now, lane, len)
    }

    /// Whether large datagrams are paused, because some were lost or are late.
    pub fn is_large_paused(&self, now: Instant) -> bool {
        self.sender.is_large_paused(now)
    }

    /// Sends a frame that was admitted. In a reliable class its handle is kept until the far
    /// receiver has consumed it.
    ///
    /// # Panics
    ///
    /// If the frame was not admitted.
    pub fn send(&mut self, now: Instant, stream: Stream, len: NonZeroU16, frame: F) -> Data {
        self.send_as(now, stream, len, false, frame)
    }

    /// As [`send`](Self::send), in one datagram that a network card will cut.
    ///
    /// # Panics
    ///
    /// If the frame was not admitted.
    pub fn send_large(&mut self, now: Instant, stream: Stream, len: NonZeroU16, frame: F) -> Data {
        self.send_as(now, stream, len, true, frame)
    }

    fn send_as(
        &mut self,
        now: Instant,
        stream: Stream,
        len: NonZeroU16,
        is_large: bool,
        frame: F,
    ) -> Data {
        let ends = self.ends().expect("a frame is sent to somebody who is there");
        self.counters.sent += 1;
        self.counters.sent_large += u64::from(is_large);
        self.sender.send(now, ends, stream, len, is_large, frame)
    }

    /// Retransmits a frame: its handle and the data option of its packet, if one is due and the
    /// window allows. The handle is `None` if the frame was withdrawn, or the packet only asks the
    /// peer what it has received; then only a position is sent.
    pub fn retransmit(&mut self, now: Instant) -> Option<(Option<F>, Data)> {
        self.retransmit_divided(now, |_, _| None)
    }

    /// As [`retransmit`](Self::retransmit). `divide` may split a frame into two, with the bytes of
    /// each.
    pub fn retransmit_divided(
        &mut self,
        now: Instant,
        divide: impl FnMut(F, NonZeroU16) -> Option<[(F, NonZeroU16); 2]>,
    ) -> Option<(Option<F>, Data)> {
        let ends = self.ends()?;
        match self.sender.retransmit(now, ends, divide)? {
            Again::Probe(data) => Some((None, data)),
            Again::Frame(frame, data) => {
                self.counters.retransmitted += 1;
                Some((frame, data))
            }
        }
    }

    /// Both incarnations, if the handshake is complete.
    fn ends(&self) -> Option<Ends> {
        self.handshake.established().map(|peer| self.ends_to(peer))
    }

    fn ends_to(&self, peer: Incarnation) -> Ends {
        Ends { from: self.me.tag(), to: peer.tag() }
    }

    /// Whether these are the current incarnations. Packets of others are not accepted.
    pub fn is_between(&self, ends: Ends) -> bool {
        self.handshake
            .peer()
            .is_some_and(|peer| (ends.from, ends.to) == (peer.tag(), self.me.tag()))
    }

    /// Whether a message is between the current incarnations. It completes the handshake if it is,
    /// and is answered by a HELLO if it is not.
    fn is_current(&mut self, now: Instant, ends: Ends) -> bool {
        if self.is_between(ends) {
            if let Handshake::HalfOpen(peer) = self.handshake {
                self.handshake = Handshake::Established(peer);
                self.hello.stop();
            }
            self.unanswered_since = None;
            return true;
        }
        self.counters.stale_incarnation += 1;
        self.hello.reply(now);
        false
    }

    /// The incarnation of ours in which no peer is accepted.
    fn unmet(&self) -> Incarnation {
        if self.handshake.peer().is_some() { self.next } else { self.me }
    }

    /// Handles a HELLO. `release` has each handle of a frame that was received out of order: the
    /// peer will retransmit it.
    pub fn handle_hello(&mut self, now: Instant, hello: &Hello, release: impl FnMut(R)) {
        let [oldest, newest] = hello.versions;
        if oldest > newest || newest < OLDEST || VERSION < oldest {
            self.counters.unsupported_version += 1;
            return;
        }
        let is_accepted = self.handshake.peer() == Some(hello.from);
        if is_accepted && hello.to != Some(self.me) {
            // It does not know our incarnation yet.
            return self.hello.reply(now);
        }
        if !is_accepted && hello.to != Some(self.unmet()) {
            return self.hear(now, hello);
        }
        if !is_accepted {
            self.accept(now, hello, release);
        }
        self.unanswered_since = None;
        self.pending = Pending::Reply;
    }

    /// Handles a HELLO of an incarnation that is not accepted, and has not shown that it is there.
    fn hear(&mut self, now: Instant, hello: &Hello) {
        if hello.to.is_some_and(|to| to != self.me) {
            // It answers somebody else: an earlier incarnation of ours, or a forged HELLO. To
            // answer that in turn would have two ends that know each other meet anew.
            self.counters.stale_incarnation += 1;
            return self.hello.reply(now);
        }
        self.answer.owe(hello.from);
        if self.handshake.peer().is_none() {
            self.hello.restart(now);
        }
    }

    /// Accepts an incarnation of the peer. What its earlier incarnation had not consumed is sent to
    /// it, each stream from offset 0.
    fn accept(&mut self, now: Instant, hello: &Hello, release: impl FnMut(R)) {
        if self.handshake.peer().is_some() {
            self.counters = self.counters();
            self.counters.resets += 1;
            self.begin_epoch(release);
            self.take_next();
        }
        self.handshake = Handshake::HalfOpen(hello.from);
        self.version = hello.versions[1].min(VERSION);
        self.reliable = hello.reliable;
        self.answer.withdraw();
        self.hello.send_now(now);
        self.sender.restart(hello.unsolicited);
        (self.came, self.newest) = (Ranges::default(), 0);
        (self.marked, self.marks) = (0, Ranges::default());
    }

    /// Begins an epoch: streams are counted from 0 again.
    fn begin_epoch(&mut self, release: impl FnMut(R)) {
        self.receiver.restart(self.epoch, release);
        self.epoch = self.epoch.next();
    }

    /// Begins a new incarnation of ours. Both ends then forget all streams, except that we keep
    /// those with outstanding or waiting frames.
    fn begin_incarnation(&mut self, now: Instant, release: impl FnMut(R)) {
        self.needs_incarnation = false;
        self.counters = self.counters();
        self.begin_epoch(release);
        self.take_next();
        self.handshake = Handshake::Listening;
        self.hello.send_now(now);
        self.sender.forget_idle();
        self.sender.restart(Unsolicited::default());
        (self.came, self.newest) = (Ranges::default(), 0);
        (self.marked, self.marks) = (0, Ranges::default());
    }

    fn take_next(&mut self) {
        self.me = core::mem::replace(&mut self.next, Incarnation::random(&mut self.rng));
    }

    /// Handles a data packet. `arrived` has each frame that is delivered or released by it.
    ///
    /// If our owner has no memory for the frame, a reliable stream is NACKed until
    /// [`memory_available`](Self::memory_available); in an unreliable class the frame is lost.
    ///
    /// The caller checks that the payload is as long as `data` says, and drops the packet if not:
    /// credit depends on it.
    pub fn handle_data(
        &mut self,
        now: Instant,
        data: &Data,
        is_marked: bool,
        brought: Payload<R>,
        arrived: impl FnMut(Arrival<R>),
    ) {
        let number = expand(data.number, self.newest);
        let is_current = self.is_current(now, data.ends);
        let is_late = is_current && number + MAX_REORDERING <= self.newest;
        self.counters.duplicates += u64::from(is_late);
        if !is_current || is_late {
            return brought.release(arrived);
        }
        // If a number was corrupted, the correct ones that follow must remain in reach.
        self.newest = self.newest.max(number.min(self.newest + MAX_REORDERING / 2));
        let is_reliable = self.is_reliable(data.stream);
        let origin = Origin { from: self.epoch, newest: self.newest, is_reliable };
        // What asks us what we have names a position that we have.
        let is_probe = matches!(brought, Payload::Placeholder);
        let fate = self.receiver.arrived(now, data, origin, brought, arrived);
        match fate {
            Fate::Accepted => {}
            Fate::Duplicate => self.counters.duplicates += u64::from(!is_probe),
            Fate::CreditExceeded => self.counters.credit_exceeded += 1,
            Fate::Nacked => self.counters.nacked += 1,
            Fate::NotYet => self.counters.not_yet += 1,
            Fate::NoMemory => self.counters.no_memory += 1,
            Fate::TooManyStreams => self.counters.too_many_streams += 1,
        }
        if !self.reliable().is_empty() && number <= self.newest && is_received(fate) {
            // Unreliable packets too, so that ranges have no gaps where those were.
            self.came.insert(number);
            if is_reliable {
                self.pending = self.pending.max(Pending::Report);
            }
            if is_reliable && is_marked {
                self.marked = self.marked.wrapping_add(1);
                self.marks.insert(number);
            }
        }
    }

    /// A delivered frame is given back: it is the peer's again, which may send it elsewhere. If it
    /// cannot be, because it came in an earlier epoch and comes again, or the peer does not know
    /// what that is, it counts as [consumed](Self::consumed).
    pub fn give_back(&mut self, stream: Stream, from: Epoch, offset: u64, answer: Answer) {
        let may_be =
            from == self.epoch && self.is_reliable(stream) && self.carries_contexts() == Some(true);
        if may_be && self.receiver.give_back(stream, offset, answer) {
            self.counters.given_back += 1;
        } else {
            self.consumed(stream, from, offset);
        }
    }

    /// Why a frame that was delivered is to be [given back](Self::give_back) although its port is
    /// here, to keep its place behind others that were given back because it was not. It is not if
    /// it begins [anew](crate::ContextFlags::ANEW).
    pub fn behind_moved(&mut self, stream: Stream, from: Epoch, anew: bool) -> Option<Answer> {
        if from == self.epoch { self.receiver.behind_moved(stream, anew) } else { None }
    }

    /// The claim of a frame to memory.
    pub fn claim(&self, data: &Data) -> Claim<Stream> {
        match self.is_reliable(data.stream) {
            true if self.receiver.is_next_in_order(data) => Claim::NextInOrder(data.stream),
            true => Claim::Reliable(data.stream),
            false => Claim::Unreliable,
        }
    }

    fn is_reliable(&self, stream: Stream) -> bool {
        self.reliable().contains(stream.class)
    }

    /// Whether a stream is being NACKed: its frames wait for memory.
    pub fn is_nacking(&self, stream: Stream) -> bool {
        self.receiver.is_nacking(stream)
    }

    /// The next stream that is being NACKed: the first after this one, or the first of all.
    pub fn next_nacking(&self, behind: Option<Stream>) -> Option<Stream> {
        self.receiver.next_nacking(behind)
    }

    /// Ends the NACKs of a stream: there is memory for its frames again.
    pub fn memory_available(&mut self, stream: Stream) {
        self.receiver.memory_available(stream);
    }

    /// More is known of what decides frames: those that [came early](Payload::NotYet) are to come
    /// again.
    pub fn look_again(&mut self) {
        self.receiver.look_again();
    }

    /// Whether frames of any stream came early, and wait to [come again](Self::look_again).
    pub fn is_any_early(&self) -> bool {
        self.receiver.is_any_early()
    }

    /// Where a stream of the peer is that may be sent no further than [granted](Self::grant);
    /// `None` if only its window counts, or nothing is known of it.
    pub fn progress(&self, stream: Stream) -> Option<Progress> {
        self.receiver.progress(stream)
    }

    /// The link that streams share lets one of the peer's be sent up to this offset. Its window
    /// counts as well.
    pub fn grant(&mut self, stream: Stream, limit: u64) {
        self.receiver.grant(stream, limit);
    }

    /// Whether the peer lets streams of this class begin with much less than the longest frame: it
    /// may grant that in pieces.
    pub fn is_granted_in_pieces(&self, class: Class) -> bool {
        (1..MAX_FRAME_LEN / 2).contains(&self.sender.unsolicited(class))
    }

    /// The session uses another path, or one that was cut and is up again. What is in flight counts
    /// as lost and is retransmitted at once; window probes and HELLOs are sent at once.
    pub fn change_path(&mut self, now: Instant) {
        self.counters.lost += self.sender.change_path();
        self.hello.hurry(now);
        // Our last report may have been lost with the path.
        if self.is_established() {
            self.pending = Pending::Reply;
        }
    }

    /// The receiver has consumed a delivered frame, or has refused it.
    pub fn consumed(&mut self, stream: Stream, from: Epoch, offset: u64) {
        if from == self.epoch {
            self.receiver.consumed(stream, offset);
        } else {
            self.receiver.consumed_earlier(stream, from, offset);
        }
    }

    /// The classes that the peer retransmits, also to a later incarnation of ours.
    pub fn reliable(&self) -> ClassSet {
        self.reliable
    }

    /// Reports all that was consumed at the next [`poll_transmit`](Self::poll_transmit). For the
    /// end of our incarnation.
    pub fn hurry(&mut self) {
        self.receiver.hurry();
    }

    /// Forgets frames that their senders take back. Their positions are sent without them.
    pub fn withdraw(&mut self, is_gone: impl FnMut(F) -> bool) {
        self.sender.withdraw(None, is_gone);
    }

    /// Gives outstanding frames up, of one stream or of all: `given_up` has each. Whether their
    /// receivers have them is unknown. Their positions are sent without them once the peer is heard
    /// again.
    pub fn abandon(&mut self, stream: Option<Stream>, mut given_up: impl FnMut(F)) {
        self.sender.withdraw(stream, |frame| {
            given_up(frame);
            true
        });
    }

    /// Since when the peer has not been heard although it owes an answer: frames are outstanding,
    /// or streams wait for credit. `None` if it owes nothing, or the handshake never completed. A
    /// peer that receives our packets answers within a tenth of a second and a round trip.
    /// [`poll_transmit`](Self::poll_transmit) keeps this current.
    pub fn unanswered_since(&self) -> Option<Instant> {
        self.unanswered_since
    }

    /// Handles a report. `ended` has each frame that its receiver has consumed, and each that it
    /// gives back, with its answer: those of a stream in the order in which they were sent.
    pub fn handle_report(
        &mut self,
        now: Instant,
        report: &Report,
        ended: impl FnMut(F, Option<Answer>),
    ) {
        if !self.is_current(now, report.ends) {
            return;
        }
        self.counters.lost += self.sender.reported(now, report, ended);
        let reliable = self.reliable();
        for window_probe in &report.window_probes {
            let is_reliable = reliable.contains(window_probe.stream.class);
            match self.receiver.probed(now, window_probe, is_reliable) {
                Probed::Known => {}
                Probed::Contradicts if self.needs_incarnation => {}
                Probed::Contradicts => {
                    self.counters.contradictions += 1;
                    self.needs_incarnation = true;
                }
                Probed::TooManyStreams => self.counters.too_many_streams += 1,
            }
            // A window probe is always answered, so that its sender knows it is heard.
            self.pending = Pending::Reply;
        }
    }

    /// Does what is due at `now`. `arrived` has frames of unreliable classes that have waited long
    /// enough for missing ones.
    pub fn handle_timeout(&mut self, now: Instant, mut arrived: impl FnMut(Arrival<R>)) {
        if self.needs_incarnation {
            self.begin_incarnation(now, |frame| arrived(Arrival::Release(frame)));
        }
        self.receiver.give_up(now, self.epoch, arrived);
        self.counters.lost += self.sender.handle_timeout(now);
    }

    /// When [`handle_timeout`](Self::handle_timeout) or [`poll_transmit`](Self::poll_transmit) is
    /// due, if nothing arrives.
    pub fn deadline(&self) -> Option<Instant> {
        let renewal = self.needs_incarnation.then_some(Instant::ZERO);
        let hellos = [self.hello.deadline(), self.answer.deadline()];
        let all = [renewal, self.sender.deadline(), self.receiver.deadline()];
        all.into_iter().chain(hellos).flatten().min()
    }

    /// The next control message to send. Call it after all packets received were handled, until it
    /// returns `None`.
    pub fn poll_transmit(&mut self, now: Instant) -> Option<Message> {
        self.poll_at_least(now, Pending::Report)
    }

    /// As [`poll_transmit`](Self::poll_transmit), without reports that may be
    /// [piggybacked](Self::piggyback).
    pub fn poll_urgent(&mut self, now: Instant) -> Option<Message> {
        self.poll_at_least(now, Pending::Reply)
    }

    /// The next control message; a report only if it is at least this urgent.
    fn poll_at_least(&mut self, now: Instant, least: Pending) -> Option<Message> {
        self.unanswered_since = self.sender.is_owed().then(|| self.unanswered_since.unwrap_or(now));
        if self.hello.is_due(now, self.is_established()) {
            return Some(Message::Hello(self.hello_message(self.me, self.handshake.peer())));
        }
        if let Some(to) = self.answer.poll(now) {
            return Some(Message::Hello(self.hello_message(self.unmet(), Some(to))));
        }
        let ends = self.ends_to(self.handshake.peer()?);
        // There is no room for both.
        let returns = self.receiver.returns();
        let window_probes = match returns.is_empty() {
            true => self.sender.window_probes(now),
            false => Vec::new(),
        };
        if window_probes.is_empty() && returns.is_empty() && self.due_report() < least {
            return None;
        }
        self.report(ends, window_probes, returns).map(Message::Report)
    }

    /// A report to send with a frame of this class. `None` if the peer waits for the report, or it
    /// has news of streams of other classes: the fabric may delay this class more than those.
    pub fn piggyback(&mut self, class: Class) -> Option<Report> {
        let ends = self.ends()?;
        if self.due_report() != Pending::Report || self.receiver.owes_others(class) {
            return None;
        }
        self.report(ends, Vec::new(), Vec::new())
    }

    /// Whether a report may be [piggybacked](Self::piggyback). It may turn out to be empty.
    pub fn may_piggyback(&self) -> bool {
        self.due_report() == Pending::Report
    }

    fn due_report(&self) -> Pending {
        if self.receiver.owes() || self.receiver.owes_returns() {
            self.pending.max(Pending::Report)
        } else {
            self.pending
        }
    }

    fn report(
        &mut self,
        ends: Ends,
        window_probes: Vec<WindowProbe>,
        returns: Vec<Return>,
    ) -> Option<Report> {
        let (grants, nacks) = self.receiver.grants();
        let has_asked = !window_probes.is_empty() || !returns.is_empty();
        if self.pending == Pending::Nothing && grants.is_empty() && !has_asked {
            return None;
        }
        self.pending = Pending::Nothing;
        // A range holds no more numbers; the peer knows the earlier ones.
        let range = |range: RangeInclusive<u64>| {
            let first = (*range.start()).max(range.end().saturating_sub(u16::MAX.into()));
            [first as u32, *range.end() as u32]
        };
        let came = self.came.iter().take(MAX_RANGES).map(range);
        let marks = core::mem::take(&mut self.marks);
        let marks = marks.iter().take(MAX_MARKS).map(range);
        Some(Report {
            ends,
            marked: self.marked,
            came: came.collect(),
            marks: marks.collect(),
            grants,
            nacks,
            window_probes,
            returns,
        })
    }

    fn hello_message(&self, from: Incarnation, to: Option<Incarnation>) -> Hello {
        Hello {
            from,
            to,
            versions: [OLDEST, VERSION],
            reliable: self.config.reliable,
            // In our next incarnation, frames of this one may still wait here.
            unsolicited: match from == self.me {
                true => self.receiver.unsolicited(),
                false => Unsolicited::default(),
            },
        }
    }

    /// Frames that are sent and not known to be consumed, of all streams.
    pub fn outstanding(&self) -> usize {
        self.sender.outstanding()
    }
}

/// Whether a packet is acknowledged.
fn is_received(fate: Fate) -> bool {
    match fate {
        Fate::Accepted | Fate::Duplicate | Fate::Nacked | Fate::NotYet | Fate::NoMemory => true,
        Fate::CreditExceeded | Fate::TooManyStreams => false,
    }
}
