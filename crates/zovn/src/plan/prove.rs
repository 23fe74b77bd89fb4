//! `zovn plan prove`: the risk of a placement once more, in another way.

mod lab;
mod scenario;
mod simulated;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::ValueEnum;
use figures::{count, percent};
use measure::page::Page;
use planner::Plan;
use planner::proof::{Drawn, by_monte_carlo};

use self::lab::{Ask, told};
use self::scenario::Scale;
use self::simulated::{Estimate, Found, simulated};
use super::files::Files;
use super::page::{Html, compared, put};
use super::words::{ending, hosts, machines};
use crate::ending::{Outcome, USAGE, show, unmade};
use crate::number::within;
use crate::signals::INTERRUPTED;
use crate::table::{headed, text};

/// Find the risk of the placement once more in another way, and compare.
///
/// By `monte-carlo`, states of all machines are drawn and added up. By `sim`, each host is
/// simulated frame by frame, with the real switch, which carries as much as the plan says: what
/// machines make beyond that is lost, and counted. Holding times are shortened, all by one factor,
/// so that what is rare in days is seen in seconds. By `lab`, which needs root and a profile of a
/// switch that was measured on this machine, a host's machines are containers at that switch: what
/// was drawn of their models is sent, and how long they are held back is told. With `--mixes`
/// constant demands of 50 % to 150 % of what the switch carries are sent instead, and it is told
/// how many were rightly said to fit or not to.
///
/// Exit code 1 if a host's two figures contradict each other. By `sim` they do if, beyond three
/// standard errors, more is seen than is computed by a tenth; or if more than 1 % of traffic is
/// computed to be too much, and less than half of that is seen. By `lab` they do if a frame is
/// lost, or machines are held back for more, or less, of the time than they asked for too much, by
/// a fifth and two hundredths of all time; of `--mixes`, if fewer than 95 % are right.
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
    /// By `sim` and `lab`: how many frames a machine's visit to a state has, on average. The more,
    /// the less the buffers count, and the fewer visits there are [default: 200; by `lab` 2000].
    #[arg(long, value_name = "N", value_parser = within(10..=1_000_000u64))]
    burst: Option<u64>,
    /// By `sim`: how many runs each host has, from whose differences errors are told.
    #[arg(long, value_name = "N", default_value_t = 16, value_parser = within(2..=1000u32))]
    runs: u32,
    /// By `sim`: how many hosts that differ are simulated, the riskiest first.
    #[arg(long, value_name = "N", default_value_t = 16, value_parser = within(1..=10_000u32))]
    most: u32,
    /// By `sim`: write each host's scenario into this folder, for `zovn sim`.
    #[arg(long, value_name = "FOLDER")]
    scenarios: Option<PathBuf>,
    /// By `lab`: the host whose machines send [default: the one with the greatest risk].
    #[arg(long, value_name = "HOST")]
    host: Option<String>,
    /// By `lab`: how many seconds they send [default: 20; 1 for each of `--mixes`].
    #[arg(long, value_name = "N", value_parser = within(1..=3600u32))]
    seconds: Option<u32>,
    /// By `lab`: send so many mixes of constant demands, in place of a host's machines. Half of
    /// them ask for less than the switch carries and half for more, by a tenth at least.
    #[arg(long, value_name = "N", value_parser = within(1..=10_000u32))]
    mixes: Option<u32>,
    /// The seed of what is drawn.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Tell it as JSON.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    html: Html,
}

#[derive(Clone, Copy, Eq, PartialEq, ValueEnum)]
enum Way {
    /// States of all machines are drawn, and what they ask for is added up.
    MonteCarlo,
    /// Hosts are simulated frame by frame, with the real switch.
    Sim,
    /// A host's machines are containers at a real switch on this machine.
    Lab,
}

