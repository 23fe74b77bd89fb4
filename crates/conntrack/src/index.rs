//! Which connection a tuple is of: a hash table of words of four bytes.
//!
//! ```text
//! a bucket, one line of memory:  │ tag way place │ tag way place │ … │ 0 │ 0 │     16 words, used ones first
//!                                   8   1   23 bits
//! ```
//!
//! A tuple may be in either of two buckets. The second follows from the first and the tag, and the
//! first from the second, so a word is moved without looking at its tuple (Fan et al., *Cuckoo
//! Filter*, CoNEXT 2014, §3.1; by a difference instead of an exclusive or, so that the number of
//! buckets need not be a power of two). The table never grows: the chance that a word finds no place
//! although the table is as full as it gets is negligible, and it is refused then.

use alloc::vec;
use alloc::vec::Vec;

use units::hash::murmur32;

use crate::track::Way;

const WAYS: usize = 16;

/// How many of a bucket's 16 words are used when all connections there may be are there.
const FILLED: usize = 13;

/// No place has a higher number.
pub const MOST: u32 = (1 << 23) - 1;

#[derive(Clone, Copy, Debug)]
#[repr(align(64))]
struct Bucket([u32; WAYS]);

/// Where tuples' connections are.
#[derive(Clone, Debug)]
pub struct Index {
    buckets: Vec<Bucket>,
}

const fn word(tag: u8, way: Way, place: u32) -> u32 {
    (tag as u32) << 24 | (way as u32) << 23 | (place + 1)
}

const fn tag(word: u32) -> u8 {
    (word >> 24) as u8
}

impl Bucket {
    /// How many words are used: all of them, without branches, is quicker than up to the first free.
    #[inline]
    fn len(&self) -> usize {
        self.0.iter().map(|word| u32::from(*word != 0)).sum::<u32>() as usize
    }

    /// Which words have a tag, a bit each.
    #[inline]
    fn tagged(&self, own: u8) -> u32 {
        let bits = self.0.iter().enumerate();
        bits.fold(0, |bits, (at, word)| bits | u32::from(tag(*word) == own) << at)
    }

    /// Adds a word behind the others, if there is room.
    fn add(&mut self, word: u32) -> bool {
        let held = self.len();
        self.0.get_mut(held).map(|free| *free = word).is_some()
    }

    /// Takes a word out; the last one takes its place.
    fn take(&mut self, word: u32) -> bool {
        let Some(at) = self.0.iter().position(|it| *it == word) else { return false };
        let last = self.len() - 1;
        self.0[at] = self.0[last];
        self.0[last] = 0;
        true
    }
}

impl Index {
    /// An index of so many tuples.
    pub fn new(tuples: u32) -> Self {
        let buckets = (tuples as usize).div_ceil(FILLED).max(2);
        Self { buckets: vec![Bucket([0; WAYS]); buckets] }
    }

    /// A number below that of buckets, by a number's uppermost bits.
    #[inline]
    fn scale(&self, number: u32) -> usize {
        ((u64::from(number) * self.buckets.len() as u64) >> 32) as usize
    }

    #[inline]
    fn first(&self, hash: u64) -> (usize, u8) {
        // No tag is 0, as free words' are.
        (self.scale((hash >> 32) as u32), (hash as u8).max(1))
    }

    /// The other bucket for words with this tag.
    #[inline]
    fn other(&self, bucket: usize, tag: u8) -> usize {
        let sum = self.scale(murmur32(u32::from(tag) + 1));
        if sum >= bucket { sum - bucket } else { sum + self.buckets.len() - bucket }
    }

    /// Has the processor fetch where a hash's tuple most likely is.
    #[inline]
    pub fn fetch(&self, hash: u64) {
        prefetch::to_read(&raw const self.buckets[self.first(hash).0]);
    }

    /// What `is` has of the tuple's place, which it knows from others.
    #[inline]
    pub fn find<T>(&self, hash: u64, is: impl Fn(u32, Way) -> Option<T>) -> Option<T> {
        let (first, tag) = self.first(hash);
        let found = Self::search(&self.buckets[first], tag, &is);
        if found.is_some() {
            return found;
        }
        Self::search(&self.buckets[self.other(first, tag)], tag, &is)
    }

