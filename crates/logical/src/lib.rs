//! Logical networks: what tenants and operators declare, checked and resolved.
//!
//! ```text
//! text: YAML, JSON ──read──▶ objects, by name ──resolve──▶ Topology: indexes that cannot dangle
//!                      │                          │
//!                      └──────── faults ◀─────────┘      all of them, each with its path, its line
//!                                                        and column, and what to write instead
//! ```
//!
//! [`objects`] are the declarations, field by field as the API and files have them. They refer to
//! each other by name. [`resolve`] checks them together and makes a [`Topology`], in which each
//! reference is an index that is known to exist, groups are sets of ports, and sets are ranges of
//! addresses. What reads a topology needs no error for a name that is not there.
//!
//! Nothing here decides about packets, knows hosts' ports, or keeps revisions.

#![cfg_attr(not(any(test, feature = "schema")), no_std)]
#![forbid(unsafe_code)]

extern crate alloc;

mod check;
mod domains;
mod fault;
mod label;
pub mod objects;
mod read;
mod references;
mod report;
mod resolve;
#[cfg(any(test, feature = "schema"))]
mod schema;
pub mod topology;

pub use domains::Domains;
pub use fault::Fault;
pub use label::{LABELS, is_labelled, label};
pub use objects::{Kind, Object};
pub use read::{Source, load, read};
pub use references::references;
pub use resolve::{allowed, resolve, zone};
#[cfg(any(test, feature = "schema"))]
pub use schema::schema;
pub use topology::Topology;
pub use tree::Position;
