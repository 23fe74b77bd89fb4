//! Addresses, routes and neighbours.

use std::net::{IpAddr, Ipv4Addr};

use netlink_packet_core::{NLM_F_CREATE, NLM_F_REPLACE};
use netlink_packet_route::address::{
    AddressAttribute, AddressHeaderFlags, AddressMessage, AddressScope,
};
use netlink_packet_route::neighbour::{
    NeighbourAddress, NeighbourAttribute, NeighbourMessage, NeighbourState,
};
use netlink_packet_route::route::{
    RouteAttribute, RouteHeader, RouteMessage, RouteMetric, RouteProtocol, RouteScope, RouteType,
};
use netlink_packet_route::{AddressFamily, RouteNetlinkMessage};
use units::{Mac, Prefix};

use super::{Netlink, NetlinkError};

/// A route through one device.
#[derive(Clone, Copy, Debug)]
pub struct Route {
    /// What it leads to: everything of the address's kind if the prefix's length is 0.
    pub to: Prefix,
    /// The router on the way, unless the network is directly connected.
    pub via: Option<IpAddr>,
    /// The device's number.
    pub link: u32,
    /// The segments that a TCP connection may begin with before it hears back (RFC 6928), if not
    /// the kernel's own choice.
    pub initial_window: Option<u32>,
}

impl Netlink {
    /// Gives a device an address, without duplicate address detection. It may have it already. One
    /// of IPv6 is not in use yet when this returns: [`await_addresses`](super::await_addresses)
    /// waits for that.
    ///
    /// # Errors
    ///
    /// [`NetlinkError`], among others if IPv6 is switched off there.
    pub fn add_address(&mut self, link: u32, prefix: Prefix) -> Result<(), NetlinkError> {
        let mut message = AddressMessage::default();
        message.header.family = family_of(prefix.address);
        message.header.prefix_len = prefix.length;
        message.header.flags = AddressHeaderFlags::Permanent | AddressHeaderFlags::Nodad;
        message.header.scope = AddressScope::Universe;
        message.header.index = link;
        message.attributes = vec![
            AddressAttribute::Local(prefix.address),
            AddressAttribute::Address(prefix.address),
        ];
        if let (IpAddr::V4(address), 1..=30) = (prefix.address, prefix.length) {
            let hosts = u32::MAX >> prefix.length;
            message
                .attributes
                .push(AddressAttribute::Broadcast(Ipv4Addr::from(u32::from(address) | hosts)));
        }
        let flags = NLM_F_CREATE | NLM_F_REPLACE;
        self.ask(
            "add address",
            &prefix.to_string(),
            flags,
            RouteNetlinkMessage::NewAddress(message),
        )
    }

    /// Adds a route, or replaces the one that leads to the same network.
    ///
    /// # Errors
    ///
    /// [`NetlinkError`], among others if its router cannot be reached.
    pub fn add_route(&mut self, route: Route) -> Result<(), NetlinkError> {
        let mut message = RouteMessage::default();
        message.header.address_family = family_of(route.to.address);
        message.header.destination_prefix_length = route.to.length;
        message.header.table = RouteHeader::RT_TABLE_MAIN;
        message.header.protocol = RouteProtocol::Static;
        message.header.scope =
            if route.via.is_some() { RouteScope::Universe } else { RouteScope::Link };
        message.header.kind = RouteType::Unicast;
        message.attributes.push(RouteAttribute::Oif(route.link));
        if route.to.length > 0 {
            message.attributes.push(RouteAttribute::Destination(route.to.address.into()));
        }
        if let Some(via) = route.via {
            message.attributes.push(RouteAttribute::Gateway(via.into()));
        }
        if let Some(segments) = route.initial_window {
            message.attributes.push(RouteAttribute::Metrics(vec![RouteMetric::InitCwnd(segments)]));
        }
        let flags = NLM_F_CREATE | NLM_F_REPLACE;
        self.ask(
            "add route to",
            &route.to.to_string(),
            flags,
            RouteNetlinkMessage::NewRoute(message),
        )
    }

    /// Tells the kernel for ever which Ethernet address a neighbour has.
    ///
    /// # Errors
    ///
    /// [`NetlinkError`], among others if the device is gone.
    pub fn add_neighbour(
        &mut self,
        link: u32,
        address: IpAddr,
        mac: Mac,
    ) -> Result<(), NetlinkError> {
        let mut message = NeighbourMessage::default();
        message.header.family = family_of(address);
        message.header.ifindex = link;
        message.header.state = NeighbourState::Permanent;
        message.attributes = vec![
            NeighbourAttribute::Destination(neighbour_address(address)),
            NeighbourAttribute::LinkLayerAddress(mac.0.to_vec()),
        ];
        let flags = NLM_F_CREATE | NLM_F_REPLACE;
        self.ask(
            "add neighbour",
            &address.to_string(),
            flags,
            RouteNetlinkMessage::NewNeighbour(message),
        )
    }
}

pub(super) fn neighbour_address(address: IpAddr) -> NeighbourAddress {
    match address {
        IpAddr::V4(address) => NeighbourAddress::Inet(address),
        IpAddr::V6(address) => NeighbourAddress::Inet6(address),
    }
}

pub(super) fn family_of(address: IpAddr) -> AddressFamily {
    match address {
        IpAddr::V4(_) => AddressFamily::Inet,
        IpAddr::V6(_) => AddressFamily::Inet6,
    }
}
