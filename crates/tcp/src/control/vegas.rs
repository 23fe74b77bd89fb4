//! Vegas (Brakmo and Peterson 1995), with Linux's constants and habits: once a round trip it
//! compares the shortest round trip of that window with the shortest ever, and so estimates how
//! many of its own segments stand in queues.
//!
//! As in Linux, the shortest ever is forgotten whenever a flight begins with nothing outstanding: a
//! connection of short messages learns it anew each time.

use units::Span;

use super::window::{LEAST, Progress, Window};

/// Fewer segments in queues than this: the window grows.
const ALPHA: u64 = 2;
/// More than this: it shrinks.
const BETA: u64 = 4;
/// More than this end slow start.
const GAMMA: u64 = 1;

/// One connection's comparison.
#[derive(Clone, Debug)]
pub(crate) struct Vegas {
    /// The shortest round trip ever, and of this window.
    base: Span,
    shortest: Span,
    /// How many round trips were measured in this window.
    samples: u32,
    /// This window ends when this is acknowledged.
    window_end: u64,
    /// Off while losses are repaired.
    on: bool,
}

impl Vegas {
    pub(crate) fn new() -> Self {
        let long = Span::from_nanos(u64::MAX);
        Self { base: long, shortest: long, samples: 0, window_end: 0, on: true }
    }

    pub(crate) fn pause(&mut self) {
        self.on = false;
    }

    pub(crate) fn resume(&mut self, next: u64) {
        self.on = true;
        self.begin(next);
    }

    fn begin(&mut self, next: u64) {
        self.window_end = next;
        self.samples = 0;
        self.shortest = Span::from_nanos(u64::MAX);
    }

    pub(crate) fn observe(&mut self, progress: &Progress) {
        if let Some(round_trip) = progress.round_trip {
            let round_trip = round_trip.max(Span::from_nanos(1));
            self.base = self.base.min(round_trip);
            self.shortest = self.shortest.min(round_trip);
            self.samples += 1;
        }
    }

    pub(crate) fn grow(&mut self, window: &mut Window, progress: &Progress) {
        if !self.on {
            grow_as_reno(window, progress);
            return;
        }
        if progress.una <= self.window_end {
            if window.is_slow_start() {
                window.slow_start(progress.delivered);
            }
            return;
        }
        // Two samples may both be of delayed acknowledgements.
        if self.samples <= 2 {
            grow_as_reno(window, progress);
        } else {
            self.adjust(window, progress.delivered);
        }
        self.begin(progress.next);
    }

    /// Once a round trip.
    fn adjust(&self, window: &mut Window, delivered: u32) {
        let (base, shortest) = (self.base.as_nanos(), self.shortest.as_nanos());
        let size = u64::from(window.size);
        let queued = size.saturating_mul(shortest - base) / base;
        if window.is_slow_start() {
            if queued > GAMMA {
                // What the path carries without queues.
                let carried = (size.saturating_mul(base) / shortest) as u32;
                window.size = window.size.min(carried + 1).max(LEAST);
                window.threshold = window.threshold.min(window.size - 1);
            } else {
                window.slow_start(delivered);
            }
        } else if queued > BETA {
            window.size = (window.size - 1).max(LEAST);
            window.threshold = window.threshold.min(window.size - 1);
        } else if queued < ALPHA {
            window.size += 1;
        }
        window.threshold = window.remembered();
    }
}

fn grow_as_reno(window: &mut Window, progress: &Progress) {
    if window.is_limiting() {
        window.grow_as_reno(progress.delivered);
    }
}

#[cfg(test)]
mod tests {
    use super::super::window::progress;
    use super::super::window::tests::full;
    use super::*;
    use units::Instant;

    /// A window's worth of acknowledgements, each after this round trip; the base is 100 µs.
    fn round(size: u32, threshold: u32, us: u64) -> (u32, u32) {
        let mut vegas = Vegas { base: Span::from_micros(100), ..Vegas::new() };
        let mut window = full(size, threshold);
        for _ in 0..5 {
            let round_trip = Some(Span::from_micros(us));
            vegas.observe(&Progress { round_trip, ..progress(Instant::ZERO, 1) });
        }
        vegas.grow(&mut window, &Progress { una: 1, next: 2, ..progress(Instant::ZERO, 1) });
        assert_eq!((vegas.samples, vegas.window_end), (0, 2));
        (window.size, window.threshold)
    }

    #[test]
    fn two_to_four_segments_stand_in_queues() {
        // 100 segments: 1 µs more is one segment in queues.
        assert_eq!(round(100, 50, 101).0, 101);
        assert_eq!(round(100, 50, 102).0, 100);
        assert_eq!(round(100, 50, 104).0, 100);
        assert_eq!(round(100, 50, 105).0, 99);
    }

    #[test]
    fn slow_start_ends_with_the_second_segment_in_queues() {
        assert_eq!(round(100, 1000, 101).0, 101);
        // 100 * 100 / 125 = 80 are carried without queues.
        assert_eq!(round(100, 1000, 125), (81, 80));
    }

    #[test]
    fn few_samples_and_repairs_leave_it_to_reno() {
        let mut vegas = Vegas::new();
        let mut window = full(10, 5);
        vegas.observe(&progress(Instant::ZERO, 1));
        vegas.grow(&mut window, &Progress { una: 1, ..progress(Instant::ZERO, 10) });
        assert_eq!(window.size, 11);
        vegas.pause();
        vegas.grow(&mut window, &progress(Instant::ZERO, 11));
        assert_eq!(window.size, 12);
    }
}
