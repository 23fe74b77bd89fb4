//! The ledgers of ports, as the API and metrics report them.

use std::collections::BTreeMap;

use datapath::Network;
use lossless::{Account, Books, PortId};
use model::{ClassStatus, LedgerStatus, Ledgers};
use port::Port;
use units::{Class, Instant, Ticks};

use crate::line::owner_of;
use crate::peers::Peers;
use crate::plane::Plane;
use crate::stages::{Gate, Responder};

impl<P: Port, F: Peers, R: Responder, G: Gate, T: Ticks> Plane<P, F, R, G, T> {
    /// The ledgers of a port's ingress, and how many bytes they are about.
    pub fn ingress_ledgers(&self, id: PortId) -> (Ledgers, u64) {
        self.ledgers(|class| self.switch.ingress_account(id, class))
    }

    /// The ledgers of a port's egress, and how many bytes they are about.
    pub fn egress_ledgers(&self, id: PortId) -> (Ledgers, u64) {
        self.ledgers(|class| self.switch.egress_account(id, class))
    }

    /// The ledger of the whole switch.
    pub fn total_ledger(&self) -> LedgerStatus {
        ledger(&self.switch.total())
    }

    /// What the ports of each network that has or had one have done, the uplink's aside.
    pub fn books(&self, now: Instant) -> BTreeMap<Network, Books> {
        let books = self.switch.books(now, self.uplink).into_iter();
        books.filter_map(|(owner, books)| Some((Network::new(owner.0)?, books))).collect()
    }

    /// A network's number is about to mean another: what is known of this one is forgotten. No port
    /// is in it.
    pub fn forget_network(&mut self, network: Network) {
        self.switch.forget_owner(owner_of(network));
        self.booking.forget(network);
    }

    /// How many frames were delivered of a port's sender.
    pub(crate) fn delivered(&self, id: PortId) -> u64 {
        Class::all().map(|class| self.switch.ingress_account(id, class).delivered).sum()
    }

    fn ledgers<'a>(&self, account: impl Fn(Class) -> &'a Account) -> (Ledgers, u64) {
        let bytes = Class::all().map(|class| account(class).bytes).sum();
        let mut total = Account::default();
        let mut classes = Vec::new();
        for class in Class::all().filter(|class| account(*class).accepted > 0) {
            total.merge(account(class));
            let kind = self.switch.settings().classes.0[class];
            classes.push(ClassStatus { class: class.pcp(), kind, ledger: ledger(account(class)) });
        }
        (Ledgers { total: ledger(&total), classes }, bytes)
    }
}

/// An account of the switch, as the API and metrics report it.
pub fn ledger(account: &Account) -> LedgerStatus {
    LedgerStatus {
        accepted: account.accepted,
        delivered: account.delivered,
        refused: account
            .refusals()
            .map(|(reason, frames)| (reason.name().into(), frames))
            .collect(),
        held: account.held,
    }
}
