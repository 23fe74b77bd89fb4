//! Routers ask for neighbours that nobody declares, and hold what is for them.

use wire::ip::protocol;
use wire::{arp, udp, whole};

use super::*;

/// `a` and `b` are inside; outside are `w`, and whoever is behind `x`. The router translates.
const EDGE: &str = "
- {kind: Tenant, metadata: {name: t}, spec: {}}
- {kind: LogicalSwitch, metadata: {name: in, tenant: t}, spec: {subnets: [10.0.0.0/24]}}
- {kind: LogicalSwitch, metadata: {name: out, tenant: t}, spec: {subnets: [192.0.2.0/24]}}
- {kind: LogicalPort, metadata: {name: a, tenant: t}, spec: {switch: in, vif: {}, mac: '02:00:00:00:00:01', addresses: [10.0.0.1]}}
- {kind: LogicalPort, metadata: {name: w, tenant: t}, spec: {switch: out, vif: {}, mac: '02:00:00:00:00:03', addresses: [192.0.2.9]}}
- {kind: LogicalPort, metadata: {name: x, tenant: t}, spec: {switch: out, vif: {}, mac: '02:00:00:00:00:04', unknown: true, security: {mode: 'off'}}}
- {kind: LogicalRouter, metadata: {name: r, tenant: t}, spec: {}}
- {kind: RouterPort, metadata: {name: r-in, tenant: t}, spec: {router: r, mac: '02:00:00:00:00:fe', addresses: [10.0.0.254/24]}}
- {kind: LogicalPort, metadata: {name: in-r, tenant: t}, spec: {switch: in, router: {routerPort: r-in}}}
- {kind: RouterPort, metadata: {name: r-out, tenant: t}, spec: {router: r, mac: '02:00:00:00:00:fd', addresses: [192.0.2.1/24]}}
- {kind: LogicalPort, metadata: {name: out-r, tenant: t}, spec: {switch: out, router: {routerPort: r-out}}}
- {kind: Nat, metadata: {name: n, tenant: t}, spec: {kind: snat, router: r, external: 192.0.2.2, logical: 10.0.0.0/24}}
- {kind: ExternalPool, metadata: {name: outside}, spec: {prefixes: [192.0.2.0/24], tenants: [t]}}
";

const STRANGER: [u8; 4] = [192, 0, 2, 7];

struct Edge {
    hosts: Hosts,
    now: Instant,
}

impl Edge {
    fn new(hosts: usize) -> Self {
        let hosts = Hosts::new(&logical::load(EDGE).unwrap(), hosts, MEMORY);
        Self { hosts, now: Instant::from_nanos(1_000_000_000) }
    }

    fn name(&self, port: &str) -> Identity {
        self.hosts.ends.keys().find(|it| it.name.as_str() == port).unwrap().clone()
    }

    /// `a` sends a datagram with a number.
    fn send(&mut self, to: [u8; 4], number: u8) {
        let header = udp::Header::new(7, 9, 1).unwrap();
        let datagram = [header.as_bytes(), &[number]].concat();
        let macs = (Mac([2, 0, 0, 0, 0, 1]), Mac([2, 0, 0, 0, 0, 0xfe]));
        let ends = ([10, 0, 0, 1].into(), to.into());
        let frame = whole::packet(macs, ends, protocol::UDP, &datagram).unwrap();
        self.hosts.offer(&self.name("a"), &frame);
    }

    /// What a port gets, in its order, after so many seconds.
    fn got(&mut self, port: &str, seconds: u64) -> Vec<Vec<u8>> {
        self.now += Span::from_secs(seconds);
        let now = self.now;
        self.hosts.settle(now);
        for plane in &mut self.hosts.planes {
            plane.logical_mut().unwrap().attend(now);
        }
        self.hosts.settle(now);
        let mut got = Vec::new();
        let name = self.name(port);
        let machine = &mut self.hosts.ends.get_mut(&name).unwrap().machine;
        machine.receive(64, |frame| got.push(frame.bytes.to_vec()));
        got
    }

    /// The stranger answers a question.
    fn answer(&mut self, question: &[u8]) {
        let asked = arp::Request::parse(question).unwrap();
        let answer = asked.answer(Mac([2, 0, 0, 0, 9, 9]));
        self.hosts.offer(&self.name("x"), answer.as_bytes());
    }
}

