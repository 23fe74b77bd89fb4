//! Virtual output queues: what an ingress has waiting for room in an egress, by class.
//!
//! A VOQ exists only while it holds a frame, so memory grows with what waits and not with the
//! square of the ports. VOQs lie in a slab. The egress's round of waiting ingresses links them by
//! their place in it, and a hash index finds the one of an (ingress, egress, class).

use alloc::vec;
use alloc::vec::Vec;

use units::{Class, hash};

use crate::cells::Queue;
use crate::id::PortId;

/// A VOQ's place in the slab.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct VoqId(u32);

impl VoqId {
    /// No VOQ.
    pub(crate) const NONE: Self = Self(u32::MAX);
}

/// Frames of one ingress and one class that wait for room in one egress.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Voq {
    pub queue: Queue,
    pub frames: u32,
    /// As many hold the sender back: its port's quota.
    pub quota: u32,
    /// Bytes that this ingress may still send before the next one's turn.
    pub deficit: u32,
    /// It joined the round at its front: its first turn was an advance.
    pub is_advanced: bool,
    /// Who waits behind this VOQ for the same egress and class; in a vacant place, the next vacant
    /// one.
    pub next: VoqId,
    key: Key,
}

impl Voq {
    /// Whose frames they are.
    #[inline]
    pub(crate) fn ingress(&self) -> PortId {
        PortId(self.key.0 as u16)
    }
}

/// An ingress, an egress and a class in one number.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
struct Key(u64);

impl Key {
    #[inline]
    fn new(from: PortId, to: PortId, class: Class) -> Self {
        Self(u64::from(class.pcp()) << 32 | u64::from(to.0) << 16 | u64::from(from.0))
    }

    #[inline]
    fn hash(self) -> usize {
        (hash::fibonacci(self.0) >> 32) as usize
    }
}

/// All VOQs of a switch.
#[derive(Debug)]
pub(crate) struct Voqs {
    slab: Vec<Voq>,
    vacant: VoqId,
    /// By hash with linear probing: a place in the slab, or [`VoqId::NONE`]. A power of two, at
    /// most half full; or nothing yet.
    index: Vec<VoqId>,
    len: usize,
}

/// The smallest index that holds anything.
const LEAST: usize = 16;

impl Voqs {
    pub(crate) const fn new() -> Self {
        Self { slab: Vec::new(), vacant: VoqId::NONE, index: Vec::new(), len: 0 }
    }

    /// The VOQ of an ingress, an egress and a class, if something waits there.
    #[inline]
    pub(crate) fn find(&self, from: PortId, to: PortId, class: Class) -> Option<VoqId> {
        if self.len == 0 {
            return None;
        }
        let id = self.index[self.probe(Key::new(from, to, class))];
        (id != VoqId::NONE).then_some(id)
    }

    /// The same; an empty one is made if there is none. Whether it was made.
    pub(crate) fn find_or_insert(
        &mut self,
        from: PortId,
        to: PortId,
        class: Class,
        quota: u32,
    ) -> (VoqId, bool) {
        if 2 * self.len >= self.index.len() {
            self.grow();
        }
        let key = Key::new(from, to, class);
        let place = self.probe(key);
        if self.index[place] != VoqId::NONE {
            return (self.index[place], false);
        }
        let voq = Voq {
            queue: Queue::EMPTY,
            frames: 0,
            quota,
            deficit: 0,
            is_advanced: false,
            next: VoqId::NONE,
            key,
        };
        let id = match self.slab.get_mut(self.vacant.0 as usize) {
            Some(vacant) => {
                let id = core::mem::replace(&mut self.vacant, vacant.next);
                *vacant = voq;
                id
            }
            None => {
                self.slab.push(voq);
                VoqId(self.slab.len() as u32 - 1)
            }
        };
        self.index[place] = id;
        self.len += 1;
        (id, true)
    }

