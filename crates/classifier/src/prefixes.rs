//! The longest prefix of a key, and how many of the key's bits decided which that is.
//!
//! A binary trie in which every node has a value or two children, so there are fewer than two nodes
//! for each prefix, and a key is compared at most once for each of its bits.
//!
//! ```text
//!            10.0.0.0/8 a
//!             │0      │1
//!   10.0.0.0/15 ·    10.192.0.0/10 b        10.1.2.3: a, decided by 16 bits, as c begins with
//!    │0     │1                              10.0 and something else follows
//!   10.0/16 c  10.1.128.0/17 d
//! ```
//!
//! It knows nothing of what the values are.

use alloc::vec::Vec;

use crate::block::{Block, Key};

/// No node.
const NONE: u32 = u32::MAX;

/// Values by prefixes.
#[derive(Clone, Debug)]
pub struct Prefixes<K, V> {
    nodes: Vec<Node<K, V>>,
    /// Nodes that are in no use, for reuse.
    free: Vec<u32>,
    root: u32,
    len: usize,
}

#[derive(Clone, Debug)]
struct Node<K, V> {
    block: Block<K>,
    children: [u32; 2],
    value: Option<V>,
}

/// What a trie has to say of a key.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Found<T> {
    /// The longest prefix of the key that has a value, and the value.
    pub longest: Option<(u8, T)>,
    /// All keys that agree with the one that was asked for in so many leading bits are answered the
    /// same.
    pub bits: u8,
}

impl<K, V> Default for Prefixes<K, V> {
    fn default() -> Self {
        Self { nodes: Vec::new(), free: Vec::new(), root: NONE, len: 0 }
    }
}

impl<K: Key, V> Prefixes<K, V> {
    /// How many prefixes have a value.
    pub const fn len(&self) -> usize {
        self.len
    }

    /// Whether none has.
    pub const fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The value of the longest prefix of a key.
    #[inline]
    pub fn lookup(&self, key: K) -> Found<&V> {
        let mut longest = None;
        let bits = self.visit(key, |len, value| longest = Some((len, value)));
        Found { longest, bits }
    }

    /// Shows all values whose prefix a key has, the shortest first. Returns how many leading bits
    /// decided which these are.
    #[inline]
    pub fn visit<'a>(&'a self, key: K, mut each: impl FnMut(u8, &'a V)) -> u8 {
        let mut at = self.root;
        // The bits that led here.
        let mut bits = 0;
        while let Some(node) = self.nodes.get(at as usize) {
            let common = node.block.first().common(key);
            if common < node.block.bits() {
                return common + 1;
            }
            let len = node.block.bits();
            if let Some(value) = &node.value {
                each(len, value);
            }
            if node.children == [NONE; 2] {
                return len;
            }
            // Two keys that differ in the next bit go on differently.
            bits = len + 1;
            at = node.children[key.bit(len)];
        }
        bits
    }

    /// The value of exactly this prefix.
    pub fn get(&self, block: Block<K>) -> Option<&V> {
        self.nodes[self.find(block)? as usize].value.as_ref()
    }

    /// The value of exactly this prefix.
    pub fn get_mut(&mut self, block: Block<K>) -> Option<&mut V> {
        let at = self.find(block)?;
        self.nodes[at as usize].value.as_mut()
    }

    /// The value of the longest prefix that is shorter than this one and has its bits.
    pub fn above(&self, block: Block<K>) -> Option<&V> {
        let mut above = None;
        let mut at = self.root;
        while let Some(node) = self.nodes.get(at as usize) {
            if node.block.bits() >= block.bits() || !node.block.contains(block.first()) {
                break;
            }
            above = node.value.as_ref().or(above);
            at = node.children[block.first().bit(node.block.bits())];
        }
        above
    }

