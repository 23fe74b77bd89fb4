//! One stream of the peer: reorders frames, counts deliveries, grants credit.

use alloc::collections::BTreeMap;
use core::ops::Range;

use crate::config::MAX_FRAME_LEN;
use crate::delivered::Delivered;
use crate::message::Part;

/// A stream that the peer sends. Our owner knows a frame by its handle `R`.
#[derive(Clone, Debug)]
pub struct ReceiveStream<R> {
    /// Frames delivered.
    delivered: Delivered,
    /// The furthest limit granted.
    limit: u64,
    /// The offset of a frame that was delivered in part.
    begun: Option<u64>,
    /// Frames received out of order, by offset: length, part, handle.
    early: BTreeMap<u64, (u16, Part, R)>,
    /// The first and last offset of frames that found no memory.
    nacked: Option<Range<u64>>,
    /// The highest number of all packets received when the last frame found no memory.
    newest: u64,
    /// There is still no memory.
    out_of_memory: bool,
    /// It is not memory that is missing.
    is_early: bool,
    /// The reduced window after memory was short: what waited here then, and an eighth of what was
    /// consumed since. `None` once it is as wide as before.
    narrowed: Option<u64>,
    /// The last report.
    advertised: Advertised,
    /// The peer probes the stream, or needs to know its limit.
    probed: bool,
    /// How far the link that streams share lets it be sent.
    granted: u64,
    /// The window: bytes in flight or waiting here, of all incarnations of the peer.
    window: u64,
    /// Bytes of earlier incarnations that wait here.
    leftover: u64,
    /// How far the peer is known to have sent.
    sent: u64,
    /// Missing frames before this offset are waited for.
    awaited: Option<u64>,
    /// Missing frames before this offset are not waited for any more.
    given_up: u64,
    /// Bytes that did not arrive in time.
    unrecovered: u64,
    /// How many probes in a row found the frame at this offset missing.
    missing: (u64, u32),
}

/// How many probes in a row may find the same frame missing. They are up to 50 ms apart, and a
/// missing frame is retransmitted once a second at least: so after ten seconds it is not on its
/// way.
const MOST_MISSING: u32 = 200;

/// The position of a received frame.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Position {
    /// Not received before, and within the limit.
    New,
    /// Received before.
    Duplicate,
    /// Beyond the limit.
    BeyondCredit,
}

/// What a report says of the stream.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Advertised {
    /// All before this offset is consumed.
    pub consumed: u64,
    /// The packet number and the offset of the NACK, if the stream is NACKed, and whether that is
    /// because its frames came early.
    pub nack: Option<(u64, u64, bool)>,
    /// The limit.
    pub limit: u64,
}

impl<R> ReceiveStream<R> {
    /// A stream of which nothing was received, with a window, what is accepted before the first
    /// grant, how far it may be sent before it was [granted](Self::grant) more, if it has to be,
    /// and the bytes of earlier incarnations that wait here.
    pub fn new(window: u32, unsolicited: u32, cap: Option<u32>, leftover: u64) -> Self {
        let unsolicited = unsolicited.into();
        Self {
            delivered: Delivered::default(),
            limit: unsolicited,
            begun: None,
            early: BTreeMap::new(),
            nacked: None,
            newest: 0,
            out_of_memory: false,
            is_early: false,
            narrowed: None,
            advertised: Advertised { consumed: 0, nack: None, limit: unsolicited },
            probed: false,
            granted: cap.map_or(u64::MAX, u64::from),
            window: window.into(),
            leftover,
            sent: 0,
            awaited: None,
            given_up: 0,
            unrecovered: 0,
            missing: (0, 0),
        }
    }

    /// The next offset in order.
    pub fn expected(&self) -> u64 {
        self.delivered.end()
    }

    /// Bytes that did not arrive in time.
    pub fn unrecovered(&self) -> u64 {
        self.unrecovered
    }

    /// The position of a frame of `len` bytes.
    pub fn place(&self, offset: u64, len: u16) -> Position {
        if offset + u64::from(len) > self.limit {
            return Position::BeyondCredit;
        }
        if offset < self.expected() || self.early.contains_key(&offset) {
            return Position::Duplicate;
        }
        Position::New
    }

