//! Where a router sends a packet: of the routes that lead there the longest, a port's own prefix
//! before a declared one, the least distance; of equal ones that remain, one by the flow.

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::cmp::Reverse;
use core::net::IpAddr;

use logical::objects::{AddressRange, EcmpHash};
use logical::topology::{
    Balancer, Hop, Link, RouteDecision, Router, RouterPortIndex, Switch, Target, Topology,
};
use packet::{Tuple, flow_hash};
use units::Mac;

use crate::policy::holds;
use crate::state::Subject;

/// What a router does with a packet.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Way {
    /// It goes to a neighbour.
    To(Hop),
    /// A route discards it; `reject`: and its sender is told.
    Discard { reject: bool },
    /// A route policy drops it.
    Drop,
    /// No route leads there.
    None,
}

/// Asks route policies, then routes. Says what decided.
pub fn find(
    topology: &Topology,
    router: &Router,
    tuple: Tuple,
    subject: &Subject,
    back: Option<Hop>,
) -> (Way, Option<String>) {
    let subject = Subject { tuple: Some(tuple), ..subject.clone() };
    let policy = router.policies.iter().find(|it| holds(topology, &it.matches, &subject));
    if let Some(policy) = policy {
        let by = Some(format!("{} policy {}", router.id, policy.name));
        match &policy.decision {
            RouteDecision::Allow => {}
            RouteDecision::Drop => return (Way::Drop, by),
            RouteDecision::Reroute(hops) => {
                let is_up = |hop: &&Hop| topology[hop.out].enabled;
                let hops = hops.iter().filter(is_up).copied().collect();
                return (choose(router, hops, tuple).map_or(Way::None, Way::To), by);
            }
        }
    }
    by_routes(topology, router, tuple, back)
}

/// Which of the routes to a destination is taken, the least: by the length of its prefix, its
/// distance, and the length of its source. Of equal ones that which discards is taken, in silence
/// rather than not, so that the order of routes decides nothing.
type Rank = (Reverse<u8>, u8, Reverse<u8>, Kind);

#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
enum Kind {
    Discards { reject: bool },
    Leads,
}

