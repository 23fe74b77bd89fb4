//! Rings, bells and frame memory that two sides share without locks.
//!
//! ```text
//!                 loan: whose slot is it?
//!   ┌────────┐  ── ring: lent slots ──▶  ┌──────────┐
//!   │ Lender │        slots (bytes)      │ Borrower │        Pool: slots of one owner
//!   └────────┘  ◀── ring: given back ──  └──────────┘
//!        └────────── bell: wake me ───────────┘
//! ```
//!
//! A [`ring`](ring::ring) moves small values from one thread to one other. A [`Bell`] says when a side that sleeps
//! must be woken. A [`loan`](loan::loan) hands slots of frame memory over and back through two rings, so that each
//! slot has one user at any time. A [`Pool`] is the same memory for one owner alone.
//!
//! With `prefetch` this is the only crate below the purity line with `unsafe` in it. It waits for nothing, allocates when made
//! only, and knows nothing of frames, ports or processes: who maps the memory and who wakes whom is the
//! caller's business. A ring may lie in memory shared with a process that is not trusted: see
//! [`ring::Producer::join`].

#![no_std]
#![allow(unsafe_code, reason = "shared memory is what this crate is for; each block says why it holds")]

extern crate alloc;

mod bell;
mod heap;
pub mod loan;
mod pool;
pub mod ring;
mod sync;

pub use bell::Bell;
pub use loan::{Borrower, Lender};
pub use pool::Pool;
pub use ring::{Consumer, Corrupt, Full, Producer, RingError};

/// Two cache lines: the processor fetches lines in pairs, so what two sides write lies this far apart.
const LINE: usize = 128;
