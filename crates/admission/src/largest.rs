//! Who has most of something.

use alloc::vec::Vec;

use model::NetworkName;

/// How many are named.
const NAMED: usize = 3;

/// Those with the largest amounts, the largest first, and of equal ones by name.
#[derive(Default)]
pub(crate) struct Largest<'a>([Option<(u64, &'a NetworkName)>; NAMED]);

impl<'a> Largest<'a> {
    pub(crate) fn note(&mut self, network: &'a NetworkName, amount: u64) {
        let mut next = (amount, network);
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

    pub(crate) fn named(self) -> Vec<(NetworkName, u64)> {
        self.0.into_iter().flatten().map(|(amount, network)| (network.clone(), amount)).collect()
    }
}
