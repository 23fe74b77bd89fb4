//! What is written here, read by somebody else: tshark dissects a frame of every kind, finds
//! nothing wrong with it, and the numbers that were put in.

use std::net::{Ipv4Addr, Ipv6Addr};
use std::num::NonZeroUsize;

use needs::tshark::{Kind, kind};
use units::{Class, ClassMap, Mac};
use wire::ethernet::{self, Tag, ethertype};
use wire::ip::protocol;
use wire::{
    Offload, arp, bfd, checksum, geneve, gre, icmp, ipv4, ipv6, neighbor, pause, pfc, rarp, stt,
};
use wire::{udp, vxlan};
use zerocopy::IntoBytes;

const MACS: [Mac; 2] = [Mac::local(1), Mac::local(2)];
const V4: [Ipv4Addr; 2] = [Ipv4Addr::new(192, 0, 2, 1), Ipv4Addr::new(192, 0, 2, 2)];
const V6: [Ipv6Addr; 2] = [
    Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 1),
    Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 2),
];

/// A frame between two machines of IPv4, with a packet of so many hops.
fn packet_v4(protocol: u8, ttl: u8, payload: &[u8]) -> Vec<u8> {
    let mut ip = ipv4::Header::new(V4[0], V4[1], protocol, payload.len()).unwrap();
    (ip.ttl, ip.checksum) = (ttl, 0.into());
    ip.checksum.set(checksum::Sum::of(ip.as_bytes()).checksum());
    let ethernet = ethernet::Header::new(MACS[1], MACS[0], ethertype::IPV4);
    [ethernet.as_bytes(), ip.as_bytes(), payload].concat()
}

/// A frame between two machines of IPv6.
fn packet_v6(protocol: u8, payload: &[u8]) -> Vec<u8> {
    let ip = ipv6::Header::new(V6[0], V6[1], protocol, payload.len()).unwrap();
    let ethernet = ethernet::Header::new(MACS[1], MACS[0], ethertype::IPV6);
    [ethernet.as_bytes(), ip.as_bytes(), payload].concat()
}

/// A datagram with its checksum over IPv6's addresses, or none for IPv4.
fn datagram(ports: [u16; 2], parts: &[&[u8]], is_v6: bool) -> Vec<u8> {
    let payload = parts.concat();
    let mut header = udp::Header::new(ports[0], ports[1], payload.len()).unwrap();
    if is_v6 {
        let len = udp::Header::LEN + payload.len();
        let sum =
            checksum::pseudo_header(V6.map(|v6| v6.octets()).as_flattened(), protocol::UDP, len);
        let sum = sum + checksum::Sum::of(header.as_bytes()) + checksum::Sum::of(&payload);
        header.checksum.set(sum.transport_checksum());
    }
    [header.as_bytes(), &payload].concat()
}

/// A frame of a virtual network.
fn inner() -> Vec<u8> {
    packet_v4(protocol::UDP, 64, &datagram([4000, 9], &[b"carried"], false))
}

fn tunnels() -> Vec<Kind> {
    let inner = inner();
    let mut draft = geneve::Draft::new(0x12_3456).unwrap();
    assert!(draft.add(geneve::TunnelOption { class: 0xff01, kind: 0x81, data: &[1, 2, 3, 4] }));
    assert!(draft.add(geneve::TunnelOption { class: 0xff01, kind: 0x02, data: &[] }));
    let [header, options] = draft.parts();
    let geneve = datagram([50_000, geneve::PORT], &[header, options, &inner], true);
    let vxlan = vxlan::Header::new(0x65_4321).unwrap();
    let vxlan = datagram([50_000, vxlan::PORT], &[vxlan.as_bytes(), &inner], false);
    let gre = |header: gre::Header| {
        let mut buffer = [0; gre::Header::LONGEST];
        packet_v4(protocol::GRE, 64, &[&*header.write(&mut buffer).unwrap(), &inner].concat())
    };
    let nvgre = gre::VirtualSubnet::new(0x00_abcd, 0xef).unwrap().header();
    let full =
        gre::Header { key: Some(7), sequence: Some(9), ..gre::Header::new(ethertype::BRIDGED) };
    vec![
        kind(
            packet_v6(protocol::UDP, &geneve),
            &[
                ("geneve.vni", "0x123456"),
                ("geneve.flags.critical", "1"),
                ("geneve.option.class", "0xff01,0xff01"),
                ("geneve.option.type.critical", "1,0"),
                ("udp.dstport", "6081,9"),
            ],
        ),
        kind(
            packet_v4(protocol::UDP, 64, &vxlan),
            &[("vxlan.vni", "6636321"), ("udp.dstport", "4789,9")],
        ),
        kind(gre(nvgre), &[("gre.key", "0x00abcdef"), ("udp.dstport", "9")]),
        kind(
            gre(full.with_checksum(&inner)),
            &[
                ("gre.key", "0x00000007"),
                ("gre.sequence_number", "9"),
                ("gre.checksum.status", "1"),
                ("udp.dstport", "9"),
            ],
        ),
    ]
}

