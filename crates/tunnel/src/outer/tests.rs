use alloc::vec;
use alloc::vec::Vec;

use proptest::prelude::*;
use units::{Class, Mac};
use wire::checksum::{Sum, pseudo_header};
use wire::ecn::Ecn;
use wire::ethernet::{self, ethertype, peek};
use wire::geneve::{Draft, TunnelOption};
use wire::ip::protocol;
use wire::{Layout, Offload, PartialChecksum, flow, udp};
use zerocopy::IntoBytes;

use super::*;
use crate::message::{Message, OPTION_CLASS};

const V4: Vteps =
    Vteps::V4 { local: Ipv4Addr::new(192, 0, 2, 1), remote: Ipv4Addr::new(192, 0, 2, 2) };
const V6: Vteps = Vteps::V6 {
    local: Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 1),
    remote: Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 2),
};

fn tunnel(encapsulation: Encapsulation, vteps: Vteps) -> Tunnel {
    Tunnel {
        encapsulation,
        vteps,
        vni: Vni::new(0x12_3456).unwrap(),
        source: Mac::local(1),
        destination: Mac::local(2),
        vlan: None,
        ttl: 64,
        checksum: Checksum::usual(vteps.version()),
        underlay_mtu: 1600,
    }
}

fn all() -> impl Iterator<Item = Tunnel> {
    Encapsulation::ALL
        .into_iter()
        .flat_map(|encapsulation| [V4, V6].map(|vteps| tunnel(encapsulation, vteps)))
}

/// A frame with a packet of this traffic class.
fn frame(traffic_class: u8, payload: &[u8]) -> Vec<u8> {
    let ip =
        ipv4::Header::new(Ipv4Addr::LOCALHOST, Ipv4Addr::LOCALHOST, protocol::ICMP, payload.len());
    let ip = ip.unwrap().with_traffic_class(traffic_class);
    let ethernet = ethernet::Header::new(Mac::local(3), Mac::local(4), ethertype::IPV4);
    [ethernet.as_bytes(), ip.as_bytes(), payload].concat()
}

fn inner(frame: &[u8]) -> Inner<'static> {
    let traffic_class =
        Layout::of(frame).and_then(|layout| layout.traffic_class(frame)).unwrap_or(0);
    let flow = flow::hash(frame, frame.len());
    Inner {
        len: frame.len(),
        flow,
        traffic_class,
        class: Class::from_low_bits(5),
        geneve: None,
        id: 9,
    }
}

/// The whole packet on the link: outer headers and frame.
fn carry(tunnel: &Tunnel, inner: &Inner<'_>, frame: &[u8]) -> Vec<u8> {
    let mut buffer = [0xaa; LONGEST];
    let header = tunnel.write(inner, || Sum::of(frame), &mut buffer).unwrap();
    [header, frame].concat()
}

fn parse(bytes: &[u8]) -> Result<Received<'_>, Refusal> {
    Received::parse(bytes, Checksum::Computed)
}

/// Options within the length limit, as classes, types and data.
fn options() -> impl Strategy<Value = Vec<(u16, u8, Vec<[u8; 4]>)>> {
    prop::collection::vec(
        (any::<u16>(), 0_u8..0x80, prop::collection::vec(any::<[u8; 4]>(), 0..=12)),
        0..=4,
    )
}

fn draft(tunnel: &Tunnel, options: &[(u16, u8, Vec<[u8; 4]>)]) -> Draft {
    let mut draft = tunnel.geneve();
    for (class, kind, data) in options {
        assert!(draft.add(TunnelOption { class: *class, kind: *kind, data: data.as_flattened() }));
    }
    draft
}

