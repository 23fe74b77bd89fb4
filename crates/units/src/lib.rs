//! The nouns every floor shares: time, rates, classes, addresses and seeded randomness; and what
//! both transports estimate of a path.
//!
//! Nothing here reads a clock or a random source. An [`Instant`] is whatever its caller says it is:
//! the agent passes a monotonic clock's nanoseconds, a test whatever makes its point.
//!
//! Every unit that people write in files and flags parses from and prints to one short word: `10s`,
//! `1gbit`, `64kib`, `02:00:00:00:00:01`. With the `serde` feature that word is also how it is
//! stored.

#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

mod class;
mod class_set;
mod dscp;
mod gcra;
pub mod hash;
mod mac;
mod mark_share;
mod prefix;
mod rate;
mod rng;
mod rtt;
mod size;
mod ticks;
mod time;
mod word;

pub use class::{Class, ClassMap};
pub use class_set::ClassSet;
pub use dscp::Dscp;
pub use gcra::Gcra;
pub use mac::Mac;
pub use mark_share::MarkShare;
pub use prefix::Prefix;
pub use rate::Rate;
pub use rng::Rng;
pub use rtt::RttEstimate;
pub use size::Bytes;
pub use ticks::{NoTicks, Ticks};
pub use time::{Instant, Span};
pub use word::ParseUnitError;
#[cfg(feature = "serde")]
pub use word::deserialize_word;
