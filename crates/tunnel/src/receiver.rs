//! The receiving half of a session: all streams, for one incarnation of the peer.

use alloc::collections::{BTreeMap, BTreeSet, VecDeque};
use alloc::vec::Vec;
use core::ops::Bound::{Excluded, Unbounded};

use units::{Class, Instant, Span};

use crate::answer::Answer;
use crate::config::SessionConfig;
use crate::delivered::Leftover;
use crate::exchange::{Arrival, Epoch, Payload};
use crate::grants::Progress;
use crate::message::{
    CreditGrant, Data, MAX_GRANTS, Nack, Part, Return, Stream, Unsolicited, WindowProbe,
};
use crate::number::expand;
use crate::receive_stream::{Position, ReceiveStream};
use crate::returns::Returns;

/// How long a missing frame of an unreliable class is waited for. It may have taken another path
/// through the fabric, and be delayed there.
const REORDERING_DELAY: Span = Span::from_millis(10);

/// All streams of the peer. A frame has a handle `R`; a position without a frame has none.
#[derive(Clone, Debug)]
pub struct Receiver<R> {
    config: SessionConfig,
    streams: BTreeMap<Stream, ReceiveStream<Option<R>>>,
    /// Frames delivered in earlier epochs and not consumed.
    leftover: Leftover,
    /// What the peer may send of each stream before the first grant.
    unsolicited: Unsolicited,
    /// Streams that may have something to report.
    owing: BTreeSet<Stream>,
    /// Streams that are NACKed until memory is available.
    full: BTreeSet<Stream>,
    /// Unreliable streams with missing frames, and until when these are waited for.
    missing: VecDeque<(Instant, Stream)>,
    /// Frames that are given back.
    returns: Returns,
}

/// What a window probe shows.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Probed {
    /// A stream that may go on.
    Known,
    /// A stream that [contradicts itself](ReceiveStream::probed).
    Contradicts,
    /// One stream more than there may be.
    TooManyStreams,
}

/// The context of a data packet.
#[derive(Clone, Copy, Debug)]
pub struct Origin {
    /// The current epoch.
    pub from: Epoch,
    /// The highest number of all packets received.
    pub newest: u64,
    /// Whether the peer retransmits the stream's class.
    pub is_reliable: bool,
}

/// What became of a data packet.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Fate {
    /// The frame was delivered, or waits for earlier ones.
    Accepted,
    /// It was received before.
    Duplicate,
    /// It exceeds the stream's limit.
    CreditExceeded,
    /// There is no memory for it, and it is NACKed.
    Nacked,
    /// What decided it is not known yet, and it is NACKed.
    NotYet,
    /// There is no memory for it, and it is lost.
    NoMemory,
    /// There are too many streams.
    TooManyStreams,
}

impl<R> Receiver<R> {
    /// Nothing was received.
    pub fn new(config: SessionConfig) -> Self {
        Self {
            config,
            streams: BTreeMap::new(),
            leftover: Leftover::default(),
            unsolicited: config.unsolicited(),
            owing: BTreeSet::new(),
            full: BTreeSet::new(),
            missing: VecDeque::new(),
            returns: Returns::default(),
        }
    }

    /// Ends an epoch. `release` has each handle of a frame that was received out of order: the peer
    /// will retransmit it. Delivered frames may still fill the windows, so nothing is accepted
    /// before the first grant.
    pub fn restart(&mut self, over: Epoch, mut release: impl FnMut(R)) {
        // Nobody holds what was given back: it comes again.
        for (stream, offsets) in self.returns.drain() {
            let Some(receiving) = self.streams.get_mut(&stream) else { continue };
            let mut next = offsets.start;
            while let Some(end) = receiving.end_of(next).filter(|end| *end <= offsets.end) {
                receiving.consumed(next);
                next = end;
            }
        }
        for (stream, receiving) in core::mem::take(&mut self.streams) {
            let (delivered, early) = receiving.into_parts();
            early.flatten().for_each(&mut release);
            self.leftover.keep(stream, over, delivered);
        }
        self.unsolicited = Unsolicited::default();
        self.owing.clear();
        self.full.clear();
        self.missing.clear();
    }

