//! How much counters grew of late: what notes tell of for as long as it happens.

use std::time::Duration;

/// The least time that counts as of late; the most is twice as long.
pub const WINDOW: Duration = Duration::from_secs(5 * 60);

/// A counter's values at the beginning of the current window, and of the one before.
#[derive(Clone, Copy, Debug, Default)]
pub struct Growth {
    before: u64,
    begin: u64,
}

impl Growth {
    /// A window is over, and the next one begins.
    pub fn turn(&mut self, count: u64) {
        self.before = std::mem::replace(&mut self.begin, count);
    }

    /// How much the counter grew since the window before began.
    pub fn of_late(&self, count: u64) -> u64 {
        count.saturating_sub(self.before)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_grew_is_told_of_for_one_to_two_windows() {
        let mut growth = Growth::default();
        assert_eq!(growth.of_late(0), 0);
        assert_eq!(growth.of_late(7), 7);
        growth.turn(7);
        assert_eq!((growth.of_late(7), growth.of_late(9)), (7, 9));
        growth.turn(9);
        assert_eq!(growth.of_late(9), 2);
        growth.turn(9);
        assert_eq!(growth.of_late(9), 0);
    }
}
