//! What the controller keeps: values by key, with revisions, transactions and history.
//!
//! ```text
//! get, list at a revision ◀─┐
//! changes after a revision ◀┼─ Store: revisions, conditions, history ─ batches ─▶ Home: a map of bytes
//! commit: all or nothing ───┘                                                      └─ Embedded (redb)
//! ```
//!
//! A [`Store`] promises:
//!
//! - What [`Store::commit`] has acknowledged is there after any crash. What it has not is there as
//!   a whole or not at all.
//! - Each commit that changes something is one revision, numbered from 1 without gaps.
//! - A read at a revision shows exactly what was there then, until that is compacted away.
//! - A reader of changes sees every change after its revision, in order, or is told to begin anew.
//! - Of two processes that have opened the same home, only the later one can write.
//!
//! A [`Home`] has only to keep small batches, atomically and durably. Larger transactions are
//! written in several batches that nobody sees before the last. So what is proven of the store in
//! one home holds in each.
//!
//! Nothing here knows what the values mean.

#![forbid(unsafe_code)]

mod embedded;
mod folder;
mod home;
mod key;
mod layout;
mod store;
mod transaction;

pub use embedded::{Embedded, FolderError};
pub use folder::make_private;
pub use home::{Batch, Home, HomeError, Limits, Pair, View, Written};
pub use key::{Key, Revision};
pub use store::{Change, Changes, CommitError, Cursor, Entry, Page, Store, StoreError};
pub use transaction::{Condition, Conflict, Transaction};
