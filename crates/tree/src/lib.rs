//! YAML and JSON as trees whose nodes know their line and column.
//!
//! ```text
//! text ──documents──▶ nodes ──serde──▶ types      what does not fit is told with its path and place
//!                       └──get, edit──▶ nodes
//! ```
//!
//! Whoever reads what people write tells them where it is wrong. Serde's own readers stop at the
//! first fault; of a tree, what does not fit can be taken out, and the rest read on.

#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

mod node;
mod position;
mod yaml;

pub use node::{Key, Misfit, Node, Value, escape};
pub use position::Position;
pub use yaml::{NotYaml, documents};
