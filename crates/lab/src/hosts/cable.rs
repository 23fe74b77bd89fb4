//! A cable between two hosts instead of a switch: a pair of the kernel's devices.
//!
//! Such a pair hands large packets over whole, as network cards with all their offloads do, unless it is told not to.

use ports::ethtool;
use ports::netlink::{Handle, LinkChange, Netlink, Prefix, Qdisc, QdiscKind};
use units::Mac;

use super::FIRST_MAC;
use super::spec::{Cable, vtep};
use crate::LabError;
use crate::lab::Ground;

/// What both ends are called. Endpoints' interfaces are made beside them.
pub(crate) const UPLINK: &str = "uplink";

/// What the second host's end is called until it is there.
const OTHER: &str = "other";

/// The longest packet that stands for several and crosses a cable that cuts, in bytes: about the shortest that the kernel can be told
/// (MAX_TCP_HEADER). It holds for all that there is, of TCP or UDP and in whatever tunnel, where each offload of a device is for one.
const LONGEST_UNCUT: u32 = 512;

/// How many packets wait for an end that cuts, as for a network card: without a queue those are dropped that its ring cannot hold.
pub(super) const QUEUE: u32 = 1000;

/// Connects two hosts. Their ends are up then, and have no address.
pub(super) fn lay([one, other]: [&Ground<'_>; 2], mtu: u32, cable: Cable) -> Result<(), LabError> {
    let mut near = Netlink::open_in(&one.switch)?;
    // A queue keeps the packets of a flow in order.
    near.add_veth(UPLINK, OTHER, 1)?;
    near.change_link(OTHER, LinkChange { namespace: Some(&other.switch), ..LinkChange::default() })?;
    let mut far = Netlink::open_in(&other.switch)?;
    far.change_link(OTHER, LinkChange { name: Some(UPLINK), ..LinkChange::default() })?;
    for (host, (ground, netlink)) in (0..).zip([(one, &mut near), (other, &mut far)]) {
        let mac = Some(Mac::local(FIRST_MAC + host));
        netlink.change_link(UPLINK, LinkChange { mac, mtu: Some(mtu), ..LinkChange::default() })?;
        if cable == Cable::Cut {
            let gso_max_size = Some(LONGEST_UNCUT);
            netlink.change_link(UPLINK, LinkChange { gso_max_size, ..LinkChange::default() })?;
            ethtool::leave_cutting_to_kernel(&ground.switch, UPLINK)
                .map_err(LabError::kernel("switch a cable's offloads"))?;
            let kind = QdiscKind::Fifo { packets: QUEUE };
            let link = netlink.index(UPLINK)?;
            netlink.set_qdisc(link, Qdisc { parent: Handle::ROOT, handle: Handle(1, 0), kind })?;
        }
        netlink.change_link(UPLINK, LinkChange { up: Some(true), ..LinkChange::default() })?;
    }
    Ok(())
}

/// Gives a host its address in the physical network, at this device.
pub(super) fn give_address(netlink: &mut Netlink, device: &str, host: u32) -> Result<(), LabError> {
    let link = netlink.index(device)?;
    Ok(netlink.add_address(link, Prefix { address: vtep(host).into(), length: 24 })?)
}
