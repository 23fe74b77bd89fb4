//! Where the machines of virtual networks are, and what a switch answers in their stead.
//!
//! ```text
//! NetworkSpec ─▶ Directory ─▶ Network ─▶ Place: this port here, or that port of that host
//!                                │
//!  a port's frame ─is_question─▶ answer ─▶ back to the port: who has an address, what is too long
//! ```
//!
//! A virtual network is known whole on every host, so nothing is flooded to find a machine, and no question for an address leaves
//! the host that it is asked on. A [`Directory`] is made of one generation of networks and never changes: who has a newer one
//! lets go of the older.
//!
//! The crate knows nothing of ports, tunnels or time.

#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

mod answer;
mod directory;

pub use answer::{Answer, LONGEST_ANSWER, answer, is_question};
pub use directory::{Directory, Network, Place};
