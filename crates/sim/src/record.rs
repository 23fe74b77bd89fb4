//! What a run finds out: a row for each query and flow that counts.

use crate::time::Time;

/// A query, or a round, that is complete.
#[derive(Clone, Copy, Debug)]
pub struct Query {
    /// Which workload's, by its place in the scenario.
    pub workload: u16,
    /// The machine that asked.
    pub at: u32,
    /// When it began.
    pub begun: Time,
    /// When its last answer had arrived.
    pub ended: Time,
}

/// A flow that has arrived.
#[derive(Clone, Copy, Debug)]
pub struct Flow {
    /// Which workload's, by its place in the scenario.
    pub workload: u16,
    /// The machine that sent it.
    pub from: u32,
    /// The machine that it was for.
    pub to: u32,
    /// Its payload.
    pub bytes: u64,
    /// When it began.
    pub begun: Time,
    /// When its last byte had arrived.
    pub ended: Time,
}

/// The rows of a run, in the order in which they ended.
#[derive(Clone, Debug, Default)]
pub struct Record {
    warmup: Time,
    queries: Vec<Query>,
    flows: Vec<Flow>,
}

impl Record {
    /// A record of what begins after `warmup`.
    pub(crate) fn new(warmup: Time) -> Self {
        Self { warmup, ..Self::default() }
    }

    pub(crate) fn query(&mut self, query: Query) {
        if query.begun >= self.warmup {
            self.queries.push(query);
        }
    }

    pub(crate) fn flow(&mut self, flow: Flow) {
        if flow.begun >= self.warmup {
            self.flows.push(flow);
        }
    }

    /// The queries and rounds that count.
    pub fn queries(&self) -> &[Query] {
        &self.queries
    }

    /// The flows that count.
    pub fn flows(&self) -> &[Flow] {
        &self.flows
    }
}
