//! What is sent in a world.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use logical::topology::{Attachment, PortIndex, Topology};
use units::{Class, Mac, Rng};
use wire::ip::protocol;
use wire::{arp, dhcp4, ethernet, fragments, neighbor, tcp, udp, whole};
use zerocopy::{FromBytes, FromZeros, IntoBytes};

use crate::{Options, World};

/// A frame at the port whose machine sends it.
#[derive(Clone, Debug)]
pub struct Sent {
    /// The port.
    pub port: PortIndex,
    /// The frame, all of it, with its checksums.
    pub frame: Vec<u8>,
}

/// Ethernet addresses that worlds have, and one that they do not.
const MACS: [[u8; 6]; 4] =
    [[2, 0, 0, 0, 1, 1], [2, 0, 0, 0, 0, 0xfe], [2, 0, 0, 0, 9, 9], [6, 0x7a, 0x6f, 0x76, 0, 0]];

/// Addresses besides those of ports.
const STRANGE: [&str; 24] = [
    "10.9.0.1",
    "10.9.0.9",
    "10.1.0.200",
    "0.0.0.0",
    "224.0.0.5",
    "172.16.0.1",
    "8.8.8.8",
    "10.2.0.77",
    "10.1.0.254",
    "10.2.0.254",
    "10.2.0.100",
    "10.2.0.101",
    "10.2.0.102",
    "10.4.0.1",
    "10.6.0.1",
    "10.6.0.2",
    "10.1.0.253",
    "255.255.255.255",
    "127.0.0.1",
    "fd01::fe",
    "fd09::9",
    "ff02::1",
    "fe80::1",
    "::",
];

/// Where load balancers of switches are.
const BALANCER: Mac = Mac([2, 0x7a, 0x6f, 0x76, 0, 1]);

/// Addresses and ports that somebody stands for in some worlds.
const STOOD_FOR: [([u8; 4], u16); 6] = [
    ([10, 6, 0, 1], 80),
    ([10, 6, 0, 2], 80),
    ([10, 2, 0, 100], 443),
    ([10, 2, 0, 101], 443),
    ([10, 2, 0, 102], 8080),
    ([10, 4, 0, 1], 80),
];

struct Sender<'a> {
    topology: &'a Topology,
    options: Options,
    rng: &'a mut Rng,
    port: PortIndex,
}

impl World {
    /// A frame at a machine's port, often one that arrives.
    pub fn frame(&self, rng: &mut Rng) -> Sent {
        let topology = &self.topology;
        let ports: Vec<_> = topology
            .ports()
            .filter(|(_, it)| !matches!(it.attachment, Attachment::Router(_)))
            .map(|(index, _)| index)
            .collect();
        let port = ports[usize::try_from(rng.below(ports.len() as u64)).unwrap_or(0)];
        let mut sender = Sender { topology, options: self.options, rng, port };
        let mut frame = sender.frame();
        let parent = match topology[port].attachment {
            Attachment::Child { parent, vlan } if !sender.once_in(8) => Some((parent, vlan)),
            _ => None,
        };
        if let Some((_, vlan)) = parent {
            let tag = ethernet::Tag { class: Class::default(), vlan };
            frame = ethernet::tagged(&frame, tag);
        }
        Sent { port: parent.map_or(port, |(parent, _)| parent), frame }
    }

    /// What a machine sends to an address that a router, or a load balancer, stands for.
    pub fn aimed(&self, rng: &mut Rng) -> Sent {
        let topology = &self.topology;
        let is_machine = |it: &Attachment| matches!(it, Attachment::Vif | Attachment::Local);
        let ports = topology.ports().filter(|(_, it)| is_machine(&it.attachment));
        let ports: Vec<_> =
            ports.filter(|(_, it)| it.addresses.iter().any(IpAddr::is_ipv4)).collect();
        let mut below = |bound: usize| rng.below(bound as u64) as usize;
        if ports.is_empty() {
            return self.frame(rng);
        }
        let (port, own) = ports[below(ports.len())];
        let from = own.addresses.iter().copied().find(IpAddr::is_ipv4);
        let (address, to) = STOOD_FOR[below(STOOD_FOR.len())];
        let is_router =
            |it: &&PortIndex| matches!(topology[**it].attachment, Attachment::Router(_));
        let router = topology[own.switch].ports.iter().find(is_router).map(|it| topology[*it].mac);
        let mac = router.filter(|_| below(4) > 0).unwrap_or(BALANCER);
        let source = 1024 + below(4) as u16;
        let (kind, body) = match below(4) {
            0 => (protocol::UDP, udp::Header::new(source, to, 0).map(|it| it.as_bytes().to_vec())),
            _ => {
                let first = tcp::Header::new(source, to, 7, tcp::Flags::SYN);
                (protocol::TCP, Some(first.as_bytes().to_vec()))
            }
        };
        let ends = (from.unwrap_or(Ipv4Addr::UNSPECIFIED.into()), IpAddr::from(address));
        let frame = whole::packet((own.mac, mac), ends, kind, &body.unwrap_or_default());
        Sent { port, frame: frame.unwrap_or_default() }
    }

