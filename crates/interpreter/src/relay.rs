//! DHCP that a router's port hands to servers elsewhere, and what they answer.

use alloc::vec::Vec;

use logical::topology::{Link, Router, RouterPort, RouterPortIndex, SwitchIndex, Topology};
use packet::Fields;
use packet::relay::{self, Back};

/// A machine's question as a router's port sends it to each of its servers of that family. None:
/// it is no such question, or has gone through too many relays.
pub fn requests(port: &RouterPort, fields: &Fields, frame: &[u8]) -> Vec<Vec<u8>> {
    let servers = port.dhcp_relay.iter().flat_map(|it| &it.servers);
    let request = |server| relay::request(port.mac, &port.addresses, server, fields, frame);
    servers.copied().filter_map(request).collect()
}

/// A server's answer to a router: the port and the switch of the machine that it is for. Only
/// servers that are asked there are believed.
pub fn reply<'f>(
    topology: &Topology,
    router: &Router,
    fields: &Fields,
    frame: &'f [u8],
) -> Option<(RouterPortIndex, SwitchIndex, Back<'f>)> {
    let back = Back::parse(fields, frame)?;
    let mut ports = router.ports.iter().copied();
    let found = ports.find(|it| topology[*it].enabled && topology[*it].has(back.router))?;
    let port = &topology[found];
    let Link::Switch(at) = port.link else { return None };
    let is_asked = port.dhcp_relay.as_ref()?.servers.contains(&back.server);
    is_asked.then_some((found, topology[at].switch, back))
}
