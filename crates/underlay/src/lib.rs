//! A host's sockets in the underlay: datagrams to and from other hosts, many at a time.
//!
//! Datagrams go through the kernel's UDP sockets, so everything that the host has works: any
//! network card and its offloads, bonds, multipath routes, neighbour discovery, IPv4 and IPv6.
//! Datagrams of one length for one host are sent as one large packet, which the network card or the
//! kernel cuts (UDP_SEGMENT, udp(7)). Received datagrams of one flow are joined (UDP_GRO). So one
//! system call handles dozens of datagrams.
//!
//! ```text
//!            ┌ sender 0 ─ batch, batch ─▶ UDP socket, source port a ┐
//!   send ──▶ │ …                                                    │ ══▶ fabric, over all its paths
//!   (flow)   └ sender 7 ─ batch ────────▶ UDP socket, source port b ┘
//!   receive ◀───────────────────────────── UDP socket, the tunnel's port ◀══
//! ```
//!
//! Where the link's rate is [declared](Underlay::set_rate), `pace` says when the next may be sent.
//! `large` sends segments whole that the network card can cut. Other IP protocols use raw sockets;
//! [`stt`] sends and receives STT. [`pauses`] handles pause frames of the interface, [`single_hop`]
//! the sockets of BFD. This crate does not know what datagrams mean.

mod address;
mod around;
mod batch;
mod large;
mod marking;
mod options;
mod pace;
pub mod pauses;
pub mod single_hop;
mod sockets;
pub mod stt;
mod transport;

pub use batch::{LONGEST, Len};
pub use large::{Cut, Fate};
pub use marking::Marking;
pub use pace::{AROUND, Turn};
pub use sockets::{AT_ONCE, Counters, OpenError, Received, Sent, Underlay};
pub use transport::Transport;
