//! Cables between endpoints and a switch of the kernel's devices: veth pairs, each shaped towards
//! its endpoint.
//!
//! ```text
//!   endpoint's namespace          switch's namespace
//!   eth0 ◀────────── veth ──────────▶ NAME ◀── tbf(rate) ◀── pfifo(buffer) ◀── the switch
//! ```
//!
//! The queue stands where a physical switch has it, at the egress port: what does not fit is
//! dropped there, frame by frame. Rates count L2 frames without preamble and check sequence, as
//! zovn's own shaper does.

use kernel::ethtool;
use kernel::netlink::{Handle, LinkChange, Netlink, Qdisc, QdiscKind, TokenBucket};
use wire::ethernet::TAGGED_LEN;

use crate::endpoint::{self, INTERFACE};
use crate::site::Site;
use crate::{Endpoint, LabError};

/// The queue of a port that has a rate and does not say how much may wait: what zovn's egress has
/// then.
const DEFAULT_BUFFER: u32 = 1024;

/// What an endpoint's interface is called until it is there: like no endpoint, and a host may have
/// an interface of its own.
const FAR: &str = "_far";

/// Whether endpoints may hand over large segments and unfinished checksums.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Offload {
    On,
    Off,
}

/// Connects every endpoint to a device of its name in the switch's namespace; all are up.
pub(crate) fn lay(
    site: &Site<'_>,
    netlink: &mut Netlink,
    offload: Offload,
) -> Result<(), LabError> {
    for (endpoint, namespace) in &site.endpoints {
        site.ground.check_interrupted()?;
        // One queue each way keeps a flow's frames in order.
        netlink.add_veth(&endpoint.name, FAR, 1)?;
        let there =
            LinkChange { namespace: Some(namespace), name: Some(INTERFACE), ..Default::default() };
        netlink.change_link(FAR, there)?;
        let near = LinkChange { mtu: Some(site.spec.mtu), up: Some(true), ..Default::default() };
        netlink.change_link(&endpoint.name, near)?;
        if offload == Offload::Off {
            let why = format!("switch off the offloads of {}", endpoint.name);
            ethtool::switch_offload_off(namespace, INTERFACE).map_err(LabError::kernel(why))?;
        }
        endpoint::configure(&mut Netlink::open_in(namespace)?, endpoint, site.spec.mtu)?;
        shape(netlink, endpoint, site.spec.mtu)?;
    }
    Ok(())
}

/// Puts a rate and a queue in front of an endpoint's cable.
fn shape(netlink: &mut Netlink, endpoint: &Endpoint, mtu: u32) -> Result<(), LabError> {
    let link = netlink.index(&endpoint.name)?;
    let fifo = |parent, buffer| {
        let handle = Handle(2, 0);
        Qdisc { parent, handle, kind: QdiscKind::Fifo { packets: buffer } }
    };
    let Some(rate) = endpoint.rate else {
        if let Some(buffer) = endpoint.buffer {
            netlink.set_qdisc(link, fifo(Handle::ROOT, buffer))?;
        }
        return Ok(());
    };
    let buffer = endpoint.buffer.unwrap_or(DEFAULT_BUFFER);
    let bucket = TokenBucket {
        rate,
        burst_bytes: rate.bucket_bytes(mtu),
        // The queue below bounds what waits; this only must not bite first.
        limit_bytes: u32::MAX,
        overhead_bytes: 0,
        smallest_bytes: 0,
        // One place in the queue is one frame: a large segment is cut before it takes a place.
        largest_bytes: Some(mtu + TAGGED_LEN as u32),
    };
    let bucket =
        Qdisc { parent: Handle::ROOT, handle: Handle(1, 0), kind: QdiscKind::TokenBucket(bucket) };
    netlink.set_qdisc(link, bucket)?;
    Ok(netlink.set_qdisc(link, fifo(Handle(1, 1), buffer))?)
}
