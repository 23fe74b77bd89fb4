//! Keys and revisions.

use std::fmt;

/// The longest key, in bytes.
const MOST_BYTES: usize = 512;

/// What a value is kept under: 1 to 512 bytes of text without NUL. Keys are ordered by their bytes.
#[derive(Clone, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct Key(Box<str>);

impl Key {
    /// A key. `None` if this text cannot be one.
    pub fn new(text: impl Into<Box<str>>) -> Option<Self> {
        let text = text.into();
        let fits = (1..=MOST_BYTES).contains(&text.len()) && !text.contains('\0');
        fits.then_some(Self(text))
    }

    /// Its text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// How many commits have changed the store. 0: it is new.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct Revision(pub u64);

impl Revision {
    /// The next one.
    pub(crate) const fn next(self) -> Self {
        Self(self.0 + 1)
    }
}

impl fmt::Display for Revision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}
