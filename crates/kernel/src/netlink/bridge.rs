//! A bridge's table of addresses.

use netlink_packet_core::{NLM_F_CREATE, NLM_F_REPLACE};
use netlink_packet_route::neighbour::{
    NeighbourAttribute, NeighbourFlags, NeighbourMessage, NeighbourState,
};
use netlink_packet_route::{AddressFamily, RouteNetlinkMessage};
use units::Mac;

use super::{Netlink, NetlinkError};

impl Netlink {
    /// Tells the bridge that a device belongs to, for ever, that this address is reached through
    /// the device: `bridge fdb add … master static`.
    ///
    /// # Errors
    ///
    /// [`NetlinkError`], among others if the device belongs to no bridge.
    pub fn add_bridge_address(&mut self, link: u32, mac: Mac) -> Result<(), NetlinkError> {
        let mut message = NeighbourMessage::default();
        message.header.family = AddressFamily::Bridge;
        message.header.ifindex = link;
        message.header.flags = NeighbourFlags::Controller;
        // What iproute2 calls static: neither learned nor aged.
        message.header.state = NeighbourState::Noarp;
        message.attributes.push(NeighbourAttribute::LinkLayerAddress(mac.0.to_vec()));
        let flags = NLM_F_CREATE | NLM_F_REPLACE;
        self.ask(
            "add bridge address",
            &mac.to_string(),
            flags,
            RouteNetlinkMessage::NewNeighbour(message),
        )
    }
}
