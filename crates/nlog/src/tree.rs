//! A B+ tree whose rows are a few words each.
//!
//! ```text
//!   inner   │ key child │ key child │ ...      a key is at most as great as any row of its child,
//!             ╱           ╲                    and greater than any before it
//!   leaf    row row row ⇄ row row row ⇄ ...    rows in order, each `stride` words, of which the
//!                                              first `width` are compared and the rest is payload
//! ```
//!
//! It serves searches by any prefix of a row, so that one tree is the index for all of them, and
//! rows that are found together lie together. A row costs its words and the room its leaf has left:
//! an eighth after [`Tree::load`], and about a third after random changes. Two neighbours in a leaf
//! each merge when they fill three quarters of one; other nodes go when they are empty (Johnson and
//! Shasha, "B-trees with inserts and deletes: why free-at-empty is better than merge-at-half",
//! 1993).

use alloc::vec::Vec;
use core::cmp::Ordering;

/// Rows that a leaf holds at most.
const LEAF_ROWS: usize = 64;

/// Rows that `load` gives a leaf: room is left for the first changes.
const LOADED_ROWS: usize = 56;

/// Children that an inner node has at most.
const FANOUT: usize = 64;

const NONE: u32 = u32::MAX;

/// Enough for 2^32 leaves of which all but the root have two children.
const MAX_HEIGHT: usize = 33;

#[derive(Clone)]
pub(crate) struct Tree {
    width: usize,
    stride: usize,
    leaves: Vec<Leaf>,
    inners: Vec<Inner>,
    free_leaves: Vec<u32>,
    free_inners: Vec<u32>,
    /// A leaf if `height` is 0, else an inner node.
    root: u32,
    height: usize,
    len: usize,
}

#[derive(Clone, Default)]
struct Leaf {
    rows: Vec<u32>,
    previous: u32,
    next: u32,
}

#[derive(Clone, Default)]
struct Inner {
    /// `width` words for each child. Those of the first child count as smaller than anything.
    keys: Vec<u32>,
    children: Vec<u32>,
}

/// A row's place, which holds until the tree changes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Cursor {
    leaf: u32,
    row: u32,
}

/// The inner nodes from the root to a leaf, each with the child that was taken.
struct Path {
    steps: [(u32, u32); MAX_HEIGHT],
    len: usize,
}

impl Tree {
    /// No rows yet. A row has `width` words that are compared, and `payload` words that are not.
    pub fn new(width: usize, payload: usize) -> Self {
        Self {
            width,
            stride: width + payload,
            leaves: alloc::vec![Leaf { rows: Vec::new(), previous: NONE, next: NONE }],
            inners: Vec::new(),
            free_leaves: Vec::new(),
            free_inners: Vec::new(),
            root: 0,
            height: 0,
            len: 0,
        }
    }

    /// Makes the tree hold just these rows, which are in order and differ.
    pub fn load(&mut self, rows: &[u32]) {
        *self = Self::new(self.width, self.stride - self.width);
        let per_leaf = LOADED_ROWS * self.stride;
        self.len = rows.len() / self.stride;
        let mut level: Vec<u32> = Vec::new();
        let mut keys: Vec<u32> = Vec::new();
        self.leaves.clear();
        for chunk in rows.chunks(per_leaf) {
            let leaf = self.leaves.len() as u32;
            let previous = leaf.checked_sub(1).unwrap_or(NONE);
            let next = if (leaf as usize + 1) * per_leaf < rows.len() { leaf + 1 } else { NONE };
            self.leaves.push(Leaf { rows: chunk.into(), previous, next });
            level.push(leaf);
            keys.extend(&chunk[..self.width]);
        }
        if self.leaves.is_empty() {
            *self = Self::new(self.width, self.stride - self.width);
            return;
        }
        while level.len() > 1 {
            let (mut above, mut keys_above) = (Vec::new(), Vec::new());
            let per_inner = FANOUT * 7 / 8;
            let parts = level.chunks(per_inner).zip(keys.chunks(per_inner * self.width));
            for (children, keys) in parts {
                above.push(self.inners.len() as u32);
                keys_above.extend(&keys[..self.width]);
                self.inners.push(Inner { keys: keys.into(), children: children.into() });
            }
            (level, keys) = (above, keys_above);
            self.height += 1;
        }
        self.root = level[0];
    }

