//! Simulated time, in integer picoseconds.

use std::ops::{Add, AddAssign, Sub};

use units::{Instant, Rate, Span};

/// A point in simulated time, or a length of it: picoseconds. 64 bits of them last 213 days.
///
/// A byte takes 800 ps at 10 Gb/s and 20 ps at 400 Gb/s. In nanoseconds, a frame's length would be
/// rounded, and the order of two frames would depend on how.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct Time(u64);

impl Time {
    /// The beginning; no time.
    pub const ZERO: Self = Self(0);

    /// A time that does not come. What would be later still is this.
    pub const NEVER: Self = Self(u64::MAX);

    /// The last time that comes.
    pub const LAST: Self = Self(u64::MAX - 1);

    /// So many picoseconds.
    pub const fn from_picos(ps: u64) -> Self {
        Self(ps)
    }

    /// Picoseconds.
    pub const fn as_picos(self) -> u64 {
        self.0
    }

    /// Whole nanoseconds.
    pub const fn as_nanos(self) -> u64 {
        self.0 / 1000
    }

    /// The nanosecond that this lies in, as the pure crates count.
    #[inline]
    pub const fn instant(self) -> Instant {
        Instant::from_nanos(self.as_nanos())
    }

    /// Seconds, for people.
    pub fn as_secs_f64(self) -> f64 {
        self.0 as f64 / 1e12
    }
}

impl From<Instant> for Time {
    #[inline]
    fn from(instant: Instant) -> Self {
        Self(instant.as_nanos().saturating_mul(1000))
    }
}

impl From<Span> for Time {
    #[inline]
    fn from(span: Span) -> Self {
        Self(span.as_nanos().saturating_mul(1000))
    }
}

impl Add for Time {
    type Output = Self;

    #[inline]
    fn add(self, other: Self) -> Self {
        Self(self.0.saturating_add(other.0))
    }
}

impl AddAssign for Time {
    #[inline]
    fn add_assign(&mut self, other: Self) {
        *self = *self + other;
    }
}

impl Sub for Time {
    type Output = Self;

    #[inline]
    fn sub(self, other: Self) -> Self {
        Self(self.0 - other.0)
    }
}

/// How long bytes take at a rate, without a division.
#[derive(Clone, Copy, Debug)]
pub struct Pace {
    /// Picoseconds a byte, in 65,536ths.
    per_byte: u64,
}

impl Pace {
    /// The pace of `rate`, which is 1 kb/s or more.
    pub fn of(rate: Rate) -> Self {
        let per_byte = (8_000_000_000_000_u128 << 16) / u128::from(rate.bits_per_sec().max(1000));
        Self { per_byte: per_byte as u64 }
    }

    /// How long `bytes` take: exact to 2^-16 ps a byte.
    #[inline]
    pub const fn time_for(self, bytes: u32) -> Time {
        Time(((self.per_byte as u128 * bytes as u128) >> 16) as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_byte_takes_800_ps_at_10_gbit() {
        let pace = Pace::of(Rate::from_gbit(10));
        assert_eq!(pace.time_for(1), Time::from_picos(800));
        assert_eq!(pace.time_for(1538), Time::from_picos(1_230_400));
        assert_eq!(Pace::of(Rate::from_gbit(400)).time_for(1), Time::from_picos(20));
        // 5,333.3 ps a byte
        assert_eq!(
            Pace::of("1500mbit".parse().unwrap()).time_for(1500),
            Time::from_picos(7_999_999)
        );
        // the slowest, and what a paused sender may go on sending: no overflow
        let slowest = Pace::of("1kbit".parse().unwrap());
        assert_eq!(slowest.time_for(1_000_000), Time::from_picos(8_000_000_000_000_000));
    }

    #[test]
    fn what_is_later_than_the_last_time_is_never() {
        assert_eq!(Time::LAST + Time::from_picos(2), Time::NEVER);
        assert!(Time::LAST < Time::NEVER);
    }
}
