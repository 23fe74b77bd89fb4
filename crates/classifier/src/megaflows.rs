//! The megaflow cache: what was decided of all keys that agree in the bits that were looked at.
//!
//! An entry is a mask and a key under it. Entries of one mask are found by one look into a table,
//! so a search costs one look for each mask, and masks are few.
//!
//! A stranger who sends packets that are decided by ever other bits makes masks (the tuple-space
//! explosion of Csikor et al., CoNEXT 2019). Here this has three bounds. There are at most as many
//! masks as the constructor says, which is what a search can cost. Masks are in the order of their
//! hits, so what many packets use is found first. And a new mask takes the place of the least used
//! only after it was refused as often as that was hit of late. Give each network a cache of its
//! own, and no stranger reaches another's.

use alloc::vec::Vec;

use crate::cells::{Cells, Depends};
use crate::table::{HashKey, Inserted, Table, same};

/// Values by keys under masks, in bounded memory, found in bounded time.
#[derive(Clone, Debug)]
pub struct Megaflows<const N: usize, V> {
    /// The most used of late first.
    masks: Vec<Mask<N>>,
    most_masks: usize,
    table: Table<Entry<N, V>>,
    hash_key: HashKey,
    /// How many masks there have been.
    made: u64,
}

#[derive(Clone, Debug)]
struct Mask<const N: usize> {
    bits: [u64; N],
    /// Never used again for another mask.
    number: u64,
    /// How many entries it has.
    entries: usize,
    /// Hits of late.
    hits: u64,
}

#[derive(Clone, Debug)]
struct Entry<const N: usize, V> {
    key: [u64; N],
    mask: u64,
    depends: Depends,
    value: V,
}

/// Where something was found: to be [counted](Megaflows::count).
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Place {
    entry: u32,
    mask: u32,
}

/// Whether a decision was kept.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Kept {
    /// It was.
    Yes,
    /// It would need one more mask than there may be, and all others are used more.
    TooManyMasks,
}

#[inline]
fn under<const N: usize>(mask: &[u64; N], key: &[u64; N]) -> [u64; N] {
    core::array::from_fn(|word| key[word] & mask[word])
}

impl<const N: usize, V> Megaflows<N, V> {
    /// With at most `most_masks` masks (one at least), and room for `most` entries or a few more.
    /// `hash_key` must be secret where strangers choose the keys.
    pub fn new(most_masks: usize, most: usize, hash_key: HashKey) -> Self {
        let most_masks = most_masks.max(1);
        Self { masks: Vec::new(), most_masks, table: Table::new(most), hash_key, made: 0 }
    }

    /// What was decided of keys like this one, if that is still true.
    #[inline]
    pub fn find(&self, cells: &Cells, key: &[u64; N]) -> Option<(&V, Place)> {
        for (at, mask) in (0..).zip(&self.masks) {
            let masked = under(&mask.bits, key);
            let hash = self.hash(mask.number, &masked);
            let found = self.table.find_in_first(hash, |it| {
                it.mask == mask.number && same(&it.key, &masked) && cells.hold(&it.depends)
            });
            if let Some((entry, it)) = found {
                return Some((&it.value, Place { entry, mask: at }));
            }
        }
        None
    }

    /// Counts a hit: the entry keeps its place, and its mask is found sooner.
    #[inline]
    pub fn count(&mut self, place: Place) {
        self.table.touch(place.entry);
        let at = place.mask as usize;
        let Some(mask) = self.masks.get_mut(at) else { return };
        mask.hits += 1;
        let hits = mask.hits;
        if at > 0 && self.masks[at - 1].hits < hits {
            self.masks.swap(at - 1, at);
        }
    }

    /// Keeps what was decided of all keys that agree with this one in the bits of a mask.
    pub fn insert(
        &mut self,
        cells: &Cells,
        key: &[u64; N],
        mask: &[u64; N],
        value: V,
        depends: Depends,
    ) -> Kept {
        let Some(number) = self.mask(mask) else { return Kept::TooManyMasks };
        let key = under(mask, key);
        let hash = self.hash(number, &key);
        let entry = Entry { key, mask: number, depends, value };
        let is_dead = |it: &Entry<N, V>| {
            !cells.hold(&it.depends) || !self.masks.iter().any(|mask| mask.number == it.mask)
        };
        let is_same = |it: &Entry<N, V>| it.mask == number && same(&it.key, &key);
        let inserted = self.table.insert(hash, entry, is_same, is_dead);
        if let Inserted::Instead(old) = inserted
            && let Some(mask) = self.masks.iter_mut().find(|mask| mask.number == old.mask)
        {
            mask.entries -= 1;
        }
        if let Some(mask) = self.masks.iter_mut().find(|mask| mask.number == number) {
            mask.entries += 1;
        }
        Kept::Yes
    }

    /// The number of a mask. `None`: it is one too many.
    fn mask(&mut self, bits: &[u64; N]) -> Option<u64> {
        if let Some(mask) = self.masks.iter().find(|mask| same(&mask.bits, bits)) {
            return Some(mask.number);
        }
        if self.masks.len() == self.most_masks {
            match self.masks.iter().position(|mask| mask.entries == 0) {
                Some(unused) => drop(self.masks.remove(unused)),
                None => {
                    let least = self.masks.iter_mut().min_by_key(|mask| mask.hits)?;
                    if least.hits > 0 {
                        least.hits -= 1;
                        return None;
                    }
                    let number = least.number;
                    self.masks.retain(|mask| mask.number != number);
                }
            }
        }
        self.made += 1;
        self.masks.push(Mask { bits: *bits, number: self.made, entries: 0, hits: 0 });
        Some(self.made)
    }

