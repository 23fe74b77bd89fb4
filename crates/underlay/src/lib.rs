//! A host's place in the underlay: datagrams to other hosts and from them, many at a time.
//!
//! The kernel's own UDP sockets carry them, so that whatever the host has there serves: any network
//! card and its offloads, bonds, routes over several links, neighbour discovery, IPv4 and IPv6.
//! Datagrams of one length for one host go out as one large packet, which the card or the kernel
//! cuts (UDP_SEGMENT, udp(7)); those of one flow come in joined (UDP_GRO). So a system call is paid
//! for dozens of them.
//!
//! ```text
//!            ┌ sender 0 ─ batch, batch ─▶ UDP socket, source port a ┐
//!   send ──▶ │ …                                                    │ ══▶ fabric, by as many ways as it has
//!   (flow)   └ sender 7 ─ batch ────────▶ UDP socket, source port b ┘
//!   receive ◀───────────────────────────── UDP socket, the tunnel's port ◀══
//! ```
//!
//! What a card can cut by itself goes to it whole, as `large` says. Protocols of their own go by a
//! raw socket; what looks like TCP, as [`stt`] says. [`pauses`] has the pause frames of the
//! interface, [`single_hop`] the sockets that BFD speaks with neighbours by. None of them knows
//! what a datagram means, nor which host is whose.

mod address;
mod around;
mod batch;
mod large;
mod marking;
mod options;
pub mod pauses;
pub mod single_hop;
mod sockets;
pub mod stt;
mod transport;

pub use batch::{LONGEST, Len};
pub use large::{Cut, Fate};
pub use marking::Marking;
pub use sockets::{AT_ONCE, Counters, OpenError, Received, Sent, Underlay};
pub use transport::Transport;
