//! Many runs at once: the cells of a plan, on as many threads as are wanted.

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use crate::outcome::Outcome;
use crate::result::CellResult;
use crate::scenario::{Cell, Run};
use crate::world::{Instruments, Progress, Seen, run_seen};

/// Who watches runs, from several threads.
pub trait Watcher: Sync {
    /// A cell is about to run: what is to look at it. If this is `None`, neither it nor any other
    /// begins.
    fn begin(&self, _cell: &Cell) -> Option<Instruments> {
        Some(Instruments::default())
    }

    /// How much of a cell is done, from 0 to 1; the run is stopped if this says `false`.
    fn see(&self, cell: &Cell, progress: &Progress, done: f64) -> bool;

    /// A cell is done, or was stopped; no other begins if this says `false`.
    fn end(&self, cell: &Cell, outcome: &Outcome, result: &CellResult, seen: Seen) -> bool;
}

/// Runs cells on `threads` threads, one or more; returns their results in the order of the cells.
/// Once `watcher` has said that it is enough, no other begins.
pub fn run_cells(cells: &[Cell], threads: usize, watcher: &impl Watcher) -> Vec<CellResult> {
    let next = AtomicUsize::new(0);
    let results: Mutex<Vec<Option<CellResult>>> = Mutex::new(vec![None; cells.len()]);
    thread::scope(|scope| {
        for _ in 0..threads.clamp(1, cells.len().max(1)) {
            scope.spawn(|| {
                while let Some((place, cell)) = {
                    let place = next.fetch_add(1, Ordering::Relaxed);
                    cells.get(place).map(|cell| (place, cell))
                } {
                    let rule = cell.scenario.run;
                    let (began, limit) = (Instant::now(), rule.time_limit.map(Duration::from));
                    let Some(instruments) = watcher.begin(cell) else {
                        next.store(cells.len(), Ordering::Relaxed);
                        break;
                    };
                    let (outcome, seen) = run_seen(&cell.scenario, instruments, &mut |it| {
                        limit.is_none_or(|limit| began.elapsed() < limit)
                            && watcher.see(cell, it, share(&rule, it))
                    });
                    let result = CellResult::new(cell, &outcome);
                    if !watcher.end(cell, &outcome, &result, seen) {
                        next.store(cells.len(), Ordering::Relaxed);
                    }
                    results.lock().expect("no thread panics with it")[place] = Some(result);
                }
            });
        }
    });
    results.into_inner().expect("all threads are done").into_iter().flatten().collect()
}

/// How much of a run is done.
fn share(run: &Run, progress: &Progress) -> f64 {
    let time = run.duration.map_or(0.0, |all| progress.time.as_secs_f64() / all.as_secs_f64());
    let queries = run.queries.map_or(0.0, |all| progress.queries as f64 / all as f64);
    time.max(queries).min(1.0)
}
