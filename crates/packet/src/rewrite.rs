//! Changes to a frame, with the checksums that follow from them.
//!
//! Checksums are changed by as much as their bytes are (RFC 1624), so that one that was wrong stays
//! wrong, and one that was not computed (UDP over IPv4, 0) stays so.

use alloc::vec::Vec;
use core::net::IpAddr;

use units::{Dscp, Mac};
use wire::checksum::Sum;
use wire::ip::{Fragment, Layout, Version, protocol};
use wire::ipv4;

use crate::fields::{Ip, Tuple, quoted_layout};

/// Writes other Ethernet addresses.
pub fn set_macs(frame: &mut [u8], destination: Mac, source: Mac) {
    if let Some(addresses) = frame.get_mut(..12) {
        addresses[..6].copy_from_slice(&destination.0);
        addresses[6..].copy_from_slice(&source.0);
    }
}

/// A checksum after what it covers has changed (RFC 1624 §3, equation 3).
fn patched(checksum: u16, old: &[u8], new: &[u8]) -> u16 {
    let without = Sum::word(!checksum) + Sum::word(Sum::of(old).checksum());
    (without + Sum::of(new)).checksum()
}

fn word(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_be_bytes([*bytes.get(at)?, *bytes.get(at + 1)?]))
}

fn put(bytes: &mut [u8], at: usize, value: &[u8]) {
    if let Some(place) = bytes.get_mut(at..at + value.len()) {
        place.copy_from_slice(value);
    }
}

/// Takes as many from how many more routers a packet may pass as it has passed.
pub fn take_hops(frame: &mut [u8], layout: &Layout, hops: u8) {
    let Layout { version, network: at, .. } = *layout;
    match version {
        Version::V4 => {
            // The checksum covers them in one word with the protocol.
            let Some(old) = frame.get(at + 8..).and_then(|it| it.first_chunk::<2>()).copied()
            else {
                return;
            };
            let new = [old[0].saturating_sub(hops), old[1]];
            put(frame, at + 8, &new);
            let place = at + ipv4::Header::CHECKSUM_OFFSET;
            let sum = word(frame, place).map_or(0, |sum| patched(sum, &old, &new));
            put(frame, place, &sum.to_be_bytes());
        }
        Version::V6 => {
            if let Some(left) = frame.get_mut(at + 7) {
                *left = left.saturating_sub(hops);
            }
        }
    }
}

/// Marks a packet (RFC 2474 §3). What routers tell of congestion stays (RFC 3168 §5).
pub fn set_dscp(frame: &mut [u8], layout: &Layout, dscp: Dscp) {
    let Layout { version, network: at, .. } = *layout;
    let Some(old) = frame.get(at..at + 2).and_then(|it| it.as_array::<2>()).copied() else {
        return;
    };
    let mark = u16::from(dscp.number());
    let (rest, shift) = match version {
        Version::V4 => (0xff03, 2),
        Version::V6 => (0xf03f, 6),
    };
    let new = (u16::from_be_bytes(old) & rest | mark << shift).to_be_bytes();
    put(frame, at, &new);
    if version == Version::V4 {
        let place = at + ipv4::Header::CHECKSUM_OFFSET;
        let sum = word(frame, place).map_or(0, |sum| patched(sum, &old, &new));
        put(frame, place, &sum.to_be_bytes());
    }
}

/// Gives a packet other ends: addresses, and ports where they are in this part of it.
pub fn set_tuple(frame: &mut [u8], ip: &Ip, to: Tuple) {
    let is_here = ip.layout.fragment != Fragment::Later;
    let at = ip.layout.network;
    rewrite(&mut frame[..ip.layout.end], at, ip.layout.transport, ip, to, is_here);
}

/// Other ends for the packets of a flow of TCP or UDP, made ready once: what they add to checksums
/// is the same for each packet.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct NewEnds {
    /// Both addresses; of IPv4 in the first eight bytes.
    addresses: [u8; 32],
    ports: [u8; 4],
    /// What they add to the sum of the addresses, and of these and the ports.
    added: [Sum; 2],
}

impl NewEnds {
    /// For packets that have some ends, others of the same version of IP.
    pub fn new(before: Tuple, behind: Tuple) -> Self {
        let addresses = |tuple: Tuple| {
            let mut addresses = [0; 32];
            let (source, destination) = (octets(tuple.source.0), octets(tuple.destination.0));
            put(&mut addresses, 0, &source);
            put(&mut addresses, source.len(), &destination);
            addresses
        };
        let ports = |tuple: Tuple| {
            let [[a, b], [c, d]] = [tuple.source.1, tuple.destination.1].map(u16::to_be_bytes);
            [a, b, c, d]
        };
        let added = |old: &[u8], new: &[u8]| Sum::word(Sum::of(old).checksum()) + Sum::of(new);
        let (old, new) = (addresses(before), addresses(behind));
        let of_addresses = added(&old, &new);
        let all = of_addresses + added(&ports(before), &ports(behind));
        Self { addresses: new, ports: ports(behind), added: [of_addresses, all] }
    }

