//! What IPv4 and IPv6 share, and where a packet's parts lie in a frame.

mod fragment;

use core::array;
use core::net::{Ipv4Addr, Ipv6Addr};
use core::ops::Range;

use zerocopy::FromBytes;

use crate::checksum::{Sum, pseudo_header};
use crate::ethernet::{self, ethertype};
use crate::{ipv4, ipv6};

pub use fragment::{Fragment, Part};

/// Protocol numbers that we know (IANA's registry).
pub mod protocol {
    /// ICMP for IPv4 (RFC 792).
    pub const ICMP: u8 = 1;
    /// IGMP (RFC 3376).
    pub const IGMP: u8 = 2;
    /// TCP.
    pub const TCP: u8 = 6;
    /// UDP.
    pub const UDP: u8 = 17;
    /// GRE (RFC 2784).
    pub const GRE: u8 = 47;
    /// ICMP for IPv6 (RFC 4443).
    pub const ICMPV6: u8 = 58;
}

/// A version of IP.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Version {
    /// RFC 791.
    V4,
    /// RFC 8200.
    V6,
}

/// Where the parts of an IP packet lie, in bytes from the frame's first.
///
/// ```text
/// 0          network        transport              end
/// │ ethernet │ ip, options  │ tcp or udp, payload  │ padding
/// ```
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Layout {
    /// Which IP it is.
    pub version: Version,
    /// Where the IP header begins.
    pub network: usize,
    /// Where the IP header and its options or extensions end.
    pub transport: usize,
    /// Where the packet ends.
    pub end: usize,
    /// What follows the IP header, one of [`protocol`].
    pub protocol: u8,
    /// Whether it is a fragment.
    pub fragment: Fragment,
}

impl Layout {
    /// Finds the packet in a frame, behind at most two VLAN tags.
    ///
    /// `None` if the frame carries no IP, if a header is malformed or cut short, or if an IPv6
    /// packet has more than [`ipv6::MAX_EXTENSIONS`] or a routing header that is not used up: then
    /// its destination is not its last.
    #[inline]
    pub fn of(frame: &[u8]) -> Option<Self> {
        Self::of_head(frame, frame.len())
    }

    /// As [`of`](Self::of), of a frame of `len` bytes of which only the first are at hand: all its
    /// headers.
    #[inline]
    pub fn of_head(head: &[u8], len: usize) -> Option<Self> {
        let (ethertype, network) = ethernet::payload(head)?;
        let packet = head.get(network..)?;
        let len = len.checked_sub(network)?;
        match ethertype {
            ethertype::IPV4 => {
                let packet = ipv4::Packet::parse_head(packet, len)?;
                let transport = network + packet.header.len();
                Some(Self {
                    version: Version::V4,
                    network,
                    transport,
                    end: network + usize::from(packet.header.total_len.get()),
                    protocol: packet.header.protocol,
                    fragment: packet.header.fragment(),
                })
            }
            ethertype::IPV6 => {
                let packet = ipv6::Packet::parse_head(packet, len)?;
                let transport = network + ipv6::Header::LEN + packet.extensions.len();
                Some(Self {
                    version: Version::V6,
                    network,
                    transport,
                    end: network + ipv6::Header::LEN + usize::from(packet.header.payload_len.get()),
                    protocol: packet.protocol,
                    fragment: packet.fragment,
                })
            }
            _ => None,
        }
    }

    /// The packet's traffic class, of which [`Ecn`](crate::ecn::Ecn) is a part, in the frame that
    /// this layout was found in.
    pub fn traffic_class(&self, frame: &[u8]) -> Option<u8> {
        let packet = frame.get(self.network..)?;
        match self.version {
            Version::V4 => Some(ipv4::Header::ref_from_prefix(packet).ok()?.0.traffic_class),
            Version::V6 => Some(ipv6::Header::ref_from_prefix(packet).ok()?.0.traffic_class()),
        }
    }

    /// Changes the packet's traffic class, and IPv4's checksum with it, in the frame that this
    /// layout was found in; `None` if `frame` is shorter than that.
    pub fn set_traffic_class(&self, frame: &mut [u8], traffic_class: u8) -> Option<()> {
        let packet = frame.get_mut(self.network..)?;
        match self.version {
            Version::V4 => {
                ipv4::Header::mut_from_prefix(packet).ok()?.0.set_traffic_class(traffic_class)
            }
            Version::V6 => {
                ipv6::Header::mut_from_prefix(packet).ok()?.0.set_traffic_class(traffic_class)
            }
        }
        Some(())
    }

    /// Where the packet's source and destination lie, side by side, in bytes from the frame's
    /// first.
    #[inline]
    pub const fn address_range(&self) -> Range<usize> {
        match self.version {
            Version::V4 => self.network + 12..self.network + 20,
            Version::V6 => self.network + 8..self.network + 40,
        }
    }

    /// From whom and to whom the packet goes, in the frame that this layout was found in. An IPv4
    /// address is mapped: ::ffff:a.b.c.d.
    #[inline]
    pub fn addresses(&self, frame: &[u8]) -> (Ipv6Addr, Ipv6Addr) {
        let v4 = |at: usize| {
            let octets = array::from_fn::<u8, 4, _>(|i| frame[self.network + at + i]);
            Ipv4Addr::from(octets).to_ipv6_mapped()
        };
        let v6 = |at: usize| {
            Ipv6Addr::from(array::from_fn::<u8, 16, _>(|i| frame[self.network + at + i]))
        };
        match self.version {
            Version::V4 => (v4(12), v4(16)),
            Version::V6 => (v6(8), v6(24)),
        }
    }

    /// Which packet a fragment is a part of, in the frame that this layout was found in; see
    /// [`ipv6::Packet::part`] for when it cannot be told.
    pub(crate) fn part(&self, frame: &[u8]) -> Option<Part> {
        let (packet, len) = (frame.get(self.network..)?, self.end - self.network);
        match self.version {
            Version::V4 => Some(ipv4::Packet::parse_head(packet, len)?.header.part()),
            Version::V6 => ipv6::Packet::parse_head(packet, len)?.part(),
        }
    }

    /// The pseudo-header's sum for a transport header and payload of `len` bytes, in the frame that
    /// this layout was found in or one that begins like it.
    ///
    /// # Panics
    ///
    /// If `frame` ends before its addresses do.
    pub fn pseudo_header(&self, frame: &[u8], len: usize) -> Sum {
        pseudo_header(&frame[self.address_range()], self.protocol, len)
    }
}