    #[inline]
    fn search<T>(bucket: &Bucket, own: u8, is: &impl Fn(u32, Way) -> Option<T>) -> Option<T> {
        let mut bits = bucket.tagged(own);
        while bits != 0 {
            let word = bucket.0[bits.trailing_zeros() as usize % WAYS];
            let way = if word & 1 << 23 == 0 { Way::Original } else { Way::Reply };
            let place = (word & MOST) - 1;
            let found = is(place, way);
            if found.is_some() {
                return found;
            }
            bits &= bits - 1;
        }
        None
    }

    /// Notes a tuple's place. `false` if there is no room for it.
    pub fn insert(&mut self, hash: u64, place: u32, way: Way) -> bool {
        let (first, tag) = self.first(hash);
        let word = word(tag, way, place);
        let held = self.buckets[first].len();
        if held < WAYS - 4 {
            self.buckets[first].0[held] = word;
            return true;
        }
        let other = self.other(first, tag);
        let order = match self.buckets[other].len() < held {
            true => [other, first],
            false => [first, other],
        };
        order.into_iter().any(|it| self.buckets[it].add(word) || self.displace(it, word))
    }

    /// Puts a word into a full bucket, if one that is there has room elsewhere.
    fn displace(&mut self, bucket: usize, word: u32) -> bool {
        for at in 0..WAYS {
            let moved = self.buckets[bucket].0[at];
            let other = self.other(bucket, tag(moved));
            if other != bucket && self.buckets[other].add(moved) {
                self.buckets[bucket].0[at] = word;
                return true;
            }
        }
        false
    }

    /// Forgets a tuple's place.
    ///
    /// # Panics
    ///
    /// If it is not there.
    pub fn remove(&mut self, hash: u64, place: u32, way: Way) {
        let (first, tag) = self.first(hash);
        let word = word(tag, way, place);
        let other = self.other(first, tag);
        let is_gone = self.buckets[first].take(word) || self.buckets[other].take(word);
        assert!(is_gone, "place {place} is in no bucket of its hash {hash:#x}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use units::Rng;

    fn find(index: &Index, hash: u64, own: u32) -> Option<(u32, Way)> {
        index.find(hash, |place, way| (place == own).then_some((place, way)))
    }

    #[test]
    fn a_full_index_finds_everything_and_forgets_it_again() {
        for count in [1, 5, 1000, 100_000] {
            let mut index = Index::new(count);
            let mut rng = Rng::new(u64::from(count));
            let hashes: Vec<u64> = (0..count).map(|_| rng.next_u64()).collect();
            for (place, hash) in (0..).zip(&hashes) {
                let way = if place % 2 == 0 { Way::Original } else { Way::Reply };
                assert!(index.insert(*hash, place, way), "{place} of {count}");
            }
            for (place, hash) in (0..).zip(&hashes) {
                let found = find(&index, *hash, place);
                assert_eq!(found.map(|(place, way)| (place, way as u32)), Some((place, place % 2)));
                assert_eq!(find(&index, *hash, MOST), None);
            }
            for (place, hash) in (0..).zip(&hashes) {
                let way = if place % 2 == 0 { Way::Original } else { Way::Reply };
                index.remove(*hash, place, way);
                assert_eq!(find(&index, *hash, place), None);
            }
            assert!(index.buckets.iter().all(|it| it.0 == [0; WAYS]));
        }
    }

    #[test]
    fn each_bucket_is_the_others_other() {
        for buckets in [2, 3, 100, 78_126] {
            let index = Index { buckets: vec![Bucket([0; WAYS]); buckets] };
            for tag in 1..=255 {
                for bucket in [0, 1, buckets / 2, buckets - 1] {
                    let other = index.other(bucket, tag);
                    assert_eq!(index.other(other, tag), bucket);
                }
            }
        }
    }

    #[test]
    fn what_all_meet_in_one_place_is_refused_and_nothing_is_lost() {
        let mut index = Index::new(1000);
        let placed = (0..100).filter(|place| index.insert(7, *place, Way::Original)).count();
        assert!((WAYS..=2 * WAYS).contains(&placed), "{placed}");
        let found = (0..100).filter(|place| find(&index, 7, *place).is_some()).count();
        assert_eq!(found, placed);
    }
}
