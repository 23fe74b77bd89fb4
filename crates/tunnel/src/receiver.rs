//! All streams as they come in, for one incarnation of the far end.

use alloc::collections::{BTreeMap, BTreeSet, VecDeque};
use alloc::vec::Vec;
use core::ops::Bound::{Excluded, Unbounded};

use units::{Class, Instant, Span};

use crate::delivered::Leftover;
use crate::message::{CreditGrant, MAX_GRANTS, Nack, Unsolicited, WindowProbe};
use crate::number::expand;
use crate::receive_stream::{Position, ReceiveStream};
use crate::{Arrival, Data, Epoch, Part, Payload, SessionConfig, Stream};

/// How long what is missing is waited for where it is not sent again. It may have taken another way through the fabric, where
/// packets stand still for a while.
const REORDERING_DELAY: Span = Span::from_millis(10);

/// What the far end sends: each frame has a handle `R`, unless only its place is told of.
#[derive(Clone, Debug)]
pub struct Receiver<R> {
    config: SessionConfig,
    streams: BTreeMap<Stream, ReceiveStream<Option<R>>>,
    /// What the far end sent in earlier epochs, and receivers have not taken.
    leftover: Leftover,
    /// How much of each stream the far end may send unasked.
    unsolicited: Unsolicited,
    /// Streams of which something may have to be told.
    owing: BTreeSet<Stream>,
    /// Streams of which something was turned away, and that are not invited.
    full: BTreeSet<Stream>,
    /// Streams that the far end does not repair and of which something is missing, and how long to wait for it.
    missing: VecDeque<(Instant, Stream)>,
}

/// How a packet has come.
#[derive(Clone, Copy, Debug)]
pub struct Origin {
    /// In which epoch it was sent.
    pub from: Epoch,
    /// The highest number of all packets that have come.
    pub newest: u64,
    /// If it had not, it would be sent again.
    pub is_reliable: bool,
}

/// What became of a frame that came.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Fate {
    /// It was handed on, or waits for others.
    Accepted,
    /// It was here before.
    Duplicate,
    /// It was not granted.
    CreditExceeded,
    /// There is no memory for it: it will come again.
    Nacked,
    /// There is no memory for it, and it will not come again.
    NoMemory,
    /// Its stream is one too many.
    TooManyStreams,
}

impl<R> Receiver<R> {
    /// Nothing has come.
    pub fn new(config: SessionConfig) -> Self {
        Self {
            config,
            streams: BTreeMap::new(),
            leftover: Leftover::default(),
            unsolicited: config.unsolicited(),
            owing: BTreeSet::new(),
            full: BTreeSet::new(),
            missing: VecDeque::new(),
        }
    }

    /// An epoch is over, and another begins: `release` has each handle of what waits for others, and will come
    /// again. What was handed on may fill receivers' windows, so nothing more may be sent unasked.
    pub fn restart(&mut self, over: Epoch, mut release: impl FnMut(R)) {
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

    /// How much of each stream the far end may send unasked.
    pub fn unsolicited(&self) -> Unsolicited {
        self.unsolicited
    }

    /// Bytes that the far end sent in this incarnation, and that were given up.
    pub fn unrecovered(&self) -> u64 {
        self.streams.values().map(ReceiveStream::unrecovered).sum()
    }

    /// A packet has come with a place in a stream. `arrived` is told what to do with its frame and with others that it was waited for.
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
        let is_kept = !matches!(brought, Payload::NoMemory);
        // Of what is only a place, its flags say nothing.
        let part = if matches!(brought, Payload::Frame(_)) { data.part } else { Part::WHOLE };
        let fate = match (receiving.place(offset, len), brought) {
            (Position::New, brought) if is_kept && !receiving.out_of_memory(offset) => {
                let turn = receiving.arrived(offset, len, part, brought.frame()).map(|frame| (offset, frame));
                hand_on(receiving, stream, from, turn, arrived);
                Fate::Accepted
            }
            (Position::New, brought) if is_reliable => {
                let others = receiving.nack(offset, len, newest).flatten();
                brought.frame().into_iter().chain(others).map(Arrival::Release).for_each(arrived);
                self.full.insert(stream);
                Fate::Nacked
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
                // It does not know how far it may go.
                receiving.probed(0);
                brought.release(arrived);
                Fate::CreditExceeded
            }
        };
        self.owe(now, stream, is_reliable);
        fate
    }

    /// Whether a frame is the one that others of its stream wait for.
    pub fn is_next_in_order(&self, data: &Data) -> bool {
        self.streams.get(&data.stream).is_some_and(|receiving| receiving.is_next_in_order(data.offset))
    }

    /// Whether some of a stream was turned away, and is not invited.
    pub fn is_nacking(&self, stream: Stream) -> bool {
        self.full.contains(&stream)
    }

