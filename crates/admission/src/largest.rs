//! Who has most of something.

use alloc::vec::Vec;

/// How many are named.
const NAMED: usize = 3;

/// Those with the largest amounts, the largest first, and of equal ones by name.
pub(crate) struct Largest<'a, N>([Option<(u64, &'a N)>; NAMED]);

impl<N> Default for Largest<'_, N> {
    fn default() -> Self {
        Self([None; NAMED])
    }
}

impl<'a, N: Clone + Ord> Largest<'a, N> {
    pub(crate) fn note(&mut self, name: &'a N, amount: u64) {
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

    pub(crate) fn named(self) -> Vec<(N, u64)> {
        self.0.into_iter().flatten().map(|(amount, name)| (name.clone(), amount)).collect()
    }
}
