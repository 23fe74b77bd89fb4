//! Where machines go.

use std::collections::BTreeMap;
use std::fmt::Write;

use placement::{
    BoundSettings, Placement, Problem, exact, gather, improve, lower_bound, paper, place,
    rack_traffic, risks,
};
use serde::Serialize;

use crate::plan::Plan;
use crate::share::Share;
use crate::written::quoted;

/// How to place.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Algorithm {
    /// Figure 1 of the paper as meant: cores and memory alone.
    SimpleCount,
    /// Figure 9 as meant: and averages within what is carried.
    NetworkAware,
    /// Sums of peaks within what is carried.
    Peaks,
    /// By the exact risk of overload.
    Risk,
    /// The cheapest there is, for a dozen entries of machines or fewer.
    Exact,
}

/// How much work a placement may be.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Work {
    /// Steps of search that improve what was placed, and tries that gather clusters in racks.
    pub steps: u64,
    /// What tries are drawn from.
    pub seed: u64,
}

/// A placement.
#[derive(Clone, Debug, Serialize)]
pub struct Placed {
    /// How it was found.
    pub algorithm: Algorithm,
    /// How many hosts have machines.
    pub hosts_used: usize,
    /// How many hosts there are.
    pub hosts: usize,
    /// What those with machines cost: their number, or their price.
    pub cost: u64,
    /// No placement of all machines costs less.
    pub least_cost: u64,
    /// Whether all machines are placed within the goal, and it is known that no such placement
    /// costs less.
    pub is_optimal: bool,
    /// What one of each machine is worth of that cost, by the bound: no machines that fit a host
    /// together are worth more than it, so all machines cost at least what they are worth.
    pub prices: BTreeMap<String, f64>,
    /// How many machines the paper's figure as printed counts for the first host, beside what it
    /// places as meant.
    pub as_printed: Option<usize>,
    /// The share of time in which the worst host is asked for too much.
    pub worst: Share,
    /// How many hosts are above the goal.
    pub above_goal: usize,
    /// Bits a second that clusters send between racks.
    pub rack_traffic: u64,
    /// Machines that have no host.
    pub unplaced: BTreeMap<String, u32>,
    /// Hosts, those that are alike together.
    pub groups: Vec<Group>,
    /// The same as a placement.
    #[serde(skip)]
    pub placement: Placement,
}

/// Hosts that are alike.
#[derive(Clone, Debug, Serialize)]
pub struct Group {
    /// Their names.
    pub hosts: Vec<String>,
    /// What they are.
    pub kind: String,
    /// What each has.
    pub machines: BTreeMap<String, u32>,
    /// The share of time in which each is asked for too much.
    pub overload: Share,
}

/// Places all machines on the plan's hosts. Where machines are now does not matter.
pub fn placed(plan: &Plan, algorithm: Algorithm, work: Work) -> Placed {
    let problem = plan.problem();
    let empty = Placement::empty(&problem);
    let list: Vec<usize> = plan
        .vms
        .iter()
        .enumerate()
        .flat_map(|(class, it)| std::iter::repeat_n(class, it.it.count as usize))
        .collect();
    let mut is_cheapest = false;
    let mut placement = match algorithm {
        Algorithm::SimpleCount => paper::simple_count(&problem, &list),
        Algorithm::NetworkAware => paper::network_aware(&problem, &list, &tunnels(plan)),
        Algorithm::Peaks => paper::peaks_reserved(&problem, &list),
        Algorithm::Risk => improve(&problem, &place(&problem, &empty), work.steps),
        Algorithm::Exact => {
            let found = exact(&problem, work.steps);
            is_cheapest = found.is_optimal;
            found.placement
        }
    };
    if matches!(algorithm, Algorithm::Risk | Algorithm::Exact) && !plan.clusters.is_empty() {
        placement = gather(&problem, &placement, work.steps, work.seed);
    }
    let risks = risks(&problem, &placement);
    let cost = placement.cost(&problem);
    let bound = lower_bound(&problem, BoundSettings::default());
    let least_cost = if is_cheapest { cost } else { bound.bound };
    let groups = plan.alike(&placement).into_iter().map(|alike| Group {
        hosts: plan.names(&alike.hosts),
        kind: plan.kind_of(alike.hosts[0]).name.clone(),
        machines: plan.named(&alike.pattern),
        overload: risks[alike.hosts[0]].overload.into(),
    });
    let unplaced = plan.vms.iter().zip(placement.unplaced(&problem));
    let unplaced: BTreeMap<String, u32> =
        unplaced.filter(|(_, left)| *left > 0).map(|(it, left)| (it.name.clone(), left)).collect();
    let above_goal = risks.iter().filter(|it| it.overload.high > plan.epsilon).count();
    let worst = risks.iter().map(|it| it.overload);
    Placed {
        algorithm,
        hosts_used: placement.hosts_used(),
        hosts: placement.hosts.len(),
        cost,
        least_cost,
        is_optimal: unplaced.is_empty() && above_goal == 0 && cost == least_cost,
        prices: plan.vms.iter().map(|it| it.name.clone()).zip(bound.prices).collect(),
        as_printed: as_printed(plan, &problem, algorithm, &list),
        worst: worst.reduce(|a, b| if b.high > a.high { b } else { a }).map_or(NONE, Share::from),
        above_goal,
        rack_traffic: rack_traffic(&problem, &placement),
        unplaced,
        groups: groups.collect(),
        placement,
    }
}

