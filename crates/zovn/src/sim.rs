//! `zovn sim`: simulated datacenters.

mod bench;
mod plan;
mod report;
mod runs;
mod sweep;
mod watch;

use std::io::{self, Write};
use std::path::PathBuf;
use std::process::ExitCode;

use clap::Subcommand;
use serde::Serialize;
use sim::scenario::{Fault, Plan, ScenarioError, Summary};

use self::plan::complain;
pub use self::watch::Watch;
use crate::ending::{Outcome, USAGE, print_json};
use crate::memory::ask_for_huge_pages;
use crate::number::within;
use crate::table::{bare, text};

const EXAMPLES: &str = "\
Examples:
  zovn sim check scenarios/zovn-fig12.toml               what it is, and whether it can be simulated
  zovn sim check scenarios/incast.toml --json
  zovn sim run scenarios/incast.toml                     every run of it, on all processors
  zovn sim run scenarios/incast.toml --seed 7 --threads 2 --json
  zovn sim run scenarios/incast.toml --pcapng server0-switch0 --pcapng-out incast.pcapng
  zovn sim sweep scenarios/zovn-fig12.toml --out out/    every run, with its rows, into a folder; goes on where it ended
  zovn sim sweep scenarios/zovn-fig12.toml --out out/ --shard 2/4
  zovn sim report out/ --html fig12.html                 what all of that has found
  zovn sim bench                                         how fast this machine simulates

docs/scenarios.md shows every field of a scenario.";

/// Simulate datacenters, packet by packet, with the very switch that runs on hosts.
#[derive(clap::Args)]
#[command(after_long_help = EXAMPLES)]
pub struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Run a scenario: every combination of its sweep.
    ///
    /// The same file and seed give the same bytes of JSON, on any machine and any number of
    /// threads. Exit code 1 if a frame of a lossless class was lost, ports wait for each other in a
    /// circle, or a run ended before it had a result; 130 if it was interrupted, with what there
    /// is.
    Run(runs::Args),
    /// Run a scenario, or a share of it, into a folder of results.
    ///
    /// Each run that is done has its summary (JSON) and its rows (Parquet) there. What is there is
    /// not run again, so a sweep that was killed goes on where it ended, and shards fill one folder
    /// from several machines. Exit code 1 as for `run`.
    Sweep(sweep::Args),
    /// Tell what a sweep has found: its completion times, its gains, its losses.
    ///
    /// Exit code 1 if cells are missing; what is there is told all the same.
    Report(report::Args),
    /// Measure how fast this machine simulates: Partition-Aggregate on a fat tree of 256 servers.
    Bench {
        /// How many queries.
        #[arg(long, default_value_t = 1000, value_parser = within(1..=u64::MAX))]
        queries: u64,
        /// How often; the median is told.
        #[arg(long, default_value_t = 3, value_parser = within(1..=99u16))]
        rounds: u16,
        /// Tell it as JSON.
        #[arg(long)]
        json: bool,
    },
    /// Tell what a scenario is, and all that is wrong with it.
    ///
    /// Exit code 0 if it can be simulated, 2 if not, 1 if its file cannot be read.
    Check {
        /// The scenario's file (TOML; docs/scenarios.md shows every field).
        file: PathBuf,
        /// Tell it as JSON.
        #[arg(long)]
        json: bool,
    },
}

/// Does what was asked.
pub fn run(args: Args) -> Outcome {
    if let Command::Run(_) | Command::Sweep(_) | Command::Bench { .. } = args.command {
        ask_for_huge_pages();
    }
    match args.command {
        Command::Run(args) => runs::run(&args),
        Command::Sweep(args) => sweep::run(&args),
        Command::Report(args) => report::run(args),
        Command::Bench { queries, rounds, json } => bench::run(queries, rounds, json),
        Command::Check { file, json } => match Plan::read(&file) {
            Ok(plan) if json => {
                print_json(&Verdict { summary: Some(plan.summary()), faults: &[] })?;
                Ok(ExitCode::SUCCESS)
            }
            Ok(plan) => {
                print(&plan)?;
                Ok(ExitCode::SUCCESS)
            }
            Err(ScenarioError::Faults { faults, .. }) if json => {
                print_json(&Verdict { summary: None, faults: &faults })?;
                Ok(ExitCode::from(USAGE))
            }
            Err(error) => {
                complain(error)?;
                Ok(ExitCode::from(USAGE))
            }
        },
    }
}

