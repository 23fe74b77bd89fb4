//! Logical networks to domains of rows that hosts execute, change by change.
//!
//! ```text
//! edits ─▶ objects ─facts─▶ input tuples ─rules/*.nlog─▶ tuples that say what a row is made of
//!             │                 ▲                             │
//!             ├─domains─ which nodes are connected            ▼
//!             └──────────────────────────────────────rows─▶ rows ─▶ the image, and what of it changed
//! ```
//!
//! What rows there are, of which domain, and what they depend on, is said by rules
//! (`crates/hypervisor/rules`), which `nlog` keeps true while objects come and go. A tuple that
//! comes has its row made of the objects that it names. So a change costs what it changes, and a
//! change that makes no other row tells nothing.
//!
//! The rows are those of crate `compiler`, which makes them all at once; tests hold the two
//! together.
//!
//! # What it does not know
//!
//! Whether objects are right: it is given what [`logical::resolve`] takes. Where ports are, who
//! executes rows, and time.

#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

mod domains;
mod facts;
mod files;
mod functions;
mod objects;
pub mod profile;
mod rows;
mod speech;
mod text;

#[cfg(test)]
mod tests;

use alloc::collections::BTreeMap;
use alloc::sync::Arc;
use alloc::vec::Vec;

use image::{Change, Domain};
use logical::Object;
use logical::objects::{Identity, Kind};
use nlog::{Batch, Counters, Engine, Fault, Program, RuleCounters, Values};

use domains::Domains;
use facts::{Tables, Writer};
use objects::Objects;
use rows::{Known, Maker, Rows};

/// An object comes, is another, or goes.
#[derive(Clone, Debug)]
pub struct Edit {
    id: Identity,
    to: Option<Arc<Object>>,
}

impl Edit {
    /// Puts an object, in the place of what has its name.
    pub fn put(object: Arc<Object>) -> Self {
        Self { id: object.identity(), to: Some(object) }
    }

    /// Takes the object of a name away.
    pub fn remove(id: Identity) -> Self {
        Self { id, to: None }
    }
}

/// What changed of each domain: what [`Domain::diff`] finds between before and after.
pub type Changes = BTreeMap<Identity, Vec<Change>>;

/// All logical networks, as objects and as the image of each domain.
pub struct Hypervisor {
    objects: Objects,
    domains: Domains,
    engine: Engine,
    tables: Tables,
    known: Known,
    image: BTreeMap<Identity, Domain>,
    rows: usize,
    resized: BTreeMap<Identity, isize>,
}

impl Hypervisor {
    /// No networks. `seed` is what hashes of names depend on: a random number where tenants choose
    /// names.
    ///
    /// # Panics
    ///
    /// Never: the rules were checked when the crate was built.
    pub fn new(seed: u64) -> Self {
        let program = Program::parse(files::FILES).expect("the rules were checked");
        let engine = Engine::new(program, functions::library(), Values::new(seed));
        let engine = engine.expect("the library has what the rules declare");
        Self {
            objects: Objects::default(),
            domains: Domains::default(),
            tables: Tables::of(&engine),
            engine,
            known: Known::default(),
            image: BTreeMap::new(),
            rows: 0,
            resized: BTreeMap::new(),
        }
    }

    /// Every domain. A domain has the name of the least of its switches and routers.
    pub fn image(&self) -> &BTreeMap<Identity, Domain> {
        &self.image
    }

    /// The object that has a name.
    pub fn object(&self, id: &Identity) -> Option<&Arc<Object>> {
        self.objects.get(id).map(|(object, _)| object)
    }

    /// The names of all objects, in order.
    pub fn names(&self) -> impl Iterator<Item = &Identity> {
        self.objects.names()
    }

    /// How many objects there are.
    pub fn objects(&self) -> usize {
        self.objects.len()
    }

    /// How many rows there are in all domains.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// The domain that a switch or a router is in.
    pub fn domain_of(&self, node: &Identity) -> Option<&Identity> {
        self.domains.of(node)
    }

    /// How many more ports PortGroups have by the last commit; fewer are less than none.
    pub fn resized(&self) -> &BTreeMap<Identity, isize> {
        &self.resized
    }

    /// What each rule has done, with its place.
    pub fn rules(&self) -> impl Iterator<Item = (Fault, RuleCounters)> {
        self.engine.rules()
    }

    /// What the rules have done together.
    pub fn counters(&self) -> Counters {
        self.engine.counters()
    }

    /// How many tuples there are.
    pub fn tuples(&self) -> usize {
        self.engine.tables().map(|table| self.engine.len(table)).sum()
    }

    /// How many tuples there are, and the bytes that they and their values take. Looks at every
    /// value.
    pub fn size(&self) -> (usize, usize) {
        let (_, values) = self.engine.values().kept();
        (self.tuples(), self.engine.bytes() + values)
    }

    /// Makes edits, all at once, and tells what they change. `revision` is the store's, greater
    /// than any before.
    ///
    /// # Panics
    ///
    /// If the objects are not right together after the edits ([`logical::resolve`] tells why), or
    /// the revision does not go up.
    pub fn commit(&mut self, revision: u64, edits: impl IntoIterator<Item = Edit>) -> Changes {
        let mut batch = Batch::new();
        for Edit { id, to } in edits {
            self.edit(&id, to, &mut batch);
        }
        let mut writer = Writer {
            engine: &mut self.engine,
            tables: &self.tables,
            batch: &mut batch,
            comes: false,
        };
        for (node, before, after) in self.domains.settle() {
            for (domain, comes) in [(before, false), (after, true)] {
                writer.comes = comes;
                domain.iter().for_each(|it| writer.say("domain", [(&node).into(), it.into()]));
            }
        }
        let change = self.engine.commit(revision, &batch);
        let change = change.unwrap_or_else(|refusal| panic!("objects are not right: {refusal}"));
        self.settle(&change)
    }

