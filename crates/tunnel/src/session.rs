//! One end of a session: who is at the other end, what it is told, and what it tells.

use alloc::vec::Vec;
use core::num::NonZeroU16;
use core::ops::RangeInclusive;

use units::{Class, ClassSet, Instant, Span};

use crate::LONGEST;
use crate::greeting::Greeting;
use crate::incoming::{Fate, Incoming, Origin};
use crate::message::{Ask, Data, Ends, Hello, Life, MOST_RANGES, Message, Report, Stream};
use crate::message::{Unsolicited, VERSION};
use crate::number::expand;
use crate::outgoing::Outgoing;
use crate::places::Claim;
use crate::ranges::Ranges;

/// A packet with a frame comes no later than so many that were sent after it: those have less than 2^30 bytes, and a stream's
/// window no more than that, so that 32 bits of its offset say which place is meant.
const REACH: u64 = 1 << 14;

/// The widest window of a stream.
const WIDEST: u32 = Unsolicited::MOST;

/// How a session is.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Config {
    /// The classes of what the far end sends us only as far as we have granted it: what is said of `unsolicited` and `stream_window` is
    /// said of these alone. Of all others it may send 2^30 bytes of each stream ahead of its receiver.
    pub credit: ClassSet,
    /// Bytes of each stream that we take unasked, of the first life of the far end that we know.
    pub unsolicited: u32,
    /// Bytes of each stream that may be underway to us, or wait here, of all lives of the far end together: no fewer than the
    /// longest frame has, so what is below [`LONGEST`] counts as that, and no more than 2^30.
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
    /// The classes of what is sent again if it is lost: there the fabric may drop. What is of another is sent and forgotten.
    pub repairs: ClassSet,
}

impl Config {
    /// Bytes that each stream of this class may have underway to us, or waiting here.
    pub(crate) fn window(&self, class: Class) -> u32 {
        if self.credit.contains(class) { self.stream_window } else { WIDEST }
    }

    /// What we take unasked of a far end that we know nothing of.
    pub(crate) fn unsolicited(&self) -> Unsolicited {
        Unsolicited { bytes: self.unsolicited, boundless: self.credit.others() }
    }
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

/// A time through which streams are counted: it ends when either end begins anew.
#[derive(Clone, Copy, Debug, Default, Eq, Ord, PartialEq, PartialOrd)]
pub struct Era(pub(crate) u32);

impl Era {
    /// The one after it.
    #[must_use]
    pub fn next(self) -> Self {
        Self(self.0.wrapping_add(1))
    }
}

/// What a packet with a place in a stream has brought: `R` is the handle of a frame.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Brought<R> {
    /// A frame, or a part of one.
    Frame(R),
    /// Nothing: its sender is gone, or our owner has no use for it.
    Place,
    /// Something for which our owner has no memory.
    Unkept,
}

