//! A table of bounded size that grows piece by piece: places by hash, eight in a set.
//!
//! An entry lies in one of two sets: the first that its hash names, unless that is full. So few
//! have to make room as long as there is some (Azar et al., Balanced Allocations, 1994).
//!
//! Sixteen sets are a piece; both of an entry's are in one. A table grows by splitting one piece
//! after the other (linear hashing: Litwin, VLDB 1980), and no insertion moves more than one
//! piece's entries. All have split before one splits again:
//!
//! ```text
//! pieces  0  1  2  3  4  5
//!         │  │        │  │        6 and 7 are still to come:
//!         └──┼────────┘  │        until then 2 and 3 have what will be there
//!            └───────────┘
//! ```
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

/// How many sets split at a time.
const SETS: usize = 16;

/// How many entries a piece has: those of the sets that split at a time.
const PLACES: usize = SETS * WAYS;

/// A one in each byte.
const EACH: u64 = u64::MAX / 0xff;

/// Entries by hash.
#[derive(Clone, Debug)]
pub(crate) struct Table<E> {
    /// Of each set: a byte of the hash of each entry, the first entry's last. 0: there is none.
    tags: Vec<u64>,
    entries: Vec<Option<E>>,
    /// Of each set: which of its entries makes room next.
    hands: Vec<u8>,
    /// One less than how many sets there are when all pieces have split: a power of two.
    mask: usize,
    len: usize,
    most_sets: usize,
}

impl<E> Table<E> {
    /// With room for `most` entries or a few more. Room for all is reserved with the first, and
    /// touched as it is filled.
    pub(crate) fn new(most: usize) -> Self {
        let most_sets = SETS * most.div_ceil(PLACES).max(1);
        let (tags, entries, hands) = (Vec::new(), Vec::new(), Vec::new());
        Self { tags, entries, hands, mask: SETS - 1, len: 0, most_sets }
    }

    /// For how many entries there is room: for fewer than was asked for if there was no memory.
    pub(crate) const fn most(&self) -> usize {
        self.most_sets * WAYS
    }

    /// How many entries there are.
    pub(crate) const fn len(&self) -> usize {
        self.len
    }

    /// The entry with a hash that is the right one, and its place.
    #[inline(always)]
    pub(crate) fn find(&self, hash: u64, is_it: impl Fn(&E) -> bool) -> Option<(u32, &E)> {
        let (first, tags) = self.first(hash)?;
        match self.find_in(first, tags, hash, &is_it) {
            Some(found) => Some(found),
            // Sets that are full once stay so: what is in the second has found the first one full.
            None if free_in(tags).is_some() => None,
            None => self.find_second(first, hash, is_it),
        }
    }

    #[inline(always)]
    fn find_second(
        &self,
        first: usize,
        hash: u64,
        is_it: impl Fn(&E) -> bool,
    ) -> Option<(u32, &E)> {
        let second = second(first, hash);
        self.find_in(second, *self.tags.get(second)?, hash, is_it)
    }

    /// The first set that an entry may lie in, and its tags. `None`: there is no set.
    #[inline(always)]
    fn first(&self, hash: u64) -> Option<(usize, u64)> {
        let set = hash as usize & self.mask;
        match self.tags.get(set) {
            Some(tags) => Some((set, *tags)),
            None => self.unsplit(set),
        }
    }