/// Compares, and tells.
pub fn run(args: &Args) -> Outcome {
    let is_of_lab = args.host.is_some() || args.seconds.is_some() || args.mixes.is_some();
    if is_of_lab && args.by != Way::Lab {
        eprintln!("zovn: --host, --seconds and --mixes are of a lab: add `--by lab`");
        return Ok(ExitCode::from(USAGE));
    }
    args.files.then_on_hosts(|plan| match args.by {
        Way::MonteCarlo => monte_carlo(args, plan),
        Way::Sim => by_sim(args, plan),
        Way::Lab => by_lab(args, plan),
    })
}

fn monte_carlo(args: &Args, plan: &Plan) -> Outcome {
    let page = args.html.open()?;
    let drawn = by_monte_carlo(plan, args.draws, args.seed);
    put(page, || drawn_page(&drawn))?;
    show(&drawn, args.json, || drawn_table(&drawn, args.draws))?;
    Ok(ending(drawn.iter().all(|it| it.agrees)))
}

fn by_lab(args: &Args, plan: &Plan) -> Outcome {
    let page = args.html.open()?;
    let ask = Ask {
        host: args.host.as_deref(),
        secs: args.seconds.unwrap_or(if args.mixes.is_some() { 1 } else { 20 }),
        burst: args.burst.unwrap_or(2000),
        seed: args.seed,
    };
    match args.mixes {
        Some(count) => match lab::mixed(plan, count, ask)? {
            Ok(all) => {
                put(page, || told::mixes_page(&all))?;
                show(&all, args.json, || told::mixes_table(&all))?;
                Ok(ending(all.is_met))
            }
            Err(error) => unmade(error),
        },
        None => match lab::host(plan, ask)? {
            Ok(host) => {
                put(page, || told::host_page(&host))?;
                show(&[&host], args.json, || told::host_table(&host))?;
                Ok(ending(host.agrees))
            }
            Err(error) => unmade(error),
        },
    }
}

fn by_sim(args: &Args, plan: &Plan) -> Outcome {
    let page = args.html.open()?;
    let Args { frames, runs, seed, .. } = *args;
    let scale = Scale { frames, burst: args.burst.unwrap_or(200), runs, seed };
    let found = simulated(plan, scale, args.most as usize, args.scenarios.as_deref())?;
    if found.is_stopped {
        return Ok(ExitCode::from(INTERRUPTED));
    }
    put(page, || simulated_page(&found))?;
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

fn drawn_page(drawn: &[Drawn]) -> Page {
    let names: Vec<String> = drawn.iter().map(|it| hosts(&it.hosts)).collect();
    let computed: Vec<f64> = drawn.iter().map(|it| it.computed.high).collect();
    let other = drawn.iter().map(|it| (it.drawn, [it.interval.low, it.interval.high]));
    let chart = compared("Overload of hosts", &names, &computed, ("drawn", other.collect()));
    Page::new("Overload, computed and drawn")
        .lead(
            "The share of time in which each host is asked for too much, as it is computed, and the \
             share of draws; whiskers have 99.9 %.",
        )
        .chart(chart)
}

fn simulated_page(found: &Found) -> Page {
    let names: Vec<String> = found.hosts.iter().map(|it| hosts(&it.hosts)).collect();
    let told = |it: Estimate| (it.mean, [it.mean - it.error, it.mean + it.error]);
    let time: Vec<f64> = found.hosts.iter().map(|it| it.computed.high).collect();
    let seen = found.hosts.iter().map(|it| told(it.seen)).collect();
    let traffic: Vec<f64> = found.hosts.iter().map(|it| it.computed_traffic).collect();
    let lost = found.hosts.iter().map(|it| told(it.seen_traffic)).collect();
    Page::new("Overload, computed and simulated")
        .lead(
            "What was computed of each host, and what its simulated machines saw at a switch that \
             carries as much as the plan says; whiskers are a standard error.",
        )
        .chart(compared("Overload of hosts", &names, &time, ("simulated", seen)))
        .chart(compared("Traffic that is too much", &names, &traffic, ("simulated", lost)))
}

fn yes(agrees: bool) -> String {
    if agrees { "yes" } else { "no" }.to_owned()
}
