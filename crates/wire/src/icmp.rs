//! The two answers that tell a sender that its packet is too long for what lies ahead: path MTU
//! discovery.
//!
//! ```text
//! │ ethernet, tags │ ipv4 │ 3, 4, sum, 0, MTU │ the packet, up to 576 bytes in all │     RFC 792, RFC 1191 §4
//! │ ethernet, tags │ ipv6 │ 2, 0, sum, MTU    │ the packet, up to 1280 in all      │     RFC 4443 §3.2
//! ```
//!
//! How often answers may be sent is for the caller to limit (RFC 1812 §4.3.2.8, RFC 4443 §2.4 (f)).

use core::net::{Ipv4Addr, Ipv6Addr};

use units::Mac;
use zerocopy::network_endian::{U16, U32};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::checksum::{Sum, pseudo_header};
use crate::ethernet;
use crate::ip::{Fragment, Layout, Version, protocol};
use crate::{ipv4, ipv6};

/// No answer is a longer packet than this, in bytes: every host takes one whole (RFC 1812
/// §4.3.2.3).
pub const LONGEST_V4: usize = 576;

/// No answer is a longer packet than this, in bytes: every link takes one whole (RFC 4443 §2.4
/// (c)).
pub const LONGEST_V6: usize = 1280;

/// No answer is a longer frame than this, in bytes, behind two VLAN tags.
pub const LONGEST_FRAME: usize =
    ethernet::Header::LEN + 2 * size_of::<ethernet::TagHeader>() + LONGEST_V6;

/// A packet of fewer bytes passes every link of IPv4 (RFC 791 §3.2), so no MTU is less.
pub const LEAST_MTU_V4: u16 = 68;

/// A packet of fewer bytes passes every link of IPv6 (RFC 8200 §5), so no MTU is less: hosts ignore
/// one that is (RFC 8201 §4).
pub const LEAST_MTU_V6: u32 = 1280;

/// "Fragmentation needed and DF set" (RFC 792, RFC 1191 §4).
#[derive(
    Clone, Copy, Debug, Eq, PartialEq, FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned,
)]
#[repr(C)]
pub struct FragmentationNeeded {
    /// 3, destination unreachable.
    kind: u8,
    /// 4, fragmentation needed and DF set.
    code: u8,
    checksum: U16,
    unused: U16,
    /// What passes the next hop, in bytes of IP packet.
    pub mtu: U16,
}

impl FragmentationNeeded {
    /// The header and the quoted packet that `bytes`, a packet's payload, are; `None` if they are
    /// something else.
    pub fn parse(bytes: &[u8]) -> Option<(&Self, &[u8])> {
        let (header, quoted) = Self::ref_from_prefix(bytes).ok()?;
        ((header.kind, header.code) == (3, 4)).then_some((header, quoted))
    }
}

/// "Packet too big" (RFC 4443 §3.2).
#[derive(
    Clone, Copy, Debug, Eq, PartialEq, FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned,
)]
#[repr(C)]
pub struct PacketTooBig {
    /// 2, packet too big.
    kind: u8,
    /// 0 from every sender, and ignored.
    code: u8,
    checksum: U16,
    /// What passes the next hop, in bytes of IP packet.
    pub mtu: U32,
}

impl PacketTooBig {
    /// The header and the quoted packet that `bytes`, a packet's payload, are; `None` if they are
    /// something else.
    pub fn parse(bytes: &[u8]) -> Option<(&Self, &[u8])> {
        let (header, quoted) = Self::ref_from_prefix(bytes).ok()?;
        (header.kind == 2).then_some((header, quoted))
    }
}

