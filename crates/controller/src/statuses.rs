//! What is so of objects that somebody watches: what of it was told, and what is to be told next.
//!
//! ```text
//! hosts may be further ─▶ a page of objects ─conditions─▶ other than was told ─▶ event
//!           ▲              ▲            │
//!           │              └─ a rest ───┤
//!           └─ 0.2 s, after the last ───┘
//! ```
//!
//! It is not known which objects hosts are further with, so all are looked at, a page at a time.
//! The longer a page takes, the longer is the rest behind it. A watcher remembers two hashes of
//! each object. A change of conditions is missed if their hashes are the same: once in 2⁶⁴ changes.

use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;
use std::time::Duration;

use logical::objects::Status;
use store::{Key, Revision, Store, StoreError};
use tokio::sync::watch;
use tokio::time::{Instant, sleep_until};

use crate::access::Principal;
use crate::conditions::Subject;
use crate::progress::Progress;
use crate::shares::{Share, Shares};
use crate::watched::Watched;

/// The least time from the last page to the first of the next round: an object is told of at most
/// 5 times a second.
const PACE: Duration = Duration::from_millis(200);

/// How many objects are looked at at once.
const STEP: usize = 256;

/// A watcher that has looked rests this many times as long, times the number of watchers: all of
/// them together look less than a quarter of the time.
const REST: u32 = 4;

/// What a watcher was told of objects.
#[derive(Debug)]
pub struct Statuses {
    progress: Arc<Progress>,
    names_hosts: bool,
    watchers: Arc<Shares>,
    _share: Share,
    moved: watch::Receiver<()>,
    /// By the hash of its key, that of what was told of an object.
    told: HashMap<u64, u64>,
    hash: RandomState,
    /// Whether a round is underway.
    is_looking: bool,
    /// The last object of the page before, in a round.
    after: Option<Key>,
    /// When the next page is due.
    due: Instant,
}

/// What is so of an object now.
#[derive(Clone, Debug)]
pub struct Now {
    /// Where it is.
    pub key: Key,
    /// The revision that wrote it last.
    pub revision: Revision,
    /// What is so of it.
    pub status: Status,
}

impl Statuses {
    /// Nothing was told yet. `None`: too many are told of conditions already.
    pub fn begin(progress: Arc<Progress>, who: &Principal, watchers: Arc<Shares>) -> Option<Self> {
        let share = watchers.take(who.share())?;
        Some(Self {
            names_hosts: who.knows_hosts(),
            watchers,
            _share: share,
            moved: progress.subscribe(),
            progress,
            told: HashMap::new(),
            hash: RandomState::new(),
            is_looking: true,
            after: None,
            due: Instant::now(),
        })
    }

    /// Waits until a page is due: of the round that is underway, or of the next one once hosts may
    /// be further. Nothing is lost if nobody waits to the end.
    pub async fn due(&mut self) {
        sleep_until(self.due).await;
        if !self.is_looking {
            let _ = self.moved.changed().await;
            self.is_looking = true;
        }
    }

    /// Forgets what was told of an object: it was put, and is told of again, or it is gone.
    pub fn forget(&mut self, key: &Key) {
        self.told.remove(&self.hash.hash_one(key));
    }

