//! What becomes of a packet in logical networks, decided from their objects alone.
//!
//! ```text
//! a port, a frame ─▶ switch in ──▶ router in ─▶ routes ─▶ router out ─▶ switch ─▶ switch out ─▶ ports
//!                    security      TTL, un-NAT            SNAT                    to-port rules
//!                    from-port rules
//!                        │            │          │           │                        │
//!                        └────────────┴──────────┴── answers to the sender, refusals ─┘
//! ```
//!
//! This is the reference that compiled pipelines are held against, so it is written to be read: it
//! looks at objects one after the other, keeps no table and no cache, and asks each rule again for
//! each packet. That answers what a cache has to be told: a connection is allowed as long as its
//! first packet would be.
//!
//! [`decide`] changes nothing. It returns who gets which frame, what the network itself answers,
//! what was refused and why, each step with the object and the rule that decided it, and the
//! changes that [`State::commit`] makes once the frame has left. Deciding the same frame ten times
//! counts once.
//!
//! Time is an argument. Hosts matter only for ports that are the same on each (`local`).

#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

mod balance;
mod decide;
mod decision;
mod meter;
mod nat;
mod neighbours;
mod outside;
mod policy;
mod relay;
mod route;
mod router;
mod rule;
mod security;
mod service;
mod state;
mod switch;
#[cfg(test)]
mod tests;
mod walk;

pub use decide::{Arrival, decide};
pub use decision::{Copy, Decision, Line, Reason, Refusal, Step};
pub use outside::attend;
pub use packet::{Fields, Tuple};
pub use rule::RuleId;
pub use state::{Change, Down, State};