    /// How many words of a row are compared.
    pub fn width(&self) -> usize {
        self.width
    }

    /// How many rows there are.
    pub fn len(&self) -> usize {
        self.len
    }

    /// The bytes of memory that rows and nodes have taken.
    pub fn bytes(&self) -> usize {
        let leaves: usize = self.leaves.iter().map(|leaf| 4 * leaf.rows.capacity()).sum();
        let inner = |it: &Inner| 4 * (it.keys.capacity() + it.children.capacity());
        let inners: usize = self.inners.iter().map(inner).sum();
        let nodes = self.leaves.capacity() * size_of::<Leaf>()
            + self.inners.capacity() * size_of::<Inner>();
        leaves + inners + nodes
    }

    /// The place of the first row whose first words are not less than these.
    pub fn seek(&self, prefix: &[u32]) -> Cursor {
        let mut node = self.root;
        for _ in 0..self.height {
            let inner = &self.inners[node as usize];
            node = inner.children[self.child(inner, prefix)];
        }
        self.seek_in(node, prefix)
    }

    /// As `seek`, but looks first where the last search of its kind ended: those that follow one
    /// another in order are often in one leaf.
    pub fn seek_near(&self, near: Cursor, prefix: &[u32]) -> Cursor {
        if let Some(leaf) = self.leaves.get(near.leaf as usize)
            && let Some(last) = leaf.rows.len().checked_sub(self.stride)
            && leaf.rows[..prefix.len()] < *prefix
            && leaf.rows[last..last + prefix.len()] >= *prefix
        {
            return self.seek_in(near.leaf, prefix);
        }
        self.seek(prefix)
    }

    /// A place near which nothing is.
    pub const NOWHERE: Cursor = Cursor { leaf: NONE, row: 0 };

    fn seek_in(&self, leaf: u32, prefix: &[u32]) -> Cursor {
        let row = self.lower_bound(leaf, prefix) as u32;
        self.settled(Cursor { leaf, row })
    }

    /// The row at a place, if one is there.
    pub fn row(&self, cursor: Cursor) -> Option<&[u32]> {
        let leaf = self.leaves.get(cursor.leaf as usize)?;
        let at = cursor.row as usize * self.stride;
        leaf.rows.get(at..at + self.stride)
    }

    /// The place after this one.
    pub fn after(&self, cursor: Cursor) -> Cursor {
        self.settled(Cursor { leaf: cursor.leaf, row: cursor.row + 1 })
    }

    /// The first row of the next leaf instead of the end of a leaf.
    fn settled(&self, cursor: Cursor) -> Cursor {
        match self.leaves.get(cursor.leaf as usize) {
            Some(leaf) if cursor.row as usize * self.stride >= leaf.rows.len() => {
                Cursor { leaf: leaf.next, row: 0 }
            }
            _ => cursor,
        }
    }

    /// The rows that begin with these words, in order.
    pub fn range<'a>(&'a self, prefix: &'a [u32]) -> impl Iterator<Item = &'a [u32]> {
        let mut cursor = self.seek(prefix);
        core::iter::from_fn(move || {
            let row = self.row(cursor).filter(|row| row.starts_with(prefix))?;
            cursor = self.after(cursor);
            Some(row)
        })
    }

    /// The payload of the row with this key.
    pub fn get(&self, key: &[u32]) -> Option<&[u32]> {
        let row = self.row(self.seek(key)).filter(|row| row.starts_with(key))?;
        Some(&row[self.width..])
    }

