//! Logical networks that were declared, and this host's part of them.
//!
//! ```text
//! objects ─resolve─▶ Topology ─compile─▶ domains ─part─▶ rows for this host's ports ─▶ Net
//!                       a controller ───────▶            what has not changed stays the same Net
//! ```
//!
//! All of this is made away from the switch's thread, which is then handed [`Realization`]s: it
//! swaps one for the other.

mod elsewhere;
mod error;
mod kept;
mod start;

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::{Arc, OnceLock};

use binding::{Places, SameLabel};
use datapath::{Labelled, Peer};
use image::{Domain, StationRole};
use logical::Fault;
use logical::objects::{Declared, Identity, Kind, Name, Object, QosProfile, TransportNode};
use logical::topology::TenantTerms;
use model::{
    DomainChange, Generation, LogicalPortName, NetworkName, ObjectChange, ObjectFate, VtepList,
};
use pipeline::Net;
use units::{Bytes, Class, Mac, Rate};

use elsewhere::Elsewhere;
pub use elsewhere::{Domains, Labels, Sites, network_of};
pub use error::{ApplyError, Faults, StartError};
pub use kept::Kept;
pub use start::check;

/// What a machine's port has of its logical port.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Facts {
    /// Its interface's Ethernet address.
    pub mac: Mac,
    /// The longest packet of its switch, in bytes, if that is declared.
    pub mtu: Option<u16>,
    /// The class of its frames.
    pub class: Class,
    /// What its profile says of its rates at uplinks, if that says any.
    pub rates: Option<Rates>,
    /// Of a port that stands for a provider's network: the VLAN of its switch there.
    pub vlan: Option<u16>,
    /// Of such a port: by what its host has that network, as its TransportNode says.
    pub provided: Option<Provided>,
}

/// By what a host has a provider's network.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Provided {
    /// The network.
    pub network: Name,
    /// The host's TransportNode.
    pub node: Name,
    /// The interface that this names. `None`: it does not have the network.
    pub interface: Option<String>,
}

/// What a profile says of a port's rates at uplinks.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Rates {
    /// The profile.
    pub profile: Identity,
    /// The least, within what its tenant has.
    pub guarantee: Option<Rate>,
    /// The highest.
    pub limit: Option<Rate>,
    /// How much may go at once after a rest.
    pub burst: Option<Bytes>,
}

/// What a tenant says of all its ports' rates at uplinks.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct OfTenant {
    /// The tenant.
    pub tenant: Identity,
    /// The rates.
    pub terms: TenantTerms,
}

/// What ports of a host have of logical networks.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct AllFacts {
    /// Every port that one of a host can be.
    pub ports: BTreeMap<LogicalPortName, Facts>,
    /// The tenants that say something of uplinks, by the network of their ports in the switch.
    pub tenants: BTreeMap<NetworkName, OfTenant>,
}

impl AllFacts {
    /// What a port has of this one, if there is such.
    pub fn get(&self, port: &LogicalPortName) -> Option<&Facts> {
        self.ports.get(port)
    }
}

/// What the switch's thread is handed.
#[derive(Clone, Debug, Default)]
pub struct Realization {
    pub generation: Generation,
    /// This host's part of each domain that it has a port in.
    pub nets: Vec<Arc<Net>>,
    pub facts: Arc<AllFacts>,
    /// Where ports are on other hosts.
    pub places: Arc<Places>,
    /// Whether other hosts hand frames to routers here, or these hold frames for neighbours.
    pub has_routers: bool,
    /// Whether hosts tell each other which backends of load balancers serve.
    pub has_checks: bool,
}

/// One generation.
#[derive(Debug, Default)]
pub struct Logical {
    generation: Generation,
    objects: Arc<Vec<Object>>,
    domains: Arc<Domains>,
    sites: Sites,
    labels: Labels,
    facts: Arc<AllFacts>,
    elsewhere: Arc<Elsewhere>,
    /// The host's own tunnel addresses, if it has any.
    own: Option<VtepList>,
    /// The ports that are this host's, and the routers that keep their flows here.
    here: BTreeSet<Identity>,
    /// Of each domain that has own ports.
    parts: BTreeMap<Identity, Part>,
    /// How often any of them was changed: none of their stamps is as great.
    changes: u64,
    /// What [`Logical::labelled`] says, once it was asked.
    labelled: OnceLock<Vec<Labelled>>,
}

/// A host's part of a domain.
#[derive(Clone, Debug)]
struct Part {
    of: Arc<Domain>,
    rows: Arc<Domain>,
    net: Arc<Net>,
    /// The routers that translate here for other hosts, too.
    routers: BTreeSet<Identity>,
    /// Those that do so at another host.
    away: BTreeSet<Identity>,
}

