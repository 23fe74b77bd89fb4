//! A token bucket, kept as the time at which it will be full again.

use core::num::{NonZeroU32, NonZeroU64};

use crate::{Instant, Rate, Span};

/// The generic cell rate algorithm (ITU-T I.371 annex A): one number and no timer.
///
/// What is taken is counted in units, bytes or answers as its owner has it. `full_at` is when the
/// bucket would be full if nothing more were taken; a bucket's depth before it, the bucket is out
/// of debt.
///
/// Whoever takes `n` units no sooner than [`ready_for`](Self::ready_for) says of `n` takes, in any
/// interval, no more than the bucket's depth, or the largest take if that is more, and what its
/// rate adds in that time. Rates are rounded up, by less than one part in ten
/// million up to a terabit a second.
#[derive(Clone, Debug)]
pub struct Gcra {
    /// The time of a unit, in 2⁻³⁰ ns. At one bit a second a byte takes 8 s: 63 bits.
    per_unit: NonZeroU64,
    /// In whole nanoseconds, and 2⁻³⁰ of them.
    full_at: u64,
    fraction: u32,
    /// In units.
    depth: u32,
}

const _: () = assert!(size_of::<Option<Gcra>>() == 24, "there may be four for each holder");

/// Bits of a nanosecond's fraction.
const FRACTION: u32 = 30;

impl Gcra {
    /// A full bucket of so many bytes that fills at this rate.
    pub fn of_bytes(rate: Rate, burst: u32) -> Self {
        Self::new(8_000_000_000, rate.bits_per_sec(), burst)
    }

    /// A full bucket of so many units, to which one is added in each span of at most 17 seconds.
    pub fn of_units(each: Span, burst: u32) -> Self {
        Self::new(each.as_nanos(), 1, burst)
    }

    /// A full bucket of so many units, to which so many are added in a second.
    pub fn per_second(units: NonZeroU32, burst: u32) -> Self {
        Self::new(1_000_000_000, units.get().into(), burst)
    }

    /// A unit takes `ns / units` nanoseconds.
    fn new(ns: u64, units: u64, depth: u32) -> Self {
        let per_unit = (u128::from(ns) << FRACTION) / u128::from(units);
        let per_unit = u64::try_from(per_unit).unwrap_or(u64::MAX);
        let per_unit = NonZeroU64::new(per_unit).unwrap_or(NonZeroU64::MIN);
        Self { per_unit, full_at: 0, fraction: 0, depth }
    }

    /// This bucket, full when `other` would be: how an owner changes a rate or a depth without
    /// forgiving what was taken.
    pub fn full_with(self, other: &Self) -> Self {
        Self { full_at: other.full_at, fraction: other.fraction, ..self }
    }

    /// When the bucket is out of debt; in the past if it is now.
    #[inline]
    pub fn ready_at(&self) -> Instant {
        self.ready_for(0)
    }

    /// When so many units may be taken without debt; in the past if they may now. More than the
    /// bucket's depth may when it is full.
    #[inline]
    pub fn ready_for(&self, units: u32) -> Instant {
        let missing = self.time(self.depth.saturating_sub(units).into());
        let ready = self.full().saturating_sub(missing);
        Instant::from_nanos(u64::try_from(ready.div_ceil(1 << FRACTION)).unwrap_or(u64::MAX))
    }

    /// How many whole units may be taken now without debt.
    #[inline]
    pub fn holds(&self, now: Instant) -> u32 {
        let depth = self.depth_time();
        let saved = (from_instant(now) + depth).saturating_sub(self.full());
        if saved >= depth {
            return self.depth;
        }
        let units = match u64::try_from(saved) {
            Ok(saved) => saved / self.per_unit,
            Err(_) => (saved / u128::from(self.per_unit.get())) as u64,
        };
        // Less than the depth, which has 32 bits.
        units as u32
    }

    /// Takes so many units, into debt if need be.
    #[inline]
    pub fn take(&mut self, now: Instant, units: u64) {
        self.overflow(now);
        self.spend(units);
    }

    /// Lets go of what the bucket could not hold by now. Until then units that its rate has added
    /// are there, however late they are spent.
    #[inline]
    pub fn overflow(&mut self, now: Instant) {
        if self.full_at < now.as_nanos() {
            (self.full_at, self.fraction) = (now.as_nanos(), 0);
        }
    }

    /// Takes so many units, into debt if need be, of all that its rate has added since the last
    /// [`overflow`](Self::overflow).
    #[inline]
    pub fn spend(&mut self, units: u64) {
        self.set_full(self.full().saturating_add(self.time(units)));
    }

    /// Takes a unit if the bucket has one, and never into debt. Whether it had.
    pub fn try_take(&mut self, now: Instant) -> bool {
        let at = from_instant(now);
        let full = self.full().max(at) + self.time(1);
        let has_one = full - at <= self.depth_time();
        if has_one {
            self.set_full(full);
        }
        has_one
    }

    #[inline]
    fn full(&self) -> u128 {
        u128::from(self.full_at) << FRACTION | u128::from(self.fraction)
    }

    #[inline]
    fn set_full(&mut self, full: u128) {
        self.full_at = u64::try_from(full >> FRACTION).unwrap_or(u64::MAX);
        self.fraction = full as u32 & ((1 << FRACTION) - 1);
    }

    #[inline]
    fn depth_time(&self) -> u128 {
        self.time(self.depth.into())
    }

    #[inline]
    fn time(&self, units: u64) -> u128 {
        u128::from(self.per_unit.get()) * u128::from(units)
    }
}

#[inline]
fn from_instant(now: Instant) -> u128 {
    u128::from(now.as_nanos()) << FRACTION
}

