//! The flow key: all of a frame that decides its fate, in two numbers that are quick to make and to
//! compare.
//!
//! The addresses are taken as they lie in the frame, in whole words.

use units::{Mac, hash};
use wire::ethernet::{Peek, Tag};

use crate::Network;

/// In the first number the destination and two octets of the source, first octet lowest; in the
/// second the other four, the tag's control information, and the network's number.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct FlowKey(u64, u64);

impl FlowKey {
    /// No frame's, as no frame is of its network.
    pub(crate) const NONE: Self = Self(0, (Network::NONE.number() as u64) << 48);

    #[inline]
    pub(crate) fn of(header: &Peek, network: Network) -> Self {
        let [first @ .., i, j, k, l] = header.addresses;
        let last = u64::from(u32::from_le_bytes([i, j, k, l]));
        let tci = u64::from(header.tci);
        Self(u64::from_le_bytes(first), last | tci << 32 | u64::from(network.number()) << 48)
    }

    /// A number for frames that are alike and came in by this port.
    #[inline]
    pub(crate) fn hash(self, port: usize) -> u64 {
        let first = hash::fibonacci(self.0 ^ (port as u64) << 48);
        hash::fibonacci(first.rotate_left(32) ^ self.1) >> 48
    }

    pub(crate) fn source(self) -> Mac {
        let [_, _, _, _, _, _, a, b] = self.0.to_le_bytes();
        let [c, d, e, f, ..] = self.1.to_le_bytes();
        Mac([a, b, c, d, e, f])
    }

    pub(crate) fn destination(self) -> Mac {
        let [a, b, c, d, e, f, ..] = self.0.to_le_bytes();
        Mac([a, b, c, d, e, f])
    }

    pub(crate) fn network(self) -> Network {
        Network::new((self.1 >> 48) as u16).unwrap_or(Network::NONE)
    }

    pub(crate) fn tag(self) -> Option<Tag> {
        Peek::tag_of(self.tci())
    }

    /// Whether no machine may send such a frame: its source is a group or nobody (802.3 §3.2.3),
    /// its VLAN is reserved (802.1Q table 9-2), or it is MAC control for somebody beyond the link.
    pub(crate) fn is_malformed(self) -> bool {
        let source = self.source();
        source.is_multicast()
            || source == Mac([0; 6])
            || self.tag().is_some_and(|tag| tag.vlan == 0xfff)
            || self.tci() == Peek::CONTROL
    }

    fn tci(self) -> u16 {
        (self.1 >> 32) as u16
    }
}
