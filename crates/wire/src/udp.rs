//! UDP (RFC 768), and which socket a frame is for.

use core::net::IpAddr;

use zerocopy::network_endian::U16;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::ip::{Fragment, Layout, protocol};
use crate::{Offload, SegmentKind};

/// The header: 8 bytes.
#[derive(Clone, Copy, Debug, Eq, PartialEq, FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned)]
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

    /// The header and payload that `bytes`, an IP packet's payload, begin with; `None` if they are cut short.
    pub fn parse(bytes: &[u8]) -> Option<(&Self, &[u8])> {
        let (header, _) = Self::ref_from_prefix(bytes).ok()?;
        let payload = bytes.get(Self::LEN..usize::from(header.len.get()))?;
        Some((header, payload))
    }
}

/// The socket that a frame's datagrams are for.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct UdpDestination {
    /// Its address.
    pub address: IpAddr,
    /// Its port.
    pub port: u16,
    /// How many datagrams the frame stands for: more than one if it is still to be segmented.
    pub datagrams: u16,
    /// Payload of all of them together, in bytes; of a first fragment, the whole datagram's.
    pub payload_len: u16,
}

/// Which socket `frame` is for: `None` unless it carries UDP, whole or its first fragment, over IPv4 or IPv6.
#[inline]
pub fn udp_destination(frame: &[u8], offload: Offload) -> Option<UdpDestination> {
    let layout = Layout::of(frame)?;
    if layout.protocol != protocol::UDP || layout.fragment == Fragment::Later {
        return None;
    }
    let transport = frame.get(layout.transport..layout.end)?;
    let (header, _) = Header::ref_from_prefix(transport).ok()?;
    let len = header.len.get();
    if layout.fragment == Fragment::Whole && usize::from(len) > transport.len() {
        return None;
    }
    let payload_len = len.checked_sub(Header::LEN as u16)?;
    let datagrams = match offload.segment {
        Some(segment) if segment.kind == SegmentKind::Udp && segment.size > 0 => {
            payload_len.div_ceil(segment.size).max(1)
        }
        _ => 1,
    };
    let address = layout.destination(frame);
    Some(UdpDestination { address, port: header.destination.get(), datagrams, payload_len })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Segment, ethernet, ipv4, ipv6};
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
        let ip = ipv4::Header::new(Ipv4Addr::LOCALHOST, to, protocol::UDP, 8 + payload.len()).unwrap();
        ethernet(ethernet::ethertype::IPV4, ip.as_bytes(), payload)
    }

    #[test]
    fn a_datagram_names_its_socket_in_both_versions() {
        let found = udp_destination(&v4(b"four"), Offload::NONE).unwrap();
        assert_eq!((found.address, found.port), (IpAddr::from([10, 0, 0, 2]), 2000));
        assert_eq!((found.datagrams, found.payload_len), (1, 4));

        let to = Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, 2);
        let ip = ipv6::Header::new(Ipv6Addr::LOCALHOST, to, protocol::UDP, 11).unwrap();
        let frame = ethernet(ethernet::ethertype::IPV6, ip.as_bytes(), b"six");
        let found = udp_destination(&frame, Offload::NONE).unwrap();
        assert_eq!((found.address, found.payload_len), (IpAddr::from(to), 3));
    }

    #[test]
    fn a_large_frame_counts_as_its_datagrams() {
        let segment = Segment { kind: SegmentKind::Udp, ecn: false, header_len: 42, size: 100 };
        let offload = Offload { segment: Some(segment), ..Offload::NONE };
        assert_eq!(udp_destination(&v4(&[0; 1001]), offload).unwrap().datagrams, 11);
        assert_eq!(udp_destination(&v4(&[0; 1000]), offload).unwrap().datagrams, 10);
        assert_eq!(udp_destination(&v4(&[]), offload).unwrap().datagrams, 1);
    }

    #[test]
    fn only_a_first_fragment_names_a_socket() {
        let mut frame = v4(&[0; 20]);
        frame[14 + 6..14 + 8].copy_from_slice(&0x2000u16.to_be_bytes());
        frame[34 + 4..34 + 6].copy_from_slice(&3008u16.to_be_bytes());
        assert_eq!(udp_destination(&frame, Offload::NONE).unwrap().payload_len, 3000);
        frame[14 + 7] = 3;
        assert_eq!(udp_destination(&frame, Offload::NONE), None);
    }

    #[test]
    fn a_datagram_longer_than_its_packet_names_nobody() {
        let mut frame = v4(&[0; 20]);
        frame[34 + 5] = 29;
        assert_eq!(udp_destination(&frame, Offload::NONE), None);
        frame[34 + 5] = 7;
        assert_eq!(udp_destination(&frame, Offload::NONE), None);
    }
}
