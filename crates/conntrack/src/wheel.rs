//! Deadlines in a hierarchical wheel (Varghese and Lauck, SOSP 1987, scheme 7).
//!
//! Six levels of 64 slots each hold all of 2³² ticks. An item is in the slot of the highest digit,
//! to base 64, in which its deadline differs from now. When its slot's time comes it is handed out,
//! and its owner puts it back if its deadline is later: because the slot was a coarse one, or
//! because the deadline was put off meanwhile. Putting off costs nothing before.

use crate::lists::Lists;

const BITS: u32 = 6;
const SLOTS: u32 = 1 << BITS;
const LEVELS: u32 = 32_u32.div_ceil(BITS);

/// Items by their deadlines.
#[derive(Clone, Debug)]
pub struct Wheel {
    lists: Lists,
    /// Of each level, which slots may have items. All that have one are there.
    occupied: [u64; LEVELS as usize],
    now: u32,
}

const fn digit(tick: u32, level: u32) -> u32 {
    (tick >> (BITS * level)) & (SLOTS - 1)
}

impl Wheel {
    /// An empty wheel at tick 0, with memory for so many items.
    pub fn new(items: u32) -> Self {
        Self { lists: Lists::new(LEVELS * SLOTS, items), occupied: [0; LEVELS as usize], now: 0 }
    }

    /// One more item there may be.
    pub fn add_item(&mut self) {
        self.lists.add_item();
    }

    /// Up to which tick all has been handed out.
    pub const fn now(&self) -> u32 {
        self.now
    }

    /// Adds an item that is not here. A deadline that is past is the next tick.
    #[inline]
    pub fn insert(&mut self, item: u32, deadline: u32) {
        let deadline = deadline.max(self.now.saturating_add(1));
        // At the end of time there is no next tick; then it is level 0 as well.
        let level = (31 - (deadline ^ self.now | 1).leading_zeros()) / BITS;
        let slot = digit(deadline, level);
        self.occupied[level as usize] |= 1 << slot;
        self.lists.push(level * SLOTS + slot, item);
    }

    /// Takes an item out.
    #[inline]
    pub fn remove(&mut self, item: u32) {
        self.lists.unlink(item);
    }

    /// Takes out an item whose slot's time has come by the tick `until`; `None` if there is none,
    /// and then the time is `until`. Items may come too early, but none comes too late.
    pub fn pop(&mut self, until: u32) -> Option<u32> {
        while self.now <= until {
            if let Some(item) = self.current() {
                return Some(item);
            }
            match self.next() {
                Some(start) if start <= until => self.now = start,
                _ => {
                    self.now = until;
                    return None;
                }
            }
        }
        None
    }

    /// An item of a slot that has begun. Coarse slots come first: what they have may be due before
    /// what is in finer ones.
    fn current(&mut self) -> Option<u32> {
        for level in (0..LEVELS).rev() {
            let slot = digit(self.now, level);
            if self.occupied[level as usize] & 1 << slot == 0 {
                continue;
            }
            if let Some(item) = self.lists.first(level * SLOTS + slot) {
                self.lists.unlink(item);
                return Some(item);
            }
            self.occupied[level as usize] &= !(1 << slot);
        }
        None
    }

    /// When the next slot begins that may have an item. Finer slots are all within the current one
    /// of the next level, so they come first.
    pub fn next(&self) -> Option<u32> {
        (0..LEVELS).find_map(|level| {
            let later = u64::MAX.checked_shl(digit(self.now, level) + 1).unwrap_or(0);
            let slots = self.occupied[level as usize] & later;
            let shift = BITS * level;
            let above = u32::MAX.checked_shl(shift + BITS).unwrap_or(0);
            (slots != 0).then(|| self.now & above | slots.trailing_zeros() << shift)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::collections::BTreeMap;
    use alloc::vec::Vec;
    use proptest::prelude::*;

    #[derive(Clone, Debug)]
    enum Do {
        Insert(u32),
        PutOff(usize, u32),
        Remove(usize),
        Go(u32, usize),
    }

    fn spans() -> impl Strategy<Value = u32> {
        prop_oneof![0..4_u32, 0..200_u32, 0..70_000_u32, 0..20_000_000_u32, any::<u32>()]
    }

    fn step() -> impl Strategy<Value = Do> {
        prop_oneof![
            4 => spans().prop_map(Do::Insert),
            1 => (any::<usize>(), spans()).prop_map(|(which, by)| Do::PutOff(which, by)),
            1 => any::<usize>().prop_map(Do::Remove),
            3 => (spans(), prop_oneof![1 => 0..6_usize, 2 => Just(usize::MAX)])
                .prop_map(|(by, budget)| Do::Go(by, budget)),
        ]
    }

    proptest! {
        #[test]
        fn a_wheel_is_a_sorted_list(steps in prop::collection::vec(step(), 0..120)) {
            let mut wheel = Wheel::new(0);
            // The list: each item's deadline.
            let mut list: BTreeMap<u32, u32> = BTreeMap::new();
            let (mut now, mut items) = (0_u32, 0);
            for step in steps {
                let nth = |list: &BTreeMap<u32, u32>, which: usize| {
                    list.keys().nth(which % list.len().max(1)).copied()
                };
                match step {
                    Do::Insert(by) => {
                        wheel.add_item();
                        let deadline = now.saturating_add(by);
                        wheel.insert(items, deadline);
                        list.insert(items, deadline);
                        items += 1;
                    }
                    Do::PutOff(which, by) => {
                        if let Some(item) = nth(&list, which) {
                            let later = list[&item].saturating_add(by);
                            list.insert(item, later);
                        }
                    }
                    Do::Remove(which) => {
                        if let Some(item) = nth(&list, which) {
                            list.remove(&item);
                            wheel.remove(item);
                        }
                    }
                    Do::Go(by, mut budget) => {
                        now = now.saturating_add(by);
                        let mut due = Vec::new();
                        while budget > 0 {
                            budget -= 1;
                            let Some(item) = wheel.pop(now) else { break };
                            let deadline = list[&item];
                            if deadline <= wheel.now() {
                                list.remove(&item);
                                due.push(deadline);
                            } else {
                                wheel.insert(item, deadline);
                            }
                        }
                        prop_assert!(due.iter().all(|it| *it <= now));
                        if budget > 0 {
                            prop_assert!(wheel.now() == now);
                            // One that was past when it came is due at the next tick.
                            let late = |deadline: &u32| *deadline < now && *deadline < u32::MAX;
                            prop_assert!(!list.values().any(late), "{list:?} at {now}");
                            if let (Some(first), Some(next)) = (list.values().min(), wheel.next()) {
                                prop_assert!(next <= (*first).max(now.saturating_add(1)));
                            }
                            prop_assert!(list.is_empty() || now == u32::MAX || wheel.next().is_some());
                        }
                    }
                }
            }
        }
    }

    #[test]
    fn an_item_is_looked_at_once_a_level_at_most() {
        let mut wheel = Wheel::new(1);
        wheel.add_item();
        wheel.insert(0, 1_609_325);
        let mut looked = 0;
        while let Some(item) = wheel.pop(1_609_325) {
            looked += 1;
            if wheel.now() < 1_609_325 {
                wheel.insert(item, 1_609_325);
            }
        }
        assert_eq!(looked, 4);
    }
}
