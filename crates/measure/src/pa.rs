//! Partition-Aggregate, two-tier (zOVN §5.1 and §5.2, figures 7 and 10): an aggregator asks all workers at once, all
//! answer at once into its one port, and the query is complete with the last byte.
//!
//! Either all of them are around one switch, and switches are compared; or they are on the hosts of a [`Testbed`] (zOVN §5.3,
//! figures 10 and 11), and it is compared where [flow control](FlowControl) is on.

mod flow_control;
mod run;
mod testbed;

use std::fmt;
use std::str::FromStr;

use lab::{EndpointSpec, Lab, LabSpec, SwitchKind};
use serde::{Deserialize, Serialize};
use traffic::{QueryPlan, TimesUs};
use units::{Rate, Span};

use crate::site::{quiet_endpoint, raise};
use crate::{Bench, Environment, MeasureError, Measurement, check_congestion, check_switches, is_lossless};

pub use flow_control::FlowControl;
use run::Run;
pub use testbed::Testbed;

/// The payload of a full segment: 1500 bytes less IPv4's header, TCP's and its timestamps. Responses count in these.
pub const SEGMENT: u64 = 1500 - 20 - 20 - 12;

/// A full segment's frame: what a port's rate counts.
const FRAME: u64 = 1500 + 14;

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
    /// The hosts that all are on, with their rates and buffers; all are around one switch if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub testbed: Option<Testbed>,
}

/// What is compared: a switch or, on a testbed, where flow control is on.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Serialize, Deserialize)]
pub struct Subject {
    /// The switch.
    pub switch: SwitchKind,
    /// Where flow control is on; none where there is but one switch.
    pub flow_control: Option<FlowControl>,
}

/// Flows beside the queries.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct BackgroundFlows {
    /// What their sizes are called.
    pub name: String,
    /// The cumulative distribution of their sizes: bytes and probability.
    pub sizes: Vec<(f64, f64)>,
    /// The mean pause of an endpoint between two flows; pauses are exponential.
    pub gap: Span,
}

/// How the endpoints' TCP repairs losses.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd, Serialize, Deserialize)]
pub enum Era {
    /// As when the paper was written: no tail loss probe, no RACK, no selective acknowledgement, an initial window
    /// of 3 segments (RFC 3390; RFC 6928's 10 was new).
    #[serde(rename = "2013")]
    Paper,
    /// As this kernel does by itself.
    #[serde(rename = "today")]
    Today,
}

/// One subject, one congestion control, one era, one size.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Completion {
    /// What was measured.
    #[serde(flatten)]
    pub subject: Subject,
    /// TCP's congestion control.
    pub tcp: String,
    /// How TCP repairs losses.
    pub era: Era,
    /// What each worker answers, in full segments.
    pub response_segments: u64,
    /// The same in bytes.
    pub response_bytes: u64,
    /// Queries that were completed.
    pub queries: u64,
    /// How long they took, in microseconds: from just before the first request to the last byte.
    pub fct_us: TimesUs,
    /// What they would take if the aggregator's port never rested: all frames of all responses over its rate.
    pub ideal_us: Option<f64>,
    /// Segments that were sent again on the queries' connections, handshakes aside.
    pub retransmits: u64,
    /// Retransmission timers that fired there; none if the kernel does not tell (Linux does since 6.7).
    pub timeouts: Option<u64>,
    /// Frames that left an endpoint and reached none.
    pub lost: u64,
    /// Frames that the switch between hosts dropped, which hosts may have sent again; none where there is no such switch.
    pub dropped_between_hosts: Option<u64>,
    /// Whether the switch's own account held, port by port and class by class; none where it keeps none.
    pub balanced: Option<bool>,
    /// How many times sooner than with the baseline.
    pub gain_over: Option<Gain>,
    /// Background flows that were completed meanwhile.
    pub background_flows: u64,
    /// Completion times that 0, 1, 2, … 100 % of the queries did not exceed, in microseconds.
    pub percentiles_us: Vec<f64>,
}

/// A comparison with the baseline under the same conditions: its time over ours.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Gain {
    /// The baseline.
    #[serde(flatten)]
    pub over: Subject,
    /// Of the means.
    pub mean: f64,
    /// Of the medians.
    pub p50: f64,
    /// Of the 99th percentiles.
    pub p99: f64,
}

/// The whole experiment.
pub type Report = Measurement<Config, Completion>;

/// Endpoints by what they do.
struct Cast {
    /// Ask.
    aggregators: Vec<String>,
    /// Answer.
    workers: Vec<String>,
    /// Send to each other beside that, if any do.
    background: Vec<String>,
}

/// Makes the experiment.
pub fn run(bench: &Bench<'_>, config: Config) -> Result<Report, MeasureError> {
    check(&config)?;
    let environment = Environment::look();
    let mut runs = Vec::new();
    for (subject, era) in config.labs() {
        for tcp in &config.tcp {
            for segments in &config.sizes {
                runs.push(Run::new(subject, tcp, era, *segments));
            }
        }
    }
    let cast = config.cast()?;
    let rounds = u64::from(config.rounds).min(config.queries);
    bench.progress.begin(runs.len() * rounds as usize);
    for round in 0..rounds {
        // The rounds' queries add up to those that were asked for.
        let queries = config.queries / rounds + u64::from(round < config.queries % rounds);
        for (subject, era) in config.labs() {
            bench.go_on()?;
            let lab = config.lab(bench, subject, era)?;
            for run in runs.iter_mut().filter(|run| (run.subject, run.era) == (subject, era)) {
                bench.step(&format!(
                    "{subject}: {} × {} segments, {}, {era}",
                    config.workers, run.segments, run.tcp
                ))?;
                run.round(bench, &lab, &config, &cast, queries)?;
            }
        }
    }
    let results = conclude(runs, &config);
    Ok(Measurement::new("pa", environment, config, results))
}

