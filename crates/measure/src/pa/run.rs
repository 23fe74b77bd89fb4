//! Queries under one set of conditions: programs started, told and asked, and what they found added
//! up.

use std::time::Duration;

use lab::Lab;
use traffic::Samples;

use super::cast::Cast;
use super::config::{Config, FRAME, SEGMENT};
use super::report::{BackgroundFlows, Completion, Era, Subject};
use crate::endpoint::{
    Aggregator, AggregatorReport, Background, BackgroundReport, Repairs, Role, Worker, WorkerReport,
};
use crate::fleet::{Program, finish_all, start_all};
use crate::losses::{Losses, settled};
use crate::site::address;
use crate::{Bench, MeasureError};

const WORKER_PORT: u16 = 5002;
const BACKGROUND_PORT: u16 = 5003;

/// How long a program may take to report once it was told to end.
const PATIENCE: Duration = Duration::from_secs(30);

/// An aggregator stops by itself when a query stands still; so nobody needs to give up on it.
const FOREVER: Duration = Duration::MAX;

/// What was found under one set of conditions, while it is being gathered.
pub(super) struct Run {
    pub(super) subject: Subject,
    pub(super) tcp: String,
    pub(super) era: Era,
    pub(super) segments: u64,
    pub(super) fct_ns: Samples,
    pub(super) losses: Losses,
    repairs: Repairs,
    background_flows: u64,
}

impl Run {
    pub(super) fn new(subject: Subject, tcp: &str, era: Era, segments: u64) -> Self {
        Self {
            subject,
            tcp: tcp.to_owned(),
            era,
            segments,
            fct_ns: Samples::default(),
            losses: Losses::default(),
            repairs: Repairs::default(),
            background_flows: 0,
        }
    }

    /// One more round, over new connections.
    pub(super) fn round(
        &mut self,
        bench: &Bench<'_>,
        lab: &Lab,
        config: &Config,
        cast: &Cast,
        queries: u64,
    ) -> Result<(), MeasureError> {
        let Cast { aggregators, workers: names, background: senders } = cast;
        let before = settled(lab)?;
        let role = Role::PaWorker(Worker { port: WORKER_PORT, congestion: self.tcp.clone() });
        let mut workers = start(bench, lab, names, |_| Ok(role.clone()))?;
        start_all(bench, &mut workers)?;
        let mut background = match &config.background {
            None => Vec::new(),
            Some(flows) => {
                start(bench, lab, senders, |number| self.background(lab, senders, number, flows))?
            }
        };
        start_all(bench, &mut background)?;
        let addresses = names
            .iter()
            .map(|name| address(lab, name, WORKER_PORT))
            .collect::<Result<Vec<_>, _>>()?;
        let mut asking = start(bench, lab, aggregators, |number| {
            Ok(Role::PaAggregator(Aggregator {
                workers: addresses.clone(),
                plan: config.plan(self.segments, queries),
                congestion: self.tcp.clone(),
                seed: number as u64,
            }))
        })?;
        start_all(bench, &mut asking)?;
        for aggregator in &mut asking {
            let report: AggregatorReport = aggregator.report(bench, FOREVER)?;
            self.fct_ns.extend(report.fct_ns);
            self.repairs += report.repairs;
        }
        finish_all(&mut background)?;
        for program in &mut background {
            let report: BackgroundReport = program.report(bench, PATIENCE)?;
            self.background_flows += report.flows;
        }
        finish_all(&mut workers)?;
        for worker in &mut workers {
            let report: WorkerReport = worker.report(bench, PATIENCE)?;
            self.repairs += report.repairs;
        }
        self.losses += Losses::between(&before, &settled(lab)?);
        Ok(())
    }

    fn background(
        &self,
        lab: &Lab,
        everyone: &[String],
        number: usize,
        flows: &BackgroundFlows,
    ) -> Result<Role, MeasureError> {
        let others = everyone.iter().enumerate().filter(|(other, _)| *other != number);
        let peers = others
            .map(|(_, name)| address(lab, name, BACKGROUND_PORT))
            .collect::<Result<_, _>>()?;
        Ok(Role::Background(Background {
            port: BACKGROUND_PORT,
            peers,
            sizes: flows.sizes.clone(),
            gap: flows.gap,
            congestion: self.tcp.clone(),
            seed: number as u64,
        }))
    }

    pub(super) fn conclude(mut self, config: &Config) -> Completion {
        let frames = config.frames(self.segments);
        Completion {
            subject: self.subject,
            tcp: self.tcp,
            era: self.era,
            response_segments: self.segments,
            response_bytes: self.segments * SEGMENT,
            queries: self.fct_ns.len() as u64,
            fct_us: self.fct_ns.times_us(),
            ideal_us: config.rate.map(|rate| rate.time_for(frames * FRAME).as_nanos() as f64 / 1e3),
            retransmits: self.repairs.retransmits,
            timeouts: self.repairs.timeouts,
            lost: self.losses.lost,
            dropped_between_hosts: self.losses.dropped_between_hosts,
            balanced: self.losses.balanced,
            gain_over: None,
            background_flows: self.background_flows,
            percentiles_us: (0..=100)
                .map(|p| self.fct_ns.quantile(f64::from(p) / 100.0) as f64 / 1e3)
                .collect(),
        }
    }
}

/// Starts a program in each of `endpoints`, and waits for none.
fn start(
    bench: &Bench<'_>,
    lab: &Lab,
    endpoints: &[String],
    mut role: impl FnMut(usize) -> Result<Role, MeasureError>,
) -> Result<Vec<Program>, MeasureError> {
    let start =
        |(number, endpoint): (usize, &String)| Program::start(bench, lab, endpoint, &role(number)?);
    endpoints.iter().enumerate().map(start).collect()
}
