//! The books of owners: of each, those of its ports, and of its ports that were taken away.

use alloc::collections::BTreeMap;

use units::{Instant, Span};

use crate::account::Account;
use crate::link::Owner;
use crate::port::Port;

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
    pub(crate) fn add(&mut self, now: Instant, port: &Port) {
        let Port { ingress, egress, .. } = port;
        ingress.accounts().for_each(|account| self.ingress.merge(account));
        egress.accounts().for_each(|account| self.egress.merge(account));
        self.paused += ingress.paused_by(now);
    }
}

/// The books of ports that were taken away.
#[derive(Debug, Default)]
pub(crate) struct Retired {
    pub owners: BTreeMap<Owner, Books>,
    /// What came in by ports of owners that were forgotten.
    pub forgotten: Account,
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
