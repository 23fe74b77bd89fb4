//! The two ends of a flow.

use core::fmt;
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// The two ends of a flow, as its packets name them: who sends, who gets, and by what protocol.
///
/// Ports are TCP's, UDP's and SCTP's. A question of ICMP (echo) has its identifier in place of its
/// source's port, an answer in place of its destination's; the other one is 0. So two machines that
/// ask each other with one identifier have two flows. What has no ports has 0 for both.
///
/// An IPv4-mapped IPv6 address is the IPv4 address.
#[derive(Clone, Copy, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct Tuple {
    pub(crate) ends: Ends,
    pub(crate) protocol: u8,
}

/// Source, destination and their ports, in words that are quick to compare and to hash.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct Ends {
    source: [u32; 4],
    destination: [u32; 4],
    /// The source's port in the upper half.
    ports: u32,
}

impl Ends {
    #[inline]
    pub const fn reversed(&self) -> Self {
        let ports = self.ports.rotate_left(16);
        Self { source: self.destination, destination: self.source, ports }
    }

    /// The addresses as four words.
    #[inline]
    pub fn words(&self) -> [u64; 4] {
        let pair = |low: u32, high: u32| u64::from(low) | u64::from(high) << 32;
        let ([a, b, c, d], [e, f, g, h]) = (self.source, self.destination);
        [pair(a, b), pair(c, d), pair(e, f), pair(g, h)]
    }

    #[inline]
    pub const fn ports(&self) -> u32 {
        self.ports
    }

    #[inline]
    pub const fn source_port(&self) -> u16 {
        (self.ports >> 16) as u16
    }

    #[inline]
    pub const fn destination_port(&self) -> u16 {
        self.ports as u16
    }

    /// Both ends' bytes as they stand in headers: addresses, then ports.
    pub fn to_bytes(self) -> [u8; 36] {
        let mut bytes = [0; 36];
        let words = self.source.into_iter().chain(self.destination).map(u32::to_le_bytes);
        for (place, word) in bytes.chunks_exact_mut(4).zip(words.chain([self.ports.to_be_bytes()]))
        {
            place.copy_from_slice(&word);
        }
        bytes
    }

    /// What [`to_bytes`](Self::to_bytes) made.
    pub fn from_bytes(bytes: &[u8; 36]) -> Self {
        let word = |at: usize| [bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]];
        Self {
            source: core::array::from_fn(|i| u32::from_le_bytes(word(4 * i))),
            destination: core::array::from_fn(|i| u32::from_le_bytes(word(16 + 4 * i))),
            ports: u32::from_be_bytes(word(32)),
        }
    }

    /// Whether both addresses are of one version.
    pub fn are_alike(&self) -> bool {
        is_v4(&self.source) == is_v4(&self.destination)
    }
}

/// The third word of an IPv4-mapped address.
const MAPPED: u32 = u32::from_le_bytes([0, 0, 0xff, 0xff]);

fn is_v4(words: &[u32; 4]) -> bool {
    matches!(words, [0, 0, MAPPED, _])
}

#[inline]
fn v4(octets: [u8; 4]) -> [u32; 4] {
    [0, 0, MAPPED, u32::from_le_bytes(octets)]
}

#[inline]
fn v6(octets: [u8; 16]) -> [u32; 4] {
    core::array::from_fn(|i| {
        u32::from_le_bytes([octets[4 * i], octets[4 * i + 1], octets[4 * i + 2], octets[4 * i + 3]])
    })
}

fn words(address: IpAddr) -> [u32; 4] {
    match address {
        IpAddr::V4(address) => v4(address.octets()),
        IpAddr::V6(address) => v6(address.octets()),
    }
}

fn address(words: &[u32; 4]) -> IpAddr {
    let [.., last] = words.map(u32::to_le_bytes);
    if is_v4(words) {
        return Ipv4Addr::from(last).into();
    }
    let bytes = words.map(u32::to_le_bytes);
    Ipv6Addr::from(core::array::from_fn::<u8, 16, _>(|i| bytes[i / 4][i % 4])).into()
}

impl Tuple {
    /// A flow's two ends; `None` if their addresses are of two versions.
    pub fn new(protocol: u8, source: (IpAddr, u16), destination: (IpAddr, u16)) -> Option<Self> {
        let ends = Ends {
            source: words(source.0),
            destination: words(destination.0),
            ports: ports(source.1, destination.1),
        };
        ends.are_alike().then_some(Self { ends, protocol })
    }

    #[inline]
    pub(crate) fn of_v4(protocol: u8, from: [u8; 4], to: [u8; 4], ports: u32) -> Self {
        Self { ends: Ends { source: v4(from), destination: v4(to), ports }, protocol }
    }

    #[inline]
    pub(crate) fn of_v6(protocol: u8, from: [u8; 16], to: [u8; 16], ports: u32) -> Self {
        Self { ends: Ends { source: v6(from), destination: v6(to), ports }, protocol }
    }

    /// What packets carry (IANA's number).
    pub const fn protocol(&self) -> u8 {
        self.protocol
    }

    /// Who sends: address and port.
    pub fn source(&self) -> (IpAddr, u16) {
        (address(&self.ends.source), self.ends.source_port())
    }

    /// Who gets: address and port.
    pub fn destination(&self) -> (IpAddr, u16) {
        (address(&self.ends.destination), self.ends.destination_port())
    }

    /// Whether packets with both tuples go to one address.
    pub(crate) fn ends_at(&self, other: &Self) -> bool {
        self.ends.destination == other.ends.destination
    }

    /// The tuple of packets that go the other way.
    #[inline]
    pub const fn reversed(&self) -> Self {
        Self { ends: self.ends.reversed(), protocol: self.protocol }
    }
}

impl fmt::Debug for Tuple {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ((from, port), (to, at)) = (self.source(), self.destination());
        write!(f, "{from} {port} > {to} {at} ({})", self.protocol)
    }
}

#[inline]
pub const fn ports(source: u16, destination: u16) -> u32 {
    (source as u32) << 16 | destination as u32
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_tuple_tells_what_it_was_made_of(
            protocol: u8, from: ([u8; 16], u16), to: ([u8; 16], u16), v4: [[u8; 4]; 2], is_v4: bool,
        ) {
            let addresses: [IpAddr; 2] = match is_v4 {
                true => v4.map(|octets| Ipv4Addr::from(octets).into()),
                false => [from, to].map(|it| Ipv6Addr::from(it.0).into()),
            };
            let (source, destination) = ((addresses[0], from.1), (addresses[1], to.1));
            let tuple = Tuple::new(protocol, source, destination).unwrap();
            prop_assert_eq!(
                (tuple.protocol(), tuple.source(), tuple.destination()),
                (protocol, source, destination)
            );
            let back = tuple.reversed();
            prop_assert_eq!((back.source(), back.destination()), (destination, source));
            prop_assert_eq!(back.reversed(), tuple);
            prop_assert_eq!(Ends::from_bytes(&tuple.ends.to_bytes()), tuple.ends);
        }
    }

    #[test]
    fn one_flow_is_of_one_version_of_ip() {
        let (v4, v6) = (IpAddr::from([192, 0, 2, 1]), "2001:db8::1".parse().unwrap());
        assert_eq!(Tuple::new(17, (v4, 1), (v6, 2)), None);
        let mapped = "::ffff:192.0.2.1".parse().unwrap();
        assert_eq!(Tuple::new(17, (mapped, 1), (v4, 2)), Tuple::new(17, (v4, 1), (v4, 2)));
    }
}
