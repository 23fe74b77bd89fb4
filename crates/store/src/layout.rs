//! How a store is laid out in its home.
//!
//! ```text
//! m format | uid | fence | revision | compacted     one value each
//! v key 0 revision ─▶ what the key was made then: its value, or that it was removed
//! c revision place ─▶ which key was changed then
//! ```
//!
//! Numbers are big-endian, so that keys are in the order of their revisions. Whatever has a
//! revision above `m revision` is of a transaction that was not completed: nobody reads it.

use crate::home::Pair;
use crate::key::{Key, Revision};

pub const FORMAT: &[u8] = b"mformat";
pub const UID: &[u8] = b"muid";
pub const FENCE: &[u8] = b"mfence";
pub const REVISION: &[u8] = b"mrevision";
pub const COMPACTED: &[u8] = b"mcompacted";

/// What [`FORMAT`] says of a store that is laid out as above.
pub const THIS_FORMAT: &[u8] = b"1";

/// What a key was made by one revision.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Version {
    /// It was removed.
    Removed,
    /// It was given a value.
    Value {
        /// The revision from which on it has been there.
        created: Revision,
        /// The value.
        value: Vec<u8>,
    },
}

impl Version {
    /// As a home keeps it.
    pub fn encode(&self) -> Vec<u8> {
        match self {
            Self::Removed => vec![0],
            Self::Value { created, value } => {
                let mut bytes = Vec::with_capacity(9 + value.len());
                bytes.push(1);
                bytes.extend(created.0.to_be_bytes());
                bytes.extend(value);
                bytes
            }
        }
    }

    /// As a home has kept it. `None`: that is no version.
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        match bytes.split_first()? {
            (0, []) => Some(Self::Removed),
            (1, rest) => {
                let (created, value) = rest.split_first_chunk()?;
                let created = Revision(u64::from_be_bytes(*created));
                Some(Self::Value { created, value: value.to_vec() })
            }
            _ => None,
        }
    }
}

/// Where a key's version of a revision is.
pub fn version(key: &Key, revision: Revision) -> Vec<u8> {
    let mut at = vec![b'v'];
    at.extend(key.as_str().as_bytes());
    at.push(0);
    at.extend(revision.0.to_be_bytes());
    at
}

/// The key and the revision of a version's place. `None`: it is none.
pub fn version_of(at: &[u8]) -> Option<(Key, Revision)> {
    let (rest, revision) = at.strip_prefix(b"v")?.split_last_chunk()?;
    let key = Key::new(str::from_utf8(rest.strip_suffix(b"\0")?).ok()?)?;
    Some((key, Revision(u64::from_be_bytes(*revision))))
}

/// Where the versions of keys with a prefix begin.
pub fn versions_from(prefix: &str) -> Vec<u8> {
    [b"v", prefix.as_bytes()].concat()
}

/// Where the versions of keys with a prefix end: this byte is in no text.
pub fn versions_end(prefix: &str) -> Vec<u8> {
    [b"v", prefix.as_bytes(), &[0xff]].concat()
}

/// Where the versions of whatever follows a key begin: its own have 0 here.
pub fn versions_after(key: &Key) -> Vec<u8> {
    [b"v", key.as_str().as_bytes(), &[1]].concat()
}

/// Where a change is: the revision, and its place among those of that revision.
pub fn change(revision: Revision, place: u32) -> Vec<u8> {
    let mut at = vec![b'c'];
    at.extend(revision.0.to_be_bytes());
    at.extend(place.to_be_bytes());
    at
}

/// A change: its revision, its place, its key. `None`: it is none.
pub fn change_of((at, key): &Pair) -> Option<(Revision, u32, Key)> {
    let (revision, rest) = at.strip_prefix(b"c")?.split_first_chunk()?;
    let place = u32::from_be_bytes(rest.try_into().ok()?);
    let key = Key::new(str::from_utf8(key).ok()?)?;
    Some((Revision(u64::from_be_bytes(*revision)), place, key))
}

/// A number as a home keeps it.
pub fn number(number: u64) -> Vec<u8> {
    number.to_be_bytes().to_vec()
}

/// A number as a home has kept it. `None`: it is none.
pub fn number_of(bytes: &[u8]) -> Option<u64> {
    bytes.try_into().map(u64::from_be_bytes).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_in_order_whatever_follows_them() {
        let key = |text: &str| Key::new(text).unwrap();
        let places = [
            version(&key("a"), Revision(0)),
            version(&key("a"), Revision(255)),
            version(&key("a"), Revision(u64::MAX)),
            versions_after(&key("a")),
            version(&key("a\u{1}"), Revision(0)),
            version(&key("a/b"), Revision(7)),
            version(&key("aé"), Revision(7)),
            versions_end("a"),
            version(&key("b"), Revision(0)),
        ];
        assert!(places.is_sorted(), "{places:?}");
        assert_eq!(version_of(&places[5]), Some((key("a/b"), Revision(7))));
    }

    #[test]
    fn what_was_kept_is_read_again() {
        let value = Version::Value { created: Revision(3), value: b"x".to_vec() };
        for version in [Version::Removed, value] {
            assert_eq!(Version::decode(&version.encode()), Some(version));
        }
        assert_eq!(Version::decode(&[1, 0]), None);
        let key = Key::new("a").unwrap();
        let pair = (change(Revision(5), 6), b"a".to_vec());
        assert_eq!(change_of(&pair), Some((Revision(5), 6, key)));
    }
}
