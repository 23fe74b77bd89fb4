//! Whom a machine hands its packets to.

use core::net::IpAddr;

use logical::objects::AddressRange;
use logical::topology::{Attachment, Switch, Topology};
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
        .chain(legs().filter(|leg| leg.has(to)).map(|leg| leg.mac))
        .next();
    match (there, is_on_link) {
        (Some(mac), _) => Some(mac),
        (None, true) => None,
        (None, false) => legs().next().map(|leg| leg.mac),
    }
}
