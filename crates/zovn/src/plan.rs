//! `zovn plan`: how many machines hosts carry, with a probability.

mod buy;
mod check;
mod fit;
mod migrate;
mod place;
mod prove;
mod risk;
mod why;

use std::io::{self, Write};
use std::path::PathBuf;
use std::process::ExitCode;

use clap::Subcommand;
use planner::{Fault, Plan, PlanError};

use crate::ending::{Outcome, USAGE};

const EXAMPLES: &str = "\
Examples:
  zovn plan check examples/plan/plan.yaml                all faults at once, with line and column
  zovn plan fit examples/plan/db.csv --out models.yaml   states of a trace, and why not to trust them
  zovn plan place examples/plan/plan.yaml --out placement.yaml
  zovn plan place examples/plan/plan.yaml --algorithm network-aware
  zovn plan risk examples/plan/plan.yaml --with placement.yaml
  zovn plan why examples/plan/plan.yaml backup b-1 --with examples/plan/today.yaml
  zovn plan why examples/plan/plan.yaml backup --with examples/plan/today.yaml
  zovn plan move examples/plan/plan.yaml --with examples/plan/today.yaml
  zovn plan buy examples/plan/plan.yaml
  zovn plan prove examples/plan/plan.yaml --by monte-carlo --with placement.yaml

docs/planning.md goes from traces to a purchase; docs/planner.md says what the figures mean.";

/// Plan how many machines hosts carry before their switches are asked for too much.
///
/// Nothing has to run, and nothing is measured: a file says what switches carry and what machines
/// ask for.
#[derive(clap::Args)]
#[command(after_long_help = EXAMPLES)]
pub struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    Check(check::Args),
    Fit(fit::Args),
    Place(place::Args),
    Risk(risk::Args),
    Why(why::Args),
    Move(migrate::Args),
    Buy(buy::Args),
    Prove(prove::Args),
}

/// Does what was asked.
pub fn run(args: Args) -> Outcome {
    match args.command {
        Command::Check(args) => check::run(&args),
        Command::Fit(args) => fit::run(&args),
        Command::Place(args) => place::run(&args),
        Command::Risk(args) => risk::run(&args),
        Command::Why(args) => why::run(&args),
        Command::Move(args) => migrate::run(&args),
        Command::Buy(args) => buy::run(&args),
        Command::Prove(args) => prove::run(&args),
    }
}

/// The files of a plan.
#[derive(clap::Args)]
struct Files {
    /// The plan's file (YAML; docs/planning.md shows every field).
    file: PathBuf,
    /// More of the plan, as fitted models or a placement. May be given several times.
    #[arg(long, value_name = "FILE")]
    with: Vec<PathBuf>,
}

impl Files {
    /// The plan, or all that is wrong with it.
    fn load(&self) -> Result<Result<Plan, Vec<Fault>>, PlanError> {
        let mut paths = vec![self.file.clone()];
        paths.extend(self.with.iter().cloned());
        match Plan::load(&paths) {
            Ok(plan) => Ok(Ok(plan)),
            Err(PlanError::Faults(faults)) => Ok(Err(faults)),
            Err(error) => Err(error),
        }
    }

    /// Does something with the plan; what is wrong with it is told, with exit code 2.
    fn then(&self, run: impl FnOnce(&Plan) -> Outcome) -> Outcome {
        match self.load()? {
            Ok(plan) => run(&plan),
            Err(faults) => {
                complain(&faults)?;
                Ok(ExitCode::from(USAGE))
            }
        }
    }

    /// The same with a plan that has hosts.
    fn then_on_hosts(&self, run: impl FnOnce(&Plan) -> Outcome) -> Outcome {
        self.then(|plan| {
            if plan.hosts().len() == 0 {
                return Err("the plan has no hosts: add some, or ask `zovn plan buy`".into());
            }
            run(plan)
        })
    }
}

fn complain(faults: &[Fault]) -> io::Result<()> {
    let mut out = io::stderr().lock();
    for fault in faults {
        writeln!(out, "{fault}")?;
    }
    Ok(())
}

/// Names of hosts that are alike, in a cell: `h-1 … h-12 (12)`.
fn hosts(names: &[String]) -> String {
    match names {
        [one] => one.clone(),
        [first, .., last] => format!("{first} … {last} ({})", names.len()),
        [] => String::new(),
    }
}

/// Machines of a host, in a cell: `4 web, 1 db`.
fn machines(counts: &std::collections::BTreeMap<String, u32>) -> String {
    let machines: Vec<_> = counts.iter().map(|(name, count)| format!("{count} {name}")).collect();
    machines.join(", ")
}

/// 0 if all is as it should be, 1 otherwise.
fn ending(is_good: bool) -> ExitCode {
    if is_good { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// A share of time between 0 and 1.
fn share(word: &str) -> Result<f64, String> {
    let share = word.parse().ok().filter(|it| *it > 0.0 && *it < 1.0);
    share.ok_or_else(|| "write a share of time between 0 and 1, as 0.001".to_owned())
}