/// Writes to the beginning of `buffer` the frame by which the router `from` tells the sender of
/// `frame` that no IPv4 packet of more than `mtu` bytes gets through, and returns it.
///
/// `None` where there is nothing to tell: the packet is not IPv4, may be fragmented, or is one that
/// no ICMP error may be about (RFC 1122 §3.2.2): an ICMP error, a later fragment, to a group or
/// everyone, or not from one machine. `None` too if `mtu` is less than [`LEAST_MTU_V4`], or
/// `buffer` has no room; [`LONGEST_FRAME`] suffices.
///
/// An answer about a broadcast to a network that the caller knows by its prefix is the caller's to
/// withhold.
pub fn fragmentation_needed<'b>(
    frame: &[u8],
    mtu: u16,
    from: (Mac, Ipv4Addr),
    buffer: &'b mut [u8],
) -> Option<&'b mut [u8]> {
    let layout = Layout::of(frame).filter(|layout| layout.version == Version::V4)?;
    let packet = frame.get(layout.network..layout.end)?;
    let (ip, _) = ipv4::Header::ref_from_prefix(packet).ok()?;
    let [source, destination] = [ip.source, ip.destination].map(Ipv4Addr::from);
    let is_group = destination.is_multicast() || destination.is_broadcast() || is_group(frame);
    if !ip.dont_fragment()
        || mtu < LEAST_MTU_V4
        || is_group
        || !is_host(source)
        || !may_be_about(frame, &layout)
    {
        return None;
    }
    const HEADERS: usize = ipv4::Header::LEN + size_of::<FragmentationNeeded>();
    let quoted = &packet[..packet.len().min(LONGEST_V4 - HEADERS)];
    let mut header = FragmentationNeeded {
        kind: 3,
        code: 4,
        checksum: U16::ZERO,
        unused: U16::ZERO,
        mtu: U16::new(mtu),
    };
    header.checksum.set((Sum::of(header.as_bytes()) + Sum::of(quoted)).checksum());
    let len = size_of_val(&header) + quoted.len();
    let answer = ipv4::Header::new(from.1, source, protocol::ICMP, len)?;
    // RFC 1812 §4.3.2.5: of precedence 6, internetwork control.
    let answer = answer.with_traffic_class(0xc0);
    write(frame, &layout, from.0, [answer.as_bytes(), header.as_bytes(), quoted], buffer)
}

/// Writes to the beginning of `buffer` the frame by which the router `from` tells the sender of
/// `frame` that no IPv6 packet of more than `mtu` bytes gets through, and returns it.
///
/// `None` where there is nothing to tell: the packet is not IPv6, or is one that no ICMPv6 error
/// may be about (RFC 4443 §2.4 (e)): an ICMPv6 error, a redirect, or not from one machine; a packet
/// to a group may be too big (the exception in (e.3) to (e.5)). Neither is there of a later
/// fragment: its first is as long. `None` too if `mtu` is less than [`LEAST_MTU_V6`], or `buffer`
/// has no room; [`LONGEST_FRAME`] suffices.
pub fn packet_too_big<'b>(
    frame: &[u8],
    mtu: u32,
    from: (Mac, Ipv6Addr),
    buffer: &'b mut [u8],
) -> Option<&'b mut [u8]> {
    let layout = Layout::of(frame).filter(|layout| layout.version == Version::V6)?;
    let packet = frame.get(layout.network..layout.end)?;
    let (ip, _) = ipv6::Header::ref_from_prefix(packet).ok()?;
    let source = Ipv6Addr::from(ip.source);
    let is_one = !source.is_unspecified() && !source.is_loopback() && !source.is_multicast();
    if mtu < LEAST_MTU_V6 || !is_one || !may_be_about(frame, &layout) {
        return None;
    }
    const HEADERS: usize = ipv6::Header::LEN + size_of::<PacketTooBig>();
    let quoted = &packet[..packet.len().min(LONGEST_V6 - HEADERS)];
    let mut header = PacketTooBig { kind: 2, code: 0, checksum: U16::ZERO, mtu: U32::new(mtu) };
    let len = size_of_val(&header) + quoted.len();
    let answer = ipv6::Header::new(from.1, source, protocol::ICMPV6, len)?;
    let addresses = [answer.source, answer.destination];
    let sum =
        pseudo_header(addresses.as_flattened(), protocol::ICMPV6, len) + Sum::of(header.as_bytes());
    header.checksum.set((sum + Sum::of(quoted)).checksum());
    write(frame, &layout, from.0, [answer.as_bytes(), header.as_bytes(), quoted], buffer)
}

/// Whether a frame goes to more than one machine.
fn is_group(frame: &[u8]) -> bool {
    ethernet::peek(frame).is_none_or(|peek| peek.destination().is_multicast())
}

/// Whether an address is one machine's, which others may answer to (RFC 1122 §3.2.1.3).
const fn is_host(address: Ipv4Addr) -> bool {
    // 0.0.0.0/8 is "this network"; from 224.0.0.0 there are groups, 240.0.0.0/4, and everyone.
    !address.is_loopback() && matches!(address.octets()[0], 1..224)
}

/// Whether an error may be about a packet of any version: it is neither an error nor a redirect
/// itself, nor a later fragment.
fn may_be_about(frame: &[u8], layout: &Layout) -> bool {
    let kind = frame[..layout.end].get(layout.transport);
    let is_error = match layout.protocol {
        // RFC 1122 §3.2.2: destination unreachable, source quench, redirect, time exceeded,
        // parameter problem.
        protocol::ICMP => kind.is_none_or(|kind| matches!(kind, 3 | 4 | 5 | 11 | 12)),
        // RFC 4443 §2.1, and a redirect (RFC 4861 §4.5).
        protocol::ICMPV6 => kind.is_none_or(|kind| matches!(kind, ..128 | 137)),
        _ => false,
    };
    !is_error && layout.fragment != Fragment::Later
}

