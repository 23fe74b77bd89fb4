//! Sets of small numbers, as bits of words.

use alloc::vec::Vec;

/// A set of numbers below a bound that its maker knows.
#[derive(Clone, Debug, Default, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct Bits(Vec<u64>);

impl Bits {
    /// None of so many.
    pub fn none(len: usize) -> Self {
        Self(alloc::vec![0; len.div_ceil(64)])
    }

    pub fn insert(&mut self, number: usize) {
        self.0[number / 64] |= 1 << (number % 64);
    }

    pub fn has(&self, number: usize) -> bool {
        self.0.get(number / 64).is_some_and(|word| word >> (number % 64) & 1 == 1)
    }

    pub fn is_empty(&self) -> bool {
        self.0.iter().all(|word| *word == 0)
    }

    /// How many there are.
    pub fn count(&self) -> u32 {
        self.0.iter().map(|word| word.count_ones()).sum()
    }

    /// The numbers of it, the least first.
    pub fn iter(&self) -> impl Iterator<Item = usize> {
        let words = self.0.iter().enumerate().filter(|(_, word)| **word != 0);
        words.flat_map(|(i, word)| {
            (0..64).filter(move |bit| word >> bit & 1 == 1).map(move |bit| i * 64 + bit)
        })
    }

    fn with(&self, other: &Self, both: impl Fn(u64, u64) -> u64) -> Self {
        Self(self.0.iter().zip(&other.0).map(|(a, b)| both(*a, *b)).collect())
    }

    pub fn and(&self, other: &Self) -> Self {
        self.with(other, |a, b| a & b)
    }

    pub fn or(&self, other: &Self) -> Self {
        self.with(other, |a, b| a | b)
    }

    pub fn minus(&self, other: &Self) -> Self {
        self.with(other, |a, b| a & !b)
    }

    pub fn meets(&self, other: &Self) -> bool {
        self.0.iter().zip(&other.0).any(|(a, b)| a & b != 0)
    }
}
