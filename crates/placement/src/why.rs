//! Why a machine does not go to a host, and what would have to change.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;

use demand::{Bracket, Precision, Source, Verdict, decide};

use crate::judge::{Judge, overload};
use crate::pack::Racks;
use crate::pattern::{Pattern, Placement};
use crate::problem::{Periods, Problem};
use crate::tables::{Tables, sources};

/// What the rules say of one more machine on a host.
#[derive(Clone, Debug, PartialEq)]
pub struct Why {
    /// Every rule that refuses it; none, if it fits.
    pub refusals: Vec<Refusal>,
    /// The share of time in which the host is asked for too much, as it is.
    pub before: Bracket,
    /// The same with the machine.
    pub after: Bracket,
    /// What alone would make room, if overload is all that refuses.
    pub remedies: Vec<Remedy>,
}

/// A rule that refuses a machine, with what it compares.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Refusal {
    /// More cores are needed than are left.
    Cores {
        /// What it needs.
        needs: u64,
        /// What is left.
        left: u64,
    },
    /// More memory is needed than is left, in bytes.
    Memory {
        /// What it needs.
        needs: u64,
        /// What is left.
        left: u64,
    },
    /// A machine that it is to be apart from is on the host.
    Host {
        /// The class of that machine.
        other: usize,
    },
    /// A machine that it is to be apart from is in the rack.
    Rack,
    /// The host would be asked for too much for longer than ε.
    Overload {
        /// The limit that is exceeded for longest; of a mean, in all of the time.
        limit: usize,
    },
}

/// A change after which the machine fits.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Remedy {
    /// The limit carries at least this.
    Capacity {
        /// The limit.
        limit: usize,
        /// From which capacity on it fits.
        from: u64,
    },
    /// One machine of this class is elsewhere.
    Without {
        /// The class.
        class: usize,
    },
}

/// What the rules say of one more machine of this class on this host.
///
/// # Panics
///
/// If the problem does not pass its [`Problem::check`], or the placement is not of it.
pub fn why(problem: &Problem, placement: &Placement, class: usize, host: usize) -> Why {
    let tables = Tables::new(problem);
    let racks = Racks::of(problem, placement);
    let mut asked = Asked { judge: Judge::new(&tables), class };
    let mut why = asked.of_pattern(problem.hosts[host].kind, &placement.hosts[host]);
    if racks.refuse(problem, class, host) {
        why.refusals.push(Refusal::Rack);
    }
    if let [Refusal::Overload { limit }] = why.refusals[..] {
        why.remedies = asked.remedies(problem.hosts[host].kind, &placement.hosts[host], limit);
    }
    why
}

/// Why a machine has no place at all.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Nowhere {
    /// How many hosts refuse it for want of cores.
    pub cores: usize,
    /// For want of memory.
    pub memory: usize,
    /// Because of what it is to be apart from.
    pub apart: usize,
    /// For overload.
    pub overload: usize,
    /// Hosts that would take it.
    pub takes: Vec<usize>,
    /// The host that overload alone refuses, by the least.
    pub nearest: Option<usize>,
}

/// What all hosts say of one more machine of this class. A host may refuse it for several reasons.
pub fn why_nowhere(problem: &Problem, placement: &Placement, class: usize) -> Nowhere {
    let tables = Tables::new(problem);
    let racks = Racks::of(problem, placement);
    let mut asked = Asked { judge: Judge::new(&tables), class };
    let mut known: BTreeMap<(usize, &Pattern), Why> = BTreeMap::new();
    let mut nowhere = Nowhere::default();
    let mut least = f64::INFINITY;
    for (host, pattern) in placement.hosts.iter().enumerate() {
        let kind = problem.hosts[host].kind;
        let why = known.entry((kind, pattern)).or_insert_with(|| asked.of_pattern(kind, pattern));
        let by_rack = racks.refuse(problem, class, host);
        let has = |of: fn(&Refusal) -> bool| usize::from(why.refusals.iter().any(of));
        let is_apart = by_rack || has(|it| matches!(it, Refusal::Host { .. })) > 0;
        nowhere.cores += has(|it| matches!(it, Refusal::Cores { .. }));
        nowhere.memory += has(|it| matches!(it, Refusal::Memory { .. }));
        nowhere.apart += usize::from(is_apart);
        nowhere.overload += has(|it| matches!(it, Refusal::Overload { .. }));
        if why.refusals.is_empty() && !by_rack {
            nowhere.takes.push(host);
        }
        let is_near = matches!(why.refusals[..], [Refusal::Overload { .. }]) && !by_rack;
        if is_near && why.after.high < least {
            (least, nowhere.nearest) = (why.after.high, Some(host));
        }
    }
    nowhere
}

/// A class that hosts are asked about.
struct Asked<'a> {
    judge: Judge<'a>,
    class: usize,
}

