//! Sends datagrams to neighbours.

use std::io::{self, IoSlice};
use std::net::{IpAddr, SocketAddr};
use std::os::fd::OwnedFd;
use std::slice;

use rustix::net::{
    MMsgHdr, SendAncillaryBuffer, SendFlags, SocketAddrAny, SocketType, ipproto, sendmmsg,
};
use units::Dscp;
use wire::checksum::{Sum, pseudo_header};
use wire::ip::protocol;
use wire::{ipv4, ipv6, udp};
use zerocopy::IntoBytes;
use zerocopy::network_endian::U16;

use super::open::{ALL, BATCH, LONGEST, open};
use kernel::packet::hurry;

/// The longest packet: IPv6 and UDP headers, and payload.
const PACKET: usize = ipv6::Header::LEN + udp::Header::LEN + LONGEST;

/// A datagram to send.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Datagram<'a> {
    /// The source, an address of ours.
    pub source: SocketAddr,
    /// The destination, of the same family.
    pub destination: SocketAddr,
    /// The payload, at most [`LONGEST`] bytes.
    pub payload: &'a [u8],
}

/// The counts of sent datagrams.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Sent {
    /// Datagrams that the kernel accepted.
    pub taken: usize,
    /// Datagrams that it refused, for want of a route or of room.
    pub refused: usize,
}

/// Sends datagrams of one family from any address of this host, and any port.
#[derive(Debug)]
pub struct Sender {
    socket: OwnedFd,
    traffic_class: u8,
    packets: Vec<Packet>,
}

#[derive(Clone, Debug)]
struct Packet {
    to: SocketAddrAny,
    len: usize,
    bytes: [u8; PACKET],
}

impl Sender {
    /// Opens a sender whose packets have this code point and are routed like those of `address`; if
    /// that is unspecified, like any of its family. This takes CAP_NET_RAW.
    ///
    /// # Errors
    ///
    /// The kernel's error: the address is not ours, or permission is missing.
    pub fn open(address: IpAddr, dscp: Dscp) -> io::Result<Self> {
        // A socket of protocol 255 sends whole packets, and receives none (raw(7)).
        let socket = open(SocketAddr::new(address, 0), SocketType::RAW, ipproto::RAW, hurry)?;
        Ok(Self { socket, traffic_class: dscp.within(0), packets: Vec::with_capacity(BATCH) })
    }

    /// Whether a [`flush`](Self::flush) is needed before the next datagram.
    pub fn is_full(&self) -> bool {
        self.packets.len() == BATCH
    }

    /// Queues a datagram for the next [`flush`](Self::flush).
    ///
    /// # Panics
    ///
    /// If the sender [is full](Self::is_full), or the datagram is too long or its addresses are of
    /// two families.
    pub fn push(&mut self, datagram: Datagram<'_>) {
        assert!(!self.is_full(), "a batch of {BATCH} datagrams has no room for another");
        let mut bytes = [0; PACKET];
        let len = write(datagram, self.traffic_class, &mut bytes);
        let to = SocketAddr::new(datagram.destination.ip(), 0).into();
        self.packets.push(Packet { to, len, bytes });
    }

    /// Sends all queued datagrams.
    pub fn flush(&mut self) -> Sent {
        let mut sent = Sent::default();
        let parts: Vec<_> =
            self.packets.iter().map(|packet| IoSlice::new(&packet.bytes[..packet.len])).collect();
        let mut controls: Vec<_> = parts.iter().map(|_| SendAncillaryBuffer::default()).collect();
        let addressed = self.packets.iter().zip(&parts).zip(&mut controls);
        let mut messages: Vec<_> = addressed
            .map(|((packet, part), control)| {
                MMsgHdr::new_with_addr(&packet.to, slice::from_ref(part), control)
            })
            .collect();
        let mut left = &mut messages[..];
        while !left.is_empty() {
            // The call stops before the first datagram that cannot be sent. It returns the error
            // only if that is the first of all (sendmmsg(2)).
            let (done, refused) = match sendmmsg(&self.socket, left, SendFlags::DONTWAIT) {
                Ok(done) => (done, 0),
                Err(_) => (0, 1),
            };
            sent.taken += done;
            sent.refused += refused;
            left = &mut left[done + refused..];
        }
        drop(messages);
        self.packets.clear();
        sent
    }
}