    /// What the peer may send of each stream before the first grant.
    pub fn unsolicited(&self) -> Unsolicited {
        self.unsolicited
    }

    /// Bytes of unreliable streams that did not arrive in time, in this epoch.
    pub fn unrecovered(&self) -> u64 {
        self.streams.values().map(ReceiveStream::unrecovered).sum()
    }

    /// Handles a data packet. `arrived` has each frame that is delivered or released by it.
    pub fn arrived(
        &mut self,
        now: Instant,
        data: &Data,
        origin: Origin,
        brought: Payload<R>,
        arrived: impl FnMut(Arrival<R>),
    ) -> Fate {
        let (stream, Origin { from, newest, is_reliable }) = (data.stream, origin);
        let Some(receiving) = self.stream(stream) else {
            brought.release(arrived);
            return Fate::TooManyStreams;
        };
        let (offset, len) = (expand(data.offset, receiving.expected()), data.len.get());
        let is_kept = !matches!(brought, Payload::NoMemory | Payload::NotYet);
        let is_early = matches!(brought, Payload::NotYet);
        let has_no_frame = matches!(brought, Payload::Placeholder);
        // The flags of a position without a frame mean nothing.
        let part = if matches!(brought, Payload::Frame(_)) { data.part } else { Part::WHOLE };
        let fate = match (receiving.place(offset, len), brought) {
            (Position::New, brought) if is_kept && !receiving.out_of_memory(offset) => {
                let turn = receiving
                    .arrived(offset, len, part, brought.frame())
                    .map(|frame| (offset, frame));
                hand_on(receiving, stream, from, turn, arrived);
                Fate::Accepted
            }
            (Position::New, brought) if is_reliable => {
                let others = receiving.nack(offset, len, newest, is_early).flatten();
                brought.frame().into_iter().chain(others).map(Arrival::Release).for_each(arrived);
                self.full.insert(stream);
                if is_early { Fate::NotYet } else { Fate::Nacked }
            }
            (Position::New, brought) => {
                receiving.miss(offset, len);
                brought.release(arrived);
                Fate::NoMemory
            }
            (Position::Duplicate, brought) => {
                brought.release(arrived);
                Fate::Duplicate
            }
            (Position::BeyondCredit, brought) => {
                receiving.beyond_limit();
                brought.release(arrived);
                Fate::CreditExceeded
            }
        };
        if has_no_frame
            && fate == Fate::Duplicate
            && let Some(receiving) = self.streams.get_mut(&stream)
        {
            self.returns.confirmed(stream, offset, receiving);
        }
        self.owe(now, stream, is_reliable);
        fate
    }

    /// Whether a frame is the next in order of its stream.
    pub fn is_next_in_order(&self, data: &Data) -> bool {
        self.streams
            .get(&data.stream)
            .is_some_and(|receiving| receiving.is_next_in_order(data.offset))
    }

    /// Whether a stream is being NACKed.
    pub fn is_nacking(&self, stream: Stream) -> bool {
        self.full.contains(&stream)
    }

    /// The next stream that is being NACKed: the first after this one, or the first of all.
    pub fn next_nacking(&self, behind: Option<Stream>) -> Option<Stream> {
        let others = behind.and_then(|last| self.full.range((Excluded(last), Unbounded)).next());
        others.or_else(|| self.full.first()).copied()
    }

    /// Ends the NACKs of a stream: there is memory for its frames again. Not those of frames that
    /// came early.
    pub fn memory_available(&mut self, stream: Stream) {
        if let Some(receiving) = self.streams.get_mut(&stream).filter(|it| !it.is_early()) {
            receiving.memory_available();
            self.full.remove(&stream);
            self.owing.insert(stream);
        }
    }

