//! How finely time is told apart, and how much goes in one turn.

use units::{Instant, Rate, Span};

use crate::calendar::{LEAST_SLOTS, MOST_SLOTS};
use crate::terms::Cost;

/// What a [`Shares`](crate::Shares) is made for.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Settings {
    /// Deadlines and waiting times that lie closer together than this are not told apart. Rounded
    /// down to a power of two of nanoseconds, 64 of them at least.
    pub resolution: Span,
    /// How far deadlines are told apart: at least half of it into the past, and half of it ahead.
    /// If it is more than 4,096 times the resolution, that is made coarser.
    pub window: Span,
    /// The most that goes in one turn, unless the holder's first frame alone is more. A turn is not
    /// interrupted: whoever has a guarantee may wait for a whole one.
    pub batch: Cost,
    /// What a frame costs beside its bytes where weights share, in bytes: what the link or the
    /// processor could have sent in the time that a frame takes whatever its length.
    pub frame_bytes: u32,
}

impl Settings {
    /// For a link of this rate and frames of at most so many bytes, bytes alone counting. Turns are
    /// of one frame up to a gigabit, and longer than 10 µs nowhere, so that ten times the rate does
    /// not have ten times the turns.
    pub fn of_link(rate: Rate, frame: u32) -> Self {
        let time = rate.time_for(frame.into());
        let resolution = 1 << time.max(Span::from_micros(1)).as_nanos().ilog2();
        let in_time = rate.bytes_in(Span::from_micros(10)).min(64 * u64::from(frame));
        let bytes = u32::try_from(in_time).unwrap_or(u32::MAX).max(frame);
        Self {
            resolution: Span::from_nanos(resolution),
            window: Span::from_nanos(resolution.saturating_mul(MOST_SLOTS)),
            batch: Cost { bytes, frames: 64 },
            frame_bytes: 0,
        }
    }

    /// The slots of the calendars.
    pub(crate) fn scale(&self) -> Scale {
        let window = self.window.as_nanos();
        let finest = self.resolution.as_nanos().max(64).ilog2();
        // As many slots as there may be then reach as far as the window, or further.
        let coarsest =
            (window.saturating_sub(1) / MOST_SLOTS).checked_ilog2().map_or(0, |bits| bits + 1);
        let shift = finest.max(coarsest);
        let slots = (window >> shift).next_power_of_two().clamp(LEAST_SLOTS, MOST_SLOTS);
        Scale { shift, slots }
    }
}

/// Time as slots.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Scale {
    /// A slot is two to this power nanoseconds.
    shift: u32,
    pub slots: u64,
}

impl Scale {
    /// The slot that `at` lies in.
    #[inline]
    pub(crate) fn slot(self, at: Instant) -> u64 {
        at.as_nanos() >> self.shift
    }

    /// The first slot that begins at `at` or later.
    #[inline]
    pub(crate) fn slot_after(self, at: Instant) -> u64 {
        let begun = at.as_nanos() & ((1 << self.shift) - 1);
        self.slot(at) + u64::from(begun != 0)
    }

    /// When a slot begins.
    #[inline]
    pub(crate) fn begin(self, slot: u64) -> Instant {
        Instant::from_nanos(slot.saturating_mul(1 << self.shift))
    }

    /// How long so many slots are.
    pub(crate) fn length(self, slots: u64) -> Span {
        self.begin(slots).since(Instant::ZERO)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_reach_as_far_as_the_window() {
        let scale = |resolution, window| {
            let [resolution, window] = [resolution, window].map(Span::from_nanos);
            Settings { resolution, window, batch: Cost::default(), frame_bytes: 0 }.scale()
        };
        assert_eq!(scale(1_211, 4_096 * 1_211), Scale { shift: 11, slots: 4_096 });
        assert_eq!(scale(1_211, 4_096 * 1_024), Scale { shift: 10, slots: 4_096 });
        assert_eq!(scale(0, 0), Scale { shift: 6, slots: 64 });
        for window in [1, 5_000_000, 16_000_000, u64::MAX] {
            let Scale { shift, slots } = scale(1_000, window);
            assert!(u128::from(slots) << shift >= u128::from(window), "{window}");
        }
    }

    #[test]
    fn a_time_lies_in_the_slot_that_begins_last_before_it() {
        let scale = Scale { shift: 10, slots: 64 };
        let [start, middle] = [3_072, 3_073].map(Instant::from_nanos);
        assert_eq!([scale.slot(start), scale.slot_after(start)], [3, 3]);
        assert_eq!([scale.slot(middle), scale.slot_after(middle)], [3, 4]);
        assert_eq!(scale.begin(3), start);
        assert_eq!(scale.length(2), Span::from_nanos(2_048));
        let last = Instant::from_nanos(u64::MAX);
        assert_eq!(scale.begin(scale.slot_after(last)), last);
    }
}
