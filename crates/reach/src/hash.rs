//! Tables by hash, for what is asked millions of times. Nothing depends on their order.

use alloc::vec::Vec;
use core::hash::{BuildHasher, BuildHasherDefault, Hash, Hasher};

use hashbrown::HashTable;

/// A table by hash.
pub type Table<K, V> = hashbrown::HashMap<K, V, BuildHasherDefault<Mixer>>;

/// Mixes words one after the other: a rotation, an exclusive or, a product with an odd number that
/// has bits everywhere (2^64 divided by the golden ratio).
#[derive(Clone, Copy, Debug, Default)]
pub struct Mixer(u64);

const ODD: u64 = 0x9e37_79b9_7f4a_7c15;

impl Mixer {
    fn mix(&mut self, word: u64) {
        self.0 = (self.0.rotate_left(26) ^ word).wrapping_mul(ODD);
    }
}

impl Hasher for Mixer {
    fn finish(&self) -> u64 {
        self.0 ^ self.0 >> 32
    }

    fn write(&mut self, bytes: &[u8]) {
        for chunk in bytes.chunks(8) {
            let word = chunk.iter().rev().fold(0, |word, byte| word << 8 | u64::from(*byte));
            self.mix(word);
        }
    }

    fn write_u8(&mut self, number: u8) {
        self.mix(number.into());
    }

    fn write_u16(&mut self, number: u16) {
        self.mix(number.into());
    }

    fn write_u32(&mut self, number: u32) {
        self.mix(number.into());
    }

    fn write_u64(&mut self, number: u64) {
        self.mix(number);
    }

    fn write_usize(&mut self, number: usize) {
        self.mix(number as u64);
    }
}

/// Numbers things that are the same once.
#[derive(Debug)]
pub struct Interned<T> {
    numbers: HashTable<u32>,
    /// They, by number.
    pub all: Vec<T>,
}

impl<T> Default for Interned<T> {
    fn default() -> Self {
        Self { numbers: HashTable::new(), all: Vec::new() }
    }
}

impl<T: Eq + Hash> Interned<T> {
    /// The number of a thing: that of its like, or a new one.
    pub fn number(&mut self, it: T) -> u32 {
        let hash = |it: &T| BuildHasherDefault::<Mixer>::default().hash_one(it);
        let all = &self.all;
        let is_it = |number: &u32| all[*number as usize] == it;
        if let Some(number) = self.numbers.find(hash(&it), is_it) {
            return *number;
        }
        let number = self.all.len() as u32;
        self.numbers.insert_unique(hash(&it), number, |number| hash(&all[*number as usize]));
        self.all.push(it);
        number
    }
}
