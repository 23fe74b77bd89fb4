//! DHCP that a router's port hands to servers elsewhere, and what they answer (RFC 1542 §4; RFC
//! 8415 §19).

use alloc::vec::Vec;
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use units::{Mac, Prefix};
use wire::dhcp4::{self, BROADCAST, op};
use wire::dhcp6::{self, Relayed, kind, option};
use wire::neighbor::link_local;
use zerocopy::IntoBytes;

use crate::emit::{self, payload};
use crate::fields::Fields;

/// A machine's question as a router's port sends it to a server. `None`: it is no such question, or
/// has gone through too many relays, or the port has no address of that family. `mac` and
/// `addresses` are the port's.
pub fn request(
    mac: Mac,
    addresses: &[Prefix],
    server: IpAddr,
    fields: &Fields,
    frame: &[u8],
) -> Option<Vec<u8>> {
    let ip = fields.ip?;
    let (from, to) = (ip.tuple.source, ip.tuple.destination);
    let message = payload(frame, &ip)?;
    match (server, to.0) {
        (IpAddr::V4(_), IpAddr::V4(_))
            if (from.1, to.1) == (dhcp4::CLIENT_PORT, dhcp4::SERVER_PORT) =>
        {
            let own = addresses.iter().map(|it| it.address).find(IpAddr::is_ipv4)?;
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
            let port = dhcp4::SERVER_PORT;
            emit::datagram(((mac, server), port), ((mac, own), port), &body)
        }
        (IpAddr::V6(_), IpAddr::V6(_)) if to.1 == dhcp6::SERVER_PORT => {
            let own = addresses.iter().find_map(|it| match it.address {
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
            let port = dhcp6::SERVER_PORT;
            emit::datagram(((mac, server), port), ((mac, own.into()), port), &body)
        }
        _ => None,
    }
}

/// A server's answer to a router, for a machine.
#[derive(Clone, Copy, Debug)]
pub struct Back<'a> {
    /// The router's address on the machine's link.
    pub router: IpAddr,
    /// Who answers.
    pub server: IpAddr,
    message: Message<'a>,
}

#[derive(Clone, Copy, Debug)]
enum Message<'a> {
    V4 { header: &'a dhcp4::Header, whole: &'a [u8] },
    V6 { peer: Ipv6Addr, inner: &'a [u8] },
}

impl<'a> Back<'a> {
    /// Reads a frame for a router. `None`: it is no such answer.
    pub fn parse(fields: &Fields, frame: &'a [u8]) -> Option<Self> {
        let ip = fields.ip?;
        let whole = payload(frame, &ip)?;
        let (server, to) = (ip.tuple.source.0, ip.tuple.destination);
        match to.0 {
            IpAddr::V4(_) if to.1 == dhcp4::SERVER_PORT => {
                let header = dhcp4::Message::parse(whole)?.header;
                let router = Ipv4Addr::from(header.giaddr).into();
                let message = Message::V4 { header, whole };
                (header.op == op::REPLY).then_some(Self { router, server, message })
            }
            IpAddr::V6(_) if to.1 == dhcp6::SERVER_PORT => {
                let relayed = Relayed::parse(whole).filter(|it| it.kind == kind::RELAY_REPLY)?;
                let inner = relayed.options.get(option::RELAY_MESSAGE)?;
                let router = if relayed.link.is_unspecified() { to.0 } else { relayed.link.into() };
                Some(Self { router, server, message: Message::V6 { peer: relayed.peer, inner } })
            }
            _ => None,
        }
    }

    /// Of IPv6: whether it is for a machine with that Ethernet address and those addresses. IPv4's
    /// says whom it is for itself.
    pub fn is_for(&self, mac: Mac, addresses: &[IpAddr]) -> bool {
        match self.message {
            Message::V4 { header, .. } => header.chaddr.first_chunk() == Some(&mac.0),
            Message::V6 { peer, .. } => {
                link_local(mac) == peer || addresses.contains(&IpAddr::V6(peer))
            }
        }
    }

    /// The frame as a router's port sends it on the machine's link. `router`: the port's Ethernet
    /// address; `machine`: that of who it is for.
    pub fn frame(&self, router: Mac, machine: Mac) -> Option<Vec<u8>> {
        match self.message {
            Message::V4 { header, whole } => {
                let is_for_all = header.flags.get() & BROADCAST != 0 || header.yiaddr == [0; 4];
                let has_own = header.ciaddr != [0; 4];
                let known = if has_own { header.ciaddr } else { header.yiaddr };
                let receiver = match is_for_all && !has_own {
                    true => (Mac::BROADCAST, Ipv4Addr::BROADCAST.into()),
                    false => (machine, Ipv4Addr::from(known).into()),
                };
                let own = (router, self.router);
                let (to, from) = ((receiver, dhcp4::CLIENT_PORT), (own, dhcp4::SERVER_PORT));
                emit::datagram(to, from, whole)
            }
            Message::V6 { peer, inner } => {
                let is_relays = Relayed::parse(inner).is_some();
                let port = if is_relays { dhcp6::SERVER_PORT } else { dhcp6::CLIENT_PORT };
                let from = ((router, link_local(router).into()), dhcp6::SERVER_PORT);
                emit::datagram(((machine, peer.into()), port), from, inner)
            }
        }
    }
}
