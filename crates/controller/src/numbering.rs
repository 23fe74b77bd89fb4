//! The labels that a store gives: the numbers by which hosts mean ports in tunnels.
//!
//! Each object that hosts may send to has one from its creation to its end, and nobody else ever
//! has. A name that is created again has another, so no frame that is underway reaches its
//! successor; and tenants choose names, but no labels.
//!
//! ```text
//! ol/logical-ports/shop/web-1   17        labels/last   UID 17: this store has given up to 17
//! ```

use logical::objects::Identity;
use store::Transaction;

use crate::place;

/// How many labels a store leaves out that was put back from a backup: it has given others since,
/// which it does not know, and hosts may still mean something by them. At least so many, and up to
/// so many more, as its uid has it: it may be put back twice from one backup.
const LOST: u128 = 1 << 20;
const APART: u128 = 1 << 24;

/// Below this a store begins, at a number that its uid has: hosts may still mean something by what
/// another store gave that was there before.
const BEGINNINGS: u128 = 1 << 30;

/// The last label that there is.
const MOST: u32 = *logical::LABELS.end();

/// Who gives labels.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Numbering {
    /// The store's uid.
    store: String,
    /// The last that was given, or the number before the first.
    last: u32,
}

/// All labels were given.
#[derive(Clone, Copy, Debug, thiserror::Error)]
#[error(
    "all {MOST} numbers of ports were given, and none is given twice: declare the objects at a controller with a new store"
)]
pub struct UsedUp;

impl Numbering {
    /// That of a store with this uid, by what is said there of the last that was given. `None`:
    /// that, or the uid, says nothing.
    pub fn new(store: &str, said: Option<&[u8]>) -> Option<Self> {
        let of = |last| Self { store: store.into(), last };
        let uid = u128::from_str_radix(store, 16).ok()?;
        let Some(said) = said else { return Some(of((uid % BEGINNINGS) as u32)) };
        let (by, last) = str::from_utf8(said).ok()?.split_once(' ')?;
        let last: u32 = last.parse().ok()?;
        if by == store {
            return Some(of(last));
        }
        let left_out = LOST + uid % APART;
        Some(of((u128::from(last) + left_out).min(MOST.into()) as u32))
    }

    /// Gives an object a label, by the transaction that creates it.
    pub fn give(&mut self, to: &Identity, transaction: &mut Transaction) -> Result<(), UsedUp> {
        self.last = Some(self.last).filter(|it| *it < MOST).ok_or(UsedUp)? + 1;
        transaction.put(place::label_key(to), self.last.to_string().into());
        transaction.put(place::last_label(), format!("{} {}", self.store, self.last).into());
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_store_goes_on_and_one_that_was_put_back_leaves_some_out() {
        let of = |store: &str, said: &str| Numbering::new(store, Some(said.as_bytes()));
        assert_eq!(Numbering::new("a1", None).unwrap().last, 0xa1);
        assert_eq!(of("a1", "a1 17").unwrap().last, 17);
        let twice = ["b1", "b2"].map(|it| of(it, "a1 17").unwrap().last);
        assert!(twice[0] >= 17 + (1 << 20) && twice[0] != twice[1], "{twice:?}");
        assert_eq!(of("b1", "a1 2147483640").unwrap().last, MOST);
        for wrong in ["", "17", "a1 ", "a1 x"] {
            assert_eq!(of("a1", wrong), None, "{wrong}");
        }
    }

    #[test]
    fn no_label_is_given_after_the_last() {
        let port = "LogicalPort/shop/web".parse().unwrap();
        let mut numbering = Numbering { store: "a1".into(), last: MOST - 1 };
        let mut transaction = Transaction::new();
        numbering.give(&port, &mut transaction).unwrap();
        assert!(numbering.give(&port, &mut transaction).is_err());
        assert_eq!(numbering.last, MOST);
    }
}
