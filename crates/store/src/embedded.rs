//! A home in one file, by redb.

use std::fmt;
use std::fs::{self, File};
use std::ops::Range;
use std::path::{Path, PathBuf};

use redb::{
    Builder, Database, DatabaseError, ReadableDatabase, ReadableTable, StorageBackend,
    TableDefinition,
};

use crate::folder::make_private;
use crate::home::{Batch, Home, HomeError, Limits, Pair, View, Written};

const TABLE: TableDefinition<'_, &[u8], &[u8]> = TableDefinition::new("store");

/// The file, in its folder.
const FILE: &str = "store.redb";

/// The most memory for pages that were read or are to be written.
const CACHE_BYTES: usize = 64 << 20;

/// A batch is in memory until it is committed. 16 MiB hold what most transactions write, so that
/// they take one sync of the disk.
const LIMITS: Limits = Limits { writes: 16_384, bytes: 16 << 20 };

/// A home in one file, which one process has at a time.
pub struct Embedded {
    database: Database,
}

impl fmt::Debug for Embedded {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Embedded").finish_non_exhaustive()
    }
}

/// Why the home in a folder cannot be had.
#[derive(Debug, thiserror::Error)]
pub enum FolderError {
    /// Another process has it.
    #[error("another process has the store in {}: end it, or name another folder", .0.display())]
    InUse(PathBuf),
    /// There is none, where one has to be.
    #[error("there is no store in {}: name a controller's folder", .0.display())]
    Absent(PathBuf),
    /// The file cannot be made, or is not ours.
    #[error(transparent)]
    Home(#[from] HomeError),
}

impl Embedded {
    /// The home in this folder, which is made if it is not there, for this user alone.
    ///
    /// # Errors
    ///
    /// [`FolderError`]
    pub fn open(folder: &Path) -> Result<Self, FolderError> {
        let in_use = || FolderError::InUse(folder.into());
        make_private(folder).map_err(failed)?;
        let (file, unfinished) = (folder.join(FILE), folder.join(format!("{FILE}.new")));
        if !file.exists() {
            // redb does not open a file whose making was interrupted. So it is made aside.
            match builder().create(&unfinished) {
                Ok(_) => {}
                Err(DatabaseError::DatabaseAlreadyOpen) => return Err(in_use()),
                Err(_) => {
                    fs::remove_file(&unfinished).map_err(failed)?;
                    builder().create(&unfinished).map_err(failed)?;
                }
            }
            fs::rename(&unfinished, &file).map_err(failed)?;
            // A name is durable only once its folder is.
            File::open(folder).and_then(|folder| folder.sync_all()).map_err(failed)?;
        }
        match builder().open(file) {
            Ok(database) => Ok(Self::new(database)?),
            Err(DatabaseError::DatabaseAlreadyOpen) => Err(in_use()),
            Err(error) => Err(failed(error).into()),
        }
    }

    /// The home in this folder, where there has to be one.
    ///
    /// # Errors
    ///
    /// [`FolderError`]
    pub fn existing(folder: &Path) -> Result<Self, FolderError> {
        match folder.join(FILE).is_file() {
            true => Self::open(folder),
            false => Err(FolderError::Absent(folder.into())),
        }
    }

    /// The home on a device of the caller's.
    ///
    /// # Errors
    ///
    /// [`HomeError`]: what the device holds is not ours, or it fails.
    pub fn on(device: impl StorageBackend) -> Result<Self, HomeError> {
        Self::new(builder().create_with_backend(device).map_err(failed)?)
    }

    fn new(database: Database) -> Result<Self, HomeError> {
        // A reader needs the table to be there.
        let transaction = database.begin_write().map_err(failed)?;
        transaction.open_table(TABLE).map_err(failed)?;
        transaction.commit().map_err(failed)?;
        Ok(Self { database })
    }
}

fn builder() -> Builder {
    let mut builder = Database::builder();
    builder.set_cache_size(CACHE_BYTES);
    builder
}

impl Home for Embedded {
    fn limits(&self) -> Limits {
        LIMITS
    }

    fn read(&self) -> Result<Box<dyn View + '_>, HomeError> {
        let transaction = self.database.begin_read().map_err(failed)?;
        Ok(Box::new(Table(transaction.open_table(TABLE).map_err(failed)?)))
    }

    fn write(&self, batch: &Batch) -> Result<Written, HomeError> {
        // A commit of redb's is durable when it returns, unless it is told otherwise.
        let transaction = self.database.begin_write().map_err(failed)?;
        {
            let mut table = transaction.open_table(TABLE).map_err(failed)?;
            for (key, expected) in &batch.expect {
                let found = table.get(key.as_slice()).map_err(failed)?;
                if found.as_ref().map(|it| it.value()) != expected.as_deref() {
                    return Ok(Written::Unexpected);
                }
            }
            for (key, value) in &batch.writes {
                match value {
                    Some(value) => {
                        drop(table.insert(key.as_slice(), value.as_slice()).map_err(failed)?)
                    }
                    None => drop(table.remove(key.as_slice()).map_err(failed)?),
                }
            }
        }
        transaction.commit().map_err(failed)?;
        Ok(Written::Done)
    }
}

/// The table at one moment.
struct Table(redb::ReadOnlyTable<&'static [u8], &'static [u8]>);

impl View for Table {
    fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>, HomeError> {
        Ok(self.0.get(key).map_err(failed)?.map(|it| it.value().to_vec()))
    }

    fn range(&self, keys: Range<&[u8]>, most: usize) -> Result<Vec<Pair>, HomeError> {
        let found = self.0.range::<&[u8]>(keys).map_err(failed)?.take(most);
        found.map(|pair| pair.map(owned).map_err(failed)).collect()
    }

    fn last(&self, keys: Range<&[u8]>) -> Result<Option<Pair>, HomeError> {
        let last = self.0.range::<&[u8]>(keys).map_err(failed)?.next_back();
        last.transpose().map(|pair| pair.map(owned)).map_err(failed)
    }
}

type Guard<'a> = redb::AccessGuard<'a, &'static [u8]>;

fn owned((key, value): (Guard<'_>, Guard<'_>)) -> Pair {
    (key.value().to_vec(), value.value().to_vec())
}

fn failed(error: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> HomeError {
    HomeError(error.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn batch() -> Batch {
        Batch { expect: vec![(b"a".to_vec(), None)], writes: vec![(b"a".to_vec(), Some(vec![1]))] }
    }

    #[test]
    fn a_home_whose_making_was_interrupted_is_made_anew() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("store.redb.new"), [0; 4096]).unwrap();
        let home = Embedded::open(folder.path()).unwrap();
        assert_eq!(home.write(&batch()).unwrap(), Written::Done);
        drop(home);
        let home = Embedded::open(folder.path()).unwrap();
        assert_eq!(home.write(&batch()).unwrap(), Written::Unexpected);
    }

    #[test]
    fn a_home_that_has_to_be_there_is_not_made() {
        let folder = tempfile::tempdir().unwrap();
        let refused = Embedded::existing(folder.path()).unwrap_err().to_string();
        assert!(refused.contains("there is no store in "), "{refused}");
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
        drop(Embedded::open(folder.path()).unwrap());
        Embedded::existing(folder.path()).unwrap();
    }

    #[test]
    fn a_home_is_one_process_at_a_time() {
        let folder = tempfile::tempdir().unwrap();
        let _home = Embedded::open(folder.path()).unwrap();
        let refused = Embedded::open(folder.path()).unwrap_err().to_string();
        assert!(refused.contains("another process has the store in "), "{refused}");
    }
}
