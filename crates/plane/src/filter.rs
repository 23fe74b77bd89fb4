//! Whether a frame is what a filter asks for.

use std::net::IpAddr;

use model::{Expression, FilterSide as Side, FilterTest as Test, Protocol};
use units::{Mac, Prefix};
use wire::ethernet::{self, Peek};
use wire::ip::{Fragment, Version, protocol};
use wire::{Layout, arp};

/// Whether a frame of `len` bytes, of which `head` has the headers, meets a condition.
pub fn is_met(expression: &Expression, head: &[u8], len: usize) -> bool {
    let Some(peek) = ethernet::peek(head) else { return false };
    Frame { head, peek, layout: Layout::of_head(head, len) }.meets(expression)
}

struct Frame<'a> {
    head: &'a [u8],
    peek: Peek,
    layout: Option<Layout>,
}

impl Frame<'_> {
    fn meets(&self, expression: &Expression) -> bool {
        match expression {
            Expression::Test(test) => self.passes(*test),
            Expression::Not(other) => !self.meets(other),
            Expression::All(all) => all.iter().all(|it| self.meets(it)),
            Expression::Any(any) => any.iter().any(|it| self.meets(it)),
        }
    }

    fn passes(&self, test: Test) -> bool {
        match test {
            Test::Protocol(protocol) => self.carries(protocol),
            Test::Net(side, prefix) => self
                .addresses()
                .is_some_and(|ends| is_any(side, ends, |address| contains(prefix, address))),
            Test::Port(side, port) => {
                self.ports().is_some_and(|ends| is_any(side, ends, |it| it == port))
            }
            Test::Ether(side, mac) => {
                let ends: [Mac; 2] = [self.peek.source(), self.peek.destination()];
                is_any(side, ends, |it| it == mac)
            }
            Test::Vlan(vlan) => {
                self.peek.tag().is_some_and(|tag| vlan.is_none_or(|vlan| tag.vlan == vlan))
            }
        }
    }

    fn carries(&self, what: Protocol) -> bool {
        let ip = |version| self.layout.is_some_and(|layout| layout.version == version);
        let transport = |number| self.layout.is_some_and(|layout| layout.protocol == number);
        match what {
            Protocol::Ip => ip(Version::V4),
            Protocol::Ip6 => ip(Version::V6),
            Protocol::Arp => self.arp().is_some(),
            Protocol::Tcp => transport(protocol::TCP),
            Protocol::Udp => transport(protocol::UDP),
            Protocol::Icmp => ip(Version::V4) && transport(protocol::ICMP),
            Protocol::Icmp6 => ip(Version::V6) && transport(protocol::ICMPV6),
        }
    }

    /// The sender's IP address and the receiver's.
    fn addresses(&self) -> Option<[IpAddr; 2]> {
        let Some(layout) = self.layout else {
            let arp = self.arp()?;
            return Some([arp.sender_protocol, arp.target_protocol].map(IpAddr::from));
        };
        let addresses = self.head.get(layout.address_range())?;
        let (source, destination) = addresses.split_at(addresses.len() / 2);
        Some(match layout.version {
            Version::V4 => [source, destination].map(|it| octets::<4>(it).into()),
            Version::V6 => [source, destination].map(|it| octets::<16>(it).into()),
        })
    }

    /// The sender's port and the receiver's.
    fn ports(&self) -> Option<[u16; 2]> {
        let layout = self.layout?;
        let has_ports = matches!(layout.protocol, protocol::TCP | protocol::UDP)
            && !matches!(layout.fragment, Fragment::Later);
        let ports = self.head.get(layout.transport..)?.first_chunk::<4>().filter(|_| has_ports)?;
        let [a, b, c, d] = *ports;
        Some([u16::from_be_bytes([a, b]), u16::from_be_bytes([c, d])])
    }

    /// The ARP packet in it, whatever its tags.
    fn arp(&self) -> Option<arp::Packet> {
        arp::Packet::behind_tags(self.head).copied()
    }
}

fn octets<const N: usize>(bytes: &[u8]) -> [u8; N] {
    bytes.try_into().expect("addresses are as long as their version says")
}

/// Whether it holds for the source, the destination or either.
fn is_any<T>(side: Side, [source, destination]: [T; 2], holds: impl Fn(T) -> bool) -> bool {
    match side {
        Side::Source => holds(source),
        Side::Destination => holds(destination),
        Side::Either => holds(source) || holds(destination),
    }
}

fn contains(prefix: Prefix, address: IpAddr) -> bool {
    // The first bits are those of the prefix, of either version.
    let bits = |address: IpAddr| match address {
        IpAddr::V4(v4) => u128::from(v4.to_bits()) << 96,
        IpAddr::V6(v6) => v6.to_bits(),
    };
    let mask = u128::MAX.checked_shl(128 - u32::from(prefix.length)).unwrap_or(0);
    prefix.address.is_ipv4() == address.is_ipv4()
        && (bits(prefix.address) ^ bits(address)) & mask == 0
}

