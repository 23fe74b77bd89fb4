//! Sources whose rates change as their states do.

use std::fmt;
use std::str::FromStr;

use demand::{Model, ModelError, State};
use serde::{Deserialize, Serialize};
use units::{Bytes, Rate, Span};

use super::words::{ParseWordError, Vms};

/// Sources that move between states, each with a rate: equations 1 and 2 of *Towards a Method
/// Integrating Virtual Switch Performance Into Data Centre Design*, Sarker et al., ICN 2016. What
/// they share carries their sum, or as much of it as it can (equation 3).
///
/// ```text
///   rate  ▄▄▄▄▄▄        ▄▄▄
///         │    │▄▄▄▄    │ │           a frame each time it is made
///         │    │   │    │ │▄▄▄▄▄        │
///   state  2    1    0   2  1           ▼
///                                 queue ──▶ the machine's NIC, where its socket does not block
///                                   └─▶ lost: there is more than is carried
/// ```
///
/// A source makes frames whatever becomes of them. The n-th sends to the n-th destination, or all
/// to the only one.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Markov {
    /// Who sends.
    pub sources: Vms,
    /// To whom.
    pub destinations: Vms,
    /// What a source sends in each state, counted in its packets.
    pub rates: Vec<Level>,
    /// How long it stays in each, on average; exponentially distributed.
    pub hold: Vec<Span>,
    /// Row by row: the chance of each state to be the next. Two states follow each other if it is
    /// absent, which is equation 1.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub jump: Vec<Vec<f64>>,
    /// The length of its packets; as long as they may be if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub frame: Option<Bytes>,
    /// How much waits at a source for its socket; what finds no room is lost.
    #[serde(default = "default_queue")]
    pub queue: Bytes,
    /// Sources of workloads with this word are all in the same state at all times.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub together: Option<String>,
}

impl Markov {
    /// The states as a model, with rates in bits a second.
    ///
    /// # Errors
    ///
    /// What is no semi-Markov chain.
    pub fn model(&self) -> Result<Model, ModelError> {
        let states = self.rates.iter().zip(&self.hold);
        let states = states.map(|(rate, hold)| State { rate: rate.bits_per_sec(), hold: *hold });
        let swap = [vec![0.0, 1.0], vec![1.0, 0.0]];
        let is_swap = self.jump.is_empty() && self.rates.len() == 2;
        Model::new(states.collect(), if is_swap { &swap } else { &self.jump })
    }
}

/// A rate, or none at all: `100mbit`, `0`.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Level(pub Option<Rate>);

impl Level {
    /// Bits a second.
    pub fn bits_per_sec(self) -> u64 {
        self.0.map_or(0, Rate::bits_per_sec)
    }
}

impl FromStr for Level {
    type Err = ParseWordError;

    fn from_str(word: &str) -> Result<Self, ParseWordError> {
        if word == "0" {
            return Ok(Self(None));
        }
        let wrong =
            |_| ParseWordError::new(word, "a state's rate", "100mbit, 2.5gbit, or 0 for none");
        word.parse().map(|rate| Self(Some(rate))).map_err(wrong)
    }
}

impl fmt::Display for Level {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Some(rate) => rate.fmt(f),
            None => f.write_str("0"),
        }
    }
}

units::serde_as_word!(Level);

fn default_queue() -> Bytes {
    Bytes(16_000)
}
