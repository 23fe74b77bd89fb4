//! Whether containers' addresses are in use, and whether the host has its own. The caller that
//! attaches a port waits for the first, never the switch's thread.

use std::io;
use std::net::UdpSocket;
use std::time::Instant;

use kernel::netlink::{self, OpenError};
use kernel::netns::Namespace;
use model::{Attachment, PortSpec, VtepList};

/// Waits until the kernels of attached containers accept packets for all their addresses, and logs
/// a warning for those that do not.
pub(crate) fn await_use<'a>(ports: impl IntoIterator<Item = &'a PortSpec>) {
    let deadline = Instant::now() + netlink::PATIENCE;
    for port in ports {
        let Attachment::Container { netns, interface, addresses, .. } = &port.attach else {
            continue;
        };
        let wait = |namespace| {
            netlink::await_addresses(&namespace, interface, addresses.clone(), deadline)
        };
        if let Err(error) = Namespace::open(netns).map_err(OpenError::from).and_then(wait) {
            tracing::warn!(port = %port.name, %error, "the container may not hear what is sent to its addresses");
        }
    }
}

/// Whether this host has all these addresses.
pub(crate) fn are_ours(vtep: &VtepList) -> bool {
    let is_missing = |address| {
        UdpSocket::bind((address, 0))
            .is_err_and(|error| error.kind() == io::ErrorKind::AddrNotAvailable)
    };
    // Of other failures, those who open the uplink tell.
    !vtep.iter().any(is_missing)
}
