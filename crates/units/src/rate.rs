//! Data rates in bits per second.

use core::fmt;
use core::str::FromStr;

use crate::word;
use crate::{ParseUnitError, Span};

/// A data rate in bits per second; never zero, so that every frame leaves some day.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct Rate(u64);

const UNITS: &[(&str, u64)] = &[
    ("bit", 1),
    ("kbit", 1_000),
    ("mbit", 1_000_000),
    ("gbit", 1_000_000_000),
    ("tbit", 1_000_000_000_000),
];

impl Rate {
    /// A rate of `bits` per second; `None` for zero.
    pub const fn from_bits_per_sec(bits: u64) -> Option<Self> {
        if bits == 0 { None } else { Some(Self(bits)) }
    }

    /// A rate of `gbit` gigabits per second.
    ///
    /// # Panics
    ///
    /// If `gbit` is zero.
    pub const fn from_gbit(gbit: u64) -> Self {
        assert!(gbit > 0, "a rate is never zero");
        Self(gbit * 1_000_000_000)
    }

    /// Bits per second.
    pub const fn bits_per_sec(self) -> u64 {
        self.0
    }

    /// How long `bytes` take at this rate, rounded up to whole nanoseconds.
    pub fn time_for(self, bytes: u64) -> Span {
        let ns = (u128::from(bytes) * 8 * 1_000_000_000).div_ceil(u128::from(self.0));
        Span::from_nanos(u64::try_from(ns).unwrap_or(u64::MAX))
    }

    /// How many whole bytes this rate carries in `span`.
    pub fn bytes_in(self, span: Span) -> u64 {
        let bytes = u128::from(self.0) * u128::from(span.as_nanos()) / 8_000_000_000;
        u64::try_from(bytes).unwrap_or(u64::MAX)
    }

    /// How deep a token bucket of this rate is to be, in bytes, so that a link of this MTU stays
    /// busy: two full frames with a tag, or what the rate carries in 50 µs, by which a timer or a
    /// look at the clock may be late. What the bucket cannot hold meanwhile is lost for good: at a
    /// gigabit three frames reach 97 % of the rate, four 99 %.
    pub fn bucket_bytes(self, mtu: u32) -> u32 {
        let late = u32::try_from(self.bytes_in(Span::from_micros(50))).unwrap_or(u32::MAX);
        late.max(2 * (mtu + 18))
    }
}

impl FromStr for Rate {
    type Err = ParseUnitError;

    fn from_str(text: &str) -> Result<Self, ParseUnitError> {
        let bits = word::parse(text, UNITS);
        bits.and_then(Self::from_bits_per_sec).ok_or_else(|| {
            let wanted = if bits.is_some() { "a rate above zero" } else { "a rate" };
            ParseUnitError::new(text, wanted, "1gbit, 100mbit or 2.5gbit")
        })
    }
}

impl fmt::Display for Rate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (count, unit) = word::whole(self.0, UNITS);
        write!(f, "{count}{unit}")
    }
}

#[cfg(feature = "serde")]
crate::serde_as_word!(Rate);

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::ToString;

    #[test]
    fn a_full_frame_takes_twelve_microseconds_at_a_gigabit() {
        assert_eq!(Rate::from_gbit(1).time_for(1500), Span::from_micros(12));
        assert_eq!(Rate::from_gbit(1).bytes_in(Span::from_micros(12)), 1500);
    }

    #[test]
    fn a_bucket_holds_two_frames_or_what_a_late_look_costs() {
        assert_eq!(Rate::from_gbit(1).bucket_bytes(1500), 6250);
        assert_eq!("100mbit".parse::<Rate>().unwrap().bucket_bytes(1500), 3036);
    }

    #[test]
    fn zero_is_not_a_rate() {
        let complaint = |text: &str| text.parse::<Rate>().unwrap_err().to_string();
        assert!(complaint("0gbit").starts_with("`0gbit` is not a rate above zero: "));
        assert!(complaint("1gbps").starts_with("`1gbps` is not a rate: write it as 1gbit"));
        assert_eq!("2.5gbit".parse::<Rate>().unwrap().to_string(), "2500mbit");
    }
}
