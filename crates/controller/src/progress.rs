//! How far hosts are with what is declared, and what is counted of it: what conditions and facts
//! are computed of.

use std::sync::{Arc, PoisonError, RwLock};

use logical::objects::{Identity, Kind, Name};
use model::Generation;
use southbound::{Executing, Publisher};
use store::Revision;
use tokio::sync::watch;

use crate::concerns::{Concern, Concerns, Domains, among, union};
use crate::counts::{Counted, Counts, NODES};
use crate::outcome::{Applied, AppliedChange, AppliedObject};

/// How far hosts are with what is declared.
#[derive(Debug)]
pub struct Progress {
    publisher: Arc<Publisher>,
    concerns: RwLock<Concerns>,
    counts: RwLock<Counts>,
}

/// What somebody waits for: that hosts execute a write.
#[derive(Clone, Debug)]
pub struct Written {
    /// Its revision.
    pub revision: Revision,
    /// Whether it has changed anything: then all that this has led to is waited for.
    pub has_changed: bool,
    /// What it has found as it was to be: that is waited for, too.
    pub unchanged: Vec<Identity>,
}

impl From<&Applied> for Written {
    fn from(applied: &Applied) -> Self {
        let is_changed = |it: &&AppliedObject| it.change != AppliedChange::Unchanged;
        let unchanged = applied.objects.iter().filter(|it| !is_changed(it));
        Self {
            revision: Revision(applied.revision),
            has_changed: applied.objects.iter().any(|it| is_changed(&it)),
            unchanged: unchanged.filter_map(|it| it.object.parse().ok()).collect(),
        }
    }
}

/// How far the hosts of some domains are, and the revision that agents are told of.
pub type Far = (Generation, Vec<Executing>);

impl Progress {
    /// Of what is published here.
    pub fn new(publisher: Arc<Publisher>) -> Self {
        Self { publisher, concerns: RwLock::default(), counts: RwLock::default() }
    }

    /// What agents are told.
    pub fn publisher(&self) -> &Arc<Publisher> {
        &self.publisher
    }

    /// Says when hosts may be further than they were.
    pub fn subscribe(&self) -> watch::Receiver<()> {
        self.publisher.subscribe()
    }

    /// A revision was computed, and is about to be published.
    pub fn advance(
        &self,
        revision: Revision,
        concerns: Vec<Concern>,
        changed: Vec<replica::Name>,
        counted: Counted,
    ) {
        let mut known = self.concerns.write().unwrap_or_else(PoisonError::into_inner);
        known.advance(revision, concerns, changed);
        drop(known);
        self.counts.write().unwrap_or_else(PoisonError::into_inner).advance(counted);
    }

    /// How many of something an object has.
    pub fn count(&self, id: &Identity, what: &'static str) -> u64 {
        let counts = self.counts.read().unwrap_or_else(PoisonError::into_inner);
        counts.get(id, what) as u64
    }

    /// Whether a node is declared: others are told where its ports are only then.
    pub fn has_node(&self, name: &replica::Name) -> bool {
        let node = |name| Identity { kind: Kind::TransportNode, tenant: None, name };
        name.parse().is_ok_and(|name| self.count(&node(name), NODES) > 0)
    }

    /// The first domain that has rows of an object: of a switch or a router, the one that it is in.
    pub fn domain(&self, id: &Identity) -> Option<replica::Name> {
        let concerns = self.concerns.read().unwrap_or_else(PoisonError::into_inner);
        concerns.with_rows_of(id).next().cloned()
    }

    /// The domains that an object has to do with.
    pub fn domains(&self, of: &Identity) -> Domains {
        self.concerns.read().unwrap_or_else(PoisonError::into_inner).of(of)
    }

    /// How far the hosts are that have to do with what was written, or with a tenant's part of it.
    pub fn far(&self, written: &Written, tenant: Option<&Name>) -> Far {
        self.publisher.executing(self.changed(written, tenant).as_ref())
    }

    fn changed(&self, written: &Written, tenant: Option<&Name>) -> Domains {
        let Written { revision, has_changed, unchanged } = written;
        let concerns = self.concerns.read().unwrap_or_else(PoisonError::into_inner);
        let changed = has_changed.then(|| concerns.changed(*revision));
        let all = union(unchanged.iter().map(|it| concerns.of(it)).chain(changed));
        match tenant {
            Some(name) => {
                let own = Identity { kind: Kind::Tenant, tenant: None, name: name.clone() };
                among(all, concerns.of(&own))
            }
            None => all,
        }
    }
}
