//! Where a store lives: an ordered map of bytes with atomic batches.

use std::error::Error;
use std::fmt;
use std::ops::Range;

/// An ordered map of bytes that keeps what it has acknowledged.
pub trait Home: fmt::Debug + Send + Sync {
    /// How much fits into one batch.
    fn limits(&self) -> Limits;

    /// The map as it is at this moment. It does not change while it is looked at.
    ///
    /// # Errors
    ///
    /// [`HomeError`]: the home cannot be read.
    fn read(&self) -> Result<Box<dyn View + '_>, HomeError>;

    /// Writes a batch if all that it expects is so: all of it, durably, or nothing.
    ///
    /// # Errors
    ///
    /// [`HomeError`]: the batch may have been written or not.
    fn write(&self, batch: &Batch) -> Result<Written, HomeError>;
}

/// A key with its value.
pub type Pair = (Vec<u8>, Vec<u8>);

/// The map at one moment.
pub trait View {
    /// The value of a key.
    ///
    /// # Errors
    ///
    /// [`HomeError`]: the home cannot be read.
    fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>, HomeError>;

    /// The first keys of a range with their values, in order; at most so many.
    ///
    /// # Errors
    ///
    /// [`HomeError`]: the home cannot be read.
    fn range(&self, keys: Range<&[u8]>, most: usize) -> Result<Vec<Pair>, HomeError>;

    /// The last key of a range with its value.
    ///
    /// # Errors
    ///
    /// [`HomeError`]: the home cannot be read.
    fn last(&self, keys: Range<&[u8]>) -> Result<Option<Pair>, HomeError>;
}

/// How much fits into one batch.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Limits {
    /// The most writes.
    pub writes: usize,
    /// The most bytes of the keys and values that are written.
    pub bytes: usize,
}

/// What is to be written at once.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Batch {
    /// The values that keys have to have for anything to be written. `None`: the key is absent.
    pub expect: Vec<(Vec<u8>, Option<Vec<u8>>)>,
    /// The values that keys get. `None`: the key is removed.
    pub writes: Vec<(Vec<u8>, Option<Vec<u8>>)>,
}

/// What became of a batch.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[must_use]
pub enum Written {
    /// It is written, durably.
    Done,
    /// Something that it expects is not so; nothing is written.
    Unexpected,
}

/// Why a home cannot be read or written.
#[derive(Debug, thiserror::Error)]
#[error("the store's home failed ({0}): look at its disk and at what it runs on")]
pub struct HomeError(#[source] pub Box<dyn Error + Send + Sync>);
