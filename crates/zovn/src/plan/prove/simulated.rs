//! The risk of a placement as the simulator sees it, host by host, beside what was predicted.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::sync::atomic::Ordering;
use std::thread;

use planner::stage::{Stage, stages};
use planner::{Plan, Share};
use serde::Serialize;
use sim::scenario::{Cell, Plan as Scenarios};
use sim::{CellResult, Outcome, OverloadResult, Progress, Seen, Watcher};

use super::scenario::{Rehearsal, Scale};
use crate::sim::Watch;

/// What was seen of hosts that are alike.
#[derive(Clone, Debug, Serialize)]
pub struct Simulated {
    /// Their names.
    pub hosts: Vec<String>,
    /// What each has.
    pub machines: BTreeMap<String, u32>,
    /// The share of time in which each is asked for too much, as it is computed.
    pub computed: Share,
    /// The share of time in which the simulated one was.
    pub seen: Estimate,
    /// The share of traffic that is too much, at most, as it is computed.
    pub computed_traffic: f64,
    /// The share of what simulated machines made that was lost because nobody carried it.
    pub seen_traffic: Estimate,
    /// How often overload began.
    pub episodes: u64,
    /// How much of the plan's time was simulated, in seconds.
    pub secs: f64,
    /// By how much holding times were shorter than the plan's.
    pub faster: f64,
    /// Whether what was seen is no more than what was computed and, of traffic that is not little,
    /// no less than half of it.
    pub agrees: bool,
}

/// A mean of several runs.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Estimate {
    /// The mean.
    pub mean: f64,
    /// Its standard error.
    pub error: f64,
}

impl Estimate {
    fn of(values: impl Iterator<Item = f64>) -> Self {
        let values: Vec<f64> = values.collect();
        let count = values.len() as f64;
        let mean = values.iter().sum::<f64>() / count;
        let squares: f64 = values.iter().map(|it| (it - mean) * (it - mean)).sum();
        Self { mean, error: (squares / (count - 1.0) / count).sqrt() }
    }

    /// Whether it contradicts that something is at most so much: by more than three standard errors
    /// and what queues that drain add to an episode.
    fn contradicts(self, most: f64) -> bool {
        self.mean - 3.0 * self.error > DRAINING * most
    }

    /// Whether it contradicts that something is nearly so much: by three standard errors it is less
    /// than half of it. Of little, queues that fill first can hide more.
    fn falls_short(self, most: f64) -> bool {
        most > LITTLE && self.mean + 3.0 * self.error < most / 2.0
    }
}

/// What is no more than this may all be hidden by queues.
const LITTLE: f64 = 0.01;

/// An episode lasts until queues are empty again.
const DRAINING: f64 = 1.1;

/// What came of all hosts.
pub struct Found {
    /// By kind of host, the riskiest first.
    pub hosts: Vec<Simulated>,
    /// How many kinds of hosts the placement has.
    pub kinds: usize,
    /// Whether somebody wanted it to end.
    pub is_stopped: bool,
}

/// Simulates the riskiest `most` kinds of hosts. Scenarios are written into `folder`, if any.
///
/// # Errors
///
/// What cannot be simulated or written, or went wrong in a run, in a sentence.
pub fn simulated(
    plan: &Plan,
    scale: Scale,
    most: usize,
    folder: Option<&Path>,
) -> Result<Found, Box<dyn std::error::Error + Send + Sync>> {
    let mut stages = stages(plan);
    let kinds = stages.len();
    stages.sort_by(|a, b| b.time.high.total_cmp(&a.time.high));
    stages.truncate(most);
    let mut rehearsals = Vec::new();
    let mut cells: Vec<Cell> = Vec::new();
    for stage in stages {
        let rehearsal = Rehearsal::new(&stage, scale)?;
        if let Some(folder) = folder {
            let path = folder.join(format!("{}.toml", stage.hosts[0].replace('/', "_")));
            fs::create_dir_all(folder)
                .and_then(|()| fs::write(&path, &rehearsal.text))
                .map_err(|error| format!("cannot write {}: {error}", path.display()))?;
        }
        let scenarios = Scenarios::parse(&rehearsal.text)
            .map_err(|faults| format!("{} cannot be simulated: {}", stage.hosts[0], faults[0]))?;
        for cell in scenarios.cells() {
            let index = cells.len() as u64;
            let name = format!("{}, seed {}", stage.hosts[0], cell.scenario.run.seed);
            cells.push(Cell { index, name, ..cell });
        }
        rehearsals.push((stage, rehearsal));
    }
    let stop = crate::signals::stop()?;
    let watch = Watch::new(&cells, &stop).quiet();
    let threads = thread::available_parallelism().map_or(1, |it| it.get());
    let results = sim::run_cells(&cells, threads, &Watching(&watch));
    watch.clear();
    if stop.load(Ordering::Relaxed) {
        return Ok(Found { hosts: Vec::new(), kinds, is_stopped: true });
    }
    let complaints: Vec<String> = results.iter().flat_map(CellResult::complaints).collect();
    if let Some(complaint) = complaints.first() {
        return Err(complaint.clone().into());
    }
    let runs = results.chunks(scale.runs as usize);
    let hosts = rehearsals.into_iter().zip(runs).map(|((stage, rehearsal), runs)| {
        let of: Vec<OverloadResult> = runs.iter().filter_map(|it| it.overload).collect();
        compared(stage, &rehearsal, &of)
    });
    Ok(Found { hosts: hosts.collect(), kinds, is_stopped: false })
}

fn compared(stage: Stage, rehearsal: &Rehearsal, runs: &[OverloadResult]) -> Simulated {
    let seen = Estimate::of(runs.iter().map(OverloadResult::share_of_time));
    let seen_traffic = Estimate::of(runs.iter().map(OverloadResult::share_of_traffic));
    let agrees = !seen.contradicts(stage.time.high)
        && !seen_traffic.contradicts(stage.traffic)
        && !seen_traffic.falls_short(stage.traffic);
    Simulated {
        hosts: stage.hosts,
        machines: stage.machines,
        computed: stage.time,
        seen,
        computed_traffic: stage.traffic,
        seen_traffic,
        episodes: runs.iter().map(|it| it.episodes).sum(),
        secs: rehearsal.secs * runs.len() as f64,
        faster: rehearsal.faster,
        agrees,
    }
}

struct Watching<'a>(&'a Watch<'a>);

impl Watcher for Watching<'_> {
    fn see(&self, cell: &Cell, progress: &Progress, done: f64) -> bool {
        self.0.see(cell, progress, done)
    }

    fn end(&self, cell: &Cell, _: &Outcome, result: &CellResult, _: Seen) -> bool {
        self.0.end(cell, result)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn much_less_than_was_computed_contradicts_as_more_does_unless_it_is_little() {
        let seen = |mean| Estimate { mean, error: 0.001 };
        assert!(seen(0.12).contradicts(0.1) && !seen(0.11).contradicts(0.1));
        assert!(seen(0.04).falls_short(0.1) && seen(0.0).falls_short(0.1));
        assert!(!seen(0.048).falls_short(0.1), "its error is as large");
        assert!(!seen(0.0).falls_short(0.01), "that is little");
    }
}