    /// How many bytes of a frame it changes, at most: up to there it has to be at hand.
    pub fn reach(layout: &Layout) -> usize {
        let (place, _) = checksum_place(layout.protocol).unwrap_or((0, false));
        layout.transport + place + 2
    }

    /// Gives a packet these ends, as [`set_tuple`] does. `frame`: its headers, or more of it.
    pub fn set(&self, frame: &mut [u8], layout: &Layout) {
        let Layout { version, network, transport, protocol: carried, .. } = *layout;
        let [of_addresses, all] = self.added;
        let changed = |sum: u16, added: Sum| (Sum::word(!sum) + added).checksum();
        match version {
            Version::V4 => {
                put(frame, network + 12, &self.addresses[..8]);
                let place = network + ipv4::Header::CHECKSUM_OFFSET;
                let sum = word(frame, place).map_or(0, |sum| changed(sum, of_addresses));
                put(frame, place, &sum.to_be_bytes());
            }
            Version::V6 => put(frame, network + 8, &self.addresses),
        }
        put(frame, transport, &self.ports);
        let Some((place, _)) = checksum_place(carried) else { return };
        let Some(sum) = word(frame, transport + place) else { return };
        let sum = match (carried, changed(sum, all)) {
            // RFC 768: there is none.
            (protocol::UDP, _) if sum == 0 => return,
            (protocol::UDP, 0) => 0xffff,
            (_, sum) => sum,
        };
        put(frame, transport + place, &sum.to_be_bytes());
    }
}

fn octets(address: IpAddr) -> Vec<u8> {
    match address {
        IpAddr::V4(address) => address.octets().to_vec(),
        IpAddr::V6(address) => address.octets().to_vec(),
    }
}

/// Where a transport header has its checksum, and whether that covers addresses.
const fn checksum_place(carried: u8) -> Option<(usize, bool)> {
    match carried {
        protocol::TCP => Some((16, true)),
        protocol::UDP => Some((6, true)),
        protocol::ICMP => Some((2, false)),
        protocol::ICMPV6 => Some((2, true)),
        _ => None,
    }
}

/// Rewrites a packet that begins at `network` and whose transport header begins at `transport`.
fn rewrite(
    bytes: &mut [u8],
    network: usize,
    transport: usize,
    ip: &Ip,
    to: Tuple,
    has_transport: bool,
) {
    let version = ip.layout.version;
    let (addresses, len) = match version {
        Version::V4 => (network + 12, 4),
        Version::V6 => (network + 8, 16),
    };
    let old = bytes.to_vec();
    put(bytes, addresses, &octets(to.source.0));
    put(bytes, addresses + len, &octets(to.destination.0));
    if has_transport {
        match to.protocol {
            protocol::TCP | protocol::UDP | 132 => {
                put(bytes, transport, &to.source.1.to_be_bytes());
                put(bytes, transport + 2, &to.destination.1.to_be_bytes());
            }
            protocol::ICMP | protocol::ICMPV6 => {
                let is_question = matches!(bytes.get(transport), Some(0 | 8 | 128 | 129));
                if is_question {
                    put(bytes, transport + 4, &to.source.1.to_be_bytes());
                }
            }
            _ => {}
        }
    }
    if version == Version::V4 {
        let at = network + ipv4::Header::CHECKSUM_OFFSET;
        let (before, after) = (&old[network..transport], &bytes[network..transport]);
        if let Some(sum) = word(&old, at) {
            let sum = patched(sum, before, after);
            put(bytes, at, &sum.to_be_bytes());
        }
    }
    // A quoted packet may be cut before its checksum.
    if let Some((place, covers_addresses)) = checksum_place(to.protocol).filter(|_| has_transport)
        && let Some(sum) = word(&old, transport + place)
        && !(to.protocol == protocol::UDP && sum == 0)
    {
        let mut sum = patched(sum, &old[transport..], &bytes[transport..]);
        if covers_addresses {
            let range = addresses..addresses + 2 * len;
            sum = patched(sum, &old[range.clone()], &bytes[range]);
        }
        if to.protocol == protocol::UDP && sum == 0 {
            sum = 0xffff;
        }
        put(bytes, transport + place, &sum.to_be_bytes());
    }
}

/// Gives the packet that an ICMP error quotes other ends, and the error itself another receiver and
/// perhaps another sender.
pub fn set_quoted(frame: &mut [u8], ip: &Ip, quoted: Tuple, source: IpAddr, destination: IpAddr) {
    let version = ip.layout.version;
    let (message, end) = (ip.layout.transport, ip.layout.end);
    let quote = message + 8;
    if let Some((at, _)) = frame.get(quote..end).and_then(|it| quoted_layout(version, it)) {
        let old = frame[message..end].to_vec();
        rewrite(&mut frame[..end], quote, quote + at, ip, quoted, true);
        let place = message + 2;
        if let Some(sum) = word(frame, place) {
            let sum = patched(sum, &old, &frame[message..end]);
            put(frame, place, &sum.to_be_bytes());
        }
    }
    let to = Tuple { source: (source, 0), destination: (destination, 0), ..ip.tuple };
    set_tuple(frame, ip, to);
}
