//! A table of bounded size: places by hash, eight in a set, the clock says who makes room.
//!
//! Where it is asked for, an entry lies in one of two sets: the first that its hash names, unless
//! that is full. So few have to make room as long as there is some (Azar et al., Balanced
//! Allocations, 1994).
//!
//! Whoever chooses what is looked up can have others' entries make room, and nothing more: no
//! search looks at more than two sets.

use alloc::vec::Vec;

/// Secret numbers that hashes depend on, so that nobody outside can say what meets in a table.
#[derive(Clone, Copy, Debug)]
pub struct HashKey(pub [u64; 2]);

impl HashKey {
    /// A number that depends on every bit of words: folded products of 64 by 64 bits, as in wyhash.
    #[inline]
    pub(crate) fn hash<const N: usize>(self, words: &[u64; N]) -> u64 {
        let (pairs, rest) = words.as_chunks::<2>();
        let mut hash = self.0[0];
        for [one, other] in pairs {
            hash = fold(hash ^ one, self.0[1] ^ other);
        }
        for one in rest {
            hash = fold(hash ^ one, self.0[1]);
        }
        fold(hash, self.0[0] | 1)
    }
}

#[inline]
fn fold(one: u64, other: u64) -> u64 {
    let product = u128::from(one) * u128::from(other);
    product as u64 ^ (product >> 64) as u64
}

/// Whether two keys are the same, without a jump for each word.
#[inline]
pub(crate) fn same<const N: usize>(one: &[u64; N], other: &[u64; N]) -> bool {
    one.iter().zip(other).fold(0, |differs, (one, other)| differs | (one ^ other)) == 0
}

/// How many entries a set has.
const WAYS: usize = 8;

/// A one in each byte.
const EACH: u64 = u64::MAX / 0xff;

/// Entries by hash.
#[derive(Clone, Debug)]
pub(crate) struct Table<E> {
    /// Of each set: a byte of the hash of each entry, the first entry's last. 0: there is none.
    tags: Vec<u64>,
    entries: Vec<Option<E>>,
    /// Each entry's, for when there are more sets.
    hashes: Vec<u64>,
    clocks: Vec<Clock>,
    len: usize,
    most_sets: usize,
    /// Whether an entry whose first set is full may lie in a second one.
    has_second: bool,
}

/// Who of a set makes room next.
#[derive(Clone, Copy, Debug, Default)]
struct Clock {
    /// A bit for each entry that was used since the hand passed.
    used: u8,
    hand: u8,
}

/// What was done with an entry.
#[derive(Debug, Eq, PartialEq)]
pub(crate) enum Inserted<E> {
    /// It has a place that was free.
    New,
    /// It has the place of this one.
    Instead(E),
}

impl<E> Table<E> {
    /// With room for `most` entries or a few more. It takes memory as it is filled.
    pub(crate) fn new(most: usize) -> Self {
        let most_sets = most.div_ceil(WAYS).next_power_of_two();
        let (tags, entries, hashes, clocks) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        Self { tags, entries, hashes, clocks, len: 0, most_sets, has_second: false }
    }

    /// The same; each entry may lie in two sets.
    pub(crate) fn with_second(most: usize) -> Self {
        Self { has_second: true, ..Self::new(most) }
    }

    /// How many entries there are.
    pub(crate) const fn len(&self) -> usize {
        self.len
    }

    /// The entry with a hash that is the right one, and its place.
    #[inline(always)]
    pub(crate) fn find(&self, hash: u64, is_it: impl Fn(&E) -> bool) -> Option<(u32, &E)> {
        let found = self.find_in_first(hash, &is_it);
        // Sets that are full once stay so: what is in the second has found the first one full.
        if found.is_some() || !self.has_second || self.free(self.first_of(hash)).is_some() {
            return found;
        }
        self.find_in(self.sets_of(hash)[1], hash, is_it)
    }

    /// The same of a table whose entries lie in one set each.
    #[inline(always)]
    pub(crate) fn find_in_first(&self, hash: u64, is_it: impl Fn(&E) -> bool) -> Option<(u32, &E)> {
        self.find_in(self.first_of(hash), hash, is_it)
    }

    #[inline(always)]
    const fn first_of(&self, hash: u64) -> usize {
        hash as usize & self.tags.len().wrapping_sub(1)
    }

    /// The first place of a set that has no entry: its tag is zero.
    #[inline]
    fn free(&self, set: usize) -> Option<usize> {
        let tags = *self.tags.get(set)?;
        let zero = tags.wrapping_sub(EACH) & !tags & EACH << 7;
        (zero != 0).then(|| zero.trailing_zeros() as usize / 8)
    }

    /// The entry at a place.
    #[inline]
    pub(crate) fn at(&self, place: u32) -> Option<&E> {
        self.entries.get(place as usize)?.as_ref()
    }

    /// The same, to be changed.
    #[inline]
    pub(crate) fn at_mut(&mut self, place: u32) -> Option<&mut E> {
        self.entries.get_mut(place as usize)?.as_mut()
    }

    /// The two sets that an entry may lie in.
    #[inline]
    fn sets_of(&self, hash: u64) -> [usize; 2] {
        let second = if self.has_second { hash.rotate_right(32) } else { hash };
        [hash, second].map(|hash| hash as usize & self.tags.len().wrapping_sub(1))
    }

