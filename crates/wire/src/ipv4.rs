//! IPv4 (RFC 791).

use core::net::Ipv4Addr;

use zerocopy::network_endian::U16;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::checksum::Sum;
use crate::ip::{Fragment, Part};

/// The fixed part of the header: 20 bytes.
#[derive(
    Clone, Copy, Debug, Eq, PartialEq, FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned,
)]
#[repr(C)]
pub struct Header {
    version_and_words: u8,
    /// Differentiated services code point and ECN (RFC 2474, RFC 3168).
    pub traffic_class: u8,
    /// Header, options and payload, in bytes.
    pub total_len: U16,
    /// Tells fragments of one packet from another's.
    pub id: U16,
    /// Don't fragment, more fragments, and the offset in units of 8 bytes.
    pub flags_and_offset: U16,
    /// Hops left.
    pub ttl: u8,
    /// What follows, one of [`ip::protocol`](crate::ip::protocol).
    pub protocol: u8,
    /// Over the header and its options.
    pub checksum: U16,
    /// From whom.
    pub source: [u8; 4],
    /// To whom.
    pub destination: [u8; 4],
}

impl Header {
    /// The fixed part's length in bytes.
    pub const LEN: usize = size_of::<Self>();

    /// Where the checksum lies in the header.
    pub const CHECKSUM_OFFSET: usize = 10;

    const DONT_FRAGMENT: u16 = 0x4000;
    const MORE_FRAGMENTS: u16 = 0x2000;

    /// The header, checksum and all, of an unfragmented packet without options, whose payload has
    /// `payload_len` bytes; `None` if the packet would be longer than 65,535 bytes.
    pub fn new(
        source: Ipv4Addr,
        destination: Ipv4Addr,
        protocol: u8,
        payload_len: usize,
    ) -> Option<Self> {
        let total_len = u16::try_from(payload_len.checked_add(Self::LEN)?).ok()?;
        let mut header = Self {
            version_and_words: 0x45,
            traffic_class: 0,
            total_len: U16::new(total_len),
            id: U16::ZERO,
            flags_and_offset: U16::new(Self::DONT_FRAGMENT),
            ttl: 64,
            protocol,
            checksum: U16::ZERO,
            source: source.octets(),
            destination: destination.octets(),
        };
        header.checksum = U16::new(Sum::of(header.as_bytes()).checksum());
        Some(header)
    }

    /// The same header of a packet that routers may fragment, checksum and all.
    pub fn may_fragment(mut self) -> Self {
        self.flags_and_offset = U16::new(self.flags_and_offset.get() & !Self::DONT_FRAGMENT);
        self.checksum = U16::ZERO;
        self.checksum = U16::new(Sum::of(self.as_bytes()).checksum());
        self
    }

    /// The same header of another traffic class, checksum and all.
    pub fn with_traffic_class(mut self, traffic_class: u8) -> Self {
        self.set_traffic_class(traffic_class);
        self
    }

    /// Changes the traffic class, and the checksum by as much (RFC 1624 §3, equation 3): one that
    /// was wrong stays wrong.
    pub fn set_traffic_class(&mut self, traffic_class: u8) {
        let word = |class| u16::from_be_bytes([self.version_and_words, class]);
        let sum = Sum::word(!self.checksum.get()) + Sum::word(!word(self.traffic_class));
        self.checksum = U16::new((sum + Sum::word(word(traffic_class))).checksum());
        self.traffic_class = traffic_class;
    }

    /// Whether no router may cut the packet into fragments.
    pub const fn dont_fragment(&self) -> bool {
        self.flags_and_offset.get() & Self::DONT_FRAGMENT != 0
    }

    /// The length of header and options in bytes, as the header claims.
    #[expect(clippy::len_without_is_empty, reason = "a header is never empty")]
    pub const fn len(&self) -> usize {
        (self.version_and_words & 0x0f) as usize * 4
    }

    /// Whether this is a fragment.
    pub const fn fragment(&self) -> Fragment {
        let bits = self.flags_and_offset.get();
        Fragment::new(bits & 0x1fff, bits & Self::MORE_FRAGMENTS != 0)
    }

    /// Where the payload begins in that of the packet that this is a fragment of, in bytes.
    pub const fn offset(&self) -> u16 {
        (self.flags_and_offset.get() & 0x1fff) * 8
    }

    /// Moves the payload's place behind by so many bytes, a multiple of 8; what is behind it is
    /// elsewhere if there is `more`, and stays so. The checksum is left alone.
    pub(crate) fn advance(&mut self, bytes: u16, more: bool) {
        let bits = self.flags_and_offset.get() + bytes / 8;
        self.flags_and_offset = U16::new(bits | if more { Self::MORE_FRAGMENTS } else { 0 });
    }