    /// Ends the NACKs of frames that came early: they are to come again.
    pub fn look_again(&mut self) {
        let Self { full, streams, owing, .. } = self;
        full.retain(|stream| {
            let Some(receiving) = streams.get_mut(stream).filter(|it| it.is_early()) else {
                return true;
            };
            receiving.memory_available();
            owing.insert(*stream);
            false
        });
    }

    /// Whether the frames of any stream came early.
    pub fn is_any_early(&self) -> bool {
        let is_early = |stream| self.streams.get(stream).is_some_and(ReceiveStream::is_early);
        self.full.iter().any(is_early)
    }

    /// Handles a window probe.
    pub fn probed(
        &mut self,
        now: Instant,
        window_probe: &WindowProbe,
        is_reliable: bool,
    ) -> Probed {
        let Some(receiving) = self.stream(window_probe.stream) else {
            return Probed::TooManyStreams;
        };
        let contradicts = receiving.probed(expand(window_probe.sent, receiving.expected()));
        self.returns.tell(window_probe.stream);
        self.owe(now, window_probe.stream, is_reliable);
        if contradicts && is_reliable { Probed::Contradicts } else { Probed::Known }
    }

    /// The receiver has consumed the frame at this offset.
    pub fn consumed(&mut self, stream: Stream, offset: u64) {
        if let Some(receiving) = self.streams.get_mut(&stream) {
            receiving.consumed(offset);
            self.owing.insert(stream);
        }
    }

    /// The frame at this offset, which was delivered, is given back. `false` if it is consumed.
    pub fn give_back(&mut self, stream: Stream, offset: u64, answer: Answer) -> bool {
        let end = self.streams.get(&stream).and_then(|receiving| receiving.end_of(offset));
        let Some(end) = end else { return false };
        self.returns.add(stream, offset..end, answer);
        true
    }

    /// Why a frame that was delivered is to be given back although its port is here.
    pub fn behind_moved(&mut self, stream: Stream, anew: bool) -> Option<Answer> {
        self.returns.behind_moved(stream, anew)
    }

    /// Whether frames that are given back are to be told of.
    pub fn owes_returns(&self) -> bool {
        self.returns.are_owed()
    }

    /// Those to tell of now.
    pub fn returns(&mut self) -> Vec<Return> {
        self.returns.take()
    }

    /// The receiver has consumed the frame at this offset of an earlier epoch.
    pub fn consumed_earlier(&mut self, stream: Stream, epoch: Epoch, offset: u64) {
        self.leftover.consume(stream, epoch, offset);
        if let Some(receiving) = self.streams.get_mut(&stream) {
            receiving.set_leftover(self.leftover.bytes(stream));
            self.owing.insert(stream);
        }
    }

    /// Where a stream is that is sent by [grants](crate::grants); `None` if it is not.
    pub fn progress(&self, stream: Stream) -> Option<Progress> {
        if !self.config.is_granted || !self.config.credit.contains(stream.class) {
            return None;
        }
        let (received, limit) = self.streams.get(&stream)?.granted();
        Some(Progress { received, limit })
    }

    /// The link that streams share lets this one be sent so far.
    pub fn grant(&mut self, stream: Stream, limit: u64) {
        if let Some(receiving) = self.streams.get_mut(&stream) {
            receiving.grant(limit);
            self.owing.insert(stream);
        }
    }

    /// Reports at once all that was consumed since the last report.
    pub fn hurry(&mut self) {
        self.streams.values_mut().for_each(ReceiveStream::hurry);
        self.owing.extend(self.streams.keys());
    }

    /// When a missing frame has been waited for long enough.
    pub fn deadline(&self) -> Option<Instant> {
        self.missing.front().map(|(at, _)| *at)
    }

