//! Frames that the network itself makes, with all their checksums, and questions to it as they are
//! read.

use alloc::vec::Vec;
use core::net::IpAddr;

use units::Mac;
use wire::checksum::Sum;
use wire::ip::{Fragment, Version, protocol};
use wire::{ethernet, neighbor, udp, whole};
use zerocopy::IntoBytes;

use crate::fields::Ip;

/// Who sends a frame, or gets it.
pub type End = (Mac, IpAddr);

/// A frame with a packet and its checksums. ICMP is told as of IPv4, whatever the
/// addresses are.
pub fn packet(to: End, from: End, carried: u8, body: Vec<u8>) -> Option<Vec<u8>> {
    let is_v6_icmp = carried == protocol::ICMP && to.1.is_ipv6();
    let carried = if is_v6_icmp { protocol::ICMPV6 } else { carried };
    let mut frame = whole::packet((from.0, to.0), (from.1, to.1), carried, &body)?;
    // Neighbour discovery comes from the link itself (RFC 4861 §4.2); no checksum covers that.
    if is_v6_icmp && matches!(body.first(), Some(133..=137)) {
        frame[ethernet::Header::LEN + 7] = neighbor::HOP_LIMIT;
    }
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
