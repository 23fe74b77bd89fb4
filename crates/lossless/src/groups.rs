//! The books of the groups of flows that are offered behind one egress: a far host's, as a rule.
//!
//! The law holds for each, whatever the classes of its flows. A group's number is small, and most
//! numbers below it are given out: an account is found by its number, and made with the group's
//! first frame.

use alloc::boxed::Box;
use alloc::vec::Vec;

use crate::account::Account;

/// Accounts by group; none where there was no frame yet.
#[derive(Debug, Default)]
pub(crate) struct Groups(Vec<Option<Box<Account>>>);

impl Groups {
    pub(crate) fn get(&self, group: u32) -> Option<&Account> {
        self.0.get(group as usize)?.as_deref()
    }

    /// A group's account; an empty one is made if there is none.
    pub(crate) fn account(&mut self, group: u32) -> &mut Account {
        let place = group as usize;
        if place >= self.0.len() {
            self.0.resize_with(place + 1, || None);
        }
        self.0[place].get_or_insert_default()
    }

    /// Forgets a group's account, unless something is held.
    pub(crate) fn forget(&mut self, group: u32) {
        if let Some(place) = self.0.get_mut(group as usize) {
            place.take_if(|account| account.held == 0);
        }
    }

    /// The accounts with their groups.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (u32, &Account)> {
        (0..).zip(&self.0).filter_map(|(group, account)| Some((group, account.as_deref()?)))
    }
}