/// What `check --json` says.
#[derive(Serialize)]
struct Verdict<'a> {
    /// The scenario at a glance; none if it cannot be simulated.
    summary: Option<Summary>,
    /// Why it cannot.
    faults: &'a [Fault],
}

fn print(plan: &Plan) -> io::Result<()> {
    let summary = plan.summary();
    let mut out = io::stdout().lock();
    writeln!(out, "{}", summary.name)?;
    if !summary.description.is_empty() {
        writeln!(out, "{}", summary.description)?;
    }
    writeln!(out)?;
    let mut facts = bare();
    for (name, value) in facts_of(plan, &summary) {
        facts.add_row([name, &value]);
    }
    writeln!(out, "{}\n", text(facts))?;
    let mut workloads = bare();
    workloads.set_header(["workload", "kind", "class", "transport", "offered"]);
    for workload in &summary.workloads {
        let offered = match workload.offered_bps {
            None => "as much as gets through".to_owned(),
            Some([least, most]) if least == most => bits(least),
            Some([least, most]) => format!("{} to {}", bits(least), bits(most)),
        };
        let transport = workload.transport.name();
        let classes: Vec<&str> = workload.classes.iter().map(String::as_str).collect();
        let classes = classes.join(", ");
        workloads.add_row([&workload.name, workload.kind, &classes, transport, &offered]);
    }
    writeln!(out, "{}", text(workloads))?;
    if summary.cells > 1 {
        let mut axes = bare();
        axes.set_header(["sweep", "values"]);
        for (name, labels) in &summary.axes {
            axes.add_row([name, &labels.join(", ")]);
        }
        if summary.repeat > 1 {
            axes.add_row(["seed", &format!("{} of them", summary.repeat)]);
        }
        writeln!(out, "\n{}", text(axes))?;
    }
    Ok(())
}

/// How large it is, a line each.
fn facts_of(plan: &Plan, summary: &Summary) -> Vec<(&'static str, String)> {
    let it = plan.first();
    let switches: Vec<_> =
        summary.switches.iter().map(|tier| format!("{} {}", tier.count, tier.tier)).collect();
    let roles: Vec<_> =
        summary.vms_per_server.iter().map(|(role, count)| format!("{count} {role}")).collect();
    let mut ends: Vec<String> =
        it.run.duration.iter().map(|time| format!("after {time}")).collect();
    ends.extend(it.run.queries.iter().map(|count| format!("after {count} queries")));
    ends.extend(
        it.run
            .precision
            .map(|share| format!("once the queries' mean is known to {} %", 100.0 * share)),
    );
    if ends.is_empty() {
        ends.push("when all workloads are done".to_owned());
    }
    let capacity =
        format!("{}, with links of {} together", summary.servers, bits(summary.access_bps));
    let mut facts = vec![
        ("servers", capacity),
        ("machines", format!("{}: {} on each server", summary.vms, roles.join(", "))),
        ("switches", switches.join(", ")),
        ("links", summary.links.to_string()),
        ("ends", ends.join(", or ")),
        ("cells", summary.cells.to_string()),
    ];
    if summary.clients > 0 {
        facts.insert(1, ("clients", summary.clients.to_string()));
    }
    facts
}

/// Bits per second as people say them.
fn bits(bps: f64) -> String {
    if bps == 0.0 {
        return "nothing".to_owned();
    }
    let units = [(1e12, "Tb/s"), (1e9, "Gb/s"), (1e6, "Mb/s"), (1e3, "kb/s")];
    let (scale, unit) = units.into_iter().find(|(scale, _)| bps >= *scale).unwrap_or((1.0, "b/s"));
    format!("{:.3} {unit}", bps / scale)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_are_told_in_their_unit() {
        assert_eq!(bits(2.56e12), "2.560 Tb/s");
        assert_eq!(bits(1.5e7), "15.000 Mb/s");
        assert_eq!(bits(0.0), "nothing");
    }
}
