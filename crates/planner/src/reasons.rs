//! Why a machine does not go to a host, in sentences.

use std::collections::BTreeMap;

use figures::{Unit, si};
use placement::{Problem, Refusal, Remedy, Why, why, why_nowhere};
use serde::Serialize;

use crate::bandwidth::Tilts;
use crate::plan::{Capacity, Kind, Plan};
use crate::share::Share;

/// What one host says of one more machine.
#[derive(Clone, Debug, Serialize)]
pub struct Reasons {
    /// The host.
    pub host: String,
    /// What it has.
    pub machines: BTreeMap<String, u32>,
    /// Whether it takes the machine.
    pub fits: bool,
    /// The share of time in which it is asked for too much, as it is.
    pub before: Share,
    /// The same with the machine.
    pub after: Share,
    /// Each rule that refuses it.
    pub refusals: Vec<String>,
    /// What alone would make room, if overload is all that refuses.
    pub remedies: Vec<String>,
    /// What the machine costs of each limit by its effective bandwidth, the greatest part first.
    pub costs: Vec<String>,
}

/// What all hosts say of one more machine.
#[derive(Clone, Debug, Serialize)]
pub struct Everywhere {
    /// Hosts that take it.
    pub takes: Vec<String>,
    /// How many refuse it for want of cores.
    pub cores: usize,
    /// For want of memory.
    pub memory: usize,
    /// Because of what it is to be apart from.
    pub apart: usize,
    /// Because they would be asked for too much.
    pub overload: usize,
    /// The host that overload alone refuses, by the least.
    pub nearest: Option<Reasons>,
}

/// What a host says of one more machine, beside those of the plan's placement.
pub fn reasons(plan: &Plan, vm: usize, host: usize) -> Reasons {
    let problem = plan.problem();
    let Why { refusals, before, after, remedies } = why(&problem, &plan.placement, vm, host);
    let kind = plan.kind_of(host);
    Reasons {
        host: plan.names(&[host]).remove(0),
        machines: plan.named(&plan.placement.hosts[host]),
        fits: refusals.is_empty(),
        before: before.into(),
        after: after.into(),
        refusals: refusals.iter().map(|it| refused(plan, kind, *it, after.into())).collect(),
        remedies: remedies.iter().map(|it| remedied(plan, kind, *it)).collect(),
        costs: costs(plan, &problem, vm, host),
    }
}

/// What a machine costs of each limit of a host, beside those of its entry that are there.
fn costs(plan: &Plan, problem: &Problem, vm: usize, host: usize) -> Vec<String> {
    let (kind, tilts) = (problem.hosts[host].kind, Tilts::of(problem));
    let count = plan.placement.hosts[host].count(vm) + 1;
    let limits = plan.kind_of(host).limits.iter().enumerate().map(|(limit, it)| {
        let cost = tilts.cost(kind, limit, vm, count);
        let load = &problem.classes[vm].loads[kind][limit];
        let all = it.amount as f64;
        let [told, all_told, mean, peak] =
            [cost, all, load.mean(), load.peak() as f64].map(|amount| it.carried.amount(amount));
        let (name, vm) = (&it.name, &plan.vms[vm].name);
        let sentence = format!(
            "{name}: one {vm} costs {told} of {all_told}, between its mean ({mean}) and its peak ({peak})"
        );
        (cost / all, sentence)
    });
    let mut limits: Vec<(f64, String)> = limits.collect();
    limits.sort_by(|a, b| b.0.total_cmp(&a.0));
    limits.into_iter().map(|(_, sentence)| sentence).collect()
}

/// What all hosts say of one more machine.
pub fn everywhere(plan: &Plan, vm: usize) -> Everywhere {
    let problem = plan.problem();
    let nowhere = why_nowhere(&problem, &plan.placement, vm);
    Everywhere {
        takes: plan.names(&nowhere.takes),
        cores: nowhere.cores,
        memory: nowhere.memory,
        apart: nowhere.apart,
        overload: nowhere.overload,
        nearest: nowhere.nearest.map(|host| reasons(plan, vm, host)),
    }
}

fn refused(plan: &Plan, kind: &Kind, refusal: Refusal, after: Share) -> String {
    match refusal {
        Refusal::Cores { needs, left } => format!("it needs {needs} cores, and {left} are left"),
        Refusal::Memory { needs, left } => {
            let [needs, left] = [needs, left].map(|it| si(it as f64, Unit::BYTES));
            format!("it needs {needs} of memory, and {left} are left")
        }
        Refusal::Host { other } => {
            let other = &plan.vms[other].name;
            format!("it is to be on another host than `{other}`, which is here")
        }
        Refusal::Rack => "it is to be in another rack than one that is in this one".into(),
        Refusal::Overload { limit } => {
            let Capacity { name, carried, amount, .. } = &kind.limits[limit];
            let capacity = carried.amount(*amount as f64);
            let goal = Share { low: plan.epsilon, high: plan.epsilon };
            format!("{name}: asked for more than {capacity} in {after} of the time, goal {goal}")
        }
    }
}

fn remedied(plan: &Plan, kind: &Kind, remedy: Remedy) -> String {
    match remedy {
        Remedy::Capacity { limit, from } => {
            let Capacity { name, carried, .. } = &kind.limits[limit];
            format!("{name}: it fits from {} on", carried.amount(from as f64))
        }
        Remedy::Without { class } => {
            format!("it fits if one `{}` is elsewhere", plan.vms[class].name)
        }
    }
}
