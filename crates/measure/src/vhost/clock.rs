//! The time stamp counter as a clock, and what is due by it.

use std::time::{Duration, Instant};

use kernel::cycles;

/// How long the counter is watched beside the kernel's clock.
const CALIBRATION: Duration = Duration::from_millis(20);

/// A clock that is quick to read.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    /// Ticks a second.
    pub rate: f64,
}

impl Clock {
    /// Finds out how fast it goes.
    pub fn calibrate() -> Self {
        let (began, first) = (Instant::now(), Self::now());
        loop {
            let (elapsed, ticks) = (began.elapsed(), Self::now() - first);
            if elapsed >= CALIBRATION {
                return Self { rate: ticks as f64 / elapsed.as_secs_f64() };
            }
        }
    }

    /// The time in ticks, from some moment on.
    #[inline]
    pub fn now() -> u64 {
        cycles::now().expect("vhost-user ports are measured on x86-64, where the counter is")
    }

    /// So many seconds in ticks.
    pub fn ticks(self, duration: Duration) -> u64 {
        (duration.as_secs_f64() * self.rate) as u64
    }

    /// So many ticks in seconds.
    pub fn seconds(self, ticks: u64) -> f64 {
        ticks as f64 / self.rate
    }
}

/// What may be done by a moment, at a rate.
#[derive(Clone, Copy, Debug)]
pub struct Bucket {
    per_tick: f64,
    most: f64,
    due: f64,
    last: u64,
}

impl Bucket {
    /// So many a second from now on, of which `most` may come due before any is done; the rest is
    /// forgiven.
    pub fn new(clock: Clock, rate: f64, most: f64, now: u64) -> Self {
        Self { per_tick: rate / clock.rate, most, due: 0.0, last: now }
    }

    /// How many are due.
    #[inline]
    pub fn due(&mut self, now: u64) -> usize {
        self.due = (self.due + (now - self.last) as f64 * self.per_tick).min(self.most);
        self.last = now;
        self.due as usize
    }

    /// So many were done.
    #[inline]
    pub fn done(&mut self, count: usize) {
        self.due -= count as f64;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bucket_forgives_what_is_long_due() {
        let mut bucket = Bucket::new(Clock { rate: 1e9 }, 1e6, 256.0, 1000);
        assert_eq!(bucket.due(1999), 0);
        assert_eq!(bucket.due(3500), 2);
        bucket.done(2);
        assert_eq!(bucket.due(4000), 1, "half a frame was left, and another half came");
        assert_eq!(bucket.due(1_000_000_000), 256);
    }

    #[test]
    fn the_counter_keeps_time() {
        let clock = Clock::calibrate();
        let (began, first) = (Instant::now(), Clock::now());
        while began.elapsed() < Duration::from_millis(30) {}
        let told = clock.seconds(Clock::now() - first);
        assert!(told >= 0.029, "{told} s");
        assert_eq!(clock.ticks(Duration::from_secs(1)), clock.rate as u64);
    }
}
