//! UDP (RFC 768), and which socket a frame is for.

mod packet;

use zerocopy::network_endian::U16;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

pub use packet::{Datagram, LEAST_FRAGMENT, Packet};

/// The header: 8 bytes.
#[derive(
    Clone, Copy, Debug, Eq, PartialEq, FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned,
)]
#[repr(C)]
pub struct Header {
    /// From which port; 0 is none.
    pub source: U16,
    /// To which port.
    pub destination: U16,
    /// Header and payload, in bytes.
    pub len: U16,
    /// Over pseudo-header, header and payload; 0 is none.
    pub checksum: U16,
}

impl Header {
    /// The header's length in bytes.
    pub const LEN: usize = size_of::<Self>();

    /// Where the checksum lies in the header.
    pub const CHECKSUM_OFFSET: u16 = 6;

    /// A header without checksum for `payload_len` bytes; `None` if they are too many.
    pub fn new(source: u16, destination: u16, payload_len: usize) -> Option<Self> {
        let len = u16::try_from(payload_len.checked_add(Self::LEN)?).ok()?;
        let [source, destination, len] = [source, destination, len].map(U16::new);
        Some(Self { source, destination, len, checksum: U16::ZERO })
    }

    /// The header and payload that `bytes`, an IP packet's payload, begin with; `None` if they are
    /// cut short.
    pub fn parse(bytes: &[u8]) -> Option<(&Self, &[u8])> {
        let (header, _) = Self::ref_from_prefix(bytes).ok()?;
        let payload = bytes.get(Self::LEN..usize::from(header.len.get()))?;
        Some((header, payload))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ip::{Part, protocol};
    use crate::{Offload, Segment, SegmentKind, ethernet, ipv4, ipv6};
    use alloc::vec;
    use alloc::vec::Vec;
    use core::net::{Ipv4Addr, Ipv6Addr};
    use proptest::prelude::*;
    use units::Mac;

    proptest! {
        #[test]
        fn parse_undoes_emit(source: u16, destination: u16, payload: Vec<u8>, padding: Vec<u8>) {
            let header = Header::new(source, destination, payload.len()).unwrap();
            let bytes = [header.as_bytes(), &payload, &padding].concat();
            prop_assert_eq!(Header::parse(&bytes), Some((&header, &payload[..])));
        }
    }

    fn ethernet(ethertype: u16, ip: &[u8], payload: &[u8]) -> Vec<u8> {
        let udp = Header::new(1000, 2000, payload.len()).unwrap();
        let ethernet = ethernet::Header::new(Mac::local(1), Mac::local(2), ethertype);
        [ethernet.as_bytes(), ip, udp.as_bytes(), payload].concat()
    }

    fn v4(payload: &[u8]) -> Vec<u8> {
        let to = Ipv4Addr::new(10, 0, 0, 2);
        let ip =
            ipv4::Header::new(Ipv4Addr::LOCALHOST, to, protocol::UDP, 8 + payload.len()).unwrap();
        ethernet(ethernet::ethertype::IPV4, ip.as_bytes(), payload)
    }

    fn datagram(frame: &[u8], offload: Offload) -> Option<Datagram> {
        Packet::parse(frame, offload)?.datagram
    }

    const V6_TO: Ipv6Addr = Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, 2);

    fn v6(first: u8, extensions: &[u8], payload: &[u8]) -> Vec<u8> {
        let len = extensions.len() + Header::LEN + payload.len();
        let ip = ipv6::Header::new(Ipv6Addr::LOCALHOST, V6_TO, first, len).unwrap();
        ethernet(ethernet::ethertype::IPV6, &[ip.as_bytes(), extensions].concat(), payload)
    }

    #[test]
    fn a_datagram_names_its_socket_in_both_versions() {
        let frame = v4(b"four");
        let found = Packet::parse(&frame, Offload::NONE).unwrap();
        assert_eq!(found.source, Ipv4Addr::LOCALHOST.to_ipv6_mapped());
        assert_eq!(found.destination, Ipv4Addr::new(10, 0, 0, 2).to_ipv6_mapped());
        let sockets = Datagram {
            source_port: 1000,
            destination_port: 2000,
            pieces: 1,
            piece_len: frame.len(),
        };
        assert_eq!((found.part, found.datagram), (None, Some(sockets)));

        let frame = v6(protocol::UDP, &[], b"six");
        let found = Packet::parse(&frame, Offload::NONE).unwrap();
        assert_eq!((found.source, found.destination), (Ipv6Addr::LOCALHOST, V6_TO));
        assert_eq!(
            (found.part, found.datagram),
            (None, Some(Datagram { piece_len: frame.len(), ..sockets }))
        );
    }

