//! `zovn sim run`: runs, their progress, and their results.

use std::fs::File;
use std::io::{self, Write};
use std::ops::Not;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::thread;

use serde::Serialize;
use sim::scenario::{Cell, LinkName, MOST_SEED, Plan, ScenarioError};
use sim::{CellResult, Ended, Instruments, Progress, Seen, Watcher};

use super::plan::plan;
use super::watch::{Failure, Watch};
use super::{bare, text};
use crate::ending::{Outcome, USAGE, print_json};
use crate::number::within;
use crate::signals;

/// What is to be run, and how it is told: by `run` and by `sweep`.
#[derive(clap::Args)]
pub struct Order {
    /// The scenario's file (TOML; docs/scenarios.md shows every field).
    pub file: PathBuf,
    /// What randomness is drawn from, instead of what the file says.
    #[arg(long, value_parser = within(0..=MOST_SEED))]
    seed: Option<u64>,
    /// How many runs at once, each on one thread; as many as there are processors if absent.
    #[arg(long, value_parser = within(1..=u16::MAX))]
    threads: Option<u16>,
    /// Tell it as JSON.
    #[arg(long)]
    json: bool,
}

/// What to run, and what is to be seen of it.
#[derive(clap::Args)]
pub struct Args {
    #[command(flatten)]
    order: Order,
    /// Write what a link carries as a pcapng file, for Wireshark. A link is called by its ends:
    /// server0-leaf0, tor3-core1.
    ///
    /// `zovn sim check` tells the tiers of a topology; their nodes count from 0. Each frame has its
    /// headers, its length and the time when its last bit has come. docs/simulator.md says more.
    #[arg(long, value_name = "LINK")]
    pcapng: Option<LinkName>,
    /// The file, LINK.pcapng if absent. Of several cells each has one, with its number:
    /// LINK-000002.pcapng.
    #[arg(long, value_name = "FILE", requires = "pcapng")]
    pcapng_out: Option<PathBuf>,
}

/// Runs a plan's cells.
pub fn run(args: &Args) -> Outcome {
    let Some(plan) = args.order.plan()? else { return Ok(ExitCode::from(USAGE)) };
    let mut cells: Vec<Cell> = plan.cells().collect();
    for cell in &mut cells {
        if let Some(what) = args.pcapng.and_then(|link| cell.scenario.topology.lacks(link)) {
            eprintln!("zovn: {}: {what}", cell.name);
            return Ok(ExitCode::from(USAGE));
        }
        // What a scenario wants written down is for a sweep, which has a folder.
        cell.scenario.output.pcapng = args.pcapng;
    }
    let stop = signals::stop()?;
    let listener = Listener { watch: Watch::new(&cells, &stop), args, failure: Failure::default() };
    let results = sim::run_cells(&cells, args.order.threads(), &listener);
    listener.watch.clear();
    let ending = Ending { is_stopped: listener.watch.is_stopped(), cells: cells.len() };
    let told = args.order.tell(&plan, &results, ending)?;
    // Results are right, whatever became of the file.
    listener.failure.into_inner().map_or(Ok(told), |error| Err(error.into()))
}

/// Who opens a file for each cell that runs, if a link is listened to.
struct Listener<'a> {
    watch: Watch<'a>,
    args: &'a Args,
    /// Why a file could not be written.
    failure: Failure<String>,
}

impl Listener<'_> {
    /// Where the frames of a cell go.
    fn path(&self, cell: &Cell, link: LinkName) -> PathBuf {
        let path = self.args.pcapng_out.clone().unwrap_or_else(|| format!("{link}.pcapng").into());
        if self.watch.cells() == 1 {
            return path;
        }
        let mut name = path.file_stem().unwrap_or_default().to_owned();
        name.push(format!("-{:06}", cell.index));
        if let Some(extension) = path.extension() {
            name.push(".");
            name.push(extension);
        }
        path.with_file_name(name)
    }

    fn fail(&self, path: &Path, error: &io::Error) {
        self.failure.set(format!("cannot write {}: {error}", path.display()));
    }
}

