//! IPv6 and its extension headers (RFC 8200).

use core::net::Ipv6Addr;

use zerocopy::network_endian::{U16, U32};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::ip::{Fragment, Part};

/// How many extension headers we walk before we call a packet malformed; each kind belongs there
/// once, destination options twice (RFC 8200 §4.1).
pub const MAX_EXTENSIONS: usize = 8;

/// The fixed header: 40 bytes.
#[derive(
    Clone, Copy, Debug, Eq, PartialEq, FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned,
)]
#[repr(C)]
pub struct Header {
    /// Version, traffic class and flow label.
    pub version_class_flow: U32,
    /// Extensions and what they precede, in bytes.
    pub payload_len: U16,
    /// What follows: an extension header or one of [`ip::protocol`](crate::ip::protocol).
    pub next_header: u8,
    /// Hops left.
    pub hop_limit: u8,
    /// From whom.
    pub source: [u8; 16],
    /// To whom.
    pub destination: [u8; 16],
}

impl Header {
    /// The header's length in bytes.
    pub const LEN: usize = size_of::<Self>();

    /// The header of a packet with `payload_len` bytes behind it; `None` above 65,535.
    pub fn new(
        source: Ipv6Addr,
        destination: Ipv6Addr,
        next_header: u8,
        payload_len: usize,
    ) -> Option<Self> {
        Some(Self {
            version_class_flow: U32::new(6 << 28),
            payload_len: U16::new(u16::try_from(payload_len).ok()?),
            next_header,
            hop_limit: 64,
            source: source.octets(),
            destination: destination.octets(),
        })
    }

    /// Differentiated services code point and ECN (RFC 2474, RFC 3168).
    pub const fn traffic_class(&self) -> u8 {
        (self.version_class_flow.get() >> 20) as u8
    }

    /// Changes the traffic class.
    pub fn set_traffic_class(&mut self, traffic_class: u8) {
        let others = self.version_class_flow.get() & !(0xff << 20);
        self.version_class_flow.set(others | u32::from(traffic_class) << 20);
    }
}

/// A packet whose lengths lie inside its bytes, its extension headers walked.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Packet<'a> {
    /// The fixed header.
    pub header: &'a Header,
    /// Extension headers, all of them.
    pub extensions: &'a [u8],
    /// What the last of them announces.
    pub protocol: u8,
    /// Whether this is a fragment; of a later one the walk ends at the fragment header.
    pub fragment: Fragment,
    /// What the packet carries, without the frame's padding.
    pub payload: &'a [u8],
}

impl<'a> Packet<'a> {
    /// The packet at the beginning of `bytes`.
    ///
    /// `None` if it is not IPv6 or cut short, has more than [`MAX_EXTENSIONS`], or is still to be
    /// routed through other addresses (a routing header with segments left): its checksum covers a
    /// destination it does not show.
    #[inline]
    pub fn parse(bytes: &'a [u8]) -> Option<Self> {
        Self::parse_head(bytes, bytes.len())
    }

    /// As [`parse`](Self::parse), where of `len` bytes only the first are at hand; so the payload
    /// may be cut short.
    #[inline]
    pub(crate) fn parse_head(bytes: &'a [u8], len: usize) -> Option<Self> {
        let (header, rest) = Header::ref_from_prefix(bytes).ok()?;
        let payload_len = usize::from(header.payload_len.get());
        if header.version_class_flow.get() >> 28 != 6 || Header::LEN + payload_len > len {
            return None;
        }
        let behind = rest.get(..payload_len).unwrap_or(rest);
        let mut packet = Self {
            header,
            extensions: &[],
            protocol: header.next_header,
            fragment: Fragment::Whole,
            payload: behind,
        };
        for _ in 0..MAX_EXTENSIONS {
            let Some(len) = packet.extension_len()? else { return Some(packet) };
            packet.protocol = *packet.payload.first()?;
            packet.payload = packet.payload.get(len..)?;
            packet.extensions = &behind[..behind.len() - packet.payload.len()];
        }
        packet.extension_len()?.is_none().then_some(packet)
    }

    /// The length of the extension header that the payload begins with: `Some(None)` if it begins
    /// with none that we walk, `None` if that header is cut short or routes on. Takes note of a
    /// fragment.
    fn extension_len(&mut self) -> Option<Option<usize>> {
        if self.fragment == Fragment::Later {
            return Some(None); // What follows is the middle of something.
        }
        let known = matches!(
            self.protocol,
            HOP_BY_HOP | ROUTING | FRAGMENT | AUTHENTICATION | DESTINATION_OPTIONS | MOBILITY
        );
        if !known {
            return Some(None);
        }
        let [_, len, high, low, ..] = *self.payload.first_chunk::<8>()?;
        match self.protocol {
            ROUTING if low != 0 => None,
            FRAGMENT => {
                let bits = u16::from_be_bytes([high, low]);
                self.fragment = Fragment::new(bits >> 3, bits & 1 != 0);
                Some(Some(8))
            }
            kind => Some(Some(extension_len(kind, len))),
        }
    }

