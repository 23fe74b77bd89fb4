//! What goes around a frame that is carried to another host.
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
//! [`Tunnel::write`] writes all that is before a frame, and never touches the frame: who sends it
//! hands it over from where it lies. [`Received::parse`] finds the frame in what has arrived and
//! says of which tunnel it is; what is damaged, or not to be taken, it refuses for a [`Refusal`].
//!
//! Of the inner packet two things show outside. Its flow chooses the source port (NVGRE's FlowID,
//! IPv6's flow label), so that flows spread over the fabric's ways and none is torn apart. Its
//! traffic class is the outer one's (whoever wants another code point there says so instead), and
//! marks of congestion on the way come back into it (RFC 6040).

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

/// The source ports of UDP and of STT's TCP, a flow's always the same (RFC 7348 §5, RFC 8926 §3.3).
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
    /// All there are.
    pub const ALL: [Self; 4] = [Self::Geneve, Self::Vxlan, Self::Stt, Self::Nvgre];

    /// How many bytes of the outer packet are before the frame, with so many bytes of options,
    /// which Geneve alone can have.
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

    /// The MTU of the virtual network: how long its packets may be if their frames, which have no
    /// tag, are to fit into packets of `underlay_mtu` bytes. `None` if not even an empty one does.
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

/// The number of a virtual network, of 24 bits. Of NVGRE's, those below 0x1000 and the highest are
/// reserved (RFC 7637 §3.2).
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub struct Vni(u32);

impl Vni {
    /// The network of this number; `None` if it has more than 24 bits.
    pub const fn new(number: u32) -> Option<Self> {
        if number < 1 << 24 { Some(Self(number)) } else { None }
    }

    /// Its number.
    pub const fn number(self) -> u32 {
        self.0
    }
}

/// The two ends of a tunnel, by their addresses in the underlay.
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
    /// Two ends; `None` if they are not of one family.
    pub const fn new(local: IpAddr, remote: IpAddr) -> Option<Self> {
        match (local, remote) {
            (IpAddr::V4(local), IpAddr::V4(remote)) => Some(Self::V4 { local, remote }),
            (IpAddr::V6(local), IpAddr::V6(remote)) => Some(Self::V6 { local, remote }),
            _ => None,
        }
    }

    /// Of which family they are.
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

/// Whether datagrams have a checksum. STT's segments always have, as TCP does; GRE's packets never,
/// as NVGRE says.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Checksum {
    /// It covers all of the outer packet, addresses too.
    Computed,
    /// None is sent: the frame's own checksums have to do. Over IPv6 both ends have to want that
    /// (RFC 6935, RFC 6936).
    Absent,
}

impl Checksum {
    /// What a tunnel does unless told otherwise: over IPv4 none is needed (RFC 7348 §5), over IPv6
    /// it is (RFC 8200 §8.1).
    pub const fn usual(version: Version) -> Self {
        match version {
            Version::V4 => Self::Absent,
            Version::V6 => Self::Computed,
        }
    }
}

/// A tunnel between two hosts for one virtual network, as one end writes it.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Tunnel {
    /// How frames are carried.
    pub encapsulation: Encapsulation,
    /// Between whom.
    pub vteps: Vteps,
    /// Whose they are.
    pub vni: Vni,
    /// Our address on the link.
    pub source: Mac,
    /// The next hop's.
    pub destination: Mac,
    /// The underlay's VLAN: packets are tagged with it and their frame's class. 0 is none: the tag
    /// tells the class alone, which is what lossless classes need of it. `None`: there is no tag.
    pub vlan: Option<u16>,
    /// How many hops the fabric may have (TTL, hop limit).
    pub ttl: u8,
    /// Whether datagrams have a checksum.
    pub checksum: Checksum,
    /// The longest packet that the underlay carries, in bytes: it is never fragmented.
    pub underlay_mtu: u16,
}
