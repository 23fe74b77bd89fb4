//! Which packet numbers were received: a sliding window as a ring of bits (RFC 6479).

/// How far behind the newest packet another may be. A path that reorders further loses packets.
pub const WINDOW: u64 = 8_192;

/// One more than the window has, so that a word is cleared before any of its bits count again.
const WORDS: usize = WINDOW as usize / 64 + 1;

/// The packet numbers received, as far as they are remembered.
#[derive(Clone, Debug)]
pub struct Window {
    /// One more than the highest received; 0 if there is none.
    next: u64,
    words: [u64; WORDS],
}

impl Window {
    /// Nothing was received.
    pub fn new() -> Self {
        Self { next: 0, words: [0; WORDS] }
    }

    /// One more than the highest number received.
    pub fn next(&self) -> u64 {
        self.next
    }

    /// Whether a packet of this number was not received, for certain.
    pub fn is_new(&self, number: u64) -> bool {
        if number >= self.next {
            return true;
        }
        let (word, bit) = place(number);
        self.next - number <= WINDOW && self.words[word] & bit == 0
    }

    /// Notes that a packet of this number was received, which [is new](Self::is_new) and not the
    /// highest of all.
    pub fn insert(&mut self, number: u64) {
        if number >= self.next {
            // The words between the newest and this one held older numbers.
            let newest = self.next.checked_sub(1).map_or(0, |newest| newest / 64);
            let further = (number / 64 - newest).min(WORDS as u64);
            for step in 0..further {
                self.words[place(number - step * 64).0] = 0;
            }
            self.next = number + 1;
        }
        let (word, bit) = place(number);
        self.words[word] |= bit;
    }
}

/// The word and the bit of a number.
fn place(number: u64) -> (usize, u64) {
    ((number / 64 % WORDS as u64) as usize, 1 << (number % 64))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn it_says_what_a_set_says(
            steps in prop::collection::vec((prop_oneof![
                4 => -200_i64..200,
                2 => -9_000_i64..9_000,
                1 => -70_000_i64..70_000,
            ], 1..20_u64), 1..400),
            first in prop_oneof![Just(0_u64), 0..100_000_u64],
        ) {
            let mut window = Window::new();
            let mut all = BTreeSet::new();
            let mut at = first;
            for (step, run) in steps {
                at = at.saturating_add_signed(step);
                for number in at..at + run {
                    let newest = all.last().copied();
                    let is_old = newest.is_some_and(|newest| number + WINDOW <= newest);
                    prop_assert_eq!(window.is_new(number), !is_old && !all.contains(&number), "{}", number);
                    if window.is_new(number) {
                        window.insert(number);
                        all.insert(number);
                    }
                    prop_assert_eq!(window.next(), all.last().map_or(0, |newest| newest + 1));
                }
            }
        }
    }
}