    /// Which packet this is a part of. `None` unless a fragment header is there, and is the last of
    /// the extensions: the headers behind it are in the first part only, and what the others carry
    /// cannot be told.
    pub fn part(&self) -> Option<Part> {
        let (mut kind, mut rest) = (self.header.next_header, self.extensions);
        while kind != FRAGMENT {
            let [next, len] = *rest.first_chunk()?;
            (kind, rest) = (next, rest.get(extension_len(kind, len)..)?);
        }
        let [_, _, _, flags, id @ ..] = *<&[u8; 8]>::try_from(rest).ok()?;
        Some(Part { identification: u32::from_be_bytes(id), last: flags & 1 == 0 })
    }
}

const HOP_BY_HOP: u8 = 0;
const ROUTING: u8 = 43;
const FRAGMENT: u8 = 44;
const AUTHENTICATION: u8 = 51;
const DESTINATION_OPTIONS: u8 = 60;
const MOBILITY: u8 = 135;

/// The length of an extension header, other than a fragment's, that says `len` of itself.
fn extension_len(kind: u8, len: u8) -> usize {
    match kind {
        AUTHENTICATION => (usize::from(len) + 2) * 4, // RFC 4302 §2.2
        _ => (usize::from(len) + 1) * 8,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;
    use proptest::prelude::*;

    fn packet(first: u8, behind: &[u8]) -> Vec<u8> {
        let header =
            Header::new(Ipv6Addr::LOCALHOST, Ipv6Addr::LOCALHOST, first, behind.len()).unwrap();
        [header.as_bytes(), behind].concat()
    }

    proptest! {
        #[test]
        fn parse_undoes_emit(
            source: [u8; 16], destination: [u8; 16], class: u8, payload: Vec<u8>, padding: Vec<u8>,
        ) {
            let mut header = Header::new(source.into(), destination.into(), 17, payload.len()).unwrap();
            header.version_class_flow |= 0xa_bcde;
            header.set_traffic_class(class);
            prop_assert_eq!((header.traffic_class(), header.version_class_flow.get() & 0xf_ffff), (class, 0xa_bcde));
            let bytes = [header.as_bytes(), &payload, &padding].concat();
            let fragment = Fragment::Whole;
            let whole = Packet { header: &header, extensions: &[], protocol: 17, fragment, payload: &payload };
            prop_assert_eq!(Packet::parse(&bytes), Some(whole));
        }
    }

    #[test]
    fn extensions_are_walked_to_the_transport_header() {
        // Hop-by-hop of 8 bytes, destination options of 16, an atomic fragment header, then UDP.
        let mut behind = Vec::new();
        behind.extend([60, 0, 0, 0, 0, 0, 0, 0]);
        behind.extend([44, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
        behind.extend([17, 0, 0, 0, 0, 0, 0, 9]);
        behind.extend(b"udp");
        let bytes = packet(0, &behind);
        let packet = Packet::parse(&bytes).unwrap();
        assert_eq!(
            (packet.protocol, packet.fragment, packet.payload),
            (17, Fragment::Whole, &b"udp"[..])
        );
        assert_eq!(packet.extensions.len(), 32);
    }

    #[test]
    fn a_later_fragment_has_no_transport_header() {
        // The first of its bytes says "hop-by-hop"; they are data.
        let bytes = packet(44, &[0, 0, 0x05, 0xa8, 0, 0, 0, 9, 1, 2, 3]);
        let packet = Packet::parse(&bytes).unwrap();
        assert_eq!((packet.fragment, packet.payload), (Fragment::Later, &[1, 2, 3][..]));
    }

    #[test]
    fn a_part_is_known_if_its_fragment_header_is_the_last() {
        let part = |first, behind: &[u8]| Packet::parse(&packet(first, behind)).unwrap().part();
        let fragment = [17, 0, 0, 1, 0, 0, 0, 9];
        let options = |next| [next, 0, 0, 0, 0, 0, 0, 7];
        let known = Some(Part { identification: 9, last: false });
        assert_eq!(part(44, &fragment), known);
        assert_eq!(part(60, &[options(44), fragment].concat()), known);
        assert_eq!(part(44, &[[60, 0, 0, 1, 0, 0, 0, 9], options(17)].concat()), None);
        assert_eq!(part(44, &[[44, 0, 0, 1, 0, 0, 0, 9], fragment].concat()), None);
        assert_eq!(part(60, &options(17)), None);
    }

    #[test]
    fn a_chain_without_end_is_malformed() {
        let link = [60, 0, 0, 0, 0, 0, 0, 0];
        let mut chain = link.repeat(MAX_EXTENSIONS - 1);
        chain.extend([17, 0, 0, 0, 0, 0, 0, 0]);
        assert!(Packet::parse(&packet(60, &chain)).is_some());
        assert!(Packet::parse(&packet(60, &link.repeat(MAX_EXTENSIONS + 1))).is_none());
    }

    #[test]
    fn what_is_cut_short_or_routed_on_is_none() {
        assert!(Packet::parse(&packet(17, b"data")[..43]).is_none());
        assert!(
            Packet::parse(&packet(0, &[17, 1, 0, 0, 0, 0, 0, 0])).is_none(),
            "16 bytes claimed"
        );
        assert!(Packet::parse(&packet(43, &[17, 0, 4, 1, 0, 0, 0, 0])).is_none(), "a segment left");
        assert!(Packet::parse(&packet(43, &[17, 0, 4, 0, 0, 0, 0, 0])).is_some(), "none left");
    }
}
