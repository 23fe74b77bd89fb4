//! A table's tuples, in each of its orders.

use alloc::vec::Vec;

use crate::program::MAX_COLUMNS;
use crate::sort::sort;
use crate::tree::Tree;

/// The tuples that are present. Rows are in the primary order; only there they have a payload,
/// which is what supports them: how many derivations.
#[derive(Clone)]
pub(crate) struct Store {
    primary: Tree,
    others: Vec<Other>,
}

/// An order beside the primary one.
#[derive(Clone)]
struct Other {
    tree: Tree,
    /// Where in a primary row each of its columns is.
    places: Vec<u8>,
}

impl Other {
    fn row<'a>(&self, primary: &[u32], row: &'a mut [u32; MAX_COLUMNS]) -> &'a [u32] {
        for (to, from) in row.iter_mut().zip(&self.places) {
            *to = primary[usize::from(*from)];
        }
        &row[..self.places.len()]
    }
}

impl Store {
    /// No tuples, in these orders.
    pub fn new(orders: &[Vec<u8>], payload: usize) -> Self {
        let primary = &orders[0];
        let others = orders[1..].iter().map(|order| {
            let place =
                |column| primary.iter().position(|it| it == column).unwrap_or_default() as u8;
            let places = order.iter().map(place).collect();
            Other { tree: Tree::new(order.len(), 0), places }
        });
        Self { primary: Tree::new(primary.len(), payload), others: others.collect() }
    }

    pub fn len(&self) -> usize {
        self.primary.len()
    }

    pub fn bytes(&self) -> usize {
        self.primary.bytes() + self.others.iter().map(|it| it.tree.bytes()).sum::<usize>()
    }

    /// The tree of an order, of which the primary is the first.
    pub fn tree(&self, order: usize) -> &Tree {
        match order.checked_sub(1) {
            None => &self.primary,
            Some(other) => &self.others[other].tree,
        }
    }

    /// Whether a row of an order is this row of the primary one.
    pub fn is_same(&self, order: usize, row: &[u32], primary: &[u32]) -> bool {
        match order.checked_sub(1) {
            None => row.starts_with(primary),
            Some(other) => {
                let mut permuted = [0; MAX_COLUMNS];
                row == self.others[other].row(primary, &mut permuted)
            }
        }
    }

    /// The primary rows that have this word at this place. An order that begins with it finds them.
    pub fn part(&self, place: usize, word: u32) -> Vec<Vec<u32>> {
        let width = self.primary.width();
        if let Some(other) = self.others.iter().find(|it| usize::from(it.places[0]) == place) {
            let primary = |row: &[u32]| {
                let mut primary = alloc::vec![0; width];
                for (word, place) in row.iter().zip(&other.places) {
                    primary[usize::from(*place)] = *word;
                }
                primary
            };
            return other.tree.range(&[word]).map(primary).collect();
        }
        let prefix = if place == 0 { &[word][..] } else { &[] };
        let rows = self.primary.range(prefix).filter(|row| row[place] == word);
        rows.map(|row| row[..width].to_vec()).collect()
    }

    /// A tuple's payload, if it is present.
    pub fn get(&self, key: &[u32]) -> Option<&[u32]> {
        self.primary.get(key)
    }

    pub fn set(&mut self, key: &[u32], payload: &[u32]) {
        self.primary.set(key, payload);
    }

    pub fn insert(&mut self, key: &[u32], payload: &[u32]) {
        let mut row = [0; MAX_COLUMNS + 2];
        row[..key.len()].copy_from_slice(key);
        row[key.len()..key.len() + payload.len()].copy_from_slice(payload);
        self.primary.insert(&row[..key.len() + payload.len()]);
        for other in &mut self.others {
            let mut row = [0; MAX_COLUMNS];
            let row = other.row(key, &mut row);
            other.tree.insert(row);
        }
    }

    pub fn remove(&mut self, key: &[u32]) {
        self.primary.remove(key);
        for other in &mut self.others {
            let mut row = [0; MAX_COLUMNS];
            let row = other.row(key, &mut row);
            other.tree.remove(row);
        }
    }

    /// Makes the store hold just these rows of so many words, which are in order and differ.
    pub fn load(&mut self, rows: &[u32], stride: usize, spare: &mut Vec<u32>) {
        self.primary.load(rows);
        for other in &mut self.others {
            let width = other.places.len();
            let mut permuted = Vec::with_capacity(rows.len() / stride * width);
            for row in rows.chunks_exact(stride) {
                permuted.extend(other.places.iter().map(|place| row[usize::from(*place)]));
            }
            sort(&mut permuted, width, width, spare);
            other.tree.load(&permuted);
        }
    }
}
