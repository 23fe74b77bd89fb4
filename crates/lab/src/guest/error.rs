//! Why a guest does not boot, answer or do what it is told.

use std::io;

use crate::LabError;

/// Why a guest could not do what it was asked.
#[derive(Debug, thiserror::Error)]
pub enum GuestError {
    /// A file, or a program that guests need.
    #[error(transparent)]
    Lab(#[from] LabError),
    /// The host's kernel refused something.
    #[error("cannot {operation}: {source}")]
    System {
        /// What was tried, as a verb phrase.
        operation: &'static str,
        /// What the kernel said.
        source: io::Error,
    },
    /// The guest is gone, or its emulator never ran it.
    #[error("guest `{guest}` has ended; its last words:\n{console}")]
    Ended {
        /// Its name.
        guest: String,
        /// The end of what it and its emulator said.
        console: String,
    },
    /// The guest took too long.
    #[error("guest `{guest}` did not {what} within {seconds} s; its last words:\n{console}")]
    Late {
        /// Its name.
        guest: String,
        /// What was waited for, as a verb phrase.
        what: String,
        /// How long we waited.
        seconds: u64,
        /// The end of what it and its emulator said.
        console: String,
    },
    /// A program did not start inside the guest, or failed where it must not.
    #[error("guest `{guest}`: `{program}` failed: {said}")]
    Program {
        /// The guest's name.
        guest: String,
        /// The program and its arguments.
        program: String,
        /// Why, or what it said.
        said: String,
    },
    /// The emulator refuses a command.
    #[error("guest `{guest}`: QEMU refuses `{command}`: {said}")]
    Refused {
        /// The guest's name.
        guest: String,
        /// QMP's command.
        command: String,
        /// QEMU's reason.
        said: String,
    },
}

impl GuestError {
    /// Puts what was tried beside what the kernel said.
    pub(super) fn system<E: Into<io::Error>>(operation: &'static str) -> impl FnOnce(E) -> Self {
        move |source| Self::System { operation, source: source.into() }
    }
}
