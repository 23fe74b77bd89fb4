//! A cable between two hosts instead of a switch: a pair of the kernel's devices, which hand large packets over whole, as network
//! cards with all their offloads do.

use ports::netlink::{LinkChange, Netlink, Prefix};
use units::Mac;

use super::FIRST_MAC;
use super::spec::vtep;
use crate::LabError;
use crate::lab::Ground;

/// What both ends are called. Endpoints' interfaces are made beside them.
const UPLINK: &str = "uplink";

/// What the second host's end is called until it is there.
const OTHER: &str = "other";

/// Connects two hosts, whose interfaces are up then.
pub(super) fn lay([one, other]: [&Ground<'_>; 2], mtu: u32) -> Result<(), LabError> {
    let mut near = Netlink::open_in(&one.switch)?;
    // A queue keeps the packets of a flow in order.
    near.add_veth(UPLINK, OTHER, 1)?;
    near.change_link(OTHER, LinkChange { namespace: Some(&other.switch), ..LinkChange::default() })?;
    let mut far = Netlink::open_in(&other.switch)?;
    far.change_link(OTHER, LinkChange { name: Some(UPLINK), ..LinkChange::default() })?;
    for (host, netlink) in (0..).zip([&mut near, &mut far]) {
        let mac = Some(Mac::local(FIRST_MAC + host));
        netlink.change_link(UPLINK, LinkChange { mac, mtu: Some(mtu), ..LinkChange::default() })?;
        netlink.change_link(UPLINK, LinkChange { up: Some(true), ..LinkChange::default() })?;
        let link = netlink.index(UPLINK)?;
        netlink.add_address(link, Prefix { address: vtep(host).into(), length: 24 })?;
    }
    Ok(())
}
