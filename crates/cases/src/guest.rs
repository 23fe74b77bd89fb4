//! Machines at ports: they resolve by ARP and ND, serve every port, and answer echoes.
//!
//! ```text
//! a packet ─ next hop known? ─ yes ─▶ frame
//!                  └─ no ─▶ question; the packet waits for the answer
//! a frame ─▶ answers: ARP, ND, echo, TCP's next segment, the datagram back
//! ```

use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::vec::Vec;
use core::net::IpAddr;

use interpreter::{Fields, Tuple};
use units::{Mac, Prefix};
use wire::ethernet::ethertype;
use wire::ip::{Fragment, Version, protocol};
use wire::neighbor::link_local;
use wire::{arp, neighbor, tcp, udp, whole};
use zerocopy::IntoBytes;
use zerocopy::network_endian::{U16, U32};

use crate::layers::{Layer, Layers};

/// How much each end takes at a time, in bytes.
const WINDOW: u16 = 64_000;

/// A router's port on a machine's switch.
#[derive(Clone, Debug)]
pub struct Leg {
    pub mac: Mac,
    pub addresses: Vec<Prefix>,
}

/// One end of a TCP connection.
#[derive(Clone, Copy, Debug, Default)]
pub struct Tcp {
    /// What it sends next, and what of that the other end has.
    next: u32,
    acknowledged: u32,
    /// What it expects next.
    expects: u32,
    pub is_open: bool,
    pub is_reset: bool,
}

impl Tcp {
    /// Whether the other end has all that was sent.
    pub const fn is_settled(&self) -> bool {
        self.is_open && self.next == self.acknowledged
    }
}

/// What has come back for what a machine sent.
#[derive(Clone, Debug, Default)]
pub struct Heard {
    /// Datagrams, or echoes: who sent them.
    pub answers: Vec<IpAddr>,
    /// Whether somebody said that it does not arrive.
    pub unreachable: bool,
}

/// A machine.
#[derive(Clone, Debug)]
pub struct Guest {
    pub mac: Mac,
    pub addresses: Vec<IpAddr>,
    pub legs: Vec<Leg>,
    neighbours: BTreeMap<IpAddr, Mac>,
    /// Packets whose next hop is not known yet.
    waiting: Vec<(IpAddr, Vec<u8>)>,
    /// TCP connections by their ends, this machine's first.
    pub tcp: BTreeMap<Tuple, Tcp>,
    /// What came back, by the ends of what was sent.
    pub heard: BTreeMap<Tuple, Heard>,
    /// How many connections it has begun.
    begun: u32,
    /// Flows that others began: their ends as seen here, the other machine's first.
    pub served: Vec<Tuple>,
}

impl Guest {
    /// A machine that knows nothing yet.
    pub fn new(mac: Mac, addresses: Vec<IpAddr>, legs: Vec<Leg>) -> Self {
        Self {
            mac,
            addresses,
            legs,
            neighbours: BTreeMap::new(),
            waiting: Vec::new(),
            tcp: BTreeMap::new(),
            heard: BTreeMap::new(),
            begun: 0,
            served: Vec::new(),
        }
    }

    /// What it keeps when its network changes: connections. Neighbours are asked for again.
    pub fn changed_to(&mut self, mac: Mac, addresses: Vec<IpAddr>, legs: Vec<Leg>) {
        (self.mac, self.addresses, self.legs) = (mac, addresses, legs);
        self.neighbours.clear();
        self.waiting.clear();
    }

    /// The address by which it speaks to another.
    pub fn address_for(&self, other: IpAddr) -> Option<IpAddr> {
        if matches!(other, IpAddr::V6(it) if it.is_unicast_link_local()) {
            return Some(link_local(self.mac).into());
        }
        self.addresses.iter().find(|it| it.is_ipv4() == other.is_ipv4()).copied()
    }

    fn has(&self, address: IpAddr) -> bool {
        self.addresses.contains(&address) || address == IpAddr::V6(link_local(self.mac))
    }

    /// Whom it hands a packet for an address to.
    fn next_hop(&self, to: IpAddr) -> IpAddr {
        let is_link = matches!(to, IpAddr::V6(it) if it.is_unicast_link_local());
        let mut prefixes = self.legs.iter().flat_map(|leg| &leg.addresses);
        let is_here =
            prefixes.any(|prefix| logical::objects::AddressRange::from(*prefix).contains(to));
        if self.legs.is_empty() || is_link || is_here {
            return to;
        }
        let of_family = |leg: &Leg| {
            leg.addresses.iter().map(|it| it.address).find(|it| it.is_ipv4() == to.is_ipv4())
        };
        let first = self.legs.iter().find_map(of_family);
        first.unwrap_or_else(|| match to.is_ipv4() {
            true => to,
            false => self.legs.first().map_or(to, |leg| link_local(leg.mac).into()),
        })
    }

