//! What sources ask for, and what of it is more than is carried.

use crate::time::Time;

/// What sources that make frames whatever becomes of them have made, and what of it was lost
/// because their queues were full.
///
/// ```text
///   losses       ──────┼┼┼┼┼┼┼┼┼─────────┼┼┼┼────    of any source
///   overloaded   ──────▓▓▓▓▓▓▓▓▓─────────▓▓▓▓────    two episodes
/// ```
///
/// A queue that is full while no more is made than is carried loses nothing: that is no overload.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Excess {
    /// When counting begins.
    since: Time,
    /// Until when it was counted, once it is over.
    until: Time,
    offered: u64,
    lost: u64,
    /// When something was last lost, if anything was.
    lost_at: Option<Time>,
    overloaded: Time,
    episodes: u64,
}

impl Excess {
    /// Nothing yet: what happens before `since` does not count.
    pub(crate) fn new(since: Time) -> Self {
        Self { since, ..Self::default() }
    }

    /// A source has made so many bytes.
    pub(crate) fn make(&mut self, now: Time, bytes: u64) {
        if now >= self.since {
            self.offered += bytes;
        }
    }

    /// So many of the bytes that were made are lost. If that is no longer than `bridge` after the
    /// last loss, too much was asked for all the time between.
    pub(crate) fn lose(&mut self, now: Time, bytes: u64, bridge: Time) {
        if now < self.since {
            return;
        }
        self.lost += bytes;
        match self.lost_at.replace(now) {
            Some(before) if now <= before + bridge => self.overloaded += now - before,
            _ => self.episodes += 1,
        }
    }

    /// The run ends.
    pub(crate) fn close(&mut self, now: Time) {
        self.until = now;
    }

    /// How long it was counted.
    pub fn counted(&self) -> Time {
        self.until.max(self.since) - self.since
    }

    /// Bytes of packets that sources have made.
    pub fn offered(&self) -> u64 {
        self.offered
    }

    /// Of them, those that were lost at the source.
    pub fn lost(&self) -> u64 {
        self.lost
    }

    /// For how long some source lost something again and again.
    pub fn overloaded(&self) -> Time {
        self.overloaded
    }

    /// How often that began.
    pub fn episodes(&self) -> u64 {
        self.episodes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn overload_lasts_while_losses_follow_each_other() {
        let us = |us: u64| Time::from_picos(1_000_000 * us);
        let mut excess = Excess::new(us(10));
        excess.make(us(9), 100);
        excess.lose(us(9), 40, us(5));
        excess.make(us(12), 100);
        for at in [12, 17, 18, 24] {
            excess.lose(us(at), 10, us(5));
        }
        excess.close(us(30));
        assert_eq!((excess.offered(), excess.lost(), excess.counted()), (100, 40, us(20)));
        assert_eq!((excess.overloaded(), excess.episodes()), (us(6), 2));
    }
}