    /// The set that has what one will have that there is not yet.
    #[cold]
    fn unsplit(&self, set: usize) -> Option<(usize, u64)> {
        let set = set & self.mask >> 1;
        Some((set, *self.tags.get(set)?))
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

    #[inline(always)]
    fn find_in(
        &self,
        set: usize,
        tags: u64,
        hash: u64,
        is_it: impl Fn(&E) -> bool,
    ) -> Option<(u32, &E)> {
        let differ = tags ^ (tag(hash) * EACH);
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

    /// Gives an entry a place: that of the same one, a free one, that of one that is dead, or that
    /// of one whose turn it is. Returns the entry that had it. At most one piece splits.
    pub(crate) fn insert(
        &mut self,
        entry: E,
        hash: impl Fn(&E) -> u64,
        is_same: impl Fn(&E) -> bool,
        is_dead: impl Fn(&E) -> bool,
    ) -> Option<E> {
        if self.len >= self.fits() && self.tags.len() < self.most_sets {
            self.grow(&hash);
        }
        let hash = hash(&entry);
        let sets = self.sets(hash)?;
        let same = self.find(hash, is_same).map(|(place, _)| place as usize);
        let dead = || {
            let mut places = sets.into_iter().flat_map(|set| set * WAYS..(set + 1) * WAYS);
            places.find(|place| self.entries[*place].as_ref().is_some_and(&is_dead))
        };
        let turn = || sets[0] * WAYS + usize::from(self.hands[sets[0]]);
        let place = same.or_else(|| self.free(sets)).or_else(dead).unwrap_or_else(turn);
        self.put(place, hash, entry)
    }

    /// The two sets that an entry may lie in. `None`: there is no set.
    fn sets(&self, hash: u64) -> Option<[usize; 2]> {
        let (first, _) = self.first(hash)?;
        Some([first, second(first, hash)])
    }

    /// A place of one of two sets that has no entry.
    fn free(&self, sets: [usize; 2]) -> Option<usize> {
        sets.into_iter().find_map(|set| Some(set * WAYS + free_in(self.tags[set])?))
    }

    /// Puts an entry in a place. Returns the one that was there.
    #[inline(always)]
    fn put(&mut self, place: usize, hash: u64, entry: E) -> Option<E> {
        let (set, way) = (place / WAYS, place % WAYS);
        let tags = &mut self.tags[set];
        *tags = *tags & !(0xff << (8 * way)) | tag(hash) << (8 * way);
        let old = self.entries[place].replace(entry);
        match old {
            Some(_) => self.hands[set] = ((way + 1) % WAYS) as u8,
            None => self.len += 1,
        }
        old
    }

    /// How many entries there are when the next piece splits. Once half of the places are taken,
    /// one does with every 24th entry, until all have: so a piece has seven tenths of its places
    /// taken at most, on average, and an insertion moves two entries.
    fn fits(&self) -> usize {
        let pieces = self.tags.len() / SETS;
        let Some(log) = pieces.checked_ilog2() else { return 0 };
        let whole = 1 << log;
        whole * PLACES / 2 + (pieces - whole) * 24
    }

    /// Reserves room for all there may be, or for half of it, and so on, where there is no more.
    /// With none at all nothing is kept.
    fn reserve(&mut self) {
        let Self { tags, entries, hands, most_sets, .. } = self;
        while *most_sets > 0
            && (tags.try_reserve_exact(*most_sets).is_err()
                || hands.try_reserve_exact(*most_sets).is_err()
                || entries.try_reserve_exact(*most_sets * WAYS).is_err())
        {
            (*tags, *entries, *hands) = (Vec::new(), Vec::new(), Vec::new());
            *most_sets = *most_sets / 2 / SETS * SETS;
        }
    }

    /// One piece more, which gets some of the entries of one that was there. What finds no place is
    /// forgotten: there is room for nearly all.
    #[cold]
    fn grow(&mut self, hash: impl Fn(&E) -> u64) {
        let sets = self.tags.len();
        if sets == 0 {
            self.reserve();
            if self.most_sets == 0 {
                return;
            }
        } else if sets > self.mask {
            self.mask = 2 * self.mask + 1;
        }
        self.tags.resize(sets + SETS, 0);
        self.hands.resize(sets + SETS, 0);
        self.entries.resize_with((sets + SETS) * WAYS, || None);
        self.split(sets & self.mask >> 1, hash);
    }

    /// Moves entries of a piece's sets to those that they belong in now.
    #[inline(never)]
    fn split(&mut self, piece: usize, hash: impl Fn(&E) -> u64) {
        // What lies in its second set, and stays in the piece: its first may have room now.
        let mut displaced = Vec::new();
        for set in piece..piece + SETS {
            let mut taken = self.tags[set] & EACH << 7;
            while taken != 0 {
                let place = set * WAYS + taken.trailing_zeros() as usize / 8;
                taken &= taken - 1;
                let Some(hash) = self.entries[place].as_ref().map(&hash) else { continue };
                let Some((first, _)) = self.first(hash).filter(|(first, _)| *first != set) else {
                    continue;
                };
                let Some(entry) = self.take(place) else { continue };
                if first / SETS == piece / SETS {
                    displaced.push((first, hash, entry));
                } else {
                    self.put_if_free(first, hash, entry);
                }
            }
        }
        for (first, hash, entry) in displaced {
            self.put_if_free(first, hash, entry);
        }
    }

    /// Puts an entry where there is room, if there is, in the first set that it may lie in or in
    /// the second.
    fn put_if_free(&mut self, first: usize, hash: u64, entry: E) {
        if let Some(place) = self.free([first, second(first, hash)]) {
            self.put(place, hash, entry);
        }
    }

    /// Takes the entry out that lies at a place.
    fn take(&mut self, place: usize) -> Option<E> {
        let entry = self.entries.get_mut(place)?.take()?;
        self.tags[place / WAYS] &= !(0xff << (8 * (place % WAYS)));
        self.len -= 1;
        Some(entry)
    }

    /// Forgets all entries.
    pub(crate) fn clear(&mut self) {
        let most_sets = self.most_sets;
        *self = Self { most_sets, ..Self::new(0) };
    }
}

/// The second set that an entry may lie in: it splits with the first.
#[inline(always)]
const fn second(first: usize, hash: u64) -> usize {
    first / SETS * SETS + (hash >> 32) as usize % SETS
}

/// The first entry of a set that there is not: its tag is zero.
#[inline]
const fn free_in(tags: u64) -> Option<usize> {
    let zero = tags.wrapping_sub(EACH) & !tags & EACH << 7;
    if zero == 0 { None } else { Some(zero.trailing_zeros() as usize / 8) }
}

#[inline]
const fn tag(hash: u64) -> u64 {
    hash >> 57 | 0x80
}

#[cfg(test)]
mod tests {
    use alloc::collections::BTreeMap;
    use core::cell::Cell;

    use proptest::prelude::*;

    use super::*;

    const KEY: HashKey = HashKey([0x1234_5678_9abc_def1, 0x0fed_cba9_8765_4321]);

    proptest! {
        #[test]
        fn what_is_found_was_put_there_last(
            most in 1_usize..40,
            steps in prop::collection::vec((0_u64..60, any::<u16>()), 1..200),
            is_bad_hash: bool,
        ) {
            let hash = |key: u64| if is_bad_hash { key % 2 } else { KEY.hash(&[key]) };
            let mut table = Table::new(most);
            let mut last = BTreeMap::new();
            for (key, value) in steps {
                let old = table.insert((key, value), |it| hash(it.0), |it| it.0 == key, |_| false);
                if let Some((old, value)) = old {
                    prop_assert_eq!(last.remove(&old), Some(value));
                }
                last.insert(key, value);
                prop_assert!(table.len() <= PLACES);
                prop_assert_eq!(table.len(), last.len());
                for key in 0..60 {
                    let found = table.find(hash(key), |it| it.0 == key).map(|(_, it)| it.1);
                    prop_assert_eq!(found, last.get(&key).copied());
                }
            }
        }

        #[test]
        fn a_table_that_grows_answers_as_a_map_and_moves_a_piece_at_most(
            most in 1_usize..3000,
            keys in prop::collection::vec(0_u64..2000, 1..3000),
        ) {
            let hashed = Cell::new(0);
            let hash = |key: u64| {
                hashed.set(hashed.get() + 1);
                KEY.hash(&[key])
            };
            let mut table = Table::new(most);
            let mut last = BTreeMap::new();
            for (number, key) in keys.iter().enumerate() {
                hashed.set(0);
                let entry = (*key, number);
                let old = table.insert(entry, |it| hash(it.0), |it| it.0 == *key, |_| false);
                // Its own, and those of what moves.
                prop_assert!(hashed.get() <= 1 + PLACES);
                if let Some((old, number)) = old {
                    prop_assert_eq!(last.remove(&old), Some(number));
                }
                last.insert(*key, number);
                if number % 97 == 0 || number + 1 == keys.len() {
                    let find = |key| table.find(hash(key), |it| it.0 == key).map(|(_, it)| *it);
                    let found: Vec<_> = (0..2000).filter_map(find).collect();
                    prop_assert_eq!(found.len(), table.len());
                    prop_assert!(found.iter().all(|(key, number)| last[key] == *number));
                    let forgotten = last.len() - table.len();
                    prop_assert!(forgotten <= 3, "{} of {}", forgotten, last.len());
                }
            }
            prop_assert!(table.len() <= most.div_ceil(PLACES).next_power_of_two() * PLACES);
        }
    }

    #[test]
    fn hardly_any_makes_room_before_a_table_has_grown() {
        let mut table = Table::new(1 << 17);
        for key in 0..80_000_u64 {
            table.insert(key, |it| KEY.hash(&[*it]), |it| *it == key, |_| false);
        }
        assert!(table.len() > 79_000, "{} of 80,000", table.len());
    }

    #[test]
    fn a_table_that_there_is_no_memory_for_is_a_smaller_one() {
        let most = 1 << 58;
        let mut table = Table::new(most);
        assert!(table.most() >= most);
        for key in 0..1000 {
            table.insert(key, |it| KEY.hash(&[*it]), |it| *it == key, |_| false);
        }
        assert!((PLACES..most).contains(&table.most()) && table.len() > 900);
        assert_eq!(table.find(KEY.hash(&[999]), |it| *it == 999).map(|it| *it.1), Some(999));
        let most = table.most();
        table.clear();
        assert_eq!((table.most(), table.len()), (most, 0));
        // With no memory at all there is nothing, and nothing breaks.
        let mut none = Table { most_sets: 0, ..Table::new(1) };
        assert_eq!(none.insert(7, |it| KEY.hash(&[*it]), |_| true, |_| true), None);
        assert_eq!((none.len(), none.find(KEY.hash(&[7]), |_| true)), (0, None));
    }
}
