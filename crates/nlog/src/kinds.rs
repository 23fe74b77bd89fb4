//! What a value can be.

use core::fmt;

/// A single thing.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Scalar {
    /// `true` or `false`.
    Bool,
    /// A number from 0 to 2^64 - 1.
    Int,
    /// UTF-8.
    Text,
    /// Any bytes.
    Bytes,
    /// A number of the program's user, who alone knows what it stands for.
    Id,
}

/// A single thing, or a set of single things.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Kind {
    /// A single thing.
    One(Scalar),
    /// What the aggregate `set` makes.
    Set(Scalar),
}

impl Scalar {
    /// The scalar that rule files call so.
    pub(crate) fn named(name: &str) -> Option<Self> {
        Some(match name {
            "bool" => Self::Bool,
            "int" => Self::Int,
            "text" => Self::Text,
            "bytes" => Self::Bytes,
            "id" => Self::Id,
            _ => return None,
        })
    }
}

impl fmt::Display for Scalar {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Bool => "bool",
            Self::Int => "int",
            Self::Text => "text",
            Self::Bytes => "bytes",
            Self::Id => "id",
        })
    }
}
