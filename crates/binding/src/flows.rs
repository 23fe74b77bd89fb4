//! What was decided of flows: the cache in front of the pipeline.
//!
//! A frame whose flow is known is not decided again by rules and routes: its flow's first frame
//! was. Only what differs from frame to frame is looked at in it. What is remembered depends on
//! [cells](classifier::cells): that of its network's rows, and those of the ports whose rules
//! decided. So a change of one port's rules forgets no other ports' flows. Ports have numbers here,
//! and a port's place is looked up by that when a frame goes: ports come, go and move without
//! anything being forgotten.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;

use classifier::cells::{CellId, Cells, Depends};
use classifier::exact::{Exact, Found};
use classifier::table::HashKey;
use datapath::Remote;
use logical::objects::Identity;
use lossless::PortId;
use pipeline::{Gated, Head, Key, Ports, Way};
use units::hash::splitmix64;

use crate::hits::HitAt;

/// The most ports that flows speak of.
const PORTS: usize = 1 << 17;

/// A port that flows come from or go to.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Number(u32);

/// Where a port is.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum Site {
    /// On no host that is known.
    #[default]
    Nowhere,
    /// Here, or a child of the port that is here.
    Here(PortId),
    /// On another host.
    There(Remote),
}

/// Where a flow's frames come from.
#[derive(Clone, Copy, Debug)]
pub enum Source {
    /// A machine of this host.
    Port(Number),
    /// Another host: the labels of the port there, and of the port here that they are for.
    Far(u32, u32),
}

impl Source {
    /// As a flow's [key](Head::key) has it.
    #[inline(always)]
    pub const fn place(self) -> u64 {
        match self {
            // Labels of ports have 31 bits, and 0 is none.
            Self::Port(Number(port)) => (port as u64) << 31,
            Self::Far(from, to) => (from as u64) << 31 | to as u64,
        }
    }
}

/// What was decided of a flow. What every frame needs comes [first](Exact).
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct Flow {
    /// Who it is for.
    pub to: Number,
    /// What follows for its frames as things are now.
    pub now: Now,
    /// Its way from its sender, if that is here.
    pub way: Option<Way>,
    /// What its receiver's port says, if that is here.
    pub gate: Option<Gated>,
}

impl Flow {
    /// The ports on which it depends: flows that differ in the others are one here.
    pub fn ports(&self) -> Ports {
        let way = self.way.as_ref().map(Way::ports);
        way.max(self.gate.as_ref().map(Gated::ports)).unwrap_or(Ports::Both)
    }
}

/// What follows of a flow's decision as things are now: worked out once, and good until anything
/// changes.
#[derive(Clone, Copy, Debug, Default)]
pub struct Now {
    /// The counters of the rules that let its frames pass, at its sender's port and its receiver's.
    pub counters: [Option<HitAt>; 2],
    /// Whether all its frames pass as they are, and change nothing.
    pub passes: bool,
}

/// Where a flow is remembered.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum At {
    /// Among those over IPv4.
    V4(Found),
    /// Among those over IPv6.
    V6(Found),
}

/// Flows, and the ports that they name.
#[derive(Debug)]
pub struct Flows {
    /// How many of each version of IP are to be remembered.
    most: usize,
    cells: Cells,
    /// Whether flows that depend on these ports have been remembered.
    has: [bool; Ports::ALL.len()],
    v4: Exact<4, Flow>,
    v6: Exact<7, Flow>,
    numbers: BTreeMap<Identity, Number>,
    names: Vec<Identity>,
    sites: Vec<Site>,
}

impl Flows {
    /// With room for so many flows of each version of IP. `secret`: nobody who can choose flows may
    /// know it.
    pub fn new(most: u32, secret: [u64; 2]) -> Self {
        // Few bits of a secret are spread over all.
        let secret = HashKey(secret.map(splitmix64));
        Self {
            most: most as usize,
            cells: Cells::default(),
            v4: Exact::new(most as usize, secret),
            v6: Exact::new(most as usize, secret),
            has: Default::default(),
            numbers: BTreeMap::new(),
            names: Vec::new(),
            sites: Vec::new(),
        }
    }

    /// Something that flows will depend on.
    pub fn add_cell(&mut self) -> CellId {
        self.cells.add()
    }

