//! Why sockets cannot be watched.

use std::error::Error;
use std::path::PathBuf;

/// Why UDP sockets cannot be watched on this host.
#[derive(Debug, thiserror::Error)]
pub enum GateUnavailable {
    /// No BTF.
    #[error(
        "the kernel does not describe its types ({0}); use one built with CONFIG_DEBUG_INFO_BTF"
    )]
    NoTypes(#[source] aya::BtfError),
    /// EPERM.
    #[error(
        "not allowed while {step}; run as root, or with CAP_BPF, CAP_PERFMON, CAP_NET_ADMIN and CAP_SYS_ADMIN"
    )]
    NoPrivilege {
        /// The step that failed.
        step: &'static str,
    },
    /// Without cgroup v2, closed sockets are not noticed.
    #[error("no cgroup v2 hierarchy is mounted; mount one, for example on /sys/fs/cgroup")]
    NoCgroup,
    /// The kernel is too old, or lacks a feature.
    #[error("the kernel refused {step}: {}; Linux 6.3 or newer has what is needed", chain(.source.as_ref()))]
    Refused {
        /// The step that failed.
        step: &'static str,
        /// The loader's error.
        source: Box<dyn Error + Send + Sync>,
    },
    /// The embedded programs do not match this code: our defect.
    #[error("the BPF object lacks {0}; report this")]
    Incomplete(&'static str),
}

/// Why a namespace's sockets cannot be watched.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// Usually because there are too many.
    #[error("cannot note that namespace {namespace} is served: {source}; serve fewer")]
    Map {
        /// The namespace's inode number.
        namespace: u32,
        /// The kernel's error.
        source: aya::maps::MapError,
    },
    /// The sockets that exist could not be listed.
    #[error("cannot survey the UDP sockets of {namespace}: {}", chain(.source.as_ref()))]
    Survey {
        /// The path by which it was opened.
        namespace: PathBuf,
        /// The error.
        source: Box<dyn Error + Send + Sync>,
    },
}

/// An error and its causes in one line. Of each only the first line, because some contain the
/// verifier's whole log.
fn chain(error: &(dyn Error + 'static)) -> String {
    let first_line =
        |error: &dyn Error| error.to_string().lines().next().unwrap_or_default().to_owned();
    let mut text = first_line(error);
    let mut cause = error.source();
    while let Some(inner) = cause {
        let inner_text = first_line(inner);
        if !text.contains(&inner_text) {
            text = text + ": " + &inner_text;
        }
        cause = inner.source();
    }
    text
}
