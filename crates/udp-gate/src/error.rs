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
        /// What was being done.
        step: &'static str,
    },
    /// Nobody would tell when a socket is closed.
    #[error("no cgroup v2 hierarchy is mounted; mount one, for example on /sys/fs/cgroup")]
    NoCgroup,
    /// An old kernel, or one built without what is needed.
    #[error("the kernel refused {step}: {}; Linux 6.3 or newer has what is needed", chain(.source.as_ref()))]
    Refused {
        /// What was being done.
        step: &'static str,
        /// What the loader said.
        source: Box<dyn Error + Send + Sync>,
    },
    /// The embedded programs are not those that this was written for: our defect.
    #[error("the BPF object lacks {0}; report this")]
    Incomplete(&'static str),
}

/// Why a namespace's sockets cannot be watched.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// Too many of them, as a rule.
    #[error("cannot note that namespace {namespace} is served: {source}; serve fewer")]
    Map {
        /// Its inode number.
        namespace: u32,
        /// What the kernel said.
        source: aya::maps::MapError,
    },
    /// The sockets that exist could not be listed.
    #[error("cannot survey the UDP sockets of {namespace}: {}", chain(.source.as_ref()))]
    Survey {
        /// Where it was opened.
        namespace: PathBuf,
        /// What failed.
        source: Box<dyn Error + Send + Sync>,
    },
}

/// An error and its causes, in one line: the first of each, since some bring the verifier's whole
/// log.
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
