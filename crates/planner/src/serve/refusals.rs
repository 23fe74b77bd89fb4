//! Why hosts refuse a machine, and how many do.

use std::fmt;

use figures::{Unit, si};

/// Why a host does not take a machine.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Refused {
    /// The plan has no such host.
    Unknown,
    /// Its agent, which says what runs there, was not read yet.
    Unread,
    /// Thousandths of cores.
    Cores {
        /// What it needs.
        needs: u64,
        /// What is left.
        left: u64,
    },
    /// Bytes.
    Memory {
        /// What it needs.
        needs: u64,
        /// What is left.
        left: u64,
    },
    /// The host would be asked for too much.
    Overload {
        /// The share of time.
        share: f64,
        /// What it may be.
        goal: f64,
    },
}

impl Refused {
    /// All of them, by the words that metrics have for them.
    pub const WORDS: [&'static str; 5] = ["unknown", "unread", "cores", "memory", "overload"];

    /// Its place in [`Refused::WORDS`].
    pub fn place(&self) -> usize {
        match self {
            Self::Unknown => 0,
            Self::Unread => 1,
            Self::Cores { .. } => 2,
            Self::Memory { .. } => 3,
            Self::Overload { .. } => 4,
        }
    }
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("zovn: ")?;
        match *self {
            Self::Unknown => f.write_str("the plan has no such host"),
            Self::Unread => {
                f.write_str("its agent was not read yet, so what runs there is unknown")
            }
            Self::Cores { needs, left } => {
                let [needs, left] = [needs, left].map(|it| it as f64 / 1000.0);
                write!(f, "needs {needs} cores, {left} are left beside the switch's")
            }
            Self::Memory { needs, left } => {
                let [needs, left] = [needs, left].map(|it| si(it as f64, Unit::BYTES));
                write!(f, "needs {needs} of memory, {left} are left")
            }
            Self::Overload { share, goal } => write!(f, "P(overflow) {share:.2e} > {goal:e}"),
        }
    }
}

/// How many hosts refused a machine, by reason.
#[derive(Clone, Copy, Debug, Default)]
pub struct Refusals([u64; Refused::WORDS.len()]);

impl Refusals {
    /// One more host.
    pub fn add(&mut self, why: &Refused) {
        self.0[why.place()] += 1;
    }

    /// How many there are, in the order of [`Refused::WORDS`].
    pub fn by_reason(self) -> [u64; Refused::WORDS.len()] {
        self.0
    }
}
