//! Which hosts to buy for machines: what each type would cost, and what would bind it.

use alloc::vec;
use alloc::vec::Vec;

use crate::pack::{packed, place};
use crate::pattern::Placement;
use crate::problem::{Class, Host, Problem};
use crate::risk::worst_overload;
use crate::tables::Tables;

/// All machines on hosts of one type.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Quote {
    /// The type.
    pub kind: usize,
    /// How many hosts.
    pub hosts: usize,
    /// What they cost.
    pub price: u64,
    /// What they draw, in watts.
    pub watts: u64,
    /// How many machines fit no host of this type, so that the rest is all it is a quote for.
    pub unplaced: u64,
    /// The mean share of a host's cores that is left.
    pub cores_free: f64,
    /// What is used up first.
    pub binds: Binding,
    /// What it would be if the network were ignored.
    pub ignored: Ignored,
    /// Whether no other quote is as good or better in price, watts and free cores, and better in
    /// one.
    pub is_efficient: bool,
}

/// What a type's hosts run out of.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Binding {
    /// Cores.
    Cores,
    /// Memory.
    Memory,
    /// What is carried by this limit.
    Limit(usize),
}

/// A quote that leaves out the network.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Ignored {
    /// How many hosts.
    pub hosts: usize,
    /// What they cost.
    pub price: u64,
    /// The share of time in which the worst of them is asked for too much.
    pub overload: f64,
}

impl Quote {
    /// By how much one host of the other type may become dearer until this one is as cheap: what a
    /// faster network card, say, is worth. Below zero if this one is cheaper.
    pub fn break_even(&self, other: &Quote) -> f64 {
        (self.price as f64 - other.price as f64) / other.hosts.max(1) as f64
    }
}

/// All machines on hosts of each type alone, as many as it takes. A type's cost is its price; the
/// problem's hosts are not looked at. Give each number of cores that its switch may have as a type
/// of its own.
///
/// # Panics
///
/// If the problem does not pass its [`Problem::check`], or there are not as many `watts` as types.
pub fn buy(problem: &Problem, watts: &[u64]) -> Vec<Quote> {
    assert_eq!(watts.len(), problem.types.len(), "watts for each type");
    let mut quotes: Vec<Quote> =
        (0..problem.types.len()).map(|kind| quote(problem, kind, watts[kind])).collect();
    for place in 0..quotes.len() {
        let is_beaten = quotes.iter().any(|other| beats(other, &quotes[place]));
        quotes[place].is_efficient = !is_beaten;
    }
    quotes
}

fn beats(one: &Quote, other: &Quote) -> bool {
    let figures = |it: &Quote| (it.unplaced, it.price, it.watts);
    let (a, b) = (figures(one), figures(other));
    let is_as_good = a.0 <= b.0 && a.1 <= b.1 && a.2 <= b.2 && one.cores_free >= other.cores_free;
    is_as_good && (a != b || one.cores_free > other.cores_free)
}

fn quote(problem: &Problem, kind: usize, watts: u64) -> Quote {
    let own = of_type(problem, kind);
    let tables = Tables::new(&own);
    let placement = packed(&tables, &Placement::empty(&own));
    let hosts = placement.hosts_used();
    let unplaced = placement.unplaced(&own).into_iter().map(u64::from).sum();
    let without = place_blindly(own.clone());
    let price = problem.types[kind].cost;
    let used = used(&tables, &placement);
    Quote {
        kind,
        hosts,
        price: price * hosts as u64,
        watts: watts * hosts as u64,
        unplaced,
        cores_free: 1.0 - used[0],
        binds: binds(&used),
        ignored: Ignored {
            hosts: without.hosts_used(),
            price: price * without.hosts_used() as u64,
            overload: worst_overload(&tables, &without),
        },
        is_efficient: true,
    }
}

/// The problem with one type, and as many hosts as machines may take, each in a rack of its own.
fn of_type(problem: &Problem, kind: usize) -> Problem {
    let classes =
        problem.classes.iter().map(|it| Class { loads: vec![it.loads[kind].clone()], ..*it });
    Problem {
        goal: problem.goal.clone(),
        types: vec![problem.types[kind].clone()],
        hosts: (0..problem.machines() as usize).map(|rack| Host { kind: 0, rack }).collect(),
        classes: classes.collect(),
        clusters: problem.clusters.clone(),
    }
}

/// All machines by cores and memory alone.
fn place_blindly(mut problem: Problem) -> Placement {
    problem.types[0].limits.clear();
    problem.classes.iter_mut().for_each(|it| it.loads[0].clear());
    place(&problem, &Placement::empty(&problem))
}

/// The mean share of cores, memory and each limit that is taken, by size.
fn used(tables: &Tables<'_>, placement: &Placement) -> Vec<f64> {
    let mut used = vec![0.0; tables.kinds[0].dimensions];
    for (class, count) in placement.hosts.iter().flat_map(|it| it.iter()) {
        let sizes = &tables.kinds[0].sizes[class];
        used.iter_mut().zip(sizes).for_each(|(it, size)| *it += size * f64::from(count));
    }
    let hosts = placement.hosts_used().max(1) as f64;
    used.iter_mut().for_each(|it| *it /= hosts);
    used
}

fn binds(used: &[f64]) -> Binding {
    let most = used.iter().copied().enumerate().reduce(|a, b| if b.1 > a.1 { b } else { a });
    match most.map_or(0, |(place, _)| place) {
        0 => Binding::Cores,
        1 => Binding::Memory,
        limit => Binding::Limit(limit - 2),
    }
}
