//! UDP frames by a packet socket: tags, code points and addresses are the program's choice, where
//! its kernel would have filled in the interface's.
//!
//! Frames are for one target after the other; when each had one, for the next port of each; when
//! each port had one, from the next port of the sender's; and when each of those had sent, of the
//! next class. What they carry is what those of
//! [`UdpSend`](super::UdpSend) do, so that an ordinary receiver counts them.

use std::net::SocketAddrV4;
use std::time::{Duration, Instant};

use lab::INTERFACE;
use rustix::net::sockopt::{Timeout, set_socket_timeout};
use serde::{Deserialize, Serialize};
use units::{Class, Mac, Span};
use wire::ethernet::{Tag, TagHeader, ethertype};
use wire::{ethernet, ip, ipv4, udp};
use zerocopy::IntoBytes;

use super::control::Control;
use super::error::{Doing, EndpointError};
use super::frame::{self, FRAME_HEADERS, GLANCE, Header, LAST, nanos};
use super::pace::Pace;
use super::udp::{SMALLEST_FRAME, UdpSent};

/// How long the marked last frames may take.
const PATIENCE: Duration = Duration::from_secs(2);

/// Sends frames for a while.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RawSend {
    /// Who says to have sent them, and the first port.
    pub from: Target,
    /// The receivers, and their first ports.
    pub to: Vec<Target>,
    /// How many ports of each are sent to.
    pub ports: u16,
    /// How many ports are sent from.
    pub sources: u16,
    /// The classes that frames are tagged with; they have no tag if there is none.
    pub tags: Vec<Class>,
    /// The differentiated services code point of their packets.
    pub dscp: u8,
    /// This sender's number, from 0.
    pub sender: u32,
    /// Bytes a frame, Ethernet header included, a tag not.
    pub size: u32,
    /// Frames a second.
    pub rate: f64,
    /// How long.
    pub duration: Span,
}

/// An end of a flow.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Target {
    /// Its Ethernet address.
    pub mac: Mac,
    /// Its address and port.
    pub address: SocketAddrV4,
}

impl Target {
    /// The same with its port of this number.
    fn port_of(mut self, number: u64) -> Self {
        self.address.set_port(self.address.port().wrapping_add(number as u16));
        self
    }
}

impl RawSend {
    /// From whom and for whom frame `number` is, by which ports, and of which class.
    fn course(&self, number: u64) -> Option<([Target; 2], Option<Class>)> {
        let [ports, sources] = [self.ports, self.sources].map(|ports| u64::from(ports.max(1)));
        let targets = self.to.len() as u64;
        let target = self.to.get(number.checked_rem(targets)? as usize)?;
        let turn = number / targets;
        let ends = [self.from.port_of(turn / ports % sources), target.port_of(turn % ports)];
        let tag = (turn / ports / sources).checked_rem(self.tags.len() as u64);
        Some((ends, tag.and_then(|tag| self.tags.get(tag as usize)).copied()))
    }

    /// Writes a whole frame to `frame`.
    fn write(&self, number: u64, flags: u32, frame: &mut Vec<u8>) {
        let Some(([from, to], class)) = self.course(number) else { return };
        let payload = (self.size - FRAME_HEADERS) as usize;
        let udp = udp::Header::new(from.address.port(), to.address.port(), payload);
        let packet = udp::Header::LEN + payload;
        let [source, destination] = [from, to].map(|end| *end.address.ip());
        let ip = ipv4::Header::new(source, destination, ip::protocol::UDP, packet);
        let (Some(udp), Some(ip)) = (udp, ip) else { return };
        let outer = if class.is_some() { ethertype::VLAN } else { ethertype::IPV4 };
        frame.clear();
        frame.extend(ethernet::Header::new(to.mac, from.mac, outer).as_bytes());
        if let Some(class) = class {
            let tci = Tag { class, vlan: 0 }.tci().into();
            frame.extend(TagHeader { tci, ethertype: ethertype::IPV4.into() }.as_bytes());
        }
        frame.extend(ip.with_traffic_class(self.dscp << 2).as_bytes());
        frame.extend(udp.as_bytes());
        let end = frame.len() + payload;
        let (sender, flags) = (self.sender.into(), flags.into());
        frame.extend(Header { sender, flags, number: number.into() }.as_bytes());
        frame.resize(end, 0);
    }
}

