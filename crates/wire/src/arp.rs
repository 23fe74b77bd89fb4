//! ARP for IPv4 over Ethernet (RFC 826).

use core::net::Ipv4Addr;

use units::Mac;
use zerocopy::network_endian::U16;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::ethernet::ethertype;

/// A question: who has the target's IPv4 address?
pub const REQUEST: u16 = 1;
/// An answer: the sender has it.
pub const REPLY: u16 = 2;

/// An ARP packet: 28 bytes behind the Ethernet header.
#[derive(Clone, Copy, Debug, Eq, PartialEq, FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned)]
#[repr(C)]
pub struct Packet {
    hardware: U16,
    protocol: U16,
    hardware_len: u8,
    protocol_len: u8,
    /// [`REQUEST`] or [`REPLY`].
    pub operation: U16,
    /// The sender's Ethernet address.
    pub sender_mac: [u8; 6],
    /// The sender's IPv4 address.
    pub sender_ip: [u8; 4],
    /// The target's Ethernet address; in a request nobody knows it yet.
    pub target_mac: [u8; 6],
    /// The target's IPv4 address.
    pub target_ip: [u8; 4],
}

impl Packet {
    /// A packet of this operation from `sender` about `target`.
    pub const fn new(operation: u16, sender: (Mac, Ipv4Addr), target: (Mac, Ipv4Addr)) -> Self {
        Self {
            hardware: U16::new(1),
            protocol: U16::new(ethertype::IPV4),
            hardware_len: 6,
            protocol_len: 4,
            operation: U16::new(operation),
            sender_mac: sender.0.0,
            sender_ip: sender.1.octets(),
            target_mac: target.0.0,
            target_ip: target.1.octets(),
        }
    }

    /// The packet at the beginning of `bytes`; `None` if it is cut short or not about IPv4 over Ethernet.
    pub fn parse(bytes: &[u8]) -> Option<&Self> {
        let (packet, _padding) = Self::ref_from_prefix(bytes).ok()?;
        let kind = (packet.hardware.get(), packet.protocol.get(), packet.hardware_len, packet.protocol_len);
        (kind == (1, ethertype::IPV4, 6, 4)).then_some(packet)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn parse_undoes_emit(operation: u16, macs: [[u8; 6]; 2], ips: [[u8; 4]; 2]) {
            let [sender, target] = [0, 1].map(|i| (Mac(macs[i]), Ipv4Addr::from(ips[i])));
            let packet = Packet::new(operation, sender, target);
            prop_assert_eq!(Packet::parse(packet.as_bytes()), Some(&packet));
        }
    }

    #[test]
    fn other_hardware_is_not_ours() {
        let nobody = (Mac::default(), Ipv4Addr::UNSPECIFIED);
        let mut bytes = [0; 28];
        bytes.copy_from_slice(Packet::new(REQUEST, nobody, nobody).as_bytes());
        bytes[1] = 6; // IEEE 802 networks, as the registry calls token ring.
        assert_eq!(Packet::parse(&bytes), None);
        assert_eq!(Packet::parse(&bytes[..27]), None);
    }
}
