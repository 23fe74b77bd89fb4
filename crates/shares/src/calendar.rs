//! A queue ordered by numbers, of which every operation takes the same few instructions.
//!
//! A calendar is a ring of slots. A slot holds those whose key it is, first come, first served. A
//! bit for each slot says whether it holds somebody, a bit for each word of those whether it is not
//! zero, so that two find-first-set instructions find the first slot (Eiffel, Saeed et al., NSDI
//! 2019, §3.1.1: circular hierarchical find-first-set queues).
//!
//! ```text
//! summary        1 0 0 1 …                  a bit for each word
//! words     0110…  0000…  0000…  1000…      a bit for each slot
//! slots      ││                  │
//!            │└▶ 17 ⇄ 4          └▶ 9       rings of members
//!            └▶ 3
//! ```
//!
//! The ring shows the keys from its base on. What is earlier counts as the base, and what is beyond
//! the last slot as the last one, so that it is seen too early and never too late: whoever cares
//! puts it in again. Keys are slots' numbers; what a slot means, time or rounds, is its owner's.

use alloc::boxed::Box;
use alloc::vec;
use alloc::vec::Vec;

/// Slots for each bit of the summary.
const WORD: usize = 64;

/// The most slots that a calendar has: a word of words.
pub(crate) const MOST_SLOTS: u64 = (WORD * WORD) as u64;

/// The fewest.
pub(crate) const LEAST_SLOTS: u64 = WORD as u64;

/// Members by the slots that they are in.
#[derive(Clone, Debug)]
pub(crate) struct Calendar {
    /// The first slot that the ring shows.
    base: u64,
    summary: u64,
    words: Box<[u64]>,
    /// The first of each slot, if its bit is set.
    heads: Box<[u32]>,
    members: Vec<Member>,
}

/// A member's neighbours in its slot: a ring, so that the first leads to the last.
#[derive(Clone, Copy, Debug)]
struct Member {
    before: u32,
    after: u32,
    /// The slot's place in the ring, or [`NOWHERE`].
    place: u32,
}

const NOWHERE: u32 = u32::MAX;

const OUTSIDE: Member = Member { before: NOWHERE, after: NOWHERE, place: NOWHERE };

impl Calendar {
    /// An empty calendar of so many slots, a power of two from [`LEAST_SLOTS`] to [`MOST_SLOTS`].
    pub(crate) fn new(slots: u64) -> Self {
        assert!(
            slots.is_power_of_two() && (LEAST_SLOTS..=MOST_SLOTS).contains(&slots),
            "{slots} slots are none of a calendar's sizes"
        );
        let slots = slots as usize;
        Self {
            base: 0,
            summary: 0,
            words: vec![0; slots / WORD].into(),
            heads: vec![NOWHERE; slots].into(),
            members: Vec::new(),
        }
    }

    /// Has room for members below this number.
    pub(crate) fn reach(&mut self, members: usize) {
        if members > self.members.len() {
            self.members.resize(members, OUTSIDE);
        }
    }

