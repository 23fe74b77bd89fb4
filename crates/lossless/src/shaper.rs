//! A token bucket, kept as the time at which it will be full again.

use alloc::boxed::Box;

use units::Instant;

use crate::config::Shaping;

/// The generic cell rate algorithm (ITU-T I.371 annex A) over bytes: one number and no timer.
///
/// `full_at` is when the bucket would be full if nothing more were sent; a bucket's depth before it, the bucket is
/// out of debt.
#[derive(Clone, Debug)]
pub(crate) struct Shaper {
    /// Nanoseconds a byte, in 2⁻³² ns.
    per_byte: u64,
    /// The bucket's depth as a time, in 2⁻³² ns.
    depth: u128,
    /// In 2⁻³² ns.
    full_at: u128,
}

impl Shaper {
    pub(crate) fn boxed(shaping: Shaping) -> Box<Self> {
        Box::new(Self::new(shaping))
    }

    pub(crate) fn new(shaping: Shaping) -> Self {
        let per_byte = (8_000_000_000u128 << 32) / u128::from(shaping.rate.bits_per_sec());
        // At one bit a second a byte takes 8 s: 2^33 ns and 32 bits of fraction are 65 bits. Slower than two bits a
        // second we do not go.
        let per_byte = u64::try_from(per_byte).unwrap_or(u64::MAX);
        Self { per_byte, depth: u128::from(per_byte) * u128::from(shaping.burst), full_at: 0 }
    }

    /// When the next frame may leave; in the past if it may now.
    #[inline]
    pub(crate) fn ready_at(&self) -> Instant {
        let ready = self.full_at.saturating_sub(self.depth);
        Instant::from_nanos(u64::try_from(ready.div_ceil(1 << 32)).unwrap_or(u64::MAX))
    }

    #[inline]
    pub(crate) fn take(&mut self, now: Instant, bytes: u64) {
        let now = u128::from(now.as_nanos()) << 32;
        self.full_at = self.full_at.max(now) + u128::from(self.per_byte) * u128::from(bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use units::Rate;

    fn send_all(shaping: Shaping, frames: usize) -> u64 {
        let mut shaper = Shaper::new(shaping);
        let mut now = Instant::from_nanos(1_000);
        for _ in 0..frames {
            now = now.max(shaper.ready_at());
            shaper.take(now, 1514);
        }
        now.as_nanos() - 1_000
    }

    #[test]
    fn a_backlog_leaves_at_the_rate() {
        // 10,000 frames of 1,211.2 ns at 10 Gb/s. One byte of depth is what whole nanoseconds cost.
        let ns = send_all(Shaping { rate: Rate::from_gbit(10), burst: 1 }, 10_001);
        assert_eq!(ns, 12_112_000);
    }

    #[test]
    fn a_full_bucket_lets_its_depth_and_one_frame_go_at_once() {
        let shaping = Shaping { rate: Rate::from_gbit(1), burst: 3 * 1514 };
        assert_eq!(send_all(shaping, 4), 0);
        assert!(send_all(shaping, 5) > 0);
    }

    #[test]
    fn an_idle_bucket_saves_no_more_than_its_depth() {
        let mut shaper = Shaper::new(Shaping { rate: Rate::from_gbit(1), burst: 0 });
        let later = Instant::from_nanos(1_000_000_000);
        shaper.take(later, 1514);
        assert_eq!(shaper.ready_at().since(later).as_nanos(), 12_112);
    }
}
