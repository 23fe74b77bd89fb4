//! A class of packets underway: its ends, what it asks for, and what it came through.

use alloc::string::String;
use alloc::vec::Vec;

use logical::topology::RouterPortIndex;

use crate::addresses::{Addresses, Family};
use crate::bits::Bits;
use crate::side::{Map, Side};
use crate::space::{End, SAME_PORTS, Space};

/// A class of packets underway.
#[derive(Clone, Debug)]
pub struct Flow {
    pub family: Family,
    /// The class of the Ethernet address that whoever sent it last has.
    pub mac: u32,
    /// The class of the source's address, and which peers its port is among.
    pub source: End,
    pub from: Side,
    pub to: Side,
    /// What they ask for, as their senders wrote it.
    pub atoms: Bits,
    /// What translations have made of atoms: the number of a map of the space's.
    pub ports: u32,
    /// What it came through.
    pub path: Vec<String>,
    /// How many routers it came through.
    pub routers: usize,
    /// Whether a hash has chosen its way.
    pub is_chosen: bool,
}

impl Flow {
    /// As a port's machine sends it.
    pub fn new(
        family: Family,
        mac: u32,
        source: End,
        from: Addresses,
        to: Addresses,
        atoms: Bits,
    ) -> Self {
        let path = Vec::new();
        let (from, to) = (Side::new(from), Side::new(to));
        let ports = SAME_PORTS;
        Self { family, mac, source, from, to, atoms, ports, path, routers: 0, is_chosen: false }
    }

    /// Those that are from some addresses.
    pub fn from(&self, some: &Addresses) -> Self {
        self.with_from(self.from.and(some))
    }

    /// Those that are from none of some addresses.
    pub fn not_from(&self, some: &Addresses) -> Self {
        self.with_from(self.from.minus(some))
    }

    /// Those that are for some addresses.
    pub fn to(&self, some: &Addresses) -> Self {
        self.with_to(self.to.and(some))
    }

    /// Those that are for none of some addresses.
    pub fn not_to(&self, some: &Addresses) -> Self {
        self.with_to(self.to.minus(some))
    }

    fn with_from(&self, from: Side) -> Self {
        let is_chosen = self.is_chosen || is_cut(&self.from, &from);
        Self { from, is_chosen, ..self.clone() }
    }

    fn with_to(&self, to: Side) -> Self {
        let is_chosen = self.is_chosen || is_cut(&self.to, &to);
        Self { to, is_chosen, ..self.clone() }
    }

    /// Those that ask for some atoms, and the others. `some`: as they are now.
    pub fn asking(&self, space: &Space<'_>, some: &Bits) -> [Self; 2] {
        let hit = space.before(self.ports, some, &self.atoms);
        let rest = self.atoms.minus(&hit);
        [hit, rest].map(|atoms| Self { atoms, ..self.clone() })
    }

    pub fn is_empty(&self) -> bool {
        self.from.is_empty() || self.to.is_empty() || self.atoms.is_empty()
    }
}

/// Whether a hash has chosen some of an end's addresses and not others.
fn is_cut(before: &Side, now: &Side) -> bool {
    matches!((&before.map, &now.map), (Map::Any(all), Map::Any(some)) if all != some)
}

/// Packets as they came to a router.
#[derive(Clone, Debug)]
pub struct Entered {
    /// Its port.
    pub port: RouterPortIndex,
    source: End,
    pub from: Map,
    to: Map,
    ports: u32,
}

impl Entered {
    /// As a class comes.
    pub fn new(port: RouterPortIndex, flow: &Flow) -> Self {
        let (from, to) = (flow.from.map.clone(), flow.to.map.clone());
        Self { port, source: flow.source, from, to, ports: flow.ports }
    }

    /// A class as it came here.
    pub fn before(&self, flow: &Flow) -> Flow {
        Flow {
            source: self.source,
            from: Side { was: flow.from.was.clone(), map: self.from.clone() },
            to: Side { was: flow.to.was.clone(), map: self.to.clone() },
            ports: self.ports,
            ..flow.clone()
        }
    }

    /// A part of a class as it came here, as it is now.
    pub fn after(part: Flow, now: &Flow) -> Flow {
        Flow {
            source: now.source,
            from: Side { was: part.from.was, map: now.from.map.clone() },
            to: Side { was: part.to.was, map: now.to.map.clone() },
            ports: now.ports,
            ..part
        }
    }
}
