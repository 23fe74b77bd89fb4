//! `zovn sim sweep`: the runs that a folder lacks, or a share of them.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Mutex;

use sim::scenario::{Cell, Shard};
use sim::store::{Pending, StoreError};
use sim::{CellResult, Ended, Instruments, Outcome as Ran, Progress, Seen, Store, Watcher};

use super::runs::{Ending, Order};
use super::watch::{Failure, Watch};
use crate::ending::{Outcome, USAGE};
use crate::signals;

/// What to sweep, and where to.
#[derive(clap::Args)]
pub struct Args {
    #[command(flatten)]
    order: Order,
    /// The folder for results; it is made if it is not there, and completed if it is.
    #[arg(long)]
    out: PathBuf,
    /// Run only a share of the cells: 2/4 is the second of four.
    #[arg(long, default_value_t = Shard::WHOLE)]
    shard: Shard,
    /// Write rows as CSV too.
    #[arg(long)]
    csv: bool,
}

/// Runs what is missing.
pub fn run(args: &Args) -> Outcome {
    let Some(plan) = args.order.plan()? else { return Ok(ExitCode::from(USAGE)) };
    let stop = signals::stop()?;
    let store = Store::create(&args.out, &plan)?;
    let (mut results, mut missing) = (Vec::new(), Vec::new());
    for cell in plan.shard(args.shard) {
        match result(&store, &cell, args.csv)? {
            Some(result) => results.push(result),
            None => missing.push(cell),
        }
    }
    let all = results.len() + missing.len();
    if !results.is_empty() {
        eprintln!("{} of {all} cells are in {} already", results.len(), args.out.display());
    }
    let keeper = Keeper {
        watch: Watch::new(&missing, &stop),
        store: &store,
        csv: args.csv,
        captures: Mutex::default(),
        failure: Failure::default(),
    };
    let ran = sim::run_cells(&missing, args.order.threads(), &keeper);
    keeper.watch.clear();
    let is_stopped = keeper.watch.is_stopped();
    if let Some(error) = keeper.failure.into_inner() {
        return Err(error.into());
    }
    // What was stopped has no files.
    results.extend(ran.into_iter().filter(|it| !is_stopped || it.ending != Ended::Stopped));
    results.sort_by_key(|it| it.cell);
    args.order.tell(&plan, &results, Ending { is_stopped, cells: all })
}

/// A cell's result, if nothing is left to do for it. One that ran out of its `time_limit` may have
/// more time now.
fn result(store: &Store, cell: &Cell, csv: bool) -> Result<Option<CellResult>, StoreError> {
    if !store.is_complete(cell, csv) {
        return Ok(None);
    }
    Ok(store.result(cell.index)?.filter(|it| it.ending != Ended::Stopped))
}

/// Who writes each cell as it ends.
struct Keeper<'a> {
    watch: Watch<'a>,
    store: &'a Store,
    csv: bool,
    /// By cell that runs: where its frames go.
    captures: Mutex<BTreeMap<u64, Pending>>,
    /// Why a cell could not be written.
    failure: Failure<StoreError>,
}

impl Keeper<'_> {
    /// Opens a file for the frames of a cell, if they are wanted.
    fn listen(&self, cell: &Cell) -> Result<Instruments, StoreError> {
        let mut instruments = Instruments { samples: true, ..Instruments::default() };
        if cell.scenario.output.pcapng.is_some() {
            let (sink, pending) = self.store.listen(cell)?;
            instruments.pcapng = Some(sink);
            self.captures.lock().expect("no thread panics with it").insert(cell.index, pending);
        }
        Ok(instruments)
    }

    /// Writes all files of a cell that is done.
    fn keep(
        &self,
        cell: &Cell,
        outcome: &Ran,
        result: &CellResult,
        seen: Seen,
    ) -> Result<(), StoreError> {
        let capture = self.captures.lock().expect("no thread panics with it").remove(&cell.index);
        if let Some(capture) = capture {
            capture.keep(seen.pcapng)?;
        }
        self.store.write(cell, outcome, result, seen.samples.as_ref(), self.csv)
    }
}

impl Watcher for Keeper<'_> {
    fn begin(&self, cell: &Cell) -> Option<Instruments> {
        self.listen(cell).map_err(|error| self.failure.set(error)).ok()
    }

    fn see(&self, cell: &Cell, progress: &Progress, done: f64) -> bool {
        self.watch.see(cell, progress, done) && !self.failure.is_set()
    }

    fn end(&self, cell: &Cell, outcome: &Ran, result: &CellResult, seen: Seen) -> bool {
        if self.failure.is_set() || result.ending == Ended::Stopped && self.watch.is_stopped() {
            return false;
        }
        if let Err(error) = self.keep(cell, outcome, result, seen) {
            self.failure.set(error);
            return false;
        }
        self.watch.end(cell, result)
    }
}
