//! `zovn plan risk`: what a placement risks.

use figures::{Unit, si};
use planner::risks::{GroupRisk, risks};
use planner::{Capacity, Plan, Share};

use super::files::Files;
use super::page::{Html, of_risks, put};
use super::words::{ending, hosts, machines};
use crate::ending::{Outcome, show};
use crate::table::{headed, text};

/// Tell how much of the time each host of the placement is asked for too much, how much traffic
/// that is, and how long it lasts.
///
/// Exit code 1 if a host is above the goal.
#[derive(clap::Args)]
pub struct Args {
    #[command(flatten)]
    files: Files,
    /// Tell it as JSON.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    html: Html,
}

/// Computes, and tells.
pub fn run(args: &Args) -> Outcome {
    args.files.then_on_hosts(|plan| {
        let page = args.html.open()?;
        let groups = risks(plan);
        put(page, || of_risks(plan, &groups))?;
        show(&groups, args.json, || table(plan, &groups))?;
        Ok(ending(groups.iter().all(|it| it.is_within)))
    })
}

fn table(plan: &Plan, groups: &[GroupRisk]) -> String {
    let mut table = headed([
        "hosts", "machines", "limit", "carries", "mean", "overload", "traffic", "a day", "lasts",
    ]);
    for group in groups {
        let kind = plan.kinds.iter().find(|it| it.name == group.kind);
        let limits = kind.map(|it| it.limits.as_slice()).unwrap_or_default();
        let mut cells = (hosts(&group.hosts), machines(&group.machines));
        for (it, Capacity { carried, .. }) in group.limits.iter().zip(limits) {
            let lasts = it.episode_secs.map(|it| si(it.high, Unit::SECONDS));
            // How often needs both ends to be known, and is told by the upper one.
            let a_day =
                it.episodes_per_sec.map(|Share { high, .. }| si(high * 86_400.0, Unit::NONE));
            table.add_row([
                std::mem::take(&mut cells.0),
                std::mem::take(&mut cells.1),
                it.limit.clone(),
                carried.amount(it.capacity as f64),
                carried.amount(it.mean),
                it.time.to_string(),
                it.traffic.to_string(),
                a_day.unwrap_or(figures::MISSING.into()),
                lasts.unwrap_or(figures::MISSING.into()),
            ]);
        }
    }
    let all: usize = groups.iter().map(|it| it.hosts.len()).sum();
    let above: Vec<_> = groups.iter().filter(|it| !it.is_within).collect();
    let goal = Share { low: plan.epsilon, high: plan.epsilon };
    let mut told = format!("{}\n\n", text(table));
    told += &match above.iter().map(|it| it.hosts.len()).sum::<usize>() {
        0 => format!("all {all} hosts in use are within the goal, {goal} of the time"),
        some => format!("{some} of {all} hosts in use are above the goal, {goal} of the time"),
    };
    for it in above {
        told += &format!("\n{}: {} of the time", hosts(&it.hosts), it.overload);
    }
    told
}
