//! Where a router sends a packet.

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::net::IpAddr;

use image::{RouteDecision, Target};
use logical::objects::{AddressRange, EcmpHash};
use packet::{Tuple, flow_hash};
use units::{Mac, Prefix};

use crate::net::{Leads, Net, Role, Router, RouterPortAt, SwitchAt, rank};
use crate::rules::Subject;

/// What a router does with a packet.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Way {
    /// It goes to a neighbour, by a port.
    To(IpAddr, RouterPortAt),
    /// A route discards it; `reject`: and its sender is told.
    Discard { reject: bool },
    /// A route policy drops it.
    Drop,
    /// No route leads there.
    None,
}

fn covers(prefix: Prefix, address: IpAddr) -> bool {
    AddressRange::from(prefix).contains(address)
}

impl Net {
    /// Asks route policies, then routes. Says what decided.
    pub(crate) fn route(
        &self,
        router: &Router,
        tuple: Tuple,
        subject: &Subject<'_>,
    ) -> (Way, Option<String>) {
        let subject = Subject { tuple: Some(tuple), ..*subject };
        let policy = router.policies.iter().find(|(.., it)| self.conditions.hold(*it, &subject));
        if let Some((name, policy, _)) = policy {
            let by = Some(format!("{} policy {}", router.id, name.name));
            match &policy.decision {
                RouteDecision::Allow => {}
                RouteDecision::Drop => return (Way::Drop, by),
                RouteDecision::Reroute(hops) => {
                    let hops = hops
                        .iter()
                        .filter_map(|(address, out)| Some((*address, self.router_port(out)?)))
                        .filter(|(_, out)| self.router_ports[out.at()].row.enabled);
                    return (choose(router, hops.collect(), tuple), by);
                }
            }
        }
        self.by_routes(router, tuple)
    }

    fn by_routes(&self, router: &Router, tuple: Tuple) -> (Way, Option<String>) {
        let (source, destination) = (tuple.source.0, tuple.destination.0);
        // What leads by a port that is down leads nowhere.
        let is_up = |target: &Target| match target {
            Target::Connected { out } | Target::Hop { out, .. } => {
                self.router_port(out).is_some_and(|out| self.router_ports[out.at()].row.enabled)
            }
            Target::Discard { .. } => true,
        };
        let mut leads = router.routes.iter().filter(|(key, _)| {
            covers(key.prefix, destination)
                && key.source.is_none_or(|it| covers(it, source))
                && is_up(&key.target)
        });
        let Some((best, _)) = leads.clone().next() else { return (Way::None, None) };
        let by = match &best.target {
            Target::Connected { out } => format!("{} of {out}", best.prefix),
            _ => format!("route {} of {}", best.prefix, router.id),
        };
        if let Target::Discard { reject } = best.target {
            return (Way::Discard { reject }, Some(by));
        }
        let mut hops = Vec::new();
        while let Some((key, _)) = leads.next().filter(|(key, _)| rank(key) == rank(best)) {
            let hop = match &key.target {
                Target::Connected { out } => Some((destination, out)),
                Target::Hop { address, out } => Some((*address, out)),
                Target::Discard { .. } => None,
            };
            hops.extend(hop.and_then(|(address, out)| Some((address, self.router_port(out)?))));
        }
        (choose(router, hops, tuple), Some(by))
    }

    /// The Ethernet address of a neighbour behind a router's port, if somebody declares it.
    pub(crate) fn neighbour(&self, out: RouterPortAt, address: IpAddr) -> Option<Mac> {
        match self.router_ports[out.at()].leads {
            Leads::Peer(peer) => Some(self.router_ports[peer.at()].row.mac),
            Leads::Switch(at) => self.neighbour_on(self.ports[at.at()].switch, address),
            Leads::Nowhere => None,
        }
    }

    fn neighbour_on(&self, switch: SwitchAt, address: IpAddr) -> Option<Mac> {
        let ports = self.switches[switch.at()].ports.iter().map(|at| &self.ports[at.at()]);
        let machine = ports.clone().find(|it| it.station.addresses.contains(&address));
        machine.map(|it| it.station.mac).or_else(|| {
            let mut routers = ports.filter_map(|it| match it.role {
                Role::Router(port) => Some(&self.router_ports[port.at()]),
                _ => None,
            });
            routers.find(|it| it.has(address)).map(|it| it.row.mac)
        })
    }
}

/// One of equal neighbours, by the flow, in whatever order they are declared.
fn choose(router: &Router, mut hops: Vec<(IpAddr, RouterPortAt)>, tuple: Tuple) -> Way {
    hops.sort();
    hops.dedup();
    hops.truncate(router.row.ecmp.max.into());
    let number = match router.row.ecmp.hash {
        EcmpHash::L4 => flow_hash(tuple),
        EcmpHash::L3 => flow_hash(Tuple {
            source: (tuple.source.0, 0),
            destination: (tuple.destination.0, 0),
            ..tuple
        }),
    };
    let place = number % (hops.len() as u64).max(1);
    match usize::try_from(place).ok().and_then(|place| hops.get(place)) {
        Some((address, out)) => Way::To(*address, *out),
        None => Way::None,
    }
}
