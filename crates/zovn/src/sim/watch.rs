//! How far runs are, on stderr: a bar on a terminal, a line for each run elsewhere.

use std::collections::BTreeMap;
use std::io::{self, IsTerminal};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};
use sim::scenario::Cell;
use sim::{CellResult, Progress};

/// How far all runs are together.
pub struct Watch<'a> {
    stop: &'a AtomicBool,
    bar: ProgressBar,
    /// By cell, in thousandths.
    done: BTreeMap<u64, AtomicU64>,
    speaks: bool,
}

/// The first thing that went wrong, in whichever thread.
pub struct Failure<E>(Mutex<Option<E>>);

impl<E> Default for Failure<E> {
    fn default() -> Self {
        Self(Mutex::new(None))
    }
}

impl<E> Failure<E> {
    /// Something went wrong.
    pub fn set(&self, error: E) {
        self.0.lock().expect("no thread panics with it").get_or_insert(error);
    }

    /// Whether anything did.
    pub fn is_set(&self) -> bool {
        self.0.lock().expect("no thread panics with it").is_some()
    }

    /// What did.
    pub fn into_inner(self) -> Option<E> {
        self.0.into_inner().expect("all threads are done")
    }
}

/// A cell, in steps of the bar.
const STEPS: u64 = 1000;

impl<'a> Watch<'a> {
    /// Watches runs of `cells`, until `stop` is set.
    pub fn new(cells: &[Cell], stop: &'a AtomicBool) -> Self {
        let is_terminal = io::stderr().is_terminal();
        let bar = if is_terminal {
            ProgressBar::new(cells.len() as u64 * STEPS)
        } else {
            ProgressBar::hidden()
        };
        let style = ProgressStyle::with_template("{bar:30} {percent:>3} %  {msg}  {eta} left");
        bar.set_style(
            style.expect("the template is well-formed, as every run with a terminal shows"),
        );
        if is_terminal {
            bar.enable_steady_tick(Duration::from_millis(200));
        }
        let done = cells.iter().map(|cell| (cell.index, AtomicU64::new(0))).collect();
        Self { stop, bar, done, speaks: !is_terminal }
    }

    /// The same, without a line for each run elsewhere.
    pub fn quiet(self) -> Self {
        Self { speaks: false, ..self }
    }

    /// How many cells there are.
    pub fn cells(&self) -> usize {
        self.done.len()
    }

    /// Whether somebody wants it to end.
    pub fn is_stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    /// Takes the bar away.
    pub fn clear(&self) {
        self.bar.finish_and_clear();
    }

    /// Tells how much of a cell is done; whether it may go on.
    pub fn see(&self, cell: &Cell, progress: &Progress, done: f64) -> bool {
        self.set(cell, (done * STEPS as f64) as u64);
        let rate = progress.events as f64 / self.bar.elapsed().as_secs_f64().max(1e-3) / 1e6;
        let time = progress.time.as_secs_f64();
        self.bar.set_message(format!("{}: {time:.3} s simulated, {rate:.1} M events/s", cell.name));
        !self.is_stopped()
    }

    /// Tells that a cell is done; whether another may begin.
    pub fn end(&self, cell: &Cell, result: &CellResult) -> bool {
        self.set(cell, STEPS);
        if self.speaks {
            let CellResult { name, time_s, queries, .. } = result;
            eprintln!("{name}: {queries} queries in {time_s:.3} s");
        }
        !self.is_stopped()
    }

    fn set(&self, cell: &Cell, steps: u64) {
        self.done[&cell.index].store(steps, Ordering::Relaxed);
        self.bar.set_position(self.done.values().map(|steps| steps.load(Ordering::Relaxed)).sum());
    }
}
