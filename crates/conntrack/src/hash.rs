//! A hash of tuples that needs a key to be foretold.

use units::hash::splitmix64;

use crate::tuple::Ends;

/// What makes hashes differ from one table to the next, so that nobody can choose tuples that meet.
///
/// The hash is one of folded products (wyhash's and rapidhash's): quick, and hard to foretell for
/// who neither knows the key nor sees hashes. It is no cryptography.
#[derive(Clone, Debug)]
pub struct Key([u64; 4]);

/// The product's halves together.
#[inline]
const fn fold(a: u64, b: u64) -> u64 {
    let product = a as u128 * b as u128;
    product as u64 ^ (product >> 64) as u64
}

impl Key {
    /// The key that 128 bits make.
    pub fn new(secret: [u64; 2]) -> Self {
        let [a, b] = secret;
        // Odd, so that none is zero.
        Self([a, b, a ^ b.rotate_left(32), b.wrapping_add(a)].map(|it| splitmix64(it) | 1))
    }

    #[inline]
    pub fn hash(&self, zone: u32, protocol: u8, ends: &Ends) -> u64 {
        let [a, b, c, d] = ends.words();
        let [k, l, m, n] = self.0;
        let addresses = fold(a ^ k, b ^ l) ^ fold(c ^ m, d ^ n).rotate_left(32);
        let others = u64::from(ends.ports()) << 32 | u64::from(zone);
        fold(addresses ^ m, others ^ u64::from(protocol) << 56 ^ l.rotate_left(8))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::collections::BTreeSet;
    use alloc::vec;
    use core::net::Ipv4Addr;

    use crate::tuple::Tuple;

    #[test]
    fn tuples_that_differ_in_a_bit_differ_all_over() {
        let key = Key::new([1, 2]);
        let mut seen = BTreeSet::new();
        let mut places = vec![0_u32; 256];
        for address in 0..64_u32 {
            for port in 0..256 {
                let from = Ipv4Addr::from(0x0a00_0100 + address);
                let to = Ipv4Addr::from(0x0a00_0001);
                let tuple = Tuple::new(6, (from.into(), port), (to.into(), 80)).unwrap();
                let hash = key.hash(1, 6, &tuple.ends);
                let back = key.hash(1, 6, &tuple.reversed().ends);
                let elsewhere = key.hash(2, 6, &tuple.ends);
                assert!([hash, back, elsewhere].into_iter().all(|it| seen.insert(it)));
                places[(hash >> 56) as usize] += 1;
                places[(hash & 255) as usize] += 1;
            }
        }
        assert!(places.iter().all(|count| (70..190).contains(count)), "{places:?}");
        let nobody = (Ipv4Addr::UNSPECIFIED.into(), 0);
        let ends = Tuple::new(6, nobody, nobody).unwrap().ends;
        assert_ne!(Key::new([1, 3]).hash(1, 6, &ends), key.hash(1, 6, &ends));
    }
}
