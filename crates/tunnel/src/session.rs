//! One end of a session: who is at the other end, what it is told, and what it tells.

use alloc::vec::Vec;
use core::num::NonZeroU16;
use core::ops::RangeInclusive;

use units::{Class, ClassSet, Instant, Span};

use crate::MAX_FRAME_LEN;
use crate::handshake::{Handshake, HelloTimer, Peer};
use crate::message::{Data, Ends, Hello, Incarnation, MAX_RANGES, Message, Report, Stream, WindowProbe};
use crate::message::{Unsolicited, VERSION};
use crate::number::expand;
use crate::quota::Claim;
use crate::ranges::Ranges;
use crate::receiver::{Fate, Origin, Receiver};
use crate::sender::Sender;

/// A packet with a frame comes no later than so many that were sent after it: those have less than 2^30 bytes, and a stream's
/// window no more than that, so that 32 bits of its offset say which place is meant.
const MAX_REORDERING: u64 = 1 << 14;

/// The widest window of a stream.
const MAX_WINDOW: u32 = Unsolicited::MOST;

/// How a session is.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct SessionConfig {
    /// The classes of what the far end sends us only as far as we have granted it: what is said of `unsolicited` and `stream_window` is
    /// said of these alone. Of all others it may send 2^30 bytes of each stream ahead of its receiver.
    pub credit: ClassSet,
    /// Bytes of each stream that we take unasked, of the first incarnation of the far end that we know.
    pub unsolicited: u32,
    /// Bytes of each stream that may be underway to us, or wait here, of all incarnations of the far end together: no fewer than the
    /// longest frame has, so what is below [`MAX_FRAME_LEN`] counts as that, and no more than 2^30.
    pub stream_window: u32,
    /// The most bytes that we have in the fabric.
    pub max_in_flight: u32,
    /// The most frames that we keep until they are taken. One stream keeps no more than are left for all others; but each may
    /// keep four, however many others stand still, so that memory is to be had for four frames more of each stream.
    pub max_frames: usize,
    /// The most streams to us in one incarnation of the far end: who sends on others, or asks after them, is refused.
    pub max_streams: usize,
    /// Bytes of a full datagram.
    pub datagram: u32,
    /// The classes of what is sent again if it is lost: there the fabric may drop. What is of another is sent and forgotten.
    pub reliable: ClassSet,
}

impl SessionConfig {
    /// Bytes that each stream of this class may have underway to us, or waiting here.
    pub(crate) fn window(&self, class: Class) -> u32 {
        if self.credit.contains(class) { self.stream_window } else { MAX_WINDOW }
    }

    /// What we take unasked of a far end that we know nothing of.
    pub(crate) fn unsolicited(&self) -> Unsolicited {
        Unsolicited { bytes: self.unsolicited, unlimited: self.credit.others() }
    }
}

/// Whether a frame may be sent.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Admission {
    /// It may.
    Go,
    /// The far end is not heard, or has not told that it hears us.
    NoSession,
    /// The far receiver has granted no more, or too many of its frames are kept: only this stream waits.
    NoCredit,
    /// The fabric has enough of us.
    NoWindow,
}

/// A time through which streams are counted: it ends when either end begins anew.
#[derive(Clone, Copy, Debug, Default, Eq, Ord, PartialEq, PartialOrd)]
pub struct Epoch(pub(crate) u32);

impl Epoch {
    /// The one after it.
    #[must_use]
    pub fn next(self) -> Self {
        Self(self.0.wrapping_add(1))
    }
}

/// What a packet with a place in a stream has brought: `R` is the handle of a frame.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Payload<R> {
    /// A frame, or a part of one.
    Frame(R),
    /// Nothing: its sender is gone, or our owner has no use for it.
    Placeholder,
    /// Something for which our owner has no memory.
    NoMemory,
}

impl<R> Payload<R> {
    /// The frame, if that is what it is.
    pub(crate) fn frame(self) -> Option<R> {
        match self {
            Self::Frame(frame) => Some(frame),
            Self::Placeholder | Self::NoMemory => None,
        }
    }

    /// It is not wanted.
    pub(crate) fn release(self, arrived: impl FnMut(Arrival<R>)) {
        self.frame().map(Arrival::Release).into_iter().for_each(arrived);
    }
}

