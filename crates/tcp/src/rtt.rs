//! How long a round trip takes, and how long to wait for an acknowledgement (RFC 6298).

use units::{Instant, RttEstimate, Span};

use crate::Rto;

/// Backing off doubles a timeout this often at most; it reaches its maximum long before.
const MOST_BACKOFF: u8 = 16;

/// The estimates of one sender.
#[derive(Clone, Debug)]
pub(crate) struct Rtt {
    /// `None` before the first sample.
    estimate: Option<RttEstimate>,
    /// The shortest ever; u64::MAX before the first.
    min_ns: u64,
    /// The timeout before it is backed off and slop is added.
    base_ns: u64,
    backoff: u8,
}

impl Rtt {
    pub(crate) fn new(rto: &Rto) -> Self {
        Self { estimate: None, min_ns: u64::MAX, base_ns: rto.initial.as_nanos(), backoff: 0 }
    }

    /// Takes in a round trip. It is of a segment that was sent once, or whose copy the other side's
    /// timestamps name: Karn's rule is the caller's.
    #[inline]
    pub(crate) fn sample(&mut self, rto: &Rto, round_trip: Span) {
        let sample = round_trip.max(Span::from_nanos(1));
        self.min_ns = self.min_ns.min(sample.as_nanos());
        let estimate = RttEstimate::after(self.estimate, sample);
        self.estimate = Some(estimate);
        self.base_ns = estimate.timeout(rto.granularity).max(rto.min).min(rto.max).as_nanos();
        self.backoff = 0;
    }

    /// The handshake was retransmitted and told nothing about the round trip (§5.7).
    pub(crate) fn assume_slow(&mut self, rto: &Rto) {
        if self.estimate.is_none() {
            self.base_ns = self.base_ns.max(3_000_000_000).min(rto.max.as_nanos());
            self.backoff = 0;
        }
    }

    /// The timeout.
    #[inline]
    pub(crate) fn timeout(&self, rto: &Rto) -> Span {
        let slop = if self.estimate.is_some() { rto.slop.as_nanos() } else { 0 };
        Span::from_nanos(((self.base_ns << self.backoff) + slop).min(rto.max.as_nanos()))
    }

    /// The timer ran out (§5.5).
    pub(crate) fn back_off(&mut self) {
        self.backoff = (self.backoff + 1).min(MOST_BACKOFF);
    }

    /// The other side is there after all.
    pub(crate) fn forgive(&mut self) {
        self.backoff = 0;
    }

    /// The smoothed round trip; zero before the first sample.
    #[inline]
    pub(crate) fn smoothed(&self) -> Span {
        self.estimate.map_or(Span::ZERO, RttEstimate::smoothed)
    }

    /// The shortest round trip; for ever and a day before the first sample.
    #[inline]
    pub(crate) fn min(&self) -> Span {
        Span::from_nanos(self.min_ns)
    }
}

/// The clock that timestamps are read from (RFC 7323 §5.4).
#[inline]
pub(crate) fn ticks(now: Instant, tick: Span) -> u32 {
    (now.as_nanos() / tick.as_nanos().max(1)) as u32
}

/// That clock, which seldom ticks between two segments.
#[derive(Clone, Debug, Default)]
pub(crate) struct StampClock {
    value: u32,
    /// When it ticks next.
    until: Instant,
}

impl StampClock {
    #[inline]
    pub(crate) fn read(&mut self, now: Instant, tick: Span) -> u32 {
        if now >= self.until {
            self.tick(now, tick);
        }
        self.value
    }

    #[inline(never)]
    fn tick(&mut self, now: Instant, tick: Span) {
        self.value = ticks(now, tick);
        let into = now.as_nanos() % tick.as_nanos().max(1);
        self.until = now + Span::from_nanos(tick.as_nanos().max(1) - into);
    }
}

/// The round trip that an echoed timestamp tells, no finer than its tick (RFC 7323 §4.1).
pub(crate) fn told(now: Instant, tick: Span, echo: u32) -> Span {
    let passed = ticks(now, tick).wrapping_sub(echo).max(1);
    Span::from_nanos(u64::from(passed) * tick.as_nanos())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Profile;

    const RFC: Rto = Rto {
        initial: Span::from_secs(1),
        min: Span::from_secs(1),
        max: Span::from_secs(60),
        granularity: Span::from_millis(100),
        slop: Span::ZERO,
    };

    #[test]
    fn the_timeout_is_the_formula_s() {
        let mut rtt = Rtt::new(&RFC);
        assert_eq!(rtt.timeout(&RFC), Span::from_secs(1));
        // SRTT 400, RTTVAR 200: 400 + 800.
        rtt.sample(&RFC, Span::from_millis(400));
        assert_eq!(rtt.timeout(&RFC), Span::from_millis(1200));
        // RTTVAR (3 * 200 + 240) / 4 = 210, SRTT (7 * 400 + 640) / 8 = 430: 430 + 840.
        rtt.sample(&RFC, Span::from_millis(640));
        assert_eq!(rtt.timeout(&RFC), Span::from_millis(1270));
        rtt.back_off();
        rtt.back_off();
        assert_eq!(rtt.timeout(&RFC), Span::from_millis(4 * 1270));
        for _ in 0..100 {
            rtt.back_off();
        }
        assert_eq!(rtt.timeout(&RFC), Span::from_secs(60));
        // Always the same: the variation decays, the granularity and the minimum stay.
        for _ in 0..200 {
            rtt.sample(&RFC, Span::from_millis(950));
        }
        assert!(
            rtt.timeout(&RFC).as_nanos().abs_diff(1_050_000_000) < 1_000,
            "{}",
            rtt.timeout(&RFC)
        );
        assert_eq!(rtt.min(), Span::from_millis(400));
    }

    #[test]
    fn stacks_have_their_own_minimum() {
        for (profile, us) in [(Profile::Linux, 200_100), (Profile::FreeBsd9, 230_000)] {
            let rto = profile.config().rto;
            let mut rtt = Rtt::new(&rto);
            for _ in 0..50 {
                rtt.sample(&rto, Span::from_micros(100));
            }
            assert_eq!(rtt.timeout(&rto), Span::from_micros(us), "{profile}");
            // FreeBSD's slop is not doubled with the rest.
            rtt.back_off();
            let doubled = 2 * us - rto.slop.as_nanos() / 1000;
            assert_eq!(rtt.timeout(&rto), Span::from_micros(doubled), "{profile}");
        }
    }

    #[test]
    fn a_slow_handshake_is_remembered_until_there_is_a_sample() {
        let mut rtt = Rtt::new(&RFC);
        rtt.back_off();
        rtt.assume_slow(&RFC);
        assert_eq!(rtt.timeout(&RFC), Span::from_secs(3));
        rtt.sample(&RFC, Span::from_millis(100));
        rtt.assume_slow(&RFC);
        assert_eq!(rtt.timeout(&RFC), Span::from_secs(1));
    }
}
