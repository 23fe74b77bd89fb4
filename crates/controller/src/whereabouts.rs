//! Where ports are, and routers that keep flows, and by which numbers hosts mean them.
//!
//! ```text
//! Binding, TransportNode ─┬─▶ the node of each port ─┐
//! ports that were found ──┘                          │
//! rows of a domain ──────────────────────────────────┴─▶ its sites, and who may follow it
//! ```
//!
//! A port without a Binding is at the node where it was found: the one that has it, of those that
//! may. A Binding counts before that, also for where a router keeps its flows.
//!
//! What is said of one domain is made of its own rows and of its own ports' bindings, so what
//! changes in one has no other looked at.

use std::collections::{BTreeMap, BTreeSet};

use hypervisor::{Changes, Hypervisor};
use image::{Change, Domain, Link, Site, Station, StationRole};
use logical::objects::{Identity, Kind, Name, Object};
use southbound::{Nodes, Place};

use crate::objects::meant;

/// Where the ports of all domains are.
#[derive(Default)]
pub struct Whereabouts {
    /// The Binding of each port, and the node that it says.
    bound: BTreeMap<Identity, (Name, Name)>,
    /// The node where each port was found, which counts if there is no Binding.
    found: BTreeMap<Identity, Name>,
    /// The other host of each port that moves from one to another.
    others: BTreeMap<Identity, Name>,
    /// The ports that are where another is.
    children: BTreeMap<Identity, BTreeSet<Identity>>,
    /// The number by which hosts mean each object that they may send to.
    labels: BTreeMap<Identity, u32>,
    /// Those that are given since the last look; `None`: whose object is gone.
    given: BTreeMap<Identity, Option<u32>>,
    domains: BTreeMap<Identity, Located>,
    /// Ports whose nodes are others since the last look, and nodes that have come or gone or have
    /// other addresses.
    moved: BTreeSet<Identity>,
    readdressed: BTreeSet<Name>,
}

/// Where the ports of a domain are.
#[derive(Default)]
struct Located {
    /// What its hosts are told.
    sites: BTreeMap<Identity, Site>,
    labels: BTreeMap<Identity, u32>,
    /// Who may follow it, by each port's name as agents have it.
    ports: BTreeMap<replica::Name, Place>,
    /// The nodes that its routers keep their flows at, and the other hosts of ports that move.
    homes: BTreeSet<replica::Name>,
    /// The nodes of all of these.
    nodes: BTreeSet<Name>,
}

/// What is other than before.
#[derive(Default)]
pub struct Moved {
    /// What hosts of a domain are told.
    pub sites: Vec<(Identity, Identity, Option<Site>)>,
    pub labels: Vec<(Identity, Identity, Option<u32>)>,
    /// Who may follow a domain.
    pub ports: BTreeMap<replica::Name, Option<Place>>,
    /// Who follows a domain without a port of it.
    pub homes: BTreeMap<replica::Name, BTreeSet<replica::Name>>,
}

impl Whereabouts {
    /// An object comes, is another, or goes.
    pub fn edit(&mut self, before: Option<&Object>, after: Option<&Object>) {
        match (before, after) {
            (Some(Object::TransportNode(before)), Some(Object::TransportNode(after)))
                if before.spec.vteps == after.spec.vteps => {}
            (Some(Object::TransportNode(it)), _) | (_, Some(Object::TransportNode(it))) => {
                self.readdressed.insert(it.metadata.name.clone());
            }
            (Some(Object::Binding(_)), _) | (_, Some(Object::Binding(_))) => {
                if let Some(Object::Binding(it)) = before {
                    let port = meant(Kind::LogicalPort, None, &it.spec.port);
                    // Another may have come for the port before this one goes.
                    let is_by_it = |(by, _): &(Name, Name)| *by == it.metadata.name;
                    if self.bound.get(&port).is_some_and(is_by_it) {
                        self.bound.remove(&port);
                        self.others.remove(&port);
                    }
                    self.moved.insert(port);
                }
                if let Some(Object::Binding(it)) = after {
                    let port = meant(Kind::LogicalPort, None, &it.spec.port);
                    let said = (it.metadata.name.clone(), it.spec.node.clone());
                    self.bound.insert(port.clone(), said);
                    match &it.spec.migration {
                        Some(migration) => {
                            self.others.insert(port.clone(), migration.to.clone());
                        }
                        None => drop(self.others.remove(&port)),
                    }
                    self.moved.insert(port);
                }
            }
            (Some(Object::LogicalPort(_)), _) | (_, Some(Object::LogicalPort(_))) => {
                if let (Some(Object::LogicalPort(one)), Some(other @ Object::LogicalPort(it))) =
                    (before, after)
                    && one.spec.node != it.spec.node
                {
                    self.moved.insert(other.identity());
                }
                for (object, comes) in [(before, false), (after, true)] {
                    let Some((parent, child)) = object.and_then(parent) else { continue };
                    let all = self.children.entry(parent.clone()).or_default();
                    match comes {
                        true => all.insert(child),
                        false => all.remove(&child),
                    };
                    if all.is_empty() {
                        self.children.remove(&parent);
                    }
                }
            }
            _ => {}
        }
    }