    fn edit(&mut self, id: &Identity, to: Option<Arc<Object>>, batch: &mut Batch) {
        let before = self.objects.get(id);
        if before.map(|(object, _)| object) == to.as_ref() {
            return;
        }
        let before = self.objects.edit(id, to);
        let after = self.objects.get(id);
        let [old, new] =
            [before.as_ref(), after].map(|it| it.map(|(object, version)| (&**object, *version)));
        let [before, after] = [old, new].map(|it| it.map(|(object, _)| object));
        match id.kind {
            Kind::LogicalSwitch | Kind::LogicalRouter if before.is_some() != after.is_some() => {
                self.domains.node(id, after.is_some());
            }
            Kind::RouterPort => self.domains.router_port(id, after.and_then(facts::ends)),
            Kind::LogicalPort => {
                let [before, after] = [before, after].map(|it| it.and_then(facts::stand));
                if before != after {
                    before.iter().for_each(|(to, _)| self.domains.stand(to, id, None));
                    after.iter().for_each(|(to, at)| self.domains.stand(to, id, Some(at)));
                }
            }
            _ => {}
        }
        let engine = &mut self.engine;
        Writer { engine, tables: &self.tables, batch, comes: true }.edit(old, new);
    }

    /// Has the image follow the rules.
    fn settle(&mut self, change: &nlog::Change) -> Changes {
        let (image, known) = (&mut self.image, &mut self.known);
        let all = &mut Settled { changes: Changes::new(), rows: self.rows };
        let values = self.engine.values();
        let maker = Maker { change, values, tables: &self.tables, objects: &self.objects };
        put(image, all, maker.switches(), |it| &mut it.switches, Change::Switch);
        put(image, all, maker.stations(), |it| &mut it.stations, Change::Station);
        put(image, all, maker.ports(), |it| &mut it.ports, Change::Port);
        put(image, all, maker.policies(known), |it| &mut it.policies, Change::Policy);
        put(image, all, maker.members(), |it| &mut it.members, Change::Member);
        put(image, all, maker.addresses(), |it| &mut it.addresses, Change::Address);
        put(image, all, maker.routers(), |it| &mut it.routers, Change::Router);
        put(image, all, maker.router_ports(), |it| &mut it.router_ports, Change::RouterPort);
        put(image, all, maker.routes(), |it| &mut it.routes, Change::Route);
        let policies = maker.route_policies(|domain, router| {
            image.get(domain).map(|it| rows::policies_of(it, router)).unwrap_or_default()
        });
        put(image, all, policies, |it| &mut it.route_policies, Change::RoutePolicy);
        put(image, all, maker.nats(), |it| &mut it.nats, Change::Nat);
        put(image, all, maker.balancers(), |it| &mut it.balancers, Change::Balancer);
        put(image, all, maker.zones(), |it| &mut it.zones, Change::Zone);
        put(image, all, maker.profiles(), |it| &mut it.profiles, Change::Profile);
        put(image, all, maker.qos(), |it| &mut it.qos, Change::Qos);
        put(image, all, maker.meters(), |it| &mut it.meters, Change::Meter);
        put(image, all, maker.terms(), |it| &mut it.terms, Change::Terms);
        for domain in all.changes.keys() {
            if image.get(domain).is_some_and(Domain::is_empty) {
                image.remove(domain);
            }
        }
        self.resized = maker.resized();
        self.rows = all.rows;
        core::mem::take(&mut all.changes)
    }
}

/// What has changed, and how many rows there are now.
struct Settled {
    changes: Changes,
    rows: usize,
}

impl Settled {
    fn tell(&mut self, domain: &Identity, change: Change) {
        match self.changes.get_mut(domain) {
            Some(all) => all.push(change),
            None => drop(self.changes.insert(domain.clone(), alloc::vec![change])),
        }
    }
}

/// Puts rows of a table into their domains, and tells of those that differ: first of those that are
/// gone.
fn put<K: Clone + Ord, R: Clone + PartialEq>(
    image: &mut BTreeMap<Identity, Domain>,
    all: &mut Settled,
    rows: Rows<K, R>,
    table: impl Fn(&mut Domain) -> &mut BTreeMap<K, R>,
    change: impl Fn(K, Option<R>) -> Change,
) {
    for ((domain, key), _) in rows.iter().filter(|(_, row)| row.is_none()) {
        if image.get_mut(domain).is_some_and(|it| table(it).remove(key).is_some()) {
            all.rows -= 1;
            all.tell(domain, change(key.clone(), None));
        }
    }
    for ((domain, key), row) in rows {
        let Some(row) = row else { continue };
        let rows = table(image.entry(domain.clone()).or_default());
        if rows.get(&key) != Some(&row) {
            all.rows += usize::from(rows.insert(key.clone(), row.clone()).is_none());
            all.tell(&domain, change(key, Some(row)));
        }
    }
}