proptest! {
    #[test]
    fn parse_undoes_write(
        encapsulation in prop::sample::select(&Encapsulation::ALL[..]),
        addresses in prop_oneof![
            any::<[[u8; 4]; 2]>().prop_map(|it| it.map(IpAddr::from)),
            any::<[[u8; 16]; 2]>().prop_map(|it| it.map(IpAddr::from)),
        ],
        vni in 0_u32..1 << 24,
        vlan in prop::option::of(0_u16..4096),
        (ttl, is_computed) in any::<(u8, bool)>(),
        options in options(),
        (flow, traffic_class, id) in any::<(u32, u8, u32)>(),
        class in 0_u8..8,
        payload in prop::collection::vec(any::<u8>(), 0..300),
    ) {
        let vteps = Vteps::new(addresses[0], addresses[1]).unwrap();
        let vni = Vni::new(vni).unwrap();
        let checksum = if is_computed { Checksum::Computed } else { Checksum::Absent };
        let tunnel = Tunnel { vni, vlan, ttl, checksum, ..tunnel(encapsulation, vteps) };
        let draft = draft(&tunnel, &options);
        let geneve = (encapsulation == Encapsulation::Geneve).then_some(&draft);
        let frame = frame(traffic_class, &payload);
        let class = Class::from_low_bits(class);
        let bytes = carry(&tunnel, &Inner { class, flow, id, geneve, ..inner(&frame) }, &frame);

        let received = Received::parse(&bytes, checksum).unwrap();
        let written = draft.parts().concat();
        let written = geneve::Packet::parse(&written).unwrap().options;
        prop_assert_eq!(&received, &Received {
            encapsulation,
            vteps: vteps.reversed(),
            vni,
            options: geneve.map_or(Default::default(), |_| written),
            is_control: false,
            is_part: false,
            frame: bytes.len() - frame.len()..bytes.len(),
            tag: None,
            offload: Offload::NONE,
            traffic_class,
            remark: None,
            alarm: None,
        });
        prop_assert_eq!(&bytes[received.frame.clone()], &frame[..]);
        // The link's padding does not belong to the packet.
        let padded = [&bytes[..], &[0; 9]].concat();
        prop_assert_eq!(Received::parse(&padded, checksum).unwrap().frame.end, bytes.len());

        let outer = peek(&bytes).unwrap();
        prop_assert_eq!((outer.source(), outer.destination()), (Mac::local(1), Mac::local(2)));
        prop_assert_eq!(outer.tag(), vlan.map(|vlan| ethernet::Tag { class, vlan }));
        let options_len = geneve.map_or(0, |draft| draft.parts()[1].len());
        let link = ethernet::Header::LEN + if vlan.is_some() { 4 } else { 0 };
        let overhead = encapsulation.overhead(vteps.version(), options_len);
        prop_assert_eq!(bytes.len() - frame.len(), link + overhead);

        let layout = Layout::of(&bytes).unwrap();
        prop_assert_eq!((layout.network, layout.end), (link, bytes.len()));
        let (ip, transport) = bytes[link..].split_at(layout.transport - link);
        match vteps.version() {
            Version::V4 => {
                let packet = ipv4::Packet::parse(&bytes[link..]).unwrap();
                prop_assert!(packet.header.dont_fragment() && packet.header.ttl == ttl);
                prop_assert_eq!(Sum::of(ip).checksum(), 0);
            }
            Version::V6 => {
                let header = ipv6::Packet::parse(&bytes[link..]).unwrap().header;
                prop_assert_eq!(header.hop_limit, ttl);
                prop_assert_eq!(header.version_class_flow.get() & 0xf_ffff, flow >> 12);
            }
        }
        let sum = pseudo_header(&bytes[layout.address_range()], layout.protocol, transport.len()) + Sum::of(transport);
        if layout.protocol == protocol::UDP {
            let (header, datagram) = udp::Header::parse(transport).unwrap();
            prop_assert_eq!(datagram.len(), transport.len() - udp::Header::LEN);
            let again = Received::of_datagram(
                received.encapsulation, received.vteps, received.traffic_class, datagram,
            );
            let again = again.unwrap();
            prop_assert_eq!(&datagram[again.frame.clone()], &frame[..]);
            prop_assert_eq!(Received { frame: received.frame.clone(), ..again }, received.clone());
            prop_assert!(SOURCE_PORTS.contains(&header.source.get()));
            prop_assert_eq!(header.checksum.get() != 0, is_computed);
        }
        if layout.protocol == protocol::TCP || layout.protocol == protocol::UDP && is_computed {
            prop_assert_eq!(sum.checksum(), 0);
        }
    }

    #[test]
    fn a_frame_of_the_inner_mtu_fits_exactly(
        underlay_mtu in 400_u16.., which in 0_usize..8, options in options(),
    ) {
        let tunnel = Tunnel { underlay_mtu, ..all().nth(which).unwrap() };
        let draft = draft(&tunnel, &options);
        let geneve = (tunnel.encapsulation == Encapsulation::Geneve).then_some(&draft);
        let options_len = geneve.map_or(0, |draft| draft.parts()[1].len());
        let mtu = tunnel.encapsulation.inner_mtu(tunnel.vteps.version(), options_len, underlay_mtu).unwrap();
        let len = usize::from(mtu) + ethernet::Header::LEN;
        let mut buffer = [0; LONGEST];
        let mut write = |len| {
            let inner = Inner { len, geneve, ..inner(&[]) };
            tunnel.write(&inner, Sum::default, &mut buffer).map(<[u8]>::len)
        };
        prop_assert_eq!(write(len), Ok(usize::from(underlay_mtu) + ethernet::Header::LEN - len));
        let too_long = WriteError::TooLong { len: usize::from(underlay_mtu) + 1, most: underlay_mtu };
        prop_assert_eq!(write(len + 1), Err(too_long));
        prop_assert!(write(usize::MAX).is_err());
    }
}

