//! DHCP that a router's port hands to servers elsewhere, and what they answer.

use alloc::string::ToString;
use alloc::vec::Vec;

use logical::topology::{
    Attachment, Link, Router, RouterPort, RouterPortIndex, SwitchIndex, Topology,
};
use packet::Fields;
use packet::relay::{self, Back};

use crate::decision::Reason;
use crate::state::Subject;
use crate::walk::{Stop, Underway, Walk};

impl Walk<'_> {
    /// Routers hand a machine's DHCP to servers elsewhere. Whether any does.
    pub fn relay(&mut self, switch: SwitchIndex, under: &Underway) -> bool {
        let topology = self.topology;
        let mut is_relayed = false;
        for at in &topology[switch].ports {
            let Attachment::Router(index) = topology[*at].attachment else { continue };
            let port = &topology[index];
            let is_up = topology[*at].enabled && port.enabled && topology[port.router].enabled;
            let requests = match is_up && under.routers == 0 {
                true => requests(port, &under.fields, &under.frame),
                false => Vec::new(),
            };
            for frame in requests {
                let Some(fields) = Fields::of(&frame) else { continue };
                let Some(ends) = fields.ip.map(|ip| ip.tuple) else { continue };
                is_relayed = true;
                self.step(&port.id, "DHCP relay", None, &ends.destination.0.to_string());
                let subject = Subject {
                    ethertype: fields.ethertype,
                    source_mac: fields.source,
                    destination_mac: fields.destination,
                    tuple: Some(ends),
                    origin: None,
                    is_control: false,
                    ..under.subject.clone()
                };
                let is_networks = false;
                let made = Underway { frame, fields, subject, routers: 0, is_networks };
                let changes = self.decision.changes.len();
                if let Err(stop) = self.route(index, made, ends, ends, None) {
                    self.undo(changes);
                    self.refuse(*stop, None);
                }
            }
        }
        is_relayed
    }

    /// A server's answer to a router goes on to the machine that it is for.
    pub fn relay_back(
        &mut self,
        (port, switch, back): (RouterPortIndex, SwitchIndex, Back<'_>),
        under: &Underway,
    ) -> Result<(), Stop> {
        let topology = self.topology;
        let own = &topology[port];
        self.step(&own.id, "DHCP relay", None, "back to who asked");
        let mut machines = topology[switch].ports.iter().copied();
        let to = machines.find(|it| back.is_for(topology[*it].mac, &topology[*it].addresses));
        let to = to.ok_or_else(|| Self::stop(Reason::Unknown, &topology[switch].id))?;
        let malformed = || Self::stop(Reason::Malformed, &own.id);
        let frame = back.frame(own.mac, topology[to].mac).ok_or_else(malformed)?;
        let fields = Fields::of(&frame).ok_or_else(malformed)?;
        let subject = Subject { origin: None, ..under.subject.clone() };
        let routers = under.routers + 1;
        self.leave(to, Underway { frame, fields, subject, routers, is_networks: true })
    }
}

/// A machine's question as a router's port sends it to each of its servers of that family. None:
/// it is no such question, or has gone through too many relays.
fn requests(port: &RouterPort, fields: &Fields, frame: &[u8]) -> Vec<Vec<u8>> {
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
