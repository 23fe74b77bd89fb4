//! A cable between two hosts instead of a switch: a pair of the kernel's devices.
//!
//! Such a pair hands large packets over whole, as network cards with all their offloads do, unless
//! it is told not to.

use kernel::ethtool;
use kernel::netlink::{Handle, LinkChange, Netlink, Prefix, Qdisc, QdiscKind};
use units::Mac;

use super::names::{FIRST_MAC, vtep_by};
use super::spec::Cable;
use crate::LabError;
use crate::site::Ground;

/// What both ends of the first cable are called. Endpoints' interfaces are made beside them.
pub(crate) const UPLINK: &str = "uplink";

/// What both ends of a cable are called, by its number from 0.
pub(crate) fn uplink(number: u32) -> String {
    if number == 0 { UPLINK.into() } else { format!("{UPLINK}{}", number + 1) }
}

/// What the second host's end is called until it is there.
const OTHER: &str = "other";

/// The longest packet that stands for several and crosses a cable that cuts, in bytes: about the
/// shortest that the kernel can be told (MAX_TCP_HEADER). It holds for all that there is, of TCP or
/// UDP and in whatever tunnel, where each offload of a device is for one.
const LONGEST_UNCUT: u32 = 512;

/// How many packets wait for an end that cuts, as for a network card: without a queue those are
/// dropped that its ring cannot hold.
pub(super) const QUEUE: u32 = 1000;

/// Connects two hosts by the cable of this number. Its ends are up then, and have no address.
pub(super) fn lay(
    [one, other]: [&Ground<'_>; 2],
    number: u32,
    mtu: u32,
    cable: Cable,
) -> Result<(), LabError> {
    let uplink = &*uplink(number);
    let mut near = Netlink::open_in(&one.switch)?;
    // A queue keeps the packets of a flow in order.
    near.add_veth(uplink, OTHER, 1)?;
    near.change_link(
        OTHER,
        LinkChange { namespace: Some(&other.switch), ..LinkChange::default() },
    )?;
    let mut far = Netlink::open_in(&other.switch)?;
    far.change_link(OTHER, LinkChange { name: Some(uplink), ..LinkChange::default() })?;
    for (host, (ground, netlink)) in (0..).zip([(one, &mut near), (other, &mut far)]) {
        let mac = Some(Mac::local(FIRST_MAC + 256 * number + host));
        netlink.change_link(uplink, LinkChange { mac, mtu: Some(mtu), ..LinkChange::default() })?;
        if cable == Cable::Cut {
            let gso_max_size = Some(LONGEST_UNCUT);
            netlink.change_link(uplink, LinkChange { gso_max_size, ..LinkChange::default() })?;
            ethtool::leave_cutting_to_kernel(&ground.switch, uplink)
                .map_err(LabError::kernel("switch a cable's offloads"))?;
            let kind = QdiscKind::Fifo { packets: QUEUE };
            let link = netlink.index(uplink)?;
            netlink.set_qdisc(link, Qdisc { parent: Handle::ROOT, handle: Handle(1, 0), kind })?;
        }
        netlink.change_link(uplink, LinkChange { up: Some(true), ..LinkChange::default() })?;
    }
    Ok(())
}

/// Gives a host its address in the physical network that its uplink of this number leads to, at
/// this device.
pub(super) fn give_address(
    netlink: &mut Netlink,
    device: &str,
    number: u32,
    host: u32,
) -> Result<(), LabError> {
    let link = netlink.index(device)?;
    Ok(netlink.add_address(link, Prefix { address: vtep_by(number, host).into(), length: 24 })?)
}
