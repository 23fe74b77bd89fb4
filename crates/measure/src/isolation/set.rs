//! The parameter sets P1 to P6 of the isolation experiment.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use units::{Rate, Span};

use crate::MeasureError;

/// How much the two virtual networks send and may send (Gusat et al., *Virtual network isolation*,
/// table I). Shares of the port's rate `c`, so that they hold at any rate.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd, Serialize, Deserialize)]
pub enum Set {
    /// β₂ 0.465 c, β_l2 0.1 c.
    P1,
    /// β₂ 0.465 c, β_l2 0.206 c.
    P2,
    /// β₂ 0.465 c, β_l2 0.255 c.
    P3,
    /// β₂ 0.64 c, β_l2 0.1 c.
    P4,
    /// β₂ 0.64 c, β_l2 0.206 c.
    P5,
    /// β₂ 0.64 c, β_l2 0.255 c.
    P6,
}

impl Set {
    /// All there are.
    pub const ALL: [Self; 6] = [Self::P1, Self::P2, Self::P3, Self::P4, Self::P5, Self::P6];

    /// What the first network sends, which is what it may send: β₁ = β_l1, of the port's rate.
    pub const BETA1: f64 = 0.64;

    /// What the second network sends in its bursts: β₂, of the port's rate.
    pub const fn beta2(self) -> f64 {
        match self {
            Self::P1 | Self::P2 | Self::P3 => 0.465,
            Self::P4 | Self::P5 | Self::P6 => 0.64,
        }
    }

    /// What the second network may send: β_l2, of the port's rate.
    pub const fn beta2_limit(self) -> f64 {
        match self {
            Self::P1 | Self::P4 => 0.1,
            Self::P2 | Self::P5 => 0.206,
            Self::P3 | Self::P6 => 0.255,
        }
    }

    /// ρ: what both send together in a burst, of the port's rate.
    pub const fn load(self) -> f64 {
        Self::BETA1 + self.beta2()
    }

    /// ρ_p: what both may send together, of the port's rate.
    pub const fn provisioned(self) -> f64 {
        Self::BETA1 + self.beta2_limit()
    }

    /// How long a bucket as deep as one second of β_l2 lets a burst pass: β_l2 / (β₂ − β_l2), or
    /// until the burst ends.
    pub fn bucket_lasts(self, burst: Span) -> f64 {
        (self.beta2_limit() / (self.beta2() - self.beta2_limit())).min(burst.as_secs_f64())
    }

    /// A share of the port's rate.
    pub fn of(share: f64, rate: Rate) -> Rate {
        Rate::from_bits_per_sec((share * rate.bits_per_sec() as f64).round() as u64).unwrap_or(rate)
    }

    const fn word(self) -> &'static str {
        match self {
            Self::P1 => "P1",
            Self::P2 => "P2",
            Self::P3 => "P3",
            Self::P4 => "P4",
            Self::P5 => "P5",
            Self::P6 => "P6",
        }
    }
}

impl fmt::Display for Set {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.word())
    }
}

impl FromStr for Set {
    type Err = MeasureError;

    fn from_str(text: &str) -> Result<Self, MeasureError> {
        Self::ALL
            .into_iter()
            .find(|set| set.word().eq_ignore_ascii_case(text))
            .ok_or_else(|| MeasureError::Config(format!("`{text}` is no set: write P1 to P6")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bucket_of_a_second_lasts_as_long_as_the_paper_measured() {
        let lasts = |set: Set| (set.bucket_lasts(Span::from_secs(5)) * 1e3).round();
        assert_eq!(Set::ALL.map(lasts), [274.0, 795.0, 1214.0, 185.0, 475.0, 662.0]);
        assert_eq!(Set::P3.bucket_lasts(Span::from_secs(1)), 1.0);
        assert_eq!("p2".parse::<Set>().unwrap(), Set::P2);
    }
}
