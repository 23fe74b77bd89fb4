//! UDP over a single hop, many datagrams at a time (RFC 5082: the generalized TTL security
//! mechanism).
//!
//! ```text
//!   Sender ─hops: 255─▶ raw socket, sendmmsg ─▶ neighbour ─▶ UDP socket, recvmmsg ─hops: 255?─▶ Receiver
//! ```
//!
//! Datagrams are sent with a TTL of 255. Every router decrements it, so a datagram that arrives
//! with 255 was sent by a neighbour. The [`Sender`] writes the headers itself, so that one socket
//! serves any number of address and port pairs. The [`Receiver`] returns each datagram's
//! destination address and TTL.

mod open;
mod receive;
mod send;

pub use open::{ALL, LONGEST};
pub use receive::{Received, Receiver};
pub use send::{Datagram, Sender, Sent};

#[cfg(test)]
mod tests;