    /// Sends a packet: the frames that leave now. `via`: to this machine, whatever is known.
    fn output(&mut self, tuple: Tuple, body: &[u8], via: Option<Mac>) -> Vec<Vec<u8>> {
        let (from, to) = (tuple.source.0, tuple.destination.0);
        let hop = self.next_hop(to);
        let known = via.or_else(|| self.neighbours.get(&hop).copied());
        let macs = (self.mac, known.unwrap_or_default());
        let Some(packet) = whole::packet(macs, (from, to), tuple.protocol, body) else {
            return Vec::new();
        };
        if known.is_some() {
            return alloc::vec![packet];
        }
        self.waiting.push((hop, packet));
        let question = match (hop, self.address_for(hop)) {
            (IpAddr::V4(hop), Some(IpAddr::V4(own))) => {
                arp::Frame::request((self.mac, own), hop).as_bytes().to_vec()
            }
            (IpAddr::V6(hop), Some(IpAddr::V6(own))) => {
                neighbor::Frame::solicitation((self.mac, own), hop).as_bytes().to_vec()
            }
            _ => return Vec::new(),
        };
        alloc::vec![question]
    }

    /// Gives up on addresses that nobody has.
    pub fn give_up(&mut self) {
        self.waiting.clear();
    }

    fn learn(&mut self, address: IpAddr, mac: Mac) -> Vec<Vec<u8>> {
        self.neighbours.insert(address, mac);
        let (ready, waiting) =
            core::mem::take(&mut self.waiting).into_iter().partition(|(hop, _)| *hop == address);
        self.waiting = waiting;
        let ready: Vec<(IpAddr, Vec<u8>)> = ready;
        ready
            .into_iter()
            .map(|(_, mut frame)| {
                frame[..6].copy_from_slice(&mac.0);
                frame
            })
            .collect()
    }

    /// Begins a TCP connection.
    pub fn connect(&mut self, tuple: Tuple, via: Option<Mac>) -> Vec<Vec<u8>> {
        self.heard.insert(tuple, Heard::default());
        // Each connection begins with greater numbers than those before (RFC 9293 section 3.4.1).
        self.begun = self.begun.wrapping_add(1);
        let first = self.begun.wrapping_mul(100_000);
        let next = first.wrapping_add(1);
        self.tcp.insert(tuple, Tcp { next, acknowledged: first, ..Tcp::default() });
        self.output(tuple, &segment(tuple, [first, 0], tcp::Flags::SYN, &[]), via)
    }

    /// Sends four bytes of a connection, and what of it is not acknowledged yet.
    pub fn write(&mut self, tuple: Tuple, via: Option<Mac>) -> Vec<Vec<u8>> {
        let Some(end) = self.tcp.get_mut(&tuple).filter(|it| it.is_open && !it.is_reset) else {
            return Vec::new();
        };
        end.next = end.next.wrapping_add(4);
        let len = end.next.wrapping_sub(end.acknowledged).min(1000) as usize;
        let numbers = [end.acknowledged, end.expects];
        let data: Vec<u8> = (0..len).map(|i| b"data"[i % 4]).collect();
        self.output(tuple, &segment(tuple, numbers, tcp::Flags::ACK | tcp::Flags::PSH, &data), via)
    }

    /// Sends a datagram, or whatever a protocol without connections has.
    pub fn ask(&mut self, tuple: Tuple, data: &[u8], via: Option<Mac>) -> Vec<Vec<u8>> {
        self.heard.entry(tuple).or_default();
        let body = datagram(tuple, data, true);
        self.output(tuple, &body, via)
    }

    /// What it does about a frame that it got.
    pub fn react(&mut self, frame: &[u8]) -> Vec<Vec<u8>> {
        let Some(fields) = Fields::of(frame) else { return Vec::new() };
        if fields.ethertype == ethertype::ARP {
            return self.react_to_arp(frame);
        }
        let Some(ip) = fields.ip else { return Vec::new() };
        let is_nd = ip.icmp.filter(|_| ip.layout.version == Version::V6).map(|it| it.kind);
        match is_nd {
            Some(135) => {
                let Some(asked) = neighbor::Solicitation::parse(frame) else { return Vec::new() };
                let own = self.has(asked.target.into()) && !asked.sender.1.is_unspecified();
                return own
                    .then(|| asked.answer(self.mac, false).as_bytes().to_vec())
                    .into_iter()
                    .collect();
            }
            Some(136) => {
                let Some(told) = neighbor::Advertisement::parse(frame) else { return Vec::new() };
                let mac = told.mac.unwrap_or(fields.source);
                return self.learn(told.target.into(), mac);
            }
            Some(130..=134 | 137 | 143) => return Vec::new(),
            _ => {}
        }
        let is_mine = self.has(ip.tuple.destination.0) && fields.destination == self.mac;
        if !is_mine || ip.layout.fragment != Fragment::Whole {
            return Vec::new();
        }
        if ip.is_error() {
            let quoted = ip.icmp.and_then(|it| it.quoted);
            if let Some(heard) = quoted.and_then(|it| self.heard.get_mut(&it)) {
                heard.unreachable = true;
                heard.answers.push(ip.tuple.source.0);
            }
            return Vec::new();
        }
        let own = ip.tuple.reversed();
        if let Some(header) = ip.tcp {
            return self.react_to_tcp(own, &header, payload(frame).len() as u32);
        }
        if let Some(heard) = self.heard.get_mut(&own) {
            heard.answers.push(ip.tuple.source.0);
            return Vec::new();
        }
        let is_answer = ip.icmp.is_some_and(|it| matches!(it.kind, 0 | 129));
        if is_answer {
            return Vec::new();
        }
        self.served.push(ip.tuple);
        let body = datagram(own, payload(frame), false);
        self.output(own, &body, None)
    }

