//! Where a lab is built: the place of its switch's programs, and the namespaces of its endpoints.

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};

use kernel::netns::Namespace;

use crate::{Endpoint, LabError, LabSpec};

/// Where a switch's programs run.
#[derive(Debug)]
pub(crate) struct Ground<'a> {
    /// Their files, logs and sockets.
    pub(crate) directory: PathBuf,
    /// Where they are written down.
    pub(crate) processes: PathBuf,
    /// Their network namespace.
    pub(crate) switch: Namespace,
    /// Whether whoever waits for them wants no more.
    pub(crate) interrupted: &'a AtomicBool,
}

/// Where a lab is being built.
pub(crate) struct Site<'a> {
    pub(crate) ground: Ground<'a>,
    pub(crate) spec: &'a LabSpec,
    pub(crate) endpoints: Vec<(&'a Endpoint, Namespace)>,
}

impl<'a> Ground<'a> {
    /// The same for other programs: those of a host, with files in a directory of its own.
    pub(crate) fn of_host(&self, directory: PathBuf, switch: Namespace) -> Ground<'a> {
        Ground {
            directory,
            processes: self.processes.clone(),
            switch,
            interrupted: self.interrupted,
        }
    }

    pub(crate) fn check_interrupted(&self) -> Result<(), LabError> {
        if self.interrupted.load(Ordering::Relaxed) { Err(LabError::Interrupted) } else { Ok(()) }
    }
}

pub(crate) fn open(netns: &str) -> Result<Namespace, LabError> {
    Ok(Namespace::open(netns)?)
}
