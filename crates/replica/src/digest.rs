//! Whether two maps are equal, in 16 bytes.

use core::fmt;

use twox_hash::XxHash3_128;

/// What a map's rows come to: equal for equal maps, whatever way they came about.
///
/// The sum of its rows' hashes, so that a change costs as much as the rows that it changes. It
/// finds faults, ours and memory's. It is no signature: whoever may write rows could make two maps
/// with one digest.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Digest(pub u128);

impl Digest {
    /// A row more.
    #[must_use]
    pub fn with(self, key: &[u8], row: &[u8]) -> Self {
        Self(self.0.wrapping_add(hash(key, row)))
    }

    /// A row less.
    #[must_use]
    pub fn without(self, key: &[u8], row: &[u8]) -> Self {
        Self(self.0.wrapping_sub(hash(key, row)))
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", self.0)
    }
}

/// The key's hash seeds the row's: so no byte can move from one to the other unseen.
fn hash(key: &[u8], row: &[u8]) -> u128 {
    XxHash3_128::oneshot_with_seed(XxHash3_128::oneshot(key) as u64, row)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_tells_rows_apart_and_knows_no_order() {
        let of = |rows: &[(&str, &str)]| {
            let each = rows.iter();
            each.fold(Digest::default(), |it, (key, row)| it.with(key.as_bytes(), row.as_bytes()))
        };
        assert_eq!(of(&[("a", "1"), ("b", "2")]), of(&[("b", "2"), ("a", "1")]));
        assert_ne!(of(&[("a", "1"), ("b", "2")]), of(&[("a", "2"), ("b", "1")]));
        assert_ne!(of(&[("ab", "c")]), of(&[("a", "bc")]));
        assert_ne!(of(&[("a", "")]), Digest::default());
        assert_eq!(of(&[("a", "1"), ("b", "2")]).without(b"b", b"2"), of(&[("a", "1")]));
    }
}
