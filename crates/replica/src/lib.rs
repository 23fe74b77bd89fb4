//! Copies of a controller's maps at many agents, each always as of one generation.
//!
//! ```text
//!  controller                                            agent
//!  History ─since(what it has)─▶ Update ─▶ Feed ═══════▶ Follower ─▶ Changed ─▶ whoever executes it
//!  a domain's rows,              encoded   one agent's   stages,        │
//!  its last changes              once      session       checks   realized, or refused
//!                                            ▲                          │
//!                                            └────── Ack, Nack ═════════┘
//! ```
//!
//! A *domain* is a map from keys to rows, both bytes: what they mean is for others. Each state of
//! it is a *generation*, numbered by the revision of the store that it follows from, so that every
//! controller numbers alike.
//!
//! An agent that lags is sent what its generation and the newest differ in, in one update: lag
//! costs as much as the difference, not as much as the history. One that comes back says which
//! generations it has; where the controller still knows what has changed since, it is sent that,
//! else all rows, and the agent itself finds out what is new in them. So nothing is ever taken away
//! to be put back.
//!
//! An update is applied whole or not at all. It comes in chunks, which are staged in bounded
//! memory; a [`Digest`] says whether the copy would be equal to the original; and whoever executes
//! the rows may still refuse it. In each of these cases the copy stays as it was. In between, an
//! agent that is asked compares its copy, and what is executed, with what it has answered for; if
//! that differs, it is sent all rows.
//!
//! The crate knows no socket, no clock and no disk.

#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

mod delta;
mod digest;
mod feed;
mod follower;
mod history;
mod known;
mod map;
mod message;
mod varint;

pub use delta::{DecodeError, Delta};
pub use digest::Digest;
pub use feed::{Feed, Misled};
pub use follower::{Changed, Follower, Limits, Received, Rejected};
pub use history::{Histories, History, Update};
pub use known::{Fence, Known, Name, Store};
pub use map::Map;
pub use message::{CHUNK, Chunk, Part, Reason, Reply, ToAgent};
