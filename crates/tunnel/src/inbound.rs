//! One stream as it comes in: put in order, handed on, and granted room.

use alloc::collections::BTreeMap;

use crate::handed::Handed;

/// Frames of one stream that the far end sends, each known by a handle `R` of our owner's.
#[derive(Clone, Debug)]
pub struct Inbound<R> {
    /// What was handed on.
    handed: Handed,
    /// As far as the far end may send.
    limit: u64,
    /// What came before its turn: length and handle by offset.
    early: BTreeMap<u64, (u16, R)>,
    /// What the far end was told last: `taken` and `limit`.
    told: (u64, u64),
    /// The far end asks.
    asked: bool,
    /// How much may be underway or wait here, of all lives of the far end.
    window: u64,
    /// How much waits here of its earlier lives.
    leftover: u64,
    /// As far as the far end is known to have sent.
    sent: u64,
    /// What lies before this and has not come is waited for, for a while.
    awaited: Option<u64>,
    /// What lies before this and has not come never will.
    given_up: u64,
    /// Bytes that were given up.
    missed: u64,
}

/// What became of a frame that came.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Place<R> {
    /// It is its turn; [`Inbound::next`] tells of those behind it that it was waited for.
    Now(R),
    /// Others are to come before it: its handle is kept.
    Early,
    /// It was here before.
    Again(R),
    /// It was not granted.
    Beyond(R),
}

impl<R> Inbound<R> {
    /// A stream of which nothing has come in this life of the far end, with a window of so many bytes, of which it may send some
    /// unasked. So many wait of its earlier lives.
    pub fn new(window: u32, unsolicited: u32, leftover: u64) -> Self {
        let unsolicited = unsolicited.into();
        Self {
            handed: Handed::default(),
            limit: unsolicited,
            early: BTreeMap::new(),
            told: (0, unsolicited),
            asked: false,
            window: window.into(),
            leftover,
            sent: 0,
            awaited: None,
            given_up: 0,
            missed: 0,
        }
    }

    /// Where the next frame begins.
    pub fn expected(&self) -> u64 {
        self.handed.end()
    }

    /// Bytes that were sent and given up.
    pub fn missed(&self) -> u64 {
        self.missed
    }

    /// A frame has come.
    pub fn arrived(&mut self, offset: u64, len: u16, frame: R) -> Place<R> {
        let end = offset + u64::from(len);
        if end > self.limit {
            return Place::Beyond(frame);
        }
        if offset < self.expected() || self.early.contains_key(&offset) {
            return Place::Again(frame);
        }
        self.sent = self.sent.max(end);
        if offset > self.expected() {
            self.early.insert(offset, (len, frame));
            return Place::Early;
        }
        self.handed.push(len);
        Place::Now(frame)
    }

    /// The next frame whose turn has come, and where it begins.
    pub fn next(&mut self) -> Option<(u64, R)> {
        let expected = self.expected();
        let offset = self.early.range(expected..).next().map(|(offset, _)| *offset);
        let until = offset.map_or(self.given_up, |offset| offset.min(self.given_up));
        if until > expected {
            self.missed += until - expected;
            self.handed.skip_to(until);
            self.settle();
        }
        let offset = offset.filter(|offset| *offset == self.expected())?;
        let (len, frame) = self.early.remove(&offset)?;
        self.handed.push(len);
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
        Some(first.remove().1)
    }

    /// The far end says that it has sent so far, and asks.
    pub fn asked(&mut self, sent: u64) {
        self.asked = true;
        // Who tells of more than it may have sent tells nothing.
        if sent <= self.limit {
            self.sent = self.sent.max(sent);
        }
        // What is granted unasked may be less than its first frame.
        self.settle();
    }

    /// What the far end does not know yet, it is to be told at once.
    pub fn hurry(&mut self) {
        self.asked |= self.handed.taken() > self.told.0;
    }

    /// The receiver has the frame that was handed on and begins there.
    pub fn took(&mut self, offset: u64) {
        self.handed.took(offset);
        self.settle();
    }

    /// So many bytes wait of earlier lives of the far end.
    pub fn set_leftover(&mut self, bytes: u64) {
        self.leftover = bytes;
        self.settle();
    }

    fn settle(&mut self) {
        let window = self.window.saturating_sub(self.leftover);
        self.limit = self.limit.max(self.handed.taken() + window);
    }

    /// What to tell the far end, if it is time: how far all is taken, and how far it may send. It is, if the far end asked,
    /// if enough has changed, or if nothing more is here.
    pub fn report(&mut self) -> Option<(u64, u64)> {
        if !self.owes() {
            return None;
        }
        self.asked = false;
        self.told = (self.handed.taken(), self.limit);
        Some(self.told)
    }

    /// Whether a report is due.
    pub fn owes(&self) -> bool {
        let (taken, limit) = self.told;
        self.asked
            || self.handed.taken() - taken >= self.window / 8
            || self.limit - limit >= self.window / 4
            || self.handed.is_empty() && self.handed.taken() > taken
    }

    /// The far end has begun anew: what was handed on, and the handles of what came early and will come again.
    pub fn into_parts(self) -> (Handed, impl Iterator<Item = R>) {
        (self.handed, self.early.into_values().map(|(_, frame)| frame))
    }
}
