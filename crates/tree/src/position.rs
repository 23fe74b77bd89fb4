//! Where something stands in a text.

/// A line and a column of a text, both from 1; columns count characters.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub struct Position {
    /// The line.
    pub line: usize,
    /// The column.
    pub column: usize,
}
