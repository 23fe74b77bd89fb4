//! Where routers send classes of packets.

use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::cmp::Reverse;
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use interpreter::Reason;
use logical::objects::AddressRange;
use logical::topology::{Hop, Router, RouterPortIndex, Target, Topology};

use crate::addresses::{Addresses, Family, Partition, unspecified};
use crate::security::{groups, link_local, link_locals, prefix};

/// Who gets packets next.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Next {
    /// Whoever has their destination, behind a port.
    Owner(RouterPortIndex),
    /// A neighbour.
    Via(Hop),
}

/// What a router's routes do with packets of a class.
#[derive(Clone, Debug)]
pub enum Turn {
    /// They go to one of these, by their hash.
    Go(Vec<Next>, String),
    /// They are refused.
    Refuse(Reason, Option<String>),
}

/// A router's routes, by classes of sources and destinations.
#[derive(Debug)]
pub struct Table {
    sources: Partition,
    destinations: Partition,
    turns: BTreeMap<(u32, u32), Turn>,
}

impl Table {
    /// Of a router's routes and its ports' own prefixes.
    pub fn new(topology: &Topology, router: &Router) -> Self {
        let ports = router.ports.iter().map(|it| &topology[*it]);
        let own =
            ports.flat_map(|it| &it.addresses).chain(router.routes.iter().map(|it| &it.prefix));
        let one = |it: AddressRange| alloc::vec![it];
        // An owner takes its place among neighbours by the destination's address.
        let up_to = router.routes.iter().filter_map(|it| match &it.target {
            Target::Hops { hops, .. } => Some(hops),
            Target::Discard { .. } => None,
        });
        let up_to = up_to
            .flatten()
            .filter_map(|hop| AddressRange::new(unspecified(Family::of(hop.address)), hop.address));
        let destinations: Vec<_> = own.map(|it| one((*it).into())).chain(up_to.map(one)).collect();
        let sources: Vec<_> =
            router.routes.iter().filter_map(|it| it.source).map(|it| one(it.into())).collect();
        Self {
            sources: Partition::new(&sources),
            destinations: Partition::new(&destinations),
            turns: BTreeMap::new(),
        }
    }

    /// What becomes of packets, by parts of their sources and destinations.
    pub fn turns(
        &mut self,
        topology: &Topology,
        router: &Router,
        from: &Addresses,
        to: &Addresses,
    ) -> Vec<(Addresses, Addresses, Turn)> {
        let mut all = Vec::new();
        let parts = self.destinations.split(to);
        for (source, from) in self.sources.split(from) {
            for (destination, to) in &parts {
                let Some((one, other)) = from.first().zip(to.first()) else { continue };
                let turn = self.turns.entry((source, *destination));
                let turn = turn.or_insert_with(|| by_routes(topology, router, one, other));
                all.push((from.clone(), to.clone(), turn.clone()));
            }
        }
        all
    }
}

/// The least is taken: by the length of the prefix, the distance, and the length of the source. Of
/// equal ones that which discards is taken, in silence rather than not.
type Rank = (Reverse<u8>, u8, Reverse<u8>, Kind);

#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
enum Kind {
    Discards { reject: bool },
    Leads,
}