    #[test]
    fn a_large_frame_counts_as_its_datagrams() {
        let segment = Segment { kind: SegmentKind::Udp, ecn: false, header_len: 42, size: 100 };
        let offload = Offload { segment: Some(segment), ..Offload::NONE };
        for (len, pieces) in [(1001, 11), (1000, 10), (0, 1)] {
            let found = datagram(&v4(&vec![0; len]), offload).unwrap();
            assert_eq!((found.pieces, found.piece_len), (pieces, 142));
        }
    }

    /// An IPv4 datagram's fragment, whose UDP header speaks of 3,000 bytes.
    fn fragment(payload_len: usize, flags_and_offset: u16) -> Vec<u8> {
        let mut frame = v4(&vec![0; payload_len]);
        frame[14 + 4..14 + 6].copy_from_slice(&7u16.to_be_bytes());
        frame[14 + 6..14 + 8].copy_from_slice(&flags_and_offset.to_be_bytes());
        frame[34 + 4..34 + 6].copy_from_slice(&3008u16.to_be_bytes());
        frame
    }

    #[test]
    fn a_first_fragment_names_a_socket_and_a_later_one_its_datagram() {
        let first = Packet::parse(&fragment(1472, 0x2000), Offload::NONE).unwrap();
        assert_eq!(first.part, Some(Part { identification: 7, last: false }));
        assert_eq!(
            first.datagram.map(|datagram| (datagram.pieces, datagram.piece_len)),
            Some((3, 1514))
        );
        for (flags_and_offset, last) in [(0x2003, false), (0x0003, true)] {
            let later = Packet::parse(&fragment(1472, flags_and_offset), Offload::NONE).unwrap();
            assert_eq!(later.part, Some(Part { identification: 7, last }));
            assert_eq!((later.source, later.datagram), (first.source, None));
        }
    }

    #[test]
    fn a_tiny_fragment_stands_for_no_more_than_a_small_one() {
        assert_eq!(datagram(&fragment(0, 0x2000), Offload::NONE).unwrap().pieces, 6);
        assert_eq!(
            datagram(&fragment(LEAST_FRAGMENT - 8, 0x2000), Offload::NONE).unwrap().pieces,
            6
        );
    }

    #[test]
    fn a_fragment_of_nobody_knows_what_is_none() {
        let header = [17, 0, 0, 1, 0, 0, 0, 9];
        let known = Packet::parse(&v6(44, &header, b"six"), Offload::NONE).unwrap();
        assert_eq!(known.part, Some(Part { identification: 9, last: false }));
        // Destination options behind it, which end like a fragment header.
        let behind = [[60, 0, 0, 1, 0, 0, 0, 9], header].concat();
        assert_eq!(Packet::parse(&v6(44, &behind, b"six"), Offload::NONE), None);
    }

    #[test]
    fn a_datagram_that_contradicts_its_packet_is_none() {
        for len in [29, 7] {
            let mut frame = v4(&[0; 20]);
            frame[34 + 5] = len;
            assert_eq!(Packet::parse(&frame, Offload::NONE), None);
        }
    }

    proptest! {
        #[test]
        fn ports_and_addresses_are_those_that_were_written(
            addresses: [[u8; 4]; 2], ports: [u16; 2], payload: Vec<u8>,
        ) {
            let [from, to] = addresses.map(Ipv4Addr::from);
            let ip = ipv4::Header::new(from, to, protocol::UDP, Header::LEN + payload.len()).unwrap();
            let udp = Header::new(ports[0], ports[1], payload.len()).unwrap();
            let ethernet =
                ethernet::Header::new(Mac::local(1), Mac::local(2), ethernet::ethertype::IPV4);
            let frame = [ethernet.as_bytes(), ip.as_bytes(), udp.as_bytes(), &payload].concat();
            let found = Packet::parse(&frame, Offload::NONE).unwrap();
            prop_assert_eq!((found.source, found.destination), (from.to_ipv6_mapped(), to.to_ipv6_mapped()));
            let found = found.datagram.unwrap();
            prop_assert_eq!([found.source_port, found.destination_port], ports);
        }
    }
}