#[test]
fn the_longest_header_fits_and_no_longer_one_is_written() {
    let tunnel = Tunnel { vlan: Some(7), ..tunnel(Encapsulation::Geneve, V6) };
    let mut draft = tunnel.geneve();
    for len in [124, 120] {
        assert!(draft.add(TunnelOption { class: 1, kind: 1, data: &[0; 124][..len] }));
    }
    let mut buffer = [0; LONGEST];
    let header =
        tunnel.write(&Inner { geneve: Some(&draft), ..inner(&[]) }, Sum::default, &mut buffer);
    assert_eq!(header.unwrap().len(), LONGEST);
}

#[test]
fn an_inner_mtu_is_what_the_underlay_leaves() {
    use Encapsulation::{Geneve, Nvgre, Stt, Vxlan};
    // RFC 7348 §4.3: 50 bytes, the frame's own Ethernet header included.
    for (encapsulation, version, options, expected) in [
        (Vxlan, Version::V4, 0, 1450),
        (Vxlan, Version::V6, 0, 1430),
        (Geneve, Version::V4, 0, 1450),
        (Geneve, Version::V6, 28, 1402),
        (Stt, Version::V4, 0, 1428),
        (Nvgre, Version::V4, 0, 1458),
    ] {
        assert_eq!(
            encapsulation.inner_mtu(version, options, 1500),
            Some(expected),
            "{encapsulation:?}"
        );
    }
    assert_eq!(Vxlan.inner_mtu(Version::V4, 0, 50), Some(0));
    assert_eq!(Vxlan.inner_mtu(Version::V4, 0, 49), None);
}

#[test]
fn congestion_marks_are_copied_to_the_inner_packet() {
    const DSCP: u8 = 46 << 2;
    let fields = [Ecn::NotEct, Ecn::Ect0, Ecn::Ect1, Ecn::Ce];
    for tunnel in all() {
        for (inside, outside) in
            fields.into_iter().flat_map(|inside| fields.map(|outside| (inside, outside)))
        {
            let frame = frame(inside.within(DSCP), b"ping");
            let mut bytes = carry(&tunnel, &inner(&frame), &frame);
            let layout = Layout::of(&bytes).unwrap();
            assert_eq!(layout.traffic_class(&bytes), Some(inside.within(DSCP)));
            layout.set_traffic_class(&mut bytes, outside.within(DSCP)).unwrap();
            let expected = inside.inner(outside);
            let Some(ecn) = expected.ecn else {
                assert_eq!(parse(&bytes), Err(Refusal::Congested));
                continue;
            };
            let received = parse(&bytes).unwrap();
            assert_eq!(received.remark, (ecn != inside).then_some(ecn.within(DSCP)));
            assert_eq!(
                (received.alarm, received.traffic_class),
                (expected.alarm, outside.within(DSCP))
            );
        }
        // A session reacts to marks itself, so an inner packet without ECN is not refused.
        if tunnel.encapsulation == Encapsulation::Geneve {
            let frame = frame(DSCP, b"ping");
            let mut draft = tunnel.geneve();
            assert!(draft.add(TunnelOption { class: OPTION_CLASS, kind: 0x82, data: &[0; 24] }));
            let mut bytes =
                carry(&tunnel, &Inner { geneve: Some(&draft), ..inner(&frame) }, &frame);
            Layout::of(&bytes)
                .unwrap()
                .set_traffic_class(&mut bytes, Ecn::Ce.within(DSCP))
                .unwrap();
            assert_eq!(parse(&bytes).map(|received| received.remark), Ok(None));
        }
        // A frame without an IP packet has no ECN field.
        let arp = [&[2; 12], &[8, 6][..], &[0; 28]].concat();
        let bytes = carry(&tunnel, &Inner { traffic_class: 3, ..inner(&arp) }, &arp);
        assert_eq!(parse(&bytes).map(|received| received.remark), Ok(None));
    }
}

