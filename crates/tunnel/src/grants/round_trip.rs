//! How long it takes from a grant until what is sent by it arrives.

use units::{Instant, Span};

/// Before anything is known.
const FIRST: Span = Span::from_micros(200);
const LEAST: Span = Span::from_micros(10);
/// More is no round trip, but a host that stands still.
const MOST: Span = Span::from_millis(2);

/// How long a time counts, at least.
const COUNTS: Span = Span::from_millis(50);

/// The shortest time lately. Longer ones have queues in them, or hosts that are busy or have
/// nothing to send: what is granted by a time with a queue in it would keep the queue.
#[derive(Clone, Debug)]
pub(super) struct RoundTrip {
    began: Instant,
    /// In this period, and in the one before.
    shortest: Option<Span>,
    before: Span,
}

impl Default for RoundTrip {
    fn default() -> Self {
        Self { began: Instant::ZERO, shortest: None, before: FIRST }
    }
}

impl RoundTrip {
    #[inline]
    pub(super) fn estimate(&self) -> Span {
        self.shortest.map_or(self.before, |shortest| shortest.min(self.before))
    }

    /// It took so long once.
    pub(super) fn sample(&mut self, now: Instant, sample: Span) {
        let sample = sample.clamp(LEAST, MOST);
        if now >= self.began + COUNTS {
            self.before = self.shortest.take().unwrap_or(self.before);
            self.began = now;
        }
        self.shortest = Some(self.shortest.map_or(sample, |shortest| shortest.min(sample)));
    }
}

/// A grant whose use is waited for.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sample {
    pub(super) granted_at: Instant,
    /// What is beyond this was sent by the grant.
    pub(super) limit: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_shortest_time_lately_counts() {
        let mut round_trip = RoundTrip::default();
        let mut now = Instant::ZERO;
        let mut told = |count: u64, sample: &dyn Fn(u64) -> u64| {
            for n in 0..count {
                now += Span::from_millis(1);
                round_trip.sample(now, Span::from_micros(sample(n)));
            }
            round_trip.estimate()
        };
        assert_eq!(told(200, &|n| if n % 8 == 0 { 50 } else { 3_000 }), Span::from_micros(50));
        let since = Span::from_micros(300 + 200 - 100)..Span::from_micros(300 + 200 - 50);
        assert!(since.contains(&told(200, &|n| 300 + n)), "no longer than two periods");
        assert_eq!(told(200, &|_| 0), LEAST);
    }
}
