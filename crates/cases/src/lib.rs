//! What tenants' networks must do, told as cases, and run on whatever executes them.
//!
//! ```text
//! file ─▶ topology ─▶ objects ─▶ execution: the interpreter, a pipeline, hosts
//!   └──▶ steps ──▶ frames, machines' pings and connections, changes
//!                     └─▶ who got what ─▶ as expected? passed, failed, skipped
//! ```
//!
//! The format is `zovn-semantics/1` (docs/cases.md). A case says what machines see and nothing of
//! how it comes about, so the same case runs on objects alone, on a compiled pipeline and on hosts.
//!
//! The world is closed: nobody gets anything but what a step expects.

#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

mod declare;
mod dns;
mod edit;
mod exchange;
mod execution;
mod failure;
mod fields;
mod file;
mod frame;
mod guest;
mod hosts;
mod layers;
mod matching;
mod network;
mod on_interpreter;
mod on_pipeline;
mod run;
mod scalar;
#[cfg(test)]
mod tests;
mod values;
mod world;

pub use declare::Declared;
pub use edit::{Move, Op};
pub use execution::{Execution, Known, Seen, Wanted};
pub use file::{Case, File, NoCases};
pub use hosts::{Fate, Got, Hosts};
pub use on_interpreter::OnInterpreter;
pub use on_pipeline::OnPipeline;
pub use run::{Outcome, Report, run};