impl Asked<'_> {
    fn of_pattern(&mut self, kind: usize, pattern: &Pattern) -> Why {
        const CELLS: u64 = 4096;
        let tables = self.judge.tables;
        let problem = tables.problem;
        let (host, needs) = (&problem.types[kind], &problem.classes[self.class]);
        let used = |of: &dyn Fn(usize) -> u64| -> u64 {
            pattern.iter().map(|(class, count)| of(class) * u64::from(count)).sum()
        };
        let mut refusals = Vec::new();
        let cores = used(&|class| problem.classes[class].cores.into());
        let left = u64::from(host.cores).saturating_sub(cores);
        if u64::from(needs.cores) > left {
            refusals.push(Refusal::Cores { needs: needs.cores.into(), left });
        }
        let left = host.memory.saturating_sub(used(&|class| problem.classes[class].memory));
        if needs.memory > left {
            refusals.push(Refusal::Memory { needs: needs.memory, left });
        }
        let group = needs.apart.map(|it| it.group);
        let mut others = pattern.iter().map(|(class, _)| class);
        let is_of_group = |class: &usize| problem.classes[*class].apart.map(|it| it.group) == group;
        if let Some(other) = others.find(|class| group.is_some() && is_of_group(class)) {
            refusals.push(Refusal::Host { other });
        }
        let with = pattern.with(self.class);
        let before = overload(tables, kind, pattern, CELLS);
        let after = overload(tables, kind, &with, CELLS);
        if self.judge.verdict(kind, &with) != Verdict::Within {
            refusals.push(Refusal::Overload { limit: self.worst_limit(kind, &with) });
        }
        Why { refusals, before, after, remedies: Vec::new() }
    }

    fn overload_of_limit(&self, kind: usize, limit: usize, pattern: &Pattern) -> f64 {
        let problem = self.judge.tables.problem;
        let sources = sources(problem, kind, limit, pattern);
        let mix = mix(&sources);
        demand::risk(problem.types[kind].limits[limit].capacity, &mix, Precision::default())
            .time
            .high
    }

    fn worst_limit(&self, kind: usize, pattern: &Pattern) -> usize {
        let problem = self.judge.tables.problem;
        let limits = problem.types[kind].limits.iter().enumerate();
        let overloads = limits.map(|(limit, it)| {
            let share = match &problem.goal.periods {
                Periods::Worst => 1.0,
                Periods::Mean(shares) => shares[it.period],
            };
            (share * self.overload_of_limit(kind, limit, pattern), limit)
        });
        let worst = overloads.reduce(|worst, it| if it.0 > worst.0 { it } else { worst });
        worst.expect("a host type without limits has no overload").1
    }

    fn remedies(&mut self, kind: usize, pattern: &Pattern, limit: usize) -> Vec<Remedy> {
        let with = pattern.with(self.class);
        let mut remedies: Vec<Remedy> = Vec::new();
        remedies
            .extend(self.capacity(kind, &with, limit).map(|from| Remedy::Capacity { limit, from }));
        for (class, _) in pattern.iter() {
            if self.judge.verdict(kind, &with.without(class)) == Verdict::Within {
                remedies.push(Remedy::Without { class });
            }
        }
        remedies
    }

    /// From which capacity of the limit on these machines are within the goal; `None` if other
    /// limits alone exceed it.
    fn capacity(&self, kind: usize, pattern: &Pattern, limit: usize) -> Option<u64> {
        let problem = self.judge.tables.problem;
        let limits = &problem.types[kind].limits;
        let period = limits[limit].period;
        let others = |period: usize| -> f64 {
            (0..limits.len())
                .filter(|it| *it != limit && limits[*it].period == period)
                .map(|it| self.overload_of_limit(kind, it, pattern))
                .sum::<f64>()
                .min(1.0)
        };
        let periods = limits.iter().map(|it| it.period + 1).max().unwrap_or(0);
        let mut besides = (0..periods).filter(|it| *it != period);
        // What is left of the goal for this limit in its period.
        let goal = problem.goal.epsilon;
        let epsilon = match &problem.goal.periods {
            Periods::Worst if besides.any(|it| others(it) > goal) => return None,
            Periods::Worst => goal - others(period),
            Periods::Mean(shares) => {
                let besides: f64 = besides.map(|it| shares[it] * others(it)).sum();
                (goal - besides) / shares[period] - others(period)
            }
        };
        if epsilon <= 0.0 {
            return None;
        }
        let sources = sources(problem, kind, limit, pattern);
        let mix = mix(&sources);
        let peaks = mix.iter().map(|(it, count)| it.peak().saturating_mul((*count).into()));
        let (mut low, mut high) = (limits[limit].capacity, peaks.fold(0, u64::saturating_add));
        // To a thousandth of the capacity: nobody measures it closer.
        while high - low > limits[limit].capacity / 1000 + 1 {
            let middle = low + (high - low) / 2;
            match decide(middle, &mix, epsilon.min(1.0), Precision::default()) {
                Verdict::Within => high = middle,
                Verdict::Beyond | Verdict::Undecided => low = middle,
            }
        }
        Some(high)
    }
}

fn mix(sources: &[(Source, u32)]) -> Vec<(&Source, u32)> {
    sources.iter().map(|(source, count)| (source, *count)).collect()
}
