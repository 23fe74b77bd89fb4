//! Which connection a tuple is of: a hash table of words of four bytes.
//!
//! ```text
//! a bucket, one line of memory:  │ 12 tags, 4 bytes unused │ way place │ way place │ … │ 0 │ 0 │
//!                                  a byte each               1   31 bits: 12 words, used ones first
//! ```
//!
//! A tuple may be in either of two buckets. The second follows from the first and the tag, and the
//! first from the second, so a word is moved without looking at its tuple (Fan et al., *Cuckoo
//! Filter*, CoNEXT 2014, §3.1; by a difference instead of an exclusive or, so that the number of
//! buckets need not be a power of two). The table never grows: the chance that a word finds no
//! place although the table is as full as it gets is negligible, and it is refused then.

use alloc::vec;
use alloc::vec::Vec;

use units::hash::murmur32;

use crate::track::Way;

const WAYS: usize = 12;

/// How many of a bucket's words are used, in tenths, when all connections there may be are there.
const FILLED: usize = 98;

/// No place has a higher number.
pub const MOST: u32 = (1 << 28) - 1;

#[derive(Clone, Copy, Debug, PartialEq)]
#[repr(C, align(64))]
struct Bucket {
    /// The words' tags, the first in the lowest byte; 0 of those that are free.
    tags: [u64; 2],
    words: [u32; WAYS],
}

/// Where tuples' connections are.
#[derive(Clone, Debug)]
pub struct Index {
    buckets: Vec<Bucket>,
}

const fn word(way: Way, place: u32) -> u32 {
    (way as u32) << 31 | place
}

/// The lowest bit of each byte.
const ONES: u64 = u64::from_ne_bytes([1; 8]);

impl Bucket {
    const EMPTY: Self = Self { tags: [0; 2], words: [0; WAYS] };

    #[inline]
    fn len(&self) -> usize {
        let free = |tags: u64| tags.leading_zeros() as usize / 8;
        match self.tags {
            [low, 0] => 8 - free(low),
            [_, high] => 16 - free(high),
        }
    }

    fn tag(&self, at: usize) -> u8 {
        (self.tags[at / 8] >> (8 * (at % 8))) as u8
    }

    fn set(&mut self, at: usize, tag: u8, word: u32) {
        let shift = 8 * (at % 8);
        let tags = &mut self.tags[at / 8];
        *tags = *tags & !(0xff << shift) | u64::from(tag) << shift;
        self.words[at] = word;
    }

    /// Adds a word behind the others, if there is room.
    fn add(&mut self, tag: u8, word: u32) -> bool {
        let held = self.len();
        let is_free = held < WAYS;
        if is_free {
            self.set(held, tag, word);
        }
        is_free
    }

    /// What `is` has of a word with this tag.
    #[inline]
    fn find<T>(&self, tag: u8, is: impl Fn(usize, u32) -> Option<T>) -> Option<T> {
        for (half, tags) in self.tags.into_iter().enumerate() {
            // The upper bit of each byte that is zero, and perhaps of some above one that is.
            let differ = tags ^ (ONES * u64::from(tag));
            let mut bits = differ.wrapping_sub(ONES) & !differ & (ONES << 7);
            while bits != 0 {
                let at = (8 * half + bits.trailing_zeros() as usize / 8).min(WAYS - 1);
                let found = is(at, self.words[at]);
                if found.is_some() {
                    return found;
                }
                bits &= bits - 1;
            }
        }
        None
    }

    /// Takes a word out; the last one takes its place.
    fn take(&mut self, tag: u8, word: u32) -> bool {
        let is_it = |at, it| (it == word && self.tag(at) == tag).then_some(at);
        let Some(at) = self.find(tag, is_it) else { return false };
        let last = self.len() - 1;
        self.set(at, self.tag(last), self.words[last]);
        self.set(last, 0, 0);
        true
    }
}

impl Index {
    /// An index of so many tuples.
    pub fn new(tuples: u32) -> Self {
        let buckets = (10 * tuples as usize).div_ceil(FILLED).max(2);
        Self { buckets: vec![Bucket::EMPTY; buckets] }
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
        let of = |word: u32| {
            let way = if word >> 31 == 0 { Way::Original } else { Way::Reply };
            is(word & MOST, way)
        };
        let (first, tag) = self.first(hash);
        let found = self.buckets[first].find(tag, |_, word| of(word));
        if found.is_some() {
            return found;
        }
        self.buckets[self.other(first, tag)].find(tag, |_, word| of(word))
    }

    /// Notes a tuple's place. `false` if there is no room for it.
    pub fn insert(&mut self, hash: u64, place: u32, way: Way) -> bool {
        let (first, tag) = self.first(hash);
        let word = word(way, place);
        let held = self.buckets[first].len();
        if held < WAYS - 4 {
            return self.buckets[first].add(tag, word);
        }
        let other = self.other(first, tag);
        let order = match self.buckets[other].len() < held {
            true => [other, first],
            false => [first, other],
        };
        order.into_iter().any(|it| self.buckets[it].add(tag, word) || self.displace(it, tag, word))
    }

    /// Puts a word into a full bucket, if one that is there has room elsewhere.
    fn displace(&mut self, bucket: usize, tag: u8, word: u32) -> bool {
        for at in 0..WAYS {
            let full = &self.buckets[bucket];
            let (moved, own) = (full.words[at], full.tag(at));
            let other = self.other(bucket, own);
            if other != bucket && self.buckets[other].add(own, moved) {
                self.buckets[bucket].set(at, tag, word);
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
        let word = word(way, place);
        let other = self.other(first, tag);
        let is_gone = self.buckets[first].take(tag, word) || self.buckets[other].take(tag, word);
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
            assert!(index.buckets.iter().all(|it| *it == Bucket::EMPTY));
        }
    }

    #[test]
    fn each_bucket_is_the_others_other() {
        for buckets in [2, 3, 100, 78_126] {
            let index = Index { buckets: vec![Bucket::EMPTY; buckets] };
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
