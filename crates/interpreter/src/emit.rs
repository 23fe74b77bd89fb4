//! Frames that the network itself makes, with all their checksums, and questions to it as they are
//! read.

use alloc::vec::Vec;
use core::net::IpAddr;

use units::Mac;
use wire::checksum::{Sum, pseudo_header};
use wire::ip::{Fragment, Version, protocol};
use wire::{ethernet, ipv4, ipv6, neighbor, udp};
use zerocopy::IntoBytes;

use crate::fields::Ip;

/// Who sends a frame, or gets it.
pub type End = (Mac, IpAddr);

/// A frame with a packet whose checksum is yet to be made. ICMP is told as of IPv4, whatever the
/// addresses are.
pub fn packet(to: End, from: End, carried: u8, mut body: Vec<u8>) -> Option<Vec<u8>> {
    let place = match carried {
        protocol::ICMP => 2,
        protocol::UDP => usize::from(udp::Header::CHECKSUM_OFFSET),
        _ => 16,
    };
    let (ethertype, header, sum) = match (from.1, to.1) {
        (IpAddr::V4(source), IpAddr::V4(to)) => {
            let header = ipv4::Header::new(source, to, carried, body.len())?;
            let addresses = [source.octets(), to.octets()];
            let pseudo = match carried {
                protocol::ICMP => Sum::default(),
                _ => pseudo_header(addresses.as_flattened(), carried, body.len()),
            };
            (ethernet::ethertype::IPV4, header.as_bytes().to_vec(), pseudo)
        }
        (IpAddr::V6(source), IpAddr::V6(to)) => {
            let carried = if carried == protocol::ICMP { protocol::ICMPV6 } else { carried };
            let mut header = ipv6::Header::new(source, to, carried, body.len())?;
            // Router advertisements come from the link itself (RFC 4861 §4.2).
            if carried == protocol::ICMPV6 && matches!(body.first(), Some(133..=137)) {
                header.hop_limit = neighbor::HOP_LIMIT;
            }
            let addresses = [source.octets(), to.octets()];
            let pseudo = pseudo_header(addresses.as_flattened(), carried, body.len());
            (ethernet::ethertype::IPV6, header.as_bytes().to_vec(), pseudo)
        }
        _ => return None,
    };
    let sum = sum + Sum::of(&body);
    let sum = if carried == protocol::UDP { sum.transport_checksum() } else { sum.checksum() };
    body.get_mut(place..place + 2)?.copy_from_slice(&sum.to_be_bytes());
    let mut frame = ethernet::Header::new(to.0, from.0, ethertype).as_bytes().to_vec();
    frame.extend_from_slice(&header);
    frame.extend_from_slice(&body);
    Some(frame)
}

/// A frame with a datagram.
pub fn datagram(to: (End, u16), from: (End, u16), payload: &[u8]) -> Option<Vec<u8>> {
    let header = udp::Header::new(from.1, to.1, payload.len())?;
    packet(to.0, from.0, protocol::UDP, [header.as_bytes(), payload].concat())
}

/// What a whole datagram carries. `None` if it is none, or damaged.
pub fn payload<'a>(frame: &'a [u8], ip: &Ip) -> Option<&'a [u8]> {
    if ip.tuple.protocol != protocol::UDP || ip.layout.fragment != Fragment::Whole {
        return None;
    }
    let body = frame.get(ip.layout.transport..ip.layout.end)?;
    let (header, payload) = udp::Header::parse(body)?;
    let covered = &body[..header.len.get().into()];
    let sum = ip.layout.pseudo_header(frame, covered.len()) + Sum::of(covered);
    let is_bare = header.checksum.get() == 0 && ip.layout.version == Version::V4;
    (is_bare || sum.checksum() == 0).then_some(payload)
}
