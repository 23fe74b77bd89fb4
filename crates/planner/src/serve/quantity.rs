//! Kubernetes' quantities: `500m` of a core, `1Gi` of memory.

use serde::de::{self, Deserialize, Deserializer, Visitor};
use std::fmt;

/// An amount of a resource, as `resource.Quantity` of Kubernetes' API reads it: digits, and a
/// decimal suffix (`n` to `E`), a binary one (`Ki` to `Ei`) or an exponent (`e3`).
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Quantity {
    digits: u128,
    ten: i32,
    two: u32,
}

/// More digits than this are no amount of anything.
const MOST_DIGITS: usize = 30;

impl Quantity {
    /// Reads a word.
    pub fn parse(word: &str) -> Option<Self> {
        let number = word.strip_prefix('+').unwrap_or(word);
        let end = number.find(|it: char| !it.is_ascii_digit() && it != '.');
        let (number, suffix) = number.split_at(end.unwrap_or(number.len()));
        let (whole, part) = number.split_once('.').unwrap_or((number, ""));
        let part = part.trim_end_matches('0');
        let is_number = !number.is_empty() && number != "." && !part.contains('.');
        if !is_number || whole.trim_start_matches('0').len() + part.len() > MOST_DIGITS {
            return None;
        }
        let digits = format!("{whole}{part}").parse().unwrap_or(0);
        let (ten, two) = exponents(suffix)?;
        Some(Self { digits, ten: ten.checked_sub(part.len() as i32)?, two })
    }

    /// In thousandths, rounded up, as Kubernetes rounds.
    pub fn milli(self) -> u64 {
        self.times_ten_to(3)
    }

    /// In ones, rounded up.
    pub fn ones(self) -> u64 {
        self.times_ten_to(0)
    }

    /// More than fits is the most that does: nobody has it.
    fn times_ten_to(self, power: i32) -> u64 {
        let ten = self.ten.saturating_add(power);
        let scale = 10u128.checked_pow(ten.unsigned_abs());
        let product = self.digits.checked_mul(1 << self.two);
        let amount = match (product, scale) {
            (Some(0), _) => 0,
            (Some(product), Some(scale)) if ten < 0 => product.div_ceil(scale),
            (Some(_), None) if ten < 0 => 1,
            (Some(product), Some(scale)) => product.saturating_mul(scale),
            _ => u128::MAX,
        };
        u64::try_from(amount).unwrap_or(u64::MAX)
    }
}

/// What a suffix multiplies by: powers of ten and of two.
fn exponents(suffix: &str) -> Option<(i32, u32)> {
    let decimal = ["n", "u", "m", "", "k", "M", "G", "T", "P", "E"];
    if let Some(place) = decimal.iter().position(|it| *it == suffix) {
        return Some((3 * place as i32 - 9, 0));
    }
    let binary = ["Ki", "Mi", "Gi", "Ti", "Pi", "Ei"];
    if let Some(place) = binary.iter().position(|it| *it == suffix) {
        return Some((0, 10 * (place as u32 + 1)));
    }
    let exponent = suffix.strip_prefix(['e', 'E'])?;
    exponent.parse().ok().filter(|it: &i32| it.abs() <= 100).map(|it| (it, 0))
}

impl<'de> Deserialize<'de> for Quantity {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Word;

        impl Visitor<'_> for Word {
            type Value = Quantity;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a quantity as \"500m\" or \"1Gi\"")
            }

            fn visit_str<E: de::Error>(self, word: &str) -> Result<Quantity, E> {
                Quantity::parse(word)
                    .ok_or_else(|| E::invalid_value(de::Unexpected::Str(word), &self))
            }

            fn visit_u64<E: de::Error>(self, number: u64) -> Result<Quantity, E> {
                Ok(Quantity { digits: number.into(), ten: 0, two: 0 })
            }

            fn visit_f64<E: de::Error>(self, number: f64) -> Result<Quantity, E> {
                self.visit_str(&number.to_string())
            }
        }

        deserializer.deserialize_any(Word)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantities_are_what_kubernetes_reads() {
        let milli = |word| Quantity::parse(word).map(Quantity::milli);
        let ones = |word| Quantity::parse(word).map(Quantity::ones);
        assert_eq!(milli("500m"), Some(500));
        assert_eq!(
            [milli("2"), milli("0.1"), milli(".5"), milli("1.")].map(Option::unwrap),
            [2000, 100, 500, 1000]
        );
        assert_eq!(
            [milli("1n"), milli("100u"), milli("+1.0001")].map(Option::unwrap),
            [1, 1, 1001]
        );
        assert_eq!(
            [ones("1Gi"), ones("1.5Ki"), ones("128974848")].map(Option::unwrap),
            [1 << 30, 1536, 128_974_848]
        );
        assert_eq!(
            [ones("129e6"), ones("129M"), ones("1E3"), ones("1E")].map(Option::unwrap),
            [129_000_000, 129_000_000, 1000, 1_000_000_000_000_000_000]
        );
        assert_eq!([ones("0"), ones("0.0Ki"), ones("1500m")].map(Option::unwrap), [0, 0, 2]);
        // Beyond what fits is the most that does.
        assert_eq!(
            [ones("16Ei"), ones("1e99"), ones("1e-99")].map(Option::unwrap),
            [u64::MAX, u64::MAX, 1]
        );
    }

    #[test]
    fn what_is_no_quantity_is_refused() {
        let endless = "1".repeat(31);
        for word in
            ["", ".", "-1", "1q", "1.2.3", "1 Gi", "Gi", "1KI", "1e", "1e1000", "٣", &endless]
        {
            assert_eq!(Quantity::parse(word), None, "{word}");
        }
        let read = |text| serde_json::from_str::<Quantity>(text);
        assert_eq!([read("2").unwrap(), read("0.5").unwrap()].map(Quantity::milli), [2000, 500]);
        assert!(read("\"many\"").unwrap_err().to_string().contains("a quantity as"));
        assert!(read("-1").is_err() && read("null").is_err());
    }
}
