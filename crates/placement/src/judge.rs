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

/// The part of the goal that makes no difference to whether it is met.
const NEGLIGIBLE: f64 = 1e-6;

impl<'a> Judge<'a> {
    pub fn new(tables: &'a Tables<'a>) -> Self {
        Self { tables, fine: BTreeMap::new() }
    }

    /// Whether one more machine of this class fits.
    pub fn accepts(&mut self, room: &mut Room<'a>, class: usize) -> bool {
        room.refuses(class).is_none() && self.verdict_with(room, class) == Verdict::Within
    }

    /// Whether the host stays within the goal with one more machine of this class.
    pub fn verdict_with(&mut self, room: &mut Room<'a>, class: usize) -> Verdict {
        // Most machines are accepted by bounds alone.
        match self.compared(room.overload_with(class, 1.0)) {
            Verdict::Within => Verdict::Within,
            _ => self.judged_but(room, class, NEGLIGIBLE * self.tables.problem.goal.epsilon).0,
        }
    }

    /// The same, with the overload that decided.
    pub fn judged_with(&mut self, room: &mut Room<'a>, class: usize) -> (Verdict, Bracket) {
        self.judged_but(room, class, 0.0)
    }

    fn judged_but(
        &mut self,
        room: &mut Room<'a>,
        class: usize,
        negligible: f64,
    ) -> (Verdict, Bracket) {
        let overload = room.overload_with(class, negligible);
        match self.compared(overload) {
            Verdict::Undecided => {
                let fine = self.fine(room.kind(), room.pattern());
                let overload = fine.overload_with(class, negligible);
                (self.compared(overload), overload)
            }
            verdict => (verdict, overload),
        }
    }

    /// Whether a host with these machines stays within the goal.
    pub fn verdict(&mut self, kind: usize, pattern: &Pattern) -> Verdict {
        let negligible = NEGLIGIBLE * self.tables.problem.goal.epsilon;
        match self.compared(Room::with(self.tables, kind, pattern).overload(negligible)) {
            Verdict::Undecided => {
                let overload = self.fine(kind, pattern).overload(negligible);
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

    fn fine(&mut self, kind: usize, pattern: &Pattern) -> &mut Room<'a> {
        let key = (kind, pattern.clone());
        if !self.fine.contains_key(&key) {
            // A host that is being filled has most of them already.
            let most = self
                .fine
                .iter()
                .filter(|((of, it), _)| *of == kind && it.is_within(pattern))
                .max_by_key(|((_, it), _)| it.machines())
                .map(|(_, room)| room.clone().grown(pattern));
            if self.fine.len() >= MOST_ROOMS {
                self.fine.clear();
            }
            let room = most.unwrap_or_else(|| Room::fine(self.tables, kind, pattern));
            self.fine.insert(key.clone(), room);
        }
        self.fine.get_mut(&key).expect("it was just inserted")
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

#[cfg(test)]
mod tests {
    use alloc::vec;

    use proptest::prelude::*;

    use super::*;
    use crate::problem::{Class, Goal, HostType, Limit, Periods, Problem};

    /// Three classes, of which the last may move together, on hosts with two limits.
    fn any_problem() -> impl Strategy<Value = Problem> {
        let source = (1u64..300, 0.01..0.9).prop_map(|(rate, share)| Source::on_off(rate, share));
        let loads = prop::array::uniform3(prop::array::uniform2(source));
        let periods = prop_oneof![
            Just((Periods::Worst, [0, 0])),
            Just((Periods::Worst, [0, 1])),
            Just((Periods::Mean(vec![0.25, 0.75]), [0, 1])),
        ];
        (loads, 500u64..3000, 500u64..30_000, any::<bool>(), periods).prop_map(
            |(loads, one, other, is_together, (periods, period))| Problem {
                goal: Goal { epsilon: 1e-2, periods },
                types: vec![HostType {
                    cores: 100,
                    memory: 100,
                    limits: vec![
                        Limit { capacity: one, period: period[0] },
                        Limit { capacity: other, period: period[1] },
                    ],
                    cost: 1,
                }],
                hosts: vec![],
                classes: loads
                    .into_iter()
                    .enumerate()
                    .map(|(place, loads)| Class {
                        count: 100,
                        cores: 1,
                        memory: 1,
                        loads: vec![loads.to_vec()],
                        together: (is_together && place == 2).then_some(0),
                        apart: None,
                        cluster: None,
                    })
                    .collect(),
                clusters: vec![],
            },
        )
    }

    proptest! {
        /// A room that grew and left sums undone decides as one in which all is added up.
        #[test]
        fn what_is_added_up_late_decides_alike(
            problem in any_problem(),
            machines in prop::collection::vec(0usize..3, 1..60),
        ) {
            let tables = Tables::new(&problem);
            let (mut late, mut early) = (Judge::new(&tables), Judge::new(&tables));
            let mut room = Room::new(&tables, 0);
            for class in machines {
                let verdict = late.verdict_with(&mut room, class);
                let mut whole = Room::with(&tables, 0, room.pattern());
                prop_assert_eq!(verdict, early.judged_with(&mut whole, class).0);
                let exact = overload(&tables, 0, &room.pattern().with(class), 1 << 14);
                let bounds = room.overload_with(class, 1.0);
                prop_assert!(bounds.high >= exact.low, "{bounds:?} {exact:?}");
                if verdict == Verdict::Within {
                    prop_assert!(exact.low <= problem.goal.epsilon);
                    room.put(class);
                }
            }
        }
    }
}
