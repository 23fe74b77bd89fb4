//! An end of packets underway: the addresses that their senders wrote, and what translations have
//! made of them.

use core::net::IpAddr;

use logical::objects::AddressRange;

use crate::addresses::{Addresses, Family};

/// What translations make of addresses.
#[derive(Clone, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub enum Map {
    /// Each is what it was, so many addresses further.
    Shift(u128),
    /// Each is this one.
    One(IpAddr),
    /// The hash of packets decides which of these.
    Any(Addresses),
}

impl Map {
    /// Nothing is translated.
    pub const SAME: Self = Self::Shift(0);
}

/// Addresses at an end of packets.
#[derive(Clone, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct Side {
    /// As the sender wrote them.
    pub was: Addresses,
    /// What is made of them.
    pub map: Map,
}

impl Side {
    /// Addresses that nothing has translated.
    pub const fn new(was: Addresses) -> Self {
        Self { was, map: Map::SAME }
    }

    pub fn family(&self) -> Family {
        self.was.family()
    }

    pub fn is_empty(&self) -> bool {
        self.was.is_empty() || matches!(&self.map, Map::Any(all) if all.is_empty())
    }

    /// The addresses as they are now.
    pub fn now(&self) -> Addresses {
        match &self.map {
            _ if self.was.is_empty() => self.was.clone(),
            Map::Shift(by) => self.was.shifted(*by),
            Map::One(address) => Addresses::of(self.family(), [(*address).into()]),
            Map::Any(all) => all.clone(),
        }
    }

    /// What of them is now among some.
    pub fn and(&self, some: &Addresses) -> Self {
        match &self.map {
            Map::Shift(by) => {
                let part = self.now().and(some).shifted(0u128.wrapping_sub(*by));
                Self { was: part, ..self.clone() }
            }
            Map::One(address) if some.contains(*address) => self.clone(),
            Map::One(_) => Self { was: Addresses::none(self.family()), ..self.clone() },
            Map::Any(all) => Self { map: Map::Any(all.and(some)), ..self.clone() },
        }
    }

    /// What of them is now not among some.
    pub fn minus(&self, some: &Addresses) -> Self {
        self.and(&Addresses::all(self.family()).minus(some))
    }

    /// They, translated from a range to another of the same length. All of them are in the first.
    pub fn shifted(&self, from: AddressRange, to: AddressRange) -> Self {
        let start = |range: AddressRange| Addresses::start(range);
        let more = start(to).wrapping_sub(start(from));
        let map = match &self.map {
            Map::Shift(by) => Map::Shift(by.wrapping_add(more)),
            Map::One(address) => match to.at(from.place(*address)) {
                Some(other) => Map::One(other),
                None => self.map.clone(),
            },
            Map::Any(all) => Map::Any(all.shifted(more)),
        };
        Self { was: self.was.clone(), map }
    }

    /// They, translated to one address.
    pub fn to_one(&self, address: IpAddr) -> Self {
        Self { was: self.was.clone(), map: Map::One(address) }
    }

    /// They, translated to some of which a hash chooses.
    pub fn to_any(&self, all: Addresses) -> Self {
        Self { was: self.was.clone(), map: Map::Any(all) }
    }
}
