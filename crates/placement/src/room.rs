//! A host that is being filled.

use alloc::vec::Vec;

use demand::{Bracket, Load};

use crate::pattern::Pattern;
use crate::problem::Apart;
use crate::tables::{Cells, Detail, Tables, sources};

/// Why a machine does not go to a host, beside overload.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Refusal {
    Cores,
    Memory,
    Apart,
}

/// A host of some type with machines, and how likely one more overloads it.
#[derive(Clone)]
pub(crate) struct Room<'a> {
    tables: &'a Tables<'a>,
    kind: usize,
    cells: Cells,
    pattern: Pattern,
    cores_left: u32,
    memory_left: u64,
    loads: Vec<Load>,
}

impl<'a> Room<'a> {
    pub fn new(tables: &'a Tables<'a>, kind: usize) -> Self {
        Self::empty(tables, kind, Cells::Coarse)
    }

    fn empty(tables: &'a Tables<'a>, kind: usize, cells: Cells) -> Self {
        let host = &tables.problem.types[kind];
        let grids = &tables.kinds[kind].of(cells).grids;
        Self {
            tables,
            kind,
            cells,
            pattern: Pattern::default(),
            cores_left: host.cores,
            memory_left: host.memory,
            loads: grids.iter().map(|grid| Load::new(*grid)).collect(),
        }
    }

    /// A host with these machines, whether they fit or not.
    pub fn with(tables: &'a Tables<'a>, kind: usize, pattern: &Pattern) -> Self {
        Self::filled(tables, kind, pattern, Cells::Coarse)
    }

    /// The same, added up more finely.
    pub fn fine(tables: &'a Tables<'a>, kind: usize, pattern: &Pattern) -> Self {
        Self::filled(tables, kind, pattern, Cells::Fine)
    }

    fn filled(tables: &'a Tables<'a>, kind: usize, pattern: &Pattern, cells: Cells) -> Self {
        let mut room = Self::empty(tables, kind, cells);
        for (class, count) in pattern.iter() {
            let needs = &tables.problem.classes[class];
            room.cores_left = room.cores_left.saturating_sub(needs.cores.saturating_mul(count));
            room.memory_left =
                room.memory_left.saturating_sub(needs.memory.saturating_mul(count.into()));
        }
        room.pattern = pattern.clone();
        room.load_again();
        room
    }

    fn detail(&self) -> &'a Detail {
        self.tables.kinds[self.kind].of(self.cells)
    }

    pub fn pattern(&self) -> &Pattern {
        &self.pattern
    }

    pub fn kind(&self) -> usize {
        self.kind
    }

    /// What part of the host's cores, memory and limits is left, by size; below zero if sizes say
    /// too much.
    pub fn left(&self) -> Vec<f64> {
        let sizes = &self.tables.kinds[self.kind].sizes;
        let mut left = alloc::vec![1.0; self.tables.kinds[self.kind].dimensions];
        for (class, count) in self.pattern.iter() {
            left.iter_mut()
                .zip(&sizes[class])
                .for_each(|(it, size)| *it -= size * f64::from(count));
        }
        left
    }

    /// Whether a machine of this class is refused whatever it sends.
    pub fn refuses(&self, class: usize) -> Option<Refusal> {
        let needs = &self.tables.problem.classes[class];
        if needs.cores > self.cores_left {
            return Some(Refusal::Cores);
        }
        if needs.memory > self.memory_left {
            return Some(Refusal::Memory);
        }
        let is_here = |apart: Apart| {
            let group_of =
                |class: usize| self.tables.problem.classes[class].apart.map(|it| it.group);
            self.pattern.iter().any(|(class, _)| group_of(class) == Some(apart.group))
        };
        needs.apart.is_some_and(is_here).then_some(Refusal::Apart)
    }

    /// The load on each limit.
    pub fn loads(&self) -> &[Load] {
        &self.loads
    }

    /// The share of time in which the host is asked for too much.
    pub fn overload(&self) -> Bracket {
        self.tables.joined(self.kind, self.loads.iter().map(Load::overload))
    }

    /// The same with one more machine.
    pub fn overload_with(&self, class: usize) -> Bracket {
        if self.tables.problem.classes[class].together.is_some() {
            let mut room = self.clone();
            room.pattern.add(class, 1);
            room.load_again();
            return room.overload();
        }
        let binned = &self.detail().binned[class];
        let limits = self.loads.iter().zip(binned).map(|(load, it)| load.overload_with(it));
        self.tables.joined(self.kind, limits)
    }

    /// The least share of a limit that is left with one more machine, beyond the demand that is
    /// exceeded for no longer than the goal.
    pub fn left_with(&self, class: usize) -> f64 {
        let goal = self.tables.problem.goal.epsilon;
        let left = |load: &Load| match load.grid().capacity() {
            0 => 0.0,
            capacity => 1.0 - load.reached_for(goal) as f64 / capacity as f64,
        };
        let loads: Vec<Load> = if self.tables.problem.classes[class].together.is_some() {
            let mut room = self.clone();
            room.pattern.add(class, 1);
            room.load_again();
            room.loads
        } else {
            let mut loads = self.loads.clone();
            let binned = &self.detail().binned[class];
            loads.iter_mut().zip(binned).for_each(|(load, it)| load.push(it));
            loads
        };
        loads.iter().map(left).fold(1.0, f64::min).max(0.0)
    }

    /// Adds a machine. Whether it fits is for the caller to know.
    pub fn put(&mut self, class: usize) {
        let needs = &self.tables.problem.classes[class];
        self.cores_left -= needs.cores;
        self.memory_left -= needs.memory;
        self.pattern.add(class, 1);
        if needs.together.is_some() {
            self.load_again();
            return;
        }
        let binned = &self.detail().binned[class];
        self.loads.iter_mut().zip(binned).for_each(|(load, it)| load.push(it));
    }

    /// Adds up all machines anew: those that move together are one source, which grew.
    fn load_again(&mut self) {
        let (kind, tables) = (self.kind, self.tables);
        for (limit, load) in self.loads.iter_mut().enumerate() {
            let grid = load.grid();
            *load = Load::new(grid);
            for (source, count) in sources(tables.problem, kind, limit, &self.pattern) {
                load.push_many(&grid.bin(&source), count);
            }
        }
    }
}
