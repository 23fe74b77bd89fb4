//! The record of a packed ring.
//!
//! ```text
//!   │ features │ version │ count │ free, as of the last batch │ used, as of the last batch │   then for each descriptor:
//!   │ marked │ next │ last │ number │ counter │ the descriptor itself │
//! ```
//!
//! In a packed ring used descriptors are written over those of chains that may still be ours. So a
//! chain's descriptors are copied: into entries that are taken from a list of free ones, and return
//! to it in the same order of writes.

use std::cmp::Reverse;
use std::sync::atomic::Ordering::Relaxed;

use super::super::numbers::Numbers;
use super::super::packed::{Packed, Turn};
use super::super::{Corrupt, Descriptor};
use super::{COUNT_AT, VERSION, VERSION_AT, then};
use port::Span;

const FREE: usize = 12;
const OLD_FREE: usize = 14;
/// Used index, old used index, used wrap counter, old used wrap counter: one word, so that they
/// change at once.
const TURNS: usize = 16;

/// How many bytes are before the entries.
pub const HEADER: usize = 32;
/// How many bytes each entry has.
pub const STATE: usize = 32;

const NEXT: usize = 2;
const LAST: usize = 4;
const NUMBER: usize = 6;
const COUNTER: usize = 8;
const ID: usize = 16;
const FLAGS: usize = 18;
const LEN: usize = 20;
const ADDRESS: usize = 24;

/// A packed ring's record.
#[derive(Debug)]
pub struct PackedRecord {
    part: Span,
    /// How many chains were marked.
    counter: u64,
    /// The first free entry, and by entry who is next: as in the record, but nobody else writes
    /// here.
    free: u16,
    next: Box<[u16]>,
    /// By buffer id: a chain's first entry and its last.
    ends: Box<[(u16, u16)]>,
    /// Where the ring stood when the last batch was finished.
    used: Turn,
    /// What is given back and not shown yet.
    batch: Vec<u16>,
    /// What is to be taken again: the next one last.
    again: Vec<Marked>,
}

/// A chain that is marked. The last one taken is the least.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub struct Marked {
    counter: Reverse<u64>,
    /// Its buffer's id.
    pub id: u16,
    /// Its first entry.
    first: u16,
    /// How many it has.
    pub descriptors: u16,
}

impl PackedRecord {
    /// Goes on with the record in `part`, and has the ring stand as it says; or begins it anew if
    /// it cannot be this ring's. `part` has a header and an entry for each descriptor, at least.
    ///
    /// What was taken of a ring that is used `in_order` is not taken again, but put back.
    pub fn open(part: Span, ring: &mut Packed, in_order: bool) -> Self {
        let states = ((part.len() - HEADER) / STATE) as u16;
        let mut record = Self {
            part,
            counter: 0,
            free: 0,
            next: (1..=states).collect(),
            ends: vec![(0, 0); ring.size().into()].into(),
            used: ring.turns()[1],
            batch: Vec::with_capacity(ring.size().into()),
            again: Vec::new(),
        };
        if record.recover(ring).is_none() {
            record.begin_anew(ring.turns()[1]);
        } else if in_order {
            record.put_back(ring);
        }
        record
    }

    /// How many chains are to be taken again.
    pub fn again(&self) -> u16 {
        self.again.len() as u16
    }

    /// The next chain that is to be taken again; it is marked.
    #[inline]
    pub fn take_again(&mut self) -> Option<Marked> {
        self.again.pop()
    }

    /// A marked chain's descriptors, each with its buffer's id.
    pub fn descriptors(&self, chain: Marked) -> impl Iterator<Item = (Descriptor, u16)> {
        let entries =
            std::iter::successors(Some(chain.first), |&entry| Some(self.next[usize::from(entry)]));
        entries.take(chain.descriptors.into()).map(|entry| self.descriptor(entry))
    }

