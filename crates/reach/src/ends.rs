//! Ports that rules and routes treat alike, as one class.
//!
//! Two ports are of one class if exchanging them, with their names and addresses, changes no
//! decision: the same switch, the same policies and peers, the same state, and addresses of the
//! same classes. So what holds between one of each class and another holds between all of them.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;
use core::net::IpAddr;

use logical::objects::{AddressRange, NatKind};
use logical::topology::{Attachment, PortIndex, Target, Topology};

use crate::addresses::{Addresses, Family, Partition};
use crate::security::{is_free, is_open, is_plain, link_local};
use crate::space::Space;

/// Addresses of a port that are treated alike.
#[derive(Clone, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub struct Own {
    /// Their family.
    pub family: Family,
    /// Whether it is the one that the Ethernet address makes.
    pub is_link_local: bool,
    /// As rules tell them apart.
    pub class: u32,
    /// As routes do.
    pub place: u32,
    /// How many there are.
    pub count: usize,
}

/// Ports that are treated alike.
#[derive(Clone, Debug)]
pub struct Class {
    /// They, in order.
    pub ports: Vec<PortIndex>,
    /// Their own addresses, as each has them.
    pub own: Vec<Own>,
}

/// All ports but routers', in classes.
#[derive(Debug)]
pub struct Ends {
    /// The classes, by their first ports.
    pub classes: Vec<Class>,
    /// Of each port, its class. `None`: a router's.
    pub of: Vec<Option<u32>>,
    /// Classes of addresses, as routes tell them apart.
    pub places: Partition,
}

/// What tells ports apart.
#[derive(Clone, Debug, Eq, Ord, PartialEq, PartialOrd)]
struct Key {
    first_of_kind: Option<PortIndex>,
    switch: usize,
    flags: [bool; 6],
    who: u32,
    bundles: [u32; 2],
    mac: u32,
    own: Vec<Own>,
}

/// Sets of addresses that routers tell apart.
fn places(topology: &Topology) -> Vec<Vec<AddressRange>> {
    let mut all: BTreeSet<AddressRange> = BTreeSet::new();
    for (_, port) in topology.router_ports() {
        for it in &port.addresses {
            all.extend([AddressRange::from(*it), AddressRange::from(it.address)]);
        }
    }
    let mut hops: Vec<&logical::topology::Hop> = Vec::new();
    for (_, router) in topology.routers() {
        for route in &router.routes {
            all.insert(route.prefix.into());
            all.extend(route.source.map(AddressRange::from));
            if let Target::Hops { hops: own, .. } = &route.target {
                hops.extend(own);
            }
        }
        hops.extend(router.policies.iter().flat_map(|it| match &it.decision {
            logical::topology::RouteDecision::Reroute(own) => own.as_slice(),
            _ => &[],
        }));
    }
    all.extend(hops.into_iter().map(|hop| AddressRange::from(hop.address)));
    all.extend(translated(topology));
    all.into_iter().map(|range| alloc::vec![range]).collect()
}

/// Sets of addresses that translations and load balancers tell apart. What is translated one to one
/// is told apart one by one.
fn translated(topology: &Topology) -> Vec<AddressRange> {
    let mut all: Vec<AddressRange> = Vec::new();
    let owned = || topology.ports().flat_map(|(_, it)| &it.addresses).copied();
    for (_, nat) in topology.nats() {
        all.extend([nat.external, nat.logical]);
        all.extend(topology.addresses_in(&nat.exempt).chain(topology.addresses_in(&nat.only_for)));
        if nat.kind == NatKind::Floating {
            let one = owned().filter(|it| nat.logical.contains(*it) || nat.external.contains(*it));
            all.extend(one.map(AddressRange::from));
        }
    }
    for (_, balancer) in topology.balancers() {
        all.push(balancer.vip.into());
        all.extend(balancer.backends.iter().map(|it| AddressRange::from(it.address)));
    }
    all
}

impl Ends {
    /// Puts ports into classes.
    pub fn new(space: &mut Space<'_>) -> Self {
        let topology = space.topology;
        let cuts = places(topology);
        let mut made = Self { classes: Vec::new(), of: Vec::new(), places: Partition::new(&cuts) };
        let parents: BTreeSet<PortIndex> = topology
            .ports()
            .filter_map(|(_, it)| match it.attachment {
                Attachment::Child { parent, .. } => Some(parent),
                _ => None,
            })
            .collect();
        let mut numbers: BTreeMap<Key, u32> = BTreeMap::new();
        for (index, port) in topology.ports() {
            if matches!(port.attachment, Attachment::Router(_)) {
                made.of.push(None);
                continue;
            }
            let own = made.own(space, index);
            let is_one_of_many = port.attachment == Attachment::Vif
                && (is_plain(port) || is_free(port) || is_open(port))
                && !parents.contains(&index);
            let key = Key {
                first_of_kind: (!is_one_of_many).then_some(index),
                switch: port.switch.place(),
                flags: [
                    port.enabled,
                    port.unknown,
                    is_open(port),
                    is_free(port),
                    port.connections == Some(0),
                    port.is_machine(),
                ],
                who: space.who[index.place()],
                bundles: space.bundles_of(index),
                mac: space.mac(port.mac),
                own: own.clone(),
            };
            let number = *numbers.entry(key).or_insert_with(|| {
                made.classes.push(Class { ports: Vec::new(), own });
                made.classes.len() as u32 - 1
            });
            made.classes[number as usize].ports.push(index);
            made.of.push(Some(number));
        }
        made
    }

    fn own(&self, space: &Space<'_>, port: PortIndex) -> Vec<Own> {
        let it = &space.topology[port];
        let mut counts: BTreeMap<(Family, bool, u32, u32), usize> = BTreeMap::new();
        for (address, is_link_local) in with_link_local(space.topology, port) {
            let (class, place) = (space.classes.class(address), self.places.class(address));
            *counts.entry((Family::of(address), is_link_local, class, place)).or_default() += 1;
        }
        debug_assert!(!matches!(it.attachment, Attachment::Router(_)));
        let own = counts.into_iter().map(|((family, is_link_local, class, place), count)| Own {
            family,
            is_link_local,
            class,
            place,
            count,
        });
        own.collect()
    }

    /// A port's addresses of one of its class's groups.
    pub fn addresses(&self, space: &Space<'_>, port: PortIndex, group: u32) -> Addresses {
        let class = self.of[port.place()].unwrap_or_default();
        let own = &self.classes[class as usize].own[group as usize];
        let all = with_link_local(space.topology, port).filter(|(address, is_link_local)| {
            *is_link_local == own.is_link_local
                && Family::of(*address) == own.family
                && space.classes.class(*address) == own.class
                && self.places.class(*address) == own.place
        });
        Addresses::of(own.family, all.map(|(address, _)| address.into()))
    }
}

/// A port's addresses, and the one that its Ethernet address makes.
fn with_link_local(topology: &Topology, port: PortIndex) -> impl Iterator<Item = (IpAddr, bool)> {
    let port = &topology[port];
    let own = port.addresses.iter().map(|it| (*it, false));
    own.chain([(link_local(port.mac), true)].into_iter().filter(|_| port.is_machine()))
}
