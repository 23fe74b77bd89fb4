//! One stream as it comes in: put in order, handed on, and granted room.

use alloc::collections::BTreeMap;
use core::ops::Range;

use crate::delivered::Delivered;
use crate::{MAX_FRAME_LEN, Part};

/// Frames of one stream that the far end sends, each known by a handle `R` of our owner's.
#[derive(Clone, Debug)]
pub struct ReceiveStream<R> {
    /// What was handed on.
    delivered: Delivered,
    /// As far as the far end may send.
    limit: u64,
    /// Where the frame begins of which parts were handed on, and more are to follow.
    begun: Option<u64>,
    /// What came before its turn: length, which part of a frame it is, and handle, by offset.
    early: BTreeMap<u64, (u16, Part, R)>,
    /// Where the first began and the last ended of what came while there was no memory for it.
    nacked: Option<Range<u64>>,
    /// The highest number of all packets that had come when the last of it was turned away.
    newest: u64,
    /// There is none yet.
    out_of_memory: bool,
    /// How much waited here when there was none for more, and an eighth of what was taken since: the window, until it is as wide as
    /// before.
    narrowed: Option<u64>,
    /// What the far end was told last.
    advertised: Advertised,
    /// The far end asks.
    probed: bool,
    /// How much may be underway or wait here, of all incarnations of the far end.
    window: u64,
    /// How much waits here of its earlier incarnations.
    leftover: u64,
    /// As far as the far end is known to have sent.
    sent: u64,
    /// What lies before this and has not come is waited for, for a while.
    awaited: Option<u64>,
    /// What lies before this and has not come never will.
    given_up: u64,
    /// Bytes that were given up.
    unrecovered: u64,
}

/// Where a frame that comes has its place.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Position {
    /// Among those that are to come.
    New,
    /// It was here before.
    Duplicate,
    /// It was not granted.
    BeyondCredit,
}

/// What the far end is told.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Advertised {
    /// All before this is taken.
    pub consumed: u64,
    /// What has come in packets up to this number and begins there or further on is to come again.
    pub nack: Option<(u64, u64)>,
    /// It may send up to here.
    pub limit: u64,
}

impl<R> ReceiveStream<R> {
    /// A stream of which nothing has come in this incarnation of the far end, with a window of so many bytes, of which it may send some
    /// unasked. So many wait of its earlier incarnations.
    pub fn new(window: u32, unsolicited: u32, leftover: u64) -> Self {
        let unsolicited = unsolicited.into();
        Self {
            delivered: Delivered::default(),
            limit: unsolicited,
            begun: None,
            early: BTreeMap::new(),
            nacked: None,
            newest: 0,
            out_of_memory: false,
            narrowed: None,
            advertised: Advertised { consumed: 0, nack: None, limit: unsolicited },
            probed: false,
            window: window.into(),
            leftover,
            sent: 0,
            awaited: None,
            given_up: 0,
            unrecovered: 0,
        }
    }

    /// Where the next frame begins.
    pub fn expected(&self) -> u64 {
        self.delivered.end()
    }

    /// Bytes that were sent and given up.
    pub fn unrecovered(&self) -> u64 {
        self.unrecovered
    }

    /// Where a frame of so many bytes has its place.
    pub fn place(&self, offset: u64, len: u16) -> Position {
        if offset + u64::from(len) > self.limit {
            return Position::BeyondCredit;
        }
        if offset < self.expected() || self.early.contains_key(&offset) {
            return Position::Duplicate;
        }
        Position::New
    }

    /// A frame has come that is [new](Position::New). If it is its turn, its handle is returned, and [`Self::next`] tells of those behind it
    /// that it was waited for; else it is kept.
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

    /// From where on something is missing that was turned away.
    fn again_from(&self) -> Option<u64> {
        let missing = self.nacked.as_ref().filter(|range| range.end > self.expected())?;
        Some(missing.start.max(self.expected()))
    }

    /// Whether there is no memory for a [new](Position::New) frame that begins there, as there was none for one before it.
    pub fn out_of_memory(&self, offset: u64) -> bool {
        self.out_of_memory && self.again_from().is_some_and(|from| from <= offset)
    }

