//! `zovn sim sweep`: the runs that a folder lacks, or a share of them.

use std::path::PathBuf;
use std::sync::Mutex;

use sim::scenario::{Cell, Plan, Shard};
use sim::store::StoreError;
use sim::{CellResult, Ended, Outcome as Ran, Progress, Store, Watcher};

use super::runs;
use super::watch::Watch;
use crate::{Outcome, signals};

/// What to sweep, and where to.
#[derive(clap::Args)]
pub struct Args {
    /// The scenario's file (TOML; docs/scenarios.md shows every field).
    pub file: PathBuf,
    /// The folder for results; it is made if it is not there, and completed if it is.
    #[arg(long)]
    out: PathBuf,
    /// Run only a share of the cells: 2/4 is the second of four.
    #[arg(long, default_value_t = Shard::WHOLE)]
    shard: Shard,
    /// Write rows as CSV too.
    #[arg(long)]
    csv: bool,
    /// How many runs at once; as many as there are processors if absent.
    #[arg(long, value_parser = clap::value_parser!(u16).range(1..))]
    threads: Option<u16>,
    /// Tell it as JSON.
    #[arg(long)]
    json: bool,
}

/// Runs what is missing.
pub fn run(args: &Args, plan: &Plan) -> Outcome {
    let stop = signals::stop()?;
    let store = Store::create(&args.out, plan)?;
    let (mut results, mut missing) = (Vec::new(), Vec::new());
    for cell in plan.shard(args.shard) {
        match result(&store, cell.index, args.csv)? {
            Some(result) => results.push(result),
            None => missing.push(cell),
        }
    }
    if !results.is_empty() {
        let all = results.len() + missing.len();
        eprintln!("{} of {all} cells are in {} already", results.len(), args.out.display());
    }
    let keeper = Keeper {
        watch: Watch::new(&missing, &stop),
        store: &store,
        csv: args.csv,
        failure: Mutex::default(),
    };
    let ran = sim::run_cells(&missing, runs::threads(args.threads), &keeper);
    keeper.watch.clear();
    let is_stopped = keeper.watch.is_stopped();
    if let Some(error) = keeper.failure.into_inner().expect("all threads are done") {
        return Err(error.into());
    }
    // What was stopped has no files.
    results.extend(ran.into_iter().filter(|it| !is_stopped || it.ending != Ended::Stopped));
    results.sort_by_key(|it| it.cell);
    runs::tell(&args.file, plan, &results, args.json)?;
    Ok(runs::verdict(&results, is_stopped))
}

/// A cell's result, if nothing is left to do for it. One that ran out of its `time_limit` may have more time now.
fn result(store: &Store, index: u64, csv: bool) -> Result<Option<CellResult>, StoreError> {
    if !store.is_complete(index, csv) {
        return Ok(None);
    }
    Ok(store.result(index)?.filter(|it| it.ending != Ended::Stopped))
}

/// Who writes each cell as it ends.
struct Keeper<'a> {
    watch: Watch<'a>,
    store: &'a Store,
    csv: bool,
    /// Why a cell could not be written.
    failure: Mutex<Option<StoreError>>,
}

impl Watcher for Keeper<'_> {
    fn see(&self, cell: &Cell, progress: &Progress, done: f64) -> bool {
        self.watch.see(cell, progress, done)
            && self.failure.lock().expect("no thread panics with it").is_none()
    }

    fn end(&self, cell: &Cell, outcome: &Ran, result: &CellResult) -> bool {
        let failed = || self.failure.lock().expect("no thread panics with it");
        if result.ending == Ended::Stopped && (self.watch.is_stopped() || failed().is_some()) {
            return false;
        }
        if let Err(error) = self.store.write(cell, outcome, result, self.csv) {
            failed().get_or_insert(error);
            return false;
        }
        self.watch.end(cell, outcome, result)
    }
}
