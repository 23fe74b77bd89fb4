//! What we write to a guest's memory, for whoever moves the guest meanwhile.

/// Who keeps a log of it. Where nobody does, nothing is computed for it.
pub trait Written {
    /// Whether anybody does.
    const IS_KEPT: bool = true;

    /// `len` bytes were written at this guest-physical address.
    fn note(&mut self, address: u64, len: u64);
}

/// Nobody does.
impl Written for () {
    const IS_KEPT: bool = false;

    #[inline(always)]
    fn note(&mut self, _: u64, _: u64) {}
}

/// Where to log what we write to a ring itself: the guest-physical addresses of its parts.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Places {
    /// Of the descriptors.
    pub descriptors: u64,
    /// Of the used ring, or our event structure.
    pub device: u64,
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::chain::Chain;
    use super::super::model::{Model, PIECES};
    use super::*;

    /// The bytes that were noted.
    struct Noted(Vec<bool>);

    impl Written for Noted {
        fn note(&mut self, address: u64, len: u64) {
            self.0[address as usize..(address + len) as usize].fill(true);
        }
    }

    proptest! {
        /// Whatever we write to a ring is noted, and nothing outside of the parts that are ours to
        /// write.
        #[test]
        fn all_that_is_written_to_a_ring_is_noted(
            packed: bool,
            events: bool,
            moves in prop::collection::vec((0..4_u8, 1..=PIECES), 1..60),
        ) {
            let mut model = Model::new(if packed { 7 } else { 8 }, packed, events, false);
            let (places, lens) = (model.places(), super::super::Parts::lens(model.size, packed));
            let part = |at: u64, len: usize| at as usize..at as usize + len;
            let ours = [part(places.device, lens[2]), part(places.descriptors, if packed { lens[0] } else { 0 })];
            let mut ring = model.ring();
            let mut chain = Chain::new(packed, false);
            let mut taken = Vec::new();
            ring.log_at(Some(places));
            ring.publish(&mut Noted(vec![false; model.bytes().len()]));
            for (next, pieces) in moves {
                while model.post(pieces, 0) {}
                let before = model.bytes();
                match next {
                    0 => {
                        for _ in 0..pieces {
                            if let Some(head) = ring.take(&model.memory(), &mut chain).unwrap() {
                                taken.push(head.id);
                            }
                        }
                    }
                    1 => taken.drain(..).rev().for_each(|id| ring.give_back(id, 7)),
                    2 => drop(ring.wait().unwrap()),
                    _ => ring.be_silent(),
                }
                let mut noted = Noted(vec![false; before.len()]);
                ring.publish(&mut noted);
                for (at, (before, after)) in before.iter().zip(&model.bytes()).enumerate() {
                    prop_assert!(before == after || noted.0[at], "byte {at} was written");
                    prop_assert!(!noted.0[at] || ours.iter().any(|part| part.contains(&at)), "byte {at} is not ours");
                }
                while model.collect().is_some() {}
            }
        }
    }
}
