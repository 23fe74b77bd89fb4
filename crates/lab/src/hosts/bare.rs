//! No tunnel: frames cross the cable as they are, through a port that each agent has beside its
//! endpoints'.
//!
//! ```text
//!   endpoint ◀─▶ agent ◀─▶ zovn0 ◀─ the kernel's bridge ─▶ uplink ◀══ cable ══▶
//! ```

use kernel::netlink::{LinkChange, Netlink};
use model::{Attachment, PinnedAddress, PortName, PortSpec};

use super::cable::UPLINK;
use super::names::host_name;
use crate::site::{Ground, Site};
use crate::{LabError, bridge};

/// The port's interface, in its host's own namespace.
const INTERFACE: &str = "zovn0";

/// An agent's port to the other host. All endpoints there are behind it.
pub(super) fn port(site: &Site<'_>, host: u32, netns: String) -> PortSpec {
    let attach = Attachment::Container {
        netns,
        interface: INTERFACE.into(),
        mac: None,
        addresses: Vec::new(),
        routes: Vec::new(),
        mtu: Some(site.spec.mtu),
        offload: site.spec.offload,
    };
    let far = site.endpoints.iter().filter(|(endpoint, _)| endpoint.host != Some(host));
    let pinned = far.map(|(endpoint, _)| PinnedAddress { mac: endpoint.mac, vlan: 0 });
    // No endpoint is called like a host.
    let name = PortName(host_name(1 - host));
    let pinned = if site.spec.static_addresses { pinned.collect() } else { Vec::new() };
    PortSpec { pinned, ..PortSpec::new(name, attach) }
}

/// Has a host's kernel hand frames over between the port's interface and the cable.
pub(super) fn bridge(ground: &Ground<'_>) -> Result<(), LabError> {
    let mut netlink = Netlink::open_in(&ground.switch)?;
    netlink.add_bridge(bridge::SWITCH)?;
    let master = Some(netlink.index(bridge::SWITCH)?);
    for device in [INTERFACE, UPLINK] {
        netlink.change_link(device, LinkChange { master, ..LinkChange::default() })?;
    }
    Ok(netlink
        .change_link(bridge::SWITCH, LinkChange { up: Some(true), ..LinkChange::default() })?)
}