    /// The chain of `descriptors` that is next in the ring is being taken.
    ///
    /// # Errors
    ///
    /// [`Corrupt`]: more descriptors are available than the ring has.
    #[inline]
    pub fn mark(&mut self, ring: &Packed, id: u16, descriptors: u16) -> Result<(), Corrupt> {
        let Self { part, next, .. } = self;
        let first = self.free;
        let (mut entry, mut last) = (first, first);
        for ahead in 0..descriptors {
            let Some(behind) = next.get(usize::from(entry)) else {
                return Err(Corrupt::Lent { head: id });
            };
            let (Descriptor { address, len, flags, .. }, id) = ring.descriptor(ahead);
            let at = state(entry);
            part.u64(at + ADDRESS).store(address, Relaxed);
            part.u32(at + LEN).store(len, Relaxed);
            part.u16(at + FLAGS).store(flags, Relaxed);
            part.u16(at + ID).store(id, Relaxed);
            (last, entry) = (entry, *behind);
        }
        let at = state(first);
        part.u16(at + LAST).store(last, Relaxed);
        part.u16(at + NUMBER).store(descriptors, Relaxed);
        part.u64(at + COUNTER).store(self.counter, Relaxed);
        self.counter = self.counter.wrapping_add(1);
        part.u8(at).store(1, Relaxed);
        part.u16(FREE).store(entry, Relaxed);
        then();
        // Until here these entries are free, whatever stands in them.
        part.u16(OLD_FREE).store(entry, Relaxed);
        then();
        self.free = entry;
        self.ends[usize::from(id)] = (first, last);
        Ok(())
    }

    /// This chain was given back.
    #[inline]
    pub fn give_back(&mut self, id: u16) {
        self.batch.push(id);
    }

    /// This chain was put back, as if it had not been taken.
    pub fn unmark(&mut self, id: u16) {
        let Self { part, next, .. } = self;
        let (first, last) = self.ends[usize::from(id)];
        next[usize::from(last)] = self.free;
        part.u16(state(last) + NEXT).store(self.free, Relaxed);
        then();
        part.u16(OLD_FREE).store(first, Relaxed);
        then();
        part.u16(FREE).store(first, Relaxed);
        part.u8(state(first)).store(0, Relaxed);
        self.free = first;
    }

    /// The ring is about to show what was given back, and will stand here.
    #[inline]
    pub fn begin(&mut self, used: Turn) {
        if used == self.used {
            return;
        }
        let Self { part, next, .. } = self;
        for &id in &self.batch {
            let (first, last) = self.ends[usize::from(id)];
            next[usize::from(last)] = self.free;
            part.u16(state(last) + NEXT).store(self.free, Relaxed);
            self.free = first;
        }
        part.u16(FREE).store(self.free, Relaxed);
        then();
        part.u64(TURNS).store(turns(used, self.used), Relaxed);
        then();
    }

    /// The ring has shown it, and stands there.
    #[inline]
    pub fn finish(&mut self, used: Turn) {
        if used == self.used {
            return;
        }
        let Self { part, .. } = self;
        then();
        for id in self.batch.drain(..) {
            part.u8(state(self.ends[usize::from(id)].0)).store(0, Relaxed);
        }
        then();
        part.u16(OLD_FREE).store(self.free, Relaxed);
        then();
        part.u64(TURNS).store(turns(used, used), Relaxed);
        then();
        self.used = used;
    }

