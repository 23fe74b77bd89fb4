//! The exact-match cache: what was decided of precisely this key.

use core::num::NonZeroU64;

use crate::cells::{Cells, Depends};
use crate::table::{HashKey, Table, same};

/// Values by whole keys, in bounded memory.
#[derive(Clone, Debug)]
pub struct Exact<const N: usize, V> {
    table: Table<Entry<N, V>>,
    hash_key: HashKey,
    /// How many keys there have been.
    inserted: NonZeroU64,
}

/// Where a decision was found. It is never another's.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Found {
    place: u32,
    number: NonZeroU64,
}

/// What is looked at each time comes first: a key of four words, and the first sixteen bytes of a
/// value that begins with what is needed most, are in one cache line with all between them.
#[derive(Clone, Debug)]
#[repr(C, align(64))]
struct Entry<const N: usize, V> {
    key: [u64; N],
    /// Of how many changes it is known that the decision is still true.
    fresh: u64,
    /// Never used again for another.
    number: NonZeroU64,
    value: V,
    depends: Depends,
}

/// Of what was never renewed: there are never so many changes.
const STALE: u64 = u64::MAX;

impl<const N: usize, V> Exact<N, V> {
    /// With room for `most` keys or a few more. `hash_key` must be secret where strangers choose
    /// the keys.
    pub fn new(most: usize, hash_key: HashKey) -> Self {
        Self { table: Table::new(most), hash_key, inserted: NonZeroU64::MIN }
    }

    /// For how many keys there is room: for fewer than was asked for if there was no memory when
    /// the first one came.
    pub const fn most(&self) -> usize {
        self.table.most()
    }

    /// What was decided of a key, if that is still true.
    #[inline]
    pub fn find(&self, cells: &Cells, key: &[u64; N]) -> Option<&V> {
        let hash = self.hash_key.hash(key);
        let (_, entry) = self.table.find(hash, |it| same(&it.key, key))?;
        cells.hold(&entry.depends).then_some(&entry.value)
    }

    /// Where something is that was decided of a key, and whether it is [fresh](Self::fresh): if
    /// not, it may not be true.
    #[inline(always)]
    pub fn seek(&self, cells: &Cells, key: &[u64; N]) -> Option<(Found, bool)> {
        let hash = self.hash_key.hash(key);
        let (place, entry) = self.table.find(hash, |it| same(&it.key, key))?;
        Some((Found { place, number: entry.number }, entry.fresh == cells.now()))
    }

    /// What was decided of a key that was found, if it is still there and was
    /// [renewed](Self::renew) since anything has changed.
    #[inline(always)]
    pub fn fresh(&self, cells: &Cells, found: Found) -> Option<&V> {
        let entry = self.table.at(found.place)?;
        (entry.number == found.number && entry.fresh == cells.now()).then_some(&entry.value)
    }

    /// A decision that is still true is [fresh](Self::fresh) until anything changes. It is to be
    /// worked out anew what beside the decision may have changed.
    pub fn renew(&mut self, cells: &Cells, found: Found) -> Option<&mut V> {
        let entry = self.table.at_mut(found.place)?;
        let is_true = entry.number == found.number && cells.hold(&entry.depends);
        is_true.then(|| {
            entry.fresh = cells.now();
            &mut entry.value
        })
    }

    /// What was decided of a key that was found, to have what is beside that changed.
    #[inline]
    pub fn at_mut(&mut self, found: Found) -> Option<&mut V> {
        let entry = self.table.at_mut(found.place)?;
        (entry.number == found.number).then_some(&mut entry.value)
    }

    /// Keeps what was decided of a key. Others may have to make room.
    pub fn insert(&mut self, cells: &Cells, key: [u64; N], value: V, depends: Depends) {
        self.inserted = self.inserted.saturating_add(1);
        let entry = Entry { key, fresh: STALE, number: self.inserted, value, depends };
        let is_dead = |it: &Entry<N, V>| !cells.hold(&it.depends);
        let hash = |it: &Entry<N, V>| self.hash_key.hash(&it.key);
        self.table.insert(entry, hash, |it| same(&it.key, &key), is_dead);
    }

    /// How many keys are kept, those too of which what was decided is no longer true.
    pub const fn len(&self) -> usize {
        self.table.len()
    }

    /// Whether none is kept.
    pub const fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Forgets all.
    pub fn clear(&mut self) {
        self.table.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cells::CellId;

    #[test]
    fn a_change_forgets_what_depends_on_it_and_nothing_else() {
        let mut cells = Cells::new(2);
        let mut exact = Exact::new(16, HashKey([7, 9]));
        for cell in 0..2 {
            let mut depends = Depends::now(&cells);
            depends.on(CellId(cell));
            exact.insert(&cells, [u64::from(cell), 0, 0], cell, depends);
        }
        cells.change(CellId(0));
        assert_eq!(exact.find(&cells, &[0, 0, 0]), None);
        assert_eq!(exact.find(&cells, &[1, 0, 0]), Some(&1));
        assert_eq!(exact.find(&cells, &[1, 0, 1]), None);
        exact.clear();
        assert!(exact.is_empty());
    }

    #[test]
    fn what_is_fresh_is_so_until_anything_changes() {
        let mut cells = Cells::new(2);
        let mut exact = Exact::new(16, HashKey([7, 9]));
        let mut depends = Depends::now(&cells);
        depends.on(CellId(0));
        exact.insert(&cells, [1], 'a', depends);
        let (found, is_fresh) = exact.seek(&cells, &[1]).unwrap();
        assert_eq!((is_fresh, exact.fresh(&cells, found)), (false, None));
        assert_eq!(exact.find(&cells, &[1]), Some(&'a'));
        *exact.renew(&cells, found).unwrap() = 'b';
        assert_eq!(exact.fresh(&cells, found), Some(&'b'));
        for change in [Cells::tick, |cells: &mut Cells| cells.change(CellId(1))] {
            change(&mut cells);
            assert_eq!(exact.fresh(&cells, found), None);
            assert!(exact.renew(&cells, found).is_some());
            assert_eq!(exact.seek(&cells, &[1]), Some((found, true)));
        }
        cells.change(CellId(0));
        assert_eq!(exact.fresh(&cells, found), None);
        assert_eq!(exact.renew(&cells, found), None);
        exact.insert(&cells, [1], 'c', Depends::now(&cells));
        assert_eq!(exact.renew(&cells, found), None, "it is another's");
    }

    #[test]
    fn memory_is_bounded_whatever_comes() {
        let cells = Cells::default();
        let mut exact = Exact::new(1000, HashKey([7, 9]));
        for key in 0..100_000 {
            exact.insert(&cells, [key, 0], key, Depends::NOTHING);
            assert_eq!(exact.find(&cells, &[key, 0]), Some(&key));
        }
        assert!(exact.len() <= 1024);
    }
}
