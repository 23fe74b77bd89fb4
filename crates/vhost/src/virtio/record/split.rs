//! The record of a split ring.
//!
//! ```text
//!   │ features │ version │ count │ last batch │ used index │   then for each descriptor:
//!   │ marked │ … │ next in its batch │ counter │
//! ```
//!
//! Chains that go back together are a batch: a list that is linked before the ring's index shows
//! it. Should only the index be stored, it says how long the list is, and whoever comes after us
//! unmarks that many.

use std::cmp::Reverse;
use std::sync::atomic::Ordering::Relaxed;

use super::super::numbers::Numbers;
use super::super::split::Split;
use super::{COUNT_AT, VERSION, VERSION_AT, then};
use port::Span;

const LAST_BATCH: usize = 12;
const USED: usize = 14;

/// How many bytes are before the states.
pub const HEADER: usize = 16;
/// How many bytes each state has.
pub const STATE: usize = 16;

const NEXT: usize = 6;
const COUNTER: usize = 8;

/// A split ring's record.
#[derive(Debug)]
pub struct SplitRecord {
    part: Span,
    /// How many chains were marked.
    counter: u64,
    /// What is given back and not shown yet.
    batch: Vec<u16>,
    /// What is to be taken again: the next one last.
    again: Vec<u16>,
}

impl SplitRecord {
    /// Goes on with the record in `part`, or begins it anew if it is not that of a ring that stands
    /// so. `part` has a header and a state for each descriptor, at least.
    pub fn open(part: Span, ring: &Split) -> Self {
        let batch = Vec::with_capacity(ring.size().into());
        let mut record = Self { part, counter: 0, batch, again: Vec::new() };
        match record.recover(ring) {
            Some(marked) => {
                record.counter =
                    marked.first().map_or(0, |&Reverse((counter, _))| counter.wrapping_add(1));
                record.again = marked.into_iter().map(|Reverse((_, head))| head).collect();
            }
            None => record.begin_anew(ring),
        }
        record
    }

    /// How many chains are to be taken again.
    pub fn again(&self) -> u16 {
        self.again.len() as u16
    }

    /// The next chain that is to be taken again; it is marked.
    #[inline]
    pub fn take_again(&mut self) -> Option<u16> {
        self.again.pop()
    }

    /// This chain was taken.
    #[inline]
    pub fn mark(&mut self, head: u16) {
        self.part.u64(state(head) + COUNTER).store(self.counter, Relaxed);
        self.counter = self.counter.wrapping_add(1);
        then();
        self.part.u8(state(head)).store(1, Relaxed);
        then();
    }

    /// This chain was given back.
    #[inline]
    pub fn give_back(&mut self, head: u16) {
        self.batch.push(head);
    }

    /// The ring is about to show what was given back.
    #[inline]
    pub fn begin(&mut self) {
        if self.batch.is_empty() {
            return;
        }
        let mut last = self.part.u16(LAST_BATCH).load(Relaxed);
        for &head in &self.batch {
            self.part.u16(state(head) + NEXT).store(last, Relaxed);
            last = head;
        }
        then();
        self.part.u16(LAST_BATCH).store(last, Relaxed);
        then();
    }

    /// The ring has shown it, and its index is this.
    #[inline]
    pub fn finish(&mut self, used: u16) {
        if self.batch.is_empty() {
            return;
        }
        then();
        for head in self.batch.drain(..) {
            self.part.u8(state(head)).store(0, Relaxed);
        }
        then();
        self.part.u16(USED).store(used, Relaxed);
        then();
    }

    /// The marked chains and their counters, the last one first; `None` if this cannot be the
    /// ring's record.
    fn recover(&self, ring: &Split) -> Option<Vec<Reverse<(u64, u16)>>> {
        let Self { part, .. } = self;
        let [version, count] = [VERSION_AT, COUNT_AT].map(|at| part.u16(at).load(Relaxed));
        if version != VERSION || count != self.states() {
            return None;
        }
        // The batch that was shown, and perhaps not unmarked.
        let shown = ring.used().wrapping_sub(part.u16(USED).load(Relaxed));
        if shown > ring.size() {
            return None;
        }
        let mut head = part.u16(LAST_BATCH).load(Relaxed);
        for _ in 0..shown {
            if head >= ring.size() {
                return None;
            }
            part.u8(state(head)).store(0, Relaxed);
            head = part.u16(state(head) + NEXT).load(Relaxed);
        }
        then();
        part.u16(USED).store(ring.used(), Relaxed);

        let is_marked = |head: &u16| part.u8(state(*head)).load(Relaxed) != 0;
        let counter = |head| part.u64(state(head) + COUNTER).load(Relaxed);
        let mut marked: Vec<_> =
            (0..ring.size()).filter(is_marked).map(|head| Reverse((counter(head), head))).collect();
        marked.sort_unstable();
        // Whatever is ours was made available and is not used.
        (marked.len() <= ring.unused()?.into()).then_some(marked)
    }

    fn begin_anew(&self, ring: &Split) {
        let (part, states) = (self.part, self.states());
        part.u16(VERSION_AT).store(0, Relaxed);
        then();
        for head in 0..states {
            part.u8(state(head)).store(0, Relaxed);
        }
        part.u64(0).store(0, Relaxed);
        part.u16(COUNT_AT).store(states, Relaxed);
        part.u16(LAST_BATCH).store(0, Relaxed);
        part.u16(USED).store(ring.used(), Relaxed);
        then();
        part.u16(VERSION_AT).store(VERSION, Relaxed);
    }

    fn states(&self) -> u16 {
        ((self.part.len() - HEADER) / STATE) as u16
    }
}

/// Where a descriptor's state is.
#[inline(always)]
fn state(head: u16) -> usize {
    HEADER + STATE * usize::from(head)
}