impl<R> Brought<R> {
    /// The frame, if that is what it is.
    pub(crate) fn frame(self) -> Option<R> {
        match self {
            Self::Frame(frame) => Some(frame),
            Self::Place | Self::Unkept => None,
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
        /// In which era it was sent.
        from: Era,
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
    pub resent: u64,
    /// Packets that were found lost.
    pub lost: u64,
    /// Frames that came again, or too late to tell whether they did.
    pub repeated: u64,
    /// Frames that came beyond what was granted.
    pub beyond: u64,
    /// Frames for which there was no memory, each time that they came: they come again.
    pub turned_away: u64,
    /// Frames for which there was no memory and that will not come again.
    pub no_memory: u64,
    /// Hellos in versions that are not spoken here.
    pub foreign: u64,
    /// Frames of streams beyond the most that there may be, and questions after such.
    pub refused: u64,
    /// Packets for another life, or of one.
    pub stale: u64,
    /// Bytes that the far end sent and that did not come in time, where it does not repair.
    pub missed: u64,
    /// Packets of ours that the fabric marked, as the far end tells.
    pub marked: u64,
    /// The far end began anew.
    pub resets: u64,
}

/// The way through the fabric, as a session finds it.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Path {
    /// The smoothed round trip, once there was one.
    pub round_trip: Option<Span>,
    /// Bytes in the fabric.
    pub in_flight: u64,
    /// The most that may be there.
    pub window: u64,
}

/// What the far end is to hear.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
enum Owed {
    Nothing,
    /// What has come, and was taken.
    News,
    /// That, and it waits for it.
    Answer,
}

/// The far end, in a life in which it has named ours.
#[derive(Clone, Copy, Debug)]
struct Peer {
    life: Life,
    repairs: ClassSet,
    /// We have named its life, too, and it has told that it heard.
    knows_us: bool,
}

/// One end. `F` is the handle of a frame that goes out, `R` of one that comes in.
#[derive(Clone, Debug)]
pub struct Session<F, R> {
    config: Config,
    me: Life,
    peer: Option<Peer>,
    era: Era,
    /// There are as many streams as there may be, and some that nobody needs: they are to be forgotten.
    is_full: bool,
    /// A life of the far end that was heard and has not named ours: anybody may have said that.
    newcomer: Option<Life>,
    greeting: Greeting,
    outgoing: Outgoing<F>,
    incoming: Incoming<R>,
    came: Ranges,
    /// The highest number of a packet with a frame that has come, but for leaps.
    newest: u64,
    owes: Owed,
    /// Marks that we have seen.
    marked: u32,
    silent_since: Option<Instant>,
    counters: Counters,
}

impl<F: Copy, R> Session<F, R> {
    /// An end that remembers nothing, in a life after all others that it had.
    pub fn new(now: Instant, config: Config, me: Life) -> Self {
        let config = Config { stream_window: config.stream_window.clamp(LONGEST, WIDEST), ..config };
        Self {
            config,
            me,
            peer: None,
            era: Era::default(),
            is_full: false,
            newcomer: None,
            greeting: Greeting::new(now),
            outgoing: Outgoing::new(config),
            incoming: Incoming::new(config),
            came: Ranges::default(),
            newest: 0,
            owes: Owed::Nothing,
            marked: 0,
            silent_since: None,
            counters: Counters::default(),
        }
    }

    /// What has gone wrong.
    pub fn counters(&self) -> Counters {
        let missed = self.counters.missed + self.incoming.missed();
        Counters { missed, marked: self.outgoing.marks(), ..self.counters }
    }

    /// The way through the fabric.
    pub fn path(&self) -> Path {
        self.outgoing.path()
    }

    /// This life of ours.
    pub fn life(&self) -> Life {
        self.me
    }

    /// How streams are counted now.
    pub fn era(&self) -> Era {
        self.era
    }

    /// Whether both ends have heard each other, in these lives of theirs.
    pub fn is_met(&self) -> bool {
        self.ends().is_some()
    }

    /// Whether a frame of so many bytes, or a part of one, may be sent on a stream. A part that `continues` its frame may, however many
    /// are kept: without all parts the far end cannot take the frame.
    pub fn admit(&mut self, stream: Stream, len: NonZeroU16, continues: bool) -> Admission {
        match self.ends() {
            Some(_) if self.outgoing.has_place(stream) => self.outgoing.admit(stream, len, continues),
            // So many frames are kept of so many that some will soon be taken.
            Some(_) if !self.outgoing.is_any_idle() => Admission::NoCredit,
            Some(_) => {
                self.is_full = true;
                Admission::Alone
            }
            None => Admission::Alone,
        }
    }

    /// What [`admit`](Self::admit) would say, and how many more bytes the far end takes of a stream.
    pub fn outlook(&self, stream: Stream, len: NonZeroU16) -> (Admission, u64) {
        match self.ends() {
            Some(_) => self.outgoing.outlook(stream, len),
            None => (Admission::Alone, 0),
        }
    }

    /// Whether a datagram of so many bytes, which a card cuts into what the fabric carries, should be sent, if all that is in it is
    /// [admitted](Self::admit): not if it is much of the window, as it comes all at once, or if others like it were lost.
    pub fn may_go_large(&self, now: Instant, len: NonZeroU16) -> bool {
        self.outgoing.may_go_large(now, len)
    }

