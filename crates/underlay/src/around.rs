//! The IP header around a datagram, where it is ours to write.

use std::net::IpAddr;

use wire::checksum::Sum;
use wire::{ipv4, ipv6};
use zerocopy::IntoBytes;

/// What an IP header says.
#[derive(Clone, Copy, Debug)]
pub struct Ip {
    /// From whom and to whom: both of one family.
    pub ends: [IpAddr; 2],
    /// How many hops it may pass.
    pub ttl: u8,
    /// DSCP and ECN.
    pub traffic_class: u8,
    /// What it carries.
    pub protocol: u8,
    /// Whose it is: packets of a flow have the same (RFC 6438 §3).
    pub flow: u16,
    /// How many bytes it carries, at most what a packet can.
    pub len: usize,
}

impl Ip {
    /// Writes it, and says how many bytes it has.
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

/// Two addresses as they lie in an IP header.
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