    /// Has hits of before count half, and forgets masks of which nothing is left. To be called now
    /// and then: what was used long ago makes room for what is used now.
    pub fn settle(&mut self) {
        self.masks.retain(|mask| mask.entries > 0);
        self.masks.iter_mut().for_each(|mask| mask.hits /= 2);
        self.masks.sort_by_key(|mask| core::cmp::Reverse(mask.hits));
    }

    /// How many masks there are.
    pub fn masks(&self) -> usize {
        self.masks.len()
    }

    /// How many masks there have been: by how much it grows tells of a stranger who makes them.
    pub const fn masks_made(&self) -> u64 {
        self.made
    }

    /// How many entries are kept, those too that are no longer true.
    pub const fn len(&self) -> usize {
        self.table.len()
    }

    /// Whether none is kept.
    pub const fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Forgets all.
    pub fn clear(&mut self) {
        self.table.clear();
        self.masks.clear();
    }

    #[inline]
    fn hash(&self, number: u64, masked: &[u64; N]) -> u64 {
        // Under two masks one key is in two places.
        let [one, other] = self.hash_key.0;
        HashKey([one ^ number.wrapping_mul(0x9e37_79b9_7f4a_7c15), other]).hash(masked)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cells::CellId;

    const KEY: HashKey = HashKey([11, 13]);

    /// A mask that no other number has.
    fn mask(number: u64) -> [u64; 2] {
        [u64::MAX, number << 8 | 0xff]
    }

    #[test]
    fn any_key_that_agrees_under_the_mask_is_found() {
        let cells = Cells::default();
        let mut flows = Megaflows::new(4, 64, KEY);
        flows.insert(&cells, &[5, 0xabcd], &mask(0), 'a', Depends::NOTHING);
        assert_eq!(flows.find(&cells, &[5, 0x12cd]).map(|it| *it.0), Some('a'));
        assert_eq!(flows.find(&cells, &[5, 0xabce]), None);
        flows.insert(&cells, &[5, 0x00cd], &mask(0), 'b', Depends::NOTHING);
        assert_eq!(flows.find(&cells, &[5, 0x12cd]).map(|it| *it.0), Some('b'));
        assert_eq!((flows.len(), flows.masks()), (1, 1));
    }

    #[test]
    fn a_stranger_who_makes_masks_drives_out_none_that_is_used() {
        let cells = Cells::default();
        let mut flows = Megaflows::new(8, 256, KEY);
        for number in 0..4 {
            flows.insert(&cells, &[number, 0], &mask(number), number, Depends::NOTHING);
        }
        for stranger in 4..10_000 {
            // Two packets of the ordinary ones for each of the stranger's.
            for number in [stranger % 4, (stranger + 1) % 4] {
                let (_, place) = flows.find(&cells, &[number, 0]).expect("it is used");
                flows.count(place);
            }
            flows.insert(&cells, &[1 << 40, 0], &mask(stranger), 0, Depends::NOTHING);
            if stranger % 100 == 0 {
                flows.settle();
            }
            assert!(flows.masks() <= 8 && flows.len() <= 256);
        }
        for number in 0..4 {
            assert_eq!(flows.find(&cells, &[number, 0]).map(|it| *it.0), Some(number));
        }
    }

    #[test]
    fn a_new_mask_that_is_wanted_often_enough_gets_a_place() {
        let cells = Cells::default();
        let mut flows = Megaflows::new(1, 8, KEY);
        flows.insert(&cells, &[1, 1], &mask(1), 1, Depends::NOTHING);
        for _ in 0..3 {
            let (_, place) = flows.find(&cells, &[1, 1]).unwrap();
            flows.count(place);
        }
        let mut want = || flows.insert(&cells, &[2, 2], &mask(2), 2, Depends::NOTHING);
        for _ in 0..3 {
            assert_eq!(want(), Kept::TooManyMasks);
        }
        assert_eq!(want(), Kept::Yes);
        assert_eq!(flows.find(&cells, &[1, 1]), None);
        assert_eq!(flows.find(&cells, &[2, 2]).map(|it| *it.0), Some(2));
    }

    #[test]
    fn what_has_changed_is_not_found_and_makes_room() {
        let mut cells = Cells::new(1);
        let mut flows = Megaflows::new(2, 8, KEY);
        let mut depends = Depends::now(&cells);
        depends.on(CellId(0));
        flows.insert(&cells, &[1, 1], &mask(1), 1, depends);
        flows.insert(&cells, &[1, 1], &mask(2), 2, Depends::NOTHING);
        cells.change(CellId(0));
        assert_eq!(flows.find(&cells, &[1, 1]).map(|it| *it.0), Some(2));
        flows.insert(&cells, &[1, 1], &mask(1), 3, Depends::now(&cells));
        assert_eq!((flows.len(), flows.find(&cells, &[1, 1]).map(|it| *it.0)), (2, Some(3)));
    }
}
