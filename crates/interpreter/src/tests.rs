//! A small world, frames in it, and what becomes of them.

mod cases;
mod laws;
mod rows;
mod services;
mod worlds;

use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use logical::Topology;
use logical::topology::PortIndex;
use units::{Instant, Mac, Span};
use wire::checksum::Sum;
use wire::ethernet::{Header, ethertype};
use wire::{arp, icmp, ipv4, ipv6, neighbor, tcp, udp};
use zerocopy::IntoBytes;
use zerocopy::network_endian::U32;

use crate::{Arrival, Decision, Fields, Reason, State, decide};

const A: Mac = Mac([2, 0, 0, 0, 0, 1]);
const B: Mac = Mac([2, 0, 0, 0, 0, 2]);
const C: Mac = Mac([2, 0, 0, 0, 0, 3]);
const LAN: Mac = Mac([2, 0, 0, 0, 0, 0xfe]);
const WAN: Mac = Mac([2, 0, 0, 0, 0, 0xfd]);

/// Two switches around a router: `a` and `b` on one, `c` on the other.
const WORLD: &str = "\
- {kind: Tenant, metadata: {name: t}, spec: {}}
- {kind: ExternalPool, metadata: {name: pool}, spec: {prefixes: [10.2.0.0/16], tenants: [t]}}
- {kind: LogicalSwitch, metadata: {name: lan, tenant: t}, spec: {subnets: [10.1.0.0/24, fd01::/64]}}
- {kind: LogicalSwitch, metadata: {name: wan, tenant: t}, spec: {subnets: [10.2.0.0/24, fd02::/64], mtu: 1400}}
- {kind: LogicalPort, metadata: {name: a, tenant: t}, spec: {switch: lan, vif: {}, mac: '02:00:00:00:00:01', addresses: [10.1.0.1, 'fd01::1']}}
- {kind: LogicalPort, metadata: {name: b, tenant: t}, spec: {switch: lan, vif: {}, mac: '02:00:00:00:00:02', addresses: [10.1.0.2, 'fd01::2']}}
- {kind: LogicalPort, metadata: {name: c, tenant: t}, spec: {switch: wan, vif: {}, mac: '02:00:00:00:00:03', addresses: [10.2.0.3, 'fd02::3']}}
- {kind: LogicalRouter, metadata: {name: r, tenant: t}, spec: {}}
- {kind: RouterPort, metadata: {name: r-lan, tenant: t}, spec: {router: r, mac: '02:00:00:00:00:fe', addresses: [10.1.0.254/24, 'fd01::fe/64']}}
- {kind: RouterPort, metadata: {name: r-wan, tenant: t}, spec: {router: r, mac: '02:00:00:00:00:fd', addresses: [10.2.0.254/24, 'fd02::fe/64']}}
- {kind: LogicalPort, metadata: {name: lan-r, tenant: t}, spec: {switch: lan, router: {routerPort: r-lan}}}
- {kind: LogicalPort, metadata: {name: wan-r, tenant: t}, spec: {switch: wan, router: {routerPort: r-wan}}}
";

/// Networks, and what they know.
struct Net {
    topology: Topology,
    state: State,
    now: Instant,
}

impl Net {
    fn new(more: &str) -> Self {
        let topology = load(more);
        Self { topology, state: State::default(), now: Instant::from_nanos(1_000_000_000) }
    }

    /// Other declarations, with what is known kept.
    fn change(&mut self, more: &str) {
        self.topology = load(more);
    }

    fn port(&self, name: &str) -> PortIndex {
        self.topology.port("t", name).unwrap_or_else(|| panic!("there is a port {name}"))
    }

    fn ask(&self, from: &str, frame: &[u8]) -> Decision {
        let arrival = Arrival { port: self.port(from), node: None, frame };
        let decision = decide(&self.topology, &self.state, self.now, arrival);
        for copy in decision.delivered.iter().chain(&decision.answers) {
            assert_eq!(wire::whole::fault(&copy.frame), None, "{}", told(&decision));
        }
        decision
    }

