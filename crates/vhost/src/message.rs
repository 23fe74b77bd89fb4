//! Parses and writes messages ("Message Specification").
//!
//! ```text
//!   │ request │ flags │ size │ payload … │      header: 12 bytes; payload: at most MAX_PAYLOAD
//! ```
//!
//! Nothing here reads sockets or holds descriptors: parsing gets the number of received
//! descriptors, and refuses a wrong one. Nothing is allocated, whatever numbers a peer sends.
//! Requests and replies can both be parsed and written, because we have a front-end, too. Numbers
//! are in native byte order.

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
