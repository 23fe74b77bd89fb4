//! A packet of a class, as bytes.

use alloc::vec::Vec;
use core::net::IpAddr;

use units::Mac;
use wire::ip::protocol;
use wire::{ethernet, tcp, udp, whole};
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
        self.frame_of(1, 4).unwrap_or_default()
    }

    /// The frame, with so many bytes behind the headers; `echo`: the number of an echo. `None`: it
    /// is too long, or its ends are of two families.
    pub fn frame_of(&self, echo: u16, size: usize) -> Option<Vec<u8>> {
        let Content::Ip { from, to, protocol: carried, numbers: [a, b] } = self.content else {
            let [kind, ..] = self.asks();
            let header = ethernet::Header::new(self.to_mac, self.from_mac, kind);
            return Some([header.as_bytes(), &[0; 46]].concat());
        };
        let data = alloc::vec![0; size];
        let body = match carried {
            protocol::TCP => {
                let header = tcp::Header::new(a, b, 0, tcp::Flags::SYN);
                [header.as_bytes(), &data].concat()
            }
            protocol::UDP => [udp::Header::new(a, b, size)?.as_bytes(), &data].concat(),
            SCTP => [&a.to_be_bytes()[..], &b.to_be_bytes(), &[0; 8], &data].concat(),
            _ if is_icmp(Family::of(from), carried) => {
                let [high, low] = echo.to_be_bytes();
                let header = [a.to_be_bytes()[1], b.to_be_bytes()[1], 0, 0, high, low, 0, 1];
                [&header[..], &data].concat()
            }
            _ => data,
        };
        whole::packet((self.from_mac, self.to_mac), (from, to), carried, &body)
    }
}

/// SCTP's number.
pub const SCTP: u8 = 132;
