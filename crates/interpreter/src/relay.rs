//! DHCP that a router's port hands to servers elsewhere, and what they answer (RFC 1542 §4; RFC
//! 8415 §19).

use alloc::vec::Vec;
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use logical::topology::{Link, Router, RouterPort, RouterPortIndex, SwitchIndex, Topology};
use packet::Fields;
use packet::emit::{self, payload};
use units::Mac;
use wire::dhcp4::{self, BROADCAST, op};
use wire::dhcp6::{self, Relayed, kind, option};
use wire::neighbor::link_local;
use zerocopy::{FromBytes, IntoBytes};

/// A machine's question as a router's port sends it to each of its servers of that family. None:
/// it is no such question, or has gone through too many relays.
pub fn requests(port: &RouterPort, fields: &Fields, frame: &[u8]) -> Vec<Vec<u8>> {
    let servers = port.dhcp_relay.iter().flat_map(|it| &it.servers);
    servers.filter_map(|server| request(port, *server, fields, frame)).collect()
}

fn request(port: &RouterPort, server: IpAddr, fields: &Fields, frame: &[u8]) -> Option<Vec<u8>> {
    let ip = fields.ip?;
    let (from, to) = (ip.tuple.source, ip.tuple.destination);
    let message = payload(frame, &ip)?;
    match (server, to.0) {
        (IpAddr::V4(_), IpAddr::V4(_))
            if (from.1, to.1) == (dhcp4::CLIENT_PORT, dhcp4::SERVER_PORT) =>
        {
            let own = port.addresses.iter().map(|it| it.address).find(IpAddr::is_ipv4)?;
            let asked = dhcp4::Message::parse(message)?;
            let mut header = *asked.header;
            if header.op != op::REQUEST || header.hops >= dhcp4::MOST_HOPS {
                return None;
            }
            header.hops += 1;
            if let (true, IpAddr::V4(own)) = (header.giaddr == [0; 4], own) {
                header.giaddr = own.octets();
            }
            let options = &message[dhcp4::Header::LEN..];
            let body = [header.as_bytes(), options].concat();
            let port_no = dhcp4::SERVER_PORT;
            emit::datagram(((port.mac, server), port_no), ((port.mac, own), port_no), &body)
        }
        (IpAddr::V6(_), IpAddr::V6(_)) if to.1 == dhcp6::SERVER_PORT => {
            let own = port.addresses.iter().find_map(|it| match it.address {
                IpAddr::V6(it) if !it.is_unicast_link_local() => Some(it),
                _ => None,
            })?;
            let IpAddr::V6(peer) = from.0 else { return None };
            let (hops, link) = match Relayed::parse(message) {
                Some(relayed) if relayed.kind != kind::RELAY_FORWARD => return None,
                Some(relayed) if relayed.hops >= dhcp6::MOST_HOPS => return None,
                // The relay before has said which link it is.
                Some(relayed) => (relayed.hops + 1, Ipv6Addr::UNSPECIFIED),
                None if from.1 != dhcp6::CLIENT_PORT => return None,
                None => dhcp6::Message::parse(message).map(|_| (0, own))?,
            };
            let body = Relayed::around(kind::RELAY_FORWARD, hops, link, peer, message);
            let port_no = dhcp6::SERVER_PORT;
            let from = (port.mac, own.into());
            emit::datagram(((port.mac, server), port_no), (from, port_no), &body)
        }
        _ => None,
    }
}

/// Which machine a server's answer to a router is for: the switch that it is on, the port towards
/// it, and its frame. Only servers that are asked there are believed.
pub fn reply(
    topology: &Topology,
    router: &Router,
    fields: &Fields,
    frame: &[u8],
) -> Option<(SwitchIndex, RouterPortIndex, Vec<u8>)> {
    let ip = fields.ip?;
    let message = payload(frame, &ip)?;
    let (from, to) = (ip.tuple.source, ip.tuple.destination);
    let towards = |own: IpAddr| {
        let mut ports = router.ports.iter().copied();
        let found = ports.find(|it| topology[*it].enabled && topology[*it].has(own))?;
        let port = &topology[found];
        let Link::Switch(at) = port.link else { return None };
        let is_asked = port.dhcp_relay.as_ref()?.servers.contains(&from.0);
        is_asked.then_some((topology[at].switch, found, port))
    };
    match to.0 {
        IpAddr::V4(_) if to.1 == dhcp4::SERVER_PORT => {
            let header = dhcp4::Message::parse(message)?.header;
            if header.op != op::REPLY {
                return None;
            }
            let (switch, index, port) = towards(Ipv4Addr::from(header.giaddr).into())?;
            let [a, b, c, d, e, f, ..] = header.chaddr;
            let is_for_all = header.flags.get() & BROADCAST != 0 || header.yiaddr == [0; 4];
            let known = if header.ciaddr == [0; 4] { header.yiaddr } else { header.ciaddr };
            let receiver = match is_for_all && header.ciaddr == [0; 4] {
                true => (Mac::BROADCAST, Ipv4Addr::BROADCAST.into()),
                false => (Mac([a, b, c, d, e, f]), Ipv4Addr::from(known).into()),
            };
            let own = (port.mac, Ipv4Addr::from(header.giaddr).into());
            let (to, from) = ((receiver, dhcp4::CLIENT_PORT), (own, dhcp4::SERVER_PORT));
            Some((switch, index, emit::datagram(to, from, message)?))
        }
        IpAddr::V6(_) if to.1 == dhcp6::SERVER_PORT => {
            let relayed = Relayed::parse(message).filter(|it| it.kind == kind::RELAY_REPLY)?;
            let inner = relayed.options.get(option::RELAY_MESSAGE)?;
            let link = if relayed.link.is_unspecified() { to.0 } else { relayed.link.into() };
            let (switch, index, port) = towards(link)?;
            let peer_is = |mac: Mac| link_local(mac) == relayed.peer;
            let mut machines = topology[switch].ports.iter().map(|it| &topology[*it]);
            let machine = machines
                .find(|it| peer_is(it.mac) || it.addresses.contains(&IpAddr::V6(relayed.peer)))?;
            let is_relays = Relayed::parse(inner).is_some();
            let to_port = if is_relays { dhcp6::SERVER_PORT } else { dhcp6::CLIENT_PORT };
            let to = ((machine.mac, relayed.peer.into()), to_port);
            let from = ((port.mac, link_local(port.mac).into()), dhcp6::SERVER_PORT);
            Some((switch, index, emit::datagram(to, from, inner)?))
        }
        _ => None,
    }
}

/// Whom an IPv4 answer is for where everybody's address is on it: the machine that it names.
pub fn machine(fields: &Fields, frame: &[u8]) -> Option<Mac> {
    let ip = fields.ip?;
    let (header, _) = dhcp4::Header::read_from_prefix(payload(frame, &ip)?).ok()?;
    let [a, b, c, d, e, f, ..] = header.chaddr;
    Some(Mac([a, b, c, d, e, f]))
}
