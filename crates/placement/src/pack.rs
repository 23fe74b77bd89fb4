//! Filling hosts one after another.

use alloc::collections::{BTreeSet, VecDeque};
use alloc::vec;
use alloc::vec::Vec;

use demand::gcd;

use crate::judge::Judge;
use crate::pattern::{Pattern, Placement};
use crate::problem::{Apart, Class, Domain, HostType, Problem};
use crate::room::Room;
use crate::tables::Tables;

/// Which machine a host takes next, of those that fit (Panigrahy, Talwar, Uyeda and Wieder,
/// *Heuristics for vector bin packing*, 2011).
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Rule {
    /// The one that needs most of what is left most: the largest dot product.
    Dot,
    /// The one whose needs are closest to what is left.
    Distance,
    /// The largest.
    Size,
}

/// Puts machines on hosts such that every host stays within the goal, on as few or as cheap hosts
/// as filling one after another gets. What `start` has stays where it is.
///
/// Machines that fit nowhere are left out: [`Placement::unplaced`] has them.
///
/// # Panics
///
/// If the problem does not pass its [`Problem::check`], or `start` is not of it.
pub fn place(problem: &Problem, start: &Placement) -> Placement {
    packed(&Tables::new(problem), start)
}

/// The same, with the problem's tables.
pub(crate) fn packed(tables: &Tables<'_>, start: &Placement) -> Placement {
    let problem = tables.problem;
    let mut judge = Judge::new(tables);
    // Hosts that have machines may have more than fits.
    let least = (start.hosts_used() == 0).then(|| (0, least_cost(problem)));
    let mut best: Option<((u64, u64), Placement)> = None;
    for rule in [Rule::Dot, Rule::Distance, Rule::Size] {
        let placement = Packer::new(&mut judge, start, rule).pack();
        let left: u64 = placement.unplaced(problem).into_iter().map(u64::from).sum();
        let worth = (left, placement.cost(problem));
        assert!(least.is_none_or(|it| worth >= it), "{worth:?} is less than {least:?}");
        if best.as_ref().is_none_or(|(before, _)| worth < *before) {
            best = Some((worth, placement));
        }
        if Some(worth) == least {
            break;
        }
    }
    best.expect("there are three").1
}

/// What hosts for all machines cost at least: as many of the cheapest as it takes of the largest,
/// by cores or by memory.
fn least_cost(problem: &Problem) -> u64 {
    let hosts = |needs: fn(&Class) -> u64, has: fn(&HostType) -> u64| -> u64 {
        let needed = problem.classes.iter().filter(|it| it.count > 0);
        // What is less than a step is of no use to any machine.
        let step = needed.clone().map(needs).fold(0, gcd).max(1);
        let all: u128 = needed.map(|it| u128::from(needs(it)) * u128::from(it.count)).sum();
        let most = problem.types.iter().map(has).max().unwrap_or(0) / step * step;
        u64::try_from(all.div_ceil(u128::from(most.max(1)))).unwrap_or(u64::MAX)
    };
    let hosts = hosts(|it| it.cores.into(), |it| it.cores.into())
        .max(hosts(|it| it.memory, |it| it.memory));
    hosts.saturating_mul(problem.types.iter().map(|it| it.cost).min().unwrap_or(0))
}

struct Packer<'a, 'j> {
    judge: &'j mut Judge<'a>,
    rule: Rule,
    placement: Placement,
    /// How many machines of each class are left.
    left: Vec<u32>,
    racks: Racks,
    /// How much each dimension counts: what all machines need of it, by host type.
    weights: Vec<Vec<f64>>,
    /// The last host that was filled, by host type.
    last: Vec<Option<Filled>>,
}

/// What a host was filled with, and under which circumstances.
#[derive(Clone)]
struct Filled {
    start: Pattern,
    closed: Vec<usize>,
    added: Pattern,
}

impl<'a, 'j> Packer<'a, 'j> {
    fn new(judge: &'j mut Judge<'a>, start: &Placement, rule: Rule) -> Self {
        let problem = judge.tables.problem;
        let left = start.unplaced(problem);
        let weights = judge.tables.kinds.iter().map(|kind| {
            let mut weights = vec![0.0; kind.dimensions];
            for (sizes, left) in kind.sizes.iter().zip(&left) {
                weights.iter_mut().zip(sizes).for_each(|(it, size)| *it += size * f64::from(*left));
            }
            weights
        });
        let weights = weights.collect();
        let last = vec![None; problem.types.len()];
        let racks = Racks::of(problem, start);
        Self { judge, rule, placement: start.clone(), left, racks, weights, last }
    }

    fn pack(mut self) -> Placement {
        let problem = self.judge.tables.problem;
        let mut empty = vec![VecDeque::new(); problem.types.len()];
        for (host, it) in problem.hosts.iter().enumerate() {
            if self.placement.hosts[host].is_empty() {
                empty[it.kind].push_back(host);
            } else {
                let added = self.fill(host);
                self.put(host, &added);
            }
        }
        while self.left.iter().any(|left| *left > 0) {
            // The first empty host of each type, and what it would take.
            let mut best: Option<(f64, usize, Pattern)> = None;
            for hosts in &mut empty {
                let Some(&host) = hosts.front() else { continue };
                let added = self.fill(host);
                if added.is_empty() {
                    hosts.pop_front();
                    continue;
                }
                let worth = self.worth(problem.hosts[host].kind, &added);
                if best.as_ref().is_none_or(|(most, ..)| worth > *most) {
                    best = Some((worth, host, added));
                }
            }
            match best {
                Some((_, host, added)) => {
                    empty[problem.hosts[host].kind].pop_front();
                    self.put(host, &added);
                }
                None if empty.iter().all(VecDeque::is_empty) => break,
                None => {}
            }
        }
        self.placement
    }

