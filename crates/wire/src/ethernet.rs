//! Ethernet II and its VLAN tags (IEEE 802.3 §3.1.1, 802.1Q §9.6).

use alloc::vec::Vec;

use units::{Class, Mac};
use zerocopy::network_endian::U16;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// EtherTypes that we know (IEEE's registry).
pub mod ethertype {
    /// IPv4.
    pub const IPV4: u16 = 0x0800;
    /// ARP (RFC 826).
    pub const ARP: u16 = 0x0806;
    /// A whole Ethernet frame follows, as in GRE (RFC 7637 §3.2) and Geneve (RFC 8926 §3.4):
    /// transparent Ethernet bridging.
    pub const BRIDGED: u16 = 0x6558;
    /// What two who agree on it mean by it: the first one for experiments (IEEE 802, 9.2.4).
    pub const EXPERIMENTAL: u16 = 0x88b5;
    /// Reverse ARP (RFC 903).
    pub const RARP: u16 = 0x8035;
    /// A customer VLAN tag follows (802.1Q).
    pub const VLAN: u16 = 0x8100;
    /// IPv6.
    pub const IPV6: u16 = 0x86dd;
    /// MAC control, which pauses are (802.3 annex 31A).
    pub const MAC_CONTROL: u16 = 0x8808;
    /// A service VLAN tag follows (802.1ad).
    pub const SERVICE_VLAN: u16 = 0x88a8;
}

/// The 14 bytes that every frame begins with.
#[derive(
    Clone, Copy, Debug, Eq, PartialEq, FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned,
)]
#[repr(C)]
pub struct Header {
    /// To whom.
    pub destination: [u8; 6],
    /// From whom.
    pub source: [u8; 6],
    /// What follows, one of [`ethertype`]; up to 1500 it is an 802.3 length.
    pub ethertype: U16,
}

impl Header {
    /// The header's length in bytes.
    pub const LEN: usize = size_of::<Self>();

    /// A header from `source` to `destination` that announces `ethertype`.
    pub const fn new(destination: Mac, source: Mac, ethertype: u16) -> Self {
        Self { destination: destination.0, source: source.0, ethertype: U16::new(ethertype) }
    }

    /// The header and what follows it; `None` if `frame` is too short for one.
    pub fn parse(frame: &[u8]) -> Option<(&Self, &[u8])> {
        Self::ref_from_prefix(frame).ok()
    }
}

/// The 4 bytes that a VLAN adds between the source address and the frame's own EtherType.
#[derive(
    Clone, Copy, Debug, Eq, PartialEq, FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned,
)]
#[repr(C)]
pub struct TagHeader {
    /// Class, drop eligibility and VLAN: see [`Tag`].
    pub tci: U16,
    /// What follows the tag, one of [`ethertype`].
    pub ethertype: U16,
}

/// The length of a header with an 802.1Q tag, in bytes.
pub const TAGGED_LEN: usize = Header::LEN + size_of::<TagHeader>();

/// What a VLAN tag says.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Tag {
    /// The priority code point.
    pub class: Class,
    /// The VLAN's number, 12 bits; 0 names no VLAN: the tag carries a class alone.
    pub vlan: u16,
}

impl Tag {
    /// What `tci`, the tag control information, says; the drop eligible bit is ours to ignore
    /// (802.1Q §9.6).
    #[inline]
    pub const fn from_tci(tci: u16) -> Self {
        Self { class: Class::from_low_bits((tci >> 13) as u8), vlan: tci & 0x0fff }
    }

    /// The tag control information that says so.
    pub const fn tci(self) -> u16 {
        (self.class.pcp() as u16) << 13 | self.vlan & 0x0fff
    }
}

/// A frame with a tag. One that is too short for a header is as it was.
pub fn tagged(frame: &[u8], tag: Tag) -> Vec<u8> {
    let mut tagged = frame.to_vec();
    if frame.len() >= Header::LEN {
        let [kind, tci] = [ethertype::VLAN, tag.tci()].map(u16::to_be_bytes);
        tagged.splice(12..12, [kind, tci].concat());
    }
    tagged
}

