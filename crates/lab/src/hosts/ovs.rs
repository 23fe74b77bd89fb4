//! Open vSwitch on each of two hosts, in user space, with a VXLAN or GRE port to the other host;
//! or, without tunnels, with the end of the cable as a port.
//!
//! ```text
//!   eth0 ◀─tap─▶ overlay bridge ─▶ tunnel0 · · the host's address ─▶ underlay bridge ◀─AF_XDP─▶ uplink ◀══ cable ══▶
//!  endpoint                        └─────────────── inside ovs-vswitchd ──────────────┘
//! ```
//!
//! Of the ways in which the datapath can take frames from the kernel, these are the fastest that
//! work (Open vSwitch 3.1). Endpoints' interfaces are its own TAP devices: with a veth pair and an
//! AF_XDP port instead, a second of a processor carried 0.8 of what it carries so, with a packet
//! socket half. The cable is an AF_XDP port: with a packet socket it was three quarters.
//! `userspace-tso-enable` would let endpoints hand over large segments, but tunnels drop those, and
//! unfinished checksums with them. A polling thread (PMD) would keep a processor busy for each
//! host, with frames or without.

use kernel::netlink::{LinkChange, Netlink};
use model::Encapsulation;
use units::Mac;

use super::cable::{UPLINK, give_address};
use super::names::{FIRST_MAC, NETWORK_NUMBER, vtep};
use super::spec::HostsSpec;
use crate::bridge::SWITCH;
use crate::ovs::OpenVSwitch;
use crate::site::{Ground, Site};
use crate::{INTERFACE, LabError, endpoint, ovs};

/// The bridge that the cable's end is in, and the device that it is to the kernel: a tunnel goes
/// where such a device has an address.
const UNDERLAY: &str = "underlay";

/// The tunnel's port.
const TUNNEL: &str = "tunnel0";

/// How the datapath takes frames from the cable.
const AF_XDP: &str = "type=afxdp-nonpmd";

/// Starts both hosts' Open vSwitches, with a tunnel between them or the bare cable.
pub(super) fn up(
    site: &Site<'_>,
    hosts: &HostsSpec,
    grounds: &[Ground<'_>],
) -> Result<(), LabError> {
    (0..).zip(grounds).try_for_each(|(host, ground)| start(site, hosts, ground, host))
}

/// What Open vSwitch calls a tunnel's port.
fn kind(encapsulation: Encapsulation) -> &'static str {
    match encapsulation {
        // The same but for what the key's last byte says.
        Encapsulation::Nvgre => "type=gre",
        _ => "type=vxlan",
    }
}

/// Starts a host's, and moves its endpoints' interfaces to them.
fn start(
    site: &Site<'_>,
    hosts: &HostsSpec,
    ground: &Ground<'_>,
    host: u32,
) -> Result<(), LabError> {
    let tunnels = hosts.tunnels;
    let [_, _, vswitchd, ..] = ovs::programs()?;
    let switch = OpenVSwitch::start(ground, vswitchd, &[])?;
    if tunnels {
        lay_under(&switch, ground, host)?;
    }
    let to_far = if tunnels { TUNNEL } else { UPLINK };

    let here = || site.endpoints.iter().filter(|(endpoint, _)| endpoint.host == Some(host));
    let mut overlay = switch.configure();
    overlay.args(["add-br", SWITCH, "--", "set", "bridge", SWITCH, "datapath_type=netdev"]);
    overlay.args(["--", "add-port", SWITCH, to_far, "--", "set", "interface", to_far]);
    if tunnels {
        overlay.arg(kind(hosts.encapsulation));
        overlay.arg(format!("options:key={NETWORK_NUMBER}"));
        overlay.arg(format!("options:local_ip={}", vtep(host)));
        overlay.arg(format!("options:remote_ip={}", vtep(1 - host)));
    } else {
        overlay.arg(AF_XDP);
    }
    for (endpoint, _) in here() {
        let name = &endpoint.name;
        overlay.args(["--", "add-port", SWITCH, name, "--", "set", "interface", name, "type=tap"]);
    }
    switch.apply(&mut overlay)?;

    let mut netlink = Netlink::open_in(&ground.switch)?;
    for (endpoint, namespace) in here() {
        let there = LinkChange {
            namespace: Some(namespace),
            name: Some(INTERFACE),
            ..LinkChange::default()
        };
        netlink.change_link(&endpoint.name, there)?;
        endpoint::configure(&mut Netlink::open_in(namespace)?, endpoint, site.spec.mtu)?;
    }
    if site.spec.static_addresses {
        for (endpoint, _) in &site.endpoints {
            let port = if endpoint.host == Some(host) { &endpoint.name } else { to_far };
            switch.pin(port, 0, endpoint.mac)?;
        }
        if tunnels {
            let far = Mac::local(FIRST_MAC + 1 - host);
            switch.tell_neighbour(UNDERLAY, vtep(1 - host), far)?;
        }
    }
    Ok(())
}

/// Makes the bridge at the cable, with the host's address.
fn lay_under(switch: &OpenVSwitch, ground: &Ground<'_>, host: u32) -> Result<(), LabError> {
    let mut underlay = switch.configure();
    underlay.args(["add-br", UNDERLAY, "--", "set", "bridge", UNDERLAY, "datapath_type=netdev"]);
    // Otherwise it takes the cable's, but not at once, and tunnels write what it had before.
    underlay.arg(format!("other_config:hwaddr=\"{}\"", Mac::local(FIRST_MAC + host)));
    underlay.args(["--", "add-port", UNDERLAY, UPLINK]);
    underlay.args(["--", "set", "interface", UPLINK, AF_XDP]);
    switch.apply(&mut underlay)?;
    let mut netlink = Netlink::open_in(&ground.switch)?;
    netlink.change_link(UNDERLAY, LinkChange { up: Some(true), ..LinkChange::default() })?;
    give_address(&mut netlink, UNDERLAY, 0, host)
}
