//! What is read of frames.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use conntrack::{Kind, Packet, Tuple};
use units::Mac;
use wire::ethernet::{self, ethertype};
use wire::ip::protocol;
use wire::tcp::{self, Flags, options};
use wire::{ipv4, ipv6, udp};
use zerocopy::IntoBytes;

/// An IP packet; both ends are of one version.
fn packet(from: IpAddr, to: IpAddr, carried: u8, body: &[u8]) -> Vec<u8> {
    let header = match (from, to) {
        (IpAddr::V4(from), IpAddr::V4(to)) => {
            ipv4::Header::new(from, to, carried, body.len()).unwrap().as_bytes().to_vec()
        }
        (IpAddr::V6(from), IpAddr::V6(to)) => {
            ipv6::Header::new(from, to, carried, body.len()).unwrap().as_bytes().to_vec()
        }
        _ => panic!("two versions"),
    };
    [&header, body].concat()
}

fn frame(packet: &[u8]) -> Vec<u8> {
    let kind = if packet[0] >> 4 == 4 { ethertype::IPV4 } else { ethertype::IPV6 };
    let header = ethernet::Header::new(Mac::local(1), Mac::local(2), kind);
    [header.as_bytes(), packet].concat()
}

fn read(from: IpAddr, to: IpAddr, carried: u8, body: &[u8]) -> Option<Packet> {
    Packet::of(&frame(&packet(from, to, carried, body)))
}

const V4: [IpAddr; 3] = [
    IpAddr::V4(Ipv4Addr::new(10, 0, 0, 1)),
    IpAddr::V4(Ipv4Addr::new(10, 0, 0, 2)),
    IpAddr::V4(Ipv4Addr::new(10, 0, 0, 3)),
];
const V6: [IpAddr; 3] = [
    IpAddr::V6(Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, 1)),
    IpAddr::V6(Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, 2)),
    IpAddr::V6(Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, 3)),
];

fn datagram(from: u16, to: u16) -> Vec<u8> {
    [udp::Header::new(from, to, 3).unwrap().as_bytes(), b"abc"].concat()
}

fn echo(kind: u8, id: u16) -> Vec<u8> {
    let [high, low] = id.to_be_bytes();
    vec![kind, 0, 0, 0, high, low, 0, 1, b'x']
}

/// An ICMP error that quotes a packet.
fn error(kind: u8, quote: &[u8]) -> Vec<u8> {
    [&[kind, 3, 0, 0, 0, 0, 0, 0], quote].concat()
}

#[test]
fn a_segment_is_read_with_its_data_and_its_scale() {
    let scale = options::Options::NONE.with(options::Choice::Nop).unwrap();
    let scale = scale.with(options::Choice::WindowScale(7)).unwrap();
    for [a, b, _] in [V4, V6] {
        for flags in [Flags::SYN, Flags::ACK] {
            let header = tcp::Header::new(1000, 80, 77, flags).with_options(4).unwrap();
            let body = [header.as_bytes(), scale.as_bytes(), b"data"].concat();
            let it = read(a, b, protocol::TCP, &body).unwrap();
            assert_eq!(Some(it.tuple), Tuple::new(6, (a, 1000), (b, 80)));
            let Kind::Tcp(segment) = it.kind else { panic!("{it:?}") };
            assert_eq!((segment.sequence, segment.len, segment.flags), (77, 4, flags));
            // Elsewhere the option says nothing.
            assert_eq!(segment.scale, (flags == Flags::SYN).then_some(7));
            assert_eq!(it.begins(), flags == Flags::SYN);
            // A header that reaches behind the packet's end.
            assert_eq!(read(a, b, protocol::TCP, &body[..22]), None);
        }
    }
}

#[test]
fn questions_and_answers_have_their_identifier_at_who_asked() {
    for ([a, b, _], carried, ask, answer) in
        [(V4, protocol::ICMP, 8, 0), (V6, protocol::ICMPV6, 128, 129)]
    {
        let question = read(a, b, carried, &echo(ask, 9)).unwrap();
        assert_eq!((question.kind, question.begins()), (Kind::Ask, true));
        assert_eq!(Some(question.tuple), Tuple::new(carried, (a, 9), (b, 0)));
        let reply = read(b, a, carried, &echo(answer, 9)).unwrap();
        assert_eq!((reply.kind, reply.tuple), (Kind::Answer, question.tuple.reversed()));
        assert!(!reply.begins());
        assert_eq!(read(a, b, carried, &echo(ask, 9)[..7]), None);
    }
    // The other version's ICMP is a protocol like any other.
    assert_eq!(read(V4[0], V4[1], protocol::ICMPV6, &[128; 8]).unwrap().kind, Kind::Datagram);
}

