//! UDP between neighbours, many datagrams at a time (RFC 5082: the generalized TTL security
//! mechanism).
//!
//! ```text
//!   Sender ─hops: 255─▶ raw socket, sendmmsg ─▶ neighbour ─▶ UDP socket, recvmmsg ─hops: 255?─▶ Receiver
//! ```
//!
//! A datagram leaves with all hops left that there can be. One that comes with as many was sent by
//! a neighbour: each router takes one away, and none gives any back. The [`Sender`] writes the
//! headers itself, so that one socket serves any number of pairs of addresses and ports; the
//! [`Receiver`] hears of each datagram to which address it came, and how many hops it has left.

mod open;
mod receive;
mod send;

pub use open::{ALL, LONGEST};
pub use receive::{Received, Receiver};
pub use send::{Datagram, Sender, Sent};

#[cfg(test)]
mod tests;
