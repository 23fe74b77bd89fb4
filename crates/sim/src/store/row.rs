//! Rows: a query, a flow or a stream that counts, what was seen of a queue, and the columns that
//! tell them. docs/simulator.md explains each.

use super::table::{
    CLASS, Column, FCT, KIND, PAUSED, PORT, QUEUE, SPAN, START, Told, Values, full, partial,
};
use crate::ideal::Ideal;
use crate::machines::{host, machine};
use crate::outcome::Outcome;
use crate::record::{Flow, Query};
use crate::samples::Sample;
use crate::scenario::{Cell, Scenario, Transport};
use crate::time::Time;

/// A query, a round, a flow or a stream, as it is written down.
#[derive(Clone, Debug)]
pub(super) struct Row<'a> {
    cell: u64,
    workload: &'a str,
    kind: &'static str,
    from: String,
    to: Option<String>,
    bytes: Option<u64>,
    begun: Time,
    ended: Time,
    base: Option<Time>,
}

/// The kinds of rows.
pub(super) const QUERY: &str = "query";
pub(super) const FLOW: &str = "flow";
const STREAM: &str = "stream";

impl Told for Row<'_> {
    fn columns() -> Vec<Column<Self>> {
        vec![
            full("cell", Values::Whole(|row| Some(row.cell))),
            full("workload", Values::Text(|row| Some(row.workload))),
            full(KIND, Values::Text(|row| Some(row.kind))),
            full("from", Values::Text(|row| Some(&row.from))),
            partial("to", Values::Text(|row| row.to.as_deref())),
            partial("bytes", Values::Whole(|row| row.bytes)),
            full("start_ns", Values::Whole(|row| Some(row.begun.as_nanos()))),
            full("end_ns", Values::Whole(|row| Some(row.ended.as_nanos()))),
            full(FCT, Values::Whole(|row| Some(row.fct().as_nanos()))),
            partial("base_fct_ns", Values::Whole(|row| row.base.map(Time::as_nanos))),
            partial("slowdown", Values::Real(|row| row.slowdown())),
        ]
    }
}

/// What was seen of a queue, as it is written down.
pub(super) struct Look<'a> {
    pub cell: u64,
    pub sample: Sample<'a>,
}

impl Told for Look<'_> {
    fn columns() -> Vec<Column<Self>> {
        vec![
            full("cell", Values::Whole(|it| Some(it.cell))),
            full(START, Values::Whole(|it| Some(it.sample.start_ns))),
            full(SPAN, Values::Whole(|it| Some(it.sample.span_ns))),
            full(PORT, Values::Text(|it| Some(it.sample.port))),
            full(CLASS, Values::Text(|it| Some(it.sample.class))),
            full(QUEUE, Values::Whole(|it| Some(it.sample.queue_bytes))),
            full(PAUSED, Values::Real(|it| Some(it.sample.paused))),
        ]
    }
}

impl Row<'_> {
    fn fct(&self) -> Time {
        self.ended - self.begun
    }

    fn slowdown(&self) -> Option<f64> {
        let base = self.base.filter(|base| *base > Time::ZERO)?;
        Some(self.fct().as_picos() as f64 / base.as_picos() as f64)
    }
}

/// The rows that a cell's scenario wants written down.
pub(super) struct Rows<'a> {
    cell: &'a Cell,
    /// The workloads' names, and what carries them.
    workloads: Vec<(&'a str, Transport)>,
    queries: &'a [Query],
    flows: &'a [Flow],
    streams: &'a [Flow],
    ideal: Ideal<'a>,
}

impl<'a> Rows<'a> {
    /// What is to be told of a cell's outcome.
    pub fn new(cell: &'a Cell, outcome: &'a Outcome) -> Self {
        let Scenario { workloads, output, .. } = &cell.scenario;
        Self {
            cell,
            workloads: workloads
                .iter()
                .map(|(name, it)| (name.as_str(), it.kind.transport()))
                .collect(),
            queries: if output.queries { outcome.record.queries() } else { &[] },
            flows: if output.flows { outcome.record.flows() } else { &[] },
            streams: if output.flows { outcome.record.streams() } else { &[] },
            ideal: Ideal::new(&cell.scenario),
        }
    }

    /// Queries, then flows, each in the order in which they ended; then streams.
    pub fn iter(&self) -> impl Iterator<Item = Row<'a>> {
        let queries = self.queries.iter().map(|it| self.query(it));
        let flows = self.flows.iter().map(|it| self.flow(it));
        let streams = self.streams.iter().map(|it| self.stream(it));
        queries.chain(flows).chain(streams)
    }

    fn query(&self, it: &Query) -> Row<'a> {
        Row {
            cell: self.cell.index,
            workload: self.workloads[usize::from(it.workload)].0,
            kind: QUERY,
            from: machine(&self.cell.scenario, it.at),
            to: None,
            bytes: None,
            begun: it.begun,
            ended: it.ended,
            base: None,
        }
    }

    fn flow(&self, it: &Flow) -> Row<'a> {
        let [from, to] = [it.from, it.to].map(|machine| host(&self.cell.scenario, machine));
        let (_, transport) = self.workloads[usize::from(it.workload)];
        let base = self.ideal.time(from, to, it.bytes, transport);
        Row { kind: FLOW, base: Some(base), ..self.stream(it) }
    }

    fn stream(&self, it: &Flow) -> Row<'a> {
        let scenario = &self.cell.scenario;
        Row {
            cell: self.cell.index,
            workload: self.workloads[usize::from(it.workload)].0,
            kind: STREAM,
            from: machine(scenario, it.from),
            to: Some(machine(scenario, it.to)),
            bytes: Some(it.bytes),
            begun: it.begun,
            ended: it.ended,
            base: None,
        }
    }
}
