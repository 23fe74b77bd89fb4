//! Which machines share a host, so that its switch is asked for too much in no more than a stated
//! share of time.
//!
//! ```text
//!   Problem ─▶ place ─▶ improve ─▶ Placement ─▶ risks, why, moves
//!      ├─▶ lower_bound ─▶ Certificate, which anybody can check
//!      ├─▶ exact, for a few classes
//!      ├─▶ vacancies: which hosts take one more, asked again and again
//!      └─▶ buy: the same for each type of host and each number of its switch's cores
//! ```
//!
//! Machines that are alike are a class, so that a host is a [`Pattern`], how many it has of each,
//! and thousands of hosts are a few patterns. A host takes machines by cores, memory, and the
//! overload of each of its limits, which crate `demand` computes.
//!
//! # Promises
//!
//! - Every placement that is made here passes [`check`]: no host is above ε by the upper end of its
//!   bracket, above its cores or memory, or has two machines that are to be apart.
//! - A bound holds for whatever can be placed, and its certificate proves it without trust in what
//!   found it.
//! - The same problem and seed give the same placement on every machine.

#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

mod bound;
mod buy;
mod exact;
mod improve;
mod judge;
mod locality;
mod moves;
mod pack;
mod pattern;
mod pricing;
mod problem;
mod risk;
mod room;
mod simplex;
mod tables;
mod vacancies;
mod why;

pub mod paper;

pub use bound::{BoundSettings, Certificate, lower_bound};
pub use buy::{Binding, Ignored, Quote, buy};
pub use exact::{Exact, exact};
pub use improve::improve;
pub use locality::{gather, rack_traffic};
pub use moves::{Advice, History, Move, MoveSettings, Step, Watch, advise};
pub use pack::place;
pub use pattern::{Pattern, Placement};
pub use problem::{
    Apart, Class, Cluster, Domain, Goal, Host, HostType, Limit, Periods, Problem, ProblemError,
};
pub use risk::{HostRisk, check, host_risk, risks};
pub use tables::Tables;
pub use vacancies::{Vacancies, Vacancy};
pub use why::{Nowhere, Refusal, Remedy, Why, why, why_nowhere};
