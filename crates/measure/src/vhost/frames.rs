//! The frames that go through a switch under test.
//!
//! A frame is Ethernet, IPv4 and UDP. If it is longer than an MTU allows it is a TCP segment of
//! which cutting and summing are left to do, as virtual machines send to each other. Its payload
//! begins with what tells it from every other, little-endian:
//!
//! ```text
//!   0     2        4      6                 14                22
//!   ├─────┼────────┼──────┼─────────────────┼─────────────────┤
//!   │  0  │ sender │ flow │ sequence number │ time stamp      │ zeros
//!   └─────┴────────┴──────┴─────────────────┴─────────────────┘
//!     written once            written whenever it is sent
//! ```
//!
//! A flow is a pair of addresses and a source port of its own: to a switch that looks at addresses,
//! and to one that looks at ports, so many flows are so many.

use std::net::Ipv4Addr;

use units::Mac;
use vhost::nic::Frame;
use wire::checksum::pseudo_header;
use wire::ethernet::{self, ethertype};
use wire::ip::protocol;
use wire::{Offload, PartialChecksum, Segment, SegmentKind, ipv4, tcp, udp};
use zerocopy::IntoBytes;

/// The smallest frame that has room for all of that.
pub const SMALLEST: u32 = 64;

/// The longest frame: a packet of 65,535 bytes (RFC 791 §3.1).
pub const LONGEST: u32 = 14 + 65_535;

/// The longest frame of an MTU of 1500.
pub const LONGEST_DATAGRAM: u32 = 14 + 1500;

/// Where Ethernet's and IPv4's headers end.
const TRANSPORT: usize = 34;

/// Where the payload says what tells a frame from others, and where behind that it says what
/// changes.
const TAG: usize = 2;
const STAMP: usize = 4;

/// Source port of the first flow, and destination port of all.
const FIRST_PORT: u16 = 1024;

/// The sender, by what a frame says, of those whose way nobody follows.
pub const STRANGER: u16 = u16::MAX;

/// What a frame is.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Kind {
    /// A UDP datagram, complete.
    Datagram,
    /// A TCP segment, to be cut and summed by whoever takes it out of the machines.
    Segment,
}

/// Who sends a frame to whom.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Flow {
    /// Its number among its sender's.
    pub number: u16,
    /// Its sender.
    pub sender: u16,
    /// The sender's address in it.
    pub from: Mac,
    /// The receiver's.
    pub to: Mac,
}

/// What a frame that came says of itself.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Stamp {
    /// Who sent it.
    pub sender: u16,
    /// In which flow.
    pub flow: u16,
    /// How many its sender had sent before.
    pub sequence: u64,
    /// When, by the time stamp counter.
    pub ticks: u64,
}

impl Kind {
    /// What a frame of so many bytes is.
    pub const fn of(size: u32) -> Self {
        if size > LONGEST_DATAGRAM { Self::Segment } else { Self::Datagram }
    }

    /// The longest of its kind, in bytes.
    pub const fn longest(self) -> u32 {
        match self {
            Self::Datagram => LONGEST_DATAGRAM,
            Self::Segment => LONGEST,
        }
    }

    /// Bytes of its headers.
    const fn headers_len(self) -> usize {
        TRANSPORT
            + match self {
                Self::Datagram => udp::Header::LEN,
                Self::Segment => tcp::Header::LEN,
            }
    }

    /// Where what tells one from another begins, in bytes from the frame's first.
    pub const fn tag(self) -> usize {
        self.headers_len() + TAG
    }

    /// What is left to do: as Linux leaves it to a card of an MTU of 1500, without TCP options.
    pub fn offload(self) -> Offload {
        match self {
            Self::Datagram => Offload::NONE,
            Self::Segment => Offload {
                checksum: Some(PartialChecksum {
                    start: TRANSPORT as u16,
                    offset: tcp::Header::CHECKSUM_OFFSET,
                }),
                segment: Some(Segment {
                    kind: SegmentKind::Tcp4,
                    ecn: false,
                    header_len: self.headers_len() as u16,
                    size: 1460,
                }),
                data_valid: false,
            },
        }
    }
}

