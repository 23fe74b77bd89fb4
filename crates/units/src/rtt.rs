//! How long a round trip takes (RFC 6298 §2).

use core::num::NonZeroU64;

use crate::Span;

/// An estimate of a path's round-trip time, with how much that varies.
#[derive(Clone, Copy, Debug)]
pub struct RttEstimate {
    /// Not zero, so that an `Option` of this takes no more memory.
    smoothed_ns: NonZeroU64,
    variation_ns: u64,
}

impl RttEstimate {
    /// The estimate after one more sample; `before` is `None` at the first. A sample of zero counts
    /// as one nanosecond.
    #[inline]
    pub fn after(before: Option<Self>, sample: Span) -> Self {
        let sample = NonZeroU64::new(sample.as_nanos()).unwrap_or(NonZeroU64::MIN);
        let Some(Self { smoothed_ns, variation_ns }) = before else {
            // §2.2
            return Self { smoothed_ns: sample, variation_ns: sample.get() / 2 };
        };
        // §2.3, with α = 1/8 and β = 1/4
        let (smoothed_ns, sample) = (smoothed_ns.get(), sample.get());
        Self {
            smoothed_ns: NonZeroU64::new((7 * smoothed_ns + sample) / 8)
                .expect("the mean of numbers above zero is above zero"),
            variation_ns: (3 * variation_ns + smoothed_ns.abs_diff(sample)) / 4,
        }
    }

    /// The smoothed round-trip time.
    #[inline]
    pub fn smoothed(self) -> Span {
        Span::from_nanos(self.smoothed_ns.get())
    }

    /// How long to wait for an acknowledgement before the timeout is bounded and backed off. Timers
    /// are no finer than `granularity`.
    #[inline]
    pub fn timeout(self, granularity: Span) -> Span {
        let margin_ns = granularity.as_nanos().max(4 * self.variation_ns);
        Span::from_nanos(self.smoothed_ns.get() + margin_ns)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_timeout_is_the_smoothed_time_and_four_variations() {
        let granularity = Span::from_millis(100);
        // SRTT 400, RTTVAR 200: 400 + 800.
        let mut rtt = RttEstimate::after(None, Span::from_millis(400));
        assert_eq!(rtt.timeout(granularity), Span::from_millis(1200));
        // RTTVAR (3 * 200 + 240) / 4 = 210, SRTT (7 * 400 + 640) / 8 = 430: 430 + 840.
        rtt = RttEstimate::after(Some(rtt), Span::from_millis(640));
        assert_eq!(rtt.smoothed(), Span::from_millis(430));
        assert_eq!(rtt.timeout(granularity), Span::from_millis(1270));
        // Without variation the granularity remains.
        for _ in 0..200 {
            rtt = RttEstimate::after(Some(rtt), Span::from_millis(640));
        }
        let expected = Span::from_millis(740);
        assert!(expected.as_nanos() - rtt.timeout(granularity).as_nanos() < 10);
    }
}