#[cfg(test)]
mod tests {
    use std::net::{Ipv4Addr, Ipv6Addr};

    use model::Filter;
    use wire::ethernet::{Tag, ethertype};
    use wire::{arp, ipv4, ipv6};
    use zerocopy::IntoBytes;

    use super::*;

    fn frame(ethertype: u16, tag: Option<u16>, payload: &[u8]) -> Vec<u8> {
        let outer = if tag.is_some() { ethertype::VLAN } else { ethertype };
        let header = ethernet::Header::new(Mac::local(2), Mac::local(1), outer);
        let mut frame = header.as_bytes().to_vec();
        if let Some(vlan) = tag {
            frame.extend(Tag { class: units::Class::default(), vlan }.tci().to_be_bytes());
            frame.extend(ethertype.to_be_bytes());
        }
        frame.extend(payload);
        frame
    }

    /// TCP from 10.0.0.1 port 1000 to 10.0.0.2 port 80.
    fn tcp4(tag: Option<u16>) -> Vec<u8> {
        let [from, to] = [1, 2].map(|last| Ipv4Addr::new(10, 0, 0, last));
        let ports = [&1000_u16.to_be_bytes()[..], &80_u16.to_be_bytes(), &[0; 16]].concat();
        let header = ipv4::Header::new(from, to, protocol::TCP, ports.len()).unwrap();
        frame(ethertype::IPV4, tag, &[header.as_bytes(), &ports].concat())
    }

    /// UDP from fd00::1 port 1000 to fd00::2 port 53.
    fn udp6() -> Vec<u8> {
        let [from, to] = [1, 2].map(|last| Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, last));
        let ports = [&1000_u16.to_be_bytes()[..], &53_u16.to_be_bytes(), &[0; 4]].concat();
        let header = ipv6::Header::new(from, to, protocol::UDP, ports.len()).unwrap();
        frame(ethertype::IPV6, None, &[header.as_bytes(), &ports].concat())
    }

    /// 10.0.0.1 asks for 10.0.0.2.
    fn question(tag: Option<u16>) -> Vec<u8> {
        let [from, to] = [1, 2].map(|last| Ipv4Addr::new(10, 0, 0, last));
        let (from, to) = ((Mac::local(1), from), (Mac([0; 6]), to));
        let packet = arp::Packet::new(arp::operation::REQUEST, from, to);
        frame(ethertype::ARP, tag, packet.as_bytes())
    }

    fn meets(filter: &str, frame: &[u8]) -> bool {
        is_met(filter.parse::<Filter>().unwrap().expression(), frame, frame.len())
    }

    #[test]
    fn frames_are_told_apart_as_tcpdump_does() {
        for (filter, met) in [
            ("tcp", [true, true, false, false, false]),
            ("ip", [true, true, false, false, false]),
            ("udp", [false, false, true, false, false]),
            ("ip6", [false, false, true, false, false]),
            ("arp", [false, false, false, true, true]),
            ("icmp or icmp6", [false; 5]),
            ("host 10.0.0.2", [true, true, false, true, true]),
            ("src host 10.0.0.2", [false; 5]),
            ("dst 10.0.0.2", [true, true, false, true, true]),
            ("net 10.0.0.0/24", [true, true, false, true, true]),
            ("net 10.0.0.2/31", [true, true, false, true, true]),
            ("net 0.0.0.0/0", [true, true, false, true, true]),
            ("src net fd00::/16", [false, false, true, false, false]),
            ("port 1000", [true, true, true, false, false]),
            ("dst port 80", [true, true, false, false, false]),
            ("udp port 53", [false, false, true, false, false]),
            ("tcp port 53", [false; 5]),
            ("ether host 02:00:00:00:00:01", [true; 5]),
            ("ether dst 02:00:00:00:00:01", [false; 5]),
            ("vlan", [false, true, false, false, true]),
            ("vlan 7 and tcp", [false, true, false, false, false]),
            ("vlan 8", [false; 5]),
            ("not (tcp or arp)", [false, false, true, false, false]),
        ] {
            let frames = [tcp4(None), tcp4(Some(7)), udp6(), question(None), question(Some(7))];
            assert_eq!(frames.map(|frame| meets(filter, &frame)), met, "{filter}");
        }
    }

    #[test]
    fn no_frame_is_too_short_to_be_looked_at() {
        for whole in [tcp4(Some(7)), udp6(), question(Some(7))] {
            for len in 0..whole.len() {
                for filter in ["port 80", "host 10.0.0.2", "arp", "vlan 7", "not tcp"] {
                    meets(filter, &whole[..len]);
                }
            }
        }
    }

    #[test]
    fn later_fragments_have_no_ports() {
        let mut fragment = tcp4(None);
        fragment[14 + 7] = 1;
        assert!(meets("tcp", &fragment) && !meets("port 80", &fragment));
    }
}
