//! When a handshake message is sent, and sent again.

use units::{Instant, Span};

/// The interval between two messages that are not answered: the first, and the longest. It doubles.
/// As for HELLOs of sessions.
const INTERVALS: [Span; 2] = [Span::from_millis(10), Span::from_secs(1)];

/// Sends at once, and again at intervals that double.
#[derive(Clone, Copy, Debug)]
pub struct Timer {
    at: Instant,
    interval: Span,
}

impl Timer {
    /// Due now.
    pub fn new(now: Instant) -> Self {
        Self { at: now, interval: INTERVALS[0] }
    }

    /// When it is due.
    pub fn deadline(&self) -> Instant {
        self.at
    }

    /// Whether it is due. If so, the next time is set.
    pub fn is_due(&mut self, now: Instant) -> bool {
        let is_due = self.at <= now;
        if is_due {
            self.at = now + self.interval;
            self.interval = (self.interval + self.interval).min(INTERVALS[1]);
        }
        is_due
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn intervals_double_up_to_a_second() {
        let mut timer = Timer::new(Instant::ZERO);
        let mut times = Vec::new();
        while times.len() < 10 {
            let now = timer.deadline();
            assert!(timer.is_due(now) && !timer.is_due(now));
            times.push(now.as_nanos() / 1_000_000);
        }
        assert_eq!(times, [0, 10, 30, 70, 150, 310, 630, 1270, 2270, 3270]);
    }
}
