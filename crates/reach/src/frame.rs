//! A packet of a class, as bytes.

use alloc::vec::Vec;
use core::net::IpAddr;

use units::Mac;
use wire::checksum::{Sum, pseudo_header};
use wire::ethernet;
use wire::ip::protocol;
use wire::{ipv4, ipv6, tcp, udp};
use zerocopy::IntoBytes;

use crate::addresses::Family;
use crate::area::{ethertype, is_icmp};

/// A packet, as far as anything depends on it.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Packet {
    /// The Ethernet address that it comes from.
    pub from_mac: Mac,
    /// The one that it is for.
    pub to_mac: Mac,
    /// What it carries.
    pub content: Content,
}

/// What a frame carries.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Content {
    /// An IP packet; `numbers`: its ports, or its ICMP type and code.
    Ip {
        /// The source.
        from: IpAddr,
        /// The destination.
        to: IpAddr,
        /// What it carries.
        protocol: u8,
        /// Ports, or ICMP's type and code, or nothing.
        numbers: [u16; 2],
    },
    /// Something else.
    Other(u16),
}

impl Packet {
    /// What it asks for: ethertype, protocol, and two numbers.
    pub const fn asks(&self) -> [u16; 4] {
        match self.content {
            Content::Other(kind) => [kind, 0, 0, 0],
            Content::Ip { from, protocol, numbers, .. } => {
                [ethertype(Family::of(from)), protocol as u16, numbers[0], numbers[1]]
            }
        }
    }

    /// Source and destination, if it is IP.
    pub const fn ends(&self) -> Option<(IpAddr, IpAddr)> {
        match self.content {
            Content::Ip { from, to, .. } => Some((from, to)),
            Content::Other(_) => None,
        }
    }

    /// The frame: the first of a connection, with four bytes behind the headers.
    pub fn frame(&self) -> Vec<u8> {
        let ethernet = |kind| ethernet::Header::new(self.to_mac, self.from_mac, kind);
        let Content::Ip { from, to, protocol: carried, numbers: [a, b] } = self.content else {
            let [kind, ..] = self.asks();
            return [ethernet(kind).as_bytes(), &[0; 46]].concat();
        };
        let family = Family::of(from);
        let (mut body, sum_at) = match carried {
            protocol::TCP => {
                (tcp::Header::new(a, b, 1, tcp::Flags::SYN).as_bytes().to_vec(), Some(16))
            }
            protocol::UDP => {
                let header = udp::Header::new(a, b, 4);
                (header.map(|it| it.as_bytes().to_vec()).unwrap_or_default(), Some(6))
            }
            132 => ([a.to_be_bytes(), b.to_be_bytes()].concat(), None),
            _ if is_icmp(family, carried) => {
                (alloc::vec![a.to_be_bytes()[1], b.to_be_bytes()[1], 0, 0, 0, 1, 0, 1], Some(2))
            }
            _ => (Vec::new(), None),
        };
        body.extend([0; 4]);
        let octets = |address: IpAddr| match address {
            IpAddr::V4(it) => it.octets().to_vec(),
            IpAddr::V6(it) => it.octets().to_vec(),
        };
        if let Some(at) = sum_at {
            let pseudo = match (carried, family) {
                (protocol::ICMP, Family::V4) => Sum::default(),
                _ => pseudo_header(&[octets(from), octets(to)].concat(), carried, body.len()),
            };
            let sum = match carried {
                protocol::UDP => (pseudo + Sum::of(&body)).transport_checksum(),
                _ => (pseudo + Sum::of(&body)).checksum(),
            };
            body[at..at + 2].copy_from_slice(&sum.to_be_bytes());
        }
        let header = match (from, to) {
            (IpAddr::V4(from), IpAddr::V4(to)) => {
                ipv4::Header::new(from, to, carried, body.len()).map(|it| it.as_bytes().to_vec())
            }
            (IpAddr::V6(from), IpAddr::V6(to)) => {
                ipv6::Header::new(from, to, carried, body.len()).map(|it| it.as_bytes().to_vec())
            }
            _ => None,
        };
        [ethernet(ethertype(family)).as_bytes(), &header.unwrap_or_default(), &body].concat()
    }
}