    /// Whether none is sent for a while, as some were lost, or are late.
    pub fn pauses_large(&self, now: Instant) -> bool {
        self.outgoing.pauses_large(now)
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
        self.outgoing.send(now, ends, stream, len, is_large, frame)
    }

    /// A frame that is to be sent again now, and what to say of it; none if its sender has taken it back, so that only its place
    /// is told of.
    pub fn resend(&mut self, now: Instant) -> Option<(Option<F>, Data)> {
        self.resend_divided(now, |_, _| None)
    }

    /// As [`resend`](Self::resend): a frame that is not to go again as it went, `divide` divides into two, with the bytes of each.
    pub fn resend_divided(
        &mut self,
        now: Instant,
        divide: impl FnMut(F, NonZeroU16) -> Option<[(F, NonZeroU16); 2]>,
    ) -> Option<(Option<F>, Data)> {
        let ends = self.ends()?;
        let again = self.outgoing.resend(now, ends, divide)?;
        self.counters.resent += 1;
        Some(again)
    }

    /// Between whom frames are sent; none as long as nobody would take them.
    fn ends(&self) -> Option<Ends> {
        self.peer.filter(|peer| peer.knows_us).map(|peer| Ends { from: self.me, to: peer.life })
    }

    /// Whether these are the lives of both ends that are known here. Of others nothing is taken.
    pub fn is_between(&self, ends: Ends) -> bool {
        self.peer.is_some_and(|peer| (ends.from, ends.to) == (peer.life, self.me))
    }

    /// Whether a message is from the life of the far end that we know to this life of ours. If not, both have to introduce
    /// themselves.
    fn is_current(&mut self, now: Instant, ends: Ends) -> bool {
        if self.is_between(ends)
            && let Some(peer) = &mut self.peer
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
            self.counters.foreign += 1;
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
            self.owes = Owed::Answer;
        } else {
            self.greeting.answer(now);
        }
    }

    /// The far end is another than the one that we knew, if we knew one: what it had not taken is sent from the beginning.
    fn meet(&mut self, now: Instant, hello: &Hello, release: impl FnMut(R)) {
        if self.peer.is_some() {
            self.counters = self.counters();
            self.counters.resets += 1;
            self.begin_era(release);
        }
        self.peer = Some(Peer { life: hello.from, repairs: hello.repairs, knows_us: false });
        self.newcomer = None;
        self.greeting.meet(now);
        self.outgoing.begin_anew(hello.unsolicited);
        (self.came, self.newest, self.marked) = (Ranges::default(), 0, 0);
    }

    /// Streams are counted from 0 again.
    fn begin_era(&mut self, release: impl FnMut(R)) {
        self.incoming.begin_anew(self.era, release);
        self.era = self.era.next();
    }

    /// Begins another life of ours: the far end forgets what streams there were, and so do we, but for those of which frames are kept or
    /// wait.
    fn renew(&mut self, now: Instant, release: impl FnMut(R)) {
        self.is_full = false;
        self.counters = self.counters();
        self.begin_era(release);
        self.me = self.me.next();
        self.greeting.meet(now);
        self.outgoing.forget_idle();
        self.outgoing.begin_anew(Unsolicited::default());
        (self.came, self.newest, self.marked) = (Ranges::default(), 0, 0);
        self.peer.iter_mut().for_each(|peer| peer.knows_us = false);
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
        brought: Brought<R>,
        arrived: impl FnMut(Arrival<R>),
    ) {
        let number = expand(data.number, self.newest);
        let is_current = self.is_current(now, data.ends);
        let is_late = is_current && number + REACH <= self.newest;
        self.counters.repeated += u64::from(is_late);
        if !is_current || is_late {
            return brought.release(arrived);
        }
        // Should one number be garbled, the right ones that follow are still within reach.
        self.newest = self.newest.max(number.min(self.newest + REACH / 2));
        let is_repaired = self.is_repaired(data.stream);
        let origin = Origin { from: self.era, newest: self.newest, is_repaired };
        let fate = self.incoming.arrived(now, data, origin, brought, arrived);
        match fate {
            Fate::Fresh => {}
            Fate::Repeated => self.counters.repeated += 1,
            Fate::Beyond => self.counters.beyond += 1,
            Fate::TurnedAway => self.counters.turned_away += 1,
            Fate::Missed => self.counters.no_memory += 1,
            Fate::Refused => self.counters.refused += 1,
        }
        if !self.repaired().is_empty()
            && number <= self.newest
            && matches!(fate, Fate::Fresh | Fate::Repeated | Fate::TurnedAway | Fate::Missed)
        {
            // Of what nobody sends again, too: the ranges of the rest have no gaps then.
            self.came.insert(number);
            if is_repaired {
                self.owes = self.owes.max(Owed::News);
            }
            self.marked = self.marked.wrapping_add((is_repaired && is_marked).into());
        }
    }

