//! The kernel's bridge as the physical switch: to each host a veth pair, which is shaped at both
//! ends.
//!
//! ```text
//!   host's namespace                                                switch's namespace
//!   its stack ─▶ pfifo ─▶ tbf(rate) ─▶ eth0 ◀──── veth ────▶ host1 ◀─ tbf(rate) ◀─ bfifo(buffer) ◀─ the bridge
//! ```
//!
//! A rate counts what frames take on a wire, as [ours](crate::physical) does. Hosts may hand over
//! large segments; they are cut before they take a place in a queue, as network cards do it. Other
//! than ours, a bridge has its buffers at its outputs.

use kernel::netlink::{Handle, LinkChange, Netlink, Qdisc, QdiscKind, TokenBucket};
use units::{Mac, Rate};
use wire::ethernet::TAGGED_LEN;

use super::cable;
use super::names::{FIRST_MAC, host_name};
use super::spec::PhysicalSpec;
use crate::bridge::SWITCH;
use crate::site::Ground;
use crate::{INTERFACE, LabError};

/// What a frame takes on a wire besides its bytes: check sequence, preamble and gap (802.3 §3.1.1,
/// §4.4.2).
const AROUND: u16 = 24;

/// What the shortest frame takes on a wire (802.3 §3.2.7).
const SHORTEST: u16 = 60 + AROUND;

/// The most that may wait in front of a host's link without being counted in packets, in bytes.
const BOUNDLESS: u32 = u32::MAX;

/// Makes a bridge at `ground`, and cables from the hosts to it. The hosts' interfaces have their
/// addresses then.
pub(super) fn join(
    ground: &Ground<'_>,
    hosts: &[Ground<'_>],
    physical: &PhysicalSpec,
) -> Result<(), LabError> {
    let PhysicalSpec { mtu, rate, buffer, .. } = *physical;
    let mut netlink = Netlink::open_in(&ground.switch)?;
    netlink.add_bridge(SWITCH)?;
    let master = Some(netlink.index(SWITCH)?);
    for (number, host) in (0..).zip(hosts) {
        ground.check_interrupted()?;
        let name = host_name(number);
        // One queue each way keeps a flow's frames in order.
        netlink.add_veth(&name, INTERFACE, 1)?;
        let there = LinkChange { namespace: Some(&host.switch), ..LinkChange::default() };
        netlink.change_link(INTERFACE, there)?;
        let port = LinkChange { mtu: Some(mtu), master, up: Some(true), ..LinkChange::default() };
        netlink.change_link(&name, port)?;
        let limit = u32::try_from(buffer.bytes.0).unwrap_or(u32::MAX);
        shape(&mut netlink, &name, rate, mtu, limit)?;

        let mut far = Netlink::open_in(&host.switch)?;
        let mac = Some(Mac::local(FIRST_MAC + number));
        far.change_link(INTERFACE, LinkChange { mac, mtu: Some(mtu), ..LinkChange::default() })?;
        let link = shape(&mut far, INTERFACE, rate, mtu, BOUNDLESS)?;
        let kind = QdiscKind::Fifo { packets: cable::QUEUE };
        far.set_qdisc(link, Qdisc { parent: Handle(1, 1), handle: Handle(2, 0), kind })?;
        far.change_link(INTERFACE, LinkChange { up: Some(true), ..LinkChange::default() })?;
        cable::give_address(&mut far, INTERFACE, 0, number)?;
    }
    // Last, so that its MTU follows its ports'.
    Ok(netlink.change_link(SWITCH, LinkChange { up: Some(true), ..LinkChange::default() })?)
}

/// Has a device send no faster than its link; of what waits, so many bytes fit. Returns the
/// device's number.
fn shape(
    netlink: &mut Netlink,
    device: &str,
    rate: Rate,
    mtu: u32,
    limit: u32,
) -> Result<u32, LabError> {
    let bucket = TokenBucket {
        rate,
        burst_bytes: rate.bucket_bytes(mtu + u32::from(AROUND)),
        limit_bytes: limit,
        overhead_bytes: AROUND,
        smallest_bytes: SHORTEST,
        largest_bytes: Some(mtu + TAGGED_LEN as u32),
    };
    let link = netlink.index(device)?;
    let kind = QdiscKind::TokenBucket(bucket);
    netlink.set_qdisc(link, Qdisc { parent: Handle::ROOT, handle: Handle(1, 0), kind })?;
    Ok(link)
}