    fn send(&mut self, from: &str, frame: &[u8]) -> Decision {
        let decision = self.ask(from, frame);
        self.state.commit(&decision.changes, self.now);
        decision
    }

    /// Who alone gets a frame, and what of it.
    #[track_caller]
    fn gets(&mut self, from: &str, frame: &[u8], to: &str) -> Vec<u8> {
        let decision = self.send(from, frame);
        let to = self.port(to);
        assert_eq!(decision.refused, [], "{}", told(&decision));
        assert_eq!(decision.delivered.len(), 1, "{}", told(&decision));
        assert_eq!(decision.delivered[0].port, to, "{}", told(&decision));
        decision.delivered[0].frame.clone()
    }

    /// A frame is refused, and nobody else gets it. What its sender is answered.
    #[track_caller]
    fn refuses(&mut self, from: &str, frame: &[u8], reason: Reason) -> Option<Vec<u8>> {
        let decision = self.send(from, frame);
        assert_eq!(decision.delivered, [], "{}", told(&decision));
        let reasons: Vec<_> = decision.refused.iter().map(|it| it.reason).collect();
        assert_eq!(reasons, [reason], "{}", told(&decision));
        assert!(decision.answers.len() <= 1);
        assert!(decision.answers.iter().all(|it| it.port == self.port(from)));
        decision.answers.first().map(|it| it.frame.clone())
    }

    #[track_caller]
    fn silently_refuses(&mut self, from: &str, frame: &[u8], reason: Reason) {
        assert_eq!(self.refuses(from, frame, reason), None);
    }

    fn wait(&mut self, seconds: u64) {
        self.now += Span::from_secs(seconds);
    }
}

/// How it came to a decision, a line for each step.
fn told(decision: &Decision) -> String {
    decision.trace.iter().map(|step| format!("{step}\n")).collect()
}

fn load(more: &str) -> Topology {
    let text = [WORLD, more].concat();
    logical::load(&text).unwrap_or_else(|faults| panic!("{faults:#?}"))
}

/// A policy of one port.
fn policy(port: &str, rules: &str) -> String {
    with_policy(port, "", rules)
}

fn with_policy(port: &str, more: &str, rules: &str) -> String {
    format!(
        "- {{kind: Policy, metadata: {{name: of-{port}, tenant: t}}, \
         spec: {{appliesTo: {{ports: [{port}]}}, {more} rules: [{rules}]}}}}\n"
    )
}

/// Who connects to the port's TCP port 80, and nothing else.
fn only_web(port: &str) -> String {
    with_policy(
        port,
        "defaultAction: drop, directions: [toPort],",
        "{name: web, direction: toPort, action: allow, services: [{protocol: tcp, ports: [80]}]}",
    )
}

fn v4(word: &str) -> Ipv4Addr {
    word.parse().unwrap()
}

fn frame(macs: [Mac; 2], ends: [&str; 2], carried: u8, body: &[u8]) -> Vec<u8> {
    let [source, destination] = ends.map(|it| it.parse::<IpAddr>().unwrap());
    let (kind, header) = match (source, destination) {
        (IpAddr::V4(source), IpAddr::V4(destination)) => {
            let header = ipv4::Header::new(source, destination, carried, body.len()).unwrap();
            (ethertype::IPV4, header.as_bytes().to_vec())
        }
        (IpAddr::V6(source), IpAddr::V6(destination)) => {
            let header = ipv6::Header::new(source, destination, carried, body.len()).unwrap();
            (ethertype::IPV6, header.as_bytes().to_vec())
        }
        _ => panic!("one family"),
    };
    let mut frame = Header::new(macs[1], macs[0], kind).as_bytes().to_vec();
    frame.extend_from_slice(&header);
    frame.extend_from_slice(body);
    frame
}