    /// Accepts a [new](Position::New) frame. If it is next in order its handle is returned, and
    /// [`Self::next`] has those that waited for it. Otherwise the frame waits.
    pub fn arrived(&mut self, offset: u64, len: u16, part: Part, frame: R) -> Option<R> {
        self.sent = self.sent.max(offset + u64::from(len));
        if offset > self.expected() {
            self.early.insert(offset, (len, part, frame));
            return None;
        }
        self.hand_on(offset, len, part);
        Some(frame)
    }

    fn hand_on(&mut self, offset: u64, len: u16, part: Part) {
        self.delivered.push(len);
        let begun = self.begun.filter(|_| part.continues).unwrap_or(offset);
        self.begun = part.more.then_some(begun);
    }

    /// The offset of the first missing frame that found no memory.
    fn again_from(&self) -> Option<u64> {
        let missing = self.nacked.as_ref().filter(|range| range.end > self.expected())?;
        Some(missing.start.max(self.expected()))
    }

    /// Whether a [new](Position::New) frame finds no memory because an earlier one did not.
    pub fn out_of_memory(&self, offset: u64) -> bool {
        self.out_of_memory && self.again_from().is_some_and(|from| from <= offset)
    }

    /// A [new](Position::New) frame finds no memory. Returns the handles of frames received out of
    /// order behind it, or behind the first that found none: all of these are NACKed. If it
    /// `is_early`, there is memory, and it is to come again all the same.
    pub fn nack(
        &mut self,
        offset: u64,
        len: u16,
        newest: u64,
        is_early: bool,
    ) -> impl Iterator<Item = R> + use<R> {
        self.sent = self.sent.max(offset + u64::from(len));
        let from = self.again_from().map_or(offset, |from| from.min(offset));
        self.nacked = Some(from..self.sent);
        self.newest = newest;
        if !self.out_of_memory {
            self.narrowed = Some(from - self.delivered.consumed());
        }
        self.is_early = is_early || self.is_early();
        (self.out_of_memory, self.probed) = (true, true);
        self.early.split_off(&from).into_values().map(|(.., frame)| frame)
    }

    /// A [new](Position::New) frame of an unreliable class finds no memory: it counts as delivered.
    pub fn miss(&mut self, offset: u64, len: u16) {
        self.sent = self.sent.max(offset + u64::from(len));
    }

    /// Whether frames are NACKed because they came early.
    pub fn is_early(&self) -> bool {
        self.out_of_memory && self.is_early
    }

    /// There is memory again.
    pub fn memory_available(&mut self) {
        self.probed |= core::mem::take(&mut self.out_of_memory);
    }

    /// Whether the frame at this offset is the one that all others wait for.
    pub fn is_next_in_order(&self, offset: u32) -> bool {
        self.expected() as u32 == offset && !self.early.is_empty()
    }

    /// The next frame in order, and its offset.
    pub fn next(&mut self) -> Option<(u64, R)> {
        let expected = self.expected();
        let offset = self.early.range(expected..).next().map(|(offset, _)| *offset);
        let until = offset.map_or(self.given_up, |offset| offset.min(self.given_up));
        if until > expected {
            self.unrecovered += until - expected;
            self.delivered.skip_to(until);
            self.begun = None;
            self.settle();
        }
        let offset = offset.filter(|offset| *offset == self.expected())?;
        let (len, part, frame) = self.early.remove(&offset)?;
        self.hand_on(offset, len, part);
        Some((offset, frame))
    }

    /// Whether frames are missing that are not waited for yet. From now on they are.
    pub fn begins_to_wait(&mut self) -> bool {
        let begins = self.awaited.is_none() && self.sent > self.expected();
        if begins {
            self.awaited = Some(self.sent);
        }
        begins
    }

    /// Stops to wait for missing frames; [`Self::next`] skips them.
    pub fn give_up(&mut self) {
        self.given_up = self.awaited.take().unwrap_or(self.given_up);
    }

    /// A frame received out of order that overlaps delivered ones: the peer contradicts itself.
    pub fn stale(&mut self) -> Option<R> {
        let expected = self.expected();
        let first = self.early.first_entry().filter(|first| *first.key() < expected)?;
        Some(first.remove().2)
    }