fn by_routes(topology: &Topology, router: &Router, source: IpAddr, destination: IpAddr) -> Turn {
    let mut found: Vec<(Rank, String, Option<Vec<Next>>)> = Vec::new();
    for index in &router.ports {
        let port = &topology[*index];
        for prefix in port.addresses.iter().filter(|_| port.enabled) {
            if AddressRange::from(*prefix).contains(destination) {
                let by = format!("{prefix} of {}", port.id);
                let next = alloc::vec![Next::Owner(*index)];
                found.push(((Reverse(prefix.length), 0, Reverse(0), Kind::Leads), by, Some(next)));
            }
        }
    }
    for route in &router.routes {
        let is_source = route.source.is_none_or(|it| AddressRange::from(it).contains(source));
        // A route whose ports are all down is none: a shorter or farther one takes its place.
        let is_up = match &route.target {
            Target::Hops { hops, .. } => hops.iter().any(|hop| topology[hop.out].enabled),
            Target::Discard { .. } => true,
        };
        if is_source && is_up && AddressRange::from(route.prefix).contains(destination) {
            let of_source = Reverse(route.source.map_or(0, |it| it.length));
            let kind = match route.target {
                Target::Hops { .. } => Kind::Leads,
                Target::Discard { reject } => Kind::Discards { reject },
            };
            let rank = (Reverse(route.prefix.length), route.distance, of_source, kind);
            let by = format!("route {} of {}", route.prefix, router.id);
            let next = match &route.target {
                Target::Hops { hops, .. } => Some(hops.iter().copied().map(Next::Via).collect()),
                Target::Discard { .. } => None,
            };
            found.push((rank, by, next));
        }
    }
    found.sort_by_key(|(rank, ..)| *rank);
    let Some((best, by, next)) = found.first().cloned() else {
        return Turn::Refuse(Reason::NoRoute, None);
    };
    if next.is_none() {
        return Turn::Refuse(Reason::Discarded, Some(by));
    }
    let equal = found.into_iter().filter(|(rank, ..)| *rank == best);
    let is_up = |next: &Next| match next {
        Next::Owner(out) | Next::Via(Hop { out, .. }) => topology[*out].enabled,
    };
    let next = equal.flat_map(|(.., next)| next.unwrap_or_default()).filter(is_up);
    chosen(router, next, destination, by)
}

/// One of several, by the hash, in whatever order they are declared. An owner has the destination.
pub fn chosen(
    router: &Router,
    next: impl Iterator<Item = Next>,
    destination: IpAddr,
    by: String,
) -> Turn {
    let hop = |it: &Next| match it {
        Next::Owner(out) => Hop { address: destination, out: *out },
        Next::Via(hop) => *hop,
    };
    let mut next: Vec<_> = next.collect();
    next.sort_by_key(hop);
    next.dedup_by_key(|it| hop(it));
    next.truncate(router.ecmp.max.into());
    match next.is_empty() {
        true => Turn::Refuse(Reason::NoRoute, Some(by)),
        false => Turn::Go(next, by),
    }
}

/// The sources that a router's port takes packets of, and of those the ones that stay on the link.
pub fn sane_sources(topology: &Topology, router: &Router, family: Family) -> Addresses {
    let loopback = match family {
        Family::V4 => prefix(Ipv4Addr::new(127, 0, 0, 0).into(), 8),
        Family::V6 => IpAddr::from(Ipv6Addr::LOCALHOST).into(),
    };
    let nobody = [
        unspecified(family).into(),
        loopback,
        groups(family),
        IpAddr::from(Ipv4Addr::BROADCAST).into(),
    ];
    let ports = router.ports.iter().map(|it| &topology[*it]);
    let own = ports.flat_map(|it| &it.addresses).map(|it| AddressRange::from(it.address));
    Addresses::all(family).minus(&Addresses::of(family, own.chain(nobody)))
}

/// The destinations that a router's port forwards, or takes as its own.
pub fn sane_destinations(topology: &Topology, port: RouterPortIndex, family: Family) -> Addresses {
    let stays = match family {
        Family::V4 => {
            let ranges = [(127, 8), (224, 4), (0, 8), (240, 4)];
            let range = |(first, length)| prefix(Ipv4Addr::new(first, 0, 0, 0).into(), length);
            Addresses::of(family, ranges.map(range))
        }
        Family::V6 => {
            let own = Addresses::of(family, [link_local(topology[port].mac).into()]);
            let stays = [IpAddr::from(Ipv6Addr::LOCALHOST).into(), groups(family)];
            let links = Addresses::of(family, [link_locals()]).minus(&own);
            Addresses::of(family, stays).or(&links)
        }
    };
    Addresses::all(family).minus(&stays)
}