impl Watcher for Listener<'_> {
    fn begin(&self, cell: &Cell) -> Option<Instruments> {
        let Some(link) = cell.scenario.output.pcapng else { return Some(Instruments::default()) };
        let path = self.path(cell, link);
        match File::create(&path) {
            Ok(file) => {
                Some(Instruments { pcapng: Some(Box::new(file)), ..Instruments::default() })
            }
            Err(error) => {
                self.fail(&path, &error);
                None
            }
        }
    }

    fn see(&self, cell: &Cell, progress: &Progress, done: f64) -> bool {
        self.watch.see(cell, progress, done) && !self.failure.is_set()
    }

    fn end(&self, cell: &Cell, _: &sim::Outcome, result: &CellResult, seen: Seen) -> bool {
        if let (Some(link), Err(error)) = (cell.scenario.output.pcapng, &seen.pcapng) {
            self.fail(&self.path(cell, link), error);
        }
        self.watch.end(cell, result) && !self.failure.is_set()
    }
}

/// How runs ended, all together.
#[derive(Clone, Copy)]
pub struct Ending {
    /// Whether somebody did not want them to go on.
    pub is_stopped: bool,
    /// How many there should be.
    pub cells: usize,
}

impl Order {
    /// The plan; none, and complaints on stderr, if it cannot be simulated.
    pub fn plan(&self) -> Result<Option<Plan>, ScenarioError> {
        let plan = plan(&self.file)?;
        Ok(match self.seed {
            Some(seed) => plan.map(|plan| plan.with_seed(seed)),
            None => plan,
        })
    }

    /// As many threads as are wanted, or as there are processors.
    pub fn threads(&self) -> usize {
        self.threads
            .map_or_else(|| thread::available_parallelism().map_or(1, usize::from), usize::from)
    }

    /// Prints results as JSON or as a table, and what speaks against them on stderr.
    pub fn tell(&self, plan: &Plan, results: &[CellResult], ending: Ending) -> Outcome {
        let scenario = &plan.first().name;
        if self.json {
            let file = &self.file.display().to_string();
            let config = Config { scenario, file, seed: plan.cell(0).scenario.run.seed };
            let zovn = env!("CARGO_PKG_VERSION");
            print_json(&Results {
                zovn,
                experiment: "sim",
                partial: ending.is_stopped,
                config,
                results,
            })?;
        } else {
            print(scenario, results)?;
        }
        let complaints: Vec<String> = results.iter().flat_map(CellResult::complaints).collect();
        let shortfalls: Vec<String> = results.iter().filter_map(CellResult::shortfall).collect();
        for sentence in complaints.iter().chain(&shortfalls) {
            eprintln!("zovn: {sentence}");
        }
        if ending.is_stopped {
            let done = results.iter().filter(|it| it.ending != Ended::Stopped).count();
            eprintln!("zovn: interrupted: {done} of {} cells are done", ending.cells);
            return Ok(ExitCode::from(signals::INTERRUPTED));
        }
        Ok(if complaints.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
    }
}

/// What `run --json` and `sweep --json` say.
#[derive(Serialize)]
struct Results<'a> {
    zovn: &'a str,
    experiment: &'a str,
    /// Whether somebody has stopped it: there would be more.
    #[serde(skip_serializing_if = "Not::not")]
    partial: bool,
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
    let mut header = vec![
        "run", "queries", "mean", "p5", "p50", "p95", "p99", "max", "flows", "streamed", "resent",
        "timeouts", "lost",
    ];
    let has_states = results.iter().any(|it| it.overload.is_some());
    header.extend(["overload", "excess"].iter().filter(|_| has_states));
    table.set_header(header);
    for it in results {
        let ms =
            |us: Option<f64>| us.map_or_else(|| "-".to_owned(), |us| format!("{:.3} ms", us / 1e3));
        let times = it.completion.fct_us;
        let lost: u64 =
            it.classes.values().map(|class| class.lost_virtual + class.lost_physical).sum();
        let mut row = vec![
            it.name.clone(),
            it.queries.to_string(),
            ms(times.map(|it| it.mean)),
            ms(it.completion.fct_p5_us),
            ms(times.map(|it| it.p50)),
            ms(times.map(|it| it.p95)),
            ms(times.map(|it| it.p99)),
            ms(times.map(|it| it.max)),
            it.flows.to_string(),
            format!("{:.1} MB", it.stream_bytes as f64 / 1e6),
            it.retransmits.to_string(),
            it.timeouts.to_string(),
            lost.to_string(),
        ];
        if let Some(it) = it.overload {
            row.extend([it.share_of_time(), it.share_of_traffic()].map(figures::percent));
        }
        table.add_row(row);
    }
    writeln!(io::stdout(), "{name}\n\n{}", text(table))
}