    /// Replaces the payload of the row with this key, which must exist.
    pub fn set(&mut self, key: &[u32], payload: &[u32]) {
        let cursor = self.seek(key);
        let at = cursor.row as usize * self.stride;
        let row = &mut self.leaves[cursor.leaf as usize].rows[at..at + self.stride];
        assert!(row.starts_with(key), "the row whose payload is set exists");
        row[self.width..].copy_from_slice(payload);
    }

    /// Adds a row, which must not exist.
    pub fn insert(&mut self, row: &[u32]) {
        debug_assert_eq!(row.len(), self.stride);
        let key = &row[..self.width];
        let (mut leaf, path) = self.descend(key);
        let mut at = self.lower_bound(leaf, key);
        let len = self.leaves[leaf as usize].rows.len() / self.stride;
        if len == LEAF_ROWS {
            // Rows that come in order leave full leaves behind them.
            let is_last = at == len && self.leaves[leaf as usize].next == NONE;
            let kept = if is_last { len } else { len / 2 };
            let right = self.split_leaf(leaf, kept, key, &path);
            if at > kept || is_last {
                (leaf, at) = (right, at - kept);
            }
        }
        let stride = self.stride;
        let rows = &mut self.leaves[leaf as usize].rows;
        let at = at * stride;
        assert!(!rows[at..].starts_with(key), "a row is inserted once");
        if rows.capacity() < rows.len() + stride {
            let grown = (rows.len() * 3 / 2).clamp(4 * stride, LEAF_ROWS * stride);
            rows.reserve_exact(grown - rows.len());
        }
        let end = rows.len();
        rows.resize(end + stride, 0);
        rows.copy_within(at..end, at + stride);
        rows[at..at + stride].copy_from_slice(row);
        self.len += 1;
    }

    /// Takes the row with this key out. It must exist.
    pub fn remove(&mut self, key: &[u32]) {
        let (leaf, path) = self.descend(key);
        let at = self.lower_bound(leaf, key) * self.stride;
        let stride = self.stride;
        let rows = &mut self.leaves[leaf as usize].rows;
        assert!(rows[at..].starts_with(key), "a row that is removed exists");
        rows.copy_within(at + stride.., at);
        rows.truncate(rows.len() - stride);
        self.len -= 1;
        if rows.is_empty() {
            self.drop_leaf(leaf, &path);
        } else if rows.len() <= LEAF_ROWS / 4 * stride {
            self.merge(leaf, &path);
        }
    }

