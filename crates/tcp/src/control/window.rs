//! The congestion window, and what an acknowledgement brings to it.

use units::{Instant, Span};

/// A slow start threshold that is not known yet.
pub(crate) const UNKNOWN: u32 = u32::MAX / 2;

/// Below this no loss and no mark pushes the threshold (RFC 5681 §3.1).
pub(super) const LEAST: u32 = 2;

/// The congestion window, in segments, and how far it is used.
#[derive(Clone, Debug)]
pub(crate) struct Window {
    /// How many segments may be in flight.
    pub size: u32,
    /// Below it the window grows by what is delivered.
    pub threshold: u32,
    /// Delivered segments that have not made the window grow yet.
    credit: u32,
    /// Whether the window, and nothing else, held the sender back, in the flight that ends at
    /// `flight_end`.
    limited: bool,
    /// The most that was out in that flight.
    most_out: u32,
    flight_end: u64,
    /// Since `full_at`, when the window was last full, no more than so much was out.
    used: u32,
    full_at: Instant,
}

impl Window {
    pub(crate) fn new(size: u32) -> Self {
        Self {
            size,
            threshold: UNKNOWN,
            credit: 0,
            limited: false,
            most_out: 0,
            flight_end: 0,
            used: 0,
            full_at: Instant::ZERO,
        }
    }

    #[inline]
    pub(crate) fn is_slow_start(&self) -> bool {
        self.size < self.threshold
    }

    /// Whether the window bounds the sender. Growing one that is not used would be a promise nobody
    /// tested (RFC 7661); in slow start, half used is used.
    #[inline]
    pub(crate) fn is_limiting(&self) -> bool {
        self.limited || self.is_slow_start() && self.size < 2 * self.most_out
    }

    /// Books a transmission: `out` segments are out now and `in_flight` of them in the network.
    #[inline]
    pub(crate) fn note_use(&mut self, now: Instant, una: u64, next: u64, out: u32, in_flight: u32) {
        let limited = in_flight >= self.size;
        if una >= self.flight_end || limited || !self.limited && out > self.most_out {
            self.limited = limited;
            self.most_out = out;
            self.flight_end = next;
        }
        if self.is_limiting() {
            self.used = 0;
            self.full_at = now;
        } else {
            self.used = self.used.max(out);
        }
    }

    /// Gives half of what was not used for a whole timeout back (RFC 2861 §3).
    #[inline]
    pub(crate) fn decay(&mut self, now: Instant, timeout: Span, initial: u32) {
        if now.since(self.full_at) < timeout || self.is_limiting() {
            return;
        }
        let used = self.used.max(initial);
        if used < self.size {
            self.threshold = self.remembered();
            self.size = (self.size + used) / 2;
        }
        self.used = 0;
        self.full_at = now;
    }

    /// Begins again after a pause, from half the window for each timeout it lasted (RFC 2861 §3),
    /// but never above the initial window.
    pub(crate) fn restart(&mut self, now: Instant, pause: Span, timeout: Span, initial: u32) {
        let floor = initial.min(self.size);
        self.threshold = self.remembered();
        let halvings = pause.as_nanos() / timeout.as_nanos().max(1);
        self.size = self.size.checked_shr(halvings.min(32) as u32).unwrap_or(0).max(floor);
        self.used = 0;
        self.full_at = now;
    }

    /// The threshold that remembers what the window was (RFC 2861 §3).
    pub(super) fn remembered(&self) -> u32 {
        self.threshold.max(self.size / 2 + self.size / 4)
    }

    /// Grows by what was delivered, up to the threshold. Returns what is left for congestion
    /// avoidance.
    #[inline]
    pub(super) fn slow_start(&mut self, delivered: u32) -> u32 {
        let grown = (self.size + delivered).min(self.threshold);
        let left = delivered - (grown - self.size);
        self.size = grown;
        left
    }

    /// Grows by one for every `per` segments delivered.
    #[inline]
    pub(super) fn add(&mut self, delivered: u32, per: u32) {
        self.credit += delivered;
        while self.credit >= per {
            self.credit -= per;
            self.size += 1;
        }
    }

    /// Reno's growth (RFC 5681 §3.1), by segments delivered rather than by acknowledgements (RFC
    /// 3465 §2), as Linux counts.
    #[inline]
    pub(super) fn grow_as_reno(&mut self, delivered: u32) {
        let mut left = delivered;
        if self.is_slow_start() {
            left = self.slow_start(left);
        }
        if left > 0 {
            self.add(left, self.size);
        }
    }

    pub(crate) fn forget_credit(&mut self) {
        self.credit = 0;
    }
}

/// What an acknowledgement brings to congestion control.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Progress {
    pub now: Instant,
    /// Segments that are newly known to be delivered.
    pub delivered: u32,
    /// How long the last of them was under way.
    pub round_trip: Option<Span>,
    /// The smoothed round trip, and the shortest ever.
    pub smoothed: Span,
    pub shortest: Span,
    /// Payload in a full segment.
    pub mss: u16,
    /// SND.UNA and SND.NXT.
    pub una: u64,
    pub next: u64,
    /// Whether it echoes a mark.
    pub marked: bool,
}

#[cfg(test)]
pub(super) fn progress(now: Instant, delivered: u32) -> Progress {
    let round_trip = Span::from_millis(10);
    Progress {
        now,
        delivered,
        round_trip: Some(round_trip),
        smoothed: round_trip,
        shortest: round_trip,
        mss: 1448,
        una: 0,
        next: 0,
        marked: false,
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::super::Algorithm;
    use super::*;

    /// A window that is always full.
    pub(crate) fn full(size: u32, threshold: u32) -> Window {
        Window { threshold, limited: true, ..Window::new(size) }
    }

    #[test]
    fn slow_start_doubles_and_avoidance_adds_one() {
        let mut window = full(10, 40);
        window.grow_as_reno(10);
        window.grow_as_reno(20);
        assert_eq!(window.size, 40);
        window.grow_as_reno(40);
        assert_eq!(window.size, 41);
        window.grow_as_reno(40);
        assert_eq!(window.size, 41);
        window.grow_as_reno(1);
        assert_eq!(window.size, 42);
        // Across the threshold, the rest counts for avoidance.
        let mut window = full(9, 10);
        window.grow_as_reno(11);
        assert_eq!(window.size, 11);
    }

    #[test]
    fn a_window_that_is_not_used_does_not_grow() {
        let mut window = Window { threshold: 10, ..Window::new(20) };
        window.note_use(Instant::ZERO, 0, 100, 5, 5);
        Algorithm::Reno.grow(&mut window, &progress(Instant::ZERO, 20));
        assert_eq!(window.size, 20);
        window.note_use(Instant::ZERO, 0, 100, 20, 20);
        Algorithm::Reno.grow(&mut window, &progress(Instant::ZERO, 20));
        assert_eq!(window.size, 21);
    }

    #[test]
    fn a_pause_costs_half_for_each_timeout_down_to_the_initial_window() {
        let timeout = Span::from_millis(200);
        let mut window = Window { threshold: 30, ..Window::new(100) };
        window.restart(Instant::ZERO, Span::from_millis(500), timeout, 10);
        assert_eq!((window.size, window.threshold), (25, 75));
        window.restart(Instant::ZERO, Span::from_secs(60), timeout, 10);
        assert_eq!(window.size, 10);
        let mut window = Window::new(4);
        window.restart(Instant::ZERO, Span::from_secs(60), timeout, 10);
        assert_eq!(window.size, 4);
    }
}