/// What came of what arrived.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Arrival<R> {
    /// To be handed to its egress; once that has taken it, [`Session::took`] wants to know.
    Deliver {
        /// Whose it is.
        stream: Stream,
        /// In which epoch it was sent.
        from: Epoch,
        /// Where it begins.
        offset: u64,
        /// Its handle.
        frame: R,
    },
    /// Not wanted: its handle is free.
    Release(R),
    /// What was delivered of the stream is followed by nothing for now: what should have come there never will.
    Gap {
        /// Whose it is.
        stream: Stream,
    },
}

/// What has gone wrong and was repaired, or refused.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Counters {
    /// Frames sent for the first time.
    pub sent: u64,
    /// Frames sent [large](Session::send_large).
    pub sent_large: u64,
    /// Frames sent again.
    pub retransmitted: u64,
    /// Packets that were found lost.
    pub lost: u64,
    /// Frames that came again, or too late to tell whether they did.
    pub duplicates: u64,
    /// Frames that came beyond what was granted.
    pub credit_exceeded: u64,
    /// Frames for which there was no memory, each time that they came: they come again.
    pub nacked: u64,
    /// Frames for which there was no memory and that will not come again.
    pub no_memory: u64,
    /// Hellos in versions that are not spoken here.
    pub unsupported_version: u64,
    /// Frames of streams beyond the most that there may be, and questions after such.
    pub too_many_streams: u64,
    /// Packets for another incarnation, or of one.
    pub stale_incarnation: u64,
    /// Bytes that the far end sent and that did not come in time, where it does not repair.
    pub unrecovered: u64,
    /// Packets of ours that the fabric marked, as the far end tells.
    pub ecn_marked: u64,
    /// The far end began anew.
    pub resets: u64,
}

/// The way through the fabric, as a session finds it.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct PathMetrics {
    /// The smoothed round trip, once there was one.
    pub rtt: Option<Span>,
    /// Bytes in the fabric.
    pub in_flight: u64,
    /// The most that may be there.
    pub congestion_window: u64,
}

/// What the far end is to hear.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
enum Pending {
    Nothing,
    /// What has come, and was taken.
    Report,
    /// That, and it waits for it.
    Reply,
}

/// One end. `F` is the handle of a frame that goes out, `R` of one that comes in.
#[derive(Clone, Debug)]
pub struct Session<F, R> {
    config: SessionConfig,
    me: Incarnation,
    handshake: Handshake,
    epoch: Epoch,
    /// There are as many streams as there may be, and some that nobody needs: they are to be forgotten.
    needs_incarnation: bool,
    /// A incarnation of the far end that was heard and has not named ours: anybody may have said that.
    candidate: Option<Incarnation>,
    hello: HelloTimer,
    sender: Sender<F>,
    receiver: Receiver<R>,
    came: Ranges,
    /// The highest number of a packet with a frame that has come, but for leaps.
    newest: u64,
    pending: Pending,
    /// Marks that we have seen.
    marked: u32,
    unanswered_since: Option<Instant>,
    counters: Counters,
}

impl<F: Copy, R> Session<F, R> {
    /// An end that remembers nothing, in a incarnation after all others that it had.
    pub fn new(now: Instant, config: SessionConfig, me: Incarnation) -> Self {
        let config =
            SessionConfig { stream_window: config.stream_window.clamp(MAX_FRAME_LEN, MAX_WINDOW), ..config };
        Self {
            config,
            me,
            handshake: Handshake::Listening,
            epoch: Epoch::default(),
            needs_incarnation: false,
            candidate: None,
            hello: HelloTimer::new(now),
            sender: Sender::new(config),
            receiver: Receiver::new(config),
            came: Ranges::default(),
            newest: 0,
            pending: Pending::Nothing,
            marked: 0,
            unanswered_since: None,
            counters: Counters::default(),
        }
    }

    /// What has gone wrong.
    pub fn counters(&self) -> Counters {
        let unrecovered = self.counters.unrecovered + self.receiver.unrecovered();
        Counters { unrecovered, ecn_marked: self.sender.marks(), ..self.counters }
    }

    /// The way through the fabric.
    pub fn path(&self) -> PathMetrics {
        self.sender.path()
    }

