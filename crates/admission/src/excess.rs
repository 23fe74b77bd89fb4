//! What is too much, in sentences.

use alloc::vec::Vec;
use core::fmt;

use model::NetworkName;
use units::{Bytes, Rate, Span};

/// Some networks, or ports, with what each has of a sum, the largest first.
pub type Most<N = NetworkName> = Vec<(N, u64)>;

/// Who has a part of an uplink.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Holder {
    /// A network.
    Network(NetworkName),
    /// What hosts tell each other of frames and of themselves.
    Control,
}

impl fmt::Display for Holder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Network(network) => Quoted(network).fmt(f),
            Self::Control => f.write_str("control"),
        }
    }
}

/// A term that says something of an uplink's rate.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum RateTerm {
    /// The least.
    Min,
    /// The highest.
    Max,
}

impl fmt::Display for RateTerm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Min => "`min`",
            Self::Max => "`max`",
        })
    }
}

/// Why a host cannot keep what networks are promised: each sum that is too large.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
#[error("{}", Sentences(.0))]
pub struct NotAdmitted(pub Vec<Excess>);

impl NotAdmitted {
    /// The network whose share is to be lowered first: the one with most of the first sum that is
    /// too large. `None` if no share is at fault, as the uplink's rate is not declared.
    pub fn blamed(&self) -> Option<&NetworkName> {
        let most = match self.0.first()? {
            Excess::NoRate { .. } => return None,
            Excess::Rate { most, .. } => {
                return most.iter().find_map(|(holder, _)| match holder {
                    Holder::Network(network) => Some(network),
                    Holder::Control => None,
                });
            }
            Excess::Burst { most, .. }
            | Excess::Packets { most, .. }
            | Excess::Memory { most, .. } => most,
        };
        most.first().map(|(network, _)| network)
    }
}

/// A sum of promises that is too large.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Excess {
    /// Something is said of the uplink's rate, which is not known.
    NoRate {
        /// What is said.
        term: RateTerm,
        /// In bits a second.
        most: Most,
    },
    /// More of the uplink is promised than it may: beside what control has.
    Rate {
        /// In bits a second.
        sum: u64,
        /// In bits a second.
        limit: u64,
        /// The uplink's.
        rate: Rate,
        /// In bits a second.
        most: Most<Holder>,
    },
    /// All bursts at once take too long.
    Burst {
        /// How long.
        wait: Span,
        /// How long they may take.
        latency: Span,
        /// In bytes.
        most: Most,
    },
    /// More frames are promised than one processor switches.
    Packets {
        /// How much of each second they take.
        thread: Span,
        /// How much they may.
        limit: Span,
        /// In frames a second.
        most: Most,
    },
    /// More memory is promised than there is.
    Memory {
        /// The sum.
        sum: Bytes,
        /// What there is.
        limit: Bytes,
        /// In bytes.
        most: Most,
    },
}

impl fmt::Display for Excess {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let bits = |bits: u64| Rate::from_bits_per_sec(bits).map(Amount::Rate);
        match self {
            Self::NoRate { term, most } => {
                write!(f, "{term} of ")?;
                list(f, quoted(most), |_| None)?;
                f.write_str(" is of an uplink whose rate is not known: declare `rate` in [uplink]")
            }
            Self::Rate { sum, limit, rate, most } => {
                let [sum, limit] = [*sum, *limit].map(|it| Percent(it, rate.bits_per_sec()));
                write!(
                    f,
                    "`min` of all networks is {sum} of the uplink's {rate}, and may be {limit} beside control; most have "
                )?;
                list(f, most.iter().map(|(holder, of)| (holder, *of)), bits)?;
                f.write_str(": lower a network's")
            }
            Self::Burst { wait, latency, most } => {
                write!(
                    f,
                    "`burst` of all networks takes the uplink {wait}, and may take {latency} (`latency` of [uplink]); most have "
                )?;
                list(f, quoted(most), |bytes| Some(Amount::Bytes(Bytes(bytes))))?;
                f.write_str(": lower one of these, or raise `latency`")
            }
            Self::Packets { thread, limit, most } => {
                let [sum, limit] = [thread, limit].map(|it| Percent(it.as_nanos(), 1_000_000_000));
                write!(
                    f,
                    "`min_packets` of all networks takes {sum} of a processor, and may take {limit}; most have "
                )?;
                list(f, quoted(most), |frames| Some(Amount::Frames(frames)))?;
                f.write_str(": lower one of these")
            }
            Self::Memory { sum, limit, most } => {
                write!(f, "`memory` of all networks is {sum}, and there is {limit}; most have ")?;
                list(f, quoted(most), |bytes| Some(Amount::Bytes(Bytes(bytes))))?;
                f.write_str(": lower one of these")
            }
        }
    }
}

/// What somebody has of a sum.
pub(crate) enum Amount {
    Rate(Rate),
    Bytes(Bytes),
    Frames(u64),
}

impl fmt::Display for Amount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Rate(rate) => rate.fmt(f),
            Self::Bytes(bytes) => bytes.fmt(f),
            Self::Frames(frames) => write!(f, "{frames}/s"),
        }
    }
}

/// A part of a whole, rounded up: what is too much never looks as if it were not.
struct Percent(u64, u64);

impl fmt::Display for Percent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let hundredths = (u128::from(self.0) * 10_000).div_ceil(u128::from(self.1));
        write!(f, "{}.{:02} %", hundredths / 100, hundredths % 100)
    }
}

/// All of them, one sentence each.
struct Sentences<'a>(&'a [Excess]);

impl fmt::Display for Sentences<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (number, excess) in self.0.iter().enumerate() {
            f.write_str(if number > 0 { "; " } else { "" })?;
            excess.fmt(f)?;
        }
        Ok(())
    }
}

/// A name as it was given.
struct Quoted<'a, N>(&'a N);

impl<N: fmt::Display> fmt::Display for Quoted<'_, N> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`{}`", self.0)
    }
}

pub(crate) fn quoted<N: fmt::Display>(
    most: &Most<N>,
) -> impl Iterator<Item = (impl fmt::Display, u64)> {
    most.iter().map(|(name, of)| (Quoted(name), *of))
}

/// Those who have most with what each has.
pub(crate) fn list(
    f: &mut fmt::Formatter<'_>,
    most: impl Iterator<Item = (impl fmt::Display, u64)>,
    amount: impl Fn(u64) -> Option<Amount>,
) -> fmt::Result {
    for (number, (name, of)) in most.enumerate() {
        f.write_str(if number > 0 { ", " } else { "" })?;
        write!(f, "{name}")?;
        if let Some(amount) = amount(of) {
            write!(f, " ({amount})")?;
        }
    }
    Ok(())
}