    /// What depends on this is forgotten.
    pub fn change(&mut self, cell: CellId) {
        self.cells.change(cell);
    }

    /// How many flows are remembered, those too that are forgotten.
    pub const fn len(&self) -> usize {
        self.v4.len() + self.v6.len()
    }

    /// How many flows of each version of IP there is room for, if those are fewer than there were
    /// to be: there was no memory for more.
    pub fn short(&self) -> Option<usize> {
        let least = self.v4.most().min(self.v6.most());
        (least < self.most).then_some(least)
    }

    /// Where it is remembered what was decided of flows that fare as a packet's does, if they
    /// depend on these ports, and whether that is [fresh](Self::fresh): if not, it may not be true.
    #[inline(always)]
    pub fn find(&self, head: &Head, ports: Ports) -> Option<(At, bool)> {
        if !self.has[ports as usize] {
            return None;
        }
        Some(match &head.key_by(ports) {
            Key::V4(key) => {
                let (found, is_fresh) = self.v4.seek(&self.cells, key)?;
                (At::V4(found), is_fresh)
            }
            Key::V6(key) => {
                let (found, is_fresh) = self.v6.seek(&self.cells, key)?;
                (At::V6(found), is_fresh)
            }
        })
    }

    /// What was found once, if it is still there, and was [renewed](Self::renew) since anything has
    /// changed.
    #[inline(always)]
    pub fn fresh(&self, at: At) -> Option<&Flow> {
        match at {
            At::V4(found) => self.v4.fresh(&self.cells, found),
            At::V6(found) => self.v6.fresh(&self.cells, found),
        }
    }

    /// What was found, if it is still there and true: to be told what follows as things are now.
    pub fn renew(&mut self, at: At) -> Option<&mut Flow> {
        match at {
            At::V4(found) => self.v4.renew(&self.cells, found),
            At::V6(found) => self.v6.renew(&self.cells, found),
        }
    }

    /// Things have changed that no decision depends on, but what follows of decisions does.
    pub const fn tick(&mut self) {
        self.cells.tick();
    }

    /// What was found, to have connections noted.
    #[inline]
    pub fn at_mut(&mut self, at: At) -> Option<&mut Flow> {
        match at {
            At::V4(found) => self.v4.at_mut(found),
            At::V6(found) => self.v6.at_mut(found),
        }
    }

    /// Remembers what was decided of a packet's flow, and of those that fare alike, as long as
    /// nothing of that changes.
    pub fn insert(&mut self, head: &Head, cells: impl IntoIterator<Item = CellId>, flow: Flow) {
        if self.most == 0 {
            return;
        }
        let mut depends = Depends::now(&self.cells);
        cells.into_iter().for_each(|cell| depends.on(cell));
        let ports = flow.ports();
        self.has[ports as usize] = true;
        match head.key_by(ports) {
            Key::V4(key) => self.v4.insert(&self.cells, key, flow, depends),
            Key::V6(key) => self.v6.insert(&self.cells, key, flow, depends),
        }
    }

    /// Where a port is.
    #[inline(always)]
    pub fn site(&self, port: Number) -> Site {
        self.sites.get(port.0 as usize).copied().unwrap_or_default()
    }

    /// Whether as many ports have numbers as can have.
    pub const fn is_full(&self) -> bool {
        self.names.len() >= PORTS
    }

    /// Forgets all flows, and the numbers of ports.
    pub fn forget(&mut self) {
        self.v4.clear();
        self.v6.clear();
        self.has = Default::default();
        (self.numbers, self.names, self.sites) = (BTreeMap::new(), Vec::new(), Vec::new());
    }

    /// A port's number, which stays until all is forgotten. `site` says where a new one is.
    pub fn number(&mut self, name: &Identity, site: impl FnOnce(&Identity) -> Site) -> Number {
        if let Some(number) = self.numbers.get(name) {
            return *number;
        }
        let number = Number(self.names.len() as u32);
        self.numbers.insert(name.clone(), number);
        self.names.push(name.clone());
        self.sites.push(site(name));
        number
    }

    /// Ports are elsewhere.
    pub fn place(&mut self, site: impl Fn(&Identity) -> Site) {
        for (name, place) in self.names.iter().zip(&mut self.sites) {
            *place = site(name);
        }
        self.tick();
    }
}