    /// Gives a prefix a value. Returns the one that it had.
    pub fn insert(&mut self, block: Block<K>, value: V) -> Option<V> {
        let mut link = None;
        let mut at = self.root;
        while let Some(node) = self.nodes.get_mut(at as usize) {
            let old = node.block;
            let common = old.first().common(block.first()).min(old.bits()).min(block.bits());
            if common == old.bits() {
                if common == block.bits() {
                    let old = node.value.replace(value);
                    self.len += usize::from(old.is_none());
                    return old;
                }
                let side = block.first().bit(common);
                link = Some((at, side));
                at = node.children[side];
                continue;
            }
            self.len += 1;
            let mut children = [NONE; 2];
            children[old.first().bit(common)] = at;
            let made = if common == block.bits() {
                self.make(block, children, Some(value))
            } else {
                children[block.first().bit(common)] = self.make(block, [NONE; 2], Some(value));
                let both = Block::new(block.first(), common).expect("it is shorter than a prefix");
                self.make(both, children, None)
            };
            self.set(link, made);
            return None;
        }
        self.len += 1;
        let made = self.make(block, [NONE; 2], Some(value));
        self.set(link, made);
        None
    }

    /// Takes a prefix's value away. Returns it.
    pub fn remove(&mut self, block: Block<K>) -> Option<V> {
        let (mut above, mut link) = (None, None);
        let mut at = self.root;
        loop {
            let node = self.nodes.get_mut(at as usize)?;
            if node.block == block {
                break;
            }
            if node.block.bits() >= block.bits() || !node.block.contains(block.first()) {
                return None;
            }
            let side = block.first().bit(node.block.bits());
            above = link;
            link = Some((at, side));
            at = node.children[side];
        }
        let value = self.nodes[at as usize].value.take()?;
        self.len -= 1;
        let is_gone = self.join(at, link);
        // Its parent may have had two children and no value.
        if let (true, Some((parent, _))) = (is_gone, link) {
            self.join(parent, above);
        }
        Some(value)
    }

    /// Takes a node away that has no value and fewer than two children. Returns whether nothing is
    /// in its place.
    fn join(&mut self, at: u32, link: Option<(u32, usize)>) -> bool {
        let node = &self.nodes[at as usize];
        if node.value.is_some() {
            return false;
        }
        let below = match node.children {
            [NONE, below] | [below, NONE] => below,
            _ => return false,
        };
        self.free.push(at);
        self.set(link, below);
        below == NONE
    }

    /// Changes the values of a prefix, and of those that begin with it: from the shortest on, and
    /// below those alone of which `each` says so.
    pub fn update(&mut self, block: Block<K>, mut each: impl FnMut(&mut V) -> bool) {
        let mut at = self.root;
        while let Some(node) = self.nodes.get(at as usize) {
            if node.block.bits() >= block.bits() {
                if block.contains(node.block.first()) {
                    break;
                }
                return;
            }
            if !node.block.contains(block.first()) {
                return;
            }
            at = node.children[block.first().bit(node.block.bits())];
        }
        let mut next = Vec::from([at]);
        while let Some(at) = next.pop() {
            if let Some(node) = self.nodes.get_mut(at as usize)
                && node.value.as_mut().is_none_or(&mut each)
            {
                next.extend(node.children);
            }
        }
    }

    fn find(&self, block: Block<K>) -> Option<u32> {
        let mut at = self.root;
        loop {
            let node = self.nodes.get(at as usize)?;
            if node.block == block {
                return Some(at);
            }
            if node.block.bits() >= block.bits() {
                return None;
            }
            at = node.children[block.first().bit(node.block.bits())];
        }
    }

    fn make(&mut self, block: Block<K>, children: [u32; 2], value: Option<V>) -> u32 {
        let node = Node { block, children, value };
        if let Some(at) = self.free.pop() {
            self.nodes[at as usize] = node;
            return at;
        }
        self.nodes.push(node);
        u32::try_from(self.nodes.len() - 1).expect("a trie has fewer than 2^32 nodes")
    }

    fn set(&mut self, link: Option<(u32, usize)>, to: u32) {
        match link {
            Some((parent, side)) => self.nodes[parent as usize].children[side] = to,
            None => self.root = to,
        }
    }

