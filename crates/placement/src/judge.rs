//! Whether what is on a host stays within the goal, decided as finely as it takes.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;

use demand::{Bracket, Grid, Load, Source, Verdict};

use crate::pattern::Pattern;
use crate::room::Room;
use crate::tables::{Tables, sources};

/// Decides on coarse grids, and on fine ones where these leave it open.
pub(crate) struct Judge<'a> {
    pub tables: &'a Tables<'a>,
    /// Hosts that were added up finely, as more than one machine is asked about each.
    fine: BTreeMap<(usize, Pattern), Room<'a>>,
}

/// More fine rooms than this are not kept.
const MOST_ROOMS: usize = 32;

impl<'a> Judge<'a> {
    pub fn new(tables: &'a Tables<'a>) -> Self {
        Self { tables, fine: BTreeMap::new() }
    }

    /// Whether one more machine of this class fits.
    pub fn accepts(&mut self, room: &Room<'_>, class: usize) -> bool {
        room.refuses(class).is_none() && self.verdict_with(room, class) == Verdict::Within
    }

    /// Whether the host stays within the goal with one more machine of this class.
    pub fn verdict_with(&mut self, room: &Room<'_>, class: usize) -> Verdict {
        self.judged_with(room, class).0
    }

    /// The same, with the overload that decided.
    pub fn judged_with(&mut self, room: &Room<'_>, class: usize) -> (Verdict, Bracket) {
        let overload = room.overload_with(class);
        match self.compared(overload) {
            Verdict::Undecided => {
                let overload = self.fine(room.kind(), room.pattern()).overload_with(class);
                (self.compared(overload), overload)
            }
            verdict => (verdict, overload),
        }
    }

    /// Whether a host with these machines stays within the goal.
    pub fn verdict(&mut self, kind: usize, pattern: &Pattern) -> Verdict {
        match self.compared(Room::with(self.tables, kind, pattern).overload()) {
            Verdict::Undecided => {
                let overload = self.fine(kind, pattern).overload();
                self.compared(overload)
            }
            verdict => verdict,
        }
    }

    fn compared(&self, overload: Bracket) -> Verdict {
        let epsilon = self.tables.problem.goal.epsilon;
        if overload.high <= epsilon {
            Verdict::Within
        } else if overload.low > epsilon {
            Verdict::Beyond
        } else {
            Verdict::Undecided
        }
    }

    fn fine(&mut self, kind: usize, pattern: &Pattern) -> &Room<'a> {
        if self.fine.len() >= MOST_ROOMS {
            self.fine.clear();
        }
        let tables = self.tables;
        self.fine
            .entry((kind, pattern.clone()))
            .or_insert_with(|| Room::fine(tables, kind, pattern))
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