    /// As what a frame that comes may have a place in memory.
    pub fn claim(&self, data: &Data) -> Claim {
        match self.is_repaired(data.stream) {
            true if self.incoming.is_awaited(data) => Claim::Awaited(data.stream),
            true => Claim::Repaired(data.stream),
            false => Claim::Unrepaired,
        }
    }

    fn is_repaired(&self, stream: Stream) -> bool {
        self.repaired().contains(stream.class)
    }

    /// Whether some of a stream was [turned away](Brought::Unkept), and is not [invited](Self::invite).
    pub fn waits_for_memory(&self, stream: Stream) -> bool {
        self.incoming.waits_for_memory(stream)
    }

    /// The first such stream behind this one, or the first of all.
    pub fn next_that_waits(&self, behind: Option<Stream>) -> Option<Stream> {
        self.incoming.next_that_waits(behind)
    }

    /// There is memory again for frames of a stream that was [turned away](Brought::Unkept).
    pub fn invite(&mut self, stream: Stream) {
        self.incoming.invite(stream);
    }

    /// The way to the far end was cut, and packets go by another from now on, or by the same one as it works again. What was
    /// underway is sent again at once, and asked after, whatever silence was waited for.
    pub fn change_way(&mut self, now: Instant) {
        self.counters.lost += self.outgoing.change_way();
        self.greeting.hurry(now);
        // What we told may not have been heard.
        if self.is_met() {
            self.owes = Owed::Answer;
        }
    }

    /// The receiver has taken a frame that was delivered, or never will.
    pub fn took(&mut self, stream: Stream, from: Era, offset: u64) {
        if from == self.era {
            self.incoming.took(stream, offset);
        } else {
            self.incoming.took_leftover(stream, from, offset);
        }
    }

    /// The classes of what the far end keeps until it knows that it was taken, and sends again to a later life of ours.
    pub fn repaired(&self) -> ClassSet {
        self.peer.map_or(ClassSet::NONE, |peer| peer.repairs)
    }

    /// Before this life ends: [`Self::poll`] tells the far end of all that was taken.
    pub fn hurry(&mut self) {
        self.incoming.hurry();
    }

    /// Forgets frames whose senders take them back, and which nobody needs any more. Their places in their streams are told of,
    /// without them.
    pub fn withdraw(&mut self, is_gone: impl FnMut(F) -> bool) {
        self.outgoing.withdraw(None, is_gone);
    }

    /// Gives frames up that are not known to be taken, of one stream or of all: `given_up` has each. Whether the far receiver has
    /// them cannot be known. Their places in their streams are told of, without them, once the far end is heard again.
    pub fn abandon(&mut self, stream: Option<Stream>, mut given_up: impl FnMut(F)) {
        self.outgoing.withdraw(stream, |frame| {
            given_up(frame);
            true
        });
    }

    /// Since when nothing at all is heard of the far end although it owes an answer: frames are not known to be taken, or streams
    /// wait for credit. None if it owes nothing, also if it was not met yet. One that is there and hears us answers within a tenth of a
    /// second and a round trip, whatever becomes of frames; longer silence is the fabric's or its end. [`Self::poll`] keeps this up to date.
    pub fn silent_since(&self) -> Option<Instant> {
        self.silent_since
    }