    /// How many nodes are in use.
    #[cfg(test)]
    fn nodes(&self) -> usize {
        self.nodes.len() - self.free.len()
    }
}

#[cfg(test)]
mod tests {
    use alloc::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    /// Few bits differ, so that prefixes meet.
    fn key() -> impl Strategy<Value = u32> {
        (0_u32..16, 0_u32..16).prop_map(|(high, low)| high << 28 | low)
    }

    fn change() -> impl Strategy<Value = (u32, u8, Option<u16>)> {
        (key(), prop_oneof![0_u8..8, 24_u8..=32], any::<Option<u16>>())
    }

    /// Of the reference: the longest prefix.
    fn linear(all: &BTreeMap<Block<u32>, u16>, key: u32) -> Option<(u8, u16)> {
        let mine = all.iter().filter(|(block, _)| block.contains(key));
        mine.map(|(block, value)| (block.bits(), *value)).max()
    }

    proptest! {
        #[test]
        fn a_trie_answers_as_a_list_does(
            changes in prop::collection::vec(change(), 1..60),
            keys in prop::collection::vec(key(), 20),
            noise: [u32; 4],
        ) {
            let mut trie = Prefixes::default();
            let mut all = BTreeMap::new();
            for (key, len, value) in changes {
                let block = Block::new(key, len).unwrap();
                match value {
                    Some(value) => {
                        prop_assert_eq!(trie.insert(block, value), all.insert(block, value));
                    }
                    None => prop_assert_eq!(trie.remove(block), all.remove(&block)),
                }
                prop_assert_eq!(trie.len(), all.len());
                prop_assert!(trie.nodes() <= (2 * all.len()).saturating_sub(1).max(all.len()));
                prop_assert_eq!(trie.get(block), all.get(&block));
                let above = all.iter().filter(|(it, _)| it.bits() < len && it.contains(key));
                let above = above.max_by_key(|(it, _)| it.bits()).map(|(_, value)| value);
                prop_assert_eq!(trie.above(block), above);
            }
            for key in keys {
                let found = trie.lookup(key);
                prop_assert_eq!(found.longest.map(|(len, value)| (len, *value)), linear(&all, key));
                // Whoever agrees in the bits that decided has the same answer.
                for noise in noise {
                    let other = Block::new(key, found.bits).unwrap().first()
                        | noise & 0_u32.last(found.bits);
                    prop_assert_eq!(trie.lookup(other), found);
                    prop_assert_eq!(linear(&all, other), linear(&all, key));
                }
            }
        }

        #[test]
        fn an_update_reaches_what_begins_with_the_prefix(
            blocks in prop::collection::vec((key(), 0_u8..=32), 1..30),
            (key, len) in (key(), 0_u8..=32),
        ) {
            let mut trie = Prefixes::default();
            let mut all = BTreeMap::new();
            for (key, len) in blocks {
                let block = Block::new(key, len).unwrap();
                trie.insert(block, 0);
                all.insert(block, 0);
            }
            let block = Block::new(key, len).unwrap();
            trie.update(block, |value| { *value += 1; true });
            for (other, value) in &mut all {
                *value += u16::from(other.bits() >= len && block.contains(other.first()));
                prop_assert_eq!(trie.get(*other), Some(&*value));
            }
        }
    }

    #[test]
    fn the_bits_that_decide_are_as_few_as_the_prefixes_allow() {
        let mut trie = Prefixes::default();
        assert_eq!(trie.lookup(7_u128), Found { longest: None, bits: 0 });
        trie.insert(Block::new(1 << 127, 1).unwrap(), 'a');
        assert_eq!(trie.lookup(u128::MAX), Found { longest: Some((1, &'a')), bits: 1 });
        assert_eq!(trie.lookup(0), Found { longest: None, bits: 1 });
        trie.insert(Block::one(u128::MAX), 'b');
        assert_eq!(trie.lookup(3 << 126).bits, 3);
        assert_eq!(trie.lookup(u128::MAX - 1), Found { longest: Some((1, &'a')), bits: 128 });
    }
}