    /// This incarnation of ours.
    pub fn incarnation(&self) -> Incarnation {
        self.me
    }

    /// How streams are counted now.
    pub fn epoch(&self) -> Epoch {
        self.epoch
    }

    /// Whether both ends have heard each other, in these incarnations of theirs.
    pub fn is_established(&self) -> bool {
        self.ends().is_some()
    }

    /// Whether a frame of so many bytes, or a part of one, may be sent on a stream. A part that `continues` its frame may, however many
    /// are kept: without all parts the far end cannot take the frame.
    pub fn admit(&mut self, stream: Stream, len: NonZeroU16, continues: bool) -> Admission {
        match self.ends() {
            Some(_) if self.sender.has_place(stream) => self.sender.admit(stream, len, continues),
            // So many frames are kept of so many that some will soon be taken.
            Some(_) if !self.sender.is_any_idle() => Admission::NoCredit,
            Some(_) => {
                self.needs_incarnation = true;
                Admission::NoSession
            }
            None => Admission::NoSession,
        }
    }

    /// What [`admit`](Self::admit) would say, and how many more bytes the far end takes of a stream.
    pub fn outlook(&self, stream: Stream, len: NonZeroU16) -> (Admission, u64) {
        match self.ends() {
            Some(_) => self.sender.outlook(stream, len),
            None => (Admission::NoSession, 0),
        }
    }

    /// Whether a datagram of so many bytes, which a card cuts into what the fabric carries, should be sent, if all that is in it is
    /// [admitted](Self::admit): not if it is much of the window, as it comes all at once, or if others like it were lost.
    pub fn may_send_large(&self, now: Instant, len: NonZeroU16) -> bool {
        self.sender.may_send_large(now, len)
    }

    /// Whether none is sent for a while, as some were lost, or are late.
    pub fn is_large_paused(&self, now: Instant) -> bool {
        self.sender.is_large_paused(now)
    }

    /// Sends a frame that was admitted. If lost packets are sent again, its handle is kept until the far receiver has it.
    ///
    /// # Panics
    ///
    /// If it was not admitted.
    pub fn send(&mut self, now: Instant, stream: Stream, len: NonZeroU16, frame: F) -> Data {
        self.send_as(now, stream, len, false, frame)
    }

    /// As [`send`](Self::send), in one datagram that a card cuts.
    ///
    /// # Panics
    ///
    /// If it was not admitted.
    pub fn send_large(&mut self, now: Instant, stream: Stream, len: NonZeroU16, frame: F) -> Data {
        self.send_as(now, stream, len, true, frame)
    }

    fn send_as(&mut self, now: Instant, stream: Stream, len: NonZeroU16, is_large: bool, frame: F) -> Data {
        let ends = self.ends().expect("a frame is sent to somebody who is there");
        self.counters.sent += 1;
        self.counters.sent_large += u64::from(is_large);
        self.sender.send(now, ends, stream, len, is_large, frame)
    }

    /// A frame that is to be sent again now, and what to say of it; none if its sender has taken it back, so that only its place
    /// is told of.
    pub fn retransmit(&mut self, now: Instant) -> Option<(Option<F>, Data)> {
        self.retransmit_divided(now, |_, _| None)
    }

    /// As [`resend`](Self::resend): a frame that is not to go again as it went, `divide` divides into two, with the bytes of each.
    pub fn retransmit_divided(
        &mut self,
        now: Instant,
        divide: impl FnMut(F, NonZeroU16) -> Option<[(F, NonZeroU16); 2]>,
    ) -> Option<(Option<F>, Data)> {
        let ends = self.ends()?;
        let again = self.sender.retransmit(now, ends, divide)?;
        self.counters.retransmitted += 1;
        Some(again)
    }

    /// Between whom frames are sent; none as long as nobody would take them.
    fn ends(&self) -> Option<Ends> {
        self.handshake.established().map(|peer| Ends { from: self.me, to: peer.incarnation })
    }

    /// Whether these are the incarnations of both ends that are known here. Of others nothing is taken.
    pub fn is_between(&self, ends: Ends) -> bool {
        self.handshake.peer().is_some_and(|peer| (ends.from, ends.to) == (peer.incarnation, self.me))
    }

