//! One stream as it comes in: put in order, handed on, and granted room.

use alloc::collections::BTreeMap;

use crate::Config;
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
    /// How much may be underway or wait here.
    window: u64,
    /// Bytes that were sent and never came, where the far end does not repair.
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
    /// A stream of which nothing has come.
    pub fn new(config: &Config) -> Self {
        let unsolicited = config.unsolicited.into();
        Self {
            handed: Handed::default(),
            limit: unsolicited,
            early: BTreeMap::new(),
            told: (0, unsolicited),
            asked: false,
            window: config.stream_window.into(),
            missed: 0,
        }
    }

    /// Where the next frame begins.
    pub fn expected(&self) -> u64 {
        self.handed.end()
    }

    /// Bytes that were sent and never came.
    pub fn missed(&self) -> u64 {
        self.missed
    }

    /// A frame has come. If the far end `repairs`, what is missing will come; if not, it never will.
    pub fn arrived(&mut self, offset: u64, len: u16, frame: R, repairs: bool) -> Place<R> {
        let end = offset + u64::from(len);
        if end > self.limit {
            return Place::Beyond(frame);
        }
        if offset < self.expected() || self.early.contains_key(&offset) {
            return Place::Again(frame);
        }
        if offset > self.expected() && repairs {
            self.early.insert(offset, (len, frame));
            return Place::Early;
        }
        self.skip_to(offset);
        self.handed.push(len);
        Place::Now(frame)
    }

    /// The next frame whose turn has come, and where it begins.
    pub fn next(&mut self) -> Option<(u64, R)> {
        let offset = self.expected();
        let (len, frame) = self.early.remove(&offset)?;
        self.handed.push(len);
        Some((offset, frame))
    }

    /// A frame that came early, and part of which came since by others: a far end that contradicts itself.
    pub fn stale(&mut self) -> Option<R> {
        let expected = self.expected();
        let first = self.early.first_entry().filter(|first| *first.key() < expected)?;
        Some(first.remove().1)
    }

    /// The far end says that it has sent so far, and asks. What it does not repair and has not come by then, never will.
    pub fn asked(&mut self, sent: u64, repairs: bool) {
        self.asked = true;
        if !repairs && sent <= self.limit {
            self.skip_to(sent);
        }
        // What is granted unasked may be less than its first frame.
        self.settle();
    }

    fn skip_to(&mut self, offset: u64) {
        self.missed += offset.saturating_sub(self.expected());
        self.handed.skip_to(offset);
        self.settle();
    }

    /// The receiver has the frame that was handed on and begins there.
    pub fn took(&mut self, offset: u64) {
        self.handed.took(offset);
        self.settle();
    }

    fn settle(&mut self) {
        self.limit = self.limit.max(self.handed.taken() + self.window);
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

    /// The far end has begun anew, and what came early will come again: the handles of that.
    pub fn into_early(self) -> impl Iterator<Item = R> {
        self.early.into_values().map(|(_, frame)| frame)
    }
}
