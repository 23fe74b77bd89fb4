//! What the network serves to its machines at their own ports: addresses, advertisements, names.

use alloc::string::{String, ToString};
use alloc::vec::Vec;

use packet::advertise::{self, Interface};
use packet::dhcp4::Client;
use packet::{Fields, dhcp4, dhcp6, names};

use crate::net::Net;
use crate::places::PortAt;

/// What a machine's question came to.
#[derive(Clone, Debug, PartialEq)]
pub struct Served {
    /// What it is answered. None: it is heard, and told nothing.
    pub answers: Vec<Vec<u8>>,
    /// Which service took it.
    pub stage: &'static str,
    /// By which object.
    pub by: Option<String>,
}

/// Asks every service. `None`: the frame is for none of them.
pub fn serve(net: &Net, at: PortAt, fields: &Fields, frame: &[u8]) -> Option<Served> {
    let port = &net.ports[at.at()];
    let own = port.own.as_ref().filter(|_| port.is_machine())?;
    let switch = &net.switches[port.switch.at()];
    let addresses = &port.station.addresses;
    let taken = |stage, by, answers| Some(Served { answers, stage, by });
    if let Some(profile) = &own.dhcp4
        && let Some(v4) = &profile.v4
    {
        let client = Client { addresses, subnets: &switch.row.subnets, mtu: switch.row.mtu };
        if let Some(answer) = dhcp4::serve(client, v4, fields, frame) {
            return taken("DHCP", Some(profile.id.to_string()), answer.into_iter().collect());
        }
    }
    if let Some(profile) = &own.dhcp6
        && let Some(v6) = &profile.v6
        && let Some(answer) = dhcp6::serve(addresses, v6, fields, frame)
    {
        return taken("DHCPv6", Some(profile.id.to_string()), answer.into_iter().collect());
    }
    if advertise::is_asked(fields, frame) {
        let mut answers = Vec::new();
        for (at, router) in net.routers_on(port.switch) {
            let row = &net.router_ports[router.at()].row;
            let is_meant = fields.destination.is_multicast() || fields.destination == row.mac;
            if net.is_up(at, router) && is_meant {
                let image::RouterPort { mac, addresses, mtu, ra6, .. } = row;
                let interface = Interface { mac: *mac, addresses, mtu: *mtu, ra6 };
                answers.extend(advertise::answer(interface, fields));
            }
        }
        if !answers.is_empty() {
            return taken("router advertisement", None, answers);
        }
        return None;
    }
    let (answer, zone) = names::serve(switch.zones.iter(), fields, frame)?;
    taken("names", Some(zone.id.to_string()), alloc::vec![answer])
}