    /// Handles a window probe, which says how far the peer has sent. Returns whether the stream
    /// contradicts itself: the next frame in order was sent, and never comes. Then what came before
    /// it was not what the peer sent, or the peer was told that it came.
    pub fn probed(&mut self, sent: u64) -> bool {
        self.probed = true;
        let expected = self.expected();
        let is_missing = sent > expected && self.again_from().is_none();
        self.missing = match self.missing {
            _ if !is_missing => (expected, 0),
            (offset, count) if offset == expected => (offset, count + 1),
            _ => (expected, 1),
        };
        // A claim beyond the limit is ignored.
        if sent <= self.limit {
            self.sent = self.sent.max(sent);
        }
        // The first frame may be longer than what is accepted before the first grant.
        self.settle();
        self.missing.1 > MOST_MISSING
    }

    /// A frame came beyond the limit: the peer is to be told that.
    pub fn beyond_limit(&mut self) {
        self.probed = true;
        self.settle();
    }

    /// Reports at once what was consumed since the last report.
    pub fn hurry(&mut self) {
        self.probed |= self.delivered.consumed() > self.advertised.consumed;
    }

    /// Where the frame at this offset ends, if it is delivered and not consumed.
    pub fn end_of(&self, offset: u64) -> Option<u64> {
        self.delivered.end_of(offset)
    }

    /// There is something to report at once.
    pub fn tell(&mut self) {
        self.probed = true;
    }

    /// The receiver has consumed the frame at this offset.
    pub fn consumed(&mut self, offset: u64) {
        let before = self.delivered.consumed();
        self.delivered.consume(offset);
        if let Some(window) = &mut self.narrowed {
            *window += (self.delivered.consumed() - before) / 8;
        }
        self.narrowed.take_if(|window| *window >= self.window);
        self.settle();
    }

    /// Sets the bytes of earlier incarnations that wait here.
    pub fn set_leftover(&mut self, bytes: u64) {
        self.leftover = bytes;
        self.settle();
    }

    fn settle(&mut self) {
        let window = self.window.saturating_sub(self.leftover);
        self.limit = self.limit.max((self.delivered.consumed() + window).min(self.granted));
    }

    /// The link that streams share lets it be sent so far. The peer is told at once if its window
    /// does, too.
    pub fn grant(&mut self, limit: u64) {
        self.granted = self.granted.max(limit);
        let before = self.limit;
        self.settle();
        self.probed |= self.limit > before;
    }

    /// How far it was sent, as far as is known, and how far the link lets it be sent.
    pub fn granted(&self) -> (u64, u64) {
        (self.sent, self.granted)
    }

    /// How many records of a report the stream may need.
    pub fn records(&self) -> usize {
        1 + usize::from(self.again_from().is_some())
    }

    /// What to report, if it is due: the stream was probed, enough has changed, or all that was
    /// delivered is consumed.
    pub fn report(&mut self) -> Option<Advertised> {
        let again_from = self.again_from();
        let Self { delivered, advertised, probed, .. } = self;
        let consumed = delivered.consumed();
        let window = self.narrowed.unwrap_or(self.window);
        // The limit of the last report, unless frames are NACKed.
        let least = again_from.unwrap_or(advertised.limit);
        // Any frame fits, and so does the rest of one, once all before it is consumed.
        let is_first = delivered.is_empty() || self.begun.is_some_and(|begun| begun <= consumed);
        let limit = match self.narrowed {
            _ if self.out_of_memory => least,
            Some(_) if is_first => {
                self.limit.min(consumed + window.max(MAX_FRAME_LEN.into())).max(least)
            }
            Some(_) => self.limit.min(consumed + window).max(least),
            None => self.limit,
        };
        let owes = *probed
            || consumed - advertised.consumed >= (window / 8).max(1)
            || limit.saturating_sub(advertised.limit) >= (window / 4).max(1)
            || delivered.is_empty() && consumed > advertised.consumed;
        if !owes {
            return None;
        }
        *probed = false;
        let nack = again_from.map(|from| (self.newest, from, self.is_early));
        *advertised = Advertised { consumed, nack, limit };
        Some(*advertised)
    }

    /// What was delivered, and the handles of frames received out of order.
    pub fn into_parts(self) -> (Delivered, impl Iterator<Item = R>) {
        (self.delivered, self.early.into_values().map(|(.., frame)| frame))
    }
}
