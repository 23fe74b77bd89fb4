//! A router's routes, and what it decides before it looks at them.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use core::cmp::Reverse;
use core::net::IpAddr;

use classifier::block::Block;
use classifier::prefixes::Prefixes;
use image::{RouteDecision, RouteKey, RoutePolicy, RoutePolicyKey, RoutesAs, Target};
use logical::objects::{AddressRange, Identity};
use units::Prefix;

use crate::conditions::Conditions;
use crate::places::RouterPortAt;
use crate::ports::{Ports, ports_of};
use crate::rules::Ordered;

/// A router's routes that lead somewhere, by their prefixes.
#[derive(Clone, Debug, Default)]
pub struct Routes {
    v4: Prefixes<u32, Vec<Route>>,
    v6: Prefixes<u128, Vec<Route>>,
}

/// One of the routes to a prefix, which are the best first.
#[derive(Clone, Debug)]
pub struct Route {
    pub key: RouteKey,
    pub to: To,
    /// Whether what answers a flow takes the way by which that came.
    pub symmetric: bool,
}

/// Where it leads.
#[derive(Clone, Copy, Debug)]
pub enum To {
    /// The packet's own destination, or a neighbour.
    Out(Option<IpAddr>, RouterPortAt),
    Discard {
        reject: bool,
    },
}

impl Routes {
    /// Of rows. What leads by a port that is down (`up` says `None`) leads nowhere.
    pub fn new<'a>(
        rows: impl Iterator<Item = (&'a RouteKey, &'a RoutesAs)>,
        up: impl Fn(&Identity) -> Option<RouterPortAt>,
    ) -> Self {
        let mut by_prefix: BTreeMap<Prefix, Vec<Route>> = BTreeMap::new();
        for (key, row) in rows {
            let to = match &key.target {
                Target::Connected { out } => up(out).map(|out| To::Out(None, out)),
                Target::Hop { address, out } => up(out).map(|out| To::Out(Some(*address), out)),
                Target::Discard { reject } => Some(To::Discard { reject: *reject }),
            };
            let Some(to) = to else { continue };
            by_prefix.entry(key.prefix).or_default().push(Route {
                key: key.clone(),
                to,
                symmetric: row.symmetric,
            });
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
    pub fn best(&self, source: IpAddr, destination: IpAddr) -> Vec<&Route> {
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
    pub order: Ordered,
    pub all: Vec<(Identity, Decision)>,
}

/// What a route policy decides.
#[derive(Clone, Debug)]
pub enum Decision {
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
        let (mut rules, mut all, mut ports) = (Vec::new(), Vec::new(), Ports::None);
        for (key, row) in rows {
            ports = ports.max(ports_of(&row.condition));
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
        Self { order: Ordered::new(rules, ports), all }
    }
}

fn covers(prefix: Prefix, address: IpAddr) -> bool {
    AddressRange::from(prefix).contains(address)
}

/// Which of the routes to a destination is taken, the least: by the length of its prefix, its
/// distance, and the length of its source; of equal ones that which discards.
fn rank(key: &RouteKey) -> (Reverse<u8>, u8, Reverse<u8>, bool) {
    let source = key.source.map_or(0, |it| it.length);
    let leads = !matches!(key.target, Target::Discard { .. });
    (Reverse(key.prefix.length), key.distance, Reverse(source), leads)
}
