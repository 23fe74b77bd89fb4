//! Whether those who send to a link may ask too much of it.

use units::{Instant, Rate, Span};

/// For how long arrivals are counted.
const WINDOW: Span = Span::from_micros(200);

/// Over so many datagrams at least: fewer arrive at once without anybody sending much.
const DATAGRAMS: u64 = 8;

/// The part of the rate above which there may be too much, in tenths.
const MUCH: u64 = 9;

/// How long it lasts.
const LASTS: Span = Span::from_millis(1);

/// What arrived lately.
#[derive(Clone, Debug)]
pub(super) struct Inflow {
    window: Span,
    /// More bytes than this in a window are too many.
    most: u64,
    began: Instant,
    bytes: u64,
    calm_at: Instant,
}

impl Inflow {
    pub(super) fn new(rate: Rate, datagram: u32) -> Self {
        let window = rate.time_for(DATAGRAMS * u64::from(datagram)).max(WINDOW);
        let most = rate.bytes_in(window) / 10 * MUCH;
        Self { window, most, began: Instant::ZERO, bytes: 0, calm_at: Instant::ZERO }
    }

    /// So many bytes have arrived.
    #[inline]
    pub(super) fn arrived(&mut self, now: Instant, bytes: u32, is_marked: bool) {
        if now >= self.began + self.window {
            (self.began, self.bytes) = (now, 0);
        }
        self.bytes += u64::from(bytes);
        if is_marked || self.bytes > self.most {
            self.calm_at = now + LASTS;
        }
    }

    pub(super) fn is_contended(&self, now: Instant) -> bool {
        now < self.calm_at
    }

    /// When nothing tells of contention any more, unless more arrives.
    pub(super) fn calm_at(&self) -> Instant {
        self.calm_at
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(us: u64) -> Instant {
        Instant::ZERO + Span::from_micros(us)
    }

    /// Whether datagrams of 1250 bytes, one in so many microseconds, are too many for 10 Gb/s.
    fn is_much(every_us: u64) -> bool {
        let mut inflow = Inflow::new(Rate::from_gbit(10), 1250);
        (0..1000).for_each(|n| inflow.arrived(at(n * every_us), 1250, false));
        inflow.is_contended(at(1000 * every_us))
    }

    #[test]
    fn nine_tenths_of_the_rate_are_much() {
        assert!(is_much(1) && !is_much(2));
    }

    #[test]
    fn a_mark_tells_of_contention_for_a_millisecond() {
        let mut inflow = Inflow::new(Rate::from_gbit(10), 1250);
        inflow.arrived(at(5), 100, true);
        assert!(inflow.is_contended(at(1004)) && !inflow.is_contended(at(1005)));
    }
}