    /// The first such stream behind this one, or the first of all.
    pub fn next_nacking(&self, behind: Option<Stream>) -> Option<Stream> {
        let others = behind.and_then(|last| self.full.range((Excluded(last), Unbounded)).next());
        others.or_else(|| self.full.first()).copied()
    }

    /// There is memory again for frames of a stream.
    pub fn memory_available(&mut self, stream: Stream) {
        if let Some(receiving) = self.streams.get_mut(&stream) {
            receiving.memory_available();
            self.full.remove(&stream);
            self.owing.insert(stream);
        }
    }

    /// The far end asks after a stream. `false` if that is one too many.
    pub fn probed(&mut self, now: Instant, window_probe: &WindowProbe, is_reliable: bool) -> bool {
        let Some(receiving) = self.stream(window_probe.stream) else { return false };
        receiving.probed(expand(window_probe.sent, receiving.expected()));
        self.owe(now, window_probe.stream, is_reliable);
        true
    }

    /// The receiver has the frame that begins there.
    pub fn consumed(&mut self, stream: Stream, offset: u64) {
        if let Some(receiving) = self.streams.get_mut(&stream) {
            receiving.consumed(offset);
            self.owing.insert(stream);
        }
    }

    /// The receiver has the frame that begins there in an epoch that is over.
    pub fn consumed_earlier(&mut self, stream: Stream, epoch: Epoch, offset: u64) {
        self.leftover.consume(stream, epoch, offset);
        if let Some(receiving) = self.streams.get_mut(&stream) {
            receiving.set_leftover(self.leftover.bytes(stream));
            self.owing.insert(stream);
        }
    }

    /// Has the far end told at once of all that it does not know to be taken.
    pub fn hurry(&mut self) {
        self.streams.values_mut().for_each(ReceiveStream::hurry);
        self.owing.extend(self.streams.keys());
    }

    /// When something that is missing has been waited for long enough.
    pub fn deadline(&self) -> Option<Instant> {
        self.missing.front().map(|(at, _)| *at)
    }

    /// Hands on what has waited for that, sent in this epoch.
    pub fn give_up(&mut self, now: Instant, from: Epoch, mut arrived: impl FnMut(Arrival<R>)) {
        while let Some((_, stream)) = self.missing.pop_front_if(|(at, _)| *at <= now) {
            let Some(receiving) = self.streams.get_mut(&stream) else { continue };
            receiving.give_up();
            let next = next(receiving, stream, &mut arrived);
            hand_on(receiving, stream, from, next, &mut arrived);
            self.owe(now, stream, false);
        }
    }

    /// Whether something may have to be told of any stream.
    pub fn owes(&self) -> bool {
        !self.owing.is_empty()
    }

    /// Whether something may have to be told of streams of other classes.
    pub fn owes_others(&self, class: Class) -> bool {
        self.owing.iter().any(|stream| stream.class != class)
    }

    /// How far streams are taken and may go, and what of them is to be sent again, of as many as a report has room for and that
    /// something is to be told of.
    pub fn grants(&mut self) -> (Vec<CreditGrant>, Vec<Nack>) {
        let (mut grants, mut nacks) = (Vec::new(), Vec::new());
        while let Some(stream) = self.owing.first().copied()
            && grants.len() + nacks.len() + self.streams.get(&stream).map_or(0, ReceiveStream::records)
                <= MAX_GRANTS
        {
            self.owing.remove(&stream);
            let report = self.streams.get_mut(&stream).and_then(ReceiveStream::report);
            let Some(advertised) = report else { continue };
            let all = |(number, from): (u64, u64)| Nack { stream, number: number as u32, from: from as u32 };
            nacks.extend(advertised.nack.map(all));
            grants.push(CreditGrant {
                stream,
                consumed: advertised.consumed as u32,
                limit: advertised.limit as u32,
            });
        }
        (grants, nacks)
    }

    /// Something has changed of a stream, of which something may be missing.
    fn owe(&mut self, now: Instant, stream: Stream, is_reliable: bool) {
        self.owing.insert(stream);
        if !is_reliable && self.streams.get_mut(&stream).is_some_and(ReceiveStream::begins_to_wait) {
            self.missing.push_back((now + REORDERING_DELAY, stream));
        }
    }

    /// A stream, also if nothing of it has come yet; none if there are as many others as there may be.
    fn stream(&mut self, stream: Stream) -> Option<&mut ReceiveStream<Option<R>>> {
        let Self { config, streams, leftover, unsolicited, .. } = self;
        if streams.len() >= config.max_streams && !streams.contains_key(&stream) {
            return None;
        }
        let (window, unsolicited) = (config.window(stream.class), unsolicited.of(stream.class));
        let new = || ReceiveStream::new(window, unsolicited, leftover.bytes(stream));
        Some(streams.entry(stream).or_insert_with(new))
    }
}

/// Hands on the frame whose turn has come, if there is one, and those that it was waited for.
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

/// The next frame whose turn has come. What it was waited for, and was given up, is told of.
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