impl Flow {
    /// A frame of it, `size` bytes long.
    ///
    /// # Panics
    ///
    /// If there is no such frame: sizes are checked at the door.
    pub fn frame(&self, size: u32) -> Vec<u8> {
        let Self { number, sender, from, to } = *self;
        let kind = Kind::of(size);
        let mut payload = vec![0; size as usize - kind.headers_len()];
        payload[TAG..][..4].copy_from_slice([sender.to_le(), number.to_le()].as_bytes());
        let len = size as usize - TRANSPORT;
        let [source, destination] =
            [Ipv4Addr::new(10, 0, 1, sender as u8), Ipv4Addr::new(10, 0, 0, 1)];
        let packet = |protocol| {
            ipv4::Header::new(source, destination, protocol, len).expect("no packet is longer")
        };
        let ethernet = ethernet::Header::new(to, from, ethertype::IPV4);
        match kind {
            Kind::Datagram => {
                let udp = udp::Header::new(FIRST_PORT + number, FIRST_PORT, payload.len());
                let udp = udp.expect("no datagram is longer than its packet");
                [ethernet.as_bytes(), packet(protocol::UDP).as_bytes(), udp.as_bytes(), &payload]
                    .concat()
            }
            Kind::Segment => {
                let ip = packet(protocol::TCP);
                let sum = pseudo_header([ip.source, ip.destination].as_bytes(), protocol::TCP, len);
                let mut tcp = tcp::Header::new(FIRST_PORT + number, FIRST_PORT, 0, tcp::Flags::ACK);
                // The sum itself, to which the rest is added, not its complement.
                tcp.checksum = (!sum.checksum()).into();
                [ethernet.as_bytes(), ip.as_bytes(), tcp.as_bytes(), &payload].concat()
            }
        }
    }
}

impl Stamp {
    /// Writes what changes from one frame to the next; `tag` is its [kind](Kind::tag)'s.
    #[inline]
    pub fn write(frame: Frame<'_>, tag: usize, sequence: u64, ticks: u64) {
        let mut stamp = [0; 16];
        stamp[..8].copy_from_slice(&sequence.to_le_bytes());
        stamp[8..].copy_from_slice(&ticks.to_le_bytes());
        frame.rewrite(tag + STAMP, &stamp);
    }

    /// Reads it.
    #[inline]
    pub fn read(frame: Frame<'_>, tag: usize) -> Self {
        let bytes: [u8; STAMP + 16] = frame.read(tag);
        let number = |at: usize| u16::from_le_bytes([bytes[at], bytes[at + 1]]);
        let word = |at: usize| u64::from_le_bytes(std::array::from_fn(|byte| bytes[at + byte]));
        Self { sender: number(0), flow: number(2), sequence: word(4), ticks: word(12) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FLOW: Flow = Flow { number: 7, sender: 2, from: Mac::local(1), to: Mac::local(2) };

    #[test]
    fn a_frame_is_what_it_says() {
        for size in [SMALLEST, 77, LONGEST_DATAGRAM] {
            let frame = FLOW.frame(size);
            assert_eq!(frame.len(), size as usize);
            let datagram = udp::Packet::parse(&frame, Kind::of(size).offload());
            assert!(datagram.is_some(), "{frame:?}");
            assert_eq!(ethernet::peek(&frame).unwrap().source(), FLOW.from);
        }
    }

    #[test]
    fn what_is_left_to_do_for_a_large_frame_makes_it_segments() {
        for size in [LONGEST_DATAGRAM + 1, 1514 + 1460, LONGEST] {
            let (frame, offload) = (FLOW.frame(size), Kind::of(size).offload());
            assert_eq!(frame.len(), size as usize);
            assert_eq!(Offload::parse(&offload.emit(), &frame), Ok(offload));
            let mut left = size as usize - 54;
            for piece in wire::segments(&frame, offload).unwrap() {
                let mut buffer = [0; LONGEST_DATAGRAM as usize];
                let segment = piece.write(&mut buffer).unwrap();
                let len = left.min(1460);
                assert_eq!(segment.len(), 54 + len);
                let sum = pseudo_header(&segment[26..34], protocol::TCP, 20 + len);
                assert_eq!((sum + wire::checksum::Sum::of(&segment[34..])).checksum(), 0);
                left -= len;
            }
            assert_eq!(left, 0);
        }
    }
}
