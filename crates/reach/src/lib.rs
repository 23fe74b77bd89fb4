//! Who reaches whom in logical networks, for all packets, and by which rule.
//!
//! ```text
//! topology ─▶ atoms of services ─┐
//!          ─▶ classes of addresses ─▶ what rules say of a class ─┐
//!          ─▶ classes of ports ─▶ walks of classes to ports ─────┴─▶ a cell for each pair
//! ```
//!
//! [`matrix`] looks at no packet alone. It cuts all that packets can be into classes that every
//! rule and every route treats alike, and decides each class once, as the interpreter decides a
//! packet. Together the classes are all packets that can be the first of a connection, whole and
//! not too long, from any machine and from outside, but for what makes networks work: ARP,
//! neighbour discovery, group membership and machines' questions for addresses. Nothing is known of
//! packets before.
//!
//! Where the hash of a packet chooses among several, the class is followed to each of them.
//! Of one packet, which somebody asks about by a [`Question`], [`explain`] tells each step with the
//! object and the rule that decided it, and which object to change if it is refused.
//!
//! Networks whose translations have Ethernet addresses of their own are refused ([`Unable`]).

#![cfg_attr(not(feature = "openapi"), no_std)]
#![forbid(unsafe_code)]

extern crate alloc;

mod addresses;
mod area;
mod atoms;
mod bits;
mod changes;
mod ends;
mod explain;
mod field;
mod flow;
mod frame;
mod hash;
mod hop;
mod maker;
mod matrix;
mod proof;
mod question;
mod region;
mod remedy;
mod routes;
mod security;
mod sentence;
mod side;
mod space;
#[cfg(test)]
mod tests;
mod translate;
mod walk;

pub use addresses::Family;
pub use area::{Area, Services};
pub use changes::{Change, Reached, in_words};
pub use explain::{Explanation, explain, named};
pub use frame::{Content, Packet};
pub use hop::next_hop;
pub use matrix::{Entry, Matrix, Outcome, Path, Ports, Row, Unable, Whose, matrix, name};
pub use proof::{Counterexample, Looked, Proof};
pub use question::{Question, SOURCE_PORT};
pub use remedy::Remedy;
pub use sentence::{NoSentence, Sentence, port};
