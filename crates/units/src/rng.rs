//! Seeded randomness: the same seed gives the same numbers on every machine, for ever.

use crate::hash;

/// A generator that belongs to its seed (xoshiro256**, Blackman and Vigna 2018; seeded by
/// SplitMix64).
///
/// It is written out here because its output is part of our promise: a scenario and a seed replay
/// the same bytes in every later version.
#[derive(Clone, Debug)]
pub struct Rng([u64; 4]);

impl Rng {
    /// The generator of `seed`.
    pub fn new(seed: u64) -> Self {
        let mut state = seed;
        let mut split = || {
            state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
            hash::splitmix64(state)
        };
        Self([split(), split(), split(), split()])
    }

    /// Any 64 bits.
    pub fn next_u64(&mut self) -> u64 {
        let [a, b, c, d] = &mut self.0;
        let out = b.wrapping_mul(5).rotate_left(7).wrapping_mul(9);
        let t = *b << 17;
        *c ^= *a;
        *d ^= *b;
        *b ^= *c;
        *a ^= *d;
        *c ^= t;
        *d = d.rotate_left(45);
        out
    }

    /// A number below `bound`, each equally likely (Lemire 2019).
    ///
    /// # Panics
    ///
    /// If `bound` is zero.
    pub fn below(&mut self, bound: u64) -> u64 {
        assert!(bound > 0, "no number is below zero");
        let threshold = bound.wrapping_neg() % bound;
        loop {
            let product = u128::from(self.next_u64()) * u128::from(bound);
            if product as u64 >= threshold {
                return (product >> 64) as u64;
            }
        }
    }

    /// A number in [0, 1), with 53 bits.
    pub fn unit_f64(&mut self) -> f64 {
        (self.next_u64() >> 11) as f64 / (1u64 << 53) as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_replays_its_numbers() {
        let draw = |seed| {
            let mut rng = Rng::new(seed);
            [rng.next_u64(), rng.next_u64()]
        };
        assert_eq!(draw(1), [0xb3f2_af6d_0fc7_10c5, 0x853b_5596_4736_4cea]);
        assert_ne!(draw(1), draw(2));
    }

    #[test]
    fn below_stays_below_and_reaches_everything() {
        let mut rng = Rng::new(7);
        let mut seen = [false; 6];
        for _ in 0..200 {
            seen[rng.below(6) as usize] = true;
        }
        assert_eq!(seen, [true; 6]);
    }
}
