//! A token bucket, kept as the time at which it will be full again.

use crate::{Instant, Rate, Span};

/// The generic cell rate algorithm (ITU-T I.371 annex A): one number and no timer.
///
/// What is taken is counted in units, bytes or answers as its owner has it. `full_at` is when the
/// bucket would be full if nothing more were taken; a bucket's depth before it, the bucket is out
/// of debt.
#[derive(Clone, Debug)]
pub struct Gcra {
    /// The time of a unit, in 2⁻³² ns.
    per_unit: u64,
    /// The bucket's depth as a time, in 2⁻³² ns.
    depth: u128,
    /// In 2⁻³² ns.
    full_at: u128,
}

impl Gcra {
    /// A full bucket of so many bytes that fills at this rate.
    pub fn of_bytes(rate: Rate, burst: u32) -> Self {
        let per_byte = (8_000_000_000u128 << 32) / u128::from(rate.bits_per_sec());
        // At one bit a second a byte takes 8 s: 2^33 ns and 32 bits of fraction are 65 bits. Slower
        // than two bits a second we do not go.
        Self::new(u64::try_from(per_byte).unwrap_or(u64::MAX), burst)
    }

    /// A full bucket of so many units, to which one is added in each span of at most four seconds.
    pub fn of_units(each: Span, burst: u32) -> Self {
        Self::new(u64::try_from(u128::from(each.as_nanos()) << 32).unwrap_or(u64::MAX), burst)
    }

    fn new(per_unit: u64, burst: u32) -> Self {
        Self { per_unit, depth: u128::from(per_unit) * u128::from(burst), full_at: 0 }
    }

    /// When the bucket is out of debt; in the past if it is now.
    #[inline]
    pub fn ready_at(&self) -> Instant {
        let ready = self.full_at.saturating_sub(self.depth);
        Instant::from_nanos(u64::try_from(ready.div_ceil(1 << 32)).unwrap_or(u64::MAX))
    }

    /// Takes so many units, into debt if need be.
    #[inline]
    pub fn take(&mut self, now: Instant, units: u64) {
        let now = u128::from(now.as_nanos()) << 32;
        self.full_at = self.full_at.max(now) + u128::from(self.per_unit) * u128::from(units);
    }

    /// Takes a unit if the bucket has one, and never into debt. Whether it had.
    pub fn try_take(&mut self, now: Instant) -> bool {
        let at = u128::from(now.as_nanos()) << 32;
        let full_at = self.full_at.max(at) + u128::from(self.per_unit);
        let has_one = full_at - at <= self.depth;
        if has_one {
            self.full_at = full_at;
        }
        has_one
    }
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
}
