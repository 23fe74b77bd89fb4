//! `zovn plan prove`: the risk of a placement once more, in another way.

mod scenario;
mod simulated;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::ValueEnum;
use figures::{count, percent};
use planner::Plan;
use planner::proof::{Drawn, by_monte_carlo};

use self::scenario::Scale;
use self::simulated::{Estimate, Found, simulated};
use super::files::Files;
use super::words::{ending, hosts, machines};
use crate::ending::{Outcome, show};
use crate::number::within;
use crate::signals::INTERRUPTED;
use crate::table::{headed, text};

/// Find the risk of the placement once more in another way, and compare.
///
/// By `monte-carlo`, states of all machines are drawn and added up. By `sim`, each host is
/// simulated frame by frame, with the real switch, which carries as much as the plan says: what
/// machines make beyond that is lost, and counted. Holding times are shortened, all by one factor,
/// so that what is rare in days is seen in seconds.
///
/// Exit code 1 if a host's two figures contradict each other. By `sim` they do if, beyond three
/// standard errors, more is seen than is computed by a tenth; or if more than 1 % of traffic is
/// computed to be too much, and less than half of that is seen.
#[derive(clap::Args)]
pub struct Args {
    #[command(flatten)]
    files: Files,
    /// In which way.
    #[arg(long, value_enum)]
    by: Way,
    /// How often states are drawn, for each host that differs from others.
    #[arg(long, value_name = "N", default_value_t = 100_000, value_parser = within(1000..=u64::MAX))]
    draws: u64,
    /// By `sim`: how many frames a host's runs have together, about.
    #[arg(long, value_name = "N", default_value_t = 20_000_000, value_parser = within(10_000..=u64::MAX))]
    frames: u64,
    /// By `sim`: how many frames a machine's visit to a state has, on average. The more, the less
    /// the buffers count, and the fewer visits there are.
    #[arg(long, value_name = "N", default_value_t = 200, value_parser = within(10..=1_000_000u64))]
    burst: u64,
    /// By `sim`: how many runs each host has, from whose differences errors are told.
    #[arg(long, value_name = "N", default_value_t = 16, value_parser = within(2..=1000u32))]
    runs: u32,
    /// By `sim`: how many hosts that differ are simulated, the riskiest first.
    #[arg(long, value_name = "N", default_value_t = 16, value_parser = within(1..=10_000u32))]
    most: u32,
    /// By `sim`: write each host's scenario into this folder, for `zovn sim`.
    #[arg(long, value_name = "FOLDER")]
    scenarios: Option<PathBuf>,
    /// The seed of what is drawn.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Tell it as JSON.
    #[arg(long)]
    json: bool,
}

#[derive(Clone, Copy, ValueEnum)]
enum Way {
    /// States of all machines are drawn, and what they ask for is added up.
    MonteCarlo,
    /// Hosts are simulated frame by frame, with the real switch.
    Sim,
}

/// Compares, and tells.
pub fn run(args: &Args) -> Outcome {
    args.files.then_on_hosts(|plan| match args.by {
        Way::MonteCarlo => {
            let drawn = by_monte_carlo(plan, args.draws, args.seed);
            show(&drawn, args.json, || drawn_table(&drawn, args.draws))?;
            Ok(ending(drawn.iter().all(|it| it.agrees)))
        }
        Way::Sim => by_sim(args, plan),
    })
}

fn by_sim(args: &Args, plan: &Plan) -> Outcome {
    let Args { frames, burst, runs, seed, .. } = *args;
    let scale = Scale { frames, burst, runs, seed };
    let found = simulated(plan, scale, args.most as usize, args.scenarios.as_deref())?;
    if found.is_stopped {
        return Ok(ExitCode::from(INTERRUPTED));
    }
    show(&found.hosts, args.json, || simulated_table(&found, args))?;
    Ok(ending(found.hosts.iter().all(|it| it.agrees)))
}

fn drawn_table(drawn: &[Drawn], draws: u64) -> String {
    let mut table = headed(["hosts", "computed", "drawn", "by the draws at most", "agree"]);
    for it in drawn {
        table.add_row([
            hosts(&it.hosts),
            it.computed.to_string(),
            percent(it.drawn),
            it.interval.to_string(),
            yes(it.agrees),
        ]);
    }
    format!("{}\n\n{} draws each", text(table), count(draws))
}

fn simulated_table(found: &Found, args: &Args) -> String {
    let mut table = headed([
        "hosts",
        "machines",
        "computed",
        "seen",
        "traffic computed",
        "traffic seen",
        "episodes",
        "agree",
    ]);
    let told = |it: Estimate| format!("{} ± {}", percent(it.mean), percent(it.error));
    for it in &found.hosts {
        table.add_row([
            hosts(&it.hosts),
            machines(&it.machines),
            it.computed.to_string(),
            told(it.seen),
            percent(it.computed_traffic),
            told(it.seen_traffic),
            it.episodes.to_string(),
            yes(it.agrees),
        ]);
    }
    let mut said = format!(
        "{}\n\n{} runs of each host, about {} frames together; ± is a standard error",
        text(table),
        args.runs,
        count(args.frames)
    );
    if found.hosts.len() < found.kinds {
        said += &format!(
            "\nthe {} riskiest of {} hosts that differ: `--most` has more simulated",
            found.hosts.len(),
            found.kinds
        );
    }
    said
}

fn yes(agrees: bool) -> String {
    if agrees { "yes" } else { "no" }.to_owned()
}