#[test]
fn what_waits_for_a_neighbour_goes_on_in_order_once_it_answers_and_holds_nobody() {
    for hosts in 1..=3 {
        let mut edge = Edge::new(hosts);
        (0..2).for_each(|number| edge.send(STRANGER, number));
        let asked = edge.got("x", 0);
        let targets: Vec<_> =
            asked.iter().map(|it| arp::Request::parse(it).unwrap().target).collect();
        assert_eq!(targets, [std::net::Ipv4Addr::from(STRANGER)], "{hosts}");
        edge.send([192, 0, 2, 9], 8);
        assert_eq!(edge.got("w", 0).len(), 1, "{hosts}: nobody else waits");
        edge.answer(&asked[0]);
        let numbers = |all: &[Vec<u8>]| -> Vec<_> {
            let source: [u8; 4] = [192, 0, 2, 2];
            assert!(all.iter().all(|it| it[26..30] == source && it[..6] == [2, 0, 0, 0, 9, 9]));
            assert!(all.iter().all(|it| whole::fault(it).is_none()));
            all.iter().map(|it| it[42]).collect()
        };
        assert_eq!(numbers(&edge.got("x", 0)), [0, 1], "{hosts}");
        edge.send(STRANGER, 2);
        assert_eq!(numbers(&edge.got("x", 0)), [2], "{hosts}");
        edge.hosts.assert_balanced();
    }
}

#[test]
fn who_sends_to_nobody_is_told() {
    for hosts in 1..=3 {
        let mut edge = Edge::new(hosts);
        edge.send(STRANGER, 0);
        let asked: usize = [0, 1, 1].map(|seconds| edge.got("x", seconds).len()).iter().sum();
        assert_eq!((asked, edge.got("a", 0).len()), (3, 0), "{hosts}");
        let told = edge.got("a", 1);
        let icmp = |frame: &Vec<u8>| interpreter::Fields::of(frame).unwrap().ip.unwrap().icmp;
        let told: Vec<_> = told.iter().filter_map(icmp).map(|it| (it.kind, it.code)).collect();
        assert_eq!(told, [(3, 1)], "{hosts}");
        // Nobody is asked again for a while.
        edge.send(STRANGER, 1);
        assert_eq!((edge.got("x", 0).len(), edge.got("a", 0).len()), (0, 1), "{hosts}");
        edge.hosts.assert_balanced();
    }
}

/// A question's checksum that its sender left to the card is completed before it waits, once.
#[test]
fn what_waits_has_its_checksum() {
    let mut edge = Edge::new(1);
    for port in [9, 53] {
        let header = udp::Header::new(7, port, 1).unwrap();
        let datagram = [header.as_bytes(), &[port as u8]].concat();
        let macs = (Mac([2, 0, 0, 0, 0, 1]), Mac([2, 0, 0, 0, 0, 0xfe]));
        let ends = ([10, 0, 0, 1].into(), STRANGER.into());
        let mut frame = whole::packet(macs, ends, protocol::UDP, &datagram).unwrap();
        let sum = wire::checksum::pseudo_header(&frame[26..34], protocol::UDP, 9);
        frame[40..42].copy_from_slice(&(!sum.checksum()).to_be_bytes());
        let checksum = Some(wire::PartialChecksum { start: 34, offset: 6 });
        let note = wire::Offload { checksum, segment: None, data_valid: false };
        let name = edge.name("a");
        let end = &mut edge.hosts.ends.get_mut(&name).unwrap().machine;
        end.send_frame(port::FrameView::noted(&frame, &note)).unwrap();
        edge.hosts.planes[0].mark_all_rx_ready();
    }
    let asked = edge.got("x", 0);
    edge.answer(&asked[0]);
    let got = edge.got("x", 0);
    assert_eq!(got.iter().map(|it| it[42]).collect::<Vec<_>>(), [9, 53]);
    assert!(got.iter().all(|it| whole::fault(it).is_none()), "{got:02x?}");
}

impl Edge {
    /// Which datagrams a port gets, and to which Ethernet address, after so many seconds; and how
    /// many other frames.
    fn numbers(&mut self, port: &str, seconds: u64) -> (Vec<(u8, u8)>, usize) {
        let got = self.got(port, seconds);
        let is_datagram = |it: &&Vec<u8>| it[12..14] == [8, 0];
        let datagrams: Vec<_> = got.iter().filter(is_datagram).map(|it| (it[42], it[5])).collect();
        let others = got.len() - datagrams.len();
        (datagrams, others)
    }

    /// The stranger says that it is at an Ethernet address that ends so.
    fn announce(&mut self, address: [u8; 4], mac: u8, asks: [u8; 4]) {
        let sender = (Mac([2, 0, 0, 0, 9, mac]), address.into());
        let frame = arp::Frame::request(sender, asks.into());
        self.hosts.offer(&self.name("x"), frame.as_bytes());
    }
}