    /// Whether a message is from the incarnation of the far end that we know to this incarnation of ours. If not, both have to introduce
    /// themselves.
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
        self.hear_candidate(ends.from);
        self.hello.reply(now);
        false
    }

    /// Somebody has spoken who may be the far end in a new incarnation. Named in our next hello, it can show that it has heard it.
    fn hear_candidate(&mut self, incarnation: Incarnation) {
        let is_new = self.handshake.peer().is_none_or(|peer| incarnation.is_after(peer.incarnation));
        if is_new && self.candidate.replace(incarnation) != Some(incarnation) {
            self.hello.restart();
        }
    }

    /// The far end says who it is. `release` has each handle of what came and will come again.
    pub fn handle_hello(&mut self, now: Instant, hello: &Hello, release: impl FnMut(R)) {
        let [oldest, newest] = hello.versions;
        if !(oldest..=newest).contains(&VERSION) {
            self.counters.unsupported_version += 1;
            return;
        }
        let names_us = hello.to == Some(self.me);
        match self.handshake.peer() {
            Some(peer) if peer.incarnation == hello.from => self.candidate = None,
            // It was long underway.
            Some(peer) if !hello.from.is_after(peer.incarnation) => {
                return self.counters.stale_incarnation += 1;
            }
            // Only who has heard us knows this incarnation of ours.
            _ if names_us => self.accept(now, hello, release),
            _ => self.hear_candidate(hello.from),
        }
        if names_us {
            self.unanswered_since = None;
            self.pending = Pending::Reply;
        } else {
            self.hello.reply(now);
        }
    }

    /// The far end is another than the one that we knew, if we knew one: what it had not taken is sent from the beginning.
    fn accept(&mut self, now: Instant, hello: &Hello, release: impl FnMut(R)) {
        if self.handshake.peer().is_some() {
            self.counters = self.counters();
            self.counters.resets += 1;
            self.begin_epoch(release);
        }
        self.handshake = Handshake::HalfOpen(Peer { incarnation: hello.from, reliable: hello.reliable });
        self.candidate = None;
        self.hello.send_now(now);
        self.sender.restart(hello.unsolicited);
        (self.came, self.newest, self.marked) = (Ranges::default(), 0, 0);
    }

    /// Streams are counted from 0 again.
    fn begin_epoch(&mut self, release: impl FnMut(R)) {
        self.receiver.restart(self.epoch, release);
        self.epoch = self.epoch.next();
    }

    /// Begins another incarnation of ours: the far end forgets what streams there were, and so do we, but for those of which frames are kept or
    /// wait.
    fn begin_incarnation(&mut self, now: Instant, release: impl FnMut(R)) {
        self.needs_incarnation = false;
        self.counters = self.counters();
        self.begin_epoch(release);
        self.me = self.me.next();
        self.hello.send_now(now);
        self.sender.forget_idle();
        self.sender.restart(Unsolicited::default());
        (self.came, self.newest, self.marked) = (Ranges::default(), 0, 0);
        self.handshake = self.handshake.reopened();
    }

    /// A packet has come with a place in a stream, marked by the fabric or not. `arrived` is told what to do with its frame and with
    /// others that it was waited for.
    ///
    /// What our owner has no memory for is to come again, once it [invites](Self::invite) the stream; where that is not repaired, it is
    /// lost.
    ///
    /// The caller has seen that the frame is as long as `data` says, and drops the packet if it is not: what streams are granted
    /// counts on it.
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
        // Should one number be garbled, the right ones that follow are still within reach.
        self.newest = self.newest.max(number.min(self.newest + MAX_REORDERING / 2));
        let is_reliable = self.is_reliable(data.stream);
        let origin = Origin { from: self.epoch, newest: self.newest, is_reliable };
        let fate = self.receiver.arrived(now, data, origin, brought, arrived);
        match fate {
            Fate::Accepted => {}
            Fate::Duplicate => self.counters.duplicates += 1,
            Fate::CreditExceeded => self.counters.credit_exceeded += 1,
            Fate::Nacked => self.counters.nacked += 1,
            Fate::NoMemory => self.counters.no_memory += 1,
            Fate::TooManyStreams => self.counters.too_many_streams += 1,
        }
        if !self.reliable().is_empty()
            && number <= self.newest
            && matches!(fate, Fate::Accepted | Fate::Duplicate | Fate::Nacked | Fate::NoMemory)
        {
            // Of what nobody sends again, too: the ranges of the rest have no gaps then.
            self.came.insert(number);
            if is_reliable {
                self.pending = self.pending.max(Pending::Report);
            }
            self.marked = self.marked.wrapping_add((is_reliable && is_marked).into());
        }
    }

    /// As what a frame that comes may have a place in memory.
    pub fn claim(&self, data: &Data) -> Claim {
        match self.is_reliable(data.stream) {
            true if self.receiver.is_next_in_order(data) => Claim::NextInOrder(data.stream),
            true => Claim::Reliable(data.stream),
            false => Claim::Unreliable,
        }
    }

    fn is_reliable(&self, stream: Stream) -> bool {
        self.reliable().contains(stream.class)
    }

    /// Whether some of a stream was [turned away](Payload::NoMemory), and is not [invited](Self::invite).
    pub fn is_nacking(&self, stream: Stream) -> bool {
        self.receiver.is_nacking(stream)
    }

    /// The first such stream behind this one, or the first of all.
    pub fn next_nacking(&self, behind: Option<Stream>) -> Option<Stream> {
        self.receiver.next_nacking(behind)
    }

    /// There is memory again for frames of a stream that was [turned away](Payload::NoMemory).
    pub fn memory_available(&mut self, stream: Stream) {
        self.receiver.memory_available(stream);
    }

    /// The way to the far end was cut, and packets go by another from now on, or by the same one as it works again. What was
    /// underway is sent again at once, and asked after, whatever silence was waited for.
    pub fn change_path(&mut self, now: Instant) {
        self.counters.lost += self.sender.change_path();
        self.hello.hurry(now);
        // What we told may not have been heard.
        if self.is_established() {
            self.pending = Pending::Reply;
        }
    }

    /// The receiver has taken a frame that was delivered, or never will.
    pub fn consumed(&mut self, stream: Stream, from: Epoch, offset: u64) {
        if from == self.epoch {
            self.receiver.consumed(stream, offset);
        } else {
            self.receiver.consumed_earlier(stream, from, offset);
        }
    }

    /// The classes of what the far end keeps until it knows that it was taken, and sends again to a later incarnation of ours.
    pub fn reliable(&self) -> ClassSet {
        self.handshake.peer().map_or(ClassSet::NONE, |peer| peer.reliable)
    }

    /// Before this incarnation ends: [`Self::poll_transmit`] tells the far end of all that was taken.
    pub fn hurry(&mut self) {
        self.receiver.hurry();
    }

    /// Forgets frames whose senders take them back, and which nobody needs any more. Their places in their streams are told of,
    /// without them.
    pub fn withdraw(&mut self, is_gone: impl FnMut(F) -> bool) {
        self.sender.withdraw(None, is_gone);
    }

    /// Gives frames up that are not known to be taken, of one stream or of all: `given_up` has each. Whether the far receiver has
    /// them cannot be known. Their places in their streams are told of, without them, once the far end is heard again.
    pub fn abandon(&mut self, stream: Option<Stream>, mut given_up: impl FnMut(F)) {
        self.sender.withdraw(stream, |frame| {
            given_up(frame);
            true
        });
    }

    /// Since when nothing at all is heard of the far end although it owes an answer: frames are not known to be taken, or streams
    /// wait for credit. None if it owes nothing, also if it was not met yet. One that is there and hears us answers within a tenth of a
    /// second and a round trip, whatever becomes of frames; longer silence is the fabric's or its end. [`Self::poll_transmit`] keeps this up to date.
    pub fn unanswered_since(&self) -> Option<Instant> {
        self.unanswered_since
    }

    /// The far end reports. `completed` has each frame that its receiver has taken.
    pub fn handle_report(&mut self, now: Instant, report: &Report, completed: impl FnMut(F)) {
        if !self.is_current(now, report.ends) {
            return;
        }
        self.counters.lost += self.sender.reported(now, report, completed);
        let reliable = self.reliable();
        for window_probe in &report.window_probes {
            let is_known =
                self.receiver.probed(now, window_probe, reliable.contains(window_probe.stream.class));
            self.counters.too_many_streams += u64::from(!is_known);
            // Whoever asks is to know that it is heard, if no more.
            self.pending = Pending::Reply;
        }
    }

    /// Does what time asks for. `arrived` is told what to do with frames that have waited long enough for others.
    pub fn handle_timeout(&mut self, now: Instant, mut arrived: impl FnMut(Arrival<R>)) {
        if self.needs_incarnation {
            self.begin_incarnation(now, |frame| arrived(Arrival::Release(frame)));
        }
        self.receiver.give_up(now, self.epoch, arrived);
        self.counters.lost += self.sender.handle_timeout(now);
    }

    /// When something falls due although nothing is heard.
    pub fn deadline(&self) -> Option<Instant> {
        let renewal = self.needs_incarnation.then_some(Instant::ZERO);
        let all = [renewal, self.sender.deadline(), self.receiver.deadline(), self.hello.deadline()];
        all.into_iter().flatten().min()
    }

    /// What is to be said, after all that has arrived was told of: call it until there is no more.
    pub fn poll_transmit(&mut self, now: Instant) -> Option<Message> {
        self.poll_at_least(now, Pending::Report)
    }

    /// The same, but for a report that may [ride](Self::ride).
    pub fn poll_urgent(&mut self, now: Instant) -> Option<Message> {
        self.poll_at_least(now, Pending::Reply)
    }

    /// What is to be said; nothing that is owed less than this.
    fn poll_at_least(&mut self, now: Instant, least: Pending) -> Option<Message> {
        self.unanswered_since = self.sender.is_owed().then(|| self.unanswered_since.unwrap_or(now));
        if self.hello.is_due(now, self.is_established()) {
            return Some(Message::Hello(self.hello_message()));
        }
        let ends = self.handshake.peer().map(|peer| Ends { from: self.me, to: peer.incarnation })?;
        let window_probes = self.sender.window_probes(now);
        if window_probes.is_empty() && self.due_report() < least {
            return None;
        }
        self.report(ends, window_probes).map(Message::Report)
    }

    /// A report that may go with a frame of this class: nobody waits for it, and it tells nothing new of streams of other classes, which
    /// a fabric may hold up less than this one.
    pub fn piggyback(&mut self, class: Class) -> Option<Report> {
        let ends = self.ends()?;
        if self.due_report() != Pending::Report || self.receiver.owes_others(class) {
            return None;
        }
        self.report(ends, Vec::new())
    }

    /// Whether there is a report that may [ride](Self::ride), or may turn out to be nothing.
    pub fn may_piggyback(&self) -> bool {
        self.due_report() == Pending::Report
    }

    fn due_report(&self) -> Pending {
        if self.receiver.owes() { self.pending.max(Pending::Report) } else { self.pending }
    }

    fn report(&mut self, ends: Ends, window_probes: Vec<WindowProbe>) -> Option<Report> {
        let (grants, nacks) = self.receiver.grants();
        if self.pending == Pending::Nothing && grants.is_empty() && window_probes.is_empty() {
            return None;
        }
        self.pending = Pending::Nothing;
        // A range has no room for more numbers than that; those before were told of long ago.
        let range = |range: RangeInclusive<u64>| {
            let first = (*range.start()).max(range.end().saturating_sub(u16::MAX.into()));
            [first as u32, *range.end() as u32]
        };
        let came = self.came.iter().take(MAX_RANGES).map(range);
        Some(Report { ends, marked: self.marked, came: came.collect(), grants, nacks, window_probes })
    }

    fn hello_message(&self) -> Hello {
        Hello {
            from: self.me,
            to: self.candidate.or(self.handshake.peer().map(|peer| peer.incarnation)),
            versions: [VERSION; 2],
            reliable: self.config.reliable,
            // What the peer sent may wait here still when the newcomer takes its place.
            unsolicited: match (self.handshake.peer(), self.candidate) {
                (Some(_), Some(_)) => Unsolicited::default(),
                _ => self.receiver.unsolicited(),
            },
        }
    }

    /// Frames that are kept and not known to be taken, of all streams.
    pub fn outstanding(&self) -> usize {
        self.sender.outstanding()
    }
}
