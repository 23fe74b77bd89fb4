//! Why a lab does not come up, go down or answer.

use std::ffi::OsString;
use std::io;
use std::path::PathBuf;

use kernel::netlink::{NetlinkError, OpenError};
use kernel::netns::NamespaceError;
use port::PortError;
use tap::AttachError;

/// Why a lab could not do what it was asked. What it had made until then is removed.
#[derive(Debug, thiserror::Error)]
pub enum LabError {
    /// A file or directory.
    #[error("cannot open {}: {source}; {}", path.display(), hint(source))]
    File {
        /// Which.
        path: PathBuf,
        /// What the kernel said.
        source: io::Error,
    },
    /// A lab's file does not read as one.
    #[error("{}:{line}: {what} (docs/lab.md shows every key)", path.display())]
    Toml {
        /// The file.
        path: PathBuf,
        /// The line, from 1.
        line: usize,
        /// What is wrong with it.
        what: String,
    },
    /// A lab reads well and cannot be.
    #[error("lab `{lab}`: {what}")]
    Spec {
        /// Its name.
        lab: String,
        /// What is wrong, and what to write instead.
        what: String,
    },
    /// A physical switch reads well and cannot be.
    #[error("the fabric: {0}")]
    Fabric(String),
    /// An interface of a physical switch's host cannot be made.
    #[error("port `{port}`: {source}")]
    Attach {
        /// The port's name.
        port: String,
        /// Why.
        source: AttachError,
    },
    /// An interface of a physical switch's host is gone or broken.
    #[error(transparent)]
    Port(#[from] PortError),
    /// A lab of this name is up.
    #[error(
        "a lab named `{0}` is up already: take it down with `zovn lab down {0}`, or give this one another name"
    )]
    Taken(String),
    /// No lab is called so.
    #[error("no lab is called `{0}`: `zovn lab ps` lists those that there are")]
    Unknown(String),
    /// Several labs are called so.
    #[error("several labs are called `{name}`: say which by its id, {ids}")]
    Ambiguous {
        /// The name.
        name: String,
        /// Their ids.
        ids: String,
    },
    /// No endpoint is called so.
    #[error("lab `{lab}` has no endpoint `{endpoint}`: it has {known}")]
    UnknownEndpoint {
        /// The lab's name.
        lab: String,
        /// What was asked for.
        endpoint: String,
        /// Those that it has.
        known: String,
    },
    /// A program that the switch needs is not installed.
    #[error("cannot find `{program}`: install it with `apt-get install {package}`")]
    Missing {
        /// The program.
        program: &'static str,
        /// Debian's package that holds it.
        package: &'static str,
    },
    /// A namespace could not be used.
    #[error(transparent)]
    Namespace(#[from] NamespaceError),
    /// A device, an address or a queue could not be set up.
    #[error(transparent)]
    Netlink(#[from] NetlinkError),
    /// A namespace's devices could not be reached.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// There is no program of this name.
    #[error("cannot run `{}`: there is no such program; install it, or write its path", .0.display())]
    NoProgram(OsString),
    /// The kernel refused something else.
    #[error("cannot {operation}: {source}; a lab needs root and a kernel with network namespaces")]
    Kernel {
        /// What was tried, as a verb phrase.
        operation: String,
        /// What the kernel said.
        source: io::Error,
    },
    /// A kernel setting does not exist or does not take this value.
    #[error(
        "endpoint `{endpoint}`: cannot set `{key}` to `{value}`: {source}; check both against this kernel"
    )]
    Sysctl {
        /// The endpoint.
        endpoint: String,
        /// The setting.
        key: String,
        /// The value.
        value: String,
        /// What the kernel said.
        source: io::Error,
    },
    /// A program of the switch ended or said no.
    #[error("{program} failed: {said}")]
    Program {
        /// Which.
        program: String,
        /// The end of what it said.
        said: String,
    },
    /// A program of the switch did not become ready in time.
    #[error("{program} did not become ready within {seconds} s: {said}")]
    Late {
        /// Which.
        program: String,
        /// How long we waited.
        seconds: u64,
        /// The end of what it said.
        said: String,
    },
    /// The kernel has no place for huge pages.
    #[error(
        "the kernel gathered {got} of {wanted} huge pages of 2 MiB: free some memory, or have the kernel put what is \
         free together (echo 1 > /proc/sys/vm/compact_memory), and try again"
    )]
    Hugepages {
        /// How many were asked for.
        wanted: u64,
        /// How many there were.
        got: u64,
    },
    /// The agent does not answer.
    #[error("the lab's agent does not answer: {0}")]
    Agent(#[from] api::ClientError),
    /// The controller refuses, or does not answer.
    #[error(transparent)]
    Controller(#[from] api::RemoteError),
    /// Hosts do not execute what a controller was told.
    #[error(
        "not all hosts execute after {seconds} s what was declared ({said}): look at their agents' logs in the lab's directory"
    )]
    Unrealized {
        /// How long we waited.
        seconds: u64,
        /// What the controller says.
        said: String,
    },
    /// There is no controller.
    #[error("lab `{0}` has no controller: add [controller] to its file")]
    NoController(String),
    /// The caller changed its mind.
    #[error("interrupted: what was up already is removed")]
    Interrupted,
}

/// What to do about a file that the kernel does not give us.
fn hint(source: &io::Error) -> &'static str {
    if source.kind() == io::ErrorKind::PermissionDenied {
        "this needs root"
    } else {
        "check the path"
    }
}

impl LabError {
    /// Puts what was tried beside what the kernel said.
    pub(crate) fn kernel(operation: impl Into<String>) -> impl FnOnce(io::Error) -> Self {
        let operation = operation.into();
        move |source| Self::Kernel { operation, source }
    }

    /// Puts the path beside what the kernel said.
    pub(crate) fn file(path: &std::path::Path) -> impl FnOnce(io::Error) -> Self {
        let path = path.to_owned();
        move |source| Self::File { path, source }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whoever_may_not_is_told_who_may() {
        let said =
            |kind: io::ErrorKind| LabError::file("/run/zovn/lab".as_ref())(kind.into()).to_string();
        assert!(said(io::ErrorKind::PermissionDenied).ends_with("this needs root"));
        assert!(said(io::ErrorKind::NotFound).ends_with("check the path"));
    }
}
