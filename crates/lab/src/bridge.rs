//! The kernel's bridge as the switch under test.

use kernel::netlink::{LinkChange, Netlink};

use crate::LabError;
use crate::cable::{self, Offload};
use crate::site::Site;

/// What the bridge is called in its namespace; no endpoint may be.
pub(crate) const SWITCH: &str = "switch";

/// Makes a bridge whose ports are the endpoints' cables.
pub(crate) fn up(site: &Site<'_>) -> Result<(), LabError> {
    let mut netlink = Netlink::open_in(&site.ground.switch)?;
    netlink.add_bridge(SWITCH)?;
    let bridge = netlink.index(SWITCH)?;
    let offload = if site.spec.offload { Offload::On } else { Offload::Off };
    cable::lay(site, &mut netlink, offload)?;
    for (endpoint, _) in &site.endpoints {
        let port = LinkChange { master: Some(bridge), ..Default::default() };
        netlink.change_link(&endpoint.name, port)?;
        if site.spec.static_addresses {
            let link = netlink.index(&endpoint.name)?;
            netlink.add_bridge_address(link, endpoint.mac)?;
        }
    }
    // Last, so that its MTU follows its ports'.
    Ok(netlink.change_link(SWITCH, LinkChange { up: Some(true), ..Default::default() })?)
}