/// A frame in one segment of STT, and one in three.
fn segments() -> Vec<Kind> {
    let write = |context, id, most| {
        let inner = inner();
        let tag = Tag { class: Class::from_low_bits(5), vlan: 291 };
        let header = stt::Header::new(context, Some(tag), &inner, Offload::NONE).unwrap();
        let pieces =
            stt::Frame::new(header, &inner, id).unwrap().pieces(NonZeroUsize::new(most).unwrap());
        let addresses = V4.map(|v4| v4.octets());
        let write = |piece: stt::Piece<'_>| {
            let mut buffer = vec![0; piece.packet_len()];
            let packet = piece.write(50_000, addresses.as_flattened(), &mut buffer).unwrap();
            packet_v4(protocol::TCP, 64, packet)
        };
        pieces.map(write).collect::<Vec<_>>()
    };
    let [whole] = <[_; 1]>::try_from(write(0x0102_0304_0506_0708, 7, 1000)).unwrap();
    // The last has 21 bytes: Wireshark 4.0 takes a segment for the last if 20 are missing, as many
    // as TCP's header has.
    let [first, second, last] = <[_; 3]>::try_from(write(0xa, 8, 23)).unwrap();
    vec![
        kind(
            whole,
            &[
                ("stt.context_id", "0x0102030405060708"),
                ("stt.vlan.id", "291"),
                ("stt.vlan.pcp", "5"),
                ("stt.pkt_id", "0x00000007"),
                ("udp.dstport", "9"),
            ],
        ),
        kind(first, &[("stt.pkt_id", "0x00000008"), ("stt.seg_off", "0")]),
        kind(second, &[("stt.pkt_id", "0x00000008"), ("stt.seg_off", "23")]),
        kind(
            last,
            &[
                ("stt.context_id", "0x000000000000000a"),
                ("stt.segment.count", "3"),
                ("udp.dstport", "9"),
            ],
        ),
    ]
}

/// What is answered, and what is said to a neighbor.
fn answers() -> Vec<Kind> {
    let asks = (MACS[0], V4[0]);
    let request = arp::Frame::request(asks, V4[1]);
    let answer = arp::Request::parse(request.as_bytes()).unwrap().answer(MACS[1]);
    let question = neighbor::Frame::solicitation((MACS[0], V6[0]), V6[1]);
    let told = neighbor::Solicitation::parse(question.as_bytes()).unwrap().answer(MACS[1], true);
    let mut buffer = [0; icmp::LONGEST_FRAME];
    let long = packet_v4(protocol::UDP, 64, &datagram([1, 2], &[&[0; 3000]], false));
    let needed =
        icmp::fragmentation_needed(&long, 1400, (MACS[1], V4[1]), &mut buffer).unwrap().to_vec();
    let long = packet_v6(protocol::UDP, &datagram([1, 2], &[&[0; 3000]], true));
    let too_big =
        icmp::packet_too_big(&long, 1400, (MACS[1], V6[1]), &mut buffer).unwrap().to_vec();
    vec![
        kind(request.as_bytes(), &[("arp.opcode", "1"), ("arp.dst.proto_ipv4", "192.0.2.2")]),
        kind(answer.as_bytes(), &[("arp.opcode", "2"), ("arp.src.hw_mac", "02:00:00:00:00:02")]),
        kind(rarp::request(MACS[0]).as_bytes(), &[("arp.opcode", "3")]),
        kind(question.as_bytes(), &[("icmpv6.type", "135"), ("icmpv6.checksum.status", "1")]),
        kind(
            told.as_bytes(),
            &[
                ("icmpv6.nd.na.target_address", "2001:db8::2"),
                ("icmpv6.nd.na.flag.r", "1"),
                ("icmpv6.opt.linkaddr", "02:00:00:00:00:02"),
                ("icmpv6.checksum.status", "1"),
            ],
        ),
        kind(needed, &[("icmp.code", "4"), ("icmp.mtu", "1400"), ("icmp.checksum.status", "1")]),
        kind(
            too_big,
            &[("icmpv6.type", "2"), ("icmpv6.mtu", "1400"), ("icmpv6.checksum.status", "1")],
        ),
    ]
}

/// What keeps watch over a link.
fn control() -> Vec<Kind> {
    let mut header =
        bfd::Header::new(bfd::State::Up, bfd::Diagnostic::NONE, bfd::Flags::default(), 0x11);
    header.detect_multiplier = 3;
    header.your_discriminator.set(0x22);
    header.desired_min_tx.set(300_000);
    let bfd = datagram([*bfd::SOURCE_PORTS.start(), bfd::PORT], &[header.as_bytes()], false);
    let mut told = ClassMap([None; Class::COUNT]);
    told.0[3] = Some(0xffff);
    vec![
        kind(
            packet_v4(protocol::UDP, bfd::TTL, &bfd),
            &[
                ("bfd.sta", "0x03"),
                ("bfd.my_discriminator", "0x00000011"),
                ("bfd.detect_time_multiplier", "3"),
            ],
        ),
        kind(
            pause::Frame::new(MACS[0], 7).as_bytes(),
            &[("macc.opcode", "0x0001"), ("macc.pause_time", "7")],
        ),
        kind(pfc::Frame::new(MACS[0], &told).as_bytes(), &[("macc.opcode", "0x0101")]),
    ]
}

#[test]
fn tshark_reads_what_was_written() {
    let kinds: Vec<Kind> =
        [tunnels(), segments(), answers(), control()].into_iter().flatten().collect();
    // STT is told from TCP by what it says of itself.
    needs::tshark::read(
        &kinds,
        &["ip.check_checksum", "udp.check_checksum", "ip.try_heuristic_first"],
    );
}

#[test]
fn a_segment_of_stt_passes_for_tcp() {
    // STT's own dissector (Wireshark 4.0) takes every right checksum for a wrong one.
    let kinds = segments();
    let fields = ["tcp.dstport", "tcp.checksum.status"];
    let Some(lines) = needs::tshark::run(&kinds, &["tcp.check_checksum"], &fields) else { return };
    assert_eq!(lines, vec![["7471", "1"]; kinds.len()]);
}
