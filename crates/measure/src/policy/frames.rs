//! The datagrams that two machines send each other, and what tells them apart.
//!
//! A flow is a pair of UDP ports: addresses are the machines' own. So there are as many flows as
//! anybody wants, in as many buffers as a ring has: whoever sends a frame writes its ports.
//!
//! ```text
//!   34     36          38     40       42  44     48                56          64
//!   ├──────┼───────────┼──────┼────────┼───┼──────┼─────────────────┼───────────┤
//!   │source│destination│length│no sum  │ 0 │ mark │ sequence number │ time stamp│ zeros
//!   └──────┴───────────┴──────┴────────┴───┴──────┴─────────────────┴───────────┘
//!                    one cache line's end, written whenever it is sent
//! ```

use std::net::Ipv4Addr;

use units::Mac;
use vhost::nic::Frame;
use wire::ethernet::{self, ethertype};
use wire::ip::protocol;
use wire::{ipv4, udp};
use zerocopy::IntoBytes;

/// Where Ethernet's and IPv4's headers end.
pub const TRANSPORT: usize = 34;

/// Bytes that are written of each frame.
const WRITTEN: usize = 30;

/// The first port of either machine.
const FIRST_PORT: u16 = 1024;

/// How many ports of the first machine there are to each of the second.
const PORTS: u32 = 60_000;

/// More flows have no number.
pub const MOST_FLOWS: u32 = PORTS * PORTS;

/// What says that a datagram is ours.
const MARK: u32 = 0x7a6f_766e;

/// Two machines, and how each reaches the other.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Pair {
    /// Their Ethernet addresses.
    pub macs: [Mac; 2],
    /// Their IP addresses.
    pub addresses: [Ipv4Addr; 2],
    /// Those by which each is known to the other.
    pub known_by: [Ipv4Addr; 2],
    /// Whom each sends its frames to: the other, or a router.
    pub next: [Mac; 2],
}

/// What changes from one datagram to the next.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Datagram {
    /// Its flow.
    pub flow: u32,
    /// How many its sender had sent before.
    pub sequence: u64,
    /// When it was sent, by the time stamp counter.
    pub ticks: u64,
}

/// The ports of a flow, source and destination, in what one of the machines sends.
#[inline]
pub fn ports_of(flow: u32, from: usize) -> [u16; 2] {
    let client = FIRST_PORT + (flow % PORTS) as u16;
    let server = FIRST_PORT + (flow / PORTS % PORTS) as u16;
    if from == 0 { [client, server] } else { [server, client] }
}

/// The flow of such ports; `None` if no flow has them.
#[inline]
pub fn flow_of(source: u16, destination: u16, from: usize) -> Option<u32> {
    let number = |port: u16| {
        let number = u32::from(port).checked_sub(FIRST_PORT.into())?;
        (number < PORTS).then_some(number)
    };
    let [client, server] = if from == 0 { [source, destination] } else { [destination, source] };
    Some(number(client)? + number(server)? * PORTS)
}

impl Pair {
    /// The headers of what one of them sends, whose frames have `size` bytes.
    ///
    /// # Panics
    ///
    /// If there is no such frame: sizes are checked at the door.
    pub fn frame(&self, from: usize, size: u32) -> Vec<u8> {
        let to = 1 - from;
        let len = size as usize - TRANSPORT;
        let packet = ipv4::Header::new(self.addresses[from], self.known_by[to], protocol::UDP, len)
            .expect("no packet is longer");
        let ethernet = ethernet::Header::new(self.next[from], self.macs[from], ethertype::IPV4);
        let mut frame = [ethernet.as_bytes(), packet.as_bytes()].concat();
        frame.resize(size as usize, 0);
        let first = Datagram { flow: 0, sequence: 0, ticks: 0 };
        frame[TRANSPORT..][..WRITTEN].copy_from_slice(&first.bytes(from, size));
        frame
    }
}

