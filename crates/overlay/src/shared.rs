//! What all trunks of a host share.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use datapath::{Declared, Network, Origin};
use plane::Event;
use seal::Pace;
use tunnel::{Context, ContextFlags};
use units::{Class, ClassSet, Dscp, Span};

use crate::downlinks::Downlinks;
use crate::slots::Slots;

/// What all trunks of a host share.
pub struct Shared {
    /// Memory for frames that have arrived.
    pub slots: Slots,
    /// The networks that tunnels carry.
    pub networks: Networks,
    /// What this host knows of logical networks, once it knows something.
    pub known: Option<Known>,
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

/// What a host knows of logical networks, as far as tunnels ask: which generation it has, and which
/// labels mean something here.
#[derive(Clone, Debug, Default)]
pub struct Known {
    pub generation: u64,
    pub labels: BTreeSet<u32>,
}

impl Known {
    /// Whether a frame for this label came early: a newer generation than that of this host may say
    /// what the label means.
    pub fn is_early(&self, label: u32, context: &Context) -> bool {
        let is_newer = || context.generation_near(self.generation) > self.generation;
        context.generation != 0 && !self.labels.contains(&label) && is_newer()
    }
}

/// The VNI of frames of logical networks: their labels say whose they are.
pub const LOGICAL: u32 = 0;

/// What goes with a frame that comes from there.
pub fn context_of(origin: Origin) -> Context {
    let of = |is_so, flag| if is_so { flag } else { ContextFlags::default() };
    let flags = of(origin.is_networks, ContextFlags::NETWORKS);
    let flags = flags.with(of(origin.opens, ContextFlags::OPENS));
    let flags = flags.with(of(origin.is_anew, ContextFlags::ANEW));
    let Origin { label: origin, generation, routers, .. } = origin;
    Context { origin, generation, flags, routers }
}

/// Where a frame comes from with which this goes.
pub fn origin_of(context: Context) -> Origin {
    Origin {
        label: context.origin,
        is_networks: context.flags.contains(ContextFlags::NETWORKS),
        opens: context.flags.contains(ContextFlags::OPENS),
        is_anew: context.flags.contains(ContextFlags::ANEW),
        generation: context.generation,
        routers: context.routers,
    }
}

/// The networks that tunnels carry.
#[derive(Debug, Default)]
pub struct Networks {
    by_vni: BTreeMap<u32, Network>,
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

    /// The network to which a session's frame with this VNI is booked, if one is here, and whether
    /// it is declared.
    pub fn of_session(&self, vni: u32) -> (Option<Network>, bool) {
        match self.of_vni(vni) {
            Some(network) => (Some(network), true),
            None => ((vni == LOGICAL).then(Network::default), false),
        }
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
    fn only_what_a_newer_generation_may_explain_is_early() {
        let known = Known { generation: 7, labels: [3].into() };
        let of = |generation| Context { generation, ..Context::default() };
        for (label, generation, is_early) in
            [(4, 8, true), (4, 7, false), (4, 6, false), (3, 8, false), (4, 0, false)]
        {
            assert_eq!(known.is_early(label, &of(generation)), is_early, "{label} {generation}");
        }
    }

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
