//! What a port's machine may name as its own, and what it may be sent.

use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use logical::objects::SecurityMode;
use logical::topology::Port;
use packet::{Fields, Ip};
use units::Mac;
use wire::ip::{Version, protocol};
use wire::neighbor::link_local;
use wire::{arp, neighbor};

use crate::decision::Reason;

/// Whether a machine may use an address with an Ethernet address of its.
fn owns(port: &Port, mac: Mac, address: IpAddr) -> bool {
    let with_mac = port.allowed.iter().filter(|it| it.mac == mac);
    let mut with_mac = with_mac.map(|it| &it.addresses);
    with_mac.any(|ranges| match ranges {
        None => true,
        Some(ranges) => {
            ranges.iter().any(|range| range.contains(address)) || address == link_local(mac)
        }
    })
}

fn has_mac(port: &Port, mac: Mac) -> bool {
    port.allowed.iter().any(|it| it.mac == mac)
}

/// Checks what a machine sends.
pub fn check_source(port: &Port, fields: &Fields, frame: &[u8]) -> Result<(), Reason> {
    if port.security == SecurityMode::Off || !port.is_machine() {
        return Ok(());
    }
    let spoofed = |is_own: bool| if is_own { Ok(()) } else { Err(Reason::Spoofed) };
    spoofed(has_mac(port, fields.source))?;
    match fields.ip {
        Some(ip) => {
            let is_server = match ip.layout.version {
                Version::V4 => (67, 68),
                Version::V6 => (547, 546),
            };
            let ports = (ip.tuple.source.1, ip.tuple.destination.1);
            spoofed(ip.tuple.protocol != protocol::UDP || ports != is_server)?;
            check_packet(port, fields.source, &ip, frame)
        }
        None if fields.ethertype == wire::ethernet::ethertype::ARP => {
            check_arp(port, fields, frame)
        }
        None => Ok(()),
    }
}

fn check_arp(port: &Port, fields: &Fields, frame: &[u8]) -> Result<(), Reason> {
    let packet = arp::Packet::parse(frame).ok_or(Reason::Malformed)?;
    let sender = Mac(packet.sender);
    let (from, to) =
        (Ipv4Addr::from(packet.sender_protocol), Ipv4Addr::from(packet.target_protocol));
    // A probe asks for an address before it is taken (RFC 5227 §2.1.1).
    let is_probe = from.is_unspecified() && owns(port, sender, to.into());
    let is_own = sender == fields.source && (is_probe || owns(port, sender, from.into()));
    if is_own { Ok(()) } else { Err(Reason::Spoofed) }
}

fn check_packet(port: &Port, mac: Mac, ip: &Ip, frame: &[u8]) -> Result<(), Reason> {
    let (source, destination) = (ip.tuple.source.0, ip.tuple.destination.0);
    let kind = ip.icmp.filter(|_| ip.layout.version == Version::V6).map(|icmp| icmp.kind);
    // Router advertisements and redirects are routers' (RFC 4861 §4.2, §4.5).
    if matches!(kind, Some(134 | 137)) {
        return Err(Reason::Spoofed);
    }
    let message = frame.get(ip.layout.transport..ip.layout.end).unwrap_or_default();
    if let Some(kind @ (133 | 135 | 136)) = kind {
        let hop_limit_is_whole = ip.ttl == neighbor::HOP_LIMIT;
        let options = message.get(if kind == 133 { 8 } else { 24 }..).ok_or(Reason::Malformed)?;
        if !hop_limit_is_whole {
            return Err(Reason::Malformed);
        }
        let named = link_address(options, if kind == 136 { 2 } else { 1 })?;
        if named.is_some_and(|named| !has_mac(port, named)) {
            return Err(Reason::Spoofed);
        }
        if kind == 136 {
            let target: [u8; 16] =
                *message.get(8..24).and_then(|it| it.as_array()).ok_or(Reason::Malformed)?;
            if !owns(port, mac, Ipv6Addr::from(target).into()) {
                return Err(Reason::Spoofed);
            }
        }
        if kind == 135 && source.is_unspecified() {
            let is_probe = named.is_none() && destination.is_multicast();
            return if is_probe { Ok(()) } else { Err(Reason::Spoofed) };
        }
    }
    let ports = (ip.tuple.source.1, ip.tuple.destination.1);
    let is_allowed = match source {
        IpAddr::V4(source) if source.is_unspecified() => {
            ip.tuple.protocol == protocol::UDP
                && ports == (68, 67)
                && destination == IpAddr::V4(Ipv4Addr::BROADCAST)
        }
        // Who has no address yet tells of the groups that it is in (RFC 3590 §4).
        IpAddr::V6(source) if source.is_unspecified() => matches!(kind, Some(131 | 143)),
        source => owns(port, mac, source),
    };
    if is_allowed { Ok(()) } else { Err(Reason::Spoofed) }
}

/// What the first option of a kind says (RFC 4861 §4.6.1).
fn link_address(mut options: &[u8], wanted: u8) -> Result<Option<Mac>, Reason> {
    while let [kind, units, ..] = *options {
        let len = usize::from(units) * 8;
        let option = options.get(..len).filter(|it| !it.is_empty()).ok_or(Reason::Malformed)?;
        if let (true, [_, _, mac @ ..]) = (kind == wanted && len == 8, option) {
            return Ok(mac.as_array().copied().map(Mac));
        }
        options = &options[len..];
    }
    Ok(None)
}

/// Checks what a machine is about to get.
pub fn check_destination(port: &Port, fields: &Fields) -> Result<(), Reason> {
    if port.security == SecurityMode::Off || !port.is_machine() || fields.destination.is_multicast()
    {
        return Ok(());
    }
    let refuse = Err(Reason::NotItsAddress);
    if !has_mac(port, fields.destination) {
        return if port.unknown { Ok(()) } else { refuse };
    }
    let Some(ip) = fields.ip else { return Ok(()) };
    let to = ip.tuple.destination.0;
    let is_for_many = match to {
        IpAddr::V4(to) => {
            to.is_multicast()
                || to.is_broadcast()
                || port.allowed.iter().any(|it| it.broadcasts.contains(&to))
        }
        IpAddr::V6(to) => to.is_multicast() || to.is_unicast_link_local(),
    };
    if is_for_many || owns(port, fields.destination, to) { Ok(()) } else { refuse }
}
