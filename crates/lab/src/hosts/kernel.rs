//! The kernel's bridge on each of two hosts, with a VXLAN device to the other host, over WireGuard
//! if hosts have a key; or, without tunnels, with the end of the cable.

use kernel::netlink::{LinkChange, Netlink, Vxlan};

use super::cable::UPLINK;
use super::names::{NETWORK_NUMBER, WIREGUARD, vtep};
use super::spec::HostsSpec;
use super::wireguard;
use crate::site::{Ground, Site};
use crate::{LabError, bridge};

/// What the device is called.
const TUNNEL: &str = "vxlan0";

/// Makes both hosts' bridges and the tunnel between them, or has them share the cable.
pub(super) fn up(
    site: &Site<'_>,
    hosts: &HostsSpec,
    grounds: Vec<Ground<'_>>,
) -> Result<(), LabError> {
    let is_sealed = hosts.key.is_some();
    if let (true, [one, other]) = (is_sealed, &grounds[..]) {
        wireguard::up([one, other], hosts.physical.mtu - WIREGUARD)?;
    }
    let addresses: Vec<_> = site.endpoints.iter().map(|(it, _)| (it.host, it.mac)).collect();
    for (host, ground) in (0..).zip(grounds) {
        let here = site.endpoints.iter().filter(|(endpoint, _)| endpoint.host == Some(host));
        let here = here.map(|(endpoint, namespace)| {
            Ok((*endpoint, crate::site::open(&namespace.path().to_string_lossy())?))
        });
        let site =
            Site { ground, spec: site.spec, endpoints: here.collect::<Result<_, LabError>>()? };
        bridge::up(&site)?;
        let mut netlink = Netlink::open_in(&site.ground.switch)?;
        let master = Some(netlink.index(bridge::SWITCH)?);
        if !hosts.tunnels {
            netlink.change_link(UPLINK, LinkChange { master, ..LinkChange::default() })?;
            if site.spec.static_addresses {
                let link = netlink.index(UPLINK)?;
                for (_, far) in addresses.iter().filter(|(at, _)| *at != Some(host)) {
                    netlink.add_bridge_address(link, *far)?;
                }
            }
            continue;
        }
        let address = if is_sealed { wireguard::address } else { vtep };
        let (local, remote) = (address(host), address(1 - host));
        netlink.add_vxlan(TUNNEL, Vxlan { vni: NETWORK_NUMBER, local, remote })?;
        netlink.change_link(
            TUNNEL,
            LinkChange { mtu: Some(site.spec.mtu), master, ..LinkChange::default() },
        )?;
        netlink.change_link(TUNNEL, LinkChange { up: Some(true), ..LinkChange::default() })?;
    }
    Ok(())
}
