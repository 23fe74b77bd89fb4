//! `zovn sim run`: runs, their progress, and their results.

use std::io::{self, IsTerminal, Write};
use std::path::Path;
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};
use serde::Serialize;
use sim::scenario::{Cell, Plan};
use sim::{CellResult, Progress, Watcher};

use super::{bare, text};
use crate::ending::print_json;
use crate::{Outcome, signals};

/// Runs a plan's cells.
pub fn run(file: &Path, plan: Plan, seed: Option<u64>, threads: Option<u16>, json: bool) -> Outcome {
    let plan = match seed {
        Some(seed) => plan.with_seed(seed),
        None => plan,
    };
    let threads = threads.map_or_else(|| thread::available_parallelism().map_or(1, usize::from), usize::from);
    let cells: Vec<Cell> = plan.cells().collect();
    let stop = signals::stop()?;
    let watch = Watch::new(&cells, &stop);
    let results = sim::run_cells(&cells, threads, &watch);
    watch.bar.finish_and_clear();
    let seed = cells[0].scenario.run.seed;
    if json {
        let config = Config { scenario: &plan.first().name, file: &file.display().to_string(), seed };
        let zovn = env!("CARGO_PKG_VERSION");
        print_json(&Results { zovn, experiment: "sim", config, results: &results })?;
    } else {
        print(&plan.first().name, &results)?;
    }
    if stop.load(Ordering::Relaxed) {
        return Ok(ExitCode::from(signals::INTERRUPTED));
    }
    let complaints: Vec<String> = results.iter().flat_map(CellResult::complaints).collect();
    for complaint in &complaints {
        eprintln!("zovn: {complaint}");
    }
    Ok(if complaints.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// What `run --json` says.
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

/// How far all runs are together.
struct Watch<'a> {
    stop: &'a AtomicBool,
    bar: ProgressBar,
    /// By cell, in thousandths.
    done: Vec<AtomicU64>,
    first: u64,
    speaks: bool,
}

/// A cell, in steps of the bar.
const STEPS: u64 = 1000;

impl<'a> Watch<'a> {
    fn new(cells: &[Cell], stop: &'a AtomicBool) -> Self {
        let is_terminal = io::stderr().is_terminal();
        let bar =
            if is_terminal { ProgressBar::new(cells.len() as u64 * STEPS) } else { ProgressBar::hidden() };
        let style = ProgressStyle::with_template("{bar:30} {percent:>3} %  {msg}  {eta} left");
        bar.set_style(style.expect("the template is well-formed, as every run with a terminal shows"));
        if is_terminal {
            bar.enable_steady_tick(Duration::from_millis(200));
        }
        let done = cells.iter().map(|_| AtomicU64::new(0)).collect();
        Self { stop, bar, done, first: cells[0].index, speaks: !is_terminal }
    }

    fn set(&self, cell: &Cell, steps: u64) {
        self.done[(cell.index - self.first) as usize].store(steps, Ordering::Relaxed);
        self.bar.set_position(self.done.iter().map(|steps| steps.load(Ordering::Relaxed)).sum());
    }
}

impl Watcher for Watch<'_> {
    fn see(&self, cell: &Cell, progress: &Progress, done: f64) -> bool {
        self.set(cell, (done * STEPS as f64) as u64);
        let rate = progress.events as f64 / self.bar.elapsed().as_secs_f64().max(1e-3) / 1e6;
        let time = progress.time.as_secs_f64();
        self.bar.set_message(format!("{}: {time:.3} s simulated, {rate:.1} M events/s", cell.name));
        !self.stop.load(Ordering::Relaxed)
    }

    fn end(&self, cell: &Cell, result: &CellResult) {
        self.set(cell, STEPS);
        if self.speaks {
            let CellResult { name, time_s, queries, .. } = result;
            eprintln!("{name}: {queries} queries in {time_s:.3} s");
        }
    }
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
