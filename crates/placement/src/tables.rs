//! What is computed once of a problem: loads in steps of grids, and sizes.

use alloc::vec;
use alloc::vec::Vec;

use demand::deviations::{effective_bandwidth, filling_tilt, log_moment};
use demand::{Binned, Bracket, Grid, Source};

use crate::pattern::Pattern;
use crate::problem::{Limit, Periods, Problem};

/// A problem, and what is looked up of it again and again.
pub struct Tables<'a> {
    pub(crate) problem: &'a Problem,
    /// By host type.
    pub(crate) kinds: Vec<Kind>,
}

/// What is looked up of a host type.
pub(crate) struct Kind {
    coarse: Detail,
    fine: Detail,
    /// What part of a host one machine of each class takes: of its cores, its memory, and of each
    /// limit by effective bandwidth. `sizes[class][dimension]`.
    pub sizes: Vec<Vec<f64>>,
    /// The log-moment of each class's load on each limit, at the tilt that fills the limit:
    /// `log_moments[class][limit]`. Infinite for machines that move together, whose log-moments do
    /// not add up.
    pub log_moments: Vec<Vec<f64>>,
    /// The logarithm of Chernoff's bound on a limit's overload is the sum of log-moments less this.
    pub log_rooms: Vec<f64>,
    /// Cores, memory, and limits.
    pub dimensions: usize,
}

/// How finely loads are added up.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Cells {
    /// To fill hosts.
    Coarse,
    /// For what that cannot decide.
    Fine,
}

/// Loads in steps of grids.
pub(crate) struct Detail {
    /// The grid of each limit.
    pub grids: Vec<Grid>,
    /// Each class's load on each limit: `binned[class][limit]`.
    pub binned: Vec<Vec<Binned>>,
}

const COARSE_CELLS: u64 = 1024;
const FINE_CELLS: u64 = 8192;
/// Cells of a coarse grid on which nothing is rounded.
pub(crate) const EXACT_CELLS: u64 = 2048;

/// The part by which bounds allow for rounding: far more than thousands of additions make.
const ROUNDING: f64 = 1e-12;

impl<'a> Tables<'a> {
    /// The tables of a problem.
    ///
    /// # Panics
    ///
    /// If the problem does not pass its [`Problem::check`].
    pub fn new(problem: &'a Problem) -> Self {
        problem.check().unwrap_or_else(|error| panic!("{error}"));
        let kinds = (0..problem.types.len()).map(|kind| Kind::new(problem, kind)).collect();
        Self { problem, kinds }
    }

    /// One figure of the overload of each limit of a host type.
    pub(crate) fn joined(&self, kind: usize, limits: impl IntoIterator<Item = Bracket>) -> Bracket {
        let limits: Vec<(usize, Bracket)> =
            self.problem.types[kind].limits.iter().map(|it| it.period).zip(limits).collect();
        let in_period = |period: usize| -> Bracket {
            limits.iter().filter(|(it, _)| *it == period).map(|(_, bracket)| *bracket).collect()
        };
        let none = Bracket { low: 0.0, high: 0.0 };
        match &self.problem.goal.periods {
            Periods::Worst => {
                let periods = limits.iter().map(|(period, _)| period + 1).max().unwrap_or(0);
                (0..periods).map(in_period).fold(none, |worst, it| Bracket {
                    low: worst.low.max(it.low),
                    high: worst.high.max(it.high),
                })
            }
            Periods::Mean(shares) => {
                shares.iter().enumerate().fold(none, |sum, (period, share)| {
                    let Bracket { low, high } = in_period(period);
                    Bracket { low: sum.low + share * low, high: sum.high + share * high }
                })
            }
        }
    }
}

impl Kind {
    fn new(problem: &Problem, kind: usize) -> Self {
        let host = &problem.types[kind];
        let loads = |limit: usize| problem.classes.iter().map(move |it| &it.loads[kind][limit]);
        let mut sizes: Vec<Vec<f64>> = problem
            .classes
            .iter()
            .map(|class| {
                let part = |need: f64, have: f64| if have > 0.0 { need / have } else { need };
                [
                    part(class.cores.into(), host.cores.into()),
                    part(class.memory as f64, host.memory as f64),
                ]
                .into()
            })
            .collect();
        let mut log_moments = vec![Vec::new(); problem.classes.len()];
        let mut log_rooms = Vec::new();
        for (limit, it) in host.limits.iter().enumerate() {
            let mix: Vec<(&Source, u32)> = loads(limit)
                .zip(&problem.classes)
                .map(|(load, class)| (load, class.count))
                .collect();
            let epsilon = problem.goal.epsilon;
            let tilt = filling_tilt(it.capacity, &mix, epsilon).unwrap_or(0.0);
            // Sources fit, by Chernoff's bound, if their effective bandwidths sum to less than
            // this.
            let room =
                if tilt > 0.0 { it.capacity as f64 + libm::log(epsilon) / tilt } else { 1.0 };
            for (class, load) in loads(limit).enumerate() {
                sizes[class].push(effective_bandwidth(load, tilt) / room.max(1.0));
                let is_alone = problem.classes[class].together.is_none();
                // Rounding errors are of the size of the largest power, so are well within this.
                let rounding = ROUNDING * tilt * load.peak() as f64;
                log_moments[class].push(match is_alone {
                    true => log_moment(load, tilt) + rounding,
                    false => f64::INFINITY,
                });
            }
            log_rooms.push(tilt * it.capacity as f64 * (1.0 - ROUNDING));
        }
        Self {
            coarse: Detail::new(problem, kind, COARSE_CELLS, EXACT_CELLS),
            fine: Detail::new(problem, kind, FINE_CELLS, FINE_CELLS),
            sizes,
            log_moments,
            log_rooms,
            dimensions: host.limits.len() + 2,
        }
    }

    pub fn of(&self, cells: Cells) -> &Detail {
        match cells {
            Cells::Coarse => &self.coarse,
            Cells::Fine => &self.fine,
        }
    }
}

impl Detail {
    fn new(problem: &Problem, kind: usize, cells: u64, exact: u64) -> Self {
        let grid = |(limit, it): (usize, &Limit)| {
            let loads = problem.classes.iter().map(|class| &class.loads[kind][limit]);
            Grid::fitting(it.capacity, loads, cells, exact)
        };
        let grids: Vec<Grid> = problem.types[kind].limits.iter().enumerate().map(grid).collect();
        let binned = problem.classes.iter().map(|class| {
            grids.iter().zip(&class.loads[kind]).map(|(grid, load)| grid.bin(load)).collect()
        });
        let binned = binned.collect();
        Self { grids, binned }
    }
}

/// The independent sources that the machines of a host are to one limit: those that move together
/// are one.
pub(crate) fn sources(
    problem: &Problem,
    kind: usize,
    limit: usize,
    pattern: &Pattern,
) -> Vec<(Source, u32)> {
    let load = |class: usize| &problem.classes[class].loads[kind][limit];
    let mut sources = Vec::new();
    let mut groups: Vec<usize> = Vec::new();
    for (class, count) in pattern.iter() {
        match problem.classes[class].together {
            None => sources.push((load(class).clone(), count)),
            Some(group) if !groups.contains(&group) => groups.push(group),
            Some(_) => {}
        }
    }
    for group in groups {
        let of_group = |class: usize| problem.classes[class].together == Some(group);
        let members = pattern.iter().filter(|(class, _)| of_group(*class));
        let together = Source::together(members.map(|(class, count)| (load(class), count)));
        sources.push((together, 1));
    }
    sources
}
