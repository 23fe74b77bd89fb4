//! A timer for each index: a binary heap that can change and remove any of its entries.

use alloc::vec::Vec;

use units::Instant;

/// The place of an index without a timer.
const NOWHERE: u32 = u32::MAX;

/// A heap with at most one entry for each index, earliest first. Changing a time moves the entry,
/// so there are never more entries than indices.
#[derive(Clone, Debug)]
pub struct Timers {
    heap: Vec<(Instant, u32)>,
    /// Where the entry of each index lies in the heap.
    places: Vec<u32>,
}

impl Timers {
    /// Timers for the indices below `count`, none of them set.
    pub fn new(count: u32) -> Self {
        Self {
            heap: Vec::with_capacity(count as usize),
            places: alloc::vec![NOWHERE; count as usize],
        }
    }

    /// The earliest time, and its index.
    pub fn first(&self) -> Option<(Instant, u32)> {
        self.heap.first().copied()
    }

    /// Sets the timer of `index`, or removes it.
    pub fn set(&mut self, index: u32, at: Option<Instant>) {
        let place = self.places[index as usize] as usize;
        match (at, self.heap.get_mut(place)) {
            (None, None) => {}
            (None, Some(_)) => self.remove(place),
            (Some(at), None) => {
                self.heap.push((at, index));
                self.rise(self.heap.len() - 1);
            }
            (Some(at), Some(entry)) => {
                let before = core::mem::replace(&mut entry.0, at);
                if at < before {
                    self.rise(place);
                } else if at > before {
                    self.sink(place);
                }
            }
        }
    }

    fn remove(&mut self, place: usize) {
        let (_, index) = self.heap.swap_remove(place);
        self.places[index as usize] = NOWHERE;
        if place < self.heap.len() {
            // The entry that was last may belong above or below its new place.
            self.rise(place);
            self.sink(self.places[self.heap[place].1 as usize] as usize);
        }
    }

    /// Moves the entry at `place` up until no later one is above it.
    fn rise(&mut self, mut place: usize) {
        let entry = self.heap[place];
        while place > 0 {
            let above = (place - 1) / 2;
            if self.heap[above] <= entry {
                break;
            }
            self.put(place, self.heap[above]);
            place = above;
        }
        self.put(place, entry);
    }

    /// Moves the entry at `place` down until no earlier one is below it.
    fn sink(&mut self, mut place: usize) {
        let entry = self.heap[place];
        loop {
            let left = place * 2 + 1;
            let right = left + 1;
            let below = if self.heap.get(right).is_some_and(|right| *right < self.heap[left]) {
                right
            } else {
                left
            };
            match self.heap.get(below) {
                Some(earlier) if *earlier < entry => self.put(place, *earlier),
                _ => break,
            }
            place = below;
        }
        self.put(place, entry);
    }

    fn put(&mut self, place: usize, entry: (Instant, u32)) {
        self.heap[place] = entry;
        self.places[entry.1 as usize] = place as u32;
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn the_first_is_the_earliest_of_all(
            sets in prop::collection::vec((0_u32..20, prop::option::of(0_u64..30)), 0..200),
        ) {
            let mut timers = Timers::new(20);
            let mut model = [None; 20];
            for (index, at) in sets {
                let at = at.map(Instant::from_nanos);
                timers.set(index, at);
                model[index as usize] = at;
                let first = timers.first();
                prop_assert_eq!(first.map(|(at, _)| at), model.iter().flatten().min().copied());
                prop_assert!(first.is_none_or(|(at, index)| model[index as usize] == Some(at)));
                prop_assert_eq!(timers.heap.len(), model.iter().flatten().count());
            }
        }
    }
}
