//! A finer clock than any that tells what time it is: one that only tells how long something took.

/// A counter of ticks: a processor's own, or a clock.
pub trait Ticks: Default {
    /// How many there were so far. It may wrap.
    fn now(&self) -> u64;

    /// How many there are in a second.
    fn per_second(&self) -> u64;
}

/// A counter that stands still, for whoever asks for no times.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoTicks;

impl Ticks for NoTicks {
    #[inline(always)]
    fn now(&self) -> u64 {
        0
    }

    fn per_second(&self) -> u64 {
        1_000_000_000
    }
}
