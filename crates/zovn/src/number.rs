//! Numbers of flags, and what is said of those that cannot be.

use std::fmt::Display;
use std::ops::RangeInclusive;
use std::str::FromStr;

/// Reads a number that lies within these, which is of its flag's own type: of another one, clap
/// finds no value. A range without any type is none, as `i32` is no `u64`.
pub fn within<N>(range: RangeInclusive<N>) -> impl Fn(&str) -> Result<N, String> + Clone
where
    N: FromStr + PartialOrd + Display + Clone + Into<u64>,
{
    move |word| {
        let number = word.parse().ok().filter(|number| range.contains(number));
        number.ok_or_else(|| {
            format!("write a whole number from {} to {}", range.start(), range.end())
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cannot_be_is_told_what_can() {
        let read = within(1..=99u16);
        assert_eq!((read("1"), read("99")), (Ok(1), Ok(99)));
        for wrong in ["0", "100", "-1", "one", ""] {
            assert_eq!(read(wrong), Err("write a whole number from 1 to 99".into()), "{wrong}");
        }
    }
}
