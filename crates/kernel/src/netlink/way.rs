//! The way to a host: which link it leads through, and to whom on that link.

use std::net::IpAddr;

use netlink_packet_core::{NLM_F_ACK, NLM_F_CREATE};
use netlink_packet_route::RouteNetlinkMessage;
use netlink_packet_route::neighbour::{
    NeighbourAttribute, NeighbourFlags, NeighbourMessage, NeighbourState,
};
use netlink_packet_route::route::{RouteAddress, RouteAttribute, RouteMessage, RouteType};
use units::Mac;

use super::address::{family_of, neighbour_address};
use super::{Netlink, NetlinkError};

/// Who takes a packet next.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct NextHop {
    /// The device's number.
    pub link: u32,
    /// The address of the host itself, or of a router.
    pub address: IpAddr,
}

impl Netlink {
    /// Who takes a packet between these two addresses next; `None` if it does not leave this host
    /// by one link, or if its next hop is of another family.
    ///
    /// # Errors
    ///
    /// [`NetlinkError`], among others if no route leads there.
    pub fn next_hop(&mut self, from: IpAddr, to: IpAddr) -> Result<Option<NextHop>, NetlinkError> {
        let mut message = RouteMessage::default();
        let bits = if to.is_ipv4() { 32 } else { 128 };
        message.header.address_family = family_of(to);
        message.header.destination_prefix_length = bits;
        message.header.source_prefix_length = bits;
        message.attributes = vec![
            RouteAttribute::Destination(RouteAddress::from(to)),
            RouteAttribute::Source(RouteAddress::from(from)),
        ];
        let mut found = None;
        let request = RouteNetlinkMessage::GetRoute(message);
        self.list("find the way to", &to.to_string(), NLM_F_ACK, request, |answer| {
            found = next_hop_of(answer, to);
        })?;
        Ok(found)
    }

    /// A neighbour's Ethernet address, if it is known. From now on the kernel finds it out, or
    /// makes sure of it, as it does for packets of its own.
    ///
    /// # Errors
    ///
    /// [`NetlinkError`], among others if the device is gone.
    pub fn neighbour(&mut self, hop: NextHop) -> Result<Option<Mac>, NetlinkError> {
        let NextHop { link, address } = hop;
        let mut message = NeighbourMessage::default();
        message.header.family = family_of(address);
        message.header.ifindex = link;
        message.attributes = vec![NeighbourAttribute::Destination(neighbour_address(address))];
        let name = address.to_string();
        let mut using = message.clone();
        using.header.flags = NeighbourFlags::Use;
        self.ask("use neighbour", &name, NLM_F_CREATE, RouteNetlinkMessage::NewNeighbour(using))?;
        let mut found = None;
        let request = RouteNetlinkMessage::GetNeighbour(message);
        self.list("find neighbour", &name, NLM_F_ACK, request, |answer| found = mac_of(answer))?;
        Ok(found)
    }
}

fn next_hop_of(answer: RouteNetlinkMessage, to: IpAddr) -> Option<NextHop> {
    let RouteNetlinkMessage::NewRoute(message) = answer else { return None };
    let (mut link, mut address) = (None, Some(to));
    for attribute in message.attributes {
        match attribute {
            RouteAttribute::Oif(index) => link = Some(index),
            RouteAttribute::Gateway(RouteAddress::Inet(via)) => address = Some(via.into()),
            RouteAttribute::Gateway(RouteAddress::Inet6(via)) => address = Some(via.into()),
            // What the kernel puts around packets of this route, it alone knows.
            RouteAttribute::Via(_) | RouteAttribute::Encap(_) => address = None,
            _ => {}
        }
    }
    let leaves = message.header.kind == RouteType::Unicast;
    leaves.then_some(NextHop { link: link?, address: address? })
}

fn mac_of(answer: RouteNetlinkMessage) -> Option<Mac> {
    use NeighbourState::{Delay, Permanent, Probe, Reachable, Stale};

    let RouteNetlinkMessage::NewNeighbour(message) = answer else { return None };
    let is_known = matches!(message.header.state, Reachable | Stale | Delay | Probe | Permanent);
    let mac = message.attributes.into_iter().find_map(|attribute| match attribute {
        NeighbourAttribute::LinkLayerAddress(octets) => octets.try_into().ok().map(Mac),
        _ => None,
    });
    mac.filter(|_| is_known)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::joined::{self, INTERFACE};
    use crate::netlink::Route;

    #[test]
    fn the_next_hop_is_the_host_itself_or_a_router_and_is_found_out() {
        if !needs::root() {
            return;
        }
        for [near, far, beyond] in
            [["192.0.2.1", "192.0.2.2", "198.51.100.1"], ["fd00::1", "fd00::2", "fd01::1"]]
        {
            let hosts = joined::two().unwrap();
            let [near, far, beyond]: [IpAddr; 3] =
                [near, far, beyond].map(|address| address.parse().unwrap());
            let length = if near.is_ipv4() { 24 } else { 64 };
            for (host, address) in hosts.iter().zip([near, far]) {
                joined::give_address(host, INTERFACE, units::Prefix { address, length }).unwrap();
            }
            let mut netlink = Netlink::open_in(&hosts[0]).unwrap();
            let link = netlink.index(INTERFACE).unwrap();
            assert_eq!(netlink.next_hop(near, near).unwrap(), None, "it does not leave");
            assert!(netlink.next_hop(near, beyond).is_err());
            let to =
                units::Prefix { address: beyond, length: if near.is_ipv4() { 32 } else { 128 } };
            netlink.add_route(Route { to, via: Some(far), link, initial_window: None }).unwrap();
            let hop = NextHop { link, address: far };
            assert_eq!([far, beyond].map(|to| netlink.next_hop(near, to).unwrap()), [Some(hop); 2]);
            let mac = Netlink::open_in(&hosts[1]).unwrap().link(INTERFACE).unwrap().mac;
            let mut found = None;
            while found.is_none() {
                found = netlink.neighbour(hop).unwrap();
            }
            assert_eq!(found, mac);
        }
    }
}
