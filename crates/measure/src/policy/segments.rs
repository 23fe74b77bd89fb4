//! TCP segments without payload, by which machines open and close connections.
//!
//! Sequence numbers are the same in each connection, as each has ports of its own; they are such
//! that connection tracking accepts them (RFC 9293 §3.5, §3.6).

use units::Mac;
use vhost::nic::Frame;
use wire::checksum::{Sum, pseudo_header};
use wire::ethernet::{self, ethertype};
use wire::ip::protocol;
use wire::{ipv4, tcp};
use zerocopy::{FromBytes, IntoBytes};

use super::frames::{Pair, TRANSPORT, flow_of, ports_of};

/// Bytes of a frame: the shortest, as there is no payload. What follows the header is padding.
pub const SIZE: u32 = 64;

/// Where each machine's sequence numbers begin.
const FIRST: [u32; 2] = [0x1000, 0x2000];

/// One of the six segments of a connection that says nothing.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Segment {
    /// The client asks.
    Syn,
    /// The server accepts.
    SynAck,
    /// The client has heard that.
    Established,
    /// The client has no more to say.
    Fin,
    /// Nor has the server.
    FinAck,
    /// The client has heard that: all is over.
    Closed,
}

/// What is the same in all segments of one machine.
#[derive(Clone, Copy, Debug)]
pub struct Writer {
    from: usize,
    /// Of addresses, protocol and length.
    sum: Sum,
}

impl Segment {
    /// Who sends it: the client, which is the first machine, or the server.
    const fn from(self) -> usize {
        matches!(self, Self::SynAck | Self::FinAck) as usize
    }

    /// Sequence number, acknowledgment number, flags.
    fn numbers(self) -> (u32, u32, tcp::Flags) {
        let [client, server] = FIRST;
        let fin = tcp::Flags::FIN | tcp::Flags::ACK;
        match self {
            Self::Syn => (client, 0, tcp::Flags::SYN),
            Self::SynAck => (server, client + 1, tcp::Flags::SYN | tcp::Flags::ACK),
            Self::Established => (client + 1, server + 1, tcp::Flags::ACK),
            Self::Fin => (client + 1, server + 1, fin),
            Self::FinAck => (server + 1, client + 2, fin),
            Self::Closed => (client + 2, server + 2, tcp::Flags::ACK),
        }
    }

    /// Reads a segment of one of the machines', and its flow; `None` if it is none of ours.
    #[inline]
    pub fn read(frame: Frame<'_>, from: usize) -> Option<(u32, Self)> {
        Self::parse(&frame.read(TRANSPORT), from)
    }

    #[inline]
    fn parse(bytes: &[u8; tcp::Header::LEN], from: usize) -> Option<(u32, Self)> {
        let header = tcp::Header::read_from_bytes(bytes).ok()?;
        let flow = flow_of(header.source.get(), header.destination.get(), from)?;
        let all = [
            [Self::Syn, Self::Established, Self::Fin, Self::Closed].as_slice(),
            [Self::SynAck, Self::FinAck].as_slice(),
        ];
        let numbers = (header.sequence.get(), header.acknowledgment.get(), header.flags);
        let segment = all[from].iter().copied().find(|it| it.numbers() == numbers)?;
        Some((flow, segment))
    }
}

impl Writer {
    /// Of one of the machines'.
    pub fn new(pair: &Pair, from: usize) -> Self {
        let addresses = [pair.addresses[from], pair.known_by[1 - from]];
        let addresses = addresses.map(|address| address.octets()).concat();
        let sum = pseudo_header(&addresses, protocol::TCP, tcp::Header::LEN);
        Self { from, sum }
    }

    /// The headers of its frames.
    pub fn frame(&self, pair: &Pair) -> Vec<u8> {
        let Self { from, .. } = *self;
        let [source, destination] = [pair.addresses[from], pair.known_by[1 - from]];
        let packet = ipv4::Header::new(source, destination, protocol::TCP, tcp::Header::LEN);
        let packet = packet.expect("no header is too long for a packet");
        let (to, mac): (Mac, Mac) = (pair.next[from], pair.macs[from]);
        let ethernet = ethernet::Header::new(to, mac, ethertype::IPV4);
        let mut frame = [ethernet.as_bytes(), packet.as_bytes()].concat();
        frame.resize(SIZE as usize, 0);
        frame
    }

    /// Writes a segment of a flow.
    #[inline]
    pub fn write(&self, frame: Frame<'_>, flow: u32, segment: Segment) {
        debug_assert_eq!(segment.from(), self.from);
        frame.rewrite(TRANSPORT, &self.bytes(flow, segment));
    }

    #[inline]
    fn bytes(&self, flow: u32, segment: Segment) -> [u8; SIZE as usize - TRANSPORT] {
        let (sequence, acknowledgment, flags) = segment.numbers();
        let [source, destination] = ports_of(flow, self.from);
        let mut header = tcp::Header::new(source, destination, sequence, flags);
        header.acknowledgment = acknowledgment.into();
        header.window = u16::MAX.into();
        header.checksum = (self.sum + Sum::of(header.as_bytes())).checksum().into();
        let mut bytes = [0; SIZE as usize - TRANSPORT];
        bytes[..tcp::Header::LEN].copy_from_slice(header.as_bytes());
        bytes
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::*;

    const ALL: [Segment; 6] = [
        Segment::Syn,
        Segment::SynAck,
        Segment::Established,
        Segment::Fin,
        Segment::FinAck,
        Segment::Closed,
    ];

    #[test]
    fn segments_are_read_as_they_were_written_and_their_sums_are_right() {
        let macs = [Mac::local(1), Mac::local(2)];
        let addresses = [Ipv4Addr::new(10, 0, 0, 1), Ipv4Addr::new(10, 0, 0, 2)];
        let pair = Pair { macs, addresses, known_by: addresses, next: [macs[1], macs[0]] };
        for segment in ALL {
            let from = segment.from();
            let writer = Writer::new(&pair, from);
            for flow in [0, 59_999, 60_000, 12_345_678] {
                let bytes = writer.bytes(flow, segment);
                let header = bytes.first_chunk().unwrap();
                assert_eq!(Segment::parse(header, from), Some((flow, segment)));
                let addresses = [pair.addresses[from].octets(), pair.addresses[1 - from].octets()];
                let sum = pseudo_header(&addresses.concat(), protocol::TCP, 20);
                assert_eq!((sum + Sum::of(header)).checksum(), 0);
                let mut frame = writer.frame(&pair);
                assert_eq!(frame.len(), SIZE as usize);
                frame[TRANSPORT..].copy_from_slice(&bytes);
                assert_eq!(frame[16..18], 40_u16.to_be_bytes());
            }
        }
    }
}