    /// What is so of objects of the next page, as they were at a revision, of those of which
    /// something else was told. Nothing if no page is due.
    ///
    /// # Errors
    ///
    /// [`StoreError`]
    pub fn look(
        &mut self,
        store: &Store,
        watched: &Watched,
        at: Revision,
    ) -> Result<Vec<Now>, StoreError> {
        let begun = Instant::now();
        if !self.is_looking || begun < self.due {
            return Ok(Vec::new());
        }
        let page = match store.list(&watched.prefix, self.after.as_ref(), STEP, Some(at)) {
            // The revision was forgotten just now: there is a newer one.
            Err(StoreError::Compacted { .. }) => return Ok(Vec::new()),
            page => page?,
        };
        let mut conditions = self.progress.conditions(self.names_hosts);
        let mut others = Vec::new();
        for entry in &page.entries {
            if !watched.selection.selects(entry) {
                continue;
            }
            let subject = Subject::of(entry);
            let subject = subject.map_err(|_| StoreError::Damaged("what is kept is no object"))?;
            let status = conditions.of(&subject);
            let hash = self.hash.hash_one(&status);
            if self.told.insert(self.hash.hash_one(&entry.key), hash) != Some(hash) {
                others.push(Now { key: entry.key.clone(), revision: entry.modified, status });
            }
        }
        self.after = page.entries.last().filter(|_| page.has_more).map(|it| it.key.clone());
        self.is_looking = page.has_more;
        let pace = if self.is_looking { Duration::ZERO } else { PACE };
        let watchers = u32::try_from(self.watchers.taken()).unwrap_or(u32::MAX);
        let rest = begun.elapsed().saturating_mul(REST.saturating_mul(watchers));
        self.due = Instant::now() + pace.max(rest);
        Ok(others)
    }
}

#[cfg(test)]
mod tests {
    use model::Generation;
    use replica::Fence;
    use southbound::{Change, Publisher};
    use store::{Embedded, Transaction};

    use super::*;
    use crate::access::Role;
    use crate::place;
    use crate::selection::Selection;

    fn key(of: usize) -> Key {
        place::key(&format!("LogicalSwitch/t/s{of:03}").parse().unwrap())
    }

    #[test]
    fn an_object_is_told_of_again_once_a_condition_has_changed_or_it_was_put() {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::open(Box::new(Embedded::open(folder.path()).unwrap())).unwrap();
        let mut all = Transaction::new();
        for it in 0..STEP + 2 {
            all.put(key(it), r#"{"metadata":{"name":"s","tenant":"t"},"spec":{}}"#.into());
        }
        let at = store.commit(all).unwrap();
        let publisher = Publisher::new((replica::Store(1), Fence(1)), Generation(0), [], []);
        let progress = Arc::new(Progress::new(Arc::new(publisher)));
        let me = Principal::new("me", Role::Admin);
        let shares = Arc::new(Shares::new(1, 1));
        let mut statuses =
            Statuses::begin(Arc::clone(&progress), &me, Arc::clone(&shares)).unwrap();
        assert!(Statuses::begin(Arc::clone(&progress), &me, shares).is_none(), "no place is left");
        let watched =
            Watched { prefix: "o/logical-switches/t/".into(), selection: Selection::default() };
        // How many are told of, if it is due then.
        let look_at = |statuses: &mut Statuses, due| {
            statuses.due = due;
            statuses.look(&store, &watched, at).unwrap().len()
        };
        let look = |statuses: &mut Statuses| look_at(statuses, Instant::now());
        let begun = Instant::now();
        assert_eq!(look_at(&mut statuses, begun + Duration::from_secs(3600)), 0);
        assert_eq!((look(&mut statuses), statuses.is_looking), (STEP, true));
        assert_eq!((look(&mut statuses), statuses.is_looking), (2, false));
        assert!(statuses.due >= begun + PACE, "an object is not looked at again before");

        // Nothing is other than it was told, but one that was put.
        statuses.is_looking = true;
        statuses.forget(&key(1));
        assert_eq!((look(&mut statuses), look(&mut statuses)), (1, 0));

        // All are computed now, and then nothing changes by others' revisions.
        for (revision, told) in [(1, (STEP, 2)), (2, (0, 0))] {
            assert!(!statuses.moved.has_changed().unwrap());
            progress.publisher().publish(Generation(revision), Change::default());
            assert!(statuses.moved.has_changed().unwrap());
            statuses.moved.mark_unchanged();
            statuses.is_looking = true;
            assert_eq!((look(&mut statuses), look(&mut statuses)), told);
        }
    }
}
