//! Which objects somebody watches, and what changes of them.

use store::{Changes, Cursor, Entry, Revision, Store, StoreError};

use crate::selection::Selection;

/// How many changes are read, and told in one text.
const STEP: usize = 64;

/// Which objects are watched.
#[derive(Clone, Debug)]
pub struct Watched {
    /// What their keys begin with.
    pub prefix: String,
    /// Which of these.
    pub selection: Selection,
}

impl Watched {
    /// Some changes of them. One that is not meant any more is gone for who watches.
    ///
    /// # Errors
    ///
    /// [`StoreError`]
    pub fn changes(&self, store: &Store, cursor: Cursor) -> Result<Changes, StoreError> {
        let mut all = store.changes(cursor, &self.prefix, STEP)?;
        if self.selection.is_all() {
            return Ok(all);
        }
        let selects = |entry: &Entry| self.selection.selects(entry);
        let mut kept = Vec::new();
        for mut change in all.changes {
            if !change.entry.as_ref().is_some_and(selects) {
                let before = Revision(change.revision.0 - 1);
                let was_meant = match store.get(&change.key, Some(before)) {
                    Ok(entry) => entry.as_ref().is_some_and(selects),
                    // Nobody knows any more: who watches may have seen it.
                    Err(StoreError::Compacted { .. }) => true,
                    Err(error) => return Err(error),
                };
                if !was_meant {
                    continue;
                }
                change.entry = None;
            }
            kept.push(change);
        }
        all.changes = kept;
        Ok(all)
    }
}
