//! Whether what is on a host stays within the goal, decided as finely as it takes.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;

use demand::{Bracket, Grid, Load, Source, Verdict};

use crate::pattern::Pattern;
use crate::room::Room;
use crate::tables::{Tables, sources};

/// Decides and remembers what coarse grids leave open.
pub(crate) struct Judge<'a> {
    pub tables: &'a Tables<'a>,
    decided: BTreeMap<(usize, Pattern), Verdict>,
}

/// Grids are refined up to so many cells.
const MOST_CELLS: u64 = 16_384;

impl<'a> Judge<'a> {
    pub fn new(tables: &'a Tables<'a>) -> Self {
        Self { tables, decided: BTreeMap::new() }
    }

    /// Whether one more machine of this class fits.
    pub fn accepts(&mut self, room: &Room<'_>, class: usize) -> bool {
        room.refuses(class).is_none() && self.verdict_with(room, class) == Verdict::Within
    }

    /// Whether the host stays within the goal with one more machine of this class.
    pub fn verdict_with(&mut self, room: &Room<'_>, class: usize) -> Verdict {
        match self.coarse(room.overload_with(class)) {
            Verdict::Undecided => self.refined(room.kind(), room.pattern().with(class)),
            verdict => verdict,
        }
    }

    /// Whether a host with these machines stays within the goal.
    pub fn verdict(&mut self, kind: usize, pattern: &Pattern) -> Verdict {
        match self.coarse(Room::with(self.tables, kind, pattern).overload()) {
            Verdict::Undecided => self.refined(kind, pattern.clone()),
            verdict => verdict,
        }
    }

    fn coarse(&self, overload: Bracket) -> Verdict {
        let epsilon = self.tables.problem.goal.epsilon;
        if overload.high <= epsilon {
            Verdict::Within
        } else if overload.low > epsilon {
            Verdict::Beyond
        } else {
            Verdict::Undecided
        }
    }

    fn refined(&mut self, kind: usize, pattern: Pattern) -> Verdict {
        if let Some(verdict) = self.decided.get(&(kind, pattern.clone())) {
            return *verdict;
        }
        let mut cells = 4096;
        let verdict = loop {
            let verdict = self.coarse(overload(self.tables, kind, &pattern, cells));
            if verdict != Verdict::Undecided || cells >= MOST_CELLS {
                break verdict;
            }
            cells *= 2;
        };
        self.decided.insert((kind, pattern), verdict);
        verdict
    }
}

/// The share of time in which these machines ask a host of this type for too much, on grids of so
/// many cells.
pub(crate) fn overload(tables: &Tables<'_>, kind: usize, pattern: &Pattern, cells: u64) -> Bracket {
    let problem = tables.problem;
    let limits = problem.types[kind].limits.iter().enumerate().map(|(limit, it)| {
        let sources: Vec<(Source, u32)> = sources(problem, kind, limit, pattern);
        let grid = Grid::fitting(it.capacity, sources.iter().map(|it| &it.0), cells, cells);
        let mut load = Load::new(grid);
        sources.iter().for_each(|(source, count)| load.push_many(&grid.bin(source), *count));
        load.overload()
    });
    tables.joined(kind, limits)
}
