//! The columns of a trace, and what they count.

use std::str::FromStr;

use serde::de::{Deserialize, Deserializer};
use units::{Bytes, Rate};

/// The columns of a trace.
#[derive(serde::Deserialize, Clone, Debug, Default)]
#[serde(deny_unknown_fields, default)]
pub struct Columns {
    /// Seconds; `time` if not said.
    pub time: Option<String>,
    /// A counter of what the machine has sent; `sent_bytes` if not said.
    pub sent: Option<String>,
    /// A counter of what it has received; `received_bytes` if not said.
    pub received: Option<String>,
    /// A counter of the frames that it has sent; `sent_packets` if not said.
    pub sent_packets: Option<String>,
    /// A counter of those that it has received; `received_packets` if not said.
    pub received_packets: Option<String>,
    /// A counter of the seconds for which its sender was paused; `paused_seconds` if not said.
    pub paused: Option<String>,
    /// A rate, in place of counters.
    pub rate: Option<String>,
    /// What counters count; or the rate a second. Bytes of counters and bits of a rate if not said.
    pub unit: Option<Counted>,
}

/// What is counted: bits, bytes, or so many of them.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Counted {
    bits: u64,
}

/// A word that is nothing that is counted.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
#[error("`{word}` is no unit: write one as b, kb, kib, mb or mib of bytes, or bit, kbit or mbit")]
pub struct CountedError {
    word: String,
}

impl Counted {
    /// Bits.
    pub const BITS: Self = Self { bits: 1 };
    /// Bytes.
    pub const BYTES: Self = Self { bits: 8 };

    /// How many bits one of them is.
    pub fn bits(self) -> u64 {
        self.bits
    }
}

impl FromStr for Counted {
    type Err = CountedError;

    fn from_str(word: &str) -> Result<Self, CountedError> {
        let one = format!("1{word}");
        let of_bytes = |it: Bytes| it.0 * Self::BYTES.bits;
        let bits = one.parse().map(of_bytes).or_else(|_| one.parse().map(Rate::bits_per_sec));
        match bits {
            Ok(bits) if word.bytes().all(|it| it.is_ascii_lowercase()) => Ok(Self { bits }),
            _ => Err(CountedError { word: word.to_owned() }),
        }
    }
}

impl<'de> Deserialize<'de> for Counted {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        units::deserialize_word(deserializer)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_are_of_bytes_or_of_bits() {
        let bits = |word: &str| word.parse::<Counted>().map(Counted::bits);
        let words = ["b", "kb", "kib", "mib", "bit", "kbit"];
        let counted = [8, 8000, 8192, 8 << 20, 1, 1000];
        assert_eq!(words.map(bits), counted.map(Ok));
        for wrong in ["", "KB", "0kib", "1kb", ".5kb", "packets", "s"] {
            assert!(bits(wrong).is_err(), "{wrong}");
        }
    }
}
