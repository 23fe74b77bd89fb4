//! A frame as its sender would make it.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::ops::RangeInclusive;

use model::{PortSpec, TraceSpec};
use units::Mac;
use wire::ethernet::{self, Peek, Tag, TagHeader, ethertype};
use wire::ip::protocol;
use wire::{ipv4, ipv6, udp};
use zerocopy::IntoBytes;

/// How long a frame can be, in bytes: from the shortest of Ethernet to the longest packet behind a
/// header.
pub(super) const LENGTHS: RangeInclusive<u32> = 60..=65_549;

/// Discard (RFC 863).
const DISCARD: u16 = 9;

/// For experiments on a link (IEEE 802, clause 9).
const EXPERIMENT: u16 = 0x88b5;

/// Whom a frame is for.
pub(super) enum Target {
    Mac(Mac),
    /// The machine that has this address.
    Ip(IpAddr, Mac),
    /// Nobody has this address.
    Nobody(IpAddr),
}

/// A frame that nothing is left to do for.
pub(super) struct Frame {
    pub bytes: Vec<u8>,
}

impl Frame {
    /// The frame of a port's machine that somebody asks about: a datagram where an IP address is
    /// asked about.
    pub(super) fn new(port: &PortSpec, spec: &TraceSpec, target: &Target) -> Self {
        let (destination, packet) = match target {
            Target::Mac(mac) => (*mac, None),
            Target::Ip(address, mac) => (*mac, Some(*address)),
            Target::Nobody(address) => (Mac::BROADCAST, Some(*address)),
        };
        // Whose address was not declared may have any: none is asked for it.
        let source = port.mac().unwrap_or(Mac::local(0));
        let mut bytes = Vec::with_capacity(spec.size as usize);
        let tagged = spec.class.is_some() || spec.vlan.is_some();
        let ethertype = match packet {
            None => EXPERIMENT,
            Some(IpAddr::V4(_)) => ethertype::IPV4,
            Some(IpAddr::V6(_)) => ethertype::IPV6,
        };
        let outermost = if tagged { ethertype::VLAN } else { ethertype };
        bytes.extend(ethernet::Header::new(destination, source, outermost).as_bytes());
        if tagged {
            let tag = Tag { class: spec.class.unwrap_or_default(), vlan: spec.vlan.unwrap_or(0) };
            bytes.extend(
                TagHeader { tci: tag.tci().into(), ethertype: ethertype.into() }.as_bytes(),
            );
        }
        let room = (spec.size as usize - bytes.len()).min(u16::MAX.into());
        if let Some(to) = packet {
            put_headers(&mut bytes, port, to, room, spec);
        }
        bytes.resize(spec.size as usize, 0);
        Self { bytes }
    }

    /// Its Ethernet header.
    pub(super) fn header(&self) -> Peek {
        ethernet::peek(&self.bytes).expect("a frame has a header")
    }
}

/// Puts the headers of a datagram from a port's machine, whose packet has so many bytes.
fn put_headers(
    bytes: &mut Vec<u8>,
    port: &PortSpec,
    to: IpAddr,
    packet_len: usize,
    spec: &TraceSpec,
) {
    const FITS: &str = "a packet of no more than 65,535 bytes";
    let own = addresses(port).find(|own| own.is_ipv4() == to.is_ipv4());
    let ip_len = match to {
        IpAddr::V4(to) => {
            // Of one that was declared without an address, any will do (RFC 5737).
            let from = match own {
                Some(IpAddr::V4(own)) => own,
                _ => Ipv4Addr::new(192, 0, 2, 1),
            };
            let payload_len = packet_len - ipv4::Header::LEN;
            let header = ipv4::Header::new(from, to, protocol::UDP, payload_len).expect(FITS);
            let header = if spec.may_fragment { header.may_fragment() } else { header };
            bytes.extend(header.as_bytes());
            ipv4::Header::LEN
        }
        IpAddr::V6(to) => {
            // RFC 3849.
            let from = match own {
                Some(IpAddr::V6(own)) => own,
                _ => Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 1),
            };
            let payload_len = packet_len - ipv6::Header::LEN;
            bytes.extend(
                ipv6::Header::new(from, to, protocol::UDP, payload_len).expect(FITS).as_bytes(),
            );
            ipv6::Header::LEN
        }
    };
    let payload_len = (packet_len - ip_len).saturating_sub(udp::Header::LEN);
    let to = spec.udp.unwrap_or(DISCARD);
    bytes.extend(udp::Header::new(DISCARD, to, payload_len).expect(FITS).as_bytes());
}

/// The IP addresses that a port was declared with.
pub(super) fn addresses(port: &PortSpec) -> impl Iterator<Item = IpAddr> {
    port.attach.addresses().iter().map(|prefix| prefix.address)
}
