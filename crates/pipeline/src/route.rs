//! Where a router sends a packet.

use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::net::IpAddr;

use classifier::block::Block;
use classifier::prefixes::Prefixes;
use image::{RouteDecision, RouteKey, RoutePolicy, RoutePolicyKey, Target};
use logical::objects::{AddressRange, EcmpHash, Identity};
use packet::{Tuple, flow_hash};
use units::{Mac, Prefix};

use crate::conditions::Conditions;
use crate::net::{Leads, Net, Role, Router, RouterPortAt, SwitchAt, rank};
use crate::rules::{Ordered, Subject};

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

/// A router's routes that lead somewhere, by their prefixes.
#[derive(Clone, Debug, Default)]
pub struct Routes {
    v4: Prefixes<u32, Vec<Route>>,
    v6: Prefixes<u128, Vec<Route>>,
}

/// One of the routes to a prefix, which are the best first.
#[derive(Clone, Debug)]
struct Route {
    key: RouteKey,
    to: To,
}

#[derive(Clone, Copy, Debug)]
enum To {
    /// The packet's own destination, or a neighbour.
    Out(Option<IpAddr>, RouterPortAt),
    Discard {
        reject: bool,
    },
}

impl Routes {
    /// Of rows. What leads by a port that is down (`up` says `None`) leads nowhere.
    pub fn new<'a>(
        rows: impl Iterator<Item = &'a RouteKey>,
        up: impl Fn(&Identity) -> Option<RouterPortAt>,
    ) -> Self {
        let mut by_prefix: BTreeMap<Prefix, Vec<Route>> = BTreeMap::new();
        for key in rows {
            let to = match &key.target {
                Target::Connected { out } => up(out).map(|out| To::Out(None, out)),
                Target::Hop { address, out } => up(out).map(|out| To::Out(Some(*address), out)),
                Target::Discard { reject } => Some(To::Discard { reject: *reject }),
            };
            let Some(to) = to else { continue };
            by_prefix.entry(key.prefix).or_default().push(Route { key: key.clone(), to });
        }
        let mut made = Self::default();
        for (prefix, mut routes) in by_prefix {
            routes.sort_by_key(|it| rank(&it.key));
            match prefix.address {
                IpAddr::V4(it) => {
                    put(&mut made.v4, Block::new(it.to_bits(), prefix.length), routes);
                }
                IpAddr::V6(it) => {
                    put(&mut made.v6, Block::new(it.to_bits(), prefix.length), routes);
                }
            }
        }
        made
    }

    /// The best routes of a packet, all of one rank. None: no route leads there.
    fn best(&self, source: IpAddr, destination: IpAddr) -> Vec<&Route> {
        let mut all: Vec<&[Route]> = Vec::new();
        match destination {
            IpAddr::V4(it) => self.v4.visit(it.to_bits(), |_, routes| all.push(routes)),
            IpAddr::V6(it) => self.v6.visit(it.to_bits(), |_, routes| all.push(routes)),
        };
        let is_its = |it: &&Route| it.key.source.is_none_or(|from| covers(from, source));
        for routes in all.into_iter().rev() {
            let mut its = routes.iter().filter(is_its);
            let Some(best) = its.next() else { continue };
            let equal = its.take_while(|it| rank(&it.key) == rank(&best.key));
            return core::iter::once(best).chain(equal).collect();
        }
        Vec::new()
    }
}

/// Adds routes to those of the same leading bits.
fn put<K: classifier::block::Key>(
    trie: &mut Prefixes<K, Vec<Route>>,
    block: Option<Block<K>>,
    routes: Vec<Route>,
) {
    let Some(block) = block else { return };
    match trie.get_mut(block) {
        Some(known) => {
            known.extend(routes);
            known.sort_by_key(|it| rank(&it.key));
        }
        None => drop(trie.insert(block, routes)),
    }
}

/// What a router decides before routes are looked at.
#[derive(Clone, Debug)]
pub struct Policies {
    order: Ordered,
    all: Vec<(Identity, Decision)>,
}

#[derive(Clone, Debug)]
enum Decision {
    Allow,
    Drop,
    Reroute(Vec<(IpAddr, RouterPortAt)>),
}

impl Policies {
    /// Of rows in their order, of a router of that name.
    pub fn new<'a>(
        router: &Identity,
        rows: impl Iterator<Item = (&'a RoutePolicyKey, &'a RoutePolicy)>,
        conditions: &mut Conditions,
        up: impl Fn(&Identity) -> Option<RouterPortAt>,
    ) -> Self {
        let (mut rules, mut all) = (Vec::new(), Vec::new());
        for (key, row) in rows {
            rules.push(conditions.alone(&row.condition));
            let decision = match &row.decision {
                RouteDecision::Allow => Decision::Allow,
                RouteDecision::Drop => Decision::Drop,
                RouteDecision::Reroute(hops) => {
                    let up = |(address, out): &(IpAddr, Identity)| Some((*address, up(out)?));
                    Decision::Reroute(hops.iter().filter_map(up).collect())
                }
            };
            all.push((Identity { name: key.name.clone(), ..router.clone() }, decision));
        }
        Self { order: Ordered::new(rules), all }
    }
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
        let policy = router.policies.order.first(&self.conditions, &subject);
        if let Some((name, decision)) = policy.map(|place| &router.policies.all[place]) {
            let by = Some(format!("{} policy {}", router.id, name.name));
            match decision {
                Decision::Allow => {}
                Decision::Drop => return (Way::Drop, by),
                Decision::Reroute(hops) => return (choose(router, hops.clone(), tuple), by),
            }
        }
        Self::by_routes(router, tuple)
    }

    fn by_routes(router: &Router, tuple: Tuple) -> (Way, Option<String>) {
        let destination = tuple.destination.0;
        let best = router.routes.best(tuple.source.0, destination);
        let Some(Route { key, to }) = best.first() else { return (Way::None, None) };
        let by = match &key.target {
            Target::Connected { out } => format!("{} of {out}", key.prefix),
            _ => format!("route {} of {}", key.prefix, router.id),
        };
        if let To::Discard { reject } = *to {
            return (Way::Discard { reject }, Some(by));
        }
        let hops = best.iter().filter_map(|it| match it.to {
            To::Out(address, out) => Some((address.unwrap_or(destination), out)),
            To::Discard { .. } => None,
        });
        (choose(router, hops.collect(), tuple), Some(by))
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
        let owners = self.switches[switch.at()].may_answer(address);
        let ports = owners.map(|at| &self.ports[at.at()]);
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