    /// What may come back of a frame that somebody got: its ends, the other way around.
    pub fn reply(&self, frame: &[u8], rng: &mut Rng) -> Option<Vec<u8>> {
        let header = ethernet::Header::parse(frame)?.0;
        let macs = (Mac(header.destination), Mac(header.source));
        if self.options.strangers {
            let stranger = Mac([2, 0, 0, 0, 9, 1 + rng.below(3) as u8]);
            if let Some(asked) = arp::Request::parse(frame) {
                return Some(asked.answer(stranger).as_bytes().to_vec());
            }
            if let Some(asked) = neighbor::Solicitation::parse(frame) {
                return Some(asked.answer(stranger, false).as_bytes().to_vec());
            }
        }
        let layout = wire::ip::Layout::of(frame)?;
        let (from, to) = ends(frame, &layout)?;
        let body = frame.get(layout.transport..layout.end)?;
        if rng.below(8) == 0 {
            let quote = &frame[layout.network..layout.end.min(layout.transport + 8)];
            return error((macs.0, macs.1), (to, from), quote);
        }
        let mut body = body.to_vec();
        match layout.protocol {
            protocol::TCP => {
                let (header, _) = tcp::Header::ref_from_prefix(&body).ok()?;
                let (sequence, acknowledgment) =
                    (header.acknowledgment.get(), header.sequence.get());
                let is_first = header.flags.contains(tcp::Flags::SYN);
                let asks = is_first && !header.flags.contains(tcp::Flags::ACK);
                let flags = if asks { tcp::Flags::SYN | tcp::Flags::ACK } else { tcp::Flags::ACK };
                let data = (body.len() - header.len()) as u32 + u32::from(is_first);
                let (source, destination) = (header.destination.get(), header.source.get());
                let mut answer = tcp::Header::new(source, destination, sequence, flags);
                answer.acknowledgment.set(acknowledgment.wrapping_add(data));
                body = answer.as_bytes().to_vec();
            }
            protocol::UDP => body.get_mut(..4)?.rotate_left(2),
            protocol::ICMP if body.first() == Some(&8) => body[0] = 0,
            protocol::ICMPV6 if body.first() == Some(&128) => body[0] = 129,
            _ => {}
        }
        whole::packet(macs, (to, from), layout.protocol, &body)
    }
}

/// A packet's addresses.
fn ends(frame: &[u8], layout: &wire::ip::Layout) -> Option<(IpAddr, IpAddr)> {
    let packet = frame.get(layout.network..layout.end)?;
    Some(match layout.version {
        wire::ip::Version::V4 => {
            let [source, destination] = [12, 16]
                .map(|at| packet.get(at..at + 4).and_then(|it| it.as_array::<4>()).copied());
            (Ipv4Addr::from(source?).into(), Ipv4Addr::from(destination?).into())
        }
        wire::ip::Version::V6 => {
            let [source, destination] = [8, 24]
                .map(|at| packet.get(at..at + 16).and_then(|it| it.as_array::<16>()).copied());
            (Ipv6Addr::from(source?).into(), Ipv6Addr::from(destination?).into())
        }
    })
}

/// An error about a packet: its port is unreachable.
fn error(macs: (Mac, Mac), ends: (IpAddr, IpAddr), quote: &[u8]) -> Option<Vec<u8>> {
    let (carried, kind) = match ends.0 {
        IpAddr::V4(_) => (protocol::ICMP, [3, 3]),
        IpAddr::V6(_) => (protocol::ICMPV6, [1, 4]),
    };
    let body = [&kind[..], &[0; 6], quote].concat();
    whole::packet(macs, ends, carried, &body)
}