/// What a frame's outermost tag says, and the frame without it. `None` if it is too short for one.
pub fn untagged(frame: &[u8]) -> Option<(Tag, Vec<u8>)> {
    let tci = u16::from_be_bytes(*frame.get(14..16)?.as_array()?);
    Some((Tag::from_tci(tci), [&frame[..12], &frame[16..]].concat()))
}

/// All that a switch needs of a frame.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Peek {
    /// The destination's address and the source's, as they lie in a frame: so they can be looked at
    /// in whole words.
    pub addresses: [u8; 12],
    /// The control information of the outermost tag, customer's or service's, without the drop
    /// eligible bit; or with that bit, [`UNTAGGED`](Self::UNTAGGED) or
    /// [`CONTROL`](Self::CONTROL). So all that a switch tells frames apart by is at hand.
    pub tci: u16,
}

impl Peek {
    /// In place of a tag's control information: the frame has none.
    pub const UNTAGGED: u16 = 1 << 12;

    /// The same of a MAC control frame, with or without a tag: no switch forwards it (802.3 §31,
    /// 802.1Q §6.7).
    pub const CONTROL: u16 = 1 << 12 | 1;

    /// Of a frame with these addresses and this tag.
    #[inline]
    pub const fn new(
        Mac([a, b, c, d, e, f]): Mac,
        Mac([g, h, i, j, k, l]): Mac,
        tag: Option<Tag>,
    ) -> Self {
        Self { addresses: [a, b, c, d, e, f, g, h, i, j, k, l], tci: Self::UNTAGGED }.with_tag(tag)
    }

    /// The same of a frame with this tag.
    #[inline]
    pub const fn with_tag(self, tag: Option<Tag>) -> Self {
        let tci = match tag {
            Some(tag) => tag.tci(),
            None => Self::UNTAGGED,
        };
        Self { tci, ..self }
    }

    /// The outermost tag, customer's or service's.
    #[inline]
    pub const fn tag(&self) -> Option<Tag> {
        Self::tag_of(self.tci)
    }

    /// The tag with this control information, if it is one's.
    #[inline]
    pub const fn tag_of(tci: u16) -> Option<Tag> {
        if tci & Self::UNTAGGED == 0 { Some(Tag::from_tci(tci)) } else { None }
    }

    /// To whom.
    #[inline]
    pub const fn destination(&self) -> Mac {
        let [a, b, c, d, e, f, ..] = self.addresses;
        Mac([a, b, c, d, e, f])
    }

    /// From whom.
    #[inline]
    pub const fn source(&self) -> Mac {
        let [.., a, b, c, d, e, f] = self.addresses;
        Mac([a, b, c, d, e, f])
    }
}

/// Reads addresses and outermost tag; `None` if they, and the EtherTypes behind both, do not all
/// lie in `frame`.
///
/// It runs for every frame that the switch sees, so it stays a handful of instructions without a
/// loop or a call.
#[inline]
pub fn peek(frame: &[u8]) -> Option<Peek> {
    let [addresses @ .., t0, t1] = *frame.first_chunk::<{ Header::LEN }>()?;
    let outer = u16::from_be_bytes([t0, t1]);
    let tci = if is_tag(outer) {
        let [c0, c1, t0, t1] = *frame[Header::LEN..].first_chunk()?;
        // Who takes the tag off must not make it MAC control.
        match u16::from_be_bytes([t0, t1]) {
            ethertype::MAC_CONTROL => Peek::CONTROL,
            _ => u16::from_be_bytes([c0, c1]) & !Peek::UNTAGGED,
        }
    } else if outer == ethertype::MAC_CONTROL {
        Peek::CONTROL
    } else {
        Peek::UNTAGGED
    };
    Some(Peek { addresses, tci })
}

/// The EtherType of what the frame carries and where that begins, behind at most two tags
/// (802.1ad). Behind more, it is a tag's.
#[inline]
pub fn payload(frame: &[u8]) -> Option<(u16, usize)> {
    let (header, mut rest) = Header::parse(frame)?;
    let mut ethertype = header.ethertype.get();
    for _ in 0..2 {
        if !is_tag(ethertype) {
            break;
        }
        let (tag, behind) = TagHeader::ref_from_prefix(rest).ok()?;
        (ethertype, rest) = (tag.ethertype.get(), behind);
    }
    Some((ethertype, frame.len() - rest.len()))
}