/// Linux leaves the checksum in a tunnel to the network card; a virtual one computes none.
#[test]
fn a_checksum_that_was_left_to_a_card_is_left_to_do() {
    let datagram = [udp::Header::new(1, 2, 4).unwrap().as_bytes(), &[7; 4]].concat();
    let (here, len) = (Ipv4Addr::LOCALHOST, datagram.len());
    let ip = ipv4::Header::new(here, here, protocol::UDP, len).unwrap();
    let ethernet = ethernet::Header::new(Mac::local(3), Mac::local(4), ethertype::IPV4);
    let mut frame = [ethernet.as_bytes(), ip.as_bytes(), &datagram].concat();
    let sum = !pseudo_header(&[127, 0, 0, 1, 127, 0, 0, 1], protocol::UDP, len).checksum();
    frame[40..42].copy_from_slice(&sum.to_be_bytes());
    let left = Some(PartialChecksum { start: 34, offset: 6 });
    for tunnel in all() {
        let checksum = parse(&carry(&tunnel, &inner(&frame), &frame)).unwrap().offload.checksum;
        // STT says what is left to do.
        let is_stt = tunnel.encapsulation == Encapsulation::Stt;
        assert_eq!(checksum, left.filter(|_| !is_stt), "{tunnel:?}");
    }
    // So does a session.
    let tunnel = tunnel(Encapsulation::Geneve, V4);
    let draft = draft(&tunnel, &[(OPTION_CLASS, 2, vec![[0; 4]])]);
    let bytes = carry(&tunnel, &Inner { geneve: Some(&draft), ..inner(&frame) }, &frame);
    assert_eq!(parse(&bytes).unwrap().offload, Offload::NONE);
}

#[test]
fn a_flow_keeps_its_source_port_and_flows_have_different_ones() {
    let tunnel = tunnel(Encapsulation::Vxlan, V4);
    let port = |flow| {
        let bytes = carry(&tunnel, &Inner { flow, ..inner(&frame(0, &[])) }, &frame(0, &[]));
        u16::from_be_bytes([bytes[34], bytes[35]])
    };
    assert_eq!([0, u32::MAX].map(port), [*SOURCE_PORTS.start(), *SOURCE_PORTS.end()]);
    let ports: alloc::collections::BTreeSet<_> =
        (0..1 << 14).map(|flow| port(flow << 18)).collect();
    assert_eq!(ports.len(), SOURCE_PORTS.len());
}

#[test]
fn over_ipv6_a_datagram_needs_a_checksum_unless_configured() {
    let frame = frame(0, b"ping");
    for encapsulation in [Encapsulation::Geneve, Encapsulation::Vxlan] {
        let tunnel = Tunnel { checksum: Checksum::Absent, ..tunnel(encapsulation, V6) };
        let bytes = carry(&tunnel, &inner(&frame), &frame);
        assert_eq!(parse(&bytes), Err(Refusal::MissingChecksum));
        assert!(Received::parse(&bytes, Checksum::Absent).is_ok());
    }
}

#[test]
fn a_damaged_packet_is_refused() {
    let frame = frame(0, b"ping");
    for tunnel in all() {
        let tunnel = Tunnel { checksum: Checksum::Computed, ..tunnel };
        let bytes = carry(&tunnel, &inner(&frame), &frame);
        let layout = Layout::of(&bytes).unwrap();
        assert!(parse(&bytes).is_ok());
        for at in layout.network..bytes.len() {
            let mut damaged = bytes.clone();
            damaged[at] ^= 0x10;
            let refusal = parse(&damaged);
            let is_covered = match (tunnel.encapsulation, layout.version) {
                (Encapsulation::Nvgre, Version::V6) => continue,
                (Encapsulation::Nvgre, Version::V4) => at < layout.transport,
                // No checksum covers the traffic class, the flow label and the hop limit. A wrong
                // payload length is found earlier.
                (_, Version::V6) => at >= layout.network + 8 || at == layout.network + 6,
                (_, Version::V4) => true,
            };
            assert!(refusal.is_err() || !is_covered, "{tunnel:?} at {at}");
            // Nothing behind the transport header is read before its checksum is verified.
            if at >= layout.transport + tcp::Header::LEN && layout.protocol != protocol::GRE {
                assert_eq!(refusal, Err(Refusal::BadChecksum), "{tunnel:?} at {at}");
            }
        }
        for len in 0..bytes.len() {
            assert_eq!(parse(&bytes[..len]), Err(Refusal::NotIp), "cut short");
        }
    }
}

