//! The cheapest placement, for a few classes: patterns that fit, and a search for the cheapest mix.

use alloc::vec;
use alloc::vec::Vec;

use crate::bound::{BoundSettings, lower_bound};
use crate::improve::improve;
use crate::judge::Judge;
use crate::pack::place;
use crate::pattern::{Pattern, Placement};
use crate::problem::{Apart, Domain, Problem};
use crate::room::Room;
use crate::tables::Tables;

/// The best placement that was found.
#[derive(Clone, Debug, PartialEq)]
pub struct Exact {
    /// It.
    pub placement: Placement,
    /// Whether it is known that none costs less. If not, `steps` were too few, not every machine
    /// has a place, or machines keep apart by racks, of which patterns know nothing.
    pub is_optimal: bool,
}

/// The cheapest placement of all machines, from empty hosts, if so many steps suffice to find it:
/// for a dozen classes or less. If not, it costs no more than what [`improve`] makes of [`place`]
/// in as many steps.
///
/// # Panics
///
/// If the problem does not pass its [`Problem::check`].
pub fn exact(problem: &Problem, steps: u64) -> Exact {
    let mut placement = place(problem, &Placement::empty(problem));
    let certificate = lower_bound(problem, BoundSettings::default());
    let is_placed = placement.unplaced(problem).iter().all(|left| *left == 0);
    if !is_placed || certificate.bound < placement.cost(problem) {
        placement = improve(problem, &placement, steps);
    }
    let cost = placement.cost(problem);
    if is_placed && certificate.bound >= cost {
        return Exact { placement, is_optimal: true };
    }
    let by_rack = |apart: Option<Apart>| apart.is_some_and(|it| it.domain == Domain::Rack);
    if problem.classes.iter().any(|it| by_rack(it.apart)) {
        return Exact { placement, is_optimal: false };
    }
    let tables = Tables::new(problem);
    let mut patterns =
        Patterns { judge: Judge::new(&tables), found: Vec::new(), steps_left: steps };
    for kind in 0..problem.types.len() {
        patterns.of(kind);
    }
    let is_complete = patterns.steps_left > 0;
    let mut search = Mix::new(problem, patterns.found, &certificate.prices, steps);
    if is_placed {
        search.best_cost = cost;
    }
    let left = problem.classes.iter().map(|it| it.count).collect();
    search.explore(left, 0, 0);
    let is_optimal = is_complete && search.steps_left > 0;
    match &search.best {
        Some(mix) => Exact { placement: search.placed(mix), is_optimal },
        None => Exact { placement, is_optimal: is_optimal && is_placed },
    }
}

/// The patterns that fit and to which nothing can be added.
struct Patterns<'a> {
    judge: Judge<'a>,
    found: Vec<(usize, Pattern)>,
    steps_left: u64,
}

impl<'a> Patterns<'a> {
    fn of(&mut self, kind: usize) {
        let mut room = Room::new(self.judge.tables, kind);
        self.explore(&mut room, 0);
    }

    /// Every pattern that has more of the classes from this one on.
    fn explore(&mut self, room: &mut Room<'a>, class: usize) {
        let classes = &self.judge.tables.problem.classes;
        if self.steps_left == 0 {
            return;
        }
        if class == classes.len() {
            let is_full = (0..classes.len()).all(|class| {
                room.pattern().count(class) == classes[class].count
                    || !self.judge.accepts(room, class)
            });
            if is_full && !room.pattern().is_empty() {
                self.found.push((room.kind(), room.pattern().clone()));
            }
            return;
        }
        let mut fuller = room.clone();
        self.explore(room, class + 1);
        for _ in 0..classes[class].count {
            self.steps_left = self.steps_left.saturating_sub(1);
            if !self.judge.accepts(&mut fuller, class) {
                break;
            }
            fuller.put(class);
            self.explore(&mut fuller, class + 1);
        }
    }
}

/// A search for the cheapest mix of patterns.
struct Mix<'a> {
    problem: &'a Problem,
    /// By cost for what they are worth at the bound's prices.
    patterns: Vec<(usize, Pattern)>,
    prices: &'a [f64],
    steps_left: u64,
    /// Patterns that are taken, by their places.
    taken: Vec<usize>,
    /// How many hosts of each type are left.
    hosts_left: Vec<usize>,
    best: Option<Vec<usize>>,
    best_cost: u64,
}

impl<'a> Mix<'a> {
    fn new(
        problem: &'a Problem,
        mut patterns: Vec<(usize, Pattern)>,
        prices: &'a [f64],
        steps: u64,
    ) -> Self {
        let worth = |(kind, pattern): &(usize, Pattern)| {
            let sum: f64 = pattern.iter().map(|(class, n)| prices[class] * f64::from(n)).sum();
            sum / problem.types[*kind].cost as f64
        };
        patterns.sort_by(|a, b| worth(b).total_cmp(&worth(a)).then(a.cmp(b)));
        let mut hosts_left = vec![0; problem.types.len()];
        problem.hosts.iter().for_each(|host| hosts_left[host.kind] += 1);
        Self {
            problem,
            patterns,
            prices,
            steps_left: steps,
            taken: Vec::new(),
            hosts_left,
            best: None,
            best_cost: u64::MAX,
        }
    }

    /// Covers what is left by patterns from this one on: in what order patterns are taken makes no
    /// difference.
    fn explore(&mut self, left: Vec<u32>, cost: u64, from: usize) {
        let worth: f64 = left.iter().zip(self.prices).map(|(n, price)| price * f64::from(*n)).sum();
        if left.iter().all(|it| *it == 0) {
            if cost < self.best_cost {
                (self.best_cost, self.best) = (cost, Some(self.taken.clone()));
            }
            return;
        }
        let least = (libm::ceil(worth * (1.0 - 1e-9) - 1e-9) as u64).max(1);
        if cost.saturating_add(least) >= self.best_cost || self.steps_left == 0 {
            return;
        }
        self.steps_left -= 1;
        for place in from..self.patterns.len() {
            if self.steps_left == 0 {
                return;
            }
            let (kind, pattern) = &self.patterns[place];
            let kind = *kind;
            let is_useful = pattern.iter().any(|(class, _)| left[class] > 0);
            if !is_useful || self.hosts_left[kind] == 0 {
                continue;
            }
            let mut rest = left.clone();
            pattern.iter().for_each(|(class, n)| rest[class] = rest[class].saturating_sub(n));
            self.hosts_left[kind] -= 1;
            self.taken.push(place);
            self.explore(rest, cost + self.problem.types[kind].cost, place);
            self.taken.pop();
            self.hosts_left[kind] += 1;
        }
    }

    /// The mix on hosts, without what patterns have too much.
    fn placed(&self, mix: &[usize]) -> Placement {
        let mut placement = Placement::empty(self.problem);
        let mut left: Vec<u32> = self.problem.classes.iter().map(|it| it.count).collect();
        for place in mix {
            let (kind, pattern) = &self.patterns[*place];
            let mut hosts = self.problem.hosts.iter().zip(&mut placement.hosts);
            let (_, host) = hosts
                .find(|(host, it)| host.kind == *kind && it.is_empty())
                .expect("a mix has no more patterns of a type than there are hosts");
            for (class, count) in pattern.iter() {
                let count = count.min(left[class]);
                left[class] -= count;
                host.add(class, count);
            }
        }
        placement
    }
}
