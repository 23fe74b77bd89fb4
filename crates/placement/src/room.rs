//! A host that is being filled.

use alloc::vec;
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
///
/// Chernoff's bound is kept for each limit, which costs an addition for each machine. Loads are
/// added up when that bound does not tell enough, and then only of the limits for which it does
/// not.
#[derive(Clone)]
pub(crate) struct Room<'a> {
    tables: &'a Tables<'a>,
    kind: usize,
    cells: Cells,
    pattern: Pattern,
    /// The class of each machine, in the order that they came.
    machines: Vec<usize>,
    cores_left: u32,
    memory_left: u64,
    sums: Vec<Sum>,
}

/// What machines ask of one limit.
#[derive(Clone, Default)]
struct Sum {
    /// What the first machines ask for, once it was needed.
    load: Option<Load>,
    /// How many these are.
    added: usize,
    /// The sum of all machines' log-moments at the limit's tilt.
    log_moment: f64,
}

impl<'a> Room<'a> {
    pub fn new(tables: &'a Tables<'a>, kind: usize) -> Self {
        Self::empty(tables, kind, Cells::Coarse)
    }

    fn empty(tables: &'a Tables<'a>, kind: usize, cells: Cells) -> Self {
        let host = &tables.problem.types[kind];
        Self {
            tables,
            kind,
            cells,
            pattern: Pattern::default(),
            machines: Vec::new(),
            cores_left: host.cores,
            memory_left: host.memory,
            sums: vec![Sum::default(); host.limits.len()],
        }
    }

    /// A host with these machines, whether they fit or not.
    pub fn with(tables: &'a Tables<'a>, kind: usize, pattern: &Pattern) -> Self {
        Self::new(tables, kind).grown(pattern)
    }

    /// The same, added up more finely.
    pub fn fine(tables: &'a Tables<'a>, kind: usize, pattern: &Pattern) -> Self {
        Self::empty(tables, kind, Cells::Fine).grown(pattern)
    }

    /// The host when it has these machines, which are those that it has and perhaps more; whether
    /// they fit or not.
    pub fn grown(mut self, pattern: &Pattern) -> Self {
        for (class, count) in pattern.iter() {
            for _ in self.pattern.count(class)..count {
                self.put(class);
            }
        }
        self
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

    /// The load on a limit.
    pub fn load(&mut self, limit: usize) -> &Load {
        let (kind, tables, detail) = (self.kind, self.tables, self.detail());
        let grid = detail.grids[limit];
        let sum = &mut self.sums[limit];
        let more = &self.machines[sum.added..];
        let is_together = |class: &usize| tables.problem.classes[*class].together.is_some();
        if more.iter().any(is_together) {
            // Those that move together are one source, which grew.
            let mut load = Load::new(grid);
            for (source, count) in sources(tables.problem, kind, limit, &self.pattern) {
                load.push_many(&grid.bin(&source), count);
            }
            sum.load = Some(load);
        } else {
            let load = sum.load.get_or_insert_with(|| Load::new(grid));
            more.iter().for_each(|class| load.push(&detail.binned[*class][limit]));
        }
        sum.added = self.machines.len();
        sum.load.as_ref().expect("it was just added up")
    }

    /// The share of time in which the host is asked for too much. A limit that is exceeded for no
    /// more than a negligible share is not added up: its bound counts.
    pub fn overload(&mut self, negligible: f64) -> Bracket {
        self.overload_of(None, negligible)
    }

    /// The same with one more machine.
    pub fn overload_with(&mut self, class: usize, negligible: f64) -> Bracket {
        if self.tables.problem.classes[class].together.is_some() {
            let mut room = self.clone();
            room.put(class);
            return room.overload(negligible);
        }
        self.overload_of(Some(class), negligible)
    }

    fn overload_of(&mut self, more: Option<usize>, negligible: f64) -> Bracket {
        let detail = self.detail();
        let limit = |limit: usize| {
            let bound = self.bound(limit, more);
            if bound <= negligible {
                return Bracket { low: 0.0, high: bound };
            }
            let load = self.load(limit);
            let Bracket { low, high } = match more {
                Some(class) => load.overload_with(&detail.binned[class][limit]),
                None => load.overload(),
            };
            Bracket { low, high: high.min(bound) }
        };
        let limits: Vec<Bracket> = (0..detail.grids.len()).map(limit).collect();
        self.tables.joined(self.kind, limits)
    }

    /// Chernoff's bound on the share of time in which a limit is exceeded.
    fn bound(&self, limit: usize, more: Option<usize>) -> f64 {
        let tables = &self.tables.kinds[self.kind];
        let more = more.map_or(0.0, |class| tables.log_moments[class][limit]);
        libm::exp(self.sums[limit].log_moment + more - tables.log_rooms[limit]).min(1.0)
    }

    /// The least share of a limit that is left with one more machine, beyond the demand that is
    /// exceeded for no longer than the goal.
    pub fn left_with(&mut self, class: usize) -> f64 {
        let goal = self.tables.problem.goal.epsilon;
        let left = |load: &Load| match load.grid().capacity() {
            0 => 0.0,
            capacity => 1.0 - load.reached_for(goal) as f64 / capacity as f64,
        };
        // What is here is added up once for all classes that are asked about.
        (0..self.sums.len()).for_each(|limit| {
            self.load(limit);
        });
        let mut room = self.clone();
        room.put(class);
        (0..room.sums.len()).map(|limit| left(room.load(limit))).fold(1.0, f64::min).max(0.0)
    }

    /// Adds a machine. Whether it fits is for the caller to know.
    pub fn put(&mut self, class: usize) {
        let needs = &self.tables.problem.classes[class];
        self.cores_left = self.cores_left.saturating_sub(needs.cores);
        self.memory_left = self.memory_left.saturating_sub(needs.memory);
        self.pattern.add(class, 1);
        self.machines.push(class);
        let log_moments = &self.tables.kinds[self.kind].log_moments[class];
        self.sums.iter_mut().zip(log_moments).for_each(|(it, more)| it.log_moment += more);
    }
}
