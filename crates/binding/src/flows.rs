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
use pipeline::{Gated, Head, WORDS, Way};
use units::hash::splitmix64;

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
            Self::Port(Number(port)) => port as u64,
            // Labels of ports have 31 bits.
            Self::Far(from, to) => 1 << 63 | (from as u64) << 31 | to as u64,
        }
    }
}

/// What was decided of a flow.
#[derive(Clone, Copy, Debug)]
pub struct Flow {
    /// Its way from its sender, if that is here.
    pub way: Option<Way>,
    /// Who it is for.
    pub to: Number,
    /// What its receiver's port says, if that is here.
    pub gate: Option<Gated>,
}

/// Flows, and the ports that they name.
#[derive(Debug)]
pub struct Flows {
    /// Whether any are remembered.
    keeps: bool,
    cells: Cells,
    exact: Exact<WORDS, Flow>,
    numbers: BTreeMap<Identity, Number>,
    names: Vec<Identity>,
    sites: Vec<Site>,
}

impl Flows {
    /// With room for so many flows. `secret`: nobody who can choose flows may know it.
    pub fn new(most: u32, secret: [u64; 2]) -> Self {
        Self {
            keeps: most > 0,
            cells: Cells::default(),
            // Few bits of a secret are spread over all.
            exact: Exact::new(most as usize, HashKey(secret.map(splitmix64))),
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
        self.exact.len()
    }

    /// What was decided of a packet's flow, and where that is remembered.
    #[inline(always)]
    pub fn find(&self, head: &Head) -> Option<(Found, &Flow)> {
        self.exact.seek(&self.cells, &head.key)
    }

    /// What was found once, if it is still there and true.
    #[inline(always)]
    pub fn at(&self, found: Found) -> Option<&Flow> {
        self.exact.at(&self.cells, found)
    }

    /// The same, to have connections noted.
    #[inline]
    pub fn at_mut(&mut self, found: Found) -> Option<&mut Flow> {
        self.exact.at_mut(found)
    }

    /// Remembers what was decided of a packet's flow, as long as nothing of that changes.
    pub fn insert(&mut self, head: &Head, cells: impl IntoIterator<Item = CellId>, flow: Flow) {
        if !self.keeps {
            return;
        }
        let mut depends = Depends::now(&self.cells);
        cells.into_iter().for_each(|cell| depends.on(cell));
        self.exact.insert(&self.cells, head.key, flow, depends);
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
        self.exact.clear();
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
    }
}