/// An IPv4 packet with this payload.
fn packet(protocol: u8, payload: &[u8]) -> Vec<u8> {
    let Vteps::V4 { local, remote } = V4 else { unreachable!() };
    let ip = ipv4::Header::new(local, remote, protocol, payload.len()).unwrap();
    let ethernet = ethernet::Header::new(Mac::local(2), Mac::local(1), ethertype::IPV4);
    [ethernet.as_bytes(), ip.as_bytes(), payload].concat()
}

#[test]
fn a_packet_without_a_tunnel_frame_is_refused_with_its_reason() {
    let frame = frame(0, b"ping");
    let shim = [0, 0, 0x65, 0x58, 0, 0, 7, 0];
    let datagram = |port: u16, shim: &[u8], frame: &[u8]| {
        let payload = [shim, frame].concat();
        let header = udp::Header::new(50_000, port, payload.len()).unwrap();
        parse(&packet(protocol::UDP, &[header.as_bytes(), &payload].concat())).map(drop)
    };
    assert_eq!(datagram(6081, &shim, &frame), Ok(()));
    for (port, shim, frame, refusal) in [
        (6082, &shim[..], &frame[..], Refusal::UnknownProtocol),
        (6081, &shim[..7], &[], Refusal::Malformed),
        (6081, &[0x40, 0, 0x65, 0x58, 0, 0, 7, 0], &frame, Refusal::Malformed),
        (6081, &[0, 0, 8, 0, 0, 0, 7, 0], &frame, Refusal::NotEthernet),
        (6081, &shim, &frame[..13], Refusal::Runt),
        (6081, &[1, 0x40, 0x65, 0x58, 0, 0, 7, 0, 0, 1, 0x81, 0], &frame, Refusal::CriticalOption),
        (4789, &[8, 0, 0, 0, 0, 0, 7], &[], Refusal::Malformed),
        (4789, &[0, 0, 0, 0, 0, 0, 7, 0], &frame, Refusal::InvalidVni),
    ] {
        assert_eq!(datagram(port, shim, frame), Err(refusal), "{shim:?}");
    }
    for (protocol, shim, refusal) in [
        (protocol::GRE, &[0x20, 7, 0x65, 0x58, 0, 0, 7, 0][..], Refusal::Malformed),
        (protocol::GRE, &[0x20, 0, 8, 0, 0, 0, 7, 0], Refusal::NotEthernet),
        (protocol::GRE, &[0, 0, 0x65, 0x58], Refusal::InvalidVni),
        (protocol::TCP, &shim, Refusal::Malformed),
        (protocol::ICMP, &[], Refusal::UnknownProtocol),
    ] {
        assert_eq!(parse(&packet(protocol, &[shim, &frame].concat())), Err(refusal), "{shim:?}");
    }
    let mut fragment = packet(protocol::UDP, &[0; 8]);
    // RFC 1624: adding one to a word subtracts one from the checksum.
    (fragment[14 + 6], fragment[14 + 10]) =
        (fragment[14 + 6] ^ 0x20, fragment[14 + 10].wrapping_sub(0x20));
    let is_whole = Sum::of(&fragment[14..34]).checksum() == 0;
    assert_eq!((is_whole, parse(&fragment)), (true, Err(Refusal::Fragment)));
}

/// The results of parsing a frame as STT segments of at most `most` bytes.
fn segments(context: u64, most: usize) -> Vec<Result<(), Refusal>> {
    let frame = frame(0, b"ping");
    let header = stt::Header::new(context, None, &frame, Offload::NONE).unwrap();
    let pieces = stt::Frame::new(header, &frame, 1).unwrap().pieces(most.try_into().unwrap());
    let arrive = |piece: stt::Piece<'_>| {
        let mut buffer = vec![0; piece.packet_len()];
        let segment = piece.write(50_000, &[192, 0, 2, 1, 192, 0, 2, 2], &mut buffer).unwrap();
        parse(&packet(protocol::TCP, segment)).map(drop)
    };
    pieces.map(arrive).collect()
}

#[test]
fn a_segment_of_a_larger_frame_is_refused() {
    assert_eq!(segments(7, 1000), [Ok(())]);
    assert_eq!(segments(1 << 24, 1000), [Err(Refusal::InvalidVni)]);
    assert_eq!(segments(7, 20), [Err(Refusal::Segment); 3]);
}