impl Datagram {
    /// Writes it into a frame of one of the machines'.
    #[inline]
    pub fn write(&self, frame: Frame<'_>, from: usize, size: u32) {
        frame.rewrite(TRANSPORT, &self.bytes(from, size));
    }

    /// Reads it; `None` if it is not one that this machine has sent.
    #[inline]
    pub fn read(frame: Frame<'_>, from: usize) -> Option<Self> {
        Self::parse(&frame.read(TRANSPORT), from)
    }

    #[inline]
    fn bytes(&self, from: usize, size: u32) -> [u8; WRITTEN] {
        let [source, destination] = ports_of(self.flow, from);
        let mut bytes = [0; WRITTEN];
        bytes[..2].copy_from_slice(&source.to_be_bytes());
        bytes[2..4].copy_from_slice(&destination.to_be_bytes());
        bytes[4..6].copy_from_slice(&(size as u16 - TRANSPORT as u16).to_be_bytes());
        // No checksum, as IPv4 allows (RFC 768).
        bytes[10..14].copy_from_slice(&MARK.to_le_bytes());
        bytes[14..22].copy_from_slice(&self.sequence.to_le_bytes());
        bytes[22..].copy_from_slice(&self.ticks.to_le_bytes());
        bytes
    }

    #[inline]
    fn parse(bytes: &[u8; WRITTEN], from: usize) -> Option<Self> {
        let port = |at: usize| u16::from_be_bytes([bytes[at], bytes[at + 1]]);
        let word = |at: usize| u64::from_le_bytes(std::array::from_fn(|byte| bytes[at + byte]));
        let flow = flow_of(port(0), port(2), from)?;
        let is_ours = bytes[10..14] == MARK.to_le_bytes();
        is_ours.then(|| Self { flow, sequence: word(14), ticks: word(22) })
    }
}

const _: () = assert!(TRANSPORT + WRITTEN == 64 && WRITTEN > udp::Header::LEN);

#[cfg(test)]
mod tests {
    use super::*;

    fn pair() -> Pair {
        let macs = [Mac::local(1), Mac::local(2)];
        let addresses = [Ipv4Addr::new(10, 0, 0, 1), Ipv4Addr::new(10, 0, 0, 2)];
        Pair { macs, addresses, known_by: addresses, next: [macs[1], macs[0]] }
    }

    #[test]
    fn a_datagram_of_each_machine_is_read_as_it_was_written() {
        for from in [0, 1] {
            for flow in [0, 1, 59_999, 60_000, 99_999, MOST_FLOWS - 1] {
                let sent = Datagram { flow, sequence: 7 + u64::from(flow), ticks: u64::MAX };
                let bytes = sent.bytes(from, 64);
                assert_eq!(Datagram::parse(&bytes, from), Some(sent));
                let mut frame = pair().frame(from, 64);
                frame[TRANSPORT..][..WRITTEN].copy_from_slice(&bytes);
                let parsed = udp::Packet::parse(&frame, wire::Offload::NONE);
                assert!(parsed.is_some(), "{frame:?}");
            }
        }
    }

    #[test]
    fn flows_differ_by_ports_alone_and_answers_have_them_turned() {
        let of = |flow, from| Datagram { flow, sequence: 0, ticks: 0 }.bytes(from, 64);
        let mut seen = std::collections::BTreeSet::new();
        assert!((0..130_000).all(|flow| seen.insert(of(flow, 0)[..4].to_vec())));
        let (asked, answered) = (of(61_234, 0), of(61_234, 1));
        assert_eq!((&asked[..2], &asked[2..4]), (&answered[2..4], &answered[..2]));
    }

    #[test]
    fn what_is_not_ours_is_not_read() {
        let mut bytes = Datagram { flow: 3, sequence: 1, ticks: 2 }.bytes(0, 64);
        bytes[11] ^= 1;
        assert_eq!(Datagram::parse(&bytes, 0), None);
        assert_eq!(Datagram::parse(&[0; WRITTEN], 0), None);
    }
}
