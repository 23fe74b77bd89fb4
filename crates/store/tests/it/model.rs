//! What a store should hold, by maps alone, and whether it does.

use std::collections::BTreeMap;

use store::{Change, Cursor, Entry, Key, Revision, Store, StoreError, Transaction};

/// What was there at one revision.
pub type State = BTreeMap<Key, Entry>;

/// Every state there was, and what led to it.
#[derive(Clone, Debug)]
pub struct Model {
    /// The state of each revision from 0 on.
    pub states: Vec<State>,
    changes: Vec<Change>,
    pub oldest: Revision,
}

/// What one transaction writes.
pub type Writes = BTreeMap<Key, Option<Vec<u8>>>;

pub fn key(text: &str) -> Key {
    Key::new(text).unwrap()
}

pub fn transaction(writes: &Writes) -> Transaction {
    let mut transaction = Transaction::new();
    for (key, value) in writes {
        match value {
            Some(value) => transaction.put(key.clone(), value.clone()),
            None => transaction.delete(key.clone()),
        }
    }
    transaction
}

impl Model {
    pub fn new() -> Self {
        Self { states: vec![State::new()], changes: Vec::new(), oldest: Revision(0) }
    }

    pub fn newest(&self) -> Revision {
        Revision(self.states.len() as u64 - 1)
    }

    pub fn now(&self) -> &State {
        self.states.last().unwrap()
    }

    /// What a commit of these writes leads to.
    pub fn commit(&mut self, writes: &Writes) -> Revision {
        let next = Revision(self.states.len() as u64);
        let mut state = self.now().clone();
        let mut changes = Vec::new();
        for (key, value) in writes {
            let before = state.remove(key);
            let entry = value.clone().map(|value| {
                let created = before.as_ref().map_or(next, |it| it.created);
                Entry { key: key.clone(), value, created, modified: next }
            });
            if before.is_none() && entry.is_none() {
                continue;
            }
            state.extend(entry.clone().map(|entry| (key.clone(), entry)));
            changes.push(Change { revision: next, key: key.clone(), entry });
        }
        if !changes.is_empty() {
            self.states.push(state);
            self.changes.extend(changes);
        }
        self.newest()
    }

    /// The store holds what this says: at each revision, each key and each list, and all changes.
    pub fn hold(&self, store: &Store) {
        assert_eq!(store.revision(), self.newest());
        assert_eq!(store.oldest().unwrap(), self.oldest);
        for (at, state) in (0..).map(Revision).zip(&self.states) {
            if at < self.oldest {
                let refused = store.list("", None, 1, Some(at));
                assert!(matches!(refused, Err(StoreError::Compacted { .. })), "{refused:?}");
                let refused = store.changes(Cursor::behind(at), "", 1);
                assert!(matches!(refused, Err(StoreError::Compacted { .. })), "{refused:?}");
                continue;
            }
            for prefix in ["", "a", "b/", "c"] {
                let of_prefix = |key: &&Key| key.as_str().starts_with(prefix);
                let wanted: Vec<_> = state
                    .iter()
                    .filter(|(key, _)| of_prefix(key))
                    .map(|(_, it)| it.clone())
                    .collect();
                for limit in [1, 2, usize::MAX] {
                    assert_eq!(listed(store, prefix, limit, at), wanted, "{prefix} at {at}");
                    let changes = self.changes.iter().filter(|it| it.revision > at);
                    let changes: Vec<_> =
                        changes.filter(|it| of_prefix(&&it.key)).cloned().collect();
                    assert_eq!(changed(store, prefix, limit, at), changes, "{prefix} after {at}");
                }
            }
            for key in self.states.iter().flat_map(BTreeMap::keys) {
                assert_eq!(
                    store.get(key, Some(at)).unwrap().as_ref(),
                    state.get(key),
                    "{key} at {at}"
                );
            }
        }
        let refused = store.list("", None, 1, Some(Revision(self.states.len() as u64)));
        assert!(matches!(refused, Err(StoreError::Future { .. })), "{refused:?}");
    }
}

/// A list, page by page.
fn listed(store: &Store, prefix: &str, limit: usize, at: Revision) -> Vec<Entry> {
    let mut all: Vec<Entry> = Vec::new();
    loop {
        let after = all.last().map(|it| it.key.clone());
        let page = store.list(prefix, after.as_ref(), limit, Some(at)).unwrap();
        assert_eq!(page.revision, at);
        assert!(page.entries.len() <= limit);
        all.extend(page.entries);
        if !page.has_more {
            return all;
        }
    }
}

/// Changes, some at a time.
fn changed(store: &Store, prefix: &str, limit: usize, after: Revision) -> Vec<Change> {
    let mut all: Vec<Change> = Vec::new();
    let mut cursor = Cursor::behind(after);
    loop {
        let some = store.changes(cursor, prefix, limit).unwrap();
        assert!(some.changes.len() <= limit);
        all.extend(some.changes);
        cursor = some.next;
        if let Some(revision) = some.complete {
            assert_eq!((revision, cursor), (store.revision(), Cursor::behind(revision)));
            return all;
        }
    }
}