    /// A frame has come that is [new](Position::New), and there is no memory for it: it is to come again, with all that came early and are
    /// behind it, or behind the first that is missing since others were turned away. Their handles are returned.
    pub fn nack(&mut self, offset: u64, len: u16, newest: u64) -> impl Iterator<Item = R> + use<R> {
        self.sent = self.sent.max(offset + u64::from(len));
        let from = self.again_from().map_or(offset, |from| from.min(offset));
        self.nacked = Some(from..self.sent);
        self.newest = newest;
        if !self.out_of_memory {
            self.narrowed = Some(from - self.delivered.consumed());
        }
        (self.out_of_memory, self.probed) = (true, true);
        self.early.split_off(&from).into_values().map(|(.., frame)| frame)
    }

    /// A frame has come that is [new](Position::New) and never will again, and there is no memory for it.
    pub fn miss(&mut self, offset: u64, len: u16) {
        self.sent = self.sent.max(offset + u64::from(len));
    }

    /// There is memory again.
    pub fn memory_available(&mut self) {
        self.probed |= core::mem::take(&mut self.out_of_memory);
    }

    /// Whether what begins there is all that others wait for.
    pub fn is_next_in_order(&self, offset: u32) -> bool {
        self.expected() as u32 == offset && !self.early.is_empty()
    }

    /// The next frame whose turn has come, and where it begins.
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

    /// Whether something is missing that was not waited for yet. From now on it is.
    pub fn begins_to_wait(&mut self) -> bool {
        let begins = self.awaited.is_none() && self.sent > self.expected();
        if begins {
            self.awaited = Some(self.sent);
        }
        begins
    }

    /// What was waited for and has not come never will: [`Self::next`] does without.
    pub fn give_up(&mut self) {
        self.given_up = self.awaited.take().unwrap_or(self.given_up);
    }

    /// A frame that came early, and part of which came since by others: a far end that contradicts itself.
    pub fn stale(&mut self) -> Option<R> {
        let expected = self.expected();
        let first = self.early.first_entry().filter(|first| *first.key() < expected)?;
        Some(first.remove().2)
    }

    /// The far end says that it has sent so far, and asks.
    pub fn probed(&mut self, sent: u64) {
        self.probed = true;
        // Who tells of more than it may have sent tells nothing.
        if sent <= self.limit {
            self.sent = self.sent.max(sent);
        }
        // What is granted unasked may be less than its first frame.
        self.settle();
    }

    /// What the far end does not know yet, it is to be told at once.
    pub fn hurry(&mut self) {
        self.probed |= self.delivered.consumed() > self.advertised.consumed;
    }

    /// The receiver has the frame that was handed on and begins there.
    pub fn consumed(&mut self, offset: u64) {
        let before = self.delivered.consumed();
        self.delivered.consume(offset);
        if let Some(window) = &mut self.narrowed {
            *window += (self.delivered.consumed() - before) / 8;
        }
        self.narrowed.take_if(|window| *window >= self.window);
        self.settle();
    }

    /// So many bytes wait of earlier incarnations of the far end.
    pub fn set_leftover(&mut self, bytes: u64) {
        self.leftover = bytes;
        self.settle();
    }

    fn settle(&mut self) {
        let window = self.window.saturating_sub(self.leftover);
        self.limit = self.limit.max(self.delivered.consumed() + window);
    }

    /// How many records tell the far end of all that it may have to be told.
    pub fn records(&self) -> usize {
        1 + usize::from(self.again_from().is_some())
    }

    /// What to tell the far end, if it is time. It is, if the far end asked, if enough has changed, or if nothing more is here.
    pub fn report(&mut self) -> Option<Advertised> {
        let again_from = self.again_from();
        let Self { delivered, advertised, probed, .. } = self;
        let consumed = delivered.consumed();
        let window = self.narrowed.unwrap_or(self.window);
        // As far as it was told before, but for what comes again.
        let least = again_from.unwrap_or(advertised.limit);
        // Any frame may go, and so may the rest of one, once all before it is taken.
        let is_first = delivered.is_empty() || self.begun.is_some_and(|begun| begun <= consumed);
        let limit = match self.narrowed {
            _ if self.out_of_memory => least,
            Some(_) if is_first => self.limit.min(consumed + window.max(MAX_FRAME_LEN.into())).max(least),
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
        let nack = again_from.map(|from| (self.newest, from));
        *advertised = Advertised { consumed, nack, limit };
        Some(*advertised)
    }

    /// The far end has begun anew: what was handed on, and the handles of what came early and will come again.
    pub fn into_parts(self) -> (Delivered, impl Iterator<Item = R>) {
        (self.delivered, self.early.into_values().map(|(.., frame)| frame))
    }
}
