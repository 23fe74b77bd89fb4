//! A number and its unit, written as one word: `10s`, `1.5gbit`, `64kib`.

use alloc::borrow::ToOwned;
use alloc::string::String;
#[cfg(feature = "serde")]
use alloc::string::ToString;
#[cfg(feature = "serde")]
use core::fmt;
#[cfg(feature = "serde")]
use core::marker::PhantomData;

/// Why a word is not the quantity it was meant to be.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
#[error("`{word}` is not {wanted}: write it as {example}")]
pub struct ParseUnitError {
    word: String,
    wanted: &'static str,
    example: &'static str,
}

impl ParseUnitError {
    pub(crate) fn new(word: &str, wanted: &'static str, example: &'static str) -> Self {
        Self { word: word.to_owned(), wanted, example }
    }
}

/// Reads `<number><unit>` in whole base units; `units` lists each unit's size in base units.
///
/// Fractions are read as written and must come out whole, so `1.5us` is 1,500 ns and `0.5ns` is
/// nothing. `None` for anything else: an unknown unit, a sign, a number that does not fit.
pub(crate) fn parse(word: &str, units: &[(&str, u64)]) -> Option<u64> {
    let end = word.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(word.len());
    let (number, unit) = word.split_at(end);
    let scale = units.iter().find(|(name, _)| *name == unit.trim_start())?.1;
    let (whole, fraction) = number.split_once('.').unwrap_or((number, "0"));
    let whole = whole.parse::<u64>().ok()?.checked_mul(scale)?;
    let tenths = 10u64.checked_pow(u32::try_from(fraction.len()).ok()?)?;
    let part = u128::from(fraction.parse::<u64>().ok()?) * u128::from(scale);
    if !part.is_multiple_of(u128::from(tenths)) {
        return None;
    }
    whole.checked_add(u64::try_from(part / u128::from(tenths)).ok()?)
}

/// The largest unit that divides `value`, and how many of it there are; nothing is counted in base
/// units.
///
/// A table begins with its base unit, of scale 1.
pub(crate) fn whole<'a>(value: u64, units: &[(&'a str, u64)]) -> (u64, &'a str) {
    let mut best = units[0];
    for unit in units {
        if value != 0 && value.is_multiple_of(unit.1) && unit.1 > best.1 {
            best = *unit;
        }
    }
    (value / best.1, best.0)
}

/// Stores a type as the word that people write: what it prints to, and parses from.
#[cfg(feature = "serde")]
#[macro_export]
macro_rules! serde_as_word {
    ($($word:ty),*) => {$(
        impl serde::Serialize for $word {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.collect_str(self)
            }
        }

        impl<'de> serde::Deserialize<'de> for $word {
            fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                $crate::deserialize_word(deserializer)
            }
        }
    )*};
}

/// Reads a type from the word that people write: see [`serde_as_word!`](crate::serde_as_word).
/// What is no word is refused with the type's own sentence, so `10` is told which units there are.
#[cfg(feature = "serde")]
pub fn deserialize_word<'de, T, D>(deserializer: D) -> Result<T, D::Error>
where
    T: core::str::FromStr<Err: core::fmt::Display>,
    D: serde::Deserializer<'de>,
{
    deserializer.deserialize_any(InQuotes(PhantomData))
}

/// Reads a word.
#[cfg(feature = "serde")]
struct InQuotes<T>(PhantomData<T>);

#[cfg(feature = "serde")]
impl<T: core::str::FromStr<Err: fmt::Display>> InQuotes<T> {
    /// Refuses a value that is written without quotes.
    fn bare<E: serde::de::Error>(value: impl fmt::Display) -> Result<T, E> {
        let word = value.to_string();
        Err(match word.parse::<T>() {
            Err(error) => E::custom(error),
            Ok(_) => E::custom(format_args!("write it in quotes: \"{word}\"")),
        })
    }
}

#[cfg(feature = "serde")]
impl<T: core::str::FromStr<Err: fmt::Display>> serde::de::Visitor<'_> for InQuotes<T> {
    type Value = T;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a word in quotes")
    }

    fn visit_str<E: serde::de::Error>(self, word: &str) -> Result<T, E> {
        word.parse().map_err(E::custom)
    }

    fn visit_u64<E: serde::de::Error>(self, number: u64) -> Result<T, E> {
        Self::bare(number)
    }

    fn visit_i64<E: serde::de::Error>(self, number: i64) -> Result<T, E> {
        Self::bare(number)
    }

    fn visit_f64<E: serde::de::Error>(self, number: f64) -> Result<T, E> {
        Self::bare(number)
    }

    fn visit_bool<E: serde::de::Error>(self, value: bool) -> Result<T, E> {
        Self::bare(value)
    }
}

/// Reads a number of up to `most`. `what` says what it is, as a sentence goes on after "write".
#[cfg(feature = "serde")]
pub(crate) fn deserialize_number<'de, D: serde::Deserializer<'de>>(
    deserializer: D,
    most: u8,
    what: &'static str,
) -> Result<u8, D::Error> {
    struct UpTo {
        most: u8,
        what: &'static str,
    }

    impl serde::de::Visitor<'_> for UpTo {
        type Value = u8;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str(self.what)
        }

        fn visit_u64<E: serde::de::Error>(self, number: u64) -> Result<u8, E> {
            let within = u8::try_from(number).ok().filter(|number| *number <= self.most);
            within.ok_or_else(|| E::invalid_value(serde::de::Unexpected::Unsigned(number), &self))
        }

        fn visit_i64<E: serde::de::Error>(self, number: i64) -> Result<u8, E> {
            let within = u8::try_from(number).ok().filter(|number| *number <= self.most);
            within.ok_or_else(|| E::invalid_value(serde::de::Unexpected::Signed(number), &self))
        }
    }

    deserializer.deserialize_u8(UpTo { most, what })
}

#[cfg(test)]
mod tests {
    use super::*;

    const UNITS: &[(&str, u64)] = &[("b", 1), ("kb", 1000)];

    #[test]
    fn fractions_must_come_out_whole() {
        assert_eq!(parse("1.5kb", UNITS), Some(1500));
        assert_eq!(parse("1.5b", UNITS), None);
    }

    #[test]
    fn what_does_not_fit_or_is_not_known_is_nothing() {
        for word in [
            "",
            "kb",
            "1",
            "1mb",
            "-1b",
            "1..2kb",
            "99999999999999999999b",
            "18446744073709551615kb",
        ] {
            assert_eq!(parse(word, UNITS), None, "{word}");
        }
    }
}