#[test]
fn frames_to_a_neighbour_outside_are_of_known_flows_until_it_moves_or_is_silent() {
    let mut edge = Edge::new(1);
    edge.send(STRANGER, 0);
    let asked = edge.got("x", 0);
    edge.answer(&asked[0]);
    assert_eq!(edge.numbers("x", 0), (vec![(0, 9)], 0));
    edge.send(STRANGER, 1);
    assert_eq!(edge.numbers("x", 0), (vec![(1, 9)], 0));
    let known = edge.hosts.known();
    for number in 2..6 {
        edge.send(STRANGER, number);
        assert_eq!(edge.numbers("x", 0), (vec![(number, 9)], 0));
    }
    assert_eq!(edge.hosts.known() - known, 4, "none is decided anew");

    edge.announce(STRANGER, 8, STRANGER);
    edge.send(STRANGER, 6);
    assert_eq!(edge.numbers("x", 0), (vec![(6, 8)], 0), "it has moved");
    edge.send(STRANGER, 7);
    assert_eq!(edge.numbers("x", 1), (vec![(7, 8)], 0));

    // It is asked whether it is still there, although its flow was known, and goes on meanwhile.
    assert_eq!(edge.numbers("x", 30), (vec![], 0));
    let known = edge.hosts.known();
    for number in 8..11 {
        edge.send(STRANGER, number);
        assert_eq!(edge.numbers("x", 1), (vec![(number, 8)], 1));
    }
    assert!(edge.hosts.known() > known, "one question is one decision");
    edge.numbers("x", 1);
    edge.send(STRANGER, 11);
    assert_eq!(edge.numbers("x", 0), (vec![], 1), "it is asked for as if it had never been");
    edge.announce(STRANGER, 9, STRANGER);
    assert_eq!(edge.numbers("x", 0), (vec![(11, 9)], 0));
    edge.hosts.assert_balanced();
}

/// The router is at another host, and strangers flood it with addresses that they make up.
#[test]
fn what_tells_routers_elsewhere_of_neighbours_is_limited() {
    let mut edge = Edge::new(3);
    let flood = |edge: &mut Edge| {
        for number in 0..400 {
            edge.announce([192, 0, 2, 10 + (number % 200) as u8], 8, [192, 0, 2, 1]);
            edge.hosts.settle(edge.now);
        }
        // Of frames of the stranger's host.
        edge.hosts.planes[1].switch().total()
    };
    let most = 256;
    let told = flood(&mut edge);
    assert_eq!((told.accepted, told.delivered), (most, most), "others are taken, and go nowhere");
    let known = edge.hosts.planes[0].logical().unwrap().neighbours(edge.now).count();
    assert_eq!(known, 200);
    edge.now += Span::from_secs(1);
    assert_eq!(flood(&mut edge).delivered, 2 * most);
    let (_, limited) = edge.hosts.planes[1].logical().unwrap().answered();
    assert!(limited >= 4 * (400 - most), "{limited}: answers are limited, too, by themselves");
    edge.got("x", 0);
    edge.hosts.assert_balanced();
}

/// A port that frames wait for goes to another host, and nobody declares any more who is behind it.
#[test]
fn what_waits_for_a_port_that_has_moved_waits_for_the_neighbour_behind_it() {
    let declared = logical::load(EDGE).unwrap();
    let moved = EDGE.replace(
        "mac: '02:00:00:00:00:03', addresses: [192.0.2.9]}",
        "mac: '02:00:00:00:00:03', unknown: true, security: {mode: 'off'}}",
    );
    let moved = logical::load(&moved).unwrap();
    let mut edge = Edge::new(3);
    let w = edge.name("w");
    let beside = edge.hosts.attach(edge.now, 1, &w, MEMORY);
    edge.hosts.beside.push((w.clone(), beside));
    edge.hosts.realize(&declared);
    for number in 0..70 {
        edge.send([192, 0, 2, 9], number);
        edge.hosts.settle(edge.now);
    }
    assert_eq!(edge.hosts.held(), 6, "the others are in its memory");
    edge.hosts.go(&w, 1);
    edge.hosts.realize(&moved);
    assert_eq!(edge.hosts.held(), 0);
    let total = edge.hosts.planes[0].switch().total();
    let refused: Vec<_> = total.refusals().collect();
    assert_eq!(refused, [(lossless::Reason::LogicalNetwork, 3)], "three wait for a neighbour");
    let asked = edge.got("w", 0);
    let answer = arp::Request::parse(&asked[0]).unwrap().answer(Mac([2, 0, 0, 0, 9, 7]));
    edge.hosts.offer(&w, answer.as_bytes());
    assert_eq!(edge.numbers("w", 0), (vec![(64, 7), (65, 7), (66, 7)], 0));
    edge.hosts.assert_balanced();
}
