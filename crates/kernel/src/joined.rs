//! Namespaces without names, and the cable between two of them: for experiments that leave nothing
//! behind, even if they are killed.

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Instant;

use units::Prefix;

use crate::netlink::{self, LinkChange, Netlink, NetlinkError, OpenError};
use crate::netns::{Namespace, NamespaceError};

/// What each end of the cable is called where it is.
pub const INTERFACE: &str = "eth0";

/// What every namespace's loopback is called.
pub const LOOPBACK: &str = "lo";

/// Why there are no such namespaces.
#[derive(Debug, thiserror::Error)]
pub enum JoinError {
    /// A namespace cannot be made or entered.
    #[error(transparent)]
    Namespace(#[from] NamespaceError),
    /// The kernel cannot be asked for a cable.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// It refuses.
    #[error(transparent)]
    Netlink(#[from] NetlinkError),
}

/// A new namespace that only its holders know, with its loopback up. It is gone once they are.
///
/// # Errors
///
/// [`JoinError`]
pub fn alone() -> Result<Namespace, JoinError> {
    static NUMBER: AtomicU32 = AtomicU32::new(0);
    let number = NUMBER.fetch_add(1, Ordering::Relaxed);
    let name = format!("zovn-{}-{number}", std::process::id());
    let namespace = Namespace::create(&name)?;
    Namespace::delete(&name)?;
    let up = LinkChange { up: Some(true), ..Default::default() };
    Netlink::open_in(&namespace)?.change_link(LOOPBACK, up)?;
    Ok(namespace)
}

/// Two such namespaces, joined by a cable of which both ends are up and called [`INTERFACE`].
///
/// # Errors
///
/// [`JoinError`]
pub fn two() -> Result<[Namespace; 2], JoinError> {
    let ends = [alone()?, alone()?];
    lay_cable([&ends[0], &ends[1]])?;
    Ok(ends)
}

/// Joins two namespaces by a cable of which both ends are up and called [`INTERFACE`].
///
/// # Errors
///
/// [`JoinError`]
pub fn lay_cable(ends: [&Namespace; 2]) -> Result<(), JoinError> {
    let mut near = Netlink::open_in(ends[0])?;
    near.add_veth(INTERFACE, "far", 1)?;
    near.change_link("far", LinkChange { namespace: Some(ends[1]), ..Default::default() })?;
    let mut far = Netlink::open_in(ends[1])?;
    far.change_link("far", LinkChange { name: Some(INTERFACE), ..Default::default() })?;
    for netlink in [&mut near, &mut far] {
        netlink.change_link(INTERFACE, LinkChange { up: Some(true), ..Default::default() })?;
    }
    Ok(())
}

/// Gives an interface in a namespace an address, and waits until it is in use. [`LOOPBACK`] has all
/// of the address's network then, as it has 127.0.0.0/8.
///
/// # Errors
///
/// [`JoinError`]
pub fn give_address(
    namespace: &Namespace,
    interface: &str,
    prefix: Prefix,
) -> Result<(), JoinError> {
    let mut netlink = Netlink::open_in(namespace)?;
    let link = netlink.index(interface)?;
    netlink.add_address(link, prefix)?;
    Ok(netlink::await_addresses(
        namespace,
        interface,
        [prefix],
        Instant::now() + netlink::PATIENCE,
    )?)
}
