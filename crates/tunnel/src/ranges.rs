//! Received packet numbers, as a few ranges (RFC 9000 §13.2.3).

use alloc::collections::VecDeque;
use core::ops::RangeInclusive;

/// The most ranges that are kept. Numbers below the last one count as received.
pub const MAX_RANGES: usize = 24;

/// Received numbers, the highest range first.
#[derive(Clone, Debug, Default)]
pub struct Ranges(VecDeque<RangeInclusive<u64>>);

impl Ranges {
    /// Inserts a number. `false` if it was received before.
    pub fn insert(&mut self, number: u64) -> bool {
        let place = self.0.iter().position(|range| *range.start() <= number + 1);
        let Some(place) = place else {
            if self.0.len() == MAX_RANGES {
                return false;
            }
            self.0.push_back(number..=number);
            return true;
        };
        let (start, end) = (*self.0[place].start(), *self.0[place].end());
        if number > end + 1 {
            self.0.insert(place, number..=number);
            self.0.truncate(MAX_RANGES);
            return true;
        }
        if (start..=end).contains(&number) {
            return false;
        }
        let grown = start.min(number)..=end.max(number);
        self.0[place] = grown.clone();
        // It may touch the next higher range now, or the next lower one.
        if place > 0 && *self.0[place - 1].start() == grown.end() + 1 {
            self.0[place - 1] = *grown.start()..=*self.0[place - 1].end();
            self.0.remove(place);
        } else if let Some(lower) = self.0.get(place + 1)
            && lower.end() + 1 == *grown.start()
        {
            self.0[place] = *lower.start()..=*grown.end();
            self.0.remove(place + 1);
        }
        true
    }

    /// The ranges, the highest first.
    pub fn iter(&self) -> impl Iterator<Item = RangeInclusive<u64>> {
        self.0.iter().cloned()
    }
}

#[cfg(test)]
mod tests {
    use alloc::collections::BTreeSet;
    use alloc::vec::Vec;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn ranges_are_what_came(numbers in prop::collection::vec(0_u64..40, 0..60)) {
            let (mut ranges, mut set) = (Ranges::default(), BTreeSet::new());
            for number in numbers {
                prop_assert_eq!(ranges.insert(number), set.insert(number));
                let all: Vec<_> = ranges.iter().collect();
                prop_assert!(all.windows(2).all(|pair| pair[1].end() + 1 < *pair[0].start()), "{:?}", all);
                prop_assert!(all.iter().rev().flat_map(|range| range.clone()).eq(set.iter().copied()));
            }
        }
    }
}