    /// The far end reports. `completed` has each frame that its receiver has taken.
    pub fn handle_report(&mut self, now: Instant, report: &Report, completed: impl FnMut(F)) {
        if !self.is_current(now, report.ends) {
            return;
        }
        self.counters.lost += self.outgoing.reported(now, report, completed);
        let repairs = self.repaired();
        for ask in &report.asks {
            let is_known = self.incoming.asked(now, ask, repairs.contains(ask.stream.class));
            self.counters.refused += u64::from(!is_known);
            // Whoever asks is to know that it is heard, if no more.
            self.owes = Owed::Answer;
        }
    }

    /// Does what time asks for. `arrived` is told what to do with frames that have waited long enough for others.
    pub fn handle_deadline(&mut self, now: Instant, mut arrived: impl FnMut(Arrival<R>)) {
        if self.is_full {
            self.renew(now, |frame| arrived(Arrival::Release(frame)));
        }
        self.incoming.give_up(now, self.era, arrived);
        self.counters.lost += self.outgoing.handle_deadline(now);
    }

    /// When something falls due although nothing is heard.
    pub fn deadline(&self) -> Option<Instant> {
        let renewal = self.is_full.then_some(Instant::ZERO);
        let all = [renewal, self.outgoing.deadline(), self.incoming.deadline(), self.greeting.deadline()];
        all.into_iter().flatten().min()
    }

    /// What is to be said, after all that has arrived was told of: call it until there is no more.
    pub fn poll(&mut self, now: Instant) -> Option<Message> {
        self.poll_with(now, Owed::News)
    }

    /// The same, but for a report that may [ride](Self::ride).
    pub fn poll_urgent(&mut self, now: Instant) -> Option<Message> {
        self.poll_with(now, Owed::Answer)
    }

    /// What is to be said; nothing that is owed less than this.
    fn poll_with(&mut self, now: Instant, least: Owed) -> Option<Message> {
        self.silent_since = self.outgoing.is_owed().then(|| self.silent_since.unwrap_or(now));
        if self.greeting.is_due(now, self.is_met()) {
            return Some(Message::Hello(self.hello()));
        }
        let ends = self.peer.map(|peer| Ends { from: self.me, to: peer.life })?;
        let asks = self.outgoing.asks(now);
        if asks.is_empty() && self.owed() < least {
            return None;
        }
        self.report(ends, asks).map(Message::Report)
    }

    /// A report that may go with a frame of this class: nobody waits for it, and it tells nothing new of streams of other classes, which
    /// a fabric may hold up less than this one.
    pub fn ride(&mut self, class: Class) -> Option<Report> {
        let ends = self.ends()?;
        if self.owed() != Owed::News || self.incoming.owes_others(class) {
            return None;
        }
        self.report(ends, Vec::new())
    }

    /// Whether there is a report that may [ride](Self::ride), or may turn out to be nothing.
    pub fn has_news(&self) -> bool {
        self.owed() == Owed::News
    }

    fn owed(&self) -> Owed {
        if self.incoming.owes() { self.owes.max(Owed::News) } else { self.owes }
    }

    fn report(&mut self, ends: Ends, asks: Vec<Ask>) -> Option<Report> {
        let (rooms, again) = self.incoming.rooms();
        if self.owes == Owed::Nothing && rooms.is_empty() && asks.is_empty() {
            return None;
        }
        self.owes = Owed::Nothing;
        // A range has no room for more numbers than that; those before were told of long ago.
        let range = |range: RangeInclusive<u64>| {
            let first = (*range.start()).max(range.end().saturating_sub(u16::MAX.into()));
            [first as u32, *range.end() as u32]
        };
        let came = self.came.iter().take(MOST_RANGES).map(range);
        Some(Report { ends, marked: self.marked, came: came.collect(), rooms, again, asks })
    }

    fn hello(&self) -> Hello {
        Hello {
            from: self.me,
            to: self.newcomer.or(self.peer.map(|peer| peer.life)),
            versions: [VERSION; 2],
            repairs: self.config.repairs,
            // What the peer sent may wait here still when the newcomer takes its place.
            unsolicited: match (self.peer, self.newcomer) {
                (Some(_), Some(_)) => Unsolicited::default(),
                _ => self.incoming.unsolicited(),
            },
        }
    }

    /// Frames that are kept and not known to be taken, of all streams.
    pub fn kept(&self) -> usize {
        self.outgoing.kept()
    }
}
