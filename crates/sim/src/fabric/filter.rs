//! Which flows are paused, in 128 bytes: the filters of Backpressure Flow Control (Goyal et al.,
//! NSDI 2022).
//!
//! A switch tells the one before it of paused flows by a Bloom filter. A flow that is paused is
//! always in it; one that is not seems to be now and then, and waits with those that are.

use units::hash;

/// A filter's frame, on a physical link: Ethernet's header, an opcode as PFC has it, the filter and
/// the check sequence.
pub(crate) const FILTER_FRAME: u32 = 14 + 2 + 128 + 4;

/// How many flows are told apart. Two of one number are one to all switches.
const FLOWS: u32 = 1 << 14;

/// Bits of a filter, and how many each flow sets of them.
const BITS: usize = 1024;
const HASHES: u32 = 4;

/// A flow's number.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub(crate) struct FlowId(u16);

impl FlowId {
    /// The number of a flow whose ends have this hash.
    #[inline]
    pub(crate) fn of(hash: u32) -> Self {
        Self((hash % FLOWS) as u16)
    }

    /// One of so many places, drawn from the number.
    pub(super) fn draw(self, places: usize) -> usize {
        (hash::murmur32(!u32::from(self.0)) as usize) % places
    }

    fn bits(self) -> impl Iterator<Item = usize> {
        let drawn = move |turn: u32| hash::murmur32(turn << 16 | u32::from(self.0)) as usize % BITS;
        (0..HASHES).map(drawn)
    }
}

/// What is told of paused flows.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Filter([u64; BITS / 64]);

impl Filter {
    /// Nobody is paused.
    pub(crate) const EMPTY: Self = Self([0; BITS / 64]);

    /// Whether a flow is paused, or seems to be.
    pub(crate) fn contains(&self, flow: FlowId) -> bool {
        flow.bits().all(|bit| self.0[bit / 64] & 1 << (bit % 64) != 0)
    }
}

/// Paused flows, of which some can be taken out again: a counting Bloom filter.
#[derive(Clone, Debug)]
pub(super) struct Pauses {
    counts: Box<[u16; BITS]>,
    filter: Filter,
}

impl Default for Pauses {
    fn default() -> Self {
        Self { counts: Box::new([0; BITS]), filter: Filter::EMPTY }
    }
}

impl Pauses {
    /// A flow is paused. One that is paused twice has to be let go twice.
    pub(super) fn pause(&mut self, flow: FlowId) {
        for bit in flow.bits() {
            self.counts[bit] += 1;
            self.filter.0[bit / 64] |= 1 << (bit % 64);
        }
    }

    /// A flow that was paused is let go.
    pub(super) fn resume(&mut self, flow: FlowId) {
        for bit in flow.bits() {
            self.counts[bit] -= 1;
            if self.counts[bit] == 0 {
                self.filter.0[bit / 64] &= !(1 << (bit % 64));
            }
        }
    }

    /// What the switch before is to be told.
    pub(super) fn filter(&self) -> Filter {
        self.filter
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn whoever_is_paused_is_in_the_filter_and_nobody_once_all_are_let_go(
            flows in prop::collection::vec(0..FLOWS, 0..200),
            kept in 0..200_usize,
        ) {
            let flows: Vec<FlowId> = flows.into_iter().map(FlowId::of).collect();
            let (kept, gone) = flows.split_at(kept.min(flows.len()));
            let mut pauses = Pauses::default();
            flows.iter().for_each(|flow| pauses.pause(*flow));
            gone.iter().for_each(|flow| pauses.resume(*flow));
            prop_assert!(kept.iter().all(|flow| pauses.filter().contains(*flow)));
            kept.iter().for_each(|flow| pauses.resume(*flow));
            prop_assert_eq!(pauses.filter(), Filter::EMPTY);
        }
    }

    #[test]
    fn few_seem_to_be_paused_that_are_not() {
        let mut pauses = Pauses::default();
        (0..50).for_each(|hash| pauses.pause(FlowId::of(hash)));
        let filter = pauses.filter();
        let seem = (50..FLOWS).filter(|hash| filter.contains(FlowId::of(*hash))).count();
        // (1 - exp(-4 · 50 / 1024))^4 of 16,334.
        assert!((5..50).contains(&seem), "{seem}");
    }
}