/// Writes the whole packet, and returns its length.
fn write(datagram: Datagram<'_>, traffic_class: u8, into: &mut [u8; PACKET]) -> usize {
    let Datagram { source, destination, payload } = datagram;
    let udp = udp::Header::new(source.port(), destination.port(), payload.len());
    let mut udp = udp.filter(|_| payload.len() <= LONGEST).expect("a payload is short");
    let len = udp::Header::LEN + payload.len();
    let fits = "a short payload fits every packet";
    let (v4, v6);
    let (header, addresses) = match (source.ip(), destination.ip()) {
        (IpAddr::V4(source), IpAddr::V4(destination)) => {
            let mut header =
                ipv4::Header::new(source, destination, protocol::UDP, len).expect(fits);
            // The kernel computes the header checksum (raw(7)).
            header.ttl = ALL;
            v4 = header.with_traffic_class(traffic_class);
            (v4.as_bytes(), &v4.as_bytes()[12..])
        }
        (IpAddr::V6(source), IpAddr::V6(destination)) => {
            let mut header =
                ipv6::Header::new(source, destination, protocol::UDP, len).expect(fits);
            header.hop_limit = ALL;
            header.set_traffic_class(traffic_class);
            v6 = header;
            (v6.as_bytes(), &v6.as_bytes()[8..])
        }
        _ => panic!("{source} and {destination} are of two families"),
    };
    let sum =
        pseudo_header(addresses, protocol::UDP, len) + Sum::of(udp.as_bytes()) + Sum::of(payload);
    udp.checksum = U16::new(sum.transport_checksum());
    let mut at = 0;
    for part in [header, udp.as_bytes(), payload] {
        into[at..at + part.len()].copy_from_slice(part);
        at += part.len();
    }
    at
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn address(bytes: [u8; 16], v6: bool) -> IpAddr {
        if v6 {
            IpAddr::from(bytes)
        } else {
            IpAddr::from(<[u8; 4]>::try_from(&bytes[..4]).unwrap())
        }
    }

    proptest! {
        #[test]
        fn a_neighbour_receives_what_was_sent(
            v6: bool,
            traffic_class: u8,
            source: ([u8; 16], u16),
            destination: ([u8; 16], u16),
            payload in prop::collection::vec(any::<u8>(), 0..=LONGEST),
        ) {
            let [source, destination] =
                [source, destination].map(|(bytes, port)| SocketAddr::new(address(bytes, v6), port));
            let mut bytes = [0; PACKET];
            let datagram = Datagram { source, destination, payload: &payload };
            let len = write(datagram, traffic_class, &mut bytes);
            let (hops, class, read, carried) = if v6 {
                let packet = ipv6::Packet::parse(&bytes[..len]).unwrap();
                let ends = [packet.header.source, packet.header.destination].map(IpAddr::from);
                (packet.header.hop_limit, packet.header.traffic_class(), ends, packet.payload)
            } else {
                let packet = ipv4::Packet::parse(&bytes[..len]).unwrap();
                let ends = [packet.header.source, packet.header.destination].map(IpAddr::from);
                (packet.header.ttl, packet.header.traffic_class, ends, packet.payload)
            };
            prop_assert_eq!((hops, class, read), (ALL, traffic_class, [source.ip(), destination.ip()]));
            let addresses = if v6 { &bytes[8..40] } else { &bytes[12..20] };
            let sum = pseudo_header(addresses, protocol::UDP, carried.len()) + Sum::of(carried);
            prop_assert_eq!(sum.checksum(), 0);
            let (udp, read) = udp::Header::parse(carried).unwrap();
            prop_assert_eq!((udp.source.get(), udp.destination.get()), (source.port(), destination.port()));
            prop_assert_eq!(read, &payload[..]);
        }
    }
}