/// Writes an answer from `source` to who sent `frame`, in the same VLANs.
fn write<'b>(
    frame: &[u8],
    layout: &Layout,
    source: Mac,
    parts: [&[u8]; 3],
    buffer: &'b mut [u8],
) -> Option<&'b mut [u8]> {
    let (header, tags) = ethernet::Header::parse(&frame[..layout.network])?;
    let answer = ethernet::Header::new(Mac(header.source), source, header.ethertype.get());
    if Mac(header.source).is_multicast() {
        return None;
    }
    let [ip, icmp, quoted] = parts;
    let parts = [answer.as_bytes(), tags, ip, icmp, quoted];
    let (answer, _) = buffer.split_at_mut_checked(parts.iter().map(|part| part.len()).sum())?;
    let mut rest = &mut *answer;
    for part in parts {
        let (here, behind) = rest.split_at_mut(part.len());
        here.copy_from_slice(part);
        rest = behind;
    }
    Some(answer)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ethernet::{Tag, TagHeader, ethertype};
    use alloc::vec;
    use alloc::vec::Vec;
    use proptest::prelude::*;
    use units::Class;

    const SENDER: Mac = Mac::local(1);
    const ROUTER: Mac = Mac::local(9);
    const V4: [Ipv4Addr; 3] =
        [Ipv4Addr::new(10, 0, 0, 1), Ipv4Addr::new(10, 0, 9, 1), Ipv4Addr::new(10, 0, 0, 254)];
    const V6: [Ipv6Addr; 3] = [
        Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, 1),
        Ipv6Addr::new(0xfd00, 0, 0, 9, 0, 0, 0, 1),
        Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, 9),
    ];

    fn v4(destination: Ipv4Addr, protocol: u8, payload: &[u8]) -> Vec<u8> {
        let ip = ipv4::Header::new(V4[0], destination, protocol, payload.len()).unwrap();
        let ethernet = ethernet::Header::new(ROUTER, SENDER, ethertype::IPV4);
        [ethernet.as_bytes(), ip.as_bytes(), payload].concat()
    }

    fn v6(destination: Ipv6Addr, first: u8, payload: &[u8]) -> Vec<u8> {
        let ip = ipv6::Header::new(V6[0], destination, first, payload.len()).unwrap();
        let ethernet = ethernet::Header::new(ROUTER, SENDER, ethertype::IPV6);
        [ethernet.as_bytes(), ip.as_bytes(), payload].concat()
    }

    fn answer(frame: &[u8]) -> Option<Vec<u8>> {
        let mut buffer = [0; LONGEST_FRAME];
        let v4 = fragmentation_needed(frame, 1400, (ROUTER, V4[2]), &mut buffer)
            .map(|answer| answer.to_vec());
        v4.or_else(|| Some(packet_too_big(frame, 1400, (ROUTER, V6[2]), &mut buffer)?.to_vec()))
    }

    proptest! {
        #[test]
        fn an_answer_quotes_as_much_as_it_may(len in 0usize..3000, padding in 0usize..20, is_v4: bool) {
            let payload: Vec<u8> = (0..len).map(|i| i as u8).collect();
            let mut frame =
                if is_v4 { v4(V4[1], protocol::UDP, &payload) } else { v6(V6[1], protocol::UDP, &payload) };
            let packet = frame[14..].to_vec();
            frame.extend(vec![0xff; padding]);
            let answer = answer(&frame).unwrap();
            let layout = Layout::of(&answer).unwrap();
            prop_assert_eq!((layout.end, layout.fragment), (answer.len(), Fragment::Whole));
            let (ethernet, _) = ethernet::Header::parse(&answer).unwrap();
            prop_assert_eq!((ethernet.destination, ethernet.source), (SENDER.0, ROUTER.0));
            let icmp = &answer[layout.transport..];
            let (quoted, longest) = if is_v4 {
                prop_assert_eq!(layout.addresses(&answer), (V4[2].to_ipv6_mapped(), V4[0].to_ipv6_mapped()));
                prop_assert_eq!(layout.protocol, protocol::ICMP);
                prop_assert_eq!(Sum::of(icmp).checksum(), 0);
                let (header, quoted) = FragmentationNeeded::parse(icmp).unwrap();
                prop_assert_eq!(header.mtu.get(), 1400);
                (quoted, LONGEST_V4)
            } else {
                prop_assert_eq!(layout.addresses(&answer), (V6[2], V6[0]));
                prop_assert_eq!(layout.protocol, protocol::ICMPV6);
                prop_assert_eq!((layout.pseudo_header(&answer, icmp.len()) + Sum::of(icmp)).checksum(), 0);
                let (header, quoted) = PacketTooBig::parse(icmp).unwrap();
                prop_assert_eq!(header.mtu.get(), 1400);
                (quoted, LONGEST_V6)
            };
            prop_assert!(packet.starts_with(quoted));
            prop_assert!(quoted.len() == packet.len() || answer.len() - 14 == longest);
        }
    }

    #[test]
    fn an_answer_goes_back_through_the_same_vlans() {
        let tag = Tag { class: Class::from_low_bits(3), vlan: 7 };
        for (frame, ethertype) in
            [(v4(V4[1], 17, &[0; 9]), ethertype::IPV4), (v6(V6[1], 17, &[0; 9]), ethertype::IPV6)]
        {
            let header = ethernet::Header::new(ROUTER, SENDER, ethertype::VLAN);
            let tag = TagHeader { tci: U16::new(tag.tci()), ethertype: U16::new(ethertype) };
            let tagged = [header.as_bytes(), tag.as_bytes(), &frame[14..]].concat();
            let (plain, tagged) = (answer(&frame).unwrap(), answer(&tagged).unwrap());
            assert_eq!(tagged[12..14], ethertype::VLAN.to_be_bytes());
            assert_eq!((&tagged[14..18], &tagged[18..]), (tag.as_bytes(), &plain[14..]));
        }
    }

    #[test]
    fn there_is_no_answer_about_errors_only_about_questions() {
        for kind in 0..=u8::MAX {
            let about_v4 = answer(&v4(V4[1], protocol::ICMP, &[kind, 0, 0, 0])).is_some();
            assert_eq!(about_v4, ![3, 4, 5, 11, 12].contains(&kind), "{kind}");
            let about_v6 = answer(&v6(V6[1], protocol::ICMPV6, &[kind, 0, 0, 0])).is_some();
            assert_eq!(about_v6, kind >= 128 && kind != 137, "{kind}");
        }
        // Nobody knows what these are.
        assert_eq!(answer(&v4(V4[1], protocol::ICMP, &[])), None);
        assert_eq!(answer(&v6(V6[1], protocol::ICMPV6, &[])), None);
    }

    #[test]
    fn there_is_no_answer_about_ipv4_to_many_or_from_nobody() {
        let good = v4(V4[1], protocol::UDP, &[0; 8]);
        assert!(answer(&good).is_some());
        for many in [Ipv4Addr::BROADCAST, Ipv4Addr::new(224, 0, 0, 1)] {
            assert_eq!(answer(&v4(many, protocol::UDP, &[0; 8])), None);
        }
        for (at, byte, why) in [
            (0, 0xff, "an Ethernet group"),
            (6, 0xff, "from an Ethernet group"),
            (26, 0, "from this network"),
            (26, 127, "from here"),
            (26, 224, "from a group"),
            (26, 255, "from a reserved address"),
            (20, 0, "may be fragmented"),
            (21, 1, "a later fragment"),
        ] {
            let mut bad = good.clone();
            bad[at] = byte;
            assert_eq!(answer(&bad), None, "{why}");
        }
    }

    #[test]
    fn there_is_no_answer_about_ipv6_from_nobody_but_there_is_to_groups() {
        let group = v6(Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 1), protocol::UDP, &[0; 8]);
        assert!(answer(&group).is_some());
        for nobody in
            [Ipv6Addr::UNSPECIFIED, Ipv6Addr::LOCALHOST, Ipv6Addr::from_bits(0xff02 << 112)]
        {
            let mut bad = group.clone();
            bad[22..38].copy_from_slice(&nobody.octets());
            assert_eq!(answer(&bad), None, "{nobody}");
        }
        let fragment = |offset| v6(V6[1], 44, &[17, 0, offset, 1, 0, 0, 0, 7, 1, 2, 3]);
        assert!(answer(&fragment(0)).is_some());
        assert_eq!(answer(&fragment(1)), None);
    }

    #[test]
    fn an_mtu_that_every_link_has_is_not_told() {
        let mut buffer = [0; LONGEST_FRAME];
        let frame = v4(V4[1], protocol::UDP, &[]);
        assert!(fragmentation_needed(&frame, 67, (ROUTER, V4[2]), &mut buffer).is_none());
        assert!(fragmentation_needed(&frame, 68, (ROUTER, V4[2]), &mut buffer).is_some());
        assert!(
            fragmentation_needed(&frame, 68, (ROUTER, V4[2]), &mut buffer[..61]).is_none(),
            "no room"
        );
        let frame = v6(V6[1], protocol::UDP, &[]);
        assert!(packet_too_big(&frame, 1279, (ROUTER, V6[2]), &mut buffer).is_none());
        assert!(packet_too_big(&frame, 1280, (ROUTER, V6[2]), &mut buffer).is_some());
    }
}
