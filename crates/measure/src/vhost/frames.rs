//! The frames that go through a switch under test, and the account of those that came.
//!
//! A frame is Ethernet, IPv4 and UDP; its payload begins with what tells it from every other, little-endian:
//!
//! ```text
//!   42    44       46     48                56                64
//!   ├─────┼────────┼──────┼─────────────────┼─────────────────┤
//!   │  0  │ sender │ flow │ sequence number │ time stamp      │ zeros
//!   └─────┴────────┴──────┴─────────────────┴─────────────────┘
//!     written once            written whenever it is sent
//! ```
//!
//! A flow is a pair of addresses and a UDP port of its own: to a switch that looks at addresses, and to one that looks at
//! ports, so many flows are so many.

use std::net::Ipv4Addr;

use ports::vhost::nic::Frame;
use units::Mac;
use wire::ethernet::{self, ethertype};
use wire::ip::protocol;
use wire::{ipv4, udp};
use zerocopy::IntoBytes;

/// The smallest frame that has room for all of that.
pub const SMALLEST: u32 = 64;

/// The longest frame, of an MTU of 1500.
pub const LONGEST: u32 = 1514;

const TAG: usize = 44;
const STAMP: usize = 48;

/// UDP port of the first flow.
const FIRST_PORT: u16 = 1024;

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

impl Flow {
    /// A frame of it, `size` bytes long.
    ///
    /// # Panics
    ///
    /// If there is no such frame: sizes are checked at the door.
    pub fn frame(&self, size: u32) -> Vec<u8> {
        let Self { number, sender, from, to } = *self;
        let mut payload = vec![0; size as usize - 42];
        payload[TAG - 42..][..2].copy_from_slice(&sender.to_le_bytes());
        payload[TAG - 40..][..2].copy_from_slice(&number.to_le_bytes());
        let udp = udp::Header::new(FIRST_PORT + number, FIRST_PORT, payload.len());
        let [source, destination] = [Ipv4Addr::new(10, 0, 1, sender as u8), Ipv4Addr::new(10, 0, 0, 1)];
        let ip = ipv4::Header::new(source, destination, protocol::UDP, payload.len() + 8);
        let ethernet = ethernet::Header::new(to, from, ethertype::IPV4);
        let (ip, udp) = ip.zip(udp).expect("a frame of an MTU is no longer than a packet may be");
        [ethernet.as_bytes(), ip.as_bytes(), udp.as_bytes(), &payload].concat()
    }
}

impl Stamp {
    /// Writes what changes from one frame to the next.
    #[inline]
    pub fn write(frame: Frame<'_>, sequence: u64, ticks: u64) {
        frame.write(STAMP, [sequence.to_le(), ticks.to_le()].as_bytes());
    }

    /// Reads it.
    #[inline]
    pub fn read(frame: Frame<'_>) -> Self {
        let bytes: [u8; STAMP + 16 - TAG] = frame.read(TAG);
        let number = |at: usize| u16::from_le_bytes([bytes[at], bytes[at + 1]]);
        let word = |at: usize| u64::from_le_bytes(std::array::from_fn(|byte| bytes[at + byte]));
        Self { sender: number(0), flow: number(2), sequence: word(4), ticks: word(12) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_frame_is_what_it_says() {
        let flow = Flow { number: 7, sender: 2, from: Mac::local(1), to: Mac::local(2) };
        for size in [SMALLEST, 77, LONGEST] {
            let frame = flow.frame(size);
            assert_eq!(frame.len(), size as usize);
            let datagram = udp::Packet::parse(&frame, wire::Offload::default());
            assert!(datagram.is_some(), "{frame:?}");
            assert_eq!(ethernet::peek(&frame).unwrap().source, flow.from);
        }
    }
}
