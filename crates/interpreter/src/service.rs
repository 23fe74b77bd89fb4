//! What the network serves to its machines at their own ports: addresses, advertisements, names.

use alloc::string::{String, ToString};
use alloc::vec::Vec;

use logical::topology::{Attachment, PortIndex, RouterPort, SwitchIndex, Topology};

use packet::advertise::{self, Interface};
use packet::{Fields, dhcp4, dhcp6, names};

/// What a machine's question came to.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Served {
    /// What it is answered. None: it is heard, and told nothing.
    pub answers: Vec<Vec<u8>>,
    /// Which service took it.
    pub stage: &'static str,
    /// By which object.
    pub by: Option<String>,
}

/// Asks every service. `None`: the frame is for none of them.
pub fn serve(
    topology: &Topology,
    port: PortIndex,
    fields: &Fields,
    frame: &[u8],
) -> Option<Served> {
    let own = &topology[port];
    let switch = &topology[own.switch];
    if !own.is_machine() {
        return None;
    }
    let client =
        dhcp4::Client { addresses: &own.addresses, subnets: &switch.subnets, mtu: switch.mtu };
    let taken =
        |stage, by: String, answers: Vec<Vec<u8>>| Some(Served { answers, stage, by: Some(by) });
    if let Some(profile) = own.dhcp4.map(|it| &topology[it])
        && let Some(v4) = &profile.v4
        && let Some(answer) = dhcp4::serve(client, v4, fields, frame)
    {
        return taken("DHCP", profile.id.to_string(), answer.into_iter().collect());
    }
    if let Some(profile) = own.dhcp6.map(|it| &topology[it])
        && let Some(v6) = &profile.v6
        && let Some(answer) = dhcp6::serve(&own.addresses, v6, fields, frame)
    {
        return taken("DHCPv6", profile.id.to_string(), answer.into_iter().collect());
    }
    if advertise::is_asked(fields, frame) {
        let asked = routers(topology, own.switch);
        let asked =
            asked.filter(|it| fields.destination.is_multicast() || it.mac == fields.destination);
        let answers: Vec<_> =
            asked.filter_map(|it| advertise::answer(interface(it), fields)).collect();
        return (!answers.is_empty()).then_some(Served {
            answers,
            stage: "router advertisement",
            by: None,
        });
    }
    let zones = switch.dns.iter().map(|it| &topology[*it]);
    let (answer, zone) = names::serve(zones, fields, frame)?;
    taken("names", zone.id.to_string(), alloc::vec![answer])
}

fn interface(port: &RouterPort) -> Interface<'_> {
    let RouterPort { mac, addresses, mtu, ra6, .. } = port;
    Interface { mac: *mac, addresses, mtu: *mtu, ra6 }
}

/// The routers' ports on a switch that forward.
pub fn routers(topology: &Topology, switch: SwitchIndex) -> impl Iterator<Item = &RouterPort> {
    topology[switch].ports.iter().filter_map(|it| {
        let stands = &topology[*it];
        let Attachment::Router(port) = stands.attachment else { return None };
        let port = &topology[port];
        (stands.enabled && port.enabled && topology[port.router].enabled).then_some(port)
    })
}
