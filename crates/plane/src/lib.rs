//! One thread's worth of switch: devices, far hosts, and the turns that move frames between them.
//!
//! ```text
//!            ┌ Plane ───────────────────────────────────────────────────────────────┐
//! device j ──┼─▶ receive ─▶ Responder ─▶ datapath ─▶ switch ─▶ Gate ─▶ transmit ────┼─▶ device k
//! far host ──┼─▶ receive ──────────────▶    │          │ └───────────▶ send ────────┼─▶ far host
//!            └─────────────── Taps: copies of frames, for those who capture ────────┘
//! ```
//!
//! [`Plane`] owns the [ports](port::Port), the datapath that decides where frames go, and the
//! queues in which they wait. What a host adds to that comes in by three traits: [`Responder`]
//! answers and refuses frames at their ingress, [`Gate`] holds frames whose last receiver has no
//! room at their egress, and [`Peers`] are far hosts behind tunnels. The crate opens no sockets,
//! starts no threads, and knows neither tunnels nor names of networks.

#![forbid(unsafe_code)]

mod audit;
mod booking;
mod bound;
mod captures;
mod divert;
mod filter;
mod ledgers;
mod line;
mod moves;
mod peers;
mod plane;
mod receive;
mod retag;
mod sharing;
mod stages;
pub mod taps;
#[cfg(test)]
mod tests;
mod thread;
mod transmit;
mod uplink;
mod waits;

pub use booking::{ThreadUse, Work};
pub use ledgers::ledger;
pub use peers::{Arrival, Event, Leaving, NoPeers, Peers, Senders, Sent};
pub use plane::{PERMITS, Plane};
pub use sharing::ThreadTerms;
pub use stages::{Clearance, Gate, Intercepted, NoGate, NoResponder, Responder};