    /// Takes out a VOQ that is in no round any more, with the frames that it still holds.
    pub(crate) fn remove(&mut self, id: VoqId) -> Voq {
        let gone = self[id];
        let mut hole = self.probe(gone.key);
        let mask = self.index.len() - 1;
        let mut place = hole;
        // Deletion with linear probing moves back what could no longer be found (Knuth, volume 3,
        // §6.4, algorithm R).
        loop {
            place = (place + 1) & mask;
            let next = self.index[place];
            if next == VoqId::NONE {
                break;
            }
            let home = self[next].key.hash() & mask;
            if (place.wrapping_sub(home) & mask) >= (place.wrapping_sub(hole) & mask) {
                self.index[hole] = next;
                hole = place;
            }
        }
        self.index[hole] = VoqId::NONE;
        self.slab[id.0 as usize].next = core::mem::replace(&mut self.vacant, id);
        self.len -= 1;
        gone
    }

    /// An ingress has another quota. How many of its VOQs are at it.
    pub(crate) fn set_quota(&mut self, from: PortId, quota: u32) -> usize {
        let Self { slab, index, .. } = self;
        let ids = index.iter().filter(|id| **id != VoqId::NONE);
        let mut at_quota = 0;
        for id in ids {
            let voq = &mut slab[id.0 as usize];
            if voq.ingress() == from {
                voq.quota = quota;
                at_quota += usize::from(voq.frames >= quota);
            }
        }
        at_quota
    }

    /// Those that hold something, in no order.
    #[cfg(test)]
    pub(crate) fn iter(&self) -> impl Iterator<Item = (VoqId, &Voq)> {
        self.index.iter().filter(|id| **id != VoqId::NONE).map(|id| (*id, &self[*id]))
    }

    /// Where in the index a key is, or would be.
    #[inline]
    fn probe(&self, key: Key) -> usize {
        let mask = self.index.len() - 1;
        let mut place = key.hash() & mask;
        loop {
            let id = self.index[place];
            if id == VoqId::NONE || self[id].key == key {
                return place;
            }
            place = (place + 1) & mask;
        }
    }

    #[cold]
    fn grow(&mut self) {
        let size = (2 * self.index.len()).max(LEAST);
        let old = core::mem::replace(&mut self.index, vec![VoqId::NONE; size]);
        for id in old.into_iter().filter(|id| *id != VoqId::NONE) {
            let place = self.probe(self[id].key);
            self.index[place] = id;
        }
    }
}

impl core::ops::Index<VoqId> for Voqs {
    type Output = Voq;

    #[inline]
    fn index(&self, id: VoqId) -> &Voq {
        &self.slab[id.0 as usize]
    }
}

impl core::ops::IndexMut<VoqId> for Voqs {
    #[inline]
    fn index_mut(&mut self, id: VoqId) -> &mut Voq {
        &mut self.slab[id.0 as usize]
    }
}

#[cfg(test)]
mod tests {
    use alloc::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn what_was_put_in_is_found_until_it_is_taken_out(
            steps in prop::collection::vec((any::<bool>(), 0u16..6, 0u16..6, 0u8..8), 1..400),
        ) {
            let (mut voqs, mut model) = (Voqs::new(), BTreeMap::new());
            for (inserts, from, to, pcp) in steps {
                let (ingress, egress, class) = (PortId(from), PortId(to), Class::from_low_bits(pcp));
                let known = model.get(&(from, to, pcp)).copied();
                prop_assert_eq!(voqs.find(ingress, egress, class), known);
                if inserts {
                    let (id, is_new) = voqs.find_or_insert(ingress, egress, class, 1);
                    prop_assert_eq!(is_new, known.is_none());
                    prop_assert!(known.is_none_or(|known| known == id));
                    prop_assert_eq!(voqs[id].ingress(), ingress);
                    model.insert((from, to, pcp), id);
                } else if let Some(id) = model.remove(&(from, to, pcp)) {
                    prop_assert_eq!(voqs.remove(id).ingress(), ingress);
                }
                prop_assert_eq!(voqs.iter().count(), model.len());
                prop_assert!(voqs.slab.len() <= 6 * 6 * 8);
            }
        }
    }
}
