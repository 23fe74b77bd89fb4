//! When frames are sent that are to come evenly.

use std::time::{Duration, Instant};

/// How far behind its schedule a paced program may fall and still catch up; what lies further back
/// is forgiven.
const DEBT: Duration = Duration::from_millis(2);

/// A schedule of evenly spaced moments.
pub(super) struct Pace {
    gap: Duration,
    next: Instant,
}

impl Pace {
    pub fn new(per_second: f64, begin: Instant) -> Self {
        Self { gap: Duration::from_secs_f64(1.0 / per_second.max(1e-3)), next: begin }
    }

    /// Sleeps until the next moment has come.
    pub fn wait(&mut self) {
        let now = Instant::now();
        if now < self.next {
            std::thread::sleep(self.next - now);
        } else if now - self.next > DEBT {
            self.next = now - DEBT;
        }
        self.next += self.gap;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pace_forgives_what_lies_too_far_back() {
        let begin = Instant::now();
        let mut pace = Pace::new(1000.0, begin.checked_sub(Duration::from_secs(5)).unwrap());
        pace.wait();
        assert!(pace.next + DEBT > begin);
    }
}
