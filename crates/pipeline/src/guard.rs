//! What a port's machine may name as its own, and what it may be sent.

use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use image::Station;
use logical::objects::SecurityMode;
use packet::{Fields, Ip};
use units::Mac;
use wire::ip::{Version, protocol};
use wire::neighbor::{HOP_LIMIT, link_local};
use wire::{arp, ethernet};

use crate::outcome::Reason;

/// A port's guard: its row's words about what its machine may name.
#[derive(Clone, Copy, Debug)]
pub struct Guard<'a> {
    row: &'a image::Port,
    station: &'a Station,
}

/// Neighbour discovery's messages (RFC 4861 §4).
mod kind {
    pub const ROUTER_SOLICITATION: u8 = 133;
    pub const ROUTER_ADVERTISEMENT: u8 = 134;
    pub const SOLICITATION: u8 = 135;
    pub const ADVERTISEMENT: u8 = 136;
    pub const REDIRECT: u8 = 137;
}

const fn own(is_own: bool) -> Result<(), Reason> {
    if is_own { Ok(()) } else { Err(Reason::Spoofed) }
}

impl<'a> Guard<'a> {
    /// The guard of a machine's port. `None`: nothing is checked there.
    pub fn new(row: &'a image::Port, station: &'a Station) -> Option<Self> {
        (row.security != SecurityMode::Off).then_some(Self { row, station })
    }

    fn has_mac(&self, mac: Mac) -> bool {
        self.row.allowed.iter().any(|it| it.mac == mac)
    }

    /// Whether its machine may use an address with an Ethernet address.
    fn may(&self, mac: Mac, address: IpAddr) -> bool {
        self.row.allowed.iter().filter(|it| it.mac == mac).any(|it| match &it.addresses {
            None => true,
            Some(ranges) => {
                address == IpAddr::V6(link_local(mac))
                    || ranges.iter().any(|range| range.contains(address))
            }
        })
    }

    /// Checks what the machine sends.
    pub fn check_sent(&self, fields: &Fields, frame: &[u8]) -> Result<(), Reason> {
        own(self.has_mac(fields.source))?;
        let Some(ip) = fields.ip else {
            return match fields.ethertype {
                ethernet::ethertype::ARP => self.check_arp(fields.source, frame),
                _ => Ok(()),
            };
        };
        // A machine serves no addresses: servers' answers are the network's.
        let ports = (ip.tuple.source.1, ip.tuple.destination.1);
        let is_served = match ip.layout.version {
            Version::V4 => ports == (67, 68),
            Version::V6 => ports == (547, 546),
        };
        own(!(ip.tuple.protocol == protocol::UDP && is_served))?;
        let discovery = ip.icmp.filter(|_| ip.layout.version == Version::V6).map(|it| it.kind);
        if let Some(is_settled) = self.check_discovery(discovery, fields.source, &ip, frame)? {
            return own(is_settled);
        }
        own(match ip.tuple.source.0 {
            IpAddr::V4(Ipv4Addr::UNSPECIFIED) => {
                ip.tuple.protocol == protocol::UDP
                    && ports == (68, 67)
                    && ip.tuple.destination.0 == IpAddr::V4(Ipv4Addr::BROADCAST)
            }
            // Who has no address yet tells of the groups that it is in (RFC 3590 §4).
            IpAddr::V6(Ipv6Addr::UNSPECIFIED) => matches!(discovery, Some(131 | 143)),
            source => self.may(fields.source, source),
        })
    }

    fn check_arp(&self, from: Mac, frame: &[u8]) -> Result<(), Reason> {
        let packet = arp::Packet::parse(frame).ok_or(Reason::Malformed)?;
        let [sender, target] = [packet.sender_protocol, packet.target_protocol].map(Ipv4Addr::from);
        own(Mac(packet.sender) == from)?;
        // A probe asks for an address before it is taken (RFC 5227 §2.1.1).
        let named = if sender.is_unspecified() { [sender, target] } else { [sender, sender] };
        own(named.iter().any(|it| self.may(from, (*it).into())))
    }

    /// Checks neighbour discovery. `Some`: there is no more to check.
    fn check_discovery(
        &self,
        message: Option<u8>,
        from: Mac,
        ip: &Ip,
        frame: &[u8],
    ) -> Result<Option<bool>, Reason> {
        let (options, wanted) = match message {
            // Those are routers' alone (RFC 4861 §4.2, §4.5).
            Some(kind::ROUTER_ADVERTISEMENT | kind::REDIRECT) => return Err(Reason::Spoofed),
            Some(kind::ROUTER_SOLICITATION) => (8, 1),
            Some(kind::SOLICITATION) => (24, 1),
            Some(kind::ADVERTISEMENT) => (24, 2),
            _ => return Ok(None),
        };
        let body = frame.get(ip.layout.transport..ip.layout.end).unwrap_or_default();
        let named = body.get(options..).ok_or(Reason::Malformed)?;
        if ip.ttl != HOP_LIMIT {
            return Err(Reason::Malformed);
        }
        let named = link_address(named, wanted)?;
        own(named.is_none_or(|mac| self.has_mac(mac)))?;
        if message == Some(kind::ADVERTISEMENT) {
            let target = body.get(8..24).and_then(|it| it.as_array::<16>());
            let target = target.copied().map(Ipv6Addr::from).ok_or(Reason::Malformed)?;
            own(self.may(from, target.into()))?;
        }
        let is_probe = message == Some(kind::SOLICITATION) && ip.tuple.source.0.is_unspecified();
        Ok(is_probe.then(|| named.is_none() && ip.tuple.destination.0.is_multicast()))
    }

    /// Checks what the machine is about to get.
    pub fn check_received(&self, fields: &Fields) -> Result<(), Reason> {
        if fields.destination.is_multicast() {
            return Ok(());
        }
        if !self.has_mac(fields.destination) {
            return if self.station.unknown { Ok(()) } else { Err(Reason::NotItsAddress) };
        }
        let Some(ip) = fields.ip else { return Ok(()) };
        let to = ip.tuple.destination.0;
        let is_for_many = match to {
            IpAddr::V4(to) => {
                let broadcasts = self.row.allowed.iter().flat_map(|it| &it.broadcasts);
                to.is_multicast() || to.is_broadcast() || broadcasts.into_iter().any(|it| *it == to)
            }
            IpAddr::V6(to) => to.is_multicast() || to.is_unicast_link_local(),
        };
        match is_for_many || self.may(fields.destination, to) {
            true => Ok(()),
            false => Err(Reason::NotItsAddress),
        }
    }
}

/// What the first option of a kind says (RFC 4861 §4.6.1).
fn link_address(mut options: &[u8], wanted: u8) -> Result<Option<Mac>, Reason> {
    while let [kind, units, ..] = *options {
        let length = usize::from(units) * 8;
        if length == 0 || length > options.len() {
            return Err(Reason::Malformed);
        }
        let (option, rest) = options.split_at(length);
        if let (true, [_, _, mac @ ..]) = (kind == wanted && length == 8, option) {
            return Ok(mac.as_array().copied().map(Mac));
        }
        options = rest;
    }
    Ok(None)
}
