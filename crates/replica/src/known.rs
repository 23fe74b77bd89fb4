//! Which generation of what.

use alloc::sync::Arc;

use model::Generation;

use crate::digest::Digest;

/// A domain's name.
pub type Name = Arc<str>;

/// Which store generations are numbered by. A store that was restored from an older copy is another
/// one: its revisions have gone back.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Store(pub u128);

/// Which of several controllers is the master: a later one has a higher number.
#[derive(Clone, Copy, Debug, Default, Eq, Ord, PartialEq, PartialOrd)]
pub struct Fence(pub u64);

/// A generation that an agent has of a domain, and what that comes to.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Known {
    /// The generation.
    pub generation: Generation,
    /// Its digest.
    pub digest: Digest,
}
