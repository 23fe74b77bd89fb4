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

/// The most addresses that are remembered, and pairs of ports.
const MOST: usize = 32;

/// So many addresses may move from one port to another, and as many back, before the two are taken
/// for a loop, whatever addresses come round: more than are remembered one by one.
const ORDINARY_OF_PORTS: u64 = 32;

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
pub(crate) struct Flaps {
    addresses: Vec<Flap>,
    pairs: Vec<Pair>,
}

/// Two ports between which addresses have moved of late.
#[derive(Debug)]
struct Pair {
    /// What moved last, and how often something did to the first of its ports from the second.
    last: Flap,
    /// How often something moved the other way.
    back: u64,
}

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
        let flap = Flap { mac, vlan, network, ports, is_pinned, moves: 1, last: now };
        let known = self.addresses.iter_mut().find(|it| it.is_of(network, address));
        match known.filter(|known| !known.is_over(now)) {
            Some(known) => *known = Flap { moves: known.moves + 1, ..flap },
            None => {
                self.addresses.retain(|it| !it.is_of(network, address));
                let worth = |it: &Flap| (!it.is_over(now), it.moves, it.last);
                replace(&mut self.addresses, flap, worth);
            }
        }
        self.note_pair(now, flap);
    }

    /// The same of the two ports.
    fn note_pair(&mut self, now: Instant, flap: Flap) {
        let [to, from] = flap.ports;
        let is_it = |pair: &Pair| {
            let ports = pair.last.ports;
            pair.last.network == flap.network && (ports == [to, from] || ports == [from, to])
        };
        let known = self.pairs.iter_mut().find(|pair| is_it(pair));
        match known.filter(|pair| !pair.last.is_over(now)) {
            Some(pair) => {
                let (there, back) = match pair.last.ports == flap.ports {
                    true => (pair.last.moves, pair.back),
                    false => (pair.back, pair.last.moves),
                };
                // What is pinned is always seen on the same side.
                let back = back + u64::from(flap.is_pinned);
                *pair = Pair { last: Flap { moves: there + 1, ..flap }, back };
            }
            None => {
                self.pairs.retain(|pair| !is_it(pair));
                let worth = |it: &Pair| (!it.last.is_over(now), it.moves(), it.last.last);
                let back = u64::from(flap.is_pinned);
                replace(&mut self.pairs, Pair { last: flap, back }, worth);
            }
        }
    }

    /// Those that move more than an address may. Of two ports between which too many move for each
    /// to be known, the last.
    pub(crate) fn iter(&self, now: Instant) -> impl Iterator<Item = &Flap> {
        let flaps = move |flap: &&Flap| flap.moves > ORDINARY && !flap.is_over(now);
        let is_unknown = move |pair: &&Pair| {
            let known = self.addresses.iter().filter(flaps);
            pair.is_loop(now) && !known.clone().any(|flap| pair.is_between(flap))
        };
        let pairs = self.pairs.iter().filter(is_unknown).map(|pair| &pair.last);
        self.addresses.iter().filter(flaps).chain(pairs)
    }

    /// Whether a frame from an address that comes by a port may have come round by a loop: the
    /// address is one of these, or the port one of two that are taken for a loop.
    pub(crate) fn contains(
        &self,
        now: Instant,
        network: Network,
        address: Address,
        port: PortId,
    ) -> bool {
        let of_loop = |pair: &Pair| {
            pair.last.network == network && pair.last.ports.contains(&port) && pair.is_loop(now)
        };
        self.iter(now).any(|flap| flap.is_of(network, address)) || self.pairs.iter().any(of_loop)
    }

    /// A port is gone.
    pub(crate) fn forget(&mut self, port: PortId) {
        self.addresses.retain(|flap| !flap.ports.contains(&port));
        self.pairs.retain(|pair| !pair.last.ports.contains(&port));
    }
}

/// Remembers something new, in place of what is worth least if there is no room.
fn replace<T, W: Ord>(known: &mut Vec<T>, new: T, worth: impl Fn(&T) -> W) {
    if known.len() < MOST {
        known.push(new);
    } else if let Some(least) = known.iter_mut().min_by_key(|it| worth(it)) {
        *least = new;
    }
}

impl Pair {
    /// How often something moved to and fro.
    fn moves(&self) -> u64 {
        self.last.moves.min(self.back)
    }

    fn is_loop(&self, now: Instant) -> bool {
        self.moves() > ORDINARY_OF_PORTS && !self.last.is_over(now)
    }

    fn is_between(&self, flap: &Flap) -> bool {
        flap.network == self.last.network
            && flap.ports.iter().all(|it| self.last.ports.contains(it))
    }
}

impl Flap {
    fn is_over(&self, now: Instant) -> bool {
        now.since(self.last) >= WINDOW
    }

    fn is_of(&self, network: Network, address: Address) -> bool {
        (self.mac, self.vlan, self.network) == (address.mac(), address.vlan(), network)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Instant = Instant::ZERO;

    fn ports() -> [PortId; 2] {
        [1, 2].map(|number| PortId::new(number).unwrap())
    }

    fn address(number: u32) -> Address {
        Address::new(Mac::local(number), 0)
    }

    #[test]
    fn a_loop_is_found_however_many_addresses_come_round() {
        let mut flaps = Flaps::default();
        let [a, b] = ports();
        let (network, other) = (Network::NONE, PortId::new(3).unwrap());
        for round in 0..2 {
            for number in 0..100 {
                flaps.note(NOW, network, address(number), [a, b], false);
                flaps.note(NOW, network, address(number), [b, a], false);
            }
            assert!(flaps.contains(NOW, network, address(900), a), "round {round}");
        }
        assert!(!flaps.contains(NOW, network, address(900), other));
        assert!(flaps.iter(NOW).all(|flap| flap.ports.contains(&a) && flap.moves > ORDINARY));
        assert!(flaps.iter(NOW).next().is_some());
        let later = NOW + WINDOW;
        assert!(!flaps.contains(later, network, address(900), a) && flaps.iter(later).count() == 0);
    }

    #[test]
    fn machines_that_move_together_are_no_loop() {
        let mut flaps = Flaps::default();
        let [a, b] = ports();
        for number in 0..1000 {
            flaps.note(NOW, Network::NONE, address(number), [a, b], false);
        }
        assert_eq!(flaps.iter(NOW).count(), 0);
        assert!(!flaps.contains(NOW, Network::NONE, address(1), a));
    }

    #[test]
    fn what_flaps_is_not_forgotten_for_what_moves_once() {
        let mut flaps = Flaps::default();
        let [a, b] = ports();
        for _ in 0..5 {
            flaps.note(NOW, Network::NONE, address(1), [a, b], false);
        }
        for number in 2..100 {
            flaps.note(NOW, Network::NONE, address(number), [a, b], false);
        }
        assert_eq!(flaps.iter(NOW).map(|flap| flap.mac).collect::<Vec<_>>(), [Mac::local(1)]);
        flaps.forget(a);
        assert!(flaps.addresses.is_empty() && flaps.pairs.is_empty());
    }
}