    /// A port was found at a node, or is at none any more.
    pub fn find(&mut self, port: Identity, node: Option<Name>) {
        match node {
            Some(node) => drop(self.found.insert(port.clone(), node)),
            None => drop(self.found.remove(&port)),
        }
        self.moved.insert(port);
    }

    /// The ports that were found somewhere.
    pub fn found(&self) -> impl Iterator<Item = &Identity> {
        self.found.keys()
    }

    /// Hosts mean an object by a number, or it is gone.
    pub fn label(&mut self, of: Identity, label: Option<u32>) {
        self.given.insert(of, label);
    }

    /// The objects that hosts may send to.
    pub fn labelled(&self) -> impl Iterator<Item = &Identity> {
        self.labels.keys()
    }

    /// Takes the numbers that were given. Returns the objects that have another than before: they
    /// were created again.
    fn take_given(&mut self, hypervisor: &Hypervisor) -> Vec<Identity> {
        let mut others = Vec::new();
        for (of, label) in std::mem::take(&mut self.given) {
            let Some(label) = label else {
                self.labels.remove(&of);
                continue;
            };
            // Names are kept once, with their object.
            let of = hypervisor.object(&of).map_or(of, |it| it.identity());
            if self.labels.insert(of.clone(), label).is_some_and(|before| before != label) {
                others.push(of);
            }
        }
        others
    }

    /// Looks where ports are now, wherever something has changed that says so.
    pub fn settle(&mut self, hypervisor: &Hypervisor, rows: &Changes) -> Moved {
        let says = rows.iter().filter(|(_, rows)| rows.iter().any(says_where));
        let mut dirty: BTreeSet<_> = says.map(|(domain, _)| domain.clone()).collect();
        let others = self.take_given(hypervisor);
        if !others.is_empty() {
            let has_some = |it: &Located| others.iter().any(|of| it.labels.contains_key(of));
            let all = self.domains.iter().filter(|(_, it)| has_some(it));
            dirty.extend(all.map(|(domain, _)| domain.clone()));
        }
        let readdressed = std::mem::take(&mut self.readdressed);
        if !readdressed.is_empty() {
            let found = self.found.iter().filter(|(_, node)| readdressed.contains(*node));
            self.moved.extend(found.map(|(port, _)| port.clone()));
        }
        for port in std::mem::take(&mut self.moved) {
            let children = self.children.get(&port).into_iter().flatten();
            for port in children.chain([&port]) {
                let Some(Object::LogicalPort(it)) = hypervisor.object(port).map(|it| &**it) else {
                    continue;
                };
                let tenant = it.metadata.tenant.as_ref();
                let switch = meant(Kind::LogicalSwitch, tenant, &it.spec.switch);
                dirty.extend(hypervisor.domain_of(&switch).cloned());
            }
        }
        if !readdressed.is_empty() {
            let has_some = |it: &Located| !it.nodes.is_disjoint(&readdressed);
            let all = self.domains.iter().filter(|(_, it)| has_some(it));
            dirty.extend(all.map(|(domain, _)| domain.clone()));
        }
        let (mut moved, mut come) = (Moved::default(), Vec::new());
        for domain in dirty {
            let before = self.domains.remove(&domain).unwrap_or_default();
            let rows = hypervisor.image().get(&domain);
            let after =
                rows.map(|rows| self.locate(name(&domain), rows, hypervisor)).unwrap_or_default();
            let sites = differing(&before.sites, &after.sites);
            moved.sites.extend(sites.map(|(id, site)| (domain.clone(), id, site)));
            let labels = differing(&before.labels, &after.labels);
            moved.labels.extend(labels.map(|(id, label)| (domain.clone(), id, label)));
            for (port, place) in differing(&before.ports, &after.ports) {
                match place {
                    None => drop(moved.ports.insert(port, None)),
                    Some(place) => come.push((port, Some(place))),
                }
            }
            if before.homes != after.homes {
                moved.homes.insert(name(&domain), after.homes.clone());
            }
            if rows.is_some() {
                self.domains.insert(domain, after);
            }
        }
        // A port that has gone to another domain is there.
        moved.ports.extend(come);
        moved
    }

