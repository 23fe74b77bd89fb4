//! What is wrong with a plan's files, and where.

use std::fmt;
use std::io;
use std::path::PathBuf;

use serde::Serialize;
use tree::Position;

/// A fault of a file.
#[derive(Clone, Debug, Eq, PartialEq, Serialize)]
pub struct Fault {
    /// The file.
    pub file: String,
    /// Its line, from 1.
    pub line: usize,
    /// Its column, from 1.
    pub column: usize,
    /// The field as a JSON pointer (RFC 6901).
    pub path: String,
    /// What is wrong, and what to write instead.
    pub message: String,
}

impl Fault {
    pub(crate) fn new(file: &str, at: Position, path: &str, message: String) -> Self {
        let Position { line, column } = at;
        Self { file: file.into(), line, column, path: path.into(), message }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { file, line, column, path, message } = self;
        write!(f, "{file}:{line}:{column}: ")?;
        if path.is_empty() { write!(f, "{message}") } else { write!(f, "{path}: {message}") }
    }
}

/// Why there is no plan.
#[derive(Debug, thiserror::Error)]
pub enum PlanError {
    /// A file cannot be read.
    #[error("cannot read {}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
    /// Files say what cannot be: all of it, in their order.
    #[error("{} of the plan {} wrong", counted(.0.len()), if .0.len() == 1 { "is" } else { "are" })]
    Faults(Vec<Fault>),
}

fn counted(number: usize) -> String {
    if number == 1 { "one field".into() } else { format!("{number} fields") }
}
