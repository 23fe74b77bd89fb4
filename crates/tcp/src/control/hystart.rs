//! HyStart (Ha and Rhee 2011), with Linux's constants: ends slow start before the queue overflows.
//!
//! Two signs that the path is full, looked for in every round trip: acknowledgements that have come
//! close to each other for longer than half the shortest round trip, and the first few round trips
//! of a window all being longer than the shortest.

use units::{Instant, Span};

use super::window::{Progress, Window};

/// Below this window there is nothing to see.
const LEAST: u32 = 16;
/// Acknowledgements no further apart belong together.
const CLOSE: Span = Span::from_millis(2);
/// How many round trips tell how long they are.
const SAMPLES: u8 = 8;
/// How much longer is longer, at the least and at the most; an eighth in between.
const LONGER_NS: (u64, u64) = (4_000_000, 16_000_000);
/// What a host may send in one piece: it stretches trains.
const PIECE_BYTES: u64 = 65_536;

/// What was seen in this round trip.
#[derive(Clone, Debug)]
pub(super) struct Hystart {
    from: Instant,
    /// When the last acknowledgement of the train came.
    last: Instant,
    /// It ends when this is acknowledged.
    end: u64,
    shortest_ns: u64,
    samples: u8,
    found: bool,
}

impl Hystart {
    pub(super) fn new() -> Self {
        let from = Instant::ZERO;
        Self { from, last: from, end: 0, shortest_ns: u64::MAX, samples: 0, found: false }
    }

    /// An acknowledgement came in slow start, which may be over now.
    pub(super) fn observe(&mut self, window: &mut Window, progress: &Progress) {
        let Some(round_trip) = progress.round_trip.filter(|_| !self.found) else { return };
        let now = progress.now;
        if progress.una > self.end {
            *self = Self { from: now, last: now, end: progress.next, ..Self::new() };
        }
        if window.size < LEAST {
            return;
        }
        self.found =
            self.is_train(window.size, progress) || self.is_longer(round_trip, progress.shortest);
        if self.found {
            window.threshold = window.size;
        }
    }

    fn is_train(&mut self, size: u32, progress: &Progress) -> bool {
        let now = progress.now;
        if now.since(self.last) > CLOSE {
            return false;
        }
        self.last = now;
        // How long four pieces take at twice the window a round trip, which is how Linux would pace
        // in slow start.
        let pieces = progress.smoothed.as_nanos().saturating_mul(4 * PIECE_BYTES);
        let stretch = pieces / (2 * u64::from(size) * u64::from(progress.mss));
        let full = progress.shortest.as_nanos() / 2 + stretch.min(1_000_000) / 2;
        now.since(self.from).as_nanos() > full
    }

    fn is_longer(&mut self, round_trip: Span, shortest: Span) -> bool {
        self.shortest_ns = self.shortest_ns.min(round_trip.as_nanos());
        if self.samples < SAMPLES {
            self.samples += 1;
            return false;
        }
        let shortest_ns = shortest.as_nanos();
        self.shortest_ns > shortest_ns + (shortest_ns / 8).clamp(LONGER_NS.0, LONGER_NS.1)
    }
}

#[cfg(test)]
mod tests {
    use super::super::window::progress;
    use super::super::window::tests::full;
    use super::*;

    /// Acknowledgements of one window, each so much after the last, of round trips that long; the
    /// shortest takes 40 ms.
    fn window_after(size: u32, apart_us: u64, round_trip_ms: u64, count: u64) -> (u32, bool) {
        let mut hystart = Hystart::new();
        let mut window = full(size, super::super::UNKNOWN);
        for index in 0..count {
            let now = Instant::from_nanos(1_000_000_000 + 1000 * apart_us * index);
            let round_trip = Some(Span::from_millis(round_trip_ms));
            let shortest = Span::from_millis(40);
            let seen =
                Progress { una: 1 + index, next: 1000, round_trip, shortest, ..progress(now, 1) };
            hystart.observe(&mut window, &seen);
        }
        (window.threshold, hystart.found)
    }

    #[test]
    fn a_train_of_half_a_round_trip_fills_the_path() {
        // 20 ms, and half a millisecond for what comes in pieces: 205 times 100 µs, and not 3 ms.
        assert!(!window_after(20, 100, 40, 206).1);
        assert_eq!(window_after(20, 100, 40, 207), (20, true));
        assert!(!window_after(20, 3000, 40, 300).1);
        assert!(!window_after(15, 100, 40, 300).1);
    }

    #[test]
    fn a_forged_stamp_may_tell_of_any_round_trip() {
        let mut hystart = Hystart::new();
        let now = Instant::from_nanos(1);
        let smoothed = Span::from_nanos(1 << 52);
        let seen = Progress { una: 1, smoothed, shortest: smoothed, ..progress(now, 1) };
        hystart.observe(&mut full(20, super::super::UNKNOWN), &seen);
        assert!(!hystart.found);
    }

    #[test]
    fn a_window_of_longer_round_trips_stands_in_a_queue() {
        // An eighth of 40 ms.
        assert_eq!(window_after(20, 1, 46, 9), (20, true));
        assert!(!window_after(20, 1, 46, 8).1);
        assert!(!window_after(20, 1, 45, 100).1);
    }
}
