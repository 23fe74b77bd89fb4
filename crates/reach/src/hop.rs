//! Whom a machine hands its packets to.

use core::net::IpAddr;

use logical::objects::AddressRange;
use logical::topology::{Attachment, RouterPort, Switch, Topology};
use units::Mac;

/// Whom a machine on a switch hands a packet for an address to: whoever has the address there, or
/// the switch's first router. `None`: the address is on the link, and nobody there has it, so that
/// neither ARP nor ND would be answered.
pub fn next_hop(topology: &Topology, switch: &Switch, to: IpAddr) -> Option<Mac> {
    let legs = || {
        switch.ports.iter().filter_map(|it| match topology[*it].attachment {
            Attachment::Router(leg) => Some(&topology[leg]),
            _ => None,
        })
    };
    let own = switch.ports.iter().map(|it| &topology[*it]);
    let is_on_link = switch.subnets.iter().any(|it| AddressRange::from(*it).contains(to))
        || legs().any(|leg| leg.reaches(to))
        || legs().next().is_none();
    let there = own
        .filter(|it| it.addresses.contains(&to))
        .map(|it| it.mac)
        .chain(legs().find_map(|leg| answered(topology, leg, to)))
        .next();
    match (there, is_on_link) {
        (Some(mac), _) => Some(mac),
        (None, true) => None,
        (None, false) => legs().next().map(|leg| leg.mac),
    }
}

/// With which Ethernet address a router's port answers for an address: for its own, and for those
/// outside of translations and load balancers that it reaches.
fn answered(topology: &Topology, port: &RouterPort, address: IpAddr) -> Option<Mac> {
    if port.has(address) {
        return Some(port.mac);
    }
    let mut nats = topology[port.router].nats.iter().map(|it| &topology[*it]);
    let mut balancers = topology.balancers().map(|(_, it)| it);
    let nat = nats.find(|it| it.external.contains(address));
    let mut is_vip = || balancers.any(|it| it.vip == address && it.routers.contains(&port.router));
    let mac = nat.map(|it| it.external_mac.unwrap_or(port.mac));
    let mac = mac.or_else(|| is_vip().then_some(port.mac));
    mac.filter(|_| port.reaches(address))
}