    /// Delivers frames whose missing predecessors have been waited for long enough.
    pub fn give_up(&mut self, now: Instant, from: Epoch, mut arrived: impl FnMut(Arrival<R>)) {
        while let Some((_, stream)) = self.missing.pop_front_if(|(at, _)| *at <= now) {
            let Some(receiving) = self.streams.get_mut(&stream) else { continue };
            receiving.give_up();
            let next = next(receiving, stream, &mut arrived);
            hand_on(receiving, stream, from, next, &mut arrived);
            self.owe(now, stream, false);
        }
    }

    /// Whether any stream may have something to report.
    pub fn owes(&self) -> bool {
        !self.owing.is_empty()
    }

    /// Whether any stream of another class may have something to report.
    pub fn owes_others(&self, class: Class) -> bool {
        self.owing.iter().any(|stream| stream.class != class)
    }

    /// The credit grants and NACKs to report now; not more than fit into a report.
    pub fn grants(&mut self) -> (Vec<CreditGrant>, Vec<Nack>) {
        let (mut grants, mut nacks) = (Vec::new(), Vec::new());
        while let Some(stream) = self.owing.first().copied()
            && grants.len()
                + nacks.len()
                + self.streams.get(&stream).map_or(0, ReceiveStream::records)
                <= MAX_GRANTS
        {
            self.owing.remove(&stream);
            let report = self.streams.get_mut(&stream).and_then(ReceiveStream::report);
            let Some(advertised) = report else { continue };
            let all = |(number, from, is_early): (u64, u64, bool)| Nack {
                stream,
                number: number as u32,
                from: from as u32,
                is_early,
            };
            nacks.extend(advertised.nack.map(all));
            grants.push(CreditGrant {
                stream,
                consumed: advertised.consumed as u32,
                limit: advertised.limit as u32,
            });
        }
        (grants, nacks)
    }

    /// Marks a stream as changed, and starts to wait for its missing frames if it is unreliable.
    fn owe(&mut self, now: Instant, stream: Stream, is_reliable: bool) {
        self.owing.insert(stream);
        if !is_reliable && self.streams.get_mut(&stream).is_some_and(ReceiveStream::begins_to_wait)
        {
            self.missing.push_back((now + REORDERING_DELAY, stream));
        }
    }

    /// The stream, which is created if need be; `None` if there are too many.
    fn stream(&mut self, stream: Stream) -> Option<&mut ReceiveStream<Option<R>>> {
        let Self { config, streams, leftover, unsolicited, .. } = self;
        if streams.len() >= config.max_streams && !streams.contains_key(&stream) {
            return None;
        }
        let (window, unsolicited) = (config.window(stream.class), unsolicited.of(stream.class));
        let cap = config.cap(stream.class, unsolicited);
        let new = || ReceiveStream::new(window, unsolicited, cap, leftover.bytes(stream));
        Some(streams.entry(stream).or_insert_with(new))
    }
}

/// Delivers a frame that is next in order, and those that waited for it.
fn hand_on<R>(
    receiving: &mut ReceiveStream<Option<R>>,
    stream: Stream,
    from: Epoch,
    mut turn: Option<(u64, Option<R>)>,
    mut arrived: impl FnMut(Arrival<R>),
) {
    while let Some((offset, frame)) = turn {
        match frame {
            Some(frame) => arrived(Arrival::Deliver { stream, from, offset, frame }),
            None => {
                receiving.consumed(offset);
                arrived(Arrival::Gap { stream });
            }
        }
        turn = next(receiving, stream, &mut arrived);
    }
    while let Some(frame) = receiving.stale() {
        frame.map(Arrival::Release).into_iter().for_each(&mut arrived);
    }
}

/// The next frame in order. Skips missing frames that are not waited for any more.
fn next<R>(
    receiving: &mut ReceiveStream<Option<R>>,
    stream: Stream,
    mut arrived: impl FnMut(Arrival<R>),
) -> Option<(u64, Option<R>)> {
    let unrecovered = receiving.unrecovered();
    let next = receiving.next();
    if receiving.unrecovered() > unrecovered {
        arrived(Arrival::Gap { stream });
    }
    next
}
