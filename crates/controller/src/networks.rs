//! What the objects lead to on hosts: domains of rows, and where their ports are.
//!
//! ```text
//! objects ─hypervisor─▶ rows of each domain ──────────┐
//!    └─── whereabouts: where its ports are, their labels ─┴─▶ what agents are told of one revision
//! ports that were found, labels ──┘
//! ```
//!
//! Both are computed change by change.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

use hypervisor::{Edit, Hypervisor};
use image::Told;
use logical::objects::{Identity, Kind, Name, Object};
use replica::Delta;
use southbound::Change;
use store::Revision;

use crate::concerns::{self, Concern};
use crate::counts::{self, Counted, MEMBERS};
use crate::metrics::Size;
use crate::whereabouts::{Whereabouts, name};

/// All networks, as of a revision.
pub struct Networks {
    hypervisor: Hypervisor,
    whereabouts: Whereabouts,
}

/// What an object is from now on. `None`: it is gone.
pub type Edited = (Identity, Option<Arc<Object>>);

/// Where a port that nobody has bound is from now on. `None`: nowhere.
pub type Found = (Identity, Option<Name>);

/// The number by which hosts mean an object from now on. `None`: none.
pub type Labelled = (Identity, Option<u32>);

/// What edits have led to.
pub struct Computed {
    /// What agents are told.
    pub change: Change,
    /// Which objects have rows in which domains, where that is otherwise than before.
    pub concerns: Vec<Concern>,
    /// What objects have more of, or less.
    pub counted: Counted,
}

impl Networks {
    /// None. `seed` is what hashes of names depend on: tenants choose these.
    pub fn new(seed: u64) -> Self {
        Self { hypervisor: Hypervisor::new(seed), whereabouts: Whereabouts::default() }
    }

    /// Edits that lead from what is here to these objects.
    pub fn edits_to(&self, objects: BTreeMap<Identity, Arc<Object>>) -> Vec<Edited> {
        let gone = self.hypervisor.names().filter(|it| !objects.contains_key(it));
        let gone: Vec<_> = gone.map(|it| (it.clone(), None)).collect();
        let there = objects.into_iter().map(|(identity, object)| (identity, Some(object)));
        gone.into_iter().chain(there).collect()
    }

    /// An agent has a port that nobody has bound, or none has any more: that is told with the
    /// next edits.
    pub fn find(&mut self, port: Identity, node: Option<Name>) {
        self.whereabouts.find(port, node);
    }

    /// What leads there from where ports were found as is known here.
    pub fn found_to(&self, found: BTreeMap<Identity, Name>) -> Vec<Found> {
        let gone = self.whereabouts.found().filter(|it| !found.contains_key(it));
        let gone: Vec<_> = gone.map(|it| (it.clone(), None)).collect();
        gone.into_iter().chain(found.into_iter().map(|(port, node)| (port, Some(node)))).collect()
    }

    /// The store has given an object a label, or the object is gone: that is told with the next
    /// edits.
    pub fn label(&mut self, of: Identity, label: Option<u32>) {
        self.whereabouts.label(of, label);
    }

    /// What leads there from the labels that are known here.
    pub fn labels_to(&self, labels: BTreeMap<Identity, u32>) -> Vec<Labelled> {
        let gone = self.whereabouts.labelled().filter(|it| !labels.contains_key(it));
        let gone: Vec<_> = gone.map(|it| (it.clone(), None)).collect();
        gone.into_iter().chain(labels.into_iter().map(|(of, label)| (of, Some(label)))).collect()
    }

    /// Makes edits, all at once, and says what they lead to. Of several of one object the last
    /// counts.
    ///
    /// # Panics
    ///
    /// If the objects are not right together after the edits, which the catalog has seen to.
    pub fn commit(&mut self, revision: Revision, edits: Vec<Edited>) -> Computed {
        let edits: BTreeMap<_, _> = edits.into_iter().collect();
        let mut all = Vec::with_capacity(edits.len());
        let (mut change, mut counted) = (Change::default(), Counted::new());
        for (identity, object) in edits {
            if identity.kind == Kind::TransportNode {
                let node: replica::Name = identity.name.as_str().into();
                let to = if object.is_some() { &mut change.come } else { &mut change.gone };
                to.insert(node);
            }
            let before = self.hypervisor.object(&identity);
            self.whereabouts.edit(before.map(|it| &**it), object.as_deref());
            counts::count(&mut counted, before.map(|it| &**it), object.as_deref());
            all.push(object.map_or_else(|| Edit::remove(identity), Edit::put));
        }
        let changes = self.hypervisor.commit(revision.0, all);
        let resized = self.hypervisor.resized().iter();
        counted.extend(resized.map(|(group, by)| ((group.clone(), MEMBERS), *by)));
        let moved = self.whereabouts.settle(&self.hypervisor, &changes);
        let (mut concerns, mut known) = (Vec::new(), HashSet::new());
        for (domain, rows) in changes {
            let (name, image) = (name(&domain), self.hypervisor.image().get(&domain));
            concerns.extend(concerns::concerns(&name, &rows, image));
            let delta = change.domains.entry(name).or_default();
            rows.into_iter().for_each(|row| put(delta, &mut known, &Told::Row(row)));
        }
        for (domain, id, site) in moved.sites {
            let delta = change.domains.entry(name(&domain)).or_default();
            put(delta, &mut known, &Told::Site(id, site));
        }
        for (domain, id, label) in moved.labels {
            let delta = change.domains.entry(name(&domain)).or_default();
            put(delta, &mut known, &Told::Label(id, label));
        }
        (change.ports, change.homes) = (moved.ports, moved.homes);
        Computed { change, concerns, counted }
    }

    /// How much there is.
    pub fn size(&self) -> Size {
        Size {
            objects: self.hypervisor.objects(),
            domains: self.hypervisor.image().len(),
            rows: self.hypervisor.rows(),
            tuples: self.hypervisor.tuples(),
            recomputed: self.hypervisor.counters().recomputed,
        }
    }

    /// The bytes that tuples and their values take. Looks at every value.
    pub fn tuple_bytes(&self) -> usize {
        self.hypervisor.size().1
    }
}

/// Puts a row into a delta. `known`: rows as they were put before, by which equal ones are kept
/// once: most policies say the same.
fn put(delta: &mut Delta, known: &mut HashSet<Arc<[u8]>>, told: &Told) {
    let (key, row) = told.encode();
    let row = row.map(|row| match known.get(&row[..]) {
        Some(same) => Arc::clone(same),
        None => {
            let row: Arc<[u8]> = row.into();
            known.insert(Arc::clone(&row));
            row
        }
    });
    delta.put(key.into(), row);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_that_say_the_same_are_kept_once() {
        let text = "\
- {kind: Tenant, metadata: {name: t}, spec: {}}
- {kind: LogicalSwitch, metadata: {name: a, tenant: t}, spec: {}}
- {kind: LogicalSwitch, metadata: {name: b, tenant: t}, spec: {}}
- {kind: LogicalSwitch, metadata: {name: c, tenant: t}, spec: {mtu: 1400}}
";
        let objects = logical::read(text).objects.into_iter();
        let edits = objects.map(|it| (it.identity(), Some(Arc::new(it)))).collect();
        let change = Networks::new(1).commit(Revision(1), edits).change;
        let rows = change.domains.values().flat_map(Delta::iter);
        let rows: Vec<_> = rows.filter_map(|(_, row)| row.clone()).collect();
        let [a, b, c] = &rows[..] else { panic!("{rows:?}") };
        assert!(Arc::ptr_eq(a, b) && a != c);
    }
}
