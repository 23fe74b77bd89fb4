//! Sizes in bytes.

use core::fmt;
use core::str::FromStr;

use crate::ParseUnitError;
use crate::word;

/// A size in bytes.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct Bytes(pub u64);

const UNITS: &[(&str, u64)] = &[
    ("b", 1),
    ("kb", 1_000),
    ("kib", 1 << 10),
    ("mb", 1_000_000),
    ("mib", 1 << 20),
    ("gb", 1_000_000_000),
    ("gib", 1 << 30),
];

impl FromStr for Bytes {
    type Err = ParseUnitError;

    fn from_str(text: &str) -> Result<Self, ParseUnitError> {
        word::parse(text, UNITS)
            .map(Self)
            .ok_or_else(|| ParseUnitError::new(text, "a size", "64kib, 1mb or 1500b"))
    }
}

impl fmt::Display for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (count, unit) = word::whole(self.0, UNITS);
        write!(f, "{count}{unit}")
    }
}

#[cfg(feature = "serde")]
crate::serde_as_word!(Bytes);