/// What differs between two generations.
#[derive(Debug, Default)]
pub struct Difference {
    pub objects: Vec<ObjectChange>,
    pub domains: Vec<DomainChange>,
}

impl Logical {
    /// None yet, on a host with these tunnel addresses.
    pub fn of(own: Option<&VtepList>) -> Self {
        Self { own: own.cloned(), ..Self::default() }
    }

    /// The next generation: these objects, on a host that has these ports.
    ///
    /// # Errors
    ///
    /// All that is wrong with the objects.
    pub fn next(
        &self,
        objects: Vec<Object>,
        own: BTreeSet<LogicalPortName>,
    ) -> Result<Self, Vec<Fault>> {
        let topology = logical::resolve(&objects)?;
        let compiled = compiler::compile(&topology);
        let domains = compiled.into_iter().map(|(name, domain)| (name, Arc::new(domain)));
        let sites = compiler::sites(&topology).into_iter();
        let sites = sites.map(|(id, node)| (id, topology[node].node.vteps.clone()));
        let generation = Generation(self.generation.0 + 1);
        let next = self.told(generation, domains.collect(), &vec![sites.collect()], &Labels::new());
        let mut next = next.map_err(|error| vec![fault(&objects, &error)])?;
        if let Some(node) = self.own.as_ref().and_then(|own| node_of(&objects, own)) {
            next.facts = facts(&next.domains, Some(node)).into();
        }
        Ok(Self { objects: objects.into(), ..next }.with_parts(&own, self))
    }

    /// The next generation: these domains of a controller, on a host that has these ports.
    ///
    /// # Errors
    ///
    /// [`SameLabel`]: they cannot be executed by one host.
    pub fn followed(
        &self,
        generation: Generation,
        domains: Domains,
        sites: &Sites,
        labels: &Labels,
        own: &BTreeSet<LogicalPortName>,
    ) -> Result<Self, SameLabel> {
        Ok(self.told(generation, domains, sites, labels)?.with_parts(own, self))
    }

    /// The same host with these domains, and none of its parts of them yet. What follows from
    /// tables that are the same as before is the same.
    fn told(
        &self,
        generation: Generation,
        domains: Domains,
        sites: &Sites,
        labels: &Labels,
    ) -> Result<Self, SameLabel> {
        let is_same = |tables: fn(&Domain, &Domain) -> bool| {
            let mut both = self.domains.iter().zip(&domains);
            self.domains.len() == domains.len()
                && both.all(|((one, old), (other, new))| one == other && tables(old, new))
        };
        let facts = match is_same(has_same_facts) {
            true => self.facts.clone(),
            false => facts(&domains, None).into(),
        };
        let are_there = self.sites.len() == sites.len()
            && self.sites.iter().zip(sites).all(|(old, new)| old.is_same(new));
        let are_meant = self.labels.len() == labels.len()
            && self.labels.iter().zip(labels).all(|(old, new)| old.is_same(new));
        let elsewhere = match (are_meant && is_same(has_same_ports), are_there) {
            (true, true) => self.elsewhere.clone(),
            (true, false) => self.elsewhere.located(&domains, sites).into(),
            (false, _) => Elsewhere::new(&domains, sites, labels)?.into(),
        };
        let (domains, sites, labels) = (domains.into(), sites.clone(), labels.clone());
        let own = self.own.clone();
        Ok(Self { generation, domains, sites, labels, facts, elsewhere, own, ..Self::default() })
    }

    /// The same generation on a host that has these ports.
    pub fn with_ports(&self, own: BTreeSet<LogicalPortName>) -> Self {
        let same = Self {
            generation: self.generation,
            objects: self.objects.clone(),
            domains: self.domains.clone(),
            sites: self.sites.clone(),
            labels: self.labels.clone(),
            facts: self.facts.clone(),
            elsewhere: self.elsewhere.clone(),
            own: self.own.clone(),
            ..Self::default()
        };
        same.with_parts(&own, self)
    }