fn check(config: &Config) -> Result<(), MeasureError> {
    check_switches(&config.switches, &SwitchKind::OF_CONTAINERS, "containers")?;
    let wrong = |what: &str| Err(MeasureError::Config(what.into()));
    if config.aggregators == 0 || config.queries == 0 || config.rounds == 0 {
        return wrong("a measurement needs an aggregator, a query and a round");
    }
    if config.sizes.is_empty() || config.tcp.is_empty() || config.eras.is_empty() {
        return wrong("name at least one response size, one congestion control and one era of TCP");
    }
    if !config.switches.contains(&config.baseline) {
        return wrong(&format!("the baseline `{}` is not measured: add it to the switches", config.baseline));
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
    fn labs(&self) -> Vec<(Subject, Era)> {
        let eras = |subject| self.eras.iter().map(move |era| (subject, *era));
        self.subjects().into_iter().flat_map(eras).collect()
    }

    fn cast(&self) -> Result<Cast, MeasureError> {
        if let Some(testbed) = &self.testbed {
            return testbed.cast(self.aggregators, self.workers);
        }
        let names = |stem, count| (1..=count).map(move |number| format!("{stem}{number}"));
        let aggregators: Vec<String> = names(AGGREGATOR, self.aggregators).collect();
        let workers: Vec<String> = names(WORKER, self.workers).collect();
        let background = aggregators.iter().chain(&workers).cloned().collect();
        Ok(Cast { aggregators, workers, background })
    }

    fn lab(&self, bench: &Bench<'_>, subject: Subject, era: Era) -> Result<Lab, MeasureError> {
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
    fn frames(&self, segments: u64) -> u64 {
        u64::from(self.workers).saturating_mul(segments)
    }

    fn plan(&self, segments: u64, queries: u64) -> QueryPlan {
        QueryPlan {
            workers: self.workers,
            fan_out: self.workers,
            response_bytes: segments * SEGMENT,
            think: self.think,
            queries,
        }
    }
}

const AGGREGATOR: &str = "agg";
const WORKER: &str = "wk";

impl Subject {
    /// Whether it promises to lose nothing.
    pub fn is_lossless(&self) -> bool {
        self.flow_control.map_or(is_lossless(self.switch), FlowControl::is_lossless)
    }
}

impl From<SwitchKind> for Subject {
    fn from(switch: SwitchKind) -> Self {
        Self { switch, flow_control: None }
    }
}

impl From<FlowControl> for Subject {
    fn from(flow_control: FlowControl) -> Self {
        Self { switch: flow_control.switch(), flow_control: Some(flow_control) }
    }
}

impl fmt::Display for Subject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.flow_control {
            Some(flow_control) => flow_control.fmt(f),
            None => self.switch.fmt(f),
        }
    }
}

impl Era {
    fn apply(self, endpoint: &mut EndpointSpec) {
        let mut set = |name: &str, value: &str| {
            endpoint.sysctls.insert(format!("net.ipv4.{name}"), value.into());
        };
        // What one run learned of a path is not the next one's business.
        set("tcp_no_metrics_save", "1");
        if self == Self::Paper {
            set("tcp_early_retrans", "0");
            set("tcp_recovery", "0");
            set("tcp_sack", "0");
            endpoint.initcwnd = Some(3);
        }
    }
}

impl fmt::Display for Era {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Paper => "2013",
            Self::Today => "today",
        })
    }
}

impl FromStr for Era {
    type Err = MeasureError;

    fn from_str(text: &str) -> Result<Self, MeasureError> {
        match text {
            "2013" => Ok(Self::Paper),
            "today" => Ok(Self::Today),
            _ => Err(MeasureError::Config(format!("`{text}` is no era of TCP: write 2013, today or both"))),
        }
    }
}

/// Each run's figures, compared with the baseline's under the same conditions.
fn conclude(runs: Vec<Run>, config: &Config) -> Vec<Completion> {
    let baseline = config.baseline();
    let mut results: Vec<Completion> = runs.into_iter().map(|run| run.conclude(config)).collect();
    let baselines: Vec<Completion> =
        results.iter().filter(|result| result.subject == baseline).cloned().collect();
    let compared = |result: &&mut Completion| result.subject != baseline && result.queries > 0;
    for result in results.iter_mut().filter(compared) {
        let same = |other: &&Completion| {
            (&other.tcp, other.era, other.response_bytes) == (&result.tcp, result.era, result.response_bytes)
        };
        result.gain_over = baselines.iter().find(same).map(|other| Gain {
            over: baseline,
            mean: other.fct_us.mean / result.fct_us.mean,
            p50: other.fct_us.p50 / result.fct_us.p50,
            p99: other.fct_us.p99 / result.fct_us.p99,
        });
    }
    results
}

#[cfg(test)]
mod tests;
