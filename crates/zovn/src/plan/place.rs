//! `zovn plan place`: machines on hosts.

use std::fs;
use std::path::PathBuf;

use clap::ValueEnum;
use figures::{Unit, count, si};
use planner::placed::{self, Placed, Work, placed, placement_file};
use planner::{Least, Plan};

use super::files::Files;
use super::page::{Html, of_placed, put};
use super::words::{ending, hosts, machines};
use crate::ending::{Outcome, show};
use crate::table::{headed, text};

/// Place all machines on as few hosts as can be, or as cheap ones, within the goal.
///
/// Beside what it costs stands what no placement can cost less than. Exit code 1 if a machine has
/// no host, or a host is above the goal.
#[derive(clap::Args)]
pub struct Args {
    #[command(flatten)]
    files: Files,
    /// How machines are placed.
    #[arg(long, value_enum, default_value = "risk")]
    algorithm: Algorithm,
    /// How many steps of search improve the placement; with `exact`, to find the cheapest.
    #[arg(long, value_name = "N", default_value_t = 20_000)]
    steps: u64,
    /// The seed of what is drawn. The same file, steps and seed give the same placement.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Write the placement into this file, to be given to others by `--with`.
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    /// Tell it as JSON.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    html: Html,
}

#[derive(Clone, Copy, ValueEnum)]
enum Algorithm {
    /// Cores and memory alone: figure 1 of the paper as meant.
    SimpleCount,
    /// And averages within what switches carry: figure 9 as meant.
    NetworkAware,
    /// And sums of peaks within what switches carry.
    Peaks,
    /// By the exact risk of overload.
    Risk,
    /// The cheapest there is, for a dozen entries of machines or fewer. It says if `--steps` were
    /// too few to know that.
    Exact,
}

impl From<Algorithm> for placed::Algorithm {
    fn from(algorithm: Algorithm) -> Self {
        match algorithm {
            Algorithm::SimpleCount => Self::SimpleCount,
            Algorithm::NetworkAware => Self::NetworkAware,
            Algorithm::Peaks => Self::Peaks,
            Algorithm::Risk => Self::Risk,
            Algorithm::Exact => Self::Exact,
        }
    }
}

/// Places, and tells.
pub fn run(args: &Args) -> Outcome {
    args.files.then_on_hosts(|plan| {
        let page = args.html.open()?;
        let work = Work { steps: args.steps, seed: args.seed };
        let placed = placed(plan, args.algorithm.into(), work);
        if let Some(out) = &args.out {
            fs::write(out, placement_file(plan, &placed.placement))
                .map_err(|error| format!("cannot write {}: {error}", out.display()))?;
        }
        put(page, || of_placed(plan, &placed))?;
        show(&placed, args.json, || table(plan, &placed))?;
        Ok(ending(placed.unplaced.is_empty() && placed.above_goal == 0))
    })
}

fn table(plan: &Plan, placed: &Placed) -> String {
    let mut table = headed(["hosts", "type", "machines", "overload"]);
    for it in &placed.groups {
        let cells = [hosts(&it.hosts), it.kind.clone(), machines(&it.machines)];
        let [hosts, kind, machines] = cells;
        table.add_row([hosts, kind, machines, it.overload.to_string()]);
    }
    let Placed { hosts_used, hosts: all, cost, least_cost, worst, above_goal, .. } = placed;
    let mut told = format!("{}\n\n{hosts_used} of {all} hosts", text(table));
    let is_whole = placed.unplaced.is_empty();
    let (cost, least) = match plan.least {
        Least::Hosts => (String::new(), format!("{least_cost} hosts")),
        Least::Price => (format!(" for {}", count(*cost)), count(*least_cost)),
    };
    told += &cost;
    told += &match placed.is_optimal {
        true => "; less is impossible".to_owned(),
        false => format!("; all machines within the goal need at least {least}"),
    };
    if placed.algorithm == placed::Algorithm::Exact && is_whole && !placed.is_optimal {
        told += match plan.is_apart_by_rack() {
            true => {
                "\nnot known to be the cheapest: machines apart by racks are placed as by `risk`"
            }
            false => "\nnot known to be the cheapest: raise --steps",
        };
    }
    told += &format!("\noverload of the worst host: {worst} of the time");
    if *above_goal > 0 {
        told += &format!("; above the goal: {above_goal} of {hosts_used}");
    }
    if placed.rack_traffic > 0 {
        let traffic = si(placed.rack_traffic as f64, Unit::BITS_PER_SEC);
        told += &format!("\nclusters may send {traffic} between racks");
    }
    if let Some(counted) = placed.as_printed {
        told +=
            &format!("\nas printed in the paper, it counts {counted} machines for the first host");
    }
    if !is_whole {
        told += &format!("\nno host takes {}", machines(&placed.unplaced));
    }
    told
}
