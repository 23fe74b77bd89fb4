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

/// How far behind the newest frame of its sender one may come and still be told from a repeated one. More than any ring
/// and any switch here holds.
const WINDOW: u64 = 1 << 15;

/// What came of one sender's frames.
#[derive(Clone, Debug)]
pub struct Arrivals {
    /// The first that counts.
    first: u64,
    /// The number after the highest that came.
    next: u64,
    /// A bit for each of the last numbers, by number modulo the window.
    came: Box<[u64]>,
    /// Of each flow, the number after the highest that came.
    flows: Vec<u64>,
    /// Different frames that came.
    pub received: u64,
    /// Frames that had come before.
    pub duplicates: u64,
    /// Frames that came after a later one of their flow.
    pub out_of_order: u64,
}

impl Arrivals {
    /// Of a sender with so many flows, nothing yet; what it sent before `first` does not count.
    pub fn new(flows: u16, first: u64) -> Self {
        Self {
            first,
            next: first,
            came: vec![0; (WINDOW / 64) as usize].into(),
            flows: vec![0; flows.into()],
            received: 0,
            duplicates: 0,
            out_of_order: 0,
        }
    }

    /// Books a frame.
    ///
    /// # Panics
    ///
    /// If it is of no flow of the sender's.
    #[inline]
    pub fn book(&mut self, flow: u16, sequence: u64) {
        if sequence < self.first {
            return;
        }
        if sequence >= self.next {
            self.forget(self.next.max((sequence + 1).saturating_sub(WINDOW))..sequence);
            self.next = sequence + 1;
            *self.word(sequence) &= !bit(sequence);
        }
        let is_late = sequence + WINDOW < self.next;
        if is_late || *self.word(sequence) & bit(sequence) != 0 {
            self.duplicates += 1;
            return;
        }
        *self.word(sequence) |= bit(sequence);
        self.received += 1;
        let next = &mut self.flows[usize::from(flow)];
        if sequence < *next {
            self.out_of_order += 1;
        } else {
            *next = sequence + 1;
        }
    }

    /// Frees the places of numbers that were passed over.
    fn forget(&mut self, passed: std::ops::Range<u64>) {
        passed.for_each(|number| *self.word(number) &= !bit(number));
    }

    #[inline]
    fn word(&mut self, sequence: u64) -> &mut u64 {
        &mut self.came[(sequence % WINDOW / 64) as usize]
    }
}

#[inline]
fn bit(sequence: u64) -> u64 {
    1 << (sequence % 64)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

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

    #[test]
    fn late_is_told_from_again_and_flows_have_their_own_order() {
        let mut arrivals = Arrivals::new(2, 10);
        // Of flow 0: 10, 12, 13, again 12, 11 late. Of flow 1: 14, 15, before 13 came. And one of before.
        for (flow, sequence) in [(0, 10), (0, 12), (1, 14), (1, 15), (0, 13), (0, 12), (0, 11), (1, 9)] {
            arrivals.book(flow, sequence);
        }
        assert_eq!((arrivals.received, arrivals.duplicates, arrivals.out_of_order), (6, 1, 1));
        // What lies too far back cannot be told from a repeated one.
        arrivals.book(1, 10 + 2 * WINDOW);
        arrivals.book(1, 16);
        assert_eq!((arrivals.received, arrivals.duplicates), (7, 2));
    }

    proptest! {
        #[test]
        fn every_number_counts_once(steps in prop::collection::vec((0u64..200, any::<bool>()), 1..400)) {
            let mut arrivals = Arrivals::new(1, 0);
            let mut came = std::collections::BTreeSet::new();
            let mut highest = 0_u64;
            let mut again = 0;
            for (step, forward) in steps {
                let sequence = if forward { highest + step * 40 } else { highest.saturating_sub(step) };
                highest = highest.max(sequence);
                again += u64::from(!came.insert(sequence));
                arrivals.book(0, sequence);
            }
            prop_assert_eq!((arrivals.received, arrivals.duplicates), (came.len() as u64, again));
        }
    }
}