#[cfg(test)]
mod tests {
    use super::*;

    fn send_all(rate: Rate, burst: u32, frames: usize) -> u64 {
        let mut bucket = Gcra::of_bytes(rate, burst);
        let mut now = Instant::from_nanos(1_000);
        for _ in 0..frames {
            now = now.max(bucket.ready_at());
            bucket.take(now, 1514);
        }
        now.as_nanos() - 1_000
    }

    #[test]
    fn a_backlog_leaves_at_the_rate() {
        // 10,000 frames of 1,211.2 ns at 10 Gb/s. One byte of depth is what whole nanoseconds cost.
        assert_eq!(send_all(Rate::from_gbit(10), 1, 10_001), 12_112_000);
    }

    #[test]
    fn a_full_bucket_lets_its_depth_and_one_frame_go_at_once() {
        assert_eq!(send_all(Rate::from_gbit(1), 3 * 1514, 4), 0);
        assert!(send_all(Rate::from_gbit(1), 3 * 1514, 5) > 0);
    }

    #[test]
    fn an_idle_bucket_saves_no_more_than_its_depth() {
        let mut bucket = Gcra::of_bytes(Rate::from_gbit(1), 0);
        let later = Instant::from_nanos(1_000_000_000);
        bucket.take(later, 1514);
        assert_eq!(bucket.ready_at().since(later).as_nanos(), 12_112);
    }

    #[test]
    fn who_takes_what_there_is_gets_the_depth_at_once_and_then_the_rate() {
        let mut bucket = Gcra::of_units(Span::from_millis(1), 4);
        let mut now = Instant::from_nanos(1_000_000_000);
        let take_all = |bucket: &mut Gcra, now| {
            core::iter::repeat_with(|| bucket.try_take(now)).take_while(|had| *had).count()
        };
        assert_eq!(take_all(&mut bucket, now), 4);
        now += Span::from_micros(2_500);
        assert_eq!(take_all(&mut bucket, now), 2);
        now += Span::from_secs(100);
        assert_eq!(take_all(&mut bucket, now), 4);
    }

    #[test]
    fn what_waits_for_its_bytes_keeps_to_depth_and_rate_in_every_interval() {
        let mut bucket = Gcra::of_bytes(Rate::from_gbit(1), 3000);
        let mut takes = alloc::vec::Vec::new();
        let mut now = Instant::from_nanos(500);
        for round in 0..200u64 {
            // Now and then a rest.
            now += Span::from_nanos(round % 7 / 6 * 40_000);
            let bytes = 64 + round as u32 * 37 % 1451;
            now = now.max(bucket.ready_for(bytes));
            bucket.take(now, bytes.into());
            takes.push((now, u64::from(bytes)));
        }
        for (at, &(begin, _)) in takes.iter().enumerate() {
            let mut taken = 0;
            for &(end, bytes) in &takes[at..] {
                taken += bytes;
                assert!(taken <= 3000 + Rate::from_gbit(1).bytes_in(end.since(begin)) + 1);
            }
        }
    }

    #[test]
    fn a_bucket_holds_what_may_be_taken_now_and_no_more() {
        let mut bucket = Gcra::per_second(NonZeroU32::new(1_000_000).unwrap(), 8);
        let now = Instant::from_nanos(1_000_000);
        assert_eq!(bucket.holds(now), 8);
        bucket.take(now, 10);
        assert_eq!(bucket.holds(now), 0);
        assert_eq!(bucket.ready_for(3).since(now), Span::from_micros(5));
        assert_eq!(bucket.holds(now + Span::from_micros(5)), 3);
        assert_eq!(bucket.holds(now + Span::from_secs(1)), 8);
        assert_eq!(
            Gcra::of_bytes(Rate::from_bits_per_sec(1).unwrap(), u32::MAX).holds(now),
            u32::MAX
        );
    }

    #[test]
    fn units_that_came_while_nobody_looked_are_there_until_the_bucket_overflows() {
        let mut bucket = Gcra::of_units(Span::from_micros(1), 1);
        let now = Instant::from_nanos(1_000_000_000);
        bucket.overflow(now);
        bucket.spend(5);
        // 20 came, of which 5 were spent: 15 more are spent in one go, and a burst.
        let later = now + Span::from_micros(20);
        bucket.spend(15);
        assert_eq!(bucket.ready_for(1), later);
        bucket.overflow(later + Span::from_micros(7));
        assert_eq!(bucket.ready_for(1), later + Span::from_micros(7));
    }

    #[test]
    fn another_rate_forgives_nothing() {
        let mut slow = Gcra::of_units(Span::from_millis(1), 1);
        let now = Instant::from_nanos(5_000);
        slow.take(now, 10);
        let fast = Gcra::of_units(Span::from_micros(1), 4).full_with(&slow);
        assert_eq!(fast.ready_at(), now + Span::from_micros(9_996));
    }

    #[test]
    fn numbers_without_end_saturate() {
        let slowest = Rate::from_bits_per_sec(1).unwrap();
        let fastest = Rate::from_bits_per_sec(u64::MAX).unwrap();
        for rate in [slowest, fastest] {
            for now in [Instant::ZERO, Instant::from_nanos(u64::MAX)] {
                let mut bucket = Gcra::of_bytes(rate, u32::MAX);
                bucket.take(now, u64::MAX);
                bucket.take(now, u64::MAX);
                bucket.try_take(now);
                bucket.ready_for(u32::MAX);
                bucket.holds(now);
            }
        }
        let mut slowest = Gcra::of_bytes(slowest, 0);
        slowest.take(Instant::ZERO, 1);
        assert_eq!(slowest.ready_at(), Instant::from_nanos(8_000_000_000));
    }
}
