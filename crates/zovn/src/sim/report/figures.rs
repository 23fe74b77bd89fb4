//! A sweep's results, a line for each combination of its axes' values.

use std::collections::BTreeMap;
use std::ops::Add;

use serde::Serialize;
use sim::store::{Kind, StoreError};
use sim::{CellResult, Completion, Store};

use super::heat::Heat;

/// All that is told of a sweep.
pub struct Figures {
    /// What the times are of: queries, or flows if there is no query in any cell.
    pub kind: Kind,
    /// Each combination, in the order of the axes.
    pub lines: Vec<Line>,
    /// The times of each line's cells together, rising, in nanoseconds.
    pub times: Vec<Vec<u64>>,
    /// The results that are there, cell by cell.
    pub cells: Vec<CellResult>,
    /// What was seen of queues, of some of them.
    pub heat: Vec<Heat>,
    /// The names of the others.
    pub missing: Vec<String>,
}

/// A combination of the axes' values: all repetitions together.
#[derive(Clone, Debug, Serialize)]
pub struct Line {
    /// The value of each axis.
    pub values: BTreeMap<String, String>,
    /// How many of its repetitions are there.
    pub cells: u64,
    /// How many completion times there are.
    pub samples: u64,
    /// What they are like; the mean's error for queries only.
    #[serde(flatten)]
    pub completion: Completion,
    /// How many times the mean is contained in that of the first axis' first value, all else equal.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub gain: Option<f64>,
    /// TCP segments sent again.
    pub retransmits: u64,
    /// Retransmission timeouts.
    pub timeouts: u64,
    /// Frames lost by virtual switches and virtual NICs.
    pub lost_virtual: u64,
    /// Frames lost by physical switches and NICs.
    pub lost_physical: u64,
    /// How long physical transmitters were paused, all together.
    pub paused_s: f64,
    /// Queries and flows that were begun and are not complete.
    pub unfinished: u64,
    /// What speaks against the runs, in sentences.
    pub complaints: Vec<String>,
}

impl Figures {
    /// Reads all cells that are there.
    pub fn read(store: &Store) -> Result<Self, StoreError> {
        let sweep = store.sweep();
        let (mut cells, mut missing) = (Vec::new(), Vec::new());
        for index in 0..sweep.cells {
            match store.result(index)? {
                Some(result) => cells.push(result),
                None => missing.push(sweep.name(index)),
            }
        }
        let has_queries = cells.iter().any(|it| it.queries > 0);
        let kind = if has_queries { Kind::Query } else { Kind::Flow };
        let (mut lines, mut all) = (Vec::new(), Vec::new());
        for first in (0..sweep.cells).step_by(sweep.repeat as usize) {
            let range = first..first + u64::from(sweep.repeat);
            let mine: Vec<&CellResult> =
                cells.iter().filter(|it| range.contains(&it.cell)).collect();
            let mut times = Vec::new();
            for cell in &mine {
                times.extend(store.times(cell.cell, kind)?);
            }
            times.sort_unstable();
            let values = sweep.axes.iter().map(|(name, _)| name.clone()).zip(sweep.labels(first));
            lines.push(Line::new(values.collect(), &mine, &times, kind));
            all.push(times);
        }
        // A line's base has the first value of the first axis, which changes slowest.
        let rest = sweep.axes.first().map_or(0, |(_, labels)| lines.len() / labels.len());
        let means: Vec<_> =
            lines.iter().map(|it| it.completion.fct_us.map(|times| times.mean)).collect();
        for (place, line) in lines.iter_mut().enumerate().filter(|_| rest > 0) {
            line.gain = means[place % rest].zip(means[place]).map(|(base, mean)| base / mean);
        }
        // Repetitions look alike: the first of each line is enough.
        let firsts = cells.chunk_by(|a, b| a.values == b.values).map(|line| &line[0]);
        let heat =
            firsts.filter_map(|it| Heat::read(store, it).transpose()).collect::<Result<_, _>>()?;
        Ok(Self { kind, lines, times: all, cells, heat, missing })
    }

    /// What the times are of, as rows say it.
    pub fn of(&self) -> &'static str {
        match self.kind {
            Kind::Query => "query",
            Kind::Flow => "flow",
        }
    }

    /// The same, of many.
    pub fn plural(&self) -> &'static str {
        match self.kind {
            Kind::Query => "queries",
            Kind::Flow => "flows",
        }
    }
}

impl Line {
    fn new(
        values: BTreeMap<String, String>,
        cells: &[&CellResult],
        times: &[u64],
        kind: Kind,
    ) -> Self {
        let sum = |of: fn(&CellResult) -> u64| cells.iter().map(|it| of(it)).sum();
        let classes = || cells.iter().flat_map(|it| it.classes.values());
        let errors: Option<Vec<f64>> =
            cells.iter().map(|it| it.completion.fct_mean_error_us).collect();
        // Repetitions have seeds of their own, so their means' errors are independent.
        let error = |errors: Vec<f64>| {
            errors.iter().map(|it| it * it).sum::<f64>().sqrt() / errors.len() as f64
        };
        Self {
            values,
            cells: cells.len() as u64,
            samples: times.len() as u64,
            completion: Completion::of(times, errors.filter(|_| kind == Kind::Query).map(error)),
            gain: None,
            retransmits: sum(|it| it.retransmits),
            timeouts: sum(|it| it.timeouts),
            lost_virtual: classes().map(|it| it.lost_virtual).sum(),
            lost_physical: classes().map(|it| it.lost_physical).sum(),
            // Nothing added up would be minus zero.
            paused_s: classes().map(|it| it.paused_s).fold(0.0, Add::add),
            unfinished: sum(|it| it.unfinished),
            complaints: cells
                .iter()
                .flat_map(|it| it.complaints().into_iter().chain(it.shortfall()))
                .collect(),
        }
    }
}
