//! What all trunks of a host share.

use std::collections::{HashMap, VecDeque};

use datapath::{Declared, Network};
use plane::Event;
use seal::Pace;
use units::{Class, ClassSet, Dscp, Span};

use crate::downlinks::Downlinks;
use crate::slots::Slots;

/// What all trunks of a host share.
pub struct Shared {
    /// Memory for frames that have arrived.
    pub slots: Slots,
    /// The networks that tunnels carry.
    pub networks: Networks,
    /// Credit for the uplinks' links.
    pub downlinks: Downlinks,
    /// Holds a contiguous copy of a frame that does not lie in one piece.
    pub scratch: Vec<u8>,
    /// Holds a frame that is cut into fragments.
    pub cut: Vec<u8>,
    /// What the plane has not polled.
    pub events: VecDeque<Event>,
    /// How long a far host may take nothing before it counts as stalled.
    pub patience: Span,
    /// How often channels do Diffie-Hellman.
    pub pace: Pace,
}

/// The networks that tunnels carry.
#[derive(Debug, Default)]
pub struct Networks {
    by_vni: HashMap<u32, Network>,
    /// By the network's number.
    carried: Vec<Option<Carried>>,
}

/// A network that tunnels carry.
#[derive(Clone, Copy, Debug)]
pub struct Carried {
    pub vni: u32,
    /// The classes that its machines may choose between hosts.
    pub classes: ClassSet,
}

impl Carried {
    /// A network of which this is declared.
    pub fn new(declared: &Declared) -> Self {
        let classes = declared.classes().unwrap_or(ClassSet::NONE);
        Self { vni: declared.vni(), classes }
    }
}

impl Networks {
    /// A network is carried so from now on; `None`: tunnels do not carry it any more.
    pub fn set(&mut self, network: Network, carried: Option<Carried>) {
        let index = usize::from(network.number());
        if self.carried.len() <= index {
            self.carried.resize(index + 1, None);
        }
        if let Some(old) = std::mem::replace(&mut self.carried[index], carried)
            && self.by_vni.get(&old.vni) == Some(&network)
        {
            self.by_vni.remove(&old.vni);
        }
        self.by_vni.extend(carried.map(|carried| (carried.vni, network)));
    }

    /// The VNI of a network.
    pub fn vni(&self, network: Network) -> Option<u32> {
        Some(self.carried(network)?.vni)
    }

    /// What the underlay may see of the traffic class of a network's packet: its ECN field, and its
    /// code point if the network may use the class that the first three bits stand for (RFC 2474
    /// §4.2.2).
    pub fn shown(&self, network: Network, traffic_class: u8) -> u8 {
        let is_declared =
            |it: &Carried| it.classes.contains(Class::from_low_bits(traffic_class >> 5));
        match self.carried(network).is_some_and(is_declared) {
            true => traffic_class,
            false => Dscp::default().within(traffic_class),
        }
    }

    fn carried(&self, network: Network) -> Option<&Carried> {
        self.carried.get(usize::from(network.number()))?.as_ref()
    }

    /// The network with this VNI.
    pub fn of_vni(&self, vni: u32) -> Option<Network> {
        self.by_vni.get(&vni).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_underlay_is_shown_the_code_points_that_a_network_may_use() {
        const EF: u8 = 46 << 2;
        let [plain, voice, unknown] = [1, 2, 3].map(|number| Network::new(number).unwrap());
        let mut networks = Networks::default();
        networks.set(plain, Some(Carried { vni: 1, classes: ClassSet::NONE }));
        let classes = [0, 5].map(Class::from_low_bits).into_iter().collect();
        networks.set(voice, Some(Carried { vni: 2, classes }));
        for ecn in 0..4 {
            assert_eq!(networks.shown(voice, EF | ecn), EF | ecn);
            for (network, inner) in [(plain, EF), (unknown, EF), (voice, 7 << 5), (voice, 6 << 5)] {
                assert_eq!(networks.shown(network, inner | ecn), ecn, "{network:?}");
            }
        }
    }
}