const NONE: Share = Share { low: 0.0, high: 0.0 };

/// How many tunnels hosts have, by types of the plan's problem.
fn tunnels(plan: &Plan) -> Vec<paper::Tunnels> {
    let of_kind = |kind: &usize| paper::Tunnels { most: plan.kinds[*kind].tunnels };
    plan.kinds_of_hosts().iter().map(of_kind).collect()
}

/// How many machines a figure of the paper counts for the first host if it is done as printed.
fn as_printed(
    plan: &Plan,
    problem: &Problem,
    algorithm: Algorithm,
    list: &[usize],
) -> Option<usize> {
    let kind = problem.hosts.first()?.kind;
    match algorithm {
        Algorithm::SimpleCount => Some(paper::simple_count_as_printed(list)),
        Algorithm::NetworkAware => {
            Some(paper::network_aware_as_printed(problem, kind, list, tunnels(plan)[kind]))
        }
        Algorithm::Peaks | Algorithm::Risk | Algorithm::Exact => None,
    }
}

/// A placement as a file, which a plan can be given together with its own.
pub fn placement_file(plan: &Plan, placement: &Placement) -> String {
    let mut text = "placement:\n".to_owned();
    for (name, pattern) in plan.hosts().zip(&placement.hosts).filter(|(_, it)| !it.is_empty()) {
        let machines = plan.named(pattern);
        let machines: Vec<_> =
            machines.iter().map(|(vm, count)| format!("{}: {count}", quoted(vm))).collect();
        let _ = writeln!(text, "  {}: {{{}}}", quoted(name), machines.join(", "));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::history::History;
    use crate::proof::by_monte_carlo;
    use crate::reasons::{everywhere, reasons};
    use crate::{advice, purchase, risks};
    use std::path::Path;
    use units::{Instant, Rate, Span};

    const PLAN: &str = "\
goal: {epsilon: 0.01}
types:
  r: {cores: 80, memory: 256gib, price: 10, watts: 1, switch: [{carries: 1gbit}]}
  s: {cores: 80, memory: 256gib, price: 30, watts: 1, switch: [{carries: 3gbit}]}
hosts:
  h: {type: r, count: 6}
models:
  web: {on: 100mbit, on_for: 1s, off_for: 9s}
  backup: {on: 300mbit, on_for: 1s, off_for: 99s, together: night}
vms:
  web: {count: 60, model: web, cores: 1, memory: 1gib}
  backup: {count: 4, model: backup, cores: 1, memory: 1gib, apart: host}
";
    const WORK: Work = Work { steps: 2000, seed: 1 };

    fn plan(more: &str) -> Plan {
        Plan::of_text(Path::new("p.yaml"), &format!("{PLAN}{more}")).unwrap()
    }

    #[test]
    fn a_placement_is_within_the_goal_and_is_read_again() {
        let plan = plan("");
        let placed = placed(&plan, Algorithm::Risk, WORK);
        assert!(placed.unplaced.is_empty() && placed.above_goal == 0, "{placed:?}");
        assert!(placed.least_cost <= placed.cost && placed.hosts_used == placed.cost as usize);
        let text = placement_file(&plan, &placed.placement);
        let again = self::plan(&text);
        assert_eq!(again.placement, placed.placement);

        let risks = risks::risks(&again);
        assert!(risks.iter().all(|it| it.is_within), "{risks:?}");
        let drawn = by_monte_carlo(&again, 20_000, 1);
        assert!(drawn.iter().all(|it| it.agrees), "{drawn:?}");
    }

    #[test]
    fn averages_break_the_goal_and_every_figure_says_so() {
        let plan = plan("");
        let by_averages = placed(&plan, Algorithm::NetworkAware, WORK);
        assert!(by_averages.above_goal > 0 && by_averages.hosts_used < 6, "{by_averages:?}");
        let plan = self::plan(&placement_file(&plan, &by_averages.placement));
        let (web, full) = (plan.vm("web").unwrap(), plan.host("h-1").unwrap());
        let told = reasons(&plan, web, full);
        assert!(!told.fits && told.before.low > 0.01, "{told:?}");
        assert!(told.refusals[0].starts_with("switch: asked for more than 1 Gbit/s"), "{told:?}");
        assert!(told.remedies.iter().any(|it| it.starts_with("switch: it fits from ")), "{told:?}");
        assert!(!everywhere(&plan, web).takes.is_empty());

        let terms = advice::Terms {
            horizon: Span::from_secs(3600),
            cooldown: Span::ZERO,
            dwell: 1,
            aim_percent: 50,
            most: 60,
            rate: Rate::from_gbit(1),
            through_switch: false,
        };
        let moves = advice::moves(&plan, terms, &mut History::default(), Instant::ZERO);
        assert!(moves.pays && moves.overloaded.contains(&"h-1".to_owned()), "{moves:?}");

        let drawn = by_monte_carlo(&plan, 20_000, 1);
        assert!(drawn[0].agrees && drawn[0].drawn > 0.01, "{drawn:?}");
    }

    #[test]
    fn a_mean_over_hours_needs_fewer_hosts_than_the_worst_of_them() {
        // A tenth of the week these machines send; at other times hardly.
        let text = "\
goal: {epsilon: 0.01}
periods: {day: 17, night: 151}
types: {r: {cores: 80, memory: 256gib, price: 10, switch: [{carries: 1gbit}]}}
hosts: {h: {type: r, count: 6}}
models: {web: {periods: {day: {on: 100mbit, on_for: 1s, off_for: 9s}, night: {rate: 1mbit}}}}
vms: {web: {count: 210, model: web, cores: 1, memory: 1gib}}
";
        let of = |goal: &str| {
            let text = text.replace("epsilon: 0.01", goal);
            let plan = Plan::of_text(Path::new("p.yaml"), &text).unwrap();
            let placed = placed(&plan, Algorithm::Risk, WORK);
            assert!(placed.unplaced.is_empty() && placed.above_goal == 0, "{placed:?}");
            assert!(placed.least_cost <= placed.cost, "{placed:?}");
            let text = format!("{text}{}", placement_file(&plan, &placed.placement));
            (Plan::of_text(Path::new("p.yaml"), &text).unwrap(), placed)
        };
        let (plan, worst) = of("epsilon: 0.01, periods: worst");
        let (_, mean) = of("epsilon: 0.01, periods: mean");
        assert!(mean.cost < worst.cost, "{mean:?} {worst:?}");

        // By day it is what it would be of a plan of that alone.
        let by_day = plan.of_period(plan.period("day").unwrap());
        let alone = risks::risks(&by_day);
        for (both, day) in risks::risks(&plan).iter().zip(&alone) {
            assert_eq!((&both.machines, both.limits.len()), (&day.machines, 2));
            let [one, _] = &both.limits[..] else { panic!("a limit for each class of hours") };
            assert_eq!((one.limit.as_str(), one.time), ("switch, day", day.limits[0].time));
            assert_eq!(both.overload.high, day.overload.high.max(both.limits[1].time.high));
        }
        let drawn = by_monte_carlo(&by_day, 20_000, 1);
        assert!(drawn.iter().all(|it| it.agrees), "{drawn:?}");
        let (web, host) = (plan.vm("web").unwrap(), plan.host("h-1").unwrap());
        let told = reasons(&plan, web, host);
        assert_eq!(told.costs.len(), 2, "{told:?}");
        assert_eq!(purchase::offers(&plan).unwrap()[0].binds, "switch, day");
    }

    #[test]
    fn a_bound_comes_with_what_each_machine_is_worth() {
        let plan = plan("");
        let placed = placed(&plan, Algorithm::Exact, WORK);
        let worth = |machines: &BTreeMap<String, u32>| -> f64 {
            machines.iter().map(|(vm, count)| placed.prices[vm] * f64::from(*count)).sum()
        };
        assert!(placed.groups.iter().all(|it| worth(&it.machines) <= 1.0 + 1e-6), "{placed:?}");
        let all = plan.vms.iter().map(|it| (it.name.clone(), it.it.count)).collect();
        let least = placed.least_cost as f64;
        // Unless a search proved more than the prices did.
        assert!(worth(&all) <= least + 1e-6 && worth(&all) > 1.0, "{placed:?}");
        assert_eq!(placed.is_optimal, placed.cost == placed.least_cost);
    }

    #[test]
    fn figures_as_printed_are_told_beside_what_they_mean() {
        let plan = plan("");
        let counted = |plan: &Plan, algorithm| placed(plan, algorithm, WORK).as_printed;
        assert_eq!(counted(&plan, Algorithm::SimpleCount), Some(64));
        // Without a number of tunnels it stops at averages, which are 612 Mbit/s together.
        assert_eq!(counted(&plan, Algorithm::NetworkAware), Some(64));
        assert_eq!(counted(&plan, Algorithm::Risk), None);
        let text = PLAN.replace("{carries: 1gbit}", "{carries: 1gbit, tunnels: 8}");
        let few = Plan::of_text(Path::new("p.yaml"), &text).unwrap();
        // A peak in bits a second is above a number of tunnels.
        assert_eq!(counted(&few, Algorithm::NetworkAware), Some(0));
        let meant = placed(&few, Algorithm::NetworkAware, WORK);
        let machines = |it: &Group| it.machines.values().sum::<u32>();
        assert!(meant.groups.iter().all(|it| machines(it) <= 8), "{meant:?}");
    }

    #[test]
    fn a_machine_costs_between_its_mean_and_its_peak() {
        let plan = plan("placement: {h-1: {web: 15, backup: 1}}");
        let costs = &risks::risks(&plan)[0].limits[0].costs;
        let within = |vm: &str, mean: f64, peak: f64| mean < costs[vm] && costs[vm] < peak;
        assert!(within("web", 10e6, 100e6) && within("backup", 3e6, 300e6), "{costs:?}");
        let told = reasons(&plan, plan.vm("web").unwrap(), plan.host("h-1").unwrap());
        let [cost] = &told.costs[..] else { panic!("one limit: {told:?}") };
        assert!(cost.starts_with("switch: one web costs "), "{cost}");
        let ends = "of 1 Gbit/s, between its mean (10 Mbit/s) and its peak (100 Mbit/s)";
        assert!(cost.ends_with(ends), "{cost}");
    }

    #[test]
    fn a_wrong_figure_is_not_proven() {
        let plan = plan("placement: {h-1: {web: 15}}");
        let mut other = plan.clone();
        // What is drawn is of machines that ask for more than those whose risk was computed.
        other.vms[0].it.model = 1;
        let [drawn, wrong] = [&plan, &other].map(|it| by_monte_carlo(it, 20_000, 1));
        assert!(drawn[0].agrees && wrong[0].agrees);
        let (computed, drawn) = (drawn[0].computed, wrong[0].interval);
        assert!(drawn.low > computed.high || computed.low > drawn.high);
    }

    #[test]
    fn offers_have_the_cheapest_first() {
        let offers = purchase::offers(&plan("")).unwrap();
        assert_eq!(offers.len(), 2);
        assert!(offers[0].price <= offers[1].price && offers[0].break_even == 0.0, "{offers:?}");
        // Four machines are to be apart, so four hosts are the least.
        assert!(offers.iter().all(|it| it.hosts >= 4 && it.unplaced == 0), "{offers:?}");
        assert_eq!((offers[0].kind.as_str(), offers[0].binds.as_str()), ("r", "switch"));
        assert!(offers.iter().all(|it| it.blind_hosts <= it.hosts), "{offers:?}");
    }
}
