//! Plans of machines on hosts, as people write and read them.
//!
//! ```text
//!   YAML ─▶ Plan ─┬▶ placed     where machines go, and what no placement can cost less than
//!   traces ─▶─┤   ├▶ risks      what a placement risks, host by host
//!   profiles ─┘   ├▶ reasons    why a machine does not go to a host
//!                 ├▶ advice     which machines to move, by what `history` has of earlier runs
//!                 ├▶ purchase   what each type of host would cost
//!                 ├▶ proof      the risk once more, by drawing
//!                 ├▶ stage      hosts as a simulator or a lab needs them
//!                 ├▶ course     what their machines do for a while, drawn
//!                 ├▶ mixes      demands that fit a profiled switch and that do not, drawn
//!                 └▶ serve      which hosts take a machine that a scheduler asks about, over HTTP
//!
//!   traces ─▶ hours ─┬▶ fitted    models
//!    Prometheus      ├▶ together  whether machines are independent
//!                    ├▶ told      what is told of all of them
//!                    └▶ written   models as a file that is read with a plan
//! ```
//!
//! What is computed is in crates `demand` and `placement`, which know places in lists. Here they
//! have names and units, and each result is one that serializes.
//!
//! # What it does not know
//!
//! How a switch is measured: a plan says what a host's switch carries, or which file has it. How a
//! table looks: that is the command line's.

#![forbid(unsafe_code)]

mod bandwidth;
mod columns;
mod fault;
mod file;
mod misfits;
mod plan;
mod profile;
mod resolve;
mod settings;
mod share;
mod trace;
mod web;

pub mod advice;
pub mod bench;
pub mod course;
pub mod fitted;
pub mod history;
pub mod hours;
pub mod mixes;
pub mod placed;
pub mod prometheus;
pub mod proof;
pub mod purchase;
pub mod reasons;
pub mod risks;
pub mod serve;
pub mod stage;
pub mod together;
pub mod told;
pub mod written;

pub use columns::{Columns, Counted, CountedError};
pub use fault::{Fault, PlanError};
pub use file::Least;
pub use plan::{Capacity, Carried, Kind, Plan};
pub use profile::Measured;
pub use settings::{Prefer, Settings, UnknownHosts};
pub use share::Share;
pub use trace::TraceError;
pub use web::{Address, WebError};
