//! Has agents follow the store: what each of its revisions changes is computed and published.
//!
//! ```text
//! store ─changes behind a cursor─▶ Networks ─▶ Publisher ═▶ agents
//!   ▲                                              │
//!   └──── where agents have ports without Binding ─┘
//! ```
//!
//! Revisions that come while one is computed are computed together after it: agents have the newest
//! number, and each of them is one that the store has. After a restart all is computed anew of what
//! is in the store, to the same rows: agents that have them are told their number and nothing else.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use logical::objects::{Identity, Kind};
use model::Generation;
use replica::{Fence, Store as StoreName};
use southbound::Publisher;
use store::{Cursor, Revision, StoreError};
use tokio::time::sleep_until;

use crate::catalog::{Catalog, OpenError, read_found, read_label};
use crate::metrics::Metrics;
use crate::networks::{Computed, Edited, Found, Labelled, Networks};
use crate::place;
use crate::progress::Progress;

/// How many changes are read at once.
const STEP: usize = 10_000;

/// How long what was found is collected after some was kept, and so long more for each port: a node
/// can say of many ports that it has them, again and again. And how long if it could not be kept.
const COLLECTED: Duration = Duration::from_millis(20);
const A_PORT: Duration = Duration::from_micros(100);
const FAILED: Duration = Duration::from_secs(5);

/// Who computes, and how far that has come.
pub struct Telling {
    catalog: Arc<Catalog>,
    networks: Networks,
    cursor: Cursor,
    publisher: Arc<Publisher>,
    progress: Arc<Progress>,
    metrics: Arc<Metrics>,
}

impl Telling {
    /// Nothing yet. `seed`: a random number.
    ///
    /// # Errors
    ///
    /// [`StoreError::Damaged`]: the store's name is none.
    pub fn new(
        catalog: Arc<Catalog>,
        metrics: Arc<Metrics>,
        seed: u64,
    ) -> Result<Self, StoreError> {
        let store = catalog.store();
        let name = u128::from_str_radix(store.uid(), 16);
        let name = name.map_err(|_| StoreError::Damaged("its uid is no number"))?;
        let whose = (StoreName(name), Fence(store.fence()));
        let publisher = Arc::new(Publisher::new(whose, Generation(0), [], []));
        let progress = Arc::new(Progress::new(Arc::clone(&publisher)));
        let cursor = Cursor::behind(Revision(0));
        Ok(Self { catalog, networks: Networks::new(seed), cursor, publisher, progress, metrics })
    }

    /// How far hosts are with it.
    pub fn progress(&self) -> &Arc<Progress> {
        &self.progress
    }

    /// What agents are told.
    pub fn publisher(&self) -> &Arc<Publisher> {
        &self.publisher
    }

    /// Publishes all that is there.
    ///
    /// # Errors
    ///
    /// [`OpenError`]: the store cannot be read.
    pub fn begin(&mut self) -> Result<(), OpenError> {
        self.tell_all()?;
        self.metrics.began(self.networks.tuple_bytes());
        let found = self.catalog.found().into_iter();
        let found = found.map(|(port, node)| (called(&port), node.as_str().into()));
        let is_there = |node: &replica::Name| {
            let name = node.parse().ok();
            let node = name.map(|name| Identity { kind: Kind::TransportNode, tenant: None, name });
            node.is_some_and(|it| self.catalog.object(&it).is_some())
        };
        self.publisher.restore(found, is_there);
        Ok(())
    }

    /// Publishes each revision that there will be, and keeps where ports are found. Returns when
    /// the store cannot be read.
    pub async fn go_on(mut self) -> OpenError {
        let mut revisions = self.catalog.store().subscribe();
        let mut rested = tokio::time::Instant::now();
        loop {
            let (known, publisher) = (self.publisher.revision().0, Arc::clone(&self.publisher));
            let found = async {
                sleep_until(rested).await;
                publisher.found().await
            };
            let found = tokio::select! {
                // Who commits has the catalog, as we have.
                _ = revisions.wait_for(|it| it.0 > known) => None,
                found = found => Some(found),
            };
            let advanced = tokio::task::spawn_blocking(move || {
                let advanced = match found {
                    Some(found) => Ok(Some(self.keep(found))),
                    None => self.advance().map(|()| None),
                };
                (self, advanced)
            });
            let advanced = match advanced.await {
                Ok((this, advanced)) => {
                    self = this;
                    advanced
                }
                Err(died) => std::panic::resume_unwind(died.into_panic()),
            };
            match advanced {
                Ok(Some(rest)) => rested = tokio::time::Instant::now() + rest,
                Ok(None) => {}
                Err(error) => return error,
            }
        }
    }

