//! Tables whose copies are one until one of them is changed.

use alloc::collections::BTreeMap;
use alloc::collections::btree_map;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::cmp::Ordering;
use core::ops::{Deref, DerefMut};

/// Rows by their keys. To copy it costs nothing; the first change of a copy copies its rows.
#[derive(Clone, Debug)]
pub struct Table<K, R>(Arc<BTreeMap<K, R>>);

impl<K, R> Table<K, R> {
    /// Whether neither of two copies was changed: then they are equal. Others may be, too.
    pub fn is_same(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl<K: Clone + Ord, R: Clone> Table<K, R> {
    /// Keeps rows of which something holds. If it holds of all, nothing is copied.
    pub fn retain(&mut self, holds: impl Fn(&K, &R) -> bool) {
        if !self.iter().all(|(key, row)| holds(key, row)) {
            let kept = self.iter().filter(|(key, row)| holds(key, row));
            *self = kept.map(|(key, row)| (key.clone(), row.clone())).collect();
        }
    }
}

impl<K: Ord, R: PartialEq> Table<K, R> {
    /// What makes another table of this one: keys that are gone, then rows that are new or other.
    pub fn changes<'a>(&'a self, next: &'a Self) -> Vec<(&'a K, Option<&'a R>)> {
        let mut all = Vec::new();
        if self.is_same(next) {
            return all;
        }
        let (mut now, mut next) = (self.iter().peekable(), next.iter().peekable());
        loop {
            let order = match (now.peek(), next.peek()) {
                (Some((old, _)), Some((new, _))) => old.cmp(new),
                (Some(_), None) => Ordering::Less,
                (None, _) => Ordering::Greater,
            };
            let old = if order.is_le() { now.next() } else { None };
            let new = if order.is_ge() { next.next() } else { None };
            match (old, new) {
                (Some((_, old)), Some((_, new))) if old == new => {}
                (_, Some((key, row))) => all.push((key, Some(row))),
                (Some((key, _)), None) => all.push((key, None)),
                (None, None) => break,
            }
        }
        all.sort_by_key(|(_, row)| row.is_some());
        all
    }
}

impl<K, R> Default for Table<K, R> {
    fn default() -> Self {
        Self(Arc::default())
    }
}

impl<K: PartialEq, R: PartialEq> PartialEq for Table<K, R> {
    fn eq(&self, other: &Self) -> bool {
        self.is_same(other) || self.0 == other.0
    }
}

impl<K, R> Deref for Table<K, R> {
    type Target = BTreeMap<K, R>;

    fn deref(&self) -> &Self::Target {
        &self.0
    }
}

impl<K: Clone, R: Clone> DerefMut for Table<K, R> {
    fn deref_mut(&mut self) -> &mut Self::Target {
        Arc::make_mut(&mut self.0)
    }
}

impl<K: Ord, R> FromIterator<(K, R)> for Table<K, R> {
    fn from_iter<I: IntoIterator<Item = (K, R)>>(rows: I) -> Self {
        Self(Arc::new(rows.into_iter().collect()))
    }
}

impl<'a, K, R> IntoIterator for &'a Table<K, R> {
    type Item = (&'a K, &'a R);
    type IntoIter = btree_map::Iter<'a, K, R>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table(rows: &[(u8, u8)]) -> Table<u8, u8> {
        rows.iter().copied().collect()
    }

    #[test]
    fn a_copy_is_the_same_until_it_is_changed() {
        let table = table(&[(1, 1), (2, 2)]);
        let mut copy = table.clone();
        copy.retain(|_, row| *row > 0);
        assert!(copy.is_same(&table), "nothing has gone");
        copy.retain(|_, row| *row > 1);
        assert_eq!((copy.len(), table.len()), (1, 2));
        copy.insert(1, 1);
        assert!(copy == table && !copy.is_same(&table));
    }

    /// All pairs of tables of three rows, each of which is not there, or one of two.
    #[test]
    fn changes_make_one_table_of_another() {
        let all = || (0..27u8).map(|of| [of % 3, of / 3 % 3, of / 9]);
        let table = |rows: [u8; 3]| -> Table<u8, u8> {
            (0..).zip(rows).filter(|(_, row)| *row > 0).collect()
        };
        for (now, next) in all().flat_map(|now| all().map(move |next| (now, next))) {
            let differ = now.iter().zip(&next).filter(|(now, next)| now != next).count();
            let (mut now, next) = (table(now), table(next));
            let before = now.clone();
            let changes = before.changes(&next);
            assert!(changes.is_sorted_by_key(|(_, row)| row.is_some()));
            assert_eq!(changes.len(), differ);
            for (key, row) in changes {
                match row {
                    Some(row) => now.insert(*key, *row),
                    None => now.remove(key),
                };
            }
            assert_eq!(now, next);
        }
    }
}