    fn put(&mut self, host: usize, added: &Pattern) {
        let problem = self.judge.tables.problem;
        for (class, count) in added.iter() {
            self.left[class] -= count;
            self.placement.hosts[host].add(class, count);
            self.racks.put(problem, class, host);
        }
    }

    /// How much of all that is to be placed a host takes for its cost. One that takes everything is
    /// worth the more the cheaper it is.
    fn worth(&self, kind: usize, added: &Pattern) -> f64 {
        let tables = self.judge.tables;
        let size = |class: usize| -> f64 {
            tables.kinds[kind].sizes[class]
                .iter()
                .zip(&self.weights[kind])
                .map(|(a, b)| a * b)
                .sum()
        };
        let all = self.left.iter().enumerate().map(|(class, left)| size(class) * f64::from(*left));
        let taken: f64 = added.iter().map(|(class, count)| size(class) * f64::from(count)).sum();
        let cost = tables.problem.types[kind].cost as f64;
        taken / all.sum::<f64>().max(f64::MIN_POSITIVE) / cost
    }

    /// What the host takes of what is left.
    fn fill(&mut self, host: usize) -> Pattern {
        let problem = self.judge.tables.problem;
        let kind = problem.hosts[host].kind;
        let start = self.placement.hosts[host].clone();
        let closed = self.racks.closed(problem, host);
        if let Some(last) = &self.last[kind] {
            // The same steps again, if what was taken is there once more: nothing else that is left
            // has any part in the choice.
            let has_all = last.added.iter().all(|(class, count)| self.left[class] >= count);
            if last.start == start && last.closed == closed && has_all {
                return last.added.clone();
            }
        }
        let mut room = Room::with(self.judge.tables, kind, &start);
        let mut left = self.left.clone();
        closed.iter().for_each(|class| left[*class] = 0);
        let mut added = Pattern::default();
        while let Some(class) = self.next(&room, &left) {
            if self.judge.accepts(&mut room, class) {
                room.put(class);
                added.add(class, 1);
                left[class] -= 1;
            } else {
                // What does not fit now never will: a host's risk only grows.
                left[class] = 0;
            }
        }
        self.last[kind] = Some(Filled { start, closed, added: added.clone() });
        added
    }

    /// The class that the rule prefers, of those that are left.
    fn next(&self, room: &Room<'_>, left: &[u32]) -> Option<usize> {
        let kind = room.kind();
        let rest = room.left();
        let sizes = &self.judge.tables.kinds[kind].sizes;
        let score = |class: usize| -> f64 {
            let terms = sizes[class].iter().zip(&rest).zip(&self.weights[kind]);
            terms
                .map(|((size, rest), weight)| {
                    weight
                        * match self.rule {
                            Rule::Dot => size * rest.max(0.0),
                            Rule::Distance => -(size - rest) * (size - rest),
                            Rule::Size => *size,
                        }
                })
                .sum()
        };
        let open = (0..left.len()).filter(|class| left[*class] > 0);
        open.map(|class| (score(class), class))
            .reduce(|best, it| if it.0 > best.0 { it } else { best })
            .map(|(_, class)| class)
    }
}

/// Which groups that keep apart by rack have a machine in which rack.
#[derive(Clone, Debug, Default)]
pub(crate) struct Racks(BTreeSet<(usize, usize)>);

impl Racks {
    pub fn of(problem: &Problem, placement: &Placement) -> Self {
        let mut racks = Self::default();
        for (host, pattern) in placement.hosts.iter().enumerate() {
            pattern.iter().for_each(|(class, _)| racks.put(problem, class, host));
        }
        racks
    }

    pub fn put(&mut self, problem: &Problem, class: usize, host: usize) {
        if let Some(group) = by_rack(problem, class) {
            self.0.insert((group, problem.hosts[host].rack));
        }
    }

    pub fn remove(&mut self, problem: &Problem, class: usize, host: usize) {
        if let Some(group) = by_rack(problem, class) {
            self.0.remove(&(group, problem.hosts[host].rack));
        }
    }

    /// Whether a machine of this class may not go to the host, for another in its rack.
    pub fn refuse(&self, problem: &Problem, class: usize, host: usize) -> bool {
        let rack = problem.hosts[host].rack;
        by_rack(problem, class).is_some_and(|group| self.0.contains(&(group, rack)))
    }

    fn closed(&self, problem: &Problem, host: usize) -> Vec<usize> {
        (0..problem.classes.len()).filter(|class| self.refuse(problem, *class, host)).collect()
    }
}

fn by_rack(problem: &Problem, class: usize) -> Option<usize> {
    match problem.classes[class].apart {
        Some(Apart { group, domain: Domain::Rack }) => Some(group),
        _ => None,
    }
}