    /// Keeps where agents have ports that nobody has bound: that is a revision. Says how long what
    /// comes next is collected.
    fn keep(&self, found: BTreeMap<replica::Name, Option<replica::Name>>) -> Duration {
        let port = |name: &replica::Name| format!("{}/{name}", Kind::LogicalPort).parse().ok();
        let node = |name: &replica::Name| name.parse().ok();
        let kept =
            found.iter().filter_map(|(it, at)| Some((port(it)?, at.as_ref().and_then(node))));
        match self.catalog.find(kept.collect()) {
            Ok(()) => {
                let rest = COLLECTED + A_PORT * found.len() as u32;
                self.publisher.keep(found);
                rest
            }
            Err(error) => {
                tracing::error!(%error, "hosts are not told where ports without a Binding are");
                FAILED
            }
        }
    }

    /// Publishes what is new.
    fn advance(&mut self) -> Result<(), OpenError> {
        let (mut edits, mut found, mut labels) = (Vec::new(), Vec::new(), Vec::new());
        loop {
            let read = self.catalog.store().changes(self.cursor, place::TOLD, STEP);
            let changes = match read {
                // So many revisions at once that some are forgotten by now.
                Err(StoreError::Compacted { .. }) => return self.tell_all(),
                read => read?,
            };
            self.cursor = changes.next;
            for change in changes.changes {
                let value = change.entry.as_ref().map(|it| &it.value[..]);
                if let Some(place) = read_found(&change.key, value)? {
                    found.push(place);
                } else if let Some(label) = read_label(&change.key, value)? {
                    labels.push(label);
                } else {
                    edits.push(self.catalog.edited(&change)?);
                }
            }
            if let Some(revision) = changes.complete {
                self.commit(revision, edits, found, labels);
                return Ok(());
            }
        }
    }

    /// Publishes what differs from what was published.
    fn tell_all(&mut self) -> Result<(), OpenError> {
        let (revision, objects) = self.catalog.objects();
        let edits = self.networks.edits_to(objects);
        let found = self.networks.found_to(self.catalog.found());
        let labels = self.networks.labels_to(self.catalog.labels(revision)?);
        self.commit(revision, edits, found, labels);
        Ok(())
    }

    fn commit(
        &mut self,
        revision: Revision,
        edits: Vec<Edited>,
        found: Vec<Found>,
        labels: Vec<Labelled>,
    ) {
        self.cursor = Cursor::behind(revision);
        self.catalog.was_told(revision);
        if revision.0 <= self.publisher.revision().0 {
            return;
        }
        let (begun, many) = (Instant::now(), edits.len() + found.len());
        found.into_iter().for_each(|(port, node)| self.networks.find(port, node));
        labels.into_iter().for_each(|(of, label)| self.networks.label(of, label));
        let Computed { change, concerns, counted } = self.networks.commit(revision, edits);
        let domains = change.domains.len();
        // Whoever sees the revision published is to see what it has to do with.
        let changed = change.domains.keys().cloned().collect();
        self.progress.advance(revision, concerns, changed, counted);
        self.publisher.publish(Generation(revision.0), change);
        let took = begun.elapsed();
        self.metrics.computed(self.networks.size(), took);
        tracing::debug!(%revision, edits = many, domains, ?took, "computed");
    }
}

/// A port's name, as agents have it.
fn called(port: &Identity) -> replica::Name {
    let tenant = port.tenant.as_ref().map_or("", |it| it.as_str());
    format!("{tenant}/{}", port.name).into()
}
