//! `zovn sim run`: runs, their progress, and their results.

use std::io::{self, Write};
use std::path::Path;
use std::process::ExitCode;
use std::thread;

use serde::Serialize;
use sim::CellResult;
use sim::scenario::{Cell, Plan};

use super::watch::Watch;
use super::{bare, text};
use crate::ending::print_json;
use crate::{Outcome, signals};

/// Runs a plan's cells.
pub fn run(file: &Path, plan: Plan, seed: Option<u64>, threads: Option<u16>, json: bool) -> Outcome {
    let plan = match seed {
        Some(seed) => plan.with_seed(seed),
        None => plan,
    };
    let cells: Vec<Cell> = plan.cells().collect();
    let stop = signals::stop()?;
    let watch = Watch::new(&cells, &stop);
    let results = sim::run_cells(&cells, self::threads(threads), &watch);
    watch.clear();
    tell(file, &plan, &results, json)?;
    Ok(verdict(&results, watch.is_stopped()))
}

/// As many threads as are wanted, or as there are processors.
pub fn threads(wanted: Option<u16>) -> usize {
    wanted.map_or_else(|| thread::available_parallelism().map_or(1, usize::from), usize::from)
}

/// Prints results, as JSON or as a table.
pub fn tell(file: &Path, plan: &Plan, results: &[CellResult], json: bool) -> io::Result<()> {
    let scenario = &plan.first().name;
    if json {
        let config =
            Config { scenario, file: &file.display().to_string(), seed: plan.cell(0).scenario.run.seed };
        print_json(&Results { zovn: env!("CARGO_PKG_VERSION"), experiment: "sim", config, results })
    } else {
        print(scenario, results)
    }
}

/// What speaks against runs, on stderr; and how they ended, as an exit code.
pub fn verdict(results: &[CellResult], is_stopped: bool) -> ExitCode {
    if is_stopped {
        return ExitCode::from(signals::INTERRUPTED);
    }
    let complaints: Vec<String> = results.iter().flat_map(CellResult::complaints).collect();
    for complaint in &complaints {
        eprintln!("zovn: {complaint}");
    }
    if complaints.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// What `run --json` and `sweep --json` say.
#[derive(Serialize)]
struct Results<'a> {
    zovn: &'a str,
    experiment: &'a str,
    config: Config<'a>,
    results: &'a [CellResult],
}

#[derive(Serialize)]
struct Config<'a> {
    scenario: &'a str,
    file: &'a str,
    seed: u64,
}

fn print(name: &str, results: &[CellResult]) -> io::Result<()> {
    let mut table = bare();
    table.set_header([
        "run", "queries", "mean", "p5", "p50", "p95", "p99", "max", "flows", "resent", "timeouts", "lost",
    ]);
    for it in results {
        let ms = |us: Option<f64>| us.map_or_else(|| "-".to_owned(), |us| format!("{:.3} ms", us / 1e3));
        let times = it.fct_us;
        let lost: u64 = it.classes.values().map(|class| class.lost_virtual + class.lost_physical).sum();
        table.add_row([
            it.name.clone(),
            it.queries.to_string(),
            ms(times.map(|it| it.mean)),
            ms(it.fct_p5_us),
            ms(times.map(|it| it.p50)),
            ms(times.map(|it| it.p95)),
            ms(times.map(|it| it.p99)),
            ms(times.map(|it| it.max)),
            it.flows.to_string(),
            it.retransmits.to_string(),
            it.timeouts.to_string(),
            lost.to_string(),
        ]);
    }
    writeln!(io::stdout(), "{name}\n\n{}", text(table))
}