#[inline]
const fn is_tag(ethertype: u16) -> bool {
    matches!(ethertype, ethertype::VLAN | ethertype::SERVICE_VLAN)
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;
    use proptest::prelude::*;

    fn frame(tags: &[(u16, Tag)], ethertype: u16) -> Vec<u8> {
        let outer = tags.first().map_or(ethertype, |(tpid, _)| *tpid);
        let mut frame = Header::new(Mac::BROADCAST, Mac::local(7), outer).as_bytes().to_vec();
        for (i, (_, tag)) in tags.iter().enumerate() {
            let next = tags.get(i + 1).map_or(ethertype, |(tpid, _)| *tpid);
            let tag = TagHeader { tci: U16::new(tag.tci()), ethertype: U16::new(next) };
            frame.extend_from_slice(tag.as_bytes());
        }
        frame
    }

    const TAG: Tag = Tag { class: Class::from_low_bits(5), vlan: 0xabc };

    #[test]
    fn a_tag_gives_the_class() {
        let plain = peek(&frame(&[], ethertype::IPV4)).unwrap();
        assert_eq!(plain, Peek::new(Mac::BROADCAST, Mac::local(7), None));
        let tagged = peek(&frame(&[(ethertype::VLAN, TAG)], ethertype::IPV6)).unwrap();
        assert_eq!(tagged.tag(), Some(TAG));
    }

    #[test]
    fn mac_control_is_told_apart() {
        let control = peek(&frame(&[], ethertype::MAC_CONTROL)).unwrap();
        assert_eq!((control.tci, control.tag()), (Peek::CONTROL, None));
        let behind_a_tag = peek(&frame(&[(ethertype::VLAN, TAG)], ethertype::MAC_CONTROL)).unwrap();
        assert_eq!(behind_a_tag.tci, Peek::CONTROL);
        let eligible = Tag { class: Class::from_low_bits(0), vlan: 1 };
        let mut tagged = frame(&[(ethertype::VLAN, eligible)], ethertype::IPV4);
        tagged[14] |= 0x10;
        assert_eq!(peek(&tagged).unwrap().tag(), Some(eligible), "it may be dropped first");
    }

    #[test]
    fn two_tags_are_skipped_and_a_third_is_payload() {
        let [service, customer] = [(ethertype::SERVICE_VLAN, TAG), (ethertype::VLAN, TAG)];
        let two = frame(&[service, customer], ethertype::IPV6);
        assert_eq!(payload(&two), Some((ethertype::IPV6, 22)));

        let three = frame(&[service, customer, customer], ethertype::IPV6);
        assert_eq!(payload(&three), Some((ethertype::VLAN, 22)));
    }

    #[test]
    fn a_frame_may_end_with_its_header_but_not_inside_it() {
        let short = frame(&[], ethertype::IPV4);
        assert!(peek(&short).is_some());
        assert!(peek(&short[..13]).is_none());
        let tagged = frame(&[(ethertype::VLAN, TAG)], ethertype::IPV4);
        assert!(peek(&tagged[..17]).is_none());
        assert!(payload(&tagged[..17]).is_none());
    }

    proptest! {
        #[test]
        fn parse_undoes_emit(destination: [u8; 6], source: [u8; 6], ethertype: u16, rest: Vec<u8>) {
            let header = Header::new(Mac(destination), Mac(source), ethertype);
            let bytes = [header.as_bytes(), &rest].concat();
            prop_assert_eq!(Header::parse(&bytes), Some((&header, &rest[..])));
        }

        #[test]
        fn a_tag_is_its_control_information(pcp in 0u8..8, vlan in 0u16..4096) {
            let tag = Tag { class: Class::from_low_bits(pcp), vlan };
            prop_assert_eq!(Tag::from_tci(tag.tci()), tag);
        }

        #[test]
        fn peek_agrees_with_the_header(bytes in proptest::collection::vec(any::<u8>(), 0..40)) {
            if let Some(peek) = peek(&bytes) {
                let (header, _) = Header::parse(&bytes).unwrap();
                prop_assert_eq!((peek.destination().0, peek.source().0), (header.destination, header.source));
                let may_have_one = peek.tci != Peek::CONTROL;
                prop_assert_eq!(peek.tag().is_some(), may_have_one && is_tag(header.ethertype.get()));
            }
        }
    }
}
