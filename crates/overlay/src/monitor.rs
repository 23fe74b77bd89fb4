//! What watches paths to other hosts.

use std::net::IpAddr;
use std::os::fd::BorrowedFd;
use std::sync::Arc;

use model::BfdStatus;
use seal::Keys;

/// Watches the paths that begin at one uplink, as BFD does.
pub trait Monitor {
    /// Watches the paths to these addresses, and no others.
    fn watch(&mut self, far: &[IpAddr]);

    /// Uses these pre-shared keys from now on, if there were some before.
    fn set_keys(&mut self, keys: &Arc<Keys>);

    /// What becomes readable when the state of a path has changed. `None` if no paths are watched.
    fn events(&self) -> Option<BorrowedFd<'_>>;

    /// Calls `found` for each watched path with whether it works now. `None`: the far host's
    /// operator holds BFD down, which says nothing of the path (RFC 5882 §3.2).
    fn each(&self, found: &mut dyn FnMut(IpAddr, Option<bool>));

    /// The state of the path to a host, if it is watched.
    fn status(&self, remote: IpAddr) -> Option<BfdStatus>;

    /// Why paths are not watched although that is wanted, in sentences.
    fn notes(&self) -> Vec<String>;
}
