//! What two generations of a domain differ in, and how it is written.
//!
//! ```text
//! entry:  key's length │ key │ 0              the row is gone
//!         key's length │ key │ row's length + 1 │ row
//! ```
//!
//! Entries are in the order of their keys, which differ; lengths are [LEB128](crate::varint).

use alloc::collections::{BTreeMap, btree_map};
use alloc::sync::Arc;
use alloc::vec::Vec;

use crate::varint;

/// Rows that are put in the place of others, or taken away, by their keys.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Delta(BTreeMap<Arc<[u8]>, Option<Arc<[u8]>>>);

/// Why bytes are no delta.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
pub enum DecodeError {
    /// A length, or what it is the length of, is cut off or too long.
    #[error("cannot decode a delta: entry {0} is cut off; have it sent again")]
    Cut(usize),
    /// Keys are not in order.
    #[error(
        "cannot decode a delta: the key of entry {0} is not behind the one before; have it sent again"
    )]
    Order(usize),
}

impl Delta {
    /// How many rows it speaks of.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether it changes nothing.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Each key, and its row, if that is not taken away. In the keys' order.
    pub fn iter(&self) -> impl Iterator<Item = (&Arc<[u8]>, &Option<Arc<[u8]>>)> {
        self.0.iter()
    }

    /// Says of a row what it is from now on.
    pub fn put(&mut self, key: Arc<[u8]>, row: Option<Arc<[u8]>>) {
        self.0.insert(key, row);
    }

    /// Adds what a later delta changes: the two become one step.
    pub fn then(&mut self, later: &Self) {
        self.0.extend(later.0.iter().map(|(key, row)| (key.clone(), row.clone())));
    }

    /// It as bytes.
    pub fn encode(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        for (key, row) in &self.0 {
            varint::put(key.len(), &mut bytes);
            bytes.extend_from_slice(key);
            match row {
                None => bytes.push(0),
                Some(row) => {
                    varint::put(row.len() + 1, &mut bytes);
                    bytes.extend_from_slice(row);
                }
            }
        }
        bytes
    }

    /// Reads it. It takes no more memory than the bytes and some hundred bytes for each entry.
    ///
    /// # Errors
    ///
    /// [`DecodeError`], with the number of the entry, from 0.
    pub fn decode(bytes: &[u8]) -> Result<Self, DecodeError> {
        let mut rest = bytes;
        let mut entries = BTreeMap::<Arc<[u8]>, _>::new();
        while !rest.is_empty() {
            let at = entries.len();
            let (key, row) = entry(&mut rest).ok_or(DecodeError::Cut(at))?;
            if entries.last_key_value().is_some_and(|(last, _)| **last >= *key) {
                return Err(DecodeError::Order(at));
            }
            entries.insert(Arc::from(key), row.map(Arc::from));
        }
        Ok(Self(entries))
    }
}

/// Takes an entry from the front.
fn entry<'a>(rest: &mut &'a [u8]) -> Option<(&'a [u8], Option<&'a [u8]>)> {
    let key = varint::take(rest)?;
    let key = rest.split_off(..key)?;
    let row = match varint::take(rest)?.checked_sub(1) {
        None => None,
        Some(len) => Some(rest.split_off(..len)?),
    };
    Some((key, row))
}

impl IntoIterator for Delta {
    type Item = (Arc<[u8]>, Option<Arc<[u8]>>);
    type IntoIter = btree_map::IntoIter<Arc<[u8]>, Option<Arc<[u8]>>>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.into_iter()
    }
}

impl FromIterator<(Arc<[u8]>, Option<Arc<[u8]>>)> for Delta {
    fn from_iter<I: IntoIterator<Item = (Arc<[u8]>, Option<Arc<[u8]>>)>>(entries: I) -> Self {
        Self(entries.into_iter().collect())
    }
}

#[cfg(test)]
mod tests {
    use proptest::collection::{btree_map, vec};
    use proptest::option;
    use proptest::prelude::*;

    use super::*;

    fn delta() -> impl Strategy<Value = Delta> {
        let row = option::of(vec(any::<u8>(), 0..200));
        let entries = btree_map(vec(0u8..4, 0..3), row, 0..12);
        entries.prop_map(|all| {
            all.into_iter().map(|(key, row)| (Arc::from(key), row.map(Arc::from))).collect()
        })
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn decoding_undoes_encoding(delta in delta()) {
            prop_assert_eq!(Delta::decode(&delta.encode()), Ok(delta));
        }

        /// What is no delta is refused, and what is one is written in one way.
        #[test]
        fn any_bytes_are_refused_or_encode_to_themselves(bytes in vec(0u8..6, 0..40)) {
            if let Ok(delta) = Delta::decode(&bytes) {
                prop_assert_eq!(delta.encode(), bytes);
            }
        }
    }

    #[test]
    fn keys_out_of_order_are_refused() {
        assert_eq!(Delta::decode(&[1, 7, 0, 1, 7, 0]), Err(DecodeError::Order(1)));
        assert_eq!(Delta::decode(&[1, 7, 0, 1, 8]), Err(DecodeError::Cut(1)));
        assert_eq!(Delta::decode(&[0xff, 0xff, 0xff, 0xff, 0x0f]), Err(DecodeError::Cut(0)));
    }
}
