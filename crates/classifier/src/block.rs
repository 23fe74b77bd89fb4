//! Keys by their leading bits.

use core::fmt::Debug;

/// An unsigned number of which prefixes are made: an IPv4 or an IPv6 address, or a port.
pub trait Key: Copy + Debug + Eq + Ord + private::Sealed {
    /// How many bits it has.
    const BITS: u8;
    /// The least.
    const ZERO: Self;
    /// How many leading bits two have in common.
    fn common(self, other: Self) -> u8;
    /// The bit at a place, the most significant first. There must be one.
    fn bit(self, place: u8) -> usize;
    /// The leading bits; the others are 0.
    fn leading(self, bits: u8) -> Self;
    /// The last that has the same leading bits.
    fn last(self, bits: u8) -> Self;
    /// How many bits at its end are 0.
    fn zeros(self) -> u8;
    /// The next number, if there is one.
    fn next(self) -> Option<Self>;
}

mod private {
    pub trait Sealed {}
    impl Sealed for u16 {}
    impl Sealed for u32 {}
    impl Sealed for u128 {}
}

macro_rules! key {
    ($kind:ty) => {
        impl Key for $kind {
            const BITS: u8 = <$kind>::BITS as u8;
            const ZERO: Self = 0;

            #[inline]
            fn common(self, other: Self) -> u8 {
                (self ^ other).leading_zeros() as u8
            }

            #[inline]
            fn bit(self, place: u8) -> usize {
                (self >> (<Self as Key>::BITS - 1 - place)) as usize & 1
            }

            #[inline]
            fn leading(self, bits: u8) -> Self {
                let rest = u32::from(<Self as Key>::BITS - bits);
                self & <$kind>::MAX.checked_shl(rest).unwrap_or(0)
            }

            #[inline]
            fn last(self, bits: u8) -> Self {
                self | <$kind>::MAX.checked_shr(u32::from(bits)).unwrap_or(0)
            }

            fn zeros(self) -> u8 {
                self.trailing_zeros() as u8
            }

            fn next(self) -> Option<Self> {
                self.checked_add(1)
            }
        }
    };
}

key!(u16);
key!(u32);
key!(u128);

/// All keys that have the same leading bits.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub struct Block<K> {
    first: K,
    len: u8,
}

impl<K: Key> Block<K> {
    /// The keys whose first `len` bits are those of `key`. `None` if it has not as many bits.
    pub fn new(key: K, len: u8) -> Option<Self> {
        (len <= K::BITS).then(|| Self { first: key.leading(len), len })
    }

    /// A key alone.
    pub fn one(key: K) -> Self {
        Self { first: key, len: K::BITS }
    }

    /// The largest that has `key` and is within `first..=last`, which must have it, too.
    pub fn within(key: K, first: K, last: K) -> Self {
        debug_assert!(first <= key && key <= last);
        let fits = |len: u8| first <= key.leading(len) && key.last(len) <= last;
        let len = (0..K::BITS).find(|len| fits(*len)).unwrap_or(K::BITS);
        Self { first: key.leading(len), len }
    }

    /// The fewest that together are `first..=last`, in order: at most twice as many as a key has
    /// bits. None if `first` is beyond `last`.
    pub fn cover(first: K, last: K) -> impl Iterator<Item = Self> {
        let mut next = (first <= last).then_some(first);
        core::iter::from_fn(move || {
            let first = next?;
            let least = K::BITS - first.zeros().min(K::BITS);
            let len = (least..K::BITS).find(|len| first.last(*len) <= last).unwrap_or(K::BITS);
            next = first.last(len).next().filter(|next| *next <= last);
            Some(Self { first, len })
        })
    }

    /// The first of its keys: the bits in common, and zeros.
    pub const fn first(self) -> K {
        self.first
    }

    /// How many leading bits its keys have in common.
    pub const fn bits(self) -> u8 {
        self.len
    }

    /// Whether a key is one of its keys.
    pub fn contains(self, key: K) -> bool {
        key.common(self.first) >= self.len
    }
}

#[cfg(test)]
mod tests {
    use alloc::vec::Vec;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn a_cover_is_the_range_and_nothing_else(one: u16, other: u16, key: u16) {
            let (first, last) = (one.min(other), one.max(other));
            let blocks: Vec<_> = Block::cover(first, last).collect();
            prop_assert!(blocks.len() <= 30);
            let covered = blocks.iter().filter(|it| it.contains(key)).count();
            prop_assert_eq!(covered, usize::from(first <= key && key <= last));
            if covered == 1 {
                let block = Block::within(key, first, last);
                prop_assert!(block.contains(key));
                prop_assert!(first <= block.first() && block.first().last(block.bits()) <= last);
            }
        }
    }

    #[test]
    fn extremes_are_covered() {
        assert_eq!(Block::cover(0, u128::MAX).collect::<Vec<_>>(), [Block::new(0, 0).unwrap()]);
        assert_eq!(Block::cover(u32::MAX, u32::MAX).count(), 1);
        assert_eq!(Block::cover(1, u32::MAX).count(), 32);
        assert_eq!(Block::cover(2_u32, 1).count(), 0);
        assert_eq!(Block::new(0_u32, 33), None);
    }
}