    /// Where the ports of a domain are, by its rows.
    fn locate(&self, domain: replica::Name, rows: &Domain, hypervisor: &Hypervisor) -> Located {
        let (mut found, mut homes) = (Located::default(), BTreeSet::new());
        let mut put = |of: &Identity, node: &Name| {
            let it = hypervisor.object(&transport_node(node)).map(|it| &**it);
            if let Some(Object::TransportNode(it)) = it {
                found.nodes.insert(node.clone());
                found.sites.insert(of.clone(), it.spec.vteps.clone());
            }
        };
        for ((_, port), station) in &rows.stations {
            let is_machine = matches!(station.role, StationRole::Machine | StationRole::Local);
            if !is_machine && station.role != StationRole::Provider {
                continue;
            }
            let parent = rows.ports.get(port).and_then(|it| it.parent.as_ref());
            let parent = parent.map(|(parent, _)| parent);
            let at = parent.unwrap_or(port);
            let node = self.node(port, at, hypervisor);
            node.iter().for_each(|(_, node)| put(port, node));
            if let Some(tenant) = port.tenant.as_ref().filter(|_| is_machine) {
                let called = format!("{tenant}/{}", port.name);
                let nodes = match node {
                    Some((false, node)) => Nodes::Bound(node.as_str().into()),
                    _ => listed([port].into_iter().chain(parent), hypervisor),
                };
                let is_everywhere = station.role == StationRole::Local;
                let place = Place { domain: domain.clone(), nodes, is_everywhere };
                found.ports.insert(called.into(), place);
            }
        }
        for (router, (home, ports)) in self.homes(rows, hypervisor) {
            homes.insert(home.as_str().into());
            ports.into_iter().chain([router]).for_each(|id| put(id, home));
        }
        for (port, row) in &rows.ports {
            let other = self.others.get(row.parent.as_ref().map_or(port, |(parent, _)| parent));
            homes.extend(other.map(|node| replica::Name::from(node.as_str())));
        }
        found.homes = homes;
        let label = |of: &Identity| Some((of.clone(), *self.labels.get(of)?));
        found.labels = rows.labelled().filter_map(label).collect();
        found
    }

