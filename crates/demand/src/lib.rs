//! What machines ask of a switch that they share, and how likely it is that they ask too much.
//!
//! ```text
//!   counters ─▶ Series ─fit─▶ Model ─source─▶ Source ─Grid─▶ Load ─▶ share of time above capacity
//!                               │               ├─▶ excess ─▶ share of traffic beyond it
//!                               └─▶ episodes    └─▶ deviations: bounds, effective bandwidth
//! ```
//!
//! A machine's traffic moves between states, each with a rate (*Towards a Method Integrating
//! Virtual Switch Performance Into Data Centre Design*, Sarker et al., ICN 2016, equations 1 and
//! 2). The demand on a switch is the sum over its machines, and the switch is overloaded while that
//! sum is above its capacity (equation 3). Rates are whole numbers of any unit that adds up: bits
//! or frames a second, or nanoseconds of a core in each second.
//!
//! # Promises
//!
//! - A [`Bracket`] contains the exact value for the models it was given. Rounding of floating-point
//!   numbers is part of its width.
//! - The same input, and the same seed where one is taken, give the same bits on every machine.
//!
//! # What it does not know
//!
//! - Machines are independent unless they are said to move together ([`Source::together`]).
//! - Demand is not changed by the switch: buffers, and senders that slow down, are ignored. Both
//!   lower the overload.

#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

mod aligned;
mod bracket;
mod chain;
mod clusters;
mod doubt;
mod episodes;
mod excess;
mod fit;
mod grid;
mod hours;
mod levels;
mod load;
mod model;
mod resample;
mod risk;
mod series;
mod source;
mod tail;

pub mod deviations;

pub use aligned::{Aligned, Dependence};
pub use bracket::Bracket;
pub use doubt::Doubt;
pub use episodes::{Episodes, episodes};
pub use excess::excess;
pub use fit::{Fit, FitSettings, fit};
pub use grid::{Binned, Grid, gcd};
pub use hours::Hours;
pub use load::Load;
pub use model::{Model, ModelError, State};
pub use resample::Estimate;
pub use risk::{Precision, Risk, Verdict, decide, risk};
pub use series::{Fault, Series, SeriesError};
pub use source::{Source, SourceError};
