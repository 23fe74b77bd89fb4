//! How many hosts refused a machine.

use super::scheduler::Refused;

/// How many hosts refused a machine, by reason.
#[derive(Clone, Copy, Debug, Default)]
pub struct Refusals([u64; Refused::WORDS.len()]);

impl Refusals {
    /// One more host.
    pub fn add(&mut self, why: &Refused) {
        self.0[why.place()] += 1;
    }

    /// How many there are, in the order of [`Refused::WORDS`].
    pub fn by_reason(self) -> [u64; Refused::WORDS.len()] {
        self.0
    }
}