    /// The first slot that the ring shows.
    #[inline]
    pub(crate) fn base(&self) -> u64 {
        self.base
    }

    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.summary == 0
    }

    #[inline]
    pub(crate) fn contains(&self, member: u32) -> bool {
        self.members[member as usize].place != NOWHERE
    }

    /// Puts a member into a slot, behind those that are there, and out of the one it was in.
    #[inline]
    pub(crate) fn insert(&mut self, member: u32, slot: u64) {
        self.remove(member);
        let last = self.base.saturating_add(self.mask());
        let place = (slot.clamp(self.base, last) & self.mask()) as usize;
        let (word, bit) = (place / WORD, 1 << (place % WORD));
        let ring = if self.words[word] & bit == 0 {
            self.words[word] |= bit;
            self.summary |= 1 << word;
            self.heads[place] = member;
            (member, member)
        } else {
            let first = self.heads[place];
            (self.members[first as usize].before, first)
        };
        let (before, after) = ring;
        self.members[member as usize] = Member { before, after, place: place as u32 };
        self.members[before as usize].after = member;
        self.members[after as usize].before = member;
    }

    /// Takes a member out, if it is in.
    #[inline]
    pub(crate) fn remove(&mut self, member: u32) {
        let gone = self.members[member as usize];
        if gone.place == NOWHERE {
            return;
        }
        self.members[member as usize].place = NOWHERE;
        let place = gone.place as usize;
        if gone.after == member {
            let word = place / WORD;
            self.words[word] &= !(1 << (place % WORD));
            if self.words[word] == 0 {
                self.summary &= !(1 << word);
            }
            return;
        }
        self.members[gone.before as usize].after = gone.after;
        self.members[gone.after as usize].before = gone.before;
        if self.heads[place] == member {
            self.heads[place] = gone.after;
        }
    }

    /// The first slot that holds somebody, and who came there first.
    #[inline]
    pub(crate) fn first(&self) -> Option<(u64, u32)> {
        if self.summary == 0 {
            return None;
        }
        let from = (self.base & self.mask()) as usize;
        let (word, bit) = (from / WORD, from % WORD);
        let here = self.words[word] & (!0 << bit);
        let place = if here != 0 {
            word * WORD + here.trailing_zeros() as usize
        } else {
            // Behind this word, then from the ring's beginning up to and with it: what is left of
            // it lies before the base.
            let behind = self.summary & (!1 << word);
            let words = if behind != 0 { behind } else { self.summary };
            let word = words.trailing_zeros() as usize;
            word * WORD + self.words[word].trailing_zeros() as usize
        };
        let ahead = (place as u64).wrapping_sub(self.base) & self.mask();
        Some((self.base + ahead, self.heads[place]))
    }

    /// Shows the slots from this one on, and never goes back. Nobody may be in an earlier one.
    #[inline]
    pub(crate) fn advance(&mut self, slot: u64) {
        debug_assert!(
            self.first().is_none_or(|(first, _)| slot <= first),
            "somebody is left behind"
        );
        self.base = self.base.max(slot);
    }

    /// One less than the number of slots.
    #[inline]
    fn mask(&self) -> u64 {
        self.heads.len() as u64 - 1
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// What a calendar is to be: a list that is sorted whenever somebody comes.
    struct Sorted {
        base: u64,
        slots: u64,
        /// By slot, and by who came first.
        list: Vec<(u64, u32)>,
    }

    impl Sorted {
        fn insert(&mut self, member: u32, slot: u64) {
            self.remove(member);
            self.list.push((slot.clamp(self.base, self.base + self.slots - 1), member));
            self.list.sort_by_key(|(slot, _)| *slot);
        }

        fn remove(&mut self, member: u32) {
            self.list.retain(|(_, it)| *it != member);
        }

        fn first(&self) -> Option<(u64, u32)> {
            self.list.first().copied()
        }
    }

    #[derive(Clone, Debug)]
    enum Step {
        Insert(u32, u64),
        Remove(u32),
        Pop,
        Advance(u64),
    }

    const MEMBERS: u32 = 40;

    fn steps(slots: u64) -> impl Strategy<Value = Vec<Step>> {
        let step = prop_oneof![
            4 => (0..MEMBERS, 0..slots + 5).prop_map(|(member, ahead)| Step::Insert(member, ahead)),
            2 => (0..MEMBERS, 0..4u64).prop_map(|(member, ahead)| Step::Insert(member, ahead)),
            1 => (0..MEMBERS).prop_map(Step::Remove),
            2 => Just(Step::Pop),
            2 => (0..slots).prop_map(Step::Advance),
        ];
        prop::collection::vec(step, 1..400)
    }

    proptest! {
        #[test]
        fn a_calendar_is_a_sorted_list(
            (slots, steps) in (6u32..=12)
                .prop_map(|bits| 1u64 << bits)
                .prop_flat_map(|slots| (Just(slots), steps(slots))),
        ) {
            let mut calendar = Calendar::new(slots);
            calendar.reach(MEMBERS as usize);
            let mut sorted = Sorted { base: 0, slots, list: Vec::new() };
            for step in steps {
                match step {
                    // Now and then before the base.
                    Step::Insert(member, ahead) => {
                        let slot = (sorted.base + ahead).saturating_sub(2);
                        calendar.insert(member, slot);
                        sorted.insert(member, slot);
                    }
                    Step::Remove(member) => {
                        calendar.remove(member);
                        sorted.remove(member);
                    }
                    Step::Pop => {
                        if let Some((_, member)) = calendar.first() {
                            calendar.remove(member);
                            prop_assert_eq!(sorted.list.remove(0).1, member);
                        }
                    }
                    Step::Advance(ahead) => {
                        let slot = (sorted.base + ahead).saturating_sub(2);
                        let slot = sorted.first().map_or(slot, |(first, _)| slot.min(first));
                        calendar.advance(slot);
                        sorted.base = sorted.base.max(slot);
                    }
                }
                prop_assert_eq!(calendar.first(), sorted.first());
                prop_assert_eq!(calendar.base(), sorted.base);
                prop_assert_eq!(calendar.is_empty(), sorted.list.is_empty());
                for member in 0..MEMBERS {
                    let is_in = sorted.list.iter().any(|(_, it)| *it == member);
                    prop_assert_eq!(calendar.contains(member), is_in);
                }
            }
            // Whoever is left leaves in order.
            for (slot, member) in sorted.list {
                prop_assert_eq!(calendar.first(), Some((slot, member)));
                calendar.remove(member);
            }
            prop_assert!(calendar.is_empty());
        }
    }

    #[test]
    fn keys_without_end_saturate() {
        let mut calendar = Calendar::new(LEAST_SLOTS);
        calendar.reach(2);
        calendar.insert(0, u64::MAX);
        assert_eq!(calendar.first(), Some((LEAST_SLOTS - 1, 0)));
        calendar.remove(0);
        calendar.advance(u64::MAX >> 6);
        calendar.insert(1, u64::MAX);
        calendar.insert(0, 0);
        assert_eq!(calendar.first(), Some((u64::MAX >> 6, 0)));
    }
}
