//! All streams as they come in, for one life of the far end.

use alloc::collections::{BTreeMap, BTreeSet, VecDeque};
use alloc::vec::Vec;
use core::ops::Bound::{Excluded, Unbounded};

use units::{Class, Instant, Span};

use crate::handed::Leftover;
use crate::inbound::{Inbound, Place};
use crate::message::{Again, Ask, MOST_ROOMS, Room, Unsolicited};
use crate::number::expand;
use crate::{Arrival, Brought, Config, Data, Era, Part, Stream};

/// How long what is missing is waited for where it is not sent again. It may have taken another way through the fabric, where
/// packets stand still for a while.
const PATIENCE: Span = Span::from_millis(10);

/// What the far end sends: each frame has a handle `R`, unless only its place is told of.
#[derive(Clone, Debug)]
pub struct Incoming<R> {
    config: Config,
    streams: BTreeMap<Stream, Inbound<Option<R>>>,
    /// What the far end sent in earlier eras, and receivers have not taken.
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
    /// In which era it was sent.
    pub from: Era,
    /// The highest number of all packets that have come.
    pub newest: u64,
    /// If it had not, it would be sent again.
    pub is_repaired: bool,
}

/// What became of a frame that came.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Fate {
    /// It was handed on, or waits for others.
    Fresh,
    /// It was here before.
    Repeated,
    /// It was not granted.
    Beyond,
    /// There is no memory for it: it will come again.
    TurnedAway,
    /// There is no memory for it, and it will not come again.
    Missed,
    /// Its stream is one too many.
    Refused,
}