    /// With the host's parts of domains, if it has these ports; what is as before is the same.
    fn with_parts(mut self, own: &BTreeSet<LogicalPortName>, before: &Self) -> Self {
        // A router's or the outside's ports are nobody's to have.
        let own = own.iter().filter(|name| self.has(name));
        let own: BTreeSet<_> = own.filter_map(identity).collect();
        let routers = self.elsewhere.routers_at(self.own.as_ref());
        let has_own = |domain: &Domain| {
            own.iter().any(|port| domain.ports.contains_key(port))
                || routers.iter().any(|router| domain.routers.contains_key(router))
        };
        let domains = self.domains.iter().filter(|(_, domain)| has_own(domain));
        let all: BTreeSet<_> = own.iter().chain(&routers).cloned().collect();
        let mut changes = before.changes;
        let part = |(name, domain): (&Identity, &Arc<Domain>)| {
            let has_home = |it: &&Identity| self.elsewhere.has_home(it, self.own.as_ref());
            let homes = domain.routers.keys().filter(has_home).cloned();
            let (here, away): (BTreeSet<_>, BTreeSet<_>) =
                homes.partition(|it| routers.contains(it));
            let old = before.parts.get(name);
            let same = old.filter(|it| it.routers == here && it.away == away);
            if let Some(same) = same.filter(|it| all == before.here && Arc::ptr_eq(&it.of, domain))
            {
                return (name.clone(), same.clone());
            }
            let rows = domain.part(&all);
            if let Some(same) = same.filter(|it| *it.rows == rows) {
                return (name.clone(), Part { of: domain.clone(), ..same.clone() });
            }
            changes += 1;
            let old = old.map(|part| (&*part.rows, &*part.net));
            let net = Net::changed(&rows, changes, old);
            let net = net.with_routers(|router| !away.contains(router));
            let (rows, net) = (Arc::new(rows), Arc::new(net));
            (name.clone(), Part { of: domain.clone(), rows, net, routers: here, away })
        };
        let parts = domains.map(part).collect();
        self.parts = parts;
        if Arc::ptr_eq(&self.elsewhere, &before.elsewhere)
            && self.parts.keys().eq(before.parts.keys())
        {
            self.labelled = before.labelled.clone();
        }
        self.here = all;
        self.changes = changes;
        self
    }

    /// Its number; 0 before there is any.
    pub fn generation(&self) -> Generation {
        self.generation
    }

    /// What was declared.
    pub fn objects(&self) -> &[Object] {
        &self.objects
    }

    /// Whether a port is known that a machine can have.
    pub fn has(&self, port: &LogicalPortName) -> bool {
        self.facts.ports.contains_key(port)
    }

    /// Every port that a machine can have.
    pub fn ports(&self) -> impl Iterator<Item = &LogicalPortName> {
        self.facts.ports.keys()
    }

    /// How many rows each domain has, and how many of them are executed here.
    pub fn rows(&self) -> impl Iterator<Item = (&Identity, usize, usize)> {
        let here = |name| self.parts.get(name).map_or(0, |part: &Part| part.rows.len());
        self.domains.iter().map(move |(name, domain)| (name, domain.len(), here(name)))
    }

    /// What the switch's thread of a host with these tunnel addresses is handed, which knows other
    /// hosts by these numbers.
    pub fn realization(
        &self,
        own: Option<&VtepList>,
        peer_of: impl Fn(IpAddr) -> Option<Peer>,
    ) -> Realization {
        let nets = self.parts.values().map(|part| part.net.clone()).collect();
        let places = self.elsewhere.places(own, peer_of);
        let (generation, facts) = (self.generation, self.facts.clone());
        let goes_around = |part: &Part| !part.routers.is_empty() || part.net.asks();
        let has_routers = self.parts.values().any(goes_around);
        let has_checks = self.parts.values().any(|part| part.net.checked().next().is_some());
        Realization { generation, nets, facts, places, has_routers, has_checks }
    }

    /// What tunnels have to carry for the host's ports, and for those that are declared to be here:
    /// who sends to one that is not attached is to hear that it is not.
    pub fn labelled(&self) -> &[Labelled] {
        let Some(own) = &self.own else { return &[] };
        self.labelled.get_or_init(|| {
            let is_here = |(name, domain): &(&Identity, &Arc<Domain>)| {
                self.parts.contains_key(name) || self.elsewhere.is_any_at(own, domain)
            };
            let domains = self.domains.iter().filter(is_here).map(|(_, domain)| &**domain);
            self.elsewhere.labelled(own, domains)
        })
    }

    /// What makes the next generation of this one.
    pub fn difference(&self, next: &Self) -> Difference {
        let by_name = |object: &'_ Object| (object.identity(), object.clone());
        let from: BTreeMap<_, _> = self.objects.iter().map(by_name).collect();
        let to: BTreeMap<_, _> = next.objects.iter().map(by_name).collect();
        let names: BTreeSet<_> = from.keys().chain(to.keys()).collect();
        let object = |name: &Identity| {
            let change = match (from.get(name), to.get(name)) {
                (None, _) => ObjectFate::Added,
                (_, None) => ObjectFate::Removed,
                (from, to) if from == to => return None,
                _ => ObjectFate::Changed,
            };
            Some(ObjectChange { change, object: name.to_string() })
        };
        let none = Domain::default();
        let domains: BTreeSet<_> = self.domains.keys().chain(next.domains.keys()).collect();
        let domain = |name: &&Identity| {
            let from = self.domains.get(*name).map_or(&none, |it| &**it);
            let to = next.domains.get(*name).map_or(&none, |it| &**it);
            let changes = from.diff(to);
            if changes.is_empty() {
                return None;
            }
            let removed = changes.iter().filter(|change| change.is_removal()).count() as u64;
            let here = next.parts.get(*name).map_or(0, |part| part.rows.len()) as u64;
            Some(DomainChange {
                domain: name.to_string(),
                put: changes.len() as u64 - removed,
                removed,
                rows: to.len() as u64,
                here,
            })
        };
        Difference {
            objects: names.into_iter().filter_map(object).collect(),
            domains: domains.iter().filter_map(domain).collect(),
        }
    }
}

