//! What the objects lead to on hosts: domains of rows, and where their ports are.
//!
//! ```text
//! objects ─hypervisor─▶ rows of each domain ───┐
//!    └────resolve──▶ the node of each port ─ by domain ─▶ what agents are told of one revision
//! ```
//!
//! Rows are computed change by change. Where ports are is looked at anew for all of them when an
//! object has changed that can say so, as writes look at all objects, too.

use std::collections::BTreeMap;
use std::sync::Arc;

use hypervisor::{Edit, Hypervisor};
use image::{Domain, Site, StationRole, Told};
use logical::Topology;
use logical::objects::{Identity, Kind, Object};
use replica::{Delta, Name};
use southbound::{Change, Place};
use store::Revision;

/// All networks, as of a revision.
pub struct Networks {
    hypervisor: Hypervisor,
    objects: BTreeMap<Identity, Arc<Object>>,
    whereabouts: Whereabouts,
}

/// Where ports are.
#[derive(Default)]
struct Whereabouts {
    /// What hosts of a domain are told of it.
    sites: BTreeMap<(Name, Identity), Site>,
    /// Who may follow a domain.
    ports: BTreeMap<Name, Place>,
}

impl Networks {
    /// None. `seed` is what hashes of names depend on: tenants choose these.
    pub fn new(seed: u64) -> Self {
        let (objects, whereabouts) = Default::default();
        Self { hypervisor: Hypervisor::new(seed), objects, whereabouts }
    }

    /// Edits that lead from what is here to these objects.
    pub fn edits_to(&self, objects: BTreeMap<Identity, Object>) -> Vec<(Identity, Option<Object>)> {
        let gone = self.objects.keys().filter(|it| !objects.contains_key(it));
        let gone: Vec<_> = gone.map(|it| (it.clone(), None)).collect();
        let there = objects.into_iter().map(|(identity, object)| (identity, Some(object)));
        gone.into_iter().chain(there).collect()
    }

    /// Makes edits, all at once, and says what agents are told of them.
    ///
    /// # Panics
    ///
    /// If the objects are not right together after the edits, which the catalog has seen to.
    pub fn commit(&mut self, revision: Revision, edits: Vec<(Identity, Option<Object>)>) -> Change {
        let moves = edits.iter().any(|(identity, _)| says_where(identity.kind));
        let mut all = Vec::with_capacity(edits.len());
        for (identity, object) in edits {
            let object = object.map(Arc::new);
            match &object {
                Some(object) => drop(self.objects.insert(identity.clone(), Arc::clone(object))),
                None => drop(self.objects.remove(&identity)),
            }
            all.push(object.map_or_else(|| Edit::remove(identity), Edit::put));
        }
        let mut change = Change::default();
        for (domain, rows) in self.hypervisor.commit(revision.0, all) {
            let delta = change.domains.entry(name(&domain)).or_default();
            rows.into_iter().for_each(|row| put(delta, &Told::Row(row)));
        }
        if moves {
            self.locate(&mut change);
        }
        change
    }

    /// Looks where ports are, and adds what is other than before.
    fn locate(&mut self, change: &mut Change) {
        let objects: Vec<_> = self.objects.values().map(|it| (**it).clone()).collect();
        let topology = logical::resolve(&objects).unwrap_or_else(|faults| {
            panic!("objects of the store are not right together: {faults:?}")
        });
        let next = Whereabouts::of(&topology, self.hypervisor.image());
        let before = std::mem::replace(&mut self.whereabouts, next);
        let next = &self.whereabouts;
        for ((domain, id), site) in differing(&before.sites, &next.sites) {
            let delta = change.domains.entry(domain).or_default();
            put(delta, &Told::Site(id, site));
        }
        change.ports = differing(&before.ports, &next.ports).collect();
    }

    /// How many objects, domains and rows there are.
    pub fn size(&self) -> (usize, usize, usize) {
        let image = self.hypervisor.image();
        (self.objects.len(), image.len(), image.values().map(Domain::len).sum())
    }
}

impl Whereabouts {
    fn of(topology: &Topology, image: &BTreeMap<Identity, Domain>) -> Self {
        let nodes = compiler::sites(topology);
        let mut all = Self::default();
        for (domain, rows) in image {
            let domain = name(domain);
            for ((_, port), station) in &rows.stations {
                if matches!(station.role, StationRole::Machine | StationRole::Local)
                    && let Some(tenant) = &port.tenant
                {
                    let node = nodes.get(port).map(|node| topology[*node].id.name.as_str().into());
                    let place = Place { domain: domain.clone(), node };
                    all.ports.insert(format!("{tenant}/{}", port.name).into(), place);
                }
            }
            let ports = rows.stations.keys().map(|(_, port)| port);
            for id in ports.chain(rows.router_ports.keys()).chain(rows.routers.keys()) {
                if let Some(node) = nodes.get(id) {
                    let vteps = topology[*node].node.vteps.clone();
                    all.sites.insert((domain.clone(), id.clone()), vteps);
                }
            }
        }
        all
    }
}

/// Whether an object of a kind can say where a port is, or of which domain.
fn says_where(kind: Kind) -> bool {
    match kind {
        Kind::LogicalSwitch
        | Kind::LogicalPort
        | Kind::LogicalRouter
        | Kind::RouterPort
        | Kind::Nat
        | Kind::LoadBalancer
        | Kind::TransportNode
        | Kind::Gateway
        | Kind::Binding => true,
        Kind::Tenant
        | Kind::ExternalPool
        | Kind::Policy
        | Kind::PortGroup
        | Kind::AddressSet
        | Kind::Service
        | Kind::DhcpProfile
        | Kind::DnsZone
        | Kind::QosProfile
        | Kind::Meter
        | Kind::ProviderNetwork => false,
    }
}

/// A domain's name, as agents have it.
fn name(domain: &Identity) -> Name {
    domain.to_string().into()
}

fn put(delta: &mut Delta, told: &Told) {
    let (key, row) = told.encode();
    delta.put(key.into(), row.map(Into::into));
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
