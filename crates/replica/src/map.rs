//! A domain's rows by their keys.

use alloc::collections::BTreeMap;
use alloc::sync::Arc;

use crate::delta::Delta;
use crate::digest::Digest;

/// Rows by their keys, and the digest of them all.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Map {
    rows: BTreeMap<Arc<[u8]>, Arc<[u8]>>,
    digest: Digest,
}

impl Map {
    /// How many rows there are.
    pub fn len(&self) -> usize {
        self.rows.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// The digest of all rows.
    pub fn digest(&self) -> Digest {
        self.digest
    }

    /// The row with a key.
    pub fn get(&self, key: &[u8]) -> Option<&Arc<[u8]>> {
        self.rows.get(key)
    }

    /// All rows with their keys, in the keys' order.
    pub fn rows(&self) -> impl Iterator<Item = (&Arc<[u8]>, &Arc<[u8]>)> {
        self.rows.iter()
    }

    /// What makes another map of this one.
    pub fn diff(&self, next: &Self) -> Delta {
        let gone = self.rows.keys().filter(|key| !next.rows.contains_key(*key));
        let other = next.rows.iter().filter(|(key, row)| self.rows.get(*key) != Some(*row));
        let gone = gone.map(|key| (key.clone(), None));
        gone.chain(other.map(|(key, row)| (key.clone(), Some(row.clone())))).collect()
    }

    /// Changes without those that change nothing.
    pub fn reduced(&self, delta: Delta) -> Delta {
        delta.into_iter().filter(|(key, row)| self.rows.get(key) != row.as_ref()).collect()
    }

    /// The digest of all rows once these changes are made.
    pub fn digest_after(&self, delta: &Delta) -> Digest {
        delta.iter().fold(self.digest, |digest, (key, row)| {
            let digest = match self.rows.get(key) {
                Some(before) => digest.without(key, before),
                None => digest,
            };
            row.as_ref().map_or(digest, |row| digest.with(key, row))
        })
    }

    /// Makes changes.
    pub fn apply(&mut self, delta: Delta) {
        self.digest = self.digest_after(&delta);
        for (key, row) in delta {
            match row {
                Some(row) => self.rows.insert(key, row),
                None => self.rows.remove(&key),
            };
        }
    }
}

impl FromIterator<(Arc<[u8]>, Arc<[u8]>)> for Map {
    fn from_iter<I: IntoIterator<Item = (Arc<[u8]>, Arc<[u8]>)>>(rows: I) -> Self {
        let mut map = Self::default();
        map.apply(rows.into_iter().map(|(key, row)| (key, Some(row))).collect());
        map
    }
}

#[cfg(test)]
mod tests {
    use proptest::collection::btree_map;
    use proptest::prelude::*;

    use super::*;

    fn map(rows: BTreeMap<u8, u8>) -> Map {
        rows.into_iter().map(|(key, row)| (Arc::from([key]), Arc::from([row]))).collect()
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn a_difference_leads_there_and_back(
            now in btree_map(0u8..20, 0u8..3, 0..20),
            next in btree_map(0u8..20, 0u8..3, 0..20),
        ) {
            let (now, next) = (map(now), map(next));
            let mut copy = now.clone();
            prop_assert_eq!(copy.digest_after(&now.diff(&next)), next.digest());
            copy.apply(now.diff(&next));
            prop_assert_eq!(&copy, &next);
            copy.apply(next.diff(&now));
            prop_assert_eq!(copy, now);
        }

        #[test]
        fn two_steps_are_one(
            now in btree_map(0u8..9, 0u8..3, 0..9),
            next in btree_map(0u8..9, 0u8..3, 0..9),
            last in btree_map(0u8..9, 0u8..3, 0..9),
        ) {
            let (now, next, last) = (map(now), map(next), map(last));
            let mut both = now.diff(&next);
            both.then(&next.diff(&last));
            prop_assert_eq!(&now.reduced(both.clone()), &now.diff(&last));
            let mut copy = now;
            copy.apply(both);
            prop_assert_eq!(copy, last);
        }
    }
}
