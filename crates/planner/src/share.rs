//! A share of time or of traffic, known between two numbers.

use std::fmt;

use demand::Bracket;
use figures::{Unit, si};
use serde::Serialize;

/// Two numbers between which the exact share lies for the models given.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Share {
    /// It is no less than this.
    pub low: f64,
    /// It is no more than this.
    pub high: f64,
}

impl From<Bracket> for Share {
    fn from(Bracket { low, high }: Bracket) -> Self {
        Self { low, high }
    }
}

/// The upper end, which is what counts: `0.08 %`. A share that is far below what matters is told as
/// a power of ten.
impl fmt::Display for Share {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.high {
            0.0 => f.write_str("0"),
            high if high < 1e-5 => write!(f, "{high:.1e}"),
            high => f.write_str(&si(high, Unit::SHARE)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_share_is_told_by_its_upper_end() {
        let told = |high| Share { low: 0.0, high }.to_string();
        assert_eq!(
            [told(0.0), told(2e-9), told(0.0008), told(0.25)],
            ["0", "2.0e-9", "0.08 %", "25 %"]
        );
    }
}
