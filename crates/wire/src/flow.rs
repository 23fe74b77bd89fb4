//! Which frames belong together: those of one flow stay in order, so they go one way, and by one
//! ring.

use crate::Layout;
use crate::ip::{Fragment, protocol};

/// As many bytes as headers have that tell one flow from another: Ethernet with two tags, IPv6 with
/// extensions, ports.
pub const HEADERS: usize = 128;

/// A number that is the same for all frames of a flow: of those between the same two machines, and
/// where these are TCP or UDP, the same two ports. The frame has `len` bytes, of which `head` are
/// the first: all, or [`HEADERS`].
///
/// A fragment's flow is that between its two addresses: only the first one shows its ports. So
/// where a program's datagrams are partly fragmented, those are another flow than the rest, as they
/// are for network cards.
#[inline]
pub fn hash(head: &[u8], len: usize) -> u32 {
    let hash = mix(0, head.get(..12).unwrap_or_default());
    let Some(layout) = Layout::of_head(head, len) else { return fold(hash) };
    let hash = mix(hash, head.get(layout.address_range()).unwrap_or_default());
    let has_ports = layout.fragment == Fragment::Whole
        && matches!(layout.protocol, protocol::TCP | protocol::UDP);
    let ports = head.get(layout.transport..layout.transport + 4).filter(|_| has_ports);
    fold(mix(hash, ports.unwrap_or_default()))
}

/// Which of `count` places a flow has.
#[inline]
pub const fn place(hash: u32, count: usize) -> usize {
    ((hash as u64 * count as u64) >> 32) as usize
}

/// The source port of a tunnel's packets that carry a flow: one of the dynamic ports (RFC 7348 §5,
/// RFC 8926 §3.3), a flow's always the same.
#[inline]
pub const fn source_port(hash: u32) -> u16 {
    49_152 | (hash >> 18) as u16
}

/// Adds words of four bytes to a hash.
fn mix(hash: u64, bytes: &[u8]) -> u64 {
    let (words, _) = bytes.as_chunks::<4>();
    words.iter().fold(hash, |hash, word| {
        units::hash::fibonacci(hash.rotate_left(23) ^ u64::from(u32::from_ne_bytes(*word)))
    })
}

/// The bits that have seen most of what was mixed in.
const fn fold(hash: u64) -> u32 {
    (hash >> 32) as u32
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ethernet::{self, ethertype};
    use crate::ip::Version;
    use crate::{ipv4, ipv6};
    use alloc::vec::Vec;
    use core::net::{Ipv4Addr, Ipv6Addr};
    use units::Mac;
    use zerocopy::IntoBytes;

    fn frame(version: Version, protocol: u8, source_port: u16, last: &[u8]) -> Vec<u8> {
        let payload = [&source_port.to_be_bytes()[..], &[0, 80], last].concat();
        let v4 =
            ipv4::Header::new(Ipv4Addr::LOCALHOST, Ipv4Addr::BROADCAST, protocol, payload.len());
        let v6 =
            ipv6::Header::new(Ipv6Addr::LOCALHOST, Ipv6Addr::UNSPECIFIED, protocol, payload.len());
        let (ethertype, ip) = match version {
            Version::V4 => (ethertype::IPV4, v4.unwrap().as_bytes().to_vec()),
            Version::V6 => (ethertype::IPV6, v6.unwrap().as_bytes().to_vec()),
        };
        let ethernet = ethernet::Header::new(Mac::local(1), Mac::local(2), ethertype);
        [ethernet.as_bytes(), &ip, &payload].concat()
    }

    fn of(frame: &[u8]) -> u32 {
        hash(frame, frame.len())
    }

    #[test]
    fn frames_of_one_flow_have_one_hash_whatever_they_carry() {
        for version in [Version::V4, Version::V6] {
            let one = of(&frame(version, protocol::TCP, 1000, b"this"));
            assert_eq!(of(&frame(version, protocol::TCP, 1000, b"that")), one);
            assert_ne!(of(&frame(version, protocol::TCP, 1001, b"this")), one, "another port");
            // What is neither TCP nor UDP has no ports there.
            let gre = [1000, 1001].map(|port| of(&frame(version, protocol::GRE, port, b"this")));
            assert_eq!(gre[0], gre[1]);
        }
        let mut fragments =
            [1000, 1001].map(|port| frame(Version::V4, protocol::UDP, port, b"this"));
        fragments.iter_mut().for_each(|frame| frame[14 + 6] |= 0x20);
        assert_eq!(of(&fragments[0]), of(&fragments[1]), "fragments");
    }

    #[test]
    fn the_first_bytes_suffice() {
        let frame = frame(Version::V6, protocol::UDP, 1000, &[7; 300]);
        assert_eq!(hash(&frame[..HEADERS], frame.len()), of(&frame));
        for len in 0..20 {
            assert_eq!(hash(&frame[..len], len), of(&frame[..len]), "no panic");
        }
    }

    #[test]
    fn flows_spread_over_places_evenly() {
        let mut counts = [0; 16];
        for port in 0..16_000 {
            counts[place(of(&frame(Version::V4, protocol::TCP, port, &[])), 16)] += 1;
        }
        assert!(counts.iter().all(|count| (800..1200).contains(count)), "{counts:?}");
    }
}