impl Sender<'_> {
    fn below(&mut self, bound: usize) -> usize {
        usize::try_from(self.rng.below(bound as u64)).unwrap_or(0)
    }

    fn once_in(&mut self, times: usize) -> bool {
        self.below(times) == 0
    }

    fn one<T: Copy>(&mut self, of: &[T]) -> T {
        of[self.below(of.len())]
    }

    /// The Ethernet addresses: mostly its own, and one of its switch.
    fn macs(&mut self, to: Option<Mac>) -> (Mac, Mac) {
        let own = &self.topology[self.port];
        let from = match self.once_in(16) {
            true => Mac(self.one(&MACS)),
            false => own.mac,
        };
        let near: Vec<_> =
            self.topology[own.switch].ports.iter().map(|it| self.topology[*it].mac).collect();
        let to = match (self.below(14), to) {
            (0, _) => Mac([1, 0, 0x5e, 0, 0, 1]),
            (1, _) => Mac([6, 0, 0, 0, 0, 1]),
            (2, _) => Mac::BROADCAST,
            (3..=9, Some(to)) => to,
            _ => self.one(&near),
        };
        (from, to)
    }

    fn frame(&mut self) -> Vec<u8> {
        match self.below(16) {
            0 => {
                let (from, to) = self.macs(None);
                let kind = self.one(&[35000, 0x88b5, 0x0001, 0x8100, ethernet::ethertype::IPV4]);
                let mut frame = ethernet::Header::new(to, from, kind).as_bytes().to_vec();
                frame.extend((0..self.below(50)).map(|byte| byte as u8));
                frame
            }
            1 | 2 => self.neighbour(),
            3 if self.once_in(2) => self.groups(),
            3 => self.service(),
            _ => self.packet(),
        }
    }

    /// A machine joins a group, leaves it, or sends to it.
    fn groups(&mut self) -> Vec<u8> {
        let own = &self.topology[self.port];
        let (mac, addresses) = (own.mac, own.addresses.clone());
        let from = addresses.into_iter().find(IpAddr::is_ipv4);
        let from = from.unwrap_or(IpAddr::from([10, 1, 0, 1]));
        let group = self.one(&[[239, 1, 1, 1], [239, 1, 1, 2], [224, 0, 0, 9]]);
        let macs = (mac, Mac([1, 0, 0x5e, 1, 1, group[3]]));
        let ends = (from, IpAddr::from(group));
        let datagram = udp::Header::new(80, 80, 0).map(|it| it.as_bytes().to_vec());
        let (carried, mut body) = match self.one(&[0, 0, 0, 0x16, 0x16, 0x16, 0x17, 0x22, 0x11]) {
            0 => (protocol::UDP, datagram.unwrap_or_default()),
            0x22 => {
                (protocol::IGMP, [&[0x22, 0, 0, 0, 0, 0, 0, 1, 4, 0, 0, 0], &group[..]].concat())
            }
            0x11 if !self.once_in(8) => (protocol::UDP, vec![0; 4]),
            kind => (protocol::IGMP, [&[kind, 0, 0, 0], &group[..]].concat()),
        };
        if carried == protocol::IGMP {
            let sum = wire::checksum::Sum::of(&body).checksum();
            body[2..4].copy_from_slice(&sum.to_be_bytes());
        }
        whole::packet(macs, ends, carried, &body).unwrap_or_default()
    }

    /// A machine's question for an address, or a far server's answer to one.
    fn service(&mut self) -> Vec<u8> {
        let own = &self.topology[self.port];
        let (mac, addresses) = (own.mac, own.addresses.clone());
        let is_answer = self.once_in(3);
        let (macs, ends, ports) = match is_answer {
            true => {
                let router = Mac([2, 0, 0, 0, 0, self.one(&[0xfd, 0xfb, 0xfe])]);
                let from = self.address(true, &addresses);
                ((mac, router), (from, [10, 1, 0, 254].into()), (67, 67))
            }
            false => {
                let ends = (IpAddr::from([0; 4]), IpAddr::from([255; 4]));
                ((mac, Mac::BROADCAST), ends, (68, 67))
            }
        };
        let payload = self.lease(is_answer);
        let header = udp::Header::new(ports.0, ports.1, payload.len());
        let header = header.map(|it| it.as_bytes().to_vec()).unwrap_or_default();
        let body = [header, payload].concat();
        whole::packet(macs, ends, protocol::UDP, &body).unwrap_or_default()
    }

    /// The address of a port, or a strange one, of a family.
    fn address(&mut self, is_v4: bool, of: &[IpAddr]) -> IpAddr {
        let strange = STRANGE.iter().map(|it| it.parse().expect("they are addresses"));
        let strange: Vec<IpAddr> = strange.filter(|it: &IpAddr| it.is_ipv4() == is_v4).collect();
        let own: Vec<_> = of.iter().copied().filter(|it| it.is_ipv4() == is_v4).collect();
        match own.is_empty() || self.once_in(9) {
            true => self.one(&strange),
            false => self.one(&own),
        }
    }

    /// All addresses that ports have.
    fn others(&mut self) -> Vec<IpAddr> {
        let machines = self.topology.ports().flat_map(|(_, it)| it.addresses.iter().copied());
        let routers = self.topology.router_ports().flat_map(|(_, it)| &it.addresses);
        machines.chain(routers.map(|it| it.address)).collect()
    }

    /// A question for an address, or an answer to one.
    fn neighbour(&mut self) -> Vec<u8> {
        let own = self.topology[self.port].addresses.clone();
        let others = self.others();
        let is_v4 = self.once_in(2);
        let (from, to) = self.macs(Some(Mac::BROADCAST));
        let (sender, target) = (self.address(is_v4, &own), self.address(is_v4, &others));
        match (sender, target) {
            (IpAddr::V4(sender), IpAddr::V4(target)) => {
                let named = if self.once_in(8) { Mac(MACS[2]) } else { from };
                let kind = self.one(&[1, 1, 2]);
                let packet = arp::Packet::new(kind, (named, sender), (Mac([0; 6]), target));
                let mut frame =
                    ethernet::Header::new(to, from, ethernet::ethertype::ARP).as_bytes().to_vec();
                frame.extend(packet.as_bytes());
                frame
            }
            (IpAddr::V6(sender), IpAddr::V6(target)) => {
                neighbor::Frame::solicitation((from, sender), target).as_bytes().to_vec()
            }
            _ => Vec::new(),
        }
    }

    fn packet(&mut self) -> Vec<u8> {
        let is_v4 = !self.once_in(4);
        let own = self.topology[self.port].addresses.clone();
        let others = self.others();
        let (source, destination) = (self.address(is_v4, &own), self.address(is_v4, &others));
        let near = self.topology[self.topology[self.port].switch].ports.iter();
        let near: Vec<_> = near.map(|it| &self.topology[*it]).collect();
        let owner = near.iter().find(|it| it.addresses.contains(&destination));
        let router = near.iter().find(|it| matches!(it.attachment, Attachment::Router(_)));
        let macs = self.macs(owner.or(router).map(|it| it.mac));
        let (carried, body) = self.body(is_v4);
        let Some(mut frame) = whole::packet(macs, (source, destination), carried, &body) else {
            return Vec::new();
        };
        if self.once_in(10) {
            // The last router that it may pass, or none.
            let at = ethernet::Header::LEN + if is_v4 { 8 } else { 7 };
            frame[at] = self.one(&[0, 1, 2, 255]);
            whole::seal(&mut frame);
        }
        if self.once_in(12) {
            return self.part(frame);
        }
        if self.once_in(30) {
            let at = self.below(frame.len());
            frame[at] ^= 1 << self.below(8);
        }
        frame
    }

    /// One of the parts of a packet.
    fn part(&mut self, mut frame: Vec<u8>) -> Vec<u8> {
        if frame.get(12..14) == Some(&[8, 0]) {
            // It may be cut.
            frame[ethernet::Header::LEN + 6] &= !0x40;
            whole::seal(&mut frame);
        }
        let most = 14 + self.one(&[48, 56, 64]);
        let Some(parts) = fragments(&frame, most) else { return frame };
        let parts: Vec<Vec<u8>> = parts
            .filter_map(|part| {
                let mut bytes = vec![0; part.len()];
                part.write(&mut bytes)?;
                Some(bytes)
            })
            .collect();
        match parts.is_empty() {
            true => frame,
            false => parts[self.below(parts.len())].clone(),
        }
    }

    /// A question for an address by DHCP, or an answer to one (RFC 2131).
    fn lease(&mut self, is_answer: bool) -> Vec<u8> {
        let own = &self.topology[self.port];
        let mut header = dhcp4::Header::new_zeroed();
        (header.htype, header.hlen) = (1, 6);
        header.chaddr[..6].copy_from_slice(&own.mac.0);
        let kind = match is_answer {
            true => {
                header.op = dhcp4::op::REPLY;
                header.giaddr = self.one(&[[10, 1, 0, 254], [0; 4]]);
                header.yiaddr = [10, 1, 0, 1];
                header.chaddr[..6].copy_from_slice(&MACS[0]);
                dhcp4::Kind::Offer
            }
            false => {
                header.op = dhcp4::op::REQUEST;
                self.one(&[dhcp4::Kind::Discover, dhcp4::Kind::Request, dhcp4::Kind::Inform])
            }
        };
        let mut writer = dhcp4::Writer::new(&header, kind, 1472);
        if kind == dhcp4::Kind::Request {
            writer
                .put(dhcp4::option::REQUESTED_ADDRESS, &self.one(&[[10, 1, 0, 1], [10, 1, 0, 2]]));
        }
        let mut message = writer.finish();
        // What says that options follow (RFC 2131 §3).
        message[236..240].copy_from_slice(&[99, 130, 83, 99]);
        message
    }

    /// What a packet carries: the protocol's number, and its bytes.
    fn body(&mut self, is_v4: bool) -> (u8, Vec<u8>) {
        const PORTS: [u16; 12] = [80, 443, 53, 67, 68, 81, 1000, 8080, 547, 546, 5000, 1];
        let (source, destination) = (self.one(&PORTS), self.one(&PORTS));
        match self.below(9) {
            0..=3 => {
                let syn = tcp::Flags::SYN;
                if !self.options.stray {
                    let header = tcp::Header::new(source, destination, 1000, syn);
                    return (protocol::TCP, header.as_bytes().to_vec());
                }
                let ack = tcp::Flags::ACK;
                let flags = self.one(&[
                    syn,
                    syn,
                    syn,
                    ack,
                    syn | ack,
                    ack | tcp::Flags::FIN,
                    tcp::Flags::RST,
                ]);
                let sequence = self.one(&[1, 2, 1000, u32::MAX]);
                let mut header = tcp::Header::new(source, destination, sequence, flags);
                header.acknowledgment.set(self.one(&[0, 1, 2, 1001]));
                let payload = vec![7; self.one(&[0, 0, 10, 100])];
                (protocol::TCP, [header.as_bytes(), &payload].concat())
            }
            4 | 5 => {
                let payload = match destination {
                    53 => question(),
                    67 => self.lease(false),
                    _ => vec![7; self.one(&[0, 20, 1400])],
                };
                let header = udp::Header::new(source, destination, payload.len());
                let header = header.map(|it| it.as_bytes().to_vec()).unwrap_or_default();
                (protocol::UDP, [header, payload].concat())
            }
            6 => {
                let kind = match is_v4 {
                    true => self.one(&[8, 8, 0, 13]),
                    false => self.one(&[128, 128, 129, 133]),
                };
                let carried = if is_v4 { protocol::ICMP } else { protocol::ICMPV6 };
                (carried, vec![kind, 0, 0, 0, 0, 1, 0, 1, 2, 3])
            }
            7 => (self.one(&[47, 132, 2, 50]), vec![0, 80, 0, 80, 0, 0, 0, 0, 1, 2, 3, 4]),
            _ => {
                // An error about a packet the other way.
                let ends: (IpAddr, IpAddr) = match is_v4 {
                    true => ([10, 1, 0, 1].into(), [10, 2, 0, 1].into()),
                    false => {
                        let end = |n: u16| Ipv6Addr::new(0xfd00 + n, 0, 0, 0, 0, 0, 0, 1);
                        (end(1).into(), end(2).into())
                    }
                };
                let header = udp::Header::new(destination, source, 0);
                let header = header.map(|it| it.as_bytes().to_vec()).unwrap_or_default();
                let none = Mac([2; 6]);
                let quoted = whole::packet((none, none), ends, protocol::UDP, &header);
                let quoted = quoted.unwrap_or_default();
                let (carried, kind) = match is_v4 {
                    true => (protocol::ICMP, [3, 3]),
                    false => (protocol::ICMPV6, [1, 4]),
                };
                (carried, [&kind[..], &[0; 6], quoted.get(14..).unwrap_or_default()].concat())
            }
        }
    }
}

/// A question for a name (RFC 1035 §4.1).
fn question() -> Vec<u8> {
    let header = [0, 9, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0];
    [&header[..], b"\x03web\x01t\x00", &[0, 1, 0, 1]].concat()
}