    fn react_to_arp(&mut self, frame: &[u8]) -> Vec<Vec<u8>> {
        let Some(packet) = arp::Packet::parse(frame) else { return Vec::new() };
        if packet.operation.get() == arp::operation::REPLY {
            let sender = core::net::Ipv4Addr::from(packet.sender_protocol);
            return self.learn(sender.into(), Mac(packet.sender));
        }
        let asked = arp::Request::parse(frame)
            .filter(|it| self.addresses.contains(&it.target.into()) && it.sender.1 != it.target);
        asked.map(|it| it.answer(self.mac).as_bytes().to_vec()).into_iter().collect()
    }

    fn react_to_tcp(&mut self, own: Tuple, header: &tcp::Header, len: u32) -> Vec<Vec<u8>> {
        let sets = |flag| header.flags.contains(flag);
        let sequence = header.sequence.get();
        if sets(tcp::Flags::RST) {
            if let Some(end) = self.tcp.get_mut(&own) {
                end.is_reset = true;
            }
            return Vec::new();
        }
        if sets(tcp::Flags::SYN) && !sets(tcp::Flags::ACK) {
            self.served.push(own.reversed());
            let end = Tcp {
                next: 501,
                acknowledged: 500,
                expects: sequence.wrapping_add(1),
                ..Tcp::default()
            };
            self.tcp.insert(own, end);
            let flags = tcp::Flags::SYN | tcp::Flags::ACK;
            return self.output(own, &segment(own, [500, end.expects], flags, &[]), None);
        }
        let Some(end) = self.tcp.get_mut(&own) else {
            let flags = tcp::Flags::RST;
            let body = segment(own, [header.acknowledgment.get(), 0], flags, &[]);
            return self.output(own, &body, None);
        };
        if sets(tcp::Flags::ACK) {
            end.acknowledged = header.acknowledgment.get();
            end.is_open = true;
        }
        if sets(tcp::Flags::SYN) {
            end.expects = sequence.wrapping_add(1);
        } else if len == 0 {
            return Vec::new();
        } else {
            end.expects = sequence.wrapping_add(len);
        }
        let numbers = [end.next, end.expects];
        self.output(own, &segment(own, numbers, tcp::Flags::ACK, &[]), None)
    }
}

/// What is behind a frame's last header.
fn payload(frame: &[u8]) -> &[u8] {
    Layers::of(frame).get(Layer::Payload).and_then(|it| frame.get(it)).unwrap_or_default()
}

fn segment(tuple: Tuple, numbers: [u32; 2], flags: tcp::Flags, data: &[u8]) -> Vec<u8> {
    let mut header = tcp::Header::new(tuple.source.1, tuple.destination.1, numbers[0], flags);
    header.window = U16::new(WINDOW);
    header.acknowledgment = U32::new(numbers[1]);
    [header.as_bytes(), data].concat()
}

/// What carries data of a protocol without connections.
fn datagram(tuple: Tuple, data: &[u8], is_question: bool) -> Vec<u8> {
    let [source, destination] = [tuple.source.1, tuple.destination.1];
    match tuple.protocol {
        protocol::UDP => {
            let header = udp::Header::new(source, destination, data.len());
            header.map_or_else(Vec::new, |header| [header.as_bytes(), data].concat())
        }
        protocol::ICMP | protocol::ICMPV6 => {
            let kind = match (tuple.protocol, is_question) {
                (protocol::ICMP, true) => 8,
                (protocol::ICMP, false) => 0,
                (_, true) => 128,
                (_, false) => 129,
            };
            let [high, low] = source.to_be_bytes();
            [&[kind, 0, 0, 0, high, low, 0, 1], data].concat()
        }
        132 => {
            let ports = [source.to_be_bytes(), destination.to_be_bytes()].concat();
            [&ports, &[0; 8][..], data].concat()
        }
        _ => data.to_vec(),
    }
}

/// Machines by the names of their ports.
pub type Guests = BTreeMap<String, Guest>;
