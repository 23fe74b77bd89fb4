//! A host's tunnels: far hosts as peers of the plane, the uplinks they share, and the networks they
//! carry.
//!
//! ```text
//!            ┌ Overlay ────────────────────────────────────────────────────┐
//! directory ─┼─▶ a Trunk for each far host ─┬─ path ── Link ─▶ sockets ════┼══▶ underlay
//! plane ◀────┼──▶ (its Peers)               └─ path ── Link ─▶ sockets ════┼══▶
//!            └──────────────── Monitor: which paths work ── pauses ────────┘
//! ```
//!
//! [`Overlay`] makes and ends trunks as a directory says, receives datagrams for them, and sends
//! theirs. A [`Trunk`] is what the plane knows of a far host. The session protocol is [`tunnel`]'s,
//! sockets are [`underlay`]'s. The crate starts no threads; paths are watched by whoever implements
//! [`Monitor`].

#![forbid(unsafe_code)]

mod downlinks;
mod error;
mod ledger;
mod link;
mod monitor;
mod outer;
mod overlay;
mod pauses;
mod peers;
mod shared;
mod slots;
mod status;
mod table;
#[cfg(test)]
mod tests;
mod topology;
mod trunk;

pub use error::OpenError;
pub use link::Link;
pub use monitor::Monitor;
pub use overlay::{Outline, Overlay, Protection, UNCREDITED, UNPROTECTED};
pub use slots::MEMORY;
pub use topology::{Delta, Topology};
pub use trunk::{Form, Outlook, REASONS, SessionOutlook, Trunk};