    /// The node of a port, by the one that it is or is behind: the one of its Binding, or else the
    /// one where it was found, if it may be there and hosts can be told where that is.
    fn node(&self, port: &Identity, at: &Identity, hypervisor: &Hypervisor) -> Option<At<'_>> {
        if let Some((_, node)) = self.bound.get(at) {
            return Some((false, node));
        }
        let node = self.found.get(at)?;
        let is_admitted = listed([port, at].into_iter(), hypervisor).admit(node.as_str());
        let is_there = is_admitted && hypervisor.object(&transport_node(node)).is_some();
        is_there.then_some((true, node))
    }

    /// The node where each router keeps its flows that does so, as `compiler::sites` says, or as it
    /// would of ports that were found where none is bound; and the router's ports.
    fn homes<'r>(
        &'r self,
        rows: &'r Domain,
        hypervisor: &Hypervisor,
    ) -> BTreeMap<&'r Identity, (&'r Name, Vec<&'r Identity>)> {
        // Of each switch: whether somebody is there who is not declared, and the first node.
        let mut switches: BTreeMap<&Identity, (bool, Option<At<'_>>)> = BTreeMap::new();
        for ((switch, port), station) in &rows.stations {
            let (has_others, first) = switches.entry(switch).or_default();
            *has_others |= is_outside(station);
            *first = first.iter().copied().chain(self.node(port, port, hypervisor)).min();
        }
        let translate = rows.nats.values().map(|it| &it.router);
        let balance = rows.balancers.values().flat_map(|it| &it.routers);
        let lead_back = rows.routes.iter().filter(|(_, it)| it.symmetric).map(|(it, _)| &it.router);
        let mut keeping: BTreeSet<_> = translate.chain(balance).chain(lead_back).collect();
        let mut routers: BTreeMap<&Identity, Router<'_>> = BTreeMap::new();
        for (id, port) in &rows.router_ports {
            let router = routers.entry(&port.router).or_default();
            router.gateway = router.gateway.or(port.gateway.first().map(|it| &it.name));
            router.ports.push(id);
            if let Link::Switch { switch, .. } = &port.link
                && let Some((has_others, node)) = switches.get(switch)
            {
                router.first = router.first.iter().copied().chain(*node).min();
                keeping.extend(has_others.then_some(&port.router));
            }
        }
        let homes = routers.into_iter().filter(|(router, _)| keeping.contains(router));
        let home = |it: &Router<'r>| it.gateway.or(it.first.map(|(_, node)| node));
        homes.filter_map(|(id, it)| Some((id, (home(&it)?, it.ports)))).collect()
    }
}

/// The nodes that may have a port without a Binding: those that it lists, and its parent, too.
fn listed<'i>(ports: impl Iterator<Item = &'i Identity>, hypervisor: &Hypervisor) -> Nodes {
    let lists = ports.filter_map(|id| match hypervisor.object(id).map(|it| &**it) {
        Some(Object::LogicalPort(it)) if !it.spec.node.is_empty() => {
            Some(it.spec.node.iter().map(|it| it.as_str().into()).collect::<BTreeSet<_>>())
        }
        _ => None,
    });
    lists.reduce(|one, other| &one & &other).map_or(Nodes::Any, Nodes::Among)
}

/// A node that has a port, and whether it was only found there: who is bound comes first.
type At<'r> = (bool, &'r Name);

/// What of a router says where it keeps its flows.
#[derive(Default)]
struct Router<'r> {
    /// Its first gateway.
    gateway: Option<&'r Name>,
    /// The first node of its switches.
    first: Option<At<'r>>,
    ports: Vec<&'r Identity>,
}

/// Whether a station is not of a machine that is declared.
fn is_outside(station: &Station) -> bool {
    station.unknown || matches!(station.role, StationRole::Provider | StationRole::Gateway { .. })
}

/// Whether a row can say where a port is, or a router.
fn says_where(row: &Change) -> bool {
    matches!(
        row,
        Change::Station(..)
            | Change::Port(..)
            | Change::Router(..)
            | Change::RouterPort(..)
            | Change::Route(..)
            | Change::Nat(..)
            | Change::Balancer(..)
    )
}

fn transport_node(name: &Name) -> Identity {
    Identity { kind: Kind::TransportNode, tenant: None, name: name.clone() }
}

/// A port that is where another is: that one, and itself.
fn parent(object: &Object) -> Option<(Identity, Identity)> {
    let Object::LogicalPort(it) = object else { return None };
    let child = it.spec.child.as_ref()?;
    let tenant = it.metadata.tenant.as_ref();
    Some((meant(Kind::LogicalPort, tenant, &child.parent), object.identity()))
}

/// A domain's name, as agents have it.
pub fn name(domain: &Identity) -> replica::Name {
    domain.to_string().into()
}

/// What two maps differ in: what is new or other, and what is gone.
fn differing<'a, K: Clone + Ord, V: Clone + PartialEq>(
    before: &'a BTreeMap<K, V>,
    next: &'a BTreeMap<K, V>,
) -> impl Iterator<Item = (K, Option<V>)> + use<'a, K, V> {
    let gone = before.keys().filter(|key| !next.contains_key(*key)).map(|key| (key.clone(), None));
    let other = next.iter().filter(|(key, value)| before.get(*key) != Some(*value));
    gone.chain(other.map(|(key, value)| (key.clone(), Some(value.clone()))))
}

#[cfg(test)]
mod tests;
