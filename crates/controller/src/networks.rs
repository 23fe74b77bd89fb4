//! What the objects lead to on hosts: domains of rows, and where their ports are.
//!
//! ```text
//! objects ─hypervisor─▶ rows of each domain ──────────┐
//!    └────────────── whereabouts: where its ports are ─┴─▶ what agents are told of one revision
//! ```
//!
//! Both are computed change by change.

use std::collections::BTreeMap;
use std::sync::Arc;

use hypervisor::{Edit, Hypervisor};
use image::Told;
use logical::objects::{Identity, Kind, Object};
use replica::Delta;
use southbound::Change;
use store::Revision;

use crate::concerns::{self, Concern};
use crate::metrics::Size;
use crate::whereabouts::{Whereabouts, name};

/// All networks, as of a revision.
pub struct Networks {
    hypervisor: Hypervisor,
    objects: BTreeMap<Identity, Arc<Object>>,
    whereabouts: Whereabouts,
}

/// What edits have led to.
pub struct Computed {
    /// What agents are told.
    pub change: Change,
    /// Which objects have rows in which domains, where that is otherwise than before.
    pub concerns: Vec<Concern>,
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

    /// Makes edits, all at once, and says what they lead to.
    ///
    /// # Panics
    ///
    /// If the objects are not right together after the edits, which the catalog has seen to.
    pub fn commit(
        &mut self,
        revision: Revision,
        edits: Vec<(Identity, Option<Object>)>,
    ) -> Computed {
        let mut all = Vec::with_capacity(edits.len());
        let mut change = Change::default();
        for (identity, object) in edits {
            if identity.kind == Kind::TransportNode {
                let node: replica::Name = identity.name.as_str().into();
                let (to, from) = match object {
                    Some(_) => (&mut change.come, &mut change.gone),
                    None => (&mut change.gone, &mut change.come),
                };
                from.remove(&node);
                to.insert(node);
            }
            let object = object.map(Arc::new);
            let before = match &object {
                Some(object) => self.objects.insert(identity.clone(), Arc::clone(object)),
                None => self.objects.remove(&identity),
            };
            self.whereabouts.edit(before.as_deref(), object.as_deref());
            all.push(object.map_or_else(|| Edit::remove(identity), Edit::put));
        }
        let changes = self.hypervisor.commit(revision.0, all);
        let moved = self.whereabouts.settle(&self.hypervisor, &changes, &self.objects);
        let mut concerns = Vec::new();
        for (domain, rows) in changes {
            let (name, image) = (name(&domain), self.hypervisor.image().get(&domain));
            concerns.extend(concerns::concerns(&name, &rows, image));
            let delta = change.domains.entry(name).or_default();
            rows.into_iter().for_each(|row| put(delta, &Told::Row(row)));
        }
        for (domain, id, site) in moved.sites {
            let delta = change.domains.entry(name(&domain)).or_default();
            put(delta, &Told::Site(id, site));
        }
        (change.ports, change.homes) = (moved.ports, moved.homes);
        Computed { change, concerns }
    }

    /// How much there is.
    pub fn size(&self) -> Size {
        Size {
            objects: self.objects.len(),
            domains: self.hypervisor.image().len(),
            rows: self.hypervisor.rows(),
            tuples: self.hypervisor.tuples(),
        }
    }
}

fn put(delta: &mut Delta, told: &Told) {
    let (key, row) = told.encode();
    delta.put(key.into(), row.map(Into::into));
}