/// Sends until the time is over; then one more to each receiver, marked.
pub fn send(role: &RawSend, control: &Control) -> Result<UdpSent, EndpointError> {
    let has_rate = role.rate.is_finite() && role.rate > 0.0;
    if role.size < SMALLEST_FRAME || role.to.is_empty() || !has_rate {
        return Err(EndpointError::Role(format!(
            "a frame needs {SMALLEST_FRAME} bytes at least, a receiver, and a rate above 0"
        )));
    }
    let link = kernel::netlink::Netlink::open().and_then(|mut netlink| netlink.index(INTERFACE));
    let link = link.map_err(|error| EndpointError::Role(error.to_string()))?;
    let socket = kernel::packet::socket(link, 0).doing("open a socket for whole frames")?;
    set_socket_timeout(&socket, Timeout::Send, Some(GLANCE)).doing("bound a blocked send")?;
    frame::sharpen_sleep()?;
    let mut bytes = Vec::new();
    let mut report = UdpSent::default();
    let mut number = 0;
    let mut send_one = |flags, patience| {
        role.write(number, flags, &mut bytes);
        let (is_sent, blocked_ns) = frame::send(&socket, &bytes, patience);
        number += 1;
        report.sent += u64::from(is_sent);
        report.blocked_ns += blocked_ns;
    };
    control.ready();

    let begin = Instant::now();
    let end = begin + Duration::from(role.duration);
    let mut pace = Pace::new(role.rate, begin);
    while Instant::now() < end {
        pace.wait();
        send_one(0, end);
    }
    let patience = Instant::now() + PATIENCE;
    role.to.iter().for_each(|_| send_one(LAST, patience));
    report.elapsed_ns = nanos(begin.elapsed());
    Ok(report)
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::*;

    fn target(number: u8) -> Target {
        let address = SocketAddrV4::new(Ipv4Addr::new(10, 0, 0, number), 5000);
        Target { mac: Mac::local(number.into()), address }
    }

    fn role(ports: u16, tags: &[u8]) -> RawSend {
        RawSend {
            from: target(1),
            to: vec![target(2), target(3)],
            ports,
            sources: 1,
            tags: tags.iter().map(|pcp| Class::new(*pcp).unwrap()).collect(),
            dscp: 46,
            sender: 7,
            size: 64,
            rate: 1.0,
            duration: Span::ZERO,
        }
    }

    #[test]
    fn targets_then_ports_then_classes_take_turns() {
        let role = role(2, &[0, 5]);
        let courses: Vec<_> = (0..9)
            .map(|number| {
                let ([_, to], class) = role.course(number).unwrap();
                let tag = class.map_or(9, |class| class.pcp());
                (to.address.ip().octets()[3], to.address.port(), tag)
            })
            .collect();
        let of = |port, tag| [(2, port, tag), (3, port, tag)];
        let turns = [of(5000, 0), of(5001, 0), of(5000, 5), of(5001, 5)].concat();
        assert_eq!(courses, [&turns[..], &[(2, 5000, 0)]].concat());
    }

    #[test]
    fn a_senders_ports_take_turns_once_each_receivers_port_had_a_frame() {
        let role = RawSend { sources: 2, ..role(1, &[]) };
        let ports = |number| role.course(number).unwrap().0.map(|end| end.address);
        let [of, to] = [target(1).address.port(), target(2).address.port()];
        let told = [0, 1, 2, 3, 4].map(|number| ports(number)[0].port() - of);
        assert_eq!((told, ports(2)[1].port()), ([0, 0, 1, 1, 0], to));
    }

    #[test]
    fn a_frame_is_what_a_wire_would_have() {
        let mut frame = Vec::new();
        role(1, &[7]).write(3, LAST, &mut frame);
        assert_eq!(frame.len(), 64 + 4);
        let peek = ethernet::peek(&frame).unwrap();
        assert_eq!(peek.tag().map(|tag| (tag.class.pcp(), tag.vlan)), Some((7, 0)));
        let packet = ipv4::Packet::parse(&frame[ethernet::TAGGED_LEN..]).unwrap();
        assert_eq!((packet.header.traffic_class >> 2, packet.header.destination[3]), (46, 3));
        let (udp, payload) = udp::Header::parse(packet.payload).unwrap();
        assert_eq!((udp.destination.get(), payload.len()), (5000, 22));
        role(1, &[]).write(0, 0, &mut frame);
        assert_eq!((frame.len(), ethernet::peek(&frame).unwrap().tag()), (64, None));
    }
}
