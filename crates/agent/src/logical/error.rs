//! Why objects of logical networks are not executed.

use std::fmt;
use std::io;
use std::path::PathBuf;

use datapath::CannotReach;
use logical::Fault;
use model::Generation;

/// All that is wrong with objects, one sentence each.
#[derive(Debug)]
pub struct Faults(pub Vec<Fault>);

impl fmt::Display for Faults {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(faults) = self;
        let (first, others) = match faults.split_first() {
            Some((first, others)) => (first, others.len()),
            None => return Ok(()),
        };
        first.fmt(f)?;
        if others > 0 { write!(f, " (and {others} more)") } else { Ok(()) }
    }
}

/// Why objects are not applied. Then all stays as it was.
#[derive(Debug, thiserror::Error)]
pub enum ApplyError {
    /// They cannot stand.
    #[error("logical networks: {0}")]
    Faults(Faults),
    /// They cannot stand beside the networks that are declared.
    #[error("logical networks: {0}")]
    Beside(#[from] CannotReach),
    /// A controller says which there are.
    #[error("this host follows a controller: declare logical networks there (docs/controller.md)")]
    Followed,
    /// Somebody has applied others since.
    #[error(
        "the logical networks are of generation {0} now: look at them (`zovn get logical`), and ask again for that one"
    )]
    Stale(Generation),
}

/// Why an agent does not start with the logical networks that it is to have.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// A file cannot be read.
    #[error("cannot read {}: name a file that exists and that you may read", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// The kernel's error.
        source: io::Error,
    },
    /// The files cannot stand: all that is wrong, a line each.
    #[error("{}", .0.join("\n"))]
    Faults(Vec<String>),
}