#[test]
fn an_error_is_of_the_flow_that_it_quotes_and_goes_as_its_replies_do() {
    for ([a, b, c], carried, kind) in [(V4, protocol::ICMP, 3), (V6, protocol::ICMPV6, 1)] {
        let flow = Tuple::new(17, (a, 1000), (b, 2000)).unwrap();
        let quoted = packet(a, b, protocol::UDP, &datagram(1000, 2000));
        let header = quoted.len() - 11;
        // From the far end or a router, whole or cut behind eight bytes of what it carries.
        for from in [b, c] {
            for len in [quoted.len(), header + 8] {
                let it = read(from, a, carried, &error(kind, &quoted[..len])).unwrap();
                assert_eq!((it.kind, it.tuple), (Kind::Error, flow.reversed()));
                assert!(!it.begins());
            }
        }
        // Its lengths may lie: they are not what is read by.
        let mut lies = quoted.clone();
        let at = if a.is_ipv4() { 2 } else { 4 };
        lies[at..at + 2].copy_from_slice(&[0xff, 0xff]);
        assert_eq!(read(c, a, carried, &error(kind, &lies)).unwrap().kind, Kind::Error);
        // To somebody else, cut shorter, or about an error: of no flow.
        let stray = |to, quote: &[u8]| read(b, to, carried, &error(kind, quote)).unwrap().kind;
        assert_eq!(stray(c, &quoted), Kind::Stray);
        for len in [0, 1, header, header + 7] {
            assert_eq!(stray(a, &quoted[..len]), Kind::Stray);
        }
        let inner = packet(a, b, carried, &error(kind, &quoted));
        assert_eq!(stray(a, &inner), Kind::Stray);
        let question = packet(a, b, carried, &echo(if a.is_ipv4() { 8 } else { 128 }, 5));
        let it = read(c, a, carried, &error(kind, &question)).unwrap();
        assert_eq!(Some(it.tuple), Tuple::new(carried, (b, 0), (a, 5)));
    }
    // Options are stepped over, and what says that they are longer than it is, is not read.
    let mut quoted =
        packet(V4[0], V4[1], protocol::UDP, &[[0; 4].as_slice(), &datagram(1, 2)].concat());
    quoted[0] = 0x46;
    let it = read(V4[2], V4[0], protocol::ICMP, &error(11, &quoted)).unwrap();
    assert_eq!(it.tuple.destination(), (V4[0], 1));
    quoted[0] = 0x4f;
    let it = read(V4[2], V4[0], protocol::ICMP, &error(11, &quoted)).unwrap();
    assert_eq!(it.kind, Kind::Stray);
}

#[test]
fn fragments_are_their_packets_and_the_first_tells_whose() {
    let mut first = packet(V4[0], V4[1], protocol::UDP, &datagram(1, 2));
    first[6] = 0x20;
    let it = Packet::of(&frame(&first)).unwrap();
    assert_eq!((it.kind, it.tuple.source().1), (Kind::Datagram, 1));
    let mut later = first.clone();
    later[7] = 1;
    let it = Packet::of(&frame(&later)).unwrap();
    assert_eq!((it.kind, it.tuple.source().1), (Kind::Part, 0));
    let mut segment =
        packet(V4[0], V4[1], protocol::TCP, tcp::Header::new(1, 2, 3, Flags::ACK).as_bytes());
    segment[6] = 0x20;
    let Kind::Tcp(it) = Packet::of(&frame(&segment)).unwrap().kind else { panic!() };
    assert!(it.is_part);
    // Less than eight bytes of UDP tell too little.
    assert_eq!(read(V4[0], V4[1], protocol::UDP, &[0; 7]), None);
}

#[test]
fn what_makes_the_network_work_is_not_tracked() {
    let all = |from: &str, to: &str, carried, body: &[u8]| {
        read(from.parse().unwrap(), to.parse().unwrap(), carried, body).unwrap().kind
    };
    let udp = datagram(5, 6);
    for (from, to, carried, body) in [
        ("fe80::1", "fd00::2", protocol::ICMPV6, [135; 24].as_slice()),
        ("fd00::1", "fd00::2", protocol::ICMPV6, &[143; 8]),
        ("10.0.0.1", "10.0.0.2", protocol::IGMP, &[22; 8]),
        ("10.0.0.1", "10.0.0.2", protocol::ICMP, &[13; 20]),
        ("10.0.0.1", "10.0.0.2", protocol::UDP, &datagram(68, 67)),
        ("fe80::1", "fd00::2", protocol::UDP, &datagram(546, 547)),
        ("0.0.0.0", "10.0.0.2", protocol::UDP, &udp),
        ("10.0.0.1", "224.0.0.251", protocol::UDP, &udp),
        ("10.0.0.1", "255.255.255.255", protocol::UDP, &udp),
        ("fd00::1", "ff02::fb", protocol::UDP, &udp),
        ("::", "fd00::1", protocol::UDP, &udp),
        ("::ffff:10.0.0.1", "fd00::1", protocol::UDP, &udp),
    ] {
        assert_eq!(all(from, to, carried, body), Kind::Other, "{from} {to} {carried}");
    }
    assert_eq!(all("10.0.0.1", "10.0.0.2", 47, &[]), Kind::Datagram);
    assert_eq!(all("::1", "fd00::1", protocol::UDP, &udp), Kind::Datagram);
}
