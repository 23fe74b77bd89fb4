//! A store that was put back from a backup becomes another one.
//!
//! Agents take only what is newer than what they have of a store. One that was put back has lost
//! its newest revisions, and numbers others by the same numbers. As another store, its agents take
//! all of it, whatever they had of the one before, and go on with that until then.

use std::io;
use std::path::Path;

use serde::Serialize;
use store::{Embedded, FolderError, Store, StoreError};

use crate::audit::record_restored;

/// What has become of a store.
#[derive(Clone, Debug, Eq, PartialEq, Serialize)]
pub struct Restored {
    /// Which store it was.
    pub before: String,
    /// Which one it is now.
    pub store: String,
    /// Its newest revision.
    pub revision: u64,
}

/// Why a store does not become another one.
#[derive(Debug, thiserror::Error)]
pub enum RestoreError {
    /// It cannot be had: as a rule, a controller runs on it.
    #[error(transparent)]
    Home(#[from] FolderError),
    /// It cannot be read or written.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// That cannot be recorded.
    #[error("the store is another one now, but that cannot be recorded in its folder")]
    Unrecorded(#[source] io::Error),
}

/// Has the store in a folder be another one, with the same content, and records that in the audit
/// log. No controller may run on it.
///
/// # Errors
///
/// [`RestoreError`]
pub fn restored(folder: &Path) -> Result<Restored, RestoreError> {
    let store = Store::open(Box::new(Embedded::existing(folder)?))?;
    let before = store.uid().to_owned();
    let store = store.renew()?;
    let (uid, revision) = (store.uid().to_owned(), store.revision().0);
    record_restored(folder, revision).map_err(RestoreError::Unrecorded)?;
    Ok(Restored { before, store: uid, revision })
}
