//! Places in rule files, and what is wrong there.

use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;

/// A place in one of the files of a program. Lines and columns count from 1, columns in characters.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct Spot {
    /// The file, by its index.
    pub file: u32,
    pub line: u32,
    pub column: u32,
}

/// What is wrong with the rules, where, and what to do about it, in a sentence.
///
/// It is shown as compilers do: `rules/tunnels.nlog:12:5: no table is called lport: ...`.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Fault {
    /// The file's name, as it was given.
    pub file: String,
    /// The line, from 1.
    pub line: u32,
    /// The column, from 1, in characters.
    pub column: u32,
    /// The sentence.
    pub message: String,
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}:{}: {}", self.file, self.line, self.column, self.message)
    }
}

impl core::error::Error for Fault {}

/// The faults found so far.
#[derive(Default)]
pub(crate) struct Faults(Vec<(Spot, String)>);

impl Faults {
    pub fn add(&mut self, spot: Spot, message: impl Into<String>) {
        self.0.push((spot, message.into()));
    }

    pub fn append(&mut self, mut others: Self) {
        self.0.append(&mut others.0);
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// All of them, by place.
    pub fn named(mut self, files: &[String]) -> Vec<Fault> {
        self.0.sort();
        self.0.dedup();
        let fault = |(spot, message): (Spot, String)| Fault {
            file: files[spot.file as usize].clone(),
            line: spot.line,
            column: spot.column,
            message,
        };
        self.0.into_iter().map(fault).collect()
    }
}
