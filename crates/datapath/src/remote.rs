//! Machines on other hosts: behind which port of which host each is.
//!
//! They are declared and never learned. All far hosts are behind one port of the switch, the
//! uplink; each of their ports is a flow there, of which the number tells host, class and port.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;
use core::net::IpAddr;
use core::ops::RangeInclusive;

use lossless::Flow;
use units::{Class, ClassSet, Mac};

use crate::{Place, VirtualNetwork};

/// A far host, by the number that its owner gives it.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct Peer(u32);

/// How many bits a peer's number has.
const PEER_BITS: u32 = 24;

/// The label of what is for all of a network's machines at a host is this and the network's number.
const FLOOD: u32 = 1 << 31;

impl Peer {
    /// The far host with this number; `None` beyond 24 bits.
    pub const fn new(number: u32) -> Option<Self> {
        if number < 1 << PEER_BITS { Some(Self(number)) } else { None }
    }

    /// Its number.
    pub const fn index(self) -> usize {
        self.0 as usize
    }

    /// The numbers of all flows to it.
    pub const fn flows(self) -> RangeInclusive<Flow> {
        let first = (self.0 as u64) << 40;
        Flow(first)..=Flow(first | ((1 << 40) - 1))
    }
}

/// A port of a far host, or all of a network's machines there.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct Remote {
    /// The host.
    pub peer: Peer,
    /// The label that tells the host which of its ports is meant.
    pub label: u32,
}

impl Remote {
    /// All of a network's machines at a host.
    pub const fn flood(peer: Peer, vni: u32) -> Self {
        Self { peer, label: FLOOD | vni }
    }

    /// Whether all of a network's machines at the host are meant.
    pub const fn is_flood(self) -> bool {
        self.label & FLOOD != 0
    }

    /// The flow of what goes there in a class: the peer's number, the class and the label, 24, 8
    /// and 32 bits.
    pub const fn flow(self, class: Class) -> Flow {
        Flow((self.peer.0 as u64) << 40 | (class.pcp() as u64) << 32 | self.label as u64)
    }

    /// Where a flow goes, and in which class.
    pub const fn of_flow(Flow(number): Flow) -> (Self, Class) {
        let remote = Self { peer: Peer((number >> 40) as u32), label: number as u32 };
        (remote, Class::from_low_bits((number >> 32) as u8))
    }
}

/// What the host of a port has to know of a frame of a logical network that another host sends to
/// it.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Origin {
    /// The label of the port that it came from; 0 if it came from outside, or its source is
    /// translated.
    pub label: u32,
    /// Whether the network itself sends it.
    pub is_networks: bool,
    /// Whether it opens a connection at its sender's host, which has to know if it is refused.
    pub opens: bool,
    /// Whether nothing is underway that was sent to its receiver's host before.
    pub is_anew: bool,
    /// Through how many routers it has come, if it is for one.
    pub routers: u8,
    /// The generation by which it was sent; 0 if its host has no generations in common with others.
    pub generation: u32,
}

/// Where the machines of one virtual network are on other hosts. It never changes: who learns of a
/// change makes a new one, away from the thread that forwards.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Declared {
    /// The network's number in tunnels.
    vni: u32,
    classes: Option<ClassSet>,
    places: BTreeMap<Mac, Remote>,
    /// Every host that has machines of it, in order.
    peers: Vec<Peer>,
}

impl Declared {
    /// What is declared of a network, with the numbers of its hosts. A host without a number is not
    /// reached.
    pub fn new(
        vni: u32,
        network: &VirtualNetwork,
        peer_of: impl Fn(IpAddr) -> Option<Peer>,
    ) -> Self {
        let far = |(mac, place)| match place {
            Place::Here { .. } => None,
            Place::There { vtep, label } => Some((mac, Remote { peer: peer_of(vtep)?, label })),
        };
        let places: BTreeMap<Mac, Remote> = network.places().filter_map(far).collect();
        let peers: BTreeSet<Peer> = places.values().map(|remote| remote.peer).collect();
        let classes = network.classes();
        Self { vni, classes, places, peers: peers.into_iter().collect() }
    }

    /// The network's number in tunnels.
    pub fn vni(&self) -> u32 {
        self.vni
    }

    /// The classes that its machines may choose, on the host and between hosts. `None`: all, but
    /// between hosts frames are of their port's class.
    pub fn classes(&self) -> Option<ClassSet> {
        self.classes
    }

    /// Where a machine is, if it is on another host.
    #[inline]
    pub fn place(&self, mac: Mac) -> Option<Remote> {
        self.places.get(&mac).copied()
    }

    /// Where each machine is, by its Ethernet address.
    pub fn places(&self) -> impl ExactSizeIterator<Item = (Mac, Remote)> {
        self.places.iter().map(|(mac, remote)| (*mac, *remote))
    }

    /// Every host that has machines of it, in order.
    pub fn peers(&self) -> &[Peer] {
        &self.peers
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn a_flow_tells_where_it_goes(peer in 0u32..1 << PEER_BITS, label: u32, pcp in 0u8..8) {
            let (peer, class) = (Peer::new(peer).unwrap(), Class::from_low_bits(pcp));
            let remote = Remote { peer, label };
            prop_assert_eq!(Remote::of_flow(remote.flow(class)), (remote, class));
            prop_assert!(peer.flows().contains(&remote.flow(class)));
            for other in [peer.0.wrapping_sub(1), peer.0 + 1].into_iter().filter_map(Peer::new) {
                prop_assert!(!other.flows().contains(&remote.flow(class)));
            }
        }
    }
}
