//! The outer headers of frames that are carried to another host, and their encapsulations.
//!
//! ```text
//! ┌──────────┬───────┬───────────┬─────┬────────────────────────┬───────┐
//! │ ethernet │ (tag) │ ipv4 ipv6 │ udp │ Geneve header, options │       │
//! │          │       │           │ udp │ VXLAN header           │ frame │
//! │          │       │           │ tcp │ STT header             │       │
//! │          │       │           │     │ GRE header (NVGRE)     │       │
//! └──────────┴───────┴───────────┴─────┴────────────────────────┴───────┘
//!                    └───────────── overhead ───────────────────┘
//!                    └───────────────── the underlay's MTU ─────────────┘
//! ```
//!
//! [`Tunnel::write`] writes the headers before a frame. It does not touch the frame, which is sent
//! from where it lies. [`Received::parse`] finds the frame in a received packet and says which
//! tunnel the packet belongs to. It refuses damaged and unacceptable packets with a [`Refusal`].
//!
//! Two properties of the inner packet show in the outer headers. Its flow selects the source port
//! (NVGRE: the FlowID; IPv6: the flow label as well), so that the fabric spreads flows over its
//! paths and keeps each flow on one. Its traffic class is copied to the outer header, unless the
//! caller gives another; congestion marks of the fabric are copied back when the packet arrives
//! (RFC 6040).

mod receive;
#[cfg(test)]
mod tests;
mod write;

use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use core::ops::RangeInclusive;

use units::Mac;
use wire::ip::Version;
use wire::{ethernet, geneve, ipv4, ipv6, stt, tcp, udp, vxlan};

pub use receive::{Received, Refusal, is_partial, segment};
pub use write::{Inner, WriteError};

/// The source ports of UDP and of STT's TCP. A flow always has the same (RFC 7348 §5, RFC 8926
/// §3.3).
pub const SOURCE_PORTS: RangeInclusive<u16> = 49_152..=65_535;

/// The length in bytes of the longest header that [`Tunnel::write`] writes.
pub const LONGEST: usize =
    LINK + Encapsulation::Geneve.overhead(Version::V6, geneve::MOST_OPTIONS_LEN);

/// Ethernet's header and one tag, in bytes.
const LINK: usize = ethernet::Header::LEN + size_of::<ethernet::TagHeader>();

/// NVGRE's header in bytes: GRE's with a key (RFC 7637 §3.2).
const NVGRE_LEN: usize = 8;

/// How a frame is carried.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub enum Encapsulation {
    /// RFC 8926: with options, which our own protocol needs.
    Geneve,
    /// RFC 7348.
    Vxlan,
    /// draft-davie-stt-08.
    Stt,
    /// RFC 7637.
    Nvgre,
}

impl Encapsulation {
    /// All encapsulations.
    pub const ALL: [Self; 4] = [Self::Geneve, Self::Vxlan, Self::Stt, Self::Nvgre];

    /// The bytes of the outer packet before the frame, from the IP header on. Only Geneve can have
    /// options.
    pub const fn overhead(self, version: Version, options_len: usize) -> usize {
        let ip = match version {
            Version::V4 => ipv4::Header::LEN,
            Version::V6 => ipv6::Header::LEN,
        };
        let rest = match self {
            Self::Geneve => udp::Header::LEN + geneve::Header::LEN + options_len,
            Self::Vxlan => udp::Header::LEN + vxlan::Header::LEN,
            Self::Stt => tcp::Header::LEN + stt::Header::LEN,
            Self::Nvgre => NVGRE_LEN,
        };
        ip + rest
    }

    /// The MTU of the virtual network: the longest inner packet whose untagged frame fits into an
    /// outer packet of `underlay_mtu` bytes. `None` if not even an empty one fits.
    pub const fn inner_mtu(
        self,
        version: Version,
        options_len: usize,
        underlay_mtu: u16,
    ) -> Option<u16> {
        let around = self.overhead(version, options_len) + ethernet::Header::LEN;
        if around > underlay_mtu as usize { None } else { Some(underlay_mtu - around as u16) }
    }
}

/// The number of a virtual network, of 24 bits. NVGRE reserves those below 0x1000 and the highest
/// (RFC 7637 §3.2).
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub struct Vni(u32);

impl Vni {
    /// The network with this number; `None` if it has more than 24 bits.
    pub const fn new(number: u32) -> Option<Self> {
        if number < 1 << 24 { Some(Self(number)) } else { None }
    }

    /// Its number.
    pub const fn number(self) -> u32 {
        self.0
    }
}

/// The addresses of a tunnel's two ends in the underlay.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub enum Vteps {
    /// Over IPv4.
    V4 {
        /// Ours.
        local: Ipv4Addr,
        /// The far end's.
        remote: Ipv4Addr,
    },
    /// Over IPv6.
    V6 {
        /// Ours.
        local: Ipv6Addr,
        /// The far end's.
        remote: Ipv6Addr,
    },
}

impl Vteps {
    /// `None` if the addresses are not of one family.
    pub const fn new(local: IpAddr, remote: IpAddr) -> Option<Self> {
        match (local, remote) {
            (IpAddr::V4(local), IpAddr::V4(remote)) => Some(Self::V4 { local, remote }),
            (IpAddr::V6(local), IpAddr::V6(remote)) => Some(Self::V6 { local, remote }),
            _ => None,
        }
    }

    /// Their address family.
    pub const fn version(&self) -> Version {
        match self {
            Self::V4 { .. } => Version::V4,
            Self::V6 { .. } => Version::V6,
        }
    }

    /// As the far end sees them.
    pub const fn reversed(self) -> Self {
        match self {
            Self::V4 { local, remote } => Self::V4 { local: remote, remote: local },
            Self::V6 { local, remote } => Self::V6 { local: remote, remote: local },
        }
    }
}

/// Whether UDP datagrams have a checksum. STT's segments always have TCP's; NVGRE's packets never
/// have GRE's.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Checksum {
    /// It covers the whole outer packet, including the addresses.
    Computed,
    /// None: only the frame's own checksums protect it. Over IPv6 both ends have to agree to that
    /// (RFC 6935, RFC 6936).
    Absent,
}

impl Checksum {
    /// The default: IPv4 needs no checksum (RFC 7348 §5), IPv6 does (RFC 8200 §8.1).
    pub const fn usual(version: Version) -> Self {
        match version {
            Version::V4 => Self::Absent,
            Version::V6 => Self::Computed,
        }
    }
}

/// A tunnel between two hosts for one virtual network, as seen by its sending end.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Tunnel {
    /// How frames are carried.
    pub encapsulation: Encapsulation,
    /// The addresses of both ends.
    pub vteps: Vteps,
    /// The virtual network of the frames.
    pub vni: Vni,
    /// The source MAC address on the link.
    pub source: Mac,
    /// The MAC address of the next hop.
    pub destination: Mac,
    /// The underlay's VLAN. Packets carry a tag with this VLAN and their frame's class. 0 means a
    /// tag with the class alone, which is enough for lossless classes. `None`: packets have no tag.
    pub vlan: Option<u16>,
    /// The TTL, or hop limit.
    pub ttl: u8,
    /// Whether datagrams have a checksum.
    pub checksum: Checksum,
    /// The underlay's MTU in bytes. Outer packets are never fragmented.
    pub underlay_mtu: u16,
}