/// The best route, or all of the best together, and what it is called.
fn best(topology: &Topology, router: &Router, tuple: Tuple) -> Option<(String, Target)> {
    let (source, destination) = (tuple.source.0, tuple.destination.0);
    let mut found: Vec<(Rank, String, Target)> = Vec::new();
    for index in &router.ports {
        let port = &topology[*index];
        for prefix in port.addresses.iter().filter(|_| port.enabled) {
            let range = AddressRange::from(*prefix);
            if range.contains(destination) {
                let hops = alloc::vec![Hop { address: destination, out: *index }];
                let target = Target::Hops { hops, symmetric: false };
                let by = format!("{}/{} of {}", range.first(), prefix.length, port.id);
                found.push(((Reverse(prefix.length), 0, Reverse(0), Kind::Leads), by, target));
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
            let source = Reverse(route.source.map_or(0, |it| it.length));
            let kind = match route.target {
                Target::Hops { .. } => Kind::Leads,
                Target::Discard { reject } => Kind::Discards { reject },
            };
            let rank = (Reverse(route.prefix.length), route.distance, source, kind);
            let by = format!("route {} of {}", route.prefix, router.id);
            found.push((rank, by, route.target.clone()));
        }
    }
    found.sort_by_key(|(rank, ..)| *rank);
    let (best, by, target) = found.first().cloned()?;
    if let Target::Discard { .. } = target {
        return Some((by, target));
    }
    let (mut all, mut is_symmetric) = (Vec::new(), false);
    for (.., target) in found.iter().filter(|(rank, ..)| *rank == best) {
        if let Target::Hops { hops, symmetric } = target {
            all.extend(hops.iter().filter(|hop| topology[hop.out].enabled));
            is_symmetric |= symmetric;
        }
    }
    Some((by, Target::Hops { hops: all, symmetric: is_symmetric }))
}

/// `back`: where the flow that this answers came from. Symmetric routes lead back there.
fn by_routes(
    topology: &Topology,
    router: &Router,
    tuple: Tuple,
    back: Option<Hop>,
) -> (Way, Option<String>) {
    match best(topology, router, tuple) {
        None => (Way::None, None),
        Some((by, Target::Discard { reject })) => (Way::Discard { reject }, Some(by)),
        Some((by, Target::Hops { hops, symmetric })) => {
            if let Some(back) = back.filter(|it| symmetric && hops.contains(it)) {
                return (Way::To(back), Some(format!("{by}, back as its flow came")));
            }
            (choose(router, hops, tuple).map_or(Way::None, Way::To), Some(by))
        }
    }
}

/// Of the neighbours to which a flow's answers would go the one that it came from, if the route
/// there is symmetric.
pub fn came_from(
    topology: &Topology,
    router: &Router,
    tuple: Tuple,
    (port, mac): (RouterPortIndex, Mac),
) -> Option<Hop> {
    let (_, target) = best(topology, router, tuple.reversed())?;
    let Target::Hops { hops, symmetric: true } = target else { return None };
    hops.into_iter().find(|hop| hop.out == port && next(topology, *hop) == Some(mac))
}

/// The Ethernet address of a neighbour that packets are handed to, if it is known.
pub fn next(topology: &Topology, hop: Hop) -> Option<Mac> {
    match topology[hop.out].link {
        Link::Peer(peer) => Some(topology[peer].mac),
        link => neighbour(topology, switch_of(topology, link)?, hop.address),
    }
}

/// One of equal neighbours, by the flow, in whatever order they are declared.
fn choose(router: &Router, mut hops: Vec<Hop>, tuple: Tuple) -> Option<Hop> {
    hops.sort();
    hops.dedup();
    hops.truncate(router.ecmp.max.into());
    let seed = match router.ecmp.hash {
        EcmpHash::L4 => tuple,
        EcmpHash::L3 => {
            let (source, destination) = ((tuple.source.0, 0), (tuple.destination.0, 0));
            Tuple { source, destination, ..tuple }
        }
    };
    let place = flow_hash(seed) % (hops.len() as u64).max(1);
    hops.get(usize::try_from(place).ok()?).copied()
}

/// The Ethernet address at which a router's port has an external address, if it has it.
pub fn external_mac(topology: &Topology, port: RouterPortIndex, address: IpAddr) -> Option<Mac> {
    let port = &topology[port];
    if !port.reaches(address) {
        return None;
    }
    let mut nats = topology[port.router].nats.iter().map(|nat| &topology[*nat]);
    let mut balancers = topology.balancers().map(|(_, it)| it);
    let nat = nats.find(|nat| nat.external.contains(address));
    let is_its = |it: &Balancer| it.vip == address && it.routers.contains(&port.router);
    nat.map(|nat| nat.external_mac.unwrap_or(port.mac))
        .or_else(|| balancers.any(is_its).then_some(port.mac))
}

/// The Ethernet address of a neighbour on a switch, if somebody declares it: a machine, a router,
/// or a router that translates the address.
pub fn neighbour(topology: &Topology, switch: &Switch, address: IpAddr) -> Option<Mac> {
    let ports = switch.ports.iter().map(|it| &topology[*it]);
    let machine = ports.clone().find(|it| it.addresses.contains(&address)).map(|it| it.mac);
    let router = || {
        ports.clone().find_map(|it| match it.attachment {
            logical::topology::Attachment::Router(port) => {
                let own = topology[port].has(address).then_some(topology[port].mac);
                own.or_else(|| external_mac(topology, port, address))
            }
            _ => None,
        })
    };
    machine.or_else(router)
}

/// An address of a router's port, of the family of another; the one on its link if there is one.
pub fn own_address(topology: &Topology, port: RouterPortIndex, like: IpAddr) -> Option<IpAddr> {
    let of_family =
        || topology[port].addresses.iter().filter(|it| it.address.is_ipv4() == like.is_ipv4());
    let on_link = of_family().find(|it| AddressRange::from(**it).contains(like));
    on_link.or_else(|| of_family().next()).map(|it| it.address)
}

/// The switch that a router's port leads to.
fn switch_of(topology: &Topology, link: Link) -> Option<&Switch> {
    match link {
        Link::Switch(at) => Some(&topology[topology[at].switch]),
        Link::Peer(_) | Link::Nowhere => None,
    }
}