impl<R> Incoming<R> {
    /// Nothing has come.
    pub fn new(config: Config) -> Self {
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

    /// An era is over, and another begins: `release` has each handle of what waits for others, and will come
    /// again. What was handed on may fill receivers' windows, so nothing more may be sent unasked.
    pub fn begin_anew(&mut self, over: Era, mut release: impl FnMut(R)) {
        for (stream, inbound) in core::mem::take(&mut self.streams) {
            let (handed, early) = inbound.into_parts();
            early.flatten().for_each(&mut release);
            self.leftover.keep(stream, over, handed);
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

    /// Bytes that the far end sent in this life, and that were given up.
    pub fn missed(&self) -> u64 {
        self.streams.values().map(Inbound::missed).sum()
    }

    /// A packet has come with a place in a stream. `arrived` is told what to do with its frame and with others that it was waited for.
    pub fn arrived(
        &mut self,
        now: Instant,
        data: &Data,
        origin: Origin,
        brought: Brought<R>,
        arrived: impl FnMut(Arrival<R>),
    ) -> Fate {
        let (stream, Origin { from, newest, is_repaired }) = (data.stream, origin);
        let Some(inbound) = self.stream(stream) else {
            brought.release(arrived);
            return Fate::Refused;
        };
        let (offset, len) = (expand(data.offset, inbound.expected()), data.len.get());
        let is_kept = !matches!(brought, Brought::Unkept);
        // Of what is only a place, its flags say nothing.
        let part = if matches!(brought, Brought::Frame(_)) { data.part } else { Part::WHOLE };
        let fate = match (inbound.place(offset, len), brought) {
            (Place::New, brought) if is_kept && !inbound.is_full(offset) => {
                let turn = inbound.arrived(offset, len, part, brought.frame()).map(|frame| (offset, frame));
                hand_on(inbound, stream, from, turn, arrived);
                Fate::Fresh
            }
            (Place::New, brought) if is_repaired => {
                let others = inbound.turn_away(offset, len, newest).flatten();
                brought.frame().into_iter().chain(others).map(Arrival::Release).for_each(arrived);
                self.full.insert(stream);
                Fate::TurnedAway
            }
            (Place::New, brought) => {
                inbound.miss(offset, len);
                brought.release(arrived);
                Fate::Missed
            }
            (Place::Again, brought) => {
                brought.release(arrived);
                Fate::Repeated
            }
            (Place::Beyond, brought) => {
                // It does not know how far it may go.
                inbound.asked(0);
                brought.release(arrived);
                Fate::Beyond
            }
        };
        self.owe(now, stream, is_repaired);
        fate
    }

    /// Whether a frame is the one that others of its stream wait for.
    pub fn is_awaited(&self, data: &Data) -> bool {
        self.streams.get(&data.stream).is_some_and(|inbound| inbound.is_awaited(data.offset))
    }

    /// Whether some of a stream was turned away, and is not invited.
    pub fn waits_for_memory(&self, stream: Stream) -> bool {
        self.full.contains(&stream)
    }

    /// The first such stream behind this one, or the first of all.
    pub fn next_that_waits(&self, behind: Option<Stream>) -> Option<Stream> {
        let others = behind.and_then(|last| self.full.range((Excluded(last), Unbounded)).next());
        others.or_else(|| self.full.first()).copied()
    }

    /// There is memory again for frames of a stream.
    pub fn invite(&mut self, stream: Stream) {
        if let Some(inbound) = self.streams.get_mut(&stream) {
            inbound.invite();
            self.full.remove(&stream);
            self.owing.insert(stream);
        }
    }

    /// The far end asks after a stream. `false` if that is one too many.
    pub fn asked(&mut self, now: Instant, ask: &Ask, is_repaired: bool) -> bool {
        let Some(inbound) = self.stream(ask.stream) else { return false };
        inbound.asked(expand(ask.sent, inbound.expected()));
        self.owe(now, ask.stream, is_repaired);
        true
    }

    /// The receiver has the frame that begins there.
    pub fn took(&mut self, stream: Stream, offset: u64) {
        if let Some(inbound) = self.streams.get_mut(&stream) {
            inbound.took(offset);
            self.owing.insert(stream);
        }
    }

    /// The receiver has the frame that begins there in an era that is over.
    pub fn took_leftover(&mut self, stream: Stream, era: Era, offset: u64) {
        self.leftover.took(stream, era, offset);
        if let Some(inbound) = self.streams.get_mut(&stream) {
            inbound.set_leftover(self.leftover.bytes(stream));
            self.owing.insert(stream);
        }
    }

    /// Has the far end told at once of all that it does not know to be taken.
    pub fn hurry(&mut self) {
        self.streams.values_mut().for_each(Inbound::hurry);
        self.owing.extend(self.streams.keys());
    }

    /// When something that is missing has been waited for long enough.
    pub fn deadline(&self) -> Option<Instant> {
        self.missing.front().map(|(at, _)| *at)
    }

    /// Hands on what has waited for that, sent in this era.
    pub fn give_up(&mut self, now: Instant, from: Era, mut arrived: impl FnMut(Arrival<R>)) {
        while let Some((_, stream)) = self.missing.pop_front_if(|(at, _)| *at <= now) {
            let Some(inbound) = self.streams.get_mut(&stream) else { continue };
            inbound.give_up();
            let next = next(inbound, stream, &mut arrived);
            hand_on(inbound, stream, from, next, &mut arrived);
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
    pub fn rooms(&mut self) -> (Vec<Room>, Vec<Again>) {
        let (mut rooms, mut again) = (Vec::new(), Vec::new());
        while let Some(stream) = self.owing.first().copied()
            && rooms.len() + again.len() + self.streams.get(&stream).map_or(0, Inbound::rooms) <= MOST_ROOMS
        {
            self.owing.remove(&stream);
            let report = self.streams.get_mut(&stream).and_then(Inbound::report);
            let Some(told) = report else { continue };
            let all = |(number, from): (u64, u64)| Again { stream, number: number as u32, from: from as u32 };
            again.extend(told.again.map(all));
            rooms.push(Room { stream, taken: told.taken as u32, limit: told.limit as u32 });
        }
        (rooms, again)
    }

    /// Something has changed of a stream, of which something may be missing.
    fn owe(&mut self, now: Instant, stream: Stream, is_repaired: bool) {
        self.owing.insert(stream);
        if !is_repaired && self.streams.get_mut(&stream).is_some_and(Inbound::begins_to_wait) {
            self.missing.push_back((now + PATIENCE, stream));
        }
    }

    /// A stream, also if nothing of it has come yet; none if there are as many others as there may be.
    fn stream(&mut self, stream: Stream) -> Option<&mut Inbound<Option<R>>> {
        let Self { config, streams, leftover, unsolicited, .. } = self;
        if streams.len() >= config.most_streams && !streams.contains_key(&stream) {
            return None;
        }
        let (window, unsolicited) = (config.window(stream.class), unsolicited.of(stream.class));
        let new = || Inbound::new(window, unsolicited, leftover.bytes(stream));
        Some(streams.entry(stream).or_insert_with(new))
    }
}

/// Hands on the frame whose turn has come, if there is one, and those that it was waited for.
fn hand_on<R>(
    inbound: &mut Inbound<Option<R>>,
    stream: Stream,
    from: Era,
    mut turn: Option<(u64, Option<R>)>,
    mut arrived: impl FnMut(Arrival<R>),
) {
    while let Some((offset, frame)) = turn {
        match frame {
            Some(frame) => arrived(Arrival::Deliver { stream, from, offset, frame }),
            None => {
                inbound.took(offset);
                arrived(Arrival::Gap { stream });
            }
        }
        turn = next(inbound, stream, &mut arrived);
    }
    while let Some(frame) = inbound.stale() {
        frame.map(Arrival::Release).into_iter().for_each(&mut arrived);
    }
}

/// The next frame whose turn has come. What it was waited for, and was given up, is told of.
fn next<R>(
    inbound: &mut Inbound<Option<R>>,
    stream: Stream,
    mut arrived: impl FnMut(Arrival<R>),
) -> Option<(u64, Option<R>)> {
    let missed = inbound.missed();
    let next = inbound.next();
    if inbound.missed() > missed {
        arrived(Arrival::Gap { stream });
    }
    next
}