    /// Finds out what is marked, and has the ring stand behind it; `None` if this cannot be the
    /// ring's record.
    fn recover(&mut self, ring: &mut Packed) -> Option<()> {
        let part = self.part;
        let states = self.next.len();
        let [version, count] = [VERSION_AT, COUNT_AT].map(|at| part.u16(at).load(Relaxed));
        if version != VERSION || usize::from(count) != states || ring.is_new() {
            return None;
        }
        let [used, old] = parse_turns(part.u64(TURNS).load(Relaxed));
        if used.index >= ring.size() || old.index >= ring.size() {
            return None;
        }
        // A batch was begun: if its first descriptor is not available any more, the driver was
        // shown all of it.
        let shown = used != old && !ring.is_available_at(old);
        (self.used, self.free) = if shown {
            (used, part.u16(FREE).load(Relaxed))
        } else {
            (old, part.u16(OLD_FREE).load(Relaxed))
        };

        // Each entry is free, or of one marked chain.
        let mut seen = vec![false; states];
        let mut see = |entry: u16| {
            let place = seen.get_mut(usize::from(entry))?;
            (!std::mem::replace(place, true)).then(|| part.u16(state(entry) + NEXT).load(Relaxed))
        };
        let mut entry = self.free;
        while usize::from(entry) < states {
            let next = see(entry)?;
            part.u8(state(entry)).store(0, Relaxed);
            self.next[usize::from(entry)] = next;
            entry = next;
        }
        let (mut marked, mut taken) = (Vec::new(), 0);
        for first in 0..states as u16 {
            if part.u8(state(first)).load(Relaxed) == 0 {
                continue;
            }
            let descriptors = part.u16(state(first) + NUMBER).load(Relaxed);
            let (mut entry, mut last) = (first, first);
            for _ in 0..descriptors {
                let next = see(entry)?;
                self.next[usize::from(entry)] = next;
                (last, entry) = (entry, next);
            }
            let id = part.u16(state(last) + ID).load(Relaxed);
            if descriptors == 0
                || part.u16(state(first) + LAST).load(Relaxed) != last
                || id >= ring.size()
            {
                return None;
            }
            taken += usize::from(descriptors);
            self.ends[usize::from(id)] = (first, last);
            let counter = Reverse(part.u64(state(first) + COUNTER).load(Relaxed));
            marked.push(Marked { counter, id, first, descriptors });
        }
        if seen.contains(&false)
            || taken > usize::from(ring.size())
            || !ring.holds(self.used, taken as u16)
        {
            return None;
        }

        // What of this batch was written behind its first descriptor, nobody has seen, and nobody
        // may.
        ring.stand_at(self.used, taken as u16);
        part.u16(FREE).store(self.free, Relaxed);
        then();
        part.u16(OLD_FREE).store(self.free, Relaxed);
        then();
        part.u64(TURNS).store(turns(self.used, self.used), Relaxed);
        marked.sort_unstable();
        self.counter = marked.first().map_or(0, |last| last.counter.0.wrapping_add(1));
        self.again = marked;
        Some(())
    }

    /// Has the ring stand where it is used, with the descriptors there that its driver wrote: some
    /// of them may have been used already, in a batch whose first one was not.
    fn put_back(&mut self, ring: &mut Packed) {
        let mut ahead = 0;
        ring.stand_at(self.used, 0);
        for chain in self.again.iter().rev() {
            for (descriptor, id) in self.descriptors(*chain) {
                ring.restore(ahead, descriptor, id);
                ahead += 1;
            }
        }
        then();
        for chain in std::mem::take(&mut self.again) {
            self.unmark(chain.id);
        }
    }

    fn begin_anew(&mut self, used: Turn) {
        let Self { part, .. } = self;
        let states = self.next.len() as u16;
        part.u16(VERSION_AT).store(0, Relaxed);
        then();
        for (entry, next) in (1..=states).enumerate() {
            part.u8(state(entry as u16)).store(0, Relaxed);
            part.u16(state(entry as u16) + NEXT).store(next, Relaxed);
            self.next[entry] = next;
        }
        part.u64(0).store(0, Relaxed);
        part.u16(COUNT_AT).store(states, Relaxed);
        part.u16(FREE).store(0, Relaxed);
        part.u16(OLD_FREE).store(0, Relaxed);
        part.u64(TURNS).store(turns(used, used), Relaxed);
        then();
        part.u16(VERSION_AT).store(VERSION, Relaxed);
        (self.free, self.used) = (0, used);
        self.again.clear();
    }

    fn descriptor(&self, number: u16) -> (Descriptor, u16) {
        let (at, part) = (state(number), &self.part);
        let (address, len) =
            (part.u64(at + ADDRESS).load(Relaxed), part.u32(at + LEN).load(Relaxed));
        let [id, flags] = [ID, FLAGS].map(|field| part.u16(at + field).load(Relaxed));
        (Descriptor { address, len, flags, next: 0 }, id)
    }
}

/// Where an entry is.
#[inline(always)]
fn state(entry: u16) -> usize {
    HEADER + STATE * usize::from(entry)
}

#[inline]
fn turns(used: Turn, old: Turn) -> u64 {
    let [used_index, old_index] = [used, old].map(|turn| turn.index.to_ne_bytes());
    let [a, b, c, d] = [used_index[0], used_index[1], old_index[0], old_index[1]];
    u64::from_ne_bytes([a, b, c, d, used.wrap.into(), old.wrap.into(), 0, 0])
}

fn parse_turns(word: u64) -> [Turn; 2] {
    let [a, b, c, d, used, old, ..] = word.to_ne_bytes();
    let turn = |index, wrap| Turn { index: u16::from_ne_bytes(index), wrap: wrap != 0 };
    [turn([a, b], used), turn([c, d], old)]
}
