//! How the experiment is made: what is compared, on which labs, with which queries.

use lab::{EndpointSpec, Lab, LabSpec, SwitchKind};
use serde::{Deserialize, Serialize};
use traffic::QueryPlan;
use units::{Rate, Span};

use super::cast::Cast;
use super::report::{BackgroundFlows, Era, Subject};
use super::testbed::Testbed;
use crate::site::{quiet_endpoint, raise};
use crate::{Bench, MeasureError, check_congestion, check_switches};

/// The payload of a full segment: 1500 bytes less IPv4's header, TCP's and its timestamps.
/// Responses count in these.
pub const SEGMENT: u64 = 1500 - 20 - 20 - 12;

/// A full segment's frame: what a port's rate counts.
pub(super) const FRAME: u64 = 1500 + 14;

const AGGREGATOR: &str = "agg";
const WORKER: &str = "wk";

/// How the experiment is made.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Config {
    /// The switches to compare.
    pub switches: Vec<SwitchKind>,
    /// How many workers answer each query.
    pub workers: u32,
    /// How many aggregators ask, each for itself and all at the same time.
    pub aggregators: u32,
    /// Response sizes, in full segments of 1448 bytes.
    pub sizes: Vec<u64>,
    /// Queries of each aggregator, in all rounds together.
    pub queries: u64,
    /// TCP's congestion control, one after the other.
    pub tcp: Vec<String>,
    /// How TCP repairs losses, one after the other.
    pub eras: Vec<Era>,
    /// The rate of every port towards its endpoint; none if absent.
    pub rate: Option<Rate>,
    /// Frames that wait for a port at most; the switch's own choice if absent.
    pub buffer: Option<u32>,
    /// Whether endpoints hand large segments to the switch whole, where it can take them.
    pub offload: bool,
    /// The pause between a completed query and the next.
    pub think: Span,
    /// Flows beside the queries, from every endpoint to every other.
    pub background: Option<BackgroundFlows>,
    /// The switch that the others are compared with.
    pub baseline: SwitchKind,
    /// How often each switch has its turn.
    pub rounds: u32,
    /// The hosts that all are on, with their rates and buffers; all are around one switch if
    /// absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub testbed: Option<Testbed>,
}

impl Config {
    /// What is compared.
    fn subjects(&self) -> Vec<Subject> {
        match &self.testbed {
            None => self.switches.iter().map(|switch| (*switch).into()).collect(),
            Some(testbed) => testbed.flow_controls.iter().map(|it| (*it).into()).collect(),
        }
    }

    /// What the others are compared with.
    pub fn baseline(&self) -> Subject {
        self.testbed.as_ref().map_or(self.baseline.into(), |testbed| testbed.baseline.into())
    }

    /// What makes labs differ, in the order of the rounds.
    pub(super) fn labs(&self) -> Vec<(Subject, Era)> {
        let eras = |subject| self.eras.iter().map(move |era| (subject, *era));
        self.subjects().into_iter().flat_map(eras).collect()
    }

    pub(super) fn cast(&self) -> Result<Cast, MeasureError> {
        if let Some(testbed) = &self.testbed {
            return testbed.cast(self.aggregators, self.workers);
        }
        let names = |stem, count| (1..=count).map(move |number| format!("{stem}{number}"));
        let aggregators: Vec<String> = names(AGGREGATOR, self.aggregators).collect();
        let workers: Vec<String> = names(WORKER, self.workers).collect();
        let background = aggregators.iter().chain(&workers).cloned().collect();
        Ok(Cast { aggregators, workers, background })
    }

    pub(super) fn lab(
        &self,
        bench: &Bench<'_>,
        subject: Subject,
        era: Era,
    ) -> Result<Lab, MeasureError> {
        let mut spec = match (&self.testbed, subject.flow_control) {
            (Some(testbed), Some(flow_control)) => testbed.lab(flow_control)?,
            _ => self.around(subject.switch)?,
        };
        spec.name = format!("measure-{}", std::process::id());
        spec.offload = self.offload;
        spec.endpoints.iter_mut().for_each(|endpoint| era.apply(endpoint));
        raise(bench, &spec)
    }

    /// All endpoints around one switch.
    fn around(&self, switch: SwitchKind) -> Result<LabSpec, MeasureError> {
        let Cast { aggregators, workers, .. } = self.cast()?;
        let mut spec = LabSpec::new("measure", switch);
        for (number, name) in (1..).zip(aggregators.into_iter().chain(workers)) {
            let (rate, buffer) = (self.rate, self.buffer);
            spec.endpoints.push(EndpointSpec { rate, buffer, ..quiet_endpoint(name, number)? });
        }
        Ok(spec)
    }

    /// How many frames all responses to a query are.
    pub(super) fn frames(&self, segments: u64) -> u64 {
        u64::from(self.workers).saturating_mul(segments)
    }

    pub(super) fn plan(&self, segments: u64, queries: u64) -> QueryPlan {
        QueryPlan {
            workers: self.workers,
            fan_out: self.workers,
            response_bytes: segments * SEGMENT,
            think: self.think,
            queries,
        }
    }
}

/// Refuses what cannot be measured.
pub(super) fn check(config: &Config) -> Result<(), MeasureError> {
    check_switches(&config.switches, &SwitchKind::OF_CONTAINERS, "containers")?;
    let wrong = |what: &str| Err(MeasureError::Config(what.into()));
    if config.aggregators == 0 || config.queries == 0 || config.rounds == 0 {
        return wrong("a measurement needs an aggregator, a query and a round");
    }
    if config.sizes.is_empty() || config.tcp.is_empty() || config.eras.is_empty() {
        return wrong("name at least one response size, one congestion control and one era of TCP");
    }
    if !config.switches.contains(&config.baseline) {
        return wrong(&format!(
            "the baseline `{}` is not measured: add it to the switches",
            config.baseline
        ));
    }
    let most = config.sizes.iter().max().copied().unwrap_or(0);
    if config.frames(most).checked_mul(FRAME).is_none() {
        return wrong("so many segments are more than anybody can send: ask for fewer");
    }
    if let Some(testbed) = &config.testbed {
        testbed.check(config.aggregators, config.workers)?;
    }
    config.tcp.iter().try_for_each(|name| check_congestion(name))?;
    config.plan(most, 1).check().map_err(|error| MeasureError::Config(error.to_string()))
}
