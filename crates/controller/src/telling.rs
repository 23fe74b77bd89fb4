//! Has agents follow the store: what each of its revisions changes is computed and published.
//!
//! ```text
//! store ─changes behind a cursor─▶ Networks ─▶ Publisher ═▶ agents
//! ```
//!
//! Revisions that come while one is computed are computed together after it: agents have the newest
//! number, and each of them is one that the store has. After a restart all is computed anew of what
//! is in the store, to the same rows: agents that have them are told their number and nothing else.

use std::sync::Arc;
use std::time::Instant;

use model::Generation;
use replica::{Fence, Store as StoreName};
use southbound::Publisher;
use store::{Cursor, Revision, StoreError};

use crate::catalog::{Catalog, OpenError};
use crate::metrics::Metrics;
use crate::networks::{Computed, Edited, Networks};
use crate::place;
use crate::progress::Progress;

/// How many changes are read at once.
const STEP: usize = 10_000;

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
    pub fn begin(&mut self) {
        let (revision, objects) = self.catalog.objects();
        let edits = self.networks.edits_to(objects);
        self.commit(revision, edits);
        self.metrics.began(self.networks.tuple_bytes());
    }

    /// Publishes each revision that there will be. Returns when the store cannot be read.
    pub async fn go_on(mut self) -> OpenError {
        let mut revisions = self.catalog.store().subscribe();
        loop {
            let known = self.publisher.revision().0;
            // Who commits has the catalog, as we have.
            let _ = revisions.wait_for(|it| it.0 > known).await;
            let advanced = tokio::task::spawn_blocking(move || {
                let advanced = self.advance();
                (self, advanced)
            });
            let advanced = match advanced.await {
                Ok((this, advanced)) => {
                    self = this;
                    advanced
                }
                Err(died) => std::panic::resume_unwind(died.into_panic()),
            };
            if let Err(error) = advanced {
                return error;
            }
        }
    }

    /// Publishes what is new.
    fn advance(&mut self) -> Result<(), OpenError> {
        let mut edits = Vec::new();
        loop {
            let read = self.catalog.store().changes(self.cursor, place::ALL, STEP);
            let changes = match read {
                // So many revisions at once that some are forgotten by now.
                Err(StoreError::Compacted { .. }) => {
                    self.begin();
                    return Ok(());
                }
                read => read?,
            };
            self.cursor = changes.next;
            for change in changes.changes {
                edits.push(self.catalog.edited(&change)?);
            }
            if let Some(revision) = changes.complete {
                self.commit(revision, edits);
                return Ok(());
            }
        }
    }

    fn commit(&mut self, revision: Revision, edits: Vec<Edited>) {
        self.cursor = Cursor::behind(revision);
        self.catalog.was_told(revision);
        if revision.0 <= self.publisher.revision().0 {
            return;
        }
        let (begun, many) = (Instant::now(), edits.len());
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
