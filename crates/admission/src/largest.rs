//! Who has most of something.

use alloc::vec::Vec;

/// How many are named.
pub(crate) const NAMED: usize = 3;

/// Those with the largest amounts, the largest first, and of equal ones by name.
pub(crate) struct Largest<N>([Option<(u64, N)>; NAMED]);

impl<N: Copy> Default for Largest<N> {
    fn default() -> Self {
        Self([None; NAMED])
    }
}

impl<N: Copy + Ord> Largest<N> {
    pub(crate) fn note(&mut self, name: N, amount: u64) {
        let mut next = (amount, name);
        for place in &mut self.0 {
            let Some(known) = place else {
                *place = Some(next);
                return;
            };
            if (next.0, known.1) > (known.0, next.1) {
                core::mem::swap(known, &mut next);
            }
        }
    }

    /// With what stands for each.
    pub(crate) fn named<M>(self, of: impl Fn(N) -> M) -> Vec<(M, u64)> {
        self.0.into_iter().flatten().map(|(amount, name)| (of(name), amount)).collect()
    }
}
