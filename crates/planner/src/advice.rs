//! Which machines to move away from hosts that are asked for too much.

use demand::Model;
use placement::{Advice, MoveSettings, advise, risks};
use serde::Serialize;
use units::{Instant, Rate, Span};

use crate::history::History;
use crate::plan::{Carried, Load, Plan};

/// What moves are weighed by.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Terms {
    /// For how long a move has to pay, and no machine goes back.
    pub horizon: Span,
    /// How long a machine stays where it came to.
    pub cooldown: Span,
    /// For how many runs in a row a host has to be above the goal before machines leave it.
    pub dwell: u32,
    /// The part of the goal that hosts are to have after a move, in percent.
    pub aim_percent: u8,
    /// The most moves.
    pub most: usize,
    /// What one migration is given.
    pub rate: Rate,
    /// Whether migrations go through hosts' switches, and not by their cards alone.
    pub through_switch: bool,
}

/// What to do, in this order, one at a time.
#[derive(Clone, Debug, Serialize)]
pub struct Moves {
    /// Hosts that are above the goal, for so many runs in a row that machines are to leave them.
    pub overloaded: Vec<String>,
    /// Hosts that are above it for fewer runs.
    pub waiting: Vec<Waiting>,
    /// Hosts that may be: they are above it by the models that one plans with, and are not by the
    /// least that means of traces may be.
    pub unsure: Vec<String>,
    /// The moves; none, if none pays.
    pub steps: Vec<ToldMove>,
    /// Seconds of overload within the horizon if all stay.
    pub stay_secs: f64,
    /// The same after the moves, together with what these cost.
    pub go_secs: f64,
    /// Whether moves pay.
    pub pays: bool,
}

/// A host that machines do not leave yet.
#[derive(Clone, Debug, Serialize)]
pub struct Waiting {
    /// The host.
    pub host: String,
    /// For how many runs in a row it has been above the goal.
    pub runs: u32,
}

/// A move.
#[derive(Clone, Debug, Serialize)]
pub struct ToldMove {
    /// One of these machines.
    pub vm: String,
    /// Where it is.
    pub from: String,
    /// Where it goes.
    pub to: String,
    /// How long that takes.
    pub takes_secs: f64,
    /// How many seconds of overload it costs meanwhile.
    pub cost_secs: f64,
}

/// Advises which machines of the plan's placement to move. Machines that the history saw come rest,
/// and none goes back to where it saw one of its entry leave.
///
/// The history notes what this run sees. `now` is the time since any origin that all runs share.
pub fn moves(plan: &Plan, terms: Terms, history: &mut History, now: Instant) -> Moves {
    let problem = plan.problem();
    let overload = risks(&problem, &plan.placement);
    let sure = risks(&plan.sure().problem(), &plan.placement);
    let low: Vec<f64> = sure.iter().map(|it| it.overload.low).collect();
    history.note(plan, now, terms.horizon.max(terms.cooldown));
    let overloaded = history.watch(plan, &low, terms.dwell);
    let named = |is_it: &dyn Fn(usize) -> bool| -> Vec<String> {
        let hosts: Vec<usize> = (0..low.len()).filter(|host| is_it(*host)).collect();
        plan.names(&hosts)
    };
    let waiting = named(&|host| low[host] > plan.epsilon && !overloaded.contains(&host));
    let waiting = waiting.into_iter().map(|host| Waiting { runs: history.runs_above(&host), host });
    let unsure =
        named(&|host| overload[host].overload.high > plan.epsilon && low[host] <= plan.epsilon);

    let settings = MoveSettings {
        horizon: terms.horizon,
        cooldown: terms.cooldown,
        aim: f64::from(terms.aim_percent) / 100.0,
        most: terms.most,
        rate: terms.rate.bits_per_sec(),
        dirty: plan.vms.iter().map(|it| it.it.dirty.map_or(0, Rate::bits_per_sec)).collect(),
        flow: flow(plan, &terms),
    };
    let moves = history.moves(plan);
    let advice = advise(&problem, &plan.placement, &overloaded, &moves, now, &settings);
    let Advice { steps, stay_secs, go_secs } = advice;
    let name = |host: usize| plan.names(&[host]).remove(0);
    let steps: Vec<ToldMove> = steps
        .iter()
        .map(|step| ToldMove {
            vm: plan.vms[step.it.class].name.clone(),
            from: name(step.it.from),
            to: name(step.it.to),
            takes_secs: step.takes.as_secs_f64(),
            cost_secs: step.cost_secs,
        })
        .collect();
    Moves {
        overloaded: plan.names(&overloaded),
        waiting: waiting.collect(),
        unsure,
        pays: !steps.is_empty() && go_secs < stay_secs,
        steps,
        stay_secs,
        go_secs,
    }
}

