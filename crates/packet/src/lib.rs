//! What whole packets say, how networks rewrite them, and what networks themselves answer.
//!
//! ```text
//! frame ─▶ Fields: who, to whom, which flow       rewrite: addresses, ports, hops, what is quoted
//!            │
//!            └─▶ answer: errors, resets, echoes    dhcp4, dhcp6, advertise, names: services
//! ```
//!
//! These are the forms of packets alone, by their RFCs. Nothing here knows networks, decides where
//! a packet goes, or remembers one. Whoever decides has it done here, so that what is decided in
//! two places is told in one form.

#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

pub mod advertise;
pub mod answer;
pub mod dhcp4;
pub mod dhcp6;
pub mod emit;
mod fields;
pub mod fragments;
pub mod groups;
pub mod names;
pub mod neighbours;
pub mod relay;
pub mod rewrite;

pub use fields::{Fields, Icmp, Ip, Piece, Tuple, address, address_hash, flow_hash};

/// The Ethernet address of load balancers of switches, for machines whose own subnet they are in.
pub const BALANCER: units::Mac = units::Mac([2, 0x7a, 0x6f, 0x76, 0, 1]);

/// How many Ethernet addresses that nobody declared a switch knows behind one of its ports. One
/// more, and the one that it learned there first is forgotten.
pub const MOST_LEARNED: usize = 1024;
