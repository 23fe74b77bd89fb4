//! The books of owners: of each, those of its ports, and of its ports that were taken away.

use alloc::collections::BTreeMap;

use units::{Instant, Span};

use crate::account::Account;
use crate::id::PortId;
use crate::link::Owner;
use crate::port::Port;
use crate::switch::Switch;

/// What an owner's ports have done, all of them and all classes together. It balances as each
/// port's accounts do.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Books {
    /// Its ports that are attached.
    pub ports: u32,
    /// What came in at its ports.
    pub ingress: Account,
    /// What was meant for its ports; each copy of a flooded frame counts.
    pub egress: Account,
    /// How long its senders were held back, added up.
    pub paused: Span,
}

impl Books {
    /// Adds what a port did.
    fn add(&mut self, now: Instant, port: &Port) {
        let Port { ingress, egress, .. } = port;
        ingress.accounts().for_each(|account| self.ingress.merge(account));
        egress.accounts().for_each(|account| self.egress.merge(account));
        self.paused += ingress.paused_by(now);
    }
}

/// The books of ports that were taken away.
#[derive(Debug, Default)]
pub(crate) struct Retired {
    owners: BTreeMap<Owner, Books>,
    /// What came in by ports of owners that were forgotten.
    forgotten: Account,
}

impl Retired {
    /// A port was taken away.
    pub(crate) fn add(&mut self, now: Instant, gone: &Port) {
        self.owners.entry(gone.ingress.owner).or_default().add(now, gone);
    }

    /// What came in by all of them.
    pub(crate) fn ingress(&self) -> Account {
        let mut total = self.forgotten;
        self.owners.values().for_each(|books| total.merge(&books.ingress));
        total
    }
}

impl<F: Copy> Switch<F> {
    /// The books of every owner that has or had a port, but for one port that is of several.
    pub fn books(&self, now: Instant, shared: Option<PortId>) -> BTreeMap<Owner, Books> {
        let mut books = self.retired.owners.clone();
        for (_, port) in self.ports.iter().filter(|(id, _)| Some(*id) != shared) {
            let books = books.entry(port.ingress.owner).or_default();
            books.ports += 1;
            books.add(now, port);
        }
        books
    }

    /// An owner's number is about to mean another, which begins with empty books and without terms
    /// wherever owners [share](Self::share). It must have no port, and no frame.
    pub fn forget_owner(&mut self, owner: Owner) {
        debug_assert!(self.ports.iter().all(|(_, port)| port.ingress.owner != owner));
        if let Some(books) = self.retired.owners.remove(&owner) {
            self.retired.forgotten.merge(&books.ingress);
        }
        for id in self.attached() {
            self.port_mut(id).egress.link.iter_mut().for_each(|link| link.forget(owner));
        }
    }
}