    /// Which child of an inner node has the first row that is not less than a prefix.
    fn child(&self, inner: &Inner, prefix: &[u32]) -> usize {
        // A key that equals a whole row is its child's; rows with a part of it may lie before.
        let is_whole = prefix.len() == self.width;
        let (mut low, mut high) = (1, inner.children.len());
        while low < high {
            let middle = (low + high) / 2;
            let at = middle * self.width;
            let order = inner.keys[at..at + prefix.len()].cmp(prefix);
            if order == Ordering::Less || is_whole && order == Ordering::Equal {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        low - 1
    }

    /// The first row of a leaf that is not less than a prefix.
    fn lower_bound(&self, leaf: u32, prefix: &[u32]) -> usize {
        let Some(leaf) = self.leaves.get(leaf as usize) else { return 0 };
        let (mut low, mut high) = (0, leaf.rows.len() / self.stride);
        while low < high {
            let middle = (low + high) / 2;
            let at = middle * self.stride;
            if leaf.rows[at..at + prefix.len()] < *prefix {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        low
    }

    /// The leaf where a whole row is or would be.
    fn descend(&self, key: &[u32]) -> (u32, Path) {
        let mut path = Path { steps: [(0, 0); MAX_HEIGHT], len: self.height };
        let mut node = self.root;
        for step in &mut path.steps[..self.height] {
            let inner = &self.inners[node as usize];
            let child = self.child(inner, key);
            *step = (node, child as u32);
            node = inner.children[child];
        }
        (node, path)
    }

    /// Moves a leaf's rows from `kept` on to a new leaf after it, of which `key` is the first row
    /// if there are none.
    fn split_leaf(&mut self, leaf: u32, kept: usize, key: &[u32], path: &Path) -> u32 {
        let stride = self.stride;
        let mut rows = Vec::with_capacity(LEAF_ROWS * stride);
        let left = &mut self.leaves[leaf as usize];
        rows.extend_from_slice(&left.rows[kept * stride..]);
        left.rows.truncate(kept * stride);
        let next = left.next;
        let first: Vec<u32> = if rows.is_empty() { key } else { &rows[..self.width] }.into();
        let new = Leaf { rows, previous: leaf, next };
        let right = place(&mut self.leaves, &mut self.free_leaves, new);
        self.leaves[leaf as usize].next = right;
        if let Some(next) = self.leaves.get_mut(next as usize) {
            next.previous = right;
        }
        self.add_child(right, first, path);
        right
    }

    /// Puts a new node behind the one that the path leads to.
    fn add_child(&mut self, mut child: u32, mut key: Vec<u32>, path: &Path) {
        let width = self.width;
        for (node, at) in path.steps[..path.len].iter().rev() {
            let inner = &mut self.inners[*node as usize];
            let at = *at as usize + 1;
            inner.children.insert(at, child);
            inner.keys.splice(at * width..at * width, key);
            if inner.children.len() <= FANOUT {
                return;
            }
            let half = inner.children.len() / 2;
            let children = inner.children.split_off(half);
            let keys = inner.keys.split_off(half * width);
            key = keys[..width].into();
            let right = Inner { keys, children };
            child = place(&mut self.inners, &mut self.free_inners, right);
        }
        let keys = [&alloc::vec![0; width][..], &key].concat();
        let root = Inner { keys, children: alloc::vec![self.root, child] };
        self.root = place(&mut self.inners, &mut self.free_inners, root);
        self.height += 1;
    }

    /// Takes an empty leaf out, unless it is the only one.
    fn drop_leaf(&mut self, leaf: u32, path: &Path) {
        if self.height == 0 {
            return;
        }
        let Leaf { previous, next, .. } = core::mem::take(&mut self.leaves[leaf as usize]);
        if let Some(previous) = self.leaves.get_mut(previous as usize) {
            previous.next = next;
        }
        if let Some(next) = self.leaves.get_mut(next as usize) {
            next.previous = previous;
        }
        self.free_leaves.push(leaf);
        self.drop_child(path);
    }

    /// Takes the node that the path leads to out of its parent.
    fn drop_child(&mut self, path: &Path) {
        for (node, at) in path.steps[..path.len].iter().rev() {
            let inner = &mut self.inners[*node as usize];
            let at = *at as usize;
            inner.children.remove(at);
            inner.keys.drain(at * self.width..(at + 1) * self.width);
            if !inner.children.is_empty() {
                break;
            }
            self.free_inners.push(*node);
        }
        while self.height > 0 && self.inners[self.root as usize].children.len() == 1 {
            let inner = core::mem::take(&mut self.inners[self.root as usize]);
            self.free_inners.push(self.root);
            self.root = inner.children[0];
            self.height -= 1;
        }
    }

    /// Merges a leaf with the next of the same parent, if that leaves room.
    fn merge(&mut self, leaf: u32, path: &Path) {
        let Some(last) = path.len.checked_sub(1) else { return };
        let (node, at) = path.steps[last];
        let Some(next) = self.inners[node as usize].children.get(at as usize + 1) else { return };
        let next = *next;
        let together =
            self.leaves[leaf as usize].rows.len() + self.leaves[next as usize].rows.len();
        if together > LEAF_ROWS * 3 / 4 * self.stride {
            return;
        }
        let rows = core::mem::take(&mut self.leaves[next as usize].rows);
        self.leaves[leaf as usize].rows.extend_from_slice(&rows);
        let mut path = Path { steps: path.steps, len: path.len };
        path.steps[last].1 += 1;
        self.drop_leaf(next, &path);
    }
}

/// Puts a node where one was freed, or at the end.
fn place<T>(nodes: &mut Vec<T>, free: &mut Vec<u32>, node: T) -> u32 {
    if let Some(at) = free.pop() {
        nodes[at as usize] = node;
        return at;
    }
    nodes.push(node);
    nodes.len() as u32 - 1
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::collections::BTreeMap;
    use proptest::prelude::*;

    fn rows(tree: &Tree) -> Vec<Vec<u32>> {
        tree.range(&[]).map(<[u32]>::to_vec).collect()
    }

    fn check(tree: &Tree, model: &BTreeMap<[u32; 2], u32>) {
        let expected: Vec<Vec<u32>> =
            model.iter().map(|(key, payload)| alloc::vec![key[0], key[1], *payload]).collect();
        assert_eq!(rows(tree), expected);
        assert_eq!(tree.len(), expected.len());
        for first in 0..40 {
            let of_first: Vec<&[u32]> = tree.range(core::slice::from_ref(&first)).collect();
            let expected: Vec<&[u32]> =
                expected.iter().map(|it| &it[..]).filter(|it| it[0] == first).collect();
            assert_eq!(of_first, expected);
            let near = tree.seek(&[first, 20]);
            assert_eq!(tree.seek_near(near, &[first, 25]), tree.seek(&[first, 25]));
            assert_eq!(tree.get(&[first, 3]), model.get(&[first, 3]).map(core::slice::from_ref));
        }
    }

    proptest! {
        /// A tree is an ordered map, and its searches by prefix are ranges of it.
        #[test]
        fn a_tree_is_an_ordered_map(
            loaded in proptest::collection::btree_map(
                (0..40_u32, 0..60_u32).prop_map(|(a, b)| [a, b]), any::<u32>(), 0..1500),
            edits in proptest::collection::vec((0..40_u32, 0..60_u32, any::<u32>()), 0..3000),
            removed in 0..40_u32,
        ) {
            let mut model = loaded;
            let mut tree = Tree::new(2, 1);
            let rows: Vec<u32> =
                model.iter().flat_map(|(key, payload)| [key[0], key[1], *payload]).collect();
            tree.load(&rows);
            check(&tree, &model);
            for (a, b, payload) in edits {
                match model.insert([a, b], payload) {
                    None => tree.insert(&[a, b, payload]),
                    Some(_) if payload % 4 == 0 => tree.set(&[a, b], &[payload]),
                    Some(_) => {
                        model.remove(&[a, b]);
                        tree.remove(&[a, b]);
                    }
                }
            }
            check(&tree, &model);
            for key in model.keys().filter(|key| key[0] >= removed) {
                tree.remove(key);
            }
            model.retain(|key, _| key[0] < removed);
            check(&tree, &model);
        }
    }

    #[test]
    fn rows_that_come_in_order_fill_their_leaves() {
        let mut tree = Tree::new(1, 0);
        for row in 0..100_000 {
            tree.insert(&[row]);
        }
        assert!(tree.bytes() < 100_000 * 6, "{} bytes", tree.bytes());
        assert_eq!(tree.seek(&[99_999]), tree.seek_near(tree.seek(&[99_990]), &[99_999]));
    }

    #[test]
    fn an_empty_tree_takes_no_more_than_a_new_one() {
        let mut tree = Tree::new(1, 0);
        for round in 0..3 {
            for row in 0..5000 {
                tree.insert(&[row * 7919 % 5000]);
            }
            let (leaves, inners) = (tree.leaves.len(), tree.inners.len());
            for row in 0..5000 {
                tree.remove(&[row * 3 % 5000]);
            }
            assert_eq!((tree.height, tree.len()), (0, 0), "round {round}");
            assert!(leaves < 200 && inners < 10, "{leaves} leaves, {inners} inner nodes");
        }
    }
}