/// The TransportNode that a host with these tunnel addresses is.
fn node_of<'a>(objects: &'a [Object], own: &VtepList) -> Option<&'a Declared<TransportNode>> {
    let node = |object: &'a Object| match object {
        Object::TransportNode(it) => Some(it),
        _ => None,
    };
    let mut nodes = objects.iter().filter_map(node);
    nodes.find(|it| own.iter().any(|address| it.spec.vteps.contains(&address)))
}

/// Whether all tables are the same that [`facts`] are of.
fn has_same_facts(old: &Domain, new: &Domain) -> bool {
    has_same_ports(old, new)
        && old.ports.is_same(&new.ports)
        && old.switches.is_same(&new.switches)
        && old.qos.is_same(&new.qos)
        && old.terms.is_same(&new.terms)
}

/// Whether all tables are the same that [`Elsewhere`] is of, but for sites and labels.
fn has_same_ports(old: &Domain, new: &Domain) -> bool {
    old.stations.is_same(&new.stations)
        && old.router_ports.is_same(&new.router_ports)
        && old.balancers.is_same(&new.balancers)
}

/// What interfaces have of their logical ports, machines' and those to provider networks, at a host
/// that is this TransportNode, if it is one. A child has no interface.
fn facts(domains: &Domains, node: Option<&Declared<TransportNode>>) -> AllFacts {
    let mut facts = AllFacts::default();
    for domain in domains.values() {
        for (tenant, terms) in &domain.terms {
            let of = OfTenant { tenant: tenant.clone(), terms: *terms };
            facts.tenants.insert(network_of(tenant.name.as_str()), of);
        }
        let is_child = |port| domain.ports.get(port).is_some_and(|it| it.parent.is_some());
        for ((switch, port), station) in &domain.stations {
            let is_had = match station.role {
                StationRole::Machine => !is_child(port),
                StationRole::Local | StationRole::Provider => true,
                _ => false,
            };
            let name =
                port.tenant.as_ref().and_then(|it| format!("{it}/{}", port.name).parse().ok());
            if let Some(name) = name.filter(|_| is_had) {
                let switch = domain.switches.get(switch);
                let provider = switch.and_then(|it| it.provider.as_ref());
                let provider = provider.filter(|_| station.role == StationRole::Provider);
                let provided = provider.zip(node).map(|(provider, node)| Provided {
                    network: provider.network.clone(),
                    node: node.metadata.name.clone(),
                    interface: node.spec.providers.get(&provider.network).cloned(),
                });
                let (mtu, vlan) = (switch.and_then(|it| it.mtu), provider.map(|it| it.vlan));
                let row = domain.ports.get(port);
                let qos = row.and_then(|row| domain.qos.get(row.qos.as_ref()?));
                let profile = row.and_then(|row| row.qos.clone());
                let rates = qos.zip(profile).and_then(|(qos, profile)| {
                    let QosProfile { guarantee, limit, burst, .. } = *qos;
                    guarantee.or(limit).map(|_| Rates { profile, guarantee, limit, burst })
                });
                let class = row.and_then(|row| row.class).or(qos.and_then(|qos| qos.class));
                let class = class.unwrap_or_default();
                let facts_of = Facts { mac: station.mac, mtu, class, rates, vlan, provided };
                facts.ports.insert(name, facts_of);
            }
        }
    }
    facts
}

/// What is wrong with an object that has another's label.
fn fault(objects: &[Object], error: &SameLabel) -> Fault {
    let index = objects.iter().position(|object| object.identity() == error.second);
    let object = error.second.to_string();
    let path = "/metadata/name".into();
    Fault { index, object, path, message: error.to_string(), position: None }
}

/// A logical port as objects name it.
pub fn identity(name: &LogicalPortName) -> Option<Identity> {
    let (tenant, port) = (name.tenant().parse().ok()?, name.port().parse().ok()?);
    Some(Identity { kind: Kind::LogicalPort, tenant: Some(tenant), name: port })
}

#[cfg(test)]
mod tests;
