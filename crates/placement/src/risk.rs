//! What a placement risks.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;

use demand::{Bracket, Precision, Risk, Verdict};

use crate::judge::Judge;
use crate::pattern::{Pattern, Placement};
use crate::problem::{Apart, Class, Domain, Host, Problem};
use crate::room::Room;
use crate::tables::{Tables, sources};

/// What one host risks.
#[derive(Clone, Debug, PartialEq)]
pub struct HostRisk {
    /// The share of time in which it is asked for too much of anything.
    pub overload: Bracket,
    /// The share of time and of traffic for each limit.
    pub limits: Vec<Risk>,
}

/// The risk of a host of this type with these machines.
///
/// # Panics
///
/// If the problem does not pass its [`Problem::check`].
pub fn host_risk(problem: &Problem, kind: usize, pattern: &Pattern) -> HostRisk {
    let tables = Tables::new(problem);
    risk(&tables, kind, pattern)
}

/// The risk of each host. Hosts of one type with the same machines are computed once.
pub fn risks(problem: &Problem, placement: &Placement) -> Vec<HostRisk> {
    let tables = Tables::new(problem);
    let mut known = BTreeMap::new();
    let hosts = problem.hosts.iter().zip(&placement.hosts);
    hosts
        .map(|(host, pattern)| {
            let it = known
                .entry((host.kind, pattern))
                .or_insert_with(|| risk(&tables, host.kind, pattern));
            it.clone()
        })
        .collect()
}

/// The overload of the host that has most, by the upper end.
pub(crate) fn worst_overload(tables: &Tables<'_>, placement: &Placement) -> f64 {
    let hosts = tables.problem.hosts.iter().map(|it| it.kind).zip(&placement.hosts);
    let contents: BTreeSet<(usize, &Pattern)> = hosts.collect();
    let negligible = tables.problem.goal.epsilon / 100.0;
    let coarse: Vec<_> = contents
        .into_iter()
        .map(|(kind, it)| (Room::with(tables, kind, it).overload(negligible), kind, it))
        .collect();
    let low = coarse.iter().map(|(it, ..)| it.low).fold(0.0, f64::max);
    // The others have less.
    let most = coarse.into_iter().filter(|(it, ..)| it.high >= low);
    most.map(|(_, kind, it)| risk(tables, kind, it).overload.high).fold(0.0, f64::max)
}

fn risk(tables: &Tables<'_>, kind: usize, pattern: &Pattern) -> HostRisk {
    let problem = tables.problem;
    // What is far below the goal need not be known closely.
    let precision = Precision { negligible: problem.goal.epsilon / 100.0, ..Precision::default() };
    let limits: Vec<Risk> = problem.types[kind]
        .limits
        .iter()
        .enumerate()
        .map(|(limit, it)| {
            let sources = sources(problem, kind, limit, pattern);
            let mix: Vec<_> = sources.iter().map(|(source, count)| (source, *count)).collect();
            demand::risk(it.capacity, &mix, precision)
        })
        .collect();
    HostRisk { overload: tables.joined(kind, limits.iter().map(|it| it.time)), limits }
}

/// Whether every host has room for its machines, keeps apart what is to be apart, and stays within
/// the goal.
///
/// # Errors
///
/// The first host that does not.
pub fn check(problem: &Problem, placement: &Placement) -> Result<(), usize> {
    let tables = Tables::new(problem);
    let mut judge = Judge::new(&tables);
    let mut racks = BTreeSet::new();
    let mut known = BTreeMap::new();
    for (host, pattern) in placement.hosts.iter().enumerate() {
        let Host { kind, rack } = problem.hosts[host];
        let fits = *known.entry((kind, pattern)).or_insert_with(|| {
            has_room(problem, kind, pattern) && judge.verdict(kind, pattern) == Verdict::Within
        });
        let is_apart = pattern.iter().all(|(class, _)| match problem.classes[class].apart {
            Some(Apart { group, domain: Domain::Rack }) => racks.insert((group, rack)),
            _ => true,
        });
        if !fits || !is_apart {
            return Err(host);
        }
    }
    Ok(())
}

/// Whether there are cores and memory, and nothing on the host is to be apart.
fn has_room(problem: &Problem, kind: usize, pattern: &Pattern) -> bool {
    let host = &problem.types[kind];
    let needs = |need: fn(&Class) -> u64| -> u64 {
        pattern.iter().map(|(class, count)| need(&problem.classes[class]) * u64::from(count)).sum()
    };
    let mut groups = BTreeSet::new();
    let is_apart = pattern.iter().all(|(class, count)| match problem.classes[class].apart {
        Some(apart) => count == 1 && groups.insert(apart.group),
        None => true,
    });
    is_apart
        && needs(|it| it.cores.into()) <= host.cores.into()
        && needs(|it| it.memory) <= host.memory
}
