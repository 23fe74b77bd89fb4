//! The filtering database of one virtual network (802.1Q §8.8): its members, and where each address
//! is, learned or pinned.
//!
//! A port is a member of one network, and the uplink of each that has machines on other hosts. What
//! is for no one port reaches members alone (802.1Q's member sets, §8.8.10):
//!
//! | | local ports | far hosts |
//! |---|---|---|
//! | from a port, to a group | the others | all that have machines of the network |
//! | from a port, to an address that is not known | the others | none |
//! | from a far host | all | none |
//!
//! Machines on other hosts are declared, so nobody need look for them there. What came from a far
//! host has reached every host it is for: where each host reaches every other, this split horizon
//! keeps frames from going in circles (RFC 4762 §4.4).

use alloc::collections::BTreeMap;
use alloc::sync::Arc;
use alloc::vec::Vec;

use lossless::{PortId, PortSet};
use units::{ClassSet, Instant, Mac, Span};

use crate::address::Address;
use crate::cache::Cache;
use crate::groups::Groups;
use crate::{Declared, Remote};

/// Where an address is.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Place {
    pub port: PortId,
    /// When a frame from it was last seen; `None` for a pinned address, which never ages and never
    /// moves.
    pub seen: Option<Instant>,
}

/// What [`Segment::learn`] found.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Learned {
    /// It was known there, or may not be learned.
    Nothing,
    /// It is new.
    New,
    /// It was at this port before.
    Moved(PortId),
}

/// One network. Addresses are in a tree, which no choice of addresses makes slow.
#[derive(Debug, Default)]
pub(crate) struct Segment {
    /// Of all segments that ever were, no two have had the same. It changes with any member and any
    /// pinned address.
    pub generation: u64,
    /// By VLAN, a generation of the same kind, which changes with any learned address: two ports
    /// that claim one in turn have nothing decided anew but what is of their VLAN.
    learned: Vec<u64>,
    /// What was decided of its frames of late. It is the network's own, so that no other's flows
    /// drive them out.
    pub cache: Cache,
    pub locals: PortSet,
    pub addresses: BTreeMap<Address, Place>,
    pub groups: Groups,
    /// Machines on other hosts; absent for a network of this host alone.
    pub declared: Option<Arc<Declared>>,
}

impl Segment {
    /// Where a machine with this address is declared, if that is on another host. Declared machines
    /// are known by their untagged address.
    pub(crate) fn remote(&self, mac: Mac, vlan: u16) -> Option<Remote> {
        self.declared.as_ref().filter(|_| vlan == 0)?.place(mac)
    }

    /// The classes that its machines may choose, as far as that is declared.
    pub(crate) fn classes(&self) -> Option<ClassSet> {
        self.declared.as_ref()?.classes()
    }

    /// Where an address is known to be in this very VLAN.
    pub(crate) fn at(&self, mac: Mac, vlan: u16) -> Option<&Place> {
        self.addresses.get(&Address::new(mac, vlan))
    }

    /// Where an address is in a VLAN. One that is pinned without a VLAN is known in all that its
    /// port is in, as `carries` says, but where it is pinned elsewhere.
    pub(crate) fn find(
        &self,
        mac: Mac,
        vlan: u16,
        carries: impl Fn(PortId) -> bool,
    ) -> Option<&Place> {
        let in_all = || {
            let place = self.at(mac, 0).filter(|_| vlan != 0)?;
            (place.seen.is_none() && carries(place.port)).then_some(place)
        };
        let exact = self.at(mac, vlan);
        match exact {
            Some(Place { seen: None, .. }) => exact,
            _ => in_all().or(exact),
        }
    }

    /// The generation of what is known in a VLAN.
    #[inline]
    pub(crate) fn generation_in(&self, vlan: u16) -> u64 {
        let learned = self.learned.get(usize::from(vlan)).copied();
        learned.map_or(self.generation, |learned| learned.max(self.generation))
    }

    /// An address was learned in a VLAN.
    pub(crate) fn touch(&mut self, vlan: u16, generation: u64) {
        let vlan = usize::from(vlan);
        if self.learned.len() <= vlan {
            self.learned.resize(vlan + 1, 0);
        }
        self.learned[vlan] = generation;
    }

    /// How many flows its cache is to have room for: one to each machine.
    pub(crate) fn flows(&self) -> usize {
        let declared = self.declared.as_ref().map_or(0, |declared| declared.places().len());
        self.addresses.len() + declared
    }

    /// Whether nobody is a member, and no address is known.
    pub(crate) fn is_empty(&self) -> bool {
        self.locals.is_empty()
            && self.addresses.is_empty()
            && self.groups.is_empty()
            && self.declared.is_none()
    }

    /// A frame from an address came in by a port, which may have another one learned.
    pub(crate) fn learn(
        &mut self,
        now: Instant,
        address: Address,
        port: PortId,
        has_room: bool,
    ) -> Learned {
        let seen = Some(now);
        match self.addresses.get_mut(&address) {
            Some(Place { seen: None, .. }) => Learned::Nothing,
            Some(place) if place.port == port => {
                place.seen = seen;
                Learned::Nothing
            }
            _ if !has_room => Learned::Nothing,
            Some(place) => Learned::Moved(core::mem::replace(place, Place { port, seen }).port),
            None => {
                self.addresses.insert(address, Place { port, seen });
                Learned::New
            }
        }
    }

    /// Forgets what has not been seen for `age`. Tells whose address each was.
    pub(crate) fn sweep(
        &mut self,
        now: Instant,
        age: Span,
        mut forgotten: impl FnMut(PortId),
    ) -> bool {
        self.groups.sweep(now);
        let before = self.addresses.len();
        self.addresses.retain(|_, place| {
            let stays = place.seen.is_none_or(|seen| now.since(seen) < age);
            if !stays {
                forgotten(place.port);
            }
            stays
        });
        self.addresses.len() != before
    }
}