    /// Which packet this is a part of, if it is a fragment.
    pub fn part(&self) -> Part {
        let last = self.flags_and_offset.get() & Self::MORE_FRAGMENTS == 0;
        Part { identification: self.id.get().into(), last }
    }
}

/// A packet whose lengths lie inside its bytes.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Packet<'a> {
    /// The fixed header.
    pub header: &'a Header,
    /// Options, a multiple of 4 bytes.
    pub options: &'a [u8],
    /// What the packet carries, without the frame's padding.
    pub payload: &'a [u8],
}

impl<'a> Packet<'a> {
    /// The packet at the beginning of `bytes`; `None` if it is not IPv4, or cut short, or
    /// contradicts itself.
    #[inline]
    pub fn parse(bytes: &'a [u8]) -> Option<Self> {
        Self::parse_head(bytes, bytes.len())
    }

    /// As [`parse`](Self::parse), where of `len` bytes only the first are at hand; so the payload
    /// may be cut short.
    #[inline]
    pub(crate) fn parse_head(bytes: &'a [u8], len: usize) -> Option<Self> {
        let (header, _) = Header::ref_from_prefix(bytes).ok()?;
        let total_len = usize::from(header.total_len.get());
        if total_len > len {
            return None;
        }
        let packet = bytes.get(..total_len).unwrap_or(bytes);
        let options = packet.get(Header::LEN..header.len())?;
        let payload = packet.get(header.len()..)?;
        (header.version_and_words >> 4 == 4).then_some(Self { header, options, payload })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;
    use proptest::prelude::*;

    fn sample(payload: &[u8]) -> Vec<u8> {
        let header =
            Header::new(Ipv4Addr::LOCALHOST, Ipv4Addr::BROADCAST, 17, payload.len()).unwrap();
        [header.as_bytes(), payload].concat()
    }

    proptest! {
        #[test]
        fn parse_undoes_emit(
            source: [u8; 4], destination: [u8; 4], protocol: u8, class: u8, payload: Vec<u8>, padding: Vec<u8>,
        ) {
            let header = Header::new(source.into(), destination.into(), protocol, payload.len()).unwrap();
            let header = header.with_traffic_class(class);
            prop_assert_eq!(header.traffic_class, class);
            prop_assert_eq!(Sum::of(header.as_bytes()).checksum(), 0);
            let bytes = [header.as_bytes(), &payload, &padding].concat();
            let packet = Packet { header: &header, options: &[], payload: &payload };
            prop_assert_eq!(Packet::parse(&bytes), Some(packet));
        }
    }

    #[test]
    fn a_wrong_checksum_stays_wrong_by_as_much() {
        let right = Header::new(Ipv4Addr::LOCALHOST, Ipv4Addr::LOCALHOST, 17, 8).unwrap();
        let mut wrong = right;
        wrong.checksum -= 7;
        let [right, wrong] =
            [right, wrong].map(|header| header.with_traffic_class(0xb8).checksum.get());
        assert_eq!(right - wrong, 7);
    }

    #[test]
    fn options_are_not_payload() {
        let mut bytes = sample(b"\x01\x01\x01\x00data");
        bytes[0] = 0x46;
        let packet = Packet::parse(&bytes).unwrap();
        assert_eq!((packet.options, packet.payload), (&b"\x01\x01\x01\x00"[..], &b"data"[..]));
    }

    #[test]
    fn a_packet_that_contradicts_itself_is_none() {
        let good = sample(b"data");
        assert!(Packet::parse(&good).is_some());
        assert!(Packet::parse(&good[..23]).is_none(), "cut short");
        for (at, byte, why) in [
            (0, 0x65, "version 6"),
            (0, 0x44, "16 bytes of header"),
            (0, 0x4f, "60"),
            (3, 19, "total"),
        ] {
            let mut bad = good.clone();
            bad[at] = byte;
            assert!(Packet::parse(&bad).is_none(), "{why}");
        }
    }

    #[test]
    fn fragments_are_told_apart() {
        let mut header = Header::new(Ipv4Addr::LOCALHOST, Ipv4Addr::LOCALHOST, 17, 8).unwrap();
        assert_eq!(header.fragment(), Fragment::Whole);
        header.flags_and_offset = U16::new(0x2000);
        assert_eq!(header.fragment(), Fragment::First);
        header.flags_and_offset = U16::new(0x2001);
        assert_eq!(header.fragment(), Fragment::Later);
        header.flags_and_offset = U16::new(0x0001);
        assert_eq!(header.fragment(), Fragment::Later);
    }
}
