//! Addresses that move to and fro between ports, or are seen at another than the one that they are
//! pinned at: what a loop behind them looks like, or two machines with one address.

use alloc::vec::Vec;

use lossless::PortId;
use units::{Instant, Mac, Span};

use crate::Network;
use crate::address::Address;

/// Moves that follow one another within this time are of one kind.
const WINDOW: Span = Span::from_secs(60);

/// So many moves are a machine's that has moved, or an address that is handed on to who stands in
/// for another.
const ORDINARY: u64 = 4;

/// The most addresses that are remembered: the latest.
const MOST: usize = 32;

/// An address that moves to and fro, or would if it were not pinned.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Flap {
    /// The address.
    pub mac: Mac,
    /// Its VLAN; 0 for untagged frames.
    pub vlan: u16,
    /// Its network.
    pub network: Network,
    /// Where it was last, and before; of a pinned one, where it was seen last, and where it is.
    pub ports: [PortId; 2],
    /// Whether it is pinned.
    pub is_pinned: bool,
    /// How often it has moved, or was seen elsewhere than where it is pinned.
    pub moves: u64,
    /// When it last did.
    last: Instant,
}

/// Addresses that have moved of late.
#[derive(Debug, Default)]
pub(crate) struct Flaps(Vec<Flap>);

impl Flaps {
    /// An address has moved to the first of these ports from the second, or was seen at the first
    /// although it is pinned at the second.
    pub(crate) fn note(
        &mut self,
        now: Instant,
        network: Network,
        address: Address,
        ports: [PortId; 2],
        is_pinned: bool,
    ) {
        let (mac, vlan) = (address.mac(), address.vlan());
        let is_it = |flap: &Flap| (flap.mac, flap.vlan, flap.network) == (mac, vlan, network);
        let flap = Flap { mac, vlan, network, ports, is_pinned, moves: 1, last: now };
        if let Some(known) = self.0.iter_mut().find(|flap| is_it(flap)) {
            let before = if known.is_over(now) { 0 } else { known.moves };
            *known = Flap { moves: before + 1, ..flap };
        } else if self.0.len() < MOST {
            self.0.push(flap);
        } else if let Some(oldest) = self.0.iter_mut().min_by_key(|flap| flap.last) {
            *oldest = flap;
        }
    }

    /// Those that move more than an address may.
    pub(crate) fn iter(&self, now: Instant) -> impl Iterator<Item = &Flap> {
        self.0.iter().filter(move |flap| flap.moves > ORDINARY && !flap.is_over(now))
    }

    /// Whether an address is one of these.
    pub(crate) fn contains(&self, now: Instant, network: Network, address: Address) -> bool {
        let (mac, vlan) = (address.mac(), address.vlan());
        self.iter(now).any(|flap| (flap.mac, flap.vlan, flap.network) == (mac, vlan, network))
    }

    /// A port is gone.
    pub(crate) fn forget(&mut self, port: PortId) {
        self.0.retain(|flap| !flap.ports.contains(&port));
    }
}

impl Flap {
    fn is_over(&self, now: Instant) -> bool {
        now.since(self.last) >= WINDOW
    }
}
