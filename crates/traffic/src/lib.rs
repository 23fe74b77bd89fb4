//! Workloads: how large flows are, how long senders wait, whom a query asks; and the observer that
//! tells when a query is complete.
//!
//! ```text
//!   Distribution ─sample─▶ bytes, gaps          QueryPlan ─query(n)─▶ Query ─issue─▶ Pending ─arrived─▶ FCT
//! ```
//!
//! Everything is drawn from a [`units::Rng`] that the caller seeds and timed by instants that the
//! caller passes: a seed replays a plan.

#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

mod cdf;
mod distribution;
mod query;
mod samples;

pub use cdf::{Cdf, CdfError};
pub use distribution::{Distribution, Known, UnknownDistribution};
pub use query::{Arrival, Pending, PlanError, Query, QueryPlan};
pub use samples::{Samples, TimesUs};
