//! How long it takes from a grant until what is sent by it arrives.

use units::{Instant, Span};

/// Before anything is known.
const FIRST: Span = Span::from_micros(200);
const LEAST: Span = Span::from_micros(10);
/// More is no round trip, but a host that stands still, or has nothing to send.
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
    /// What is waited for as threads are late, and when it last changed.
    late: Span,
    late_at: Instant,
}

impl RoundTrip {
    pub(super) fn new() -> Self {
        let (began, late_at) = (Instant::ZERO, Instant::ZERO);
        Self { began, shortest: None, before: FIRST, late: Span::ZERO, late_at }
    }

    #[inline]
    pub(super) fn estimate(&self) -> Span {
        self.shortest.map_or(self.before, |shortest| shortest.min(self.before)).max(self.late)
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

    /// It took so long once, while the link was idle for a part of that: no queue was waited for.
    pub(super) fn rise(&mut self, now: Instant, sample: Span) {
        self.late = self.late.max(sample);
        self.late_at = now;
    }

    /// Credit is granted in turn at `now`. Forgets some of the lateness if none was seen for a
    /// while; returns whether it did.
    pub(super) fn forget(&mut self, now: Instant) -> bool {
        let is_over = self.late > Span::ZERO && now >= self.late_at + COUNTS;
        if is_over {
            let left = self.late.as_nanos() / FORGOTTEN * (FORGOTTEN - 1);
            self.late = if left > LEAST.as_nanos() { Span::from_nanos(left) } else { Span::ZERO };
            self.late_at = now;
        }
        is_over
    }
}

/// Of the time by which threads are late, so much is forgotten in a period in which they are not.
const FORGOTTEN: u64 = 8;

/// A grant whose use is waited for.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sample {
    pub(super) granted_at: Instant,
    /// What is beyond this was sent by the grant.
    pub(super) limit: u64,
    /// What had arrived by then, of all.
    pub(super) arrivals: u64,
    /// Whether what is beyond the limit waited for the grant, and for nothing else before it.
    pub(super) was_short: bool,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_shortest_time_lately_counts() {
        let mut round_trip = RoundTrip::new();
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
