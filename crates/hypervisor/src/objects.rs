//! The objects that are declared now.

use alloc::collections::BTreeMap;
use alloc::sync::Arc;

use logical::Object;
use logical::objects::Identity;

/// An object, and the number of the edit that made it what it is.
pub type Version = (Arc<Object>, u64);

/// Objects by name.
#[derive(Default)]
pub struct Objects {
    all: BTreeMap<Identity, Version>,
    edits: u64,
}

impl Objects {
    /// Puts an object in the place of what has its name, or takes that away. Returns what was
    /// there.
    pub fn edit(&mut self, id: &Identity, to: Option<Arc<Object>>) -> Option<Version> {
        self.edits += 1;
        match to {
            Some(object) => self.all.insert(id.clone(), (object, self.edits)),
            None => self.all.remove(id),
        }
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.all.len()
    }

    /// The names of all of them, in order.
    pub fn names(&self) -> impl Iterator<Item = &Identity> {
        self.all.keys()
    }

    /// The object of a name, with its number.
    pub fn get(&self, id: &Identity) -> Option<&Version> {
        self.all.get(id)
    }
}