/// What a running migration is to each limit of each type of the plan's problem. Either host counts
/// it in both directions of its card.
fn flow(plan: &Plan, terms: &Terms) -> Vec<Vec<u64>> {
    let rate = terms.rate.bits_per_sec();
    // Full frames, all of which leave the host.
    let migration = Load {
        models: vec![Model::constant(rate)],
        fitted: None,
        taken: Vec::new(),
        frame: 1500,
        sends: 1.0,
        remote: 1.0,
        together: None,
    };
    let of_kind = |kind: &usize| {
        let kind = &plan.kinds[*kind];
        let of_limit = |carried| match carried {
            Carried::Out | Carried::In => rate,
            Carried::Bits | Carried::Frames | Carried::Time if terms.through_switch => {
                migration.on(kind, carried, rate)
            }
            Carried::Bits | Carried::Frames | Carried::Time => 0,
        };
        kind.limits.iter().map(|it| of_limit(it.carried)).collect()
    };
    plan.kinds_of_hosts().iter().map(of_kind).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::{Capacity, Named};
    use std::fmt::Write;
    use std::fs;
    use std::path::Path;
    use units::Rng;

    /// Sixty machines on hosts that have room for some thirty each.
    fn plan(placement: &str) -> Plan {
        let text = format!(
            "\
goal: {{epsilon: 0.001}}
types: {{r: {{cores: 64, memory: 256gib, switch: [{{carries: 1gbit}}]}}}}
hosts: {{h: {{type: r, count: 3}}}}
models: {{web: {{on: 100mbit, on_for: 1s, off_for: 9s}}}}
vms: {{web: {{count: 60, model: web, cores: 1, memory: 2gib, dirty: 100mbit}}}}
placement: {placement}
"
        );
        Plan::of_text(Path::new("p.yaml"), &text).unwrap()
    }

    fn terms(dwell: u32) -> Terms {
        Terms {
            horizon: Span::from_secs(6 * 3600),
            cooldown: Span::from_secs(1800),
            dwell,
            aim_percent: 50,
            most: 60,
            rate: Rate::from_gbit(1),
            through_switch: false,
        }
    }

    fn at(secs: u64) -> Instant {
        Instant::ZERO + Span::from_secs(secs)
    }

    /// Where machines go.
    fn to(moves: &Moves) -> Vec<&str> {
        let mut to: Vec<&str> = moves.steps.iter().map(|it| it.to.as_str()).collect();
        to.dedup();
        to
    }

    #[test]
    fn machines_leave_a_host_that_was_above_the_goal_for_some_runs() {
        let plan = plan("{h-1: {web: 42}, h-2: {web: 18}}");
        let mut history = History::default();
        for run in 1..=2 {
            let told = moves(&plan, terms(3), &mut history, at(600 * run));
            assert!(told.overloaded.is_empty() && told.steps.is_empty(), "{told:?}");
            let [waiting] = &told.waiting[..] else { panic!("one host: {told:?}") };
            assert_eq!((waiting.host.as_str(), u64::from(waiting.runs)), ("h-1", run));
        }
        let told = moves(&plan, terms(3), &mut history, at(1800));
        assert_eq!((&told.overloaded[..], to(&told)), (&["h-1".to_owned()][..], vec!["h-2"]));
        assert!(told.waiting.is_empty() && told.unsure.is_empty() && told.pays, "{told:?}");
    }

    #[test]
    fn machines_leave_a_host_that_is_above_the_goal_in_one_class_of_hours() {
        let mut plan = plan("{h-1: {web: 42}, h-2: {web: 18}}");
        let night = plan.models[0].it.models[0].clone();
        let hours = |name: &str, it| Named { name: name.into(), it };
        plan.periods = vec![hours("day", 84), hours("night", 84)];
        plan.models[0].it.models = vec![Model::constant(0), night];
        for kind in &mut plan.kinds {
            let by_night = kind.limits.iter().map(|it| Capacity { period: 1, ..it.clone() });
            kind.limits = kind.limits.iter().cloned().chain(by_night).collect();
        }
        let told = moves(&plan, terms(1), &mut History::default(), at(0));
        assert_eq!((&told.overloaded[..], to(&told)), (&["h-1".to_owned()][..], vec!["h-2"]));
        assert!(told.pays, "{told:?}");
    }

    #[test]
    fn no_machine_goes_back_to_where_one_was_seen_to_leave() {
        let after = plan("{h-1: {web: 18}, h-2: {web: 42}}");
        let first = moves(&after, terms(1), &mut History::default(), at(600));
        assert_eq!(to(&first), ["h-1"], "nothing is known of a move");
        let mut history = History::default();
        moves(&plan("{h-1: {web: 42}, h-2: {web: 18}}"), terms(1), &mut history, at(0));
        let told = moves(&after, terms(1), &mut history, at(600));
        assert_eq!(to(&told), ["h-3"]);
        // Six hours after it was seen nobody minds.
        let told = moves(&after, terms(1), &mut history, at(600 + 6 * 3600));
        assert_eq!(to(&told), ["h-1"]);
    }

    #[test]
    fn who_came_rests() {
        let mut history = History::default();
        moves(&plan("{h-1: {web: 42}}"), terms(1), &mut history, at(0));
        let after = plan("{h-2: {web: 42}}");
        for (secs, goes) in [(600, vec![]), (2399, vec![]), (2400, vec!["h-3"])] {
            let told = moves(&after, terms(1), &mut history, at(secs));
            assert_eq!((&told.overloaded[..], to(&told)), (&["h-2".to_owned()][..], goes));
        }
    }

    #[test]
    fn a_host_that_only_may_be_above_the_goal_keeps_its_machines() {
        let folder = tempfile::tempdir().unwrap();
        let mut text = "time,sent_bytes\n".to_owned();
        let (mut rng, mut bytes, mut is_on) = (Rng::new(1), 0u64, false);
        for row in 0..2000u64 {
            let _ = writeln!(text, "{row},{bytes}");
            is_on ^= rng.below(10) == 0;
            bytes += if is_on { 10_000_000 } else { 0 };
        }
        fs::write(folder.path().join("db.csv"), text).unwrap();
        let text = "\
goal: {epsilon: 0.1}
types: {r: {cores: 8, memory: 8gib, switch: [{carries: 50mbit}]}}
hosts: {h: {type: r}}
models: {db: {trace: db.csv}}
vms: {db: {model: db, cores: 1, memory: 1gib}}
placement: {h: {db: 1}}
";
        let mut plan = Plan::of_text(&folder.path().join("p.yaml"), text).unwrap();
        let overload = |plan: &Plan| risks(&plan.problem(), &plan.placement)[0].overload;
        let mut fitted = plan.clone();
        let load = &mut fitted.models[0].it;
        load.models = vec![load.fitted.as_ref().unwrap().fit.model.clone()];
        let by_trace = overload(&fitted).low;
        let (sure, careful) = (overload(&plan.sure()).low, overload(&plan).high);
        assert!(sure < by_trace && by_trace < careful, "{sure} {by_trace} {careful}");
        // What the trace had is above the goal, and need not be: the machine may as well stay.
        plan.epsilon = (sure + by_trace) / 2.0;
        let told = moves(&plan, terms(1), &mut History::default(), at(0));
        assert!(told.overloaded.is_empty() && told.waiting.is_empty(), "{told:?}");
        assert_eq!(told.unsure, ["h"]);
        plan.epsilon = sure / 2.0;
        let told = moves(&plan, terms(1), &mut History::default(), at(0));
        assert_eq!((told.overloaded, told.unsure.len()), (vec!["h".to_owned()], 0));
    }

    #[test]
    fn a_migration_counts_on_cards_and_where_it_goes_through_them_on_switches() {
        let text = "\
goal: {epsilon: 0.1}
types: {r: {cores: 8, memory: 8gib, nic: 10gbit, switch: [{carries: 5gbit, frames: 1000000}]}}
hosts: {h: {type: r}}
";
        let plan = Plan::of_text(Path::new("p.yaml"), text).unwrap();
        let gbit = 1_000_000_000u64;
        assert_eq!(flow(&plan, &terms(1)), [[0, 0, gbit, gbit]]);
        let through = Terms { through_switch: true, ..terms(1) };
        // In frames of 1500 bytes.
        assert_eq!(flow(&plan, &through), [[gbit, gbit.div_ceil(12_000), gbit, gbit]]);
    }
}