/// Puts the right checksum at a place of the transport header.
fn summed(mut frame: Vec<u8>, place: usize, covers: bool) -> Vec<u8> {
    let layout = wire::Layout::of(&frame).unwrap();
    let body = &frame[layout.transport..];
    let pseudo = if covers { layout.pseudo_header(&frame, body.len()) } else { Sum::default() };
    let sum = (pseudo + Sum::of(body)).transport_checksum();
    let at = layout.transport + place;
    frame[at..at + 2].copy_from_slice(&sum.to_be_bytes());
    frame
}

fn tcp_of(
    macs: [Mac; 2],
    ends: [&str; 2],
    ports: [u16; 2],
    flags: tcp::Flags,
    numbers: [u32; 2],
) -> Vec<u8> {
    let mut header = tcp::Header::new(ports[0], ports[1], numbers[0], flags);
    header.acknowledgment = U32::new(numbers[1]);
    summed(frame(macs, ends, 6, header.as_bytes()), 16, true)
}

fn udp_of(macs: [Mac; 2], ends: [&str; 2], ports: [u16; 2]) -> Vec<u8> {
    let body = [udp::Header::new(ports[0], ports[1], 4).unwrap().as_bytes(), b"ping"].concat();
    summed(frame(macs, ends, 17, &body), 6, true)
}

fn echo(macs: [Mac; 2], ends: [&str; 2], kind: u8) -> Vec<u8> {
    let is_v4 = ends[0].contains('.');
    let body = [kind, 0, 0, 0, 0, 7, 0, 1, 1, 2, 3];
    summed(frame(macs, ends, if is_v4 { 1 } else { 58 }, &body), 2, !is_v4)
}

/// An ICMP error of a port's machine about a packet.
fn error_about(macs: [Mac; 2], ends: [&str; 2], kind: u8, quote: &[u8]) -> Vec<u8> {
    let body = [&[kind, 3, 0, 0, 0, 0, 0, 0], quote].concat();
    summed(frame(macs, ends, 1, &body), 2, false)
}

const SYN: tcp::Flags = tcp::Flags::SYN;
const ACK: tcp::Flags = tcp::Flags::ACK;
const RST: tcp::Flags = tcp::Flags::RST;
const FIN: tcp::Flags = tcp::Flags::FIN;

const AB: [&str; 2] = ["10.1.0.1", "10.1.0.2"];
const BA: [&str; 2] = ["10.1.0.2", "10.1.0.1"];
const AC: [&str; 2] = ["10.1.0.1", "10.2.0.3"];

fn syn() -> Vec<u8> {
    tcp_of([A, B], AB, [4000, 80], SYN, [100, 0])
}

/// Opens a connection from `a` to port 80 of `b`.
fn open(net: &mut Net) {
    net.gets("a", &syn(), "b");
    net.gets("b", &tcp_of([B, A], BA, [80, 4000], SYN | ACK, [500, 101]), "a");
    net.gets("a", &data(), "b");
}

fn data() -> Vec<u8> {
    tcp_of([A, B], AB, [4000, 80], ACK, [101, 501])
}

fn reply() -> Vec<u8> {
    tcp_of([B, A], BA, [80, 4000], ACK, [501, 101])
}

fn ip(frame: &[u8]) -> packet::Ip {
    Fields::of(frame).unwrap().ip.unwrap()
}

/// Writes another TTL.
fn ttl(frame: &mut [u8], ttl: u8) {
    frame[22] = ttl;
    frame[24..26].fill(0);
    let sum = Sum::of(&frame[14..34]).checksum();
    frame[24..26].copy_from_slice(&sum.to_be_bytes());
}

const SNAT: &str = "- {kind: Nat, metadata: {name: out, tenant: t}, spec: {router: r, kind: snat, external: 10.2.0.100, logical: 10.1.0.0/24}}\n";
const FLOATING: &str = "- {kind: Nat, metadata: {name: own, tenant: t}, spec: {router: r, kind: floating, external: 10.2.0.101, logical: 10.1.0.1}}\n";
const DNAT: &str = "- {kind: Nat, metadata: {name: in, tenant: t}, spec: {router: r, kind: dnat, external: 10.2.0.102, logical: 10.1.0.2, protocol: tcp, externalPorts: '8080', port: 80}}\n";
