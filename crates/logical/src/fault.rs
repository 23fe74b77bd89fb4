//! What is wrong with a declaration, and where.

use alloc::string::String;
use core::fmt;

use tree::Position;

/// A fault of one object: what is wrong, and what to write instead.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Fault {
    /// Which of the objects, in their order; `None` if the text has none there.
    pub index: Option<usize>,
    /// The object as `Kind/tenant/name`, or as much of it as is known.
    pub object: String,
    /// The field as a JSON pointer (RFC 6901) from the object: `/spec/addresses/0`.
    pub path: String,
    /// What is wrong, and what to write instead.
    pub message: String,
    /// Where that stands in the text that was read. `None` if the object was not read from a text.
    pub position: Option<Position>,
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(Position { line, column }) = self.position {
            write!(f, "{line}:{column}: ")?;
        }
        let Self { object, path, message, .. } = self;
        match (object.is_empty(), path.is_empty()) {
            (true, _) => f.write_str(message),
            (false, true) => write!(f, "{object}: {message}"),
            (false, false) => write!(f, "{object} {path}: {message}"),
        }
    }
}

impl core::error::Error for Fault {}