#[test]
fn a_control_packet_has_options_and_no_frame() {
    let tunnel = tunnel(Encapsulation::Geneve, V6);
    let mut draft = tunnel.geneve().for_control(0);
    assert!(draft.add(TunnelOption { class: OPTION_CLASS, kind: 0x81, data: &[0; 16] }));
    assert!(Message::knows(0x81), "a critical option that is known");
    let inner = Inner { geneve: Some(&draft), traffic_class: 3, ..inner(&[]) };
    let bytes = carry(&tunnel, &inner, &[]);
    let received = parse(&bytes).unwrap();
    assert!(received.is_control && received.frame.is_empty());
    assert_eq!((received.options.count(), received.traffic_class), (1, 3));
}

#[test]
fn a_header_of_another_tunnel_is_not_written() {
    let [geneve, vxlan] = [Encapsulation::Geneve, Encapsulation::Vxlan].map(|it| tunnel(it, V4));
    let other = Draft::new(7).unwrap();
    for (tunnel, draft) in [(geneve, other), (vxlan, vxlan.geneve())] {
        let inner = Inner { geneve: Some(&draft), ..inner(&[]) };
        assert_eq!(
            tunnel.write(&inner, Sum::default, &mut [0; LONGEST]),
            Err(WriteError::OtherHeader)
        );
    }
}

#[test]
fn headers_that_the_kernel_writes_are_shown_around_the_payload() {
    for tunnel in all() {
        let mut buffer = [0; LONGEST];
        let payload = vec![7; 300];
        let header =
            tunnel.write_around([50_000, 9], 0b1010_0010, &payload, &mut buffer).unwrap().to_vec();
        let packet = [&header[..], &payload].concat();
        let layout = Layout::of(&packet).unwrap();
        assert_eq!((layout.traffic_class(&packet), layout.end), (Some(0b1010_0010), packet.len()));
        // STT and NVGRE have no header of their own here: everything behind the IP header is
        // payload.
        let is_udp = matches!(tunnel.encapsulation, Encapsulation::Geneve | Encapsulation::Vxlan);
        assert_eq!(header.len() - layout.transport, if is_udp { udp::Header::LEN } else { 0 });
        assert_eq!(tunnel.write_around([1, 2], 0, &[0; 65_536], &mut buffer), None);
    }
}

#[test]
fn segments_with_a_right_or_partial_checksum_are_accepted() {
    let frame = frame(0, &[3; 3000]);
    let header = stt::Header::new(7, None, &frame, Offload::NONE).unwrap();
    for vteps in [V4, V6] {
        let addresses = match vteps {
            Vteps::V4 { local, remote } => [local.octets(), remote.octets()].concat(),
            Vteps::V6 { local, remote } => [local.octets(), remote.octets()].concat(),
        };
        let mut joined = Vec::new();
        for piece in stt::Frame::new(header, &frame, 5).unwrap().pieces(1400.try_into().unwrap()) {
            let mut bytes = vec![0; piece.packet_len()];
            piece.write(50_000, &addresses, &mut bytes).unwrap();
            let taken = segment(vteps.reversed(), &bytes).unwrap();
            assert_eq!((taken.id, taken.offset), (5, joined.len()));
            joined.extend(taken.payload);

            let mut partial = bytes.clone();
            let sum = pseudo_header(&addresses, protocol::TCP, bytes.len());
            partial[16..18].copy_from_slice(&(!sum.checksum()).to_be_bytes());
            assert!(is_partial(vteps, &partial) && !is_partial(vteps, &bytes));
            *partial.last_mut().unwrap() ^= 1;
            assert!(segment(vteps, &partial).is_ok());

            let refusal = |at: usize, bytes: &[u8]| {
                let mut bytes = bytes.to_vec();
                bytes[at] ^= 1;
                segment(vteps, &bytes).unwrap_err()
            };
            assert_eq!(refusal(bytes.len() - 1, &bytes), Refusal::BadChecksum);
            assert_eq!(refusal(3, &bytes), Refusal::UnknownProtocol);
            assert_eq!(segment(vteps, &bytes[..19]), Err(Refusal::Malformed));
        }
        let received = Received::of_datagram(Encapsulation::Stt, vteps, 0, &joined).unwrap();
        assert_eq!((received.vni.number(), &joined[received.frame.clone()]), (7, &frame[..]));
    }
}
