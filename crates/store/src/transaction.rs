//! What is written at once, and under which conditions.

use std::collections::BTreeMap;

use crate::key::{Key, Revision};

/// What is written at once, if its conditions hold.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Transaction {
    pub(crate) conditions: Vec<Condition>,
    pub(crate) writes: BTreeMap<Key, Option<Vec<u8>>>,
}

impl Transaction {
    /// Nothing yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Writes nothing at all unless this holds.
    #[must_use]
    pub fn when(mut self, condition: Condition) -> Self {
        self.conditions.push(condition);
        self
    }

    /// Gives a key a value. Of several writes to one key the last counts.
    pub fn put(&mut self, key: Key, value: Vec<u8>) {
        self.writes.insert(key, Some(value));
    }

    /// Removes a key. One that is absent stays so.
    pub fn delete(&mut self, key: Key) {
        self.writes.insert(key, None);
    }
}

/// What has to be so for a transaction to be written.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Condition {
    /// Nothing has changed since this revision.
    Unchanged(Revision),
    /// This key is absent.
    Absent(Key),
    /// This key was last written at this revision, and is there.
    Written(Key, Revision),
}

/// A condition that does not hold.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
#[error("{condition:?} does not hold: it is at revision {found:?}; read it again")]
pub struct Conflict {
    /// What was asked for.
    pub condition: Condition,
    /// Of a key: when it was last written; `None` if it is absent. Else the store's revision.
    pub found: Option<Revision>,
}
