//! Rules that turn tables into tables, incrementally: a Datalog for forwarding state.
//!
//! A [`Program`] is rules that were read and checked. An [`Engine`] holds its tables. It is given
//! a [`Batch`] of input tuples that come and go, and answers with the [`Change`] of its output
//! tables, whose cost is in what changes, not in what there is. `docs/nlog.md` teaches the
//! language; the rules of the paper's figure 6 are in `rules/figure6.nlog`.
//!
//! ```text
//!   rules ─lex, parse─▶ items ─names, rules, strata─▶ Program ─plan, orders─▶ plans
//!                                                                              │
//!   Batch ─▶ added up ─▶ numbers of derivations ─ 0 ↔ 1 ─▶ tuples come and go ─┴─▶ told to heads
//!              ▲           (store, tree)                      │                       │
//!              └───────── the next stratum ◀──────────────────┼───────────────────────┘
//!                                                             └─▶ Change
//! ```
//!
//! # Promises
//!
//! - **All or nothing.** A batch is done whole, or refused with a reason and leaves no trace.
//!   [`Engine::preview`] does it, tells, and undoes it.
//! - **The order does not matter**: not of a batch's edits, nor of batches, rules or files. What
//!   the tables hold follows from the inputs alone, with every number of derivations.
//! - **A rule that reads nothing that changed costs nothing**, and no rule reads the same thing
//!   twice for one derivation.
//! - **It ends.** Recursion makes no values, so there is an end of them.
//!
//! # What it does not know
//!
//! Time, threads and files. Inputs that flap are damped before they come here.
//!
//! # Arithmetic
//!
//! A value is a word of 4 bytes, so a tuple of four columns has 16, 4 more for its number of
//! derivations, and 16 for each further order; rows fill 56 of 64 places after a cold start. With
//! two orders that is 41 bytes, of which a search reads a leaf, about 1 KB, after two or three
//! inner nodes that stay in the processor's caches. Nothing on the way of a change hashes or
//! compares a text.

#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

mod aggregate;
mod check;
mod counters;
mod engine;
mod evaluate;
mod explain;
mod kinds;
mod layout;
mod lex;
mod library;
mod names;
mod orders;
mod parse;
mod plan;
mod program;
mod recursion;
mod rules;
mod settle;
mod sort;
mod source;
mod space;
mod state;
mod store;
mod strata;
mod sweep;
mod syntax;
mod tree;
mod values;

#[cfg(test)]
mod tests;

pub use counters::{Counters, RuleCounters};
pub use engine::{Batch, Change, Engine, Refusal};
pub use explain::{Condition, Explanation, Fact, Reason};
pub use kinds::{Kind, Scalar};
pub use layout::{TableId, Tuple};
pub use library::{Answer, Call, Library};
pub use program::Program;
pub use source::Fault;
pub use syntax::Role;
pub use values::{Datum, Value, Values};
