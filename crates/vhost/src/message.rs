//! The messages ("Message Specification"): bytes to requests and replies, and back.
//!
//! ```text
//!   │ request │ flags │ size │ payload … │      header: 12 bytes; payload: at most MAX_PAYLOAD
//! ```
//!
//! Nothing here reads a socket or holds a descriptor: a message is told how many came with it, and
//! refuses any other number. Nothing is allocated, so a peer's numbers cannot make it. Parsing
//! undoes emitting, both ways, since our own front-end speaks this too. Numbers are in the
//! machine's own byte order.

mod code;
mod error;
mod header;
mod payload;
mod reply;
mod request;
#[cfg(test)]
mod tests;

pub use code::Code;
pub use error::MessageError;
pub use header::{Bytes, HEADER_LEN, Header};
pub use payload::{Addresses, Inflight, MAX_FDS, MAX_PAYLOAD, MAX_RING, MAX_TABLE, Region, Table};
pub use reply::Reply;
pub use request::{Message, Request};