    #[inline(always)]
    fn find_in(&self, set: usize, hash: u64, is_it: impl Fn(&E) -> bool) -> Option<(u32, &E)> {
        let differ = self.tags.get(set)? ^ (tag(hash) * EACH);
        // The bytes that are zero, by the borrow that they cause. One beside such a byte may be
        // taken for zero, too: the entry says.
        let mut alike = differ.wrapping_sub(EACH) & !differ & EACH << 7;
        while alike != 0 {
            let place = set * WAYS + alike.trailing_zeros() as usize / 8;
            if let Some(Some(found)) = self.entries.get(place)
                && is_it(found)
            {
                return Some((place as u32, found));
            }
            alike &= alike - 1;
        }
        None
    }

    /// Has an entry keep its place when others want it.
    #[inline]
    pub(crate) fn touch(&mut self, place: u32) {
        let (set, way) = (place as usize / WAYS, place as usize % WAYS);
        if let Some(clock) = self.clocks.get_mut(set) {
            clock.used |= 1 << way;
        }
    }

    /// Gives an entry a place: that of the same one, a free one, that of one that is dead, or that
    /// of one that was not used of late.
    pub(crate) fn insert(
        &mut self,
        hash: u64,
        entry: E,
        is_same: impl Fn(&E) -> bool,
        is_dead: impl Fn(&E) -> bool,
    ) -> Inserted<E> {
        if self.len >= self.tags.len() * WAYS * 3 / 4 && self.tags.len() < self.most_sets {
            self.grow();
        }
        let sets = self.sets_of(hash);
        let same = self.find(hash, &is_same).map(|(place, _)| place as usize);
        let same = same.map(|place| (place / WAYS, place % WAYS));
        let free = || sets.into_iter().find_map(|set| Some((set, self.free(set)?)));
        let dead = || {
            sets.into_iter().find_map(|set| {
                let mut ways = self.entries[set * WAYS..][..WAYS].iter();
                let is = |it: &Option<E>| it.as_ref().is_some_and(&is_dead);
                Some((set, ways.position(is)?))
            })
        };
        let place = same.or_else(free).or_else(dead);
        let (set, way) = place.unwrap_or_else(|| (sets[0], self.clocks[sets[0]].next()));
        self.put(set, way, hash, entry)
    }

    fn put(&mut self, set: usize, way: usize, hash: u64, entry: E) -> Inserted<E> {
        let tags = &mut self.tags[set];
        *tags = *tags & !(0xff << (8 * way)) | tag(hash) << (8 * way);
        self.clocks[set].used &= !(1 << way);
        self.hashes[set * WAYS + way] = hash;
        match self.entries[set * WAYS + way].replace(entry) {
            Some(old) => Inserted::Instead(old),
            None => {
                self.len += 1;
                Inserted::New
            }
        }
    }

    /// Twice as many sets. What finds no place there is forgotten: there is room for nearly all.
    fn grow(&mut self) {
        let sets = (2 * self.tags.len()).max(1);
        let old =
            core::mem::take(&mut self.entries).into_iter().zip(core::mem::take(&mut self.hashes));
        self.tags = alloc::vec![0; sets];
        self.clocks = alloc::vec![Clock::default(); sets];
        self.entries.resize_with(sets * WAYS, || None);
        self.hashes = alloc::vec![0; sets * WAYS];
        self.len = 0;
        for (entry, hash) in old {
            let Some(entry) = entry else { continue };
            let free = |set: usize| {
                let mut ways = self.entries[set * WAYS..][..WAYS].iter();
                Some((set, ways.position(Option::is_none)?))
            };
            if let Some((set, way)) = self.sets_of(hash).into_iter().find_map(free) {
                self.put(set, way, hash, entry);
            }
        }
    }

    /// Forgets all entries.
    pub(crate) fn clear(&mut self) {
        (self.tags, self.clocks, self.len) = (Vec::new(), Vec::new(), 0);
        (self.entries, self.hashes) = (Vec::new(), Vec::new());
    }
}

impl Clock {
    fn next(&mut self) -> usize {
        loop {
            let way = usize::from(self.hand) % WAYS;
            self.hand = (self.hand + 1) % WAYS as u8;
            if self.used & 1 << way == 0 {
                return way;
            }
            self.used &= !(1 << way);
        }
    }
}

#[inline]
const fn tag(hash: u64) -> u64 {
    hash >> 57 | 0x80
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn what_is_found_was_put_there_last(
            most in 1_usize..40,
            steps in prop::collection::vec((0_u64..60, any::<u16>()), 1..200),
            is_bad_hash: bool,
        ) {
            let hash = |key: u64| match is_bad_hash {
                true => key % 2,
                false => HashKey([1, 2]).hash(&[key]),
            };
            let mut table = Table::new(most);
            let mut last = alloc::collections::BTreeMap::new();
            for (key, value) in steps {
                let inserted = table.insert(hash(key), (key, value), |it| it.0 == key, |_| false);
                if let Inserted::Instead((old, value)) = inserted {
                    prop_assert_eq!(last.remove(&old), Some(value));
                }
                last.insert(key, value);
                prop_assert!(table.len() <= most.div_ceil(WAYS).next_power_of_two() * WAYS);
                prop_assert_eq!(table.len(), last.len());
                for key in 0..60 {
                    let found = table.find(hash(key), |it| it.0 == key).map(|(_, it)| it.1);
                    prop_assert_eq!(found, last.get(&key).copied());
                }
            }
        }
    }

    #[test]
    fn what_is_used_stays() {
        let mut table = Table::new(8);
        for key in 0..100_u64 {
            table.insert(0, key, |_| false, |_| false);
            let (place, _) = table.find(0, |it| *it == 0).expect("it is used each time");
            table.touch(place);
        }
        assert!(table.find(0, |it| *it == 99).is_some());
        assert_eq!(table.len(), 8);
    }
}
