//! A link's transmitter, and what is on the link.

use alloc::collections::VecDeque;

use units::{Instant, Span};

use crate::Link;

/// The check sequence, which frames come without.
pub(crate) const FCS: u64 = 4;

/// The shortest frame, without its check sequence (802.3 §3.2.7).
pub(crate) const SHORTEST: u64 = 60;

/// Sends one frame after the other at its link's rate, and has them arrive a delay later.
#[derive(Debug)]
pub(crate) struct Transmitter<T> {
    link: Link,
    /// When it has sent what it is sending.
    free_at: Instant,
    /// By how much `free_at` is too early: in nanoseconds, divided by the rate in bits a second.
    remainder: u64,
    /// What is on its way, and when it will have arrived.
    underway: VecDeque<(Instant, T)>,
}

impl<T> Transmitter<T> {
    pub fn new(link: Link) -> Self {
        Self { link, free_at: Instant::ZERO, remainder: 0, underway: VecDeque::new() }
    }

    /// When it has sent what it is sending.
    pub fn free_at(&self) -> Instant {
        self.free_at
    }

    /// Sends what is so many frames of so many bytes together, as soon as it is free and not before
    /// `now`.
    pub fn send(&mut self, now: Instant, frames: u16, bytes: u32, what: T) {
        if now > self.free_at {
            (self.free_at, self.remainder) = (now, 0);
        }
        let bytes = u64::from(bytes).max(u64::from(frames) * SHORTEST)
            + u64::from(frames) * (FCS + self.link.overhead.0);
        let rate = u128::from(self.link.rate.bits_per_sec());
        let time = u128::from(bytes) * 8_000_000_000 + u128::from(self.remainder);
        self.free_at += Span::from_nanos(u64::try_from(time / rate).unwrap_or(u64::MAX));
        self.remainder = (time % rate) as u64;
        self.underway.push_back((self.free_at + self.link.delay, what));
    }

    /// Something that another has sent has come by this link.
    pub fn bring(&mut self, at: Instant, what: T) {
        self.underway.push_back((at, what));
    }

    /// When the first that is on its way will have arrived.
    pub fn arrives_at(&self) -> Option<Instant> {
        self.underway.front().map(|(at, _)| *at)
    }

    /// What has arrived by `now`, first the first.
    pub fn arrived(&mut self, now: Instant) -> Option<T> {
        self.arrives_at().filter(|at| *at <= now)?;
        self.underway.pop_front().map(|(_, what)| what)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use units::{Bytes, Rate};

    #[test]
    fn frames_leave_at_the_rate_to_the_bit_and_arrive_a_delay_later() {
        // 1,514 bytes are 1,538 on the wire: 1,230.4 ns.
        let link =
            Link { rate: Rate::from_gbit(10), delay: Span::from_nanos(500), overhead: Bytes(20) };
        let mut transmitter = Transmitter::new(link);
        for number in 0..10 {
            transmitter.send(Instant::ZERO, 1, 1514, number);
        }
        assert_eq!(transmitter.free_at(), Instant::from_nanos(12_304));
        assert_eq!(transmitter.arrives_at(), Some(Instant::from_nanos(1730)));
        assert_eq!(transmitter.arrived(Instant::from_nanos(1729)), None);
        assert_eq!(transmitter.arrived(Instant::from_nanos(1730)), Some(0));
        assert_eq!(transmitter.arrived(Instant::from_nanos(2960)), Some(1));
    }

    #[test]
    fn a_short_frame_takes_as_long_as_the_shortest() {
        let mut transmitter =
            Transmitter::new(Link { rate: Rate::from_gbit(1), ..Link::default() });
        transmitter.send(Instant::ZERO, 2, 84, ());
        assert_eq!(transmitter.free_at(), Instant::from_nanos(2 * 84 * 8));
    }
}
