//! What a placement risks, host by host.

use std::collections::BTreeMap;

use demand::{Episodes, Grid, Model, episodes};
use placement::{Pattern, risks as risks_of};
use serde::Serialize;

use crate::bandwidth::Tilts;
use crate::plan::{Capacity, Kind, Load, Plan};
use crate::share::Share;

/// What hosts risk that are alike.
#[derive(Clone, Debug, Serialize)]
pub struct GroupRisk {
    /// Their names.
    pub hosts: Vec<String>,
    /// What they are.
    pub kind: String,
    /// What each has.
    pub machines: BTreeMap<String, u32>,
    /// The share of time in which each is asked for too much of anything.
    pub overload: Share,
    /// Whether that is within the goal.
    pub is_within: bool,
    /// What is carried, one by one.
    pub limits: Vec<LimitRisk>,
}

/// What a limit of a host risks.
#[derive(Clone, Debug, Serialize)]
pub struct LimitRisk {
    /// What carries it: `switch`, `switch, frames`, `card, out` or `card, in`; and in which class
    /// of hours, if the plan divides them.
    pub limit: String,
    /// How much is carried, in bits or frames a second.
    pub capacity: u64,
    /// What is asked for on average.
    pub mean: f64,
    /// What one of each of its machines costs: the effective bandwidth, between mean and peak.
    pub costs: BTreeMap<String, f64>,
    /// The share of time in which more is asked for.
    pub time: Share,
    /// The share of what is asked for that is more.
    pub traffic: Share,
    /// How often that begins, a second of these hours; none if models that move together differ, of
    /// which only shares of time are known.
    pub episodes_per_sec: Option<Share>,
    /// How long it lasts on average; none if it never happens.
    pub episode_secs: Option<Share>,
}

/// What each host of the plan's placement risks.
pub fn risks(plan: &Plan) -> Vec<GroupRisk> {
    let problem = plan.problem();
    let risks = risks_of(&problem, &plan.placement);
    let alike = plan.alike(&plan.placement);
    let tilts = Tilts::of(&problem);
    alike
        .into_iter()
        .map(|alike| {
            let host = alike.hosts[0];
            let (kind, risk) = (plan.kind_of(host), &risks[host]);
            let limits = kind.limits.iter().enumerate().map(|(place, limit)| {
                let of_problem = problem.hosts[host].kind;
                let loads = &problem.types[of_problem];
                debug_assert_eq!(loads.limits[place].capacity, limit.amount);
                let mean = alike.pattern.iter().map(|(class, count)| {
                    let load = &problem.classes[class].loads[of_problem][place];
                    load.mean() * f64::from(count)
                });
                let costs = alike.pattern.iter().map(|(class, count)| {
                    let cost = tilts.cost(of_problem, place, class, count);
                    (plan.vms[class].name.clone(), cost)
                });
                let episodes = episodes_of(plan, kind, limit, &alike.pattern);
                LimitRisk {
                    limit: limit.name.clone(),
                    capacity: limit.amount,
                    mean: mean.sum(),
                    costs: costs.collect(),
                    time: risk.limits[place].time.into(),
                    traffic: risk.limits[place].traffic.into(),
                    episodes_per_sec: episodes.map(|it| it.per_second.into()),
                    episode_secs: episodes.and_then(|it| it.mean_secs).map(Share::from),
                }
            });
            GroupRisk {
                hosts: plan.names(&alike.hosts),
                kind: kind.name.clone(),
                machines: plan.named(&alike.pattern),
                overload: risk.overload.into(),
                is_within: risk.overload.high <= plan.epsilon,
                limits: limits.collect(),
            }
        })
        .collect()
}

/// Episodes on one limit. Machines of one model that move together are one whose rates are theirs
/// together.
fn episodes_of(plan: &Plan, kind: &Kind, limit: &Capacity, pattern: &Pattern) -> Option<Episodes> {
    const CELLS: u64 = 4096;
    let on = |load: &Load| load.models[limit.period].map(|rate| load.on(kind, limit.carried, rate));
    let mut machines: Vec<(Model, u32)> = Vec::new();
    // Of each group that moves together: its model, and how many machines it has here.
    let mut groups: BTreeMap<usize, (usize, u32)> = BTreeMap::new();
    for (class, count) in pattern.iter() {
        let model = plan.vms[class].it.model;
        let load = &plan.models[model].it;
        match load.together {
            None => machines.push((on(load), count)),
            Some(group) => {
                let entry = groups.entry(group).or_insert((model, 0));
                if entry.0 != model {
                    return None;
                }
                entry.1 += count;
            }
        }
    }
    for (model, count) in groups.into_values() {
        let load = &plan.models[model].it;
        machines.push((on(load).map(|rate| rate * u64::from(count)), 1));
    }
    let sources: Vec<_> = machines.iter().map(|(model, _)| model.source()).collect();
    let grid = Grid::fitting(limit.amount, &sources, CELLS, CELLS);
    let machines: Vec<_> = machines.iter().map(|(model, count)| (model, *count)).collect();
    Some(episodes(grid, &machines))
}
