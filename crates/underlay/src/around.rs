//! Writes IP headers, for sockets that leave them to us.

use std::net::IpAddr;

use wire::checksum::Sum;
use wire::{ipv4, ipv6};
use zerocopy::IntoBytes;

/// The contents of an IP header.
#[derive(Clone, Copy, Debug)]
pub struct Ip {
    /// Source and destination, both of one family.
    pub ends: [IpAddr; 2],
    /// TTL, or hop limit.
    pub ttl: u8,
    /// DSCP and ECN.
    pub traffic_class: u8,
    /// The number of the protocol that it carries.
    pub protocol: u8,
    /// The flow label of IPv6 (RFC 6438 §3).
    pub flow: u16,
    /// The payload's length in bytes; it must fit into a packet.
    pub len: usize,
}

impl Ip {
    /// Writes the header. Returns its length in bytes.
    pub fn put(&self, into: &mut [u8]) -> usize {
        const FITS: &str = "a datagram has its bound";
        const ROOM: &str = "there is room for a header";
        let Self { ends, ttl, traffic_class, protocol, flow, len } = *self;
        match ends {
            [IpAddr::V4(from), IpAddr::V4(to)] => {
                let mut ip = ipv4::Header::new(from, to, protocol, len).expect(FITS);
                (ip.traffic_class, ip.ttl, ip.checksum) = (traffic_class, ttl, 0.into());
                ip.checksum.set(Sum::of(ip.as_bytes()).checksum());
                ip.write_to_prefix(into).expect(ROOM);
                ipv4::Header::LEN
            }
            [IpAddr::V6(from), IpAddr::V6(to)] => {
                let mut ip = ipv6::Header::new(from, to, protocol, len).expect(FITS);
                ip.set_traffic_class(traffic_class);
                ip.hop_limit = ttl;
                ip.version_class_flow.set(ip.version_class_flow.get() | u32::from(flow));
                ip.write_to_prefix(into).expect(ROOM);
                ipv6::Header::LEN
            }
            _ => 0,
        }
    }
}

/// Source and destination, as an IP header has them.
pub fn addresses(from: IpAddr, to: IpAddr, bytes: &mut [u8; 32]) -> &[u8] {
    match (from, to) {
        (IpAddr::V4(from), IpAddr::V4(to)) => {
            bytes[..4].copy_from_slice(&from.octets());
            bytes[4..8].copy_from_slice(&to.octets());
            &bytes[..8]
        }
        (IpAddr::V6(from), IpAddr::V6(to)) => {
            bytes[..16].copy_from_slice(&from.octets());
            bytes[16..].copy_from_slice(&to.octets());
            bytes
        }
        _ => &[],
    }
}
