//! Partition-Aggregate, two-tier (zOVN §5.1 and §5.2, figures 7 and 10): an aggregator asks all workers at once, all
//! answer at once into its one port, and the query is complete with the last byte.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use lab::{Lab, LabSpec, SwitchKind};
use serde::{Deserialize, Serialize};
use traffic::{QueryPlan, Samples, TimesUs};
use units::{Rate, Span};

use crate::endpoint::{
    Aggregator, AggregatorReport, Background, BackgroundReport, Repairs, Role, Worker, WorkerReport,
};
use crate::fleet::{Program, finish_all, start_all};
use crate::losses::{Losses, settled};
use crate::site::{address, quiet_endpoint, raise};
use crate::{Bench, Environment, MeasureError, Measurement, check_congestion, check_switches};

/// The payload of a full segment: 1500 bytes less IPv4's header, TCP's and its timestamps. Responses count in these.
pub const SEGMENT: u64 = 1500 - 20 - 20 - 12;

/// A full segment's frame: what a port's rate counts.
const FRAME: u64 = 1500 + 14;

const WORKER_PORT: u16 = 5002;
const BACKGROUND_PORT: u16 = 5003;

/// How long a program may take to report once it was told to end.
const PATIENCE: Duration = Duration::from_secs(30);

/// An aggregator stops by itself when a query stands still; so nobody needs to give up on it.
const FOREVER: Duration = Duration::MAX;

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

/// One switch, one congestion control, one era, one size.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Completion {
    /// The switch.
    pub switch: SwitchKind,
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
    /// Frames that the switch lost.
    pub lost: u64,
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
    pub switch: SwitchKind,
    /// Of the means.
    pub mean: f64,
    /// Of the medians.
    pub p50: f64,
    /// Of the 99th percentiles.
    pub p99: f64,
}

/// The whole experiment.
pub type Report = Measurement<Config, Completion>;

/// What was found under one set of conditions, while it is being gathered.
struct Run {
    switch: SwitchKind,
    tcp: String,
    era: Era,
    segments: u64,
    fct_ns: Samples,
    losses: Losses,
    repairs: Repairs,
    background_flows: u64,
}

/// Makes the experiment.
pub fn run(bench: &Bench<'_>, config: Config) -> Result<Report, MeasureError> {
    check(&config)?;
    let environment = Environment::look();
    let mut runs = Vec::new();
    for (switch, era) in config.labs() {
        for tcp in &config.tcp {
            for segments in &config.sizes {
                runs.push(Run::new(switch, tcp, era, *segments));
            }
        }
    }
    let rounds = u64::from(config.rounds).min(config.queries);
    bench.progress.begin(runs.len() * rounds as usize);
    for round in 0..rounds {
        // The rounds' queries add up to those that were asked for.
        let queries = config.queries / rounds + u64::from(round < config.queries % rounds);
        for (switch, era) in config.labs() {
            bench.go_on()?;
            let lab = config.lab(bench, switch, era)?;
            for run in runs.iter_mut().filter(|run| (run.switch, run.era) == (switch, era)) {
                bench.step(&format!(
                    "{switch}: {} × {} segments, {}, {era}",
                    config.workers, run.segments, run.tcp
                ))?;
                run.round(bench, &lab, &config, queries)?;
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
    config.tcp.iter().try_for_each(|name| check_congestion(name))?;
    config.plan(most, 1).check().map_err(|error| MeasureError::Config(error.to_string()))
}

impl Config {
    /// What makes labs differ, in the order of the rounds.
    fn labs(&self) -> Vec<(SwitchKind, Era)> {
        let eras = |switch: &SwitchKind| {
            let switch = *switch;
            self.eras.iter().map(move |era| (switch, *era))
        };
        self.switches.iter().flat_map(eras).collect()
    }

    fn lab(&self, bench: &Bench<'_>, switch: SwitchKind, era: Era) -> Result<Lab, MeasureError> {
        let mut spec = LabSpec::new(format!("measure-{}", std::process::id()), switch);
        spec.offload = self.offload;
        for (number, name) in (1..).zip(self.names(AGGREGATOR, self.aggregators).chain(self.workers())) {
            let mut endpoint = quiet_endpoint(name, number)?;
            endpoint.rate = self.rate;
            endpoint.buffer = self.buffer;
            era.apply(&mut endpoint);
            spec.endpoints.push(endpoint);
        }
        raise(bench, &spec)
    }

    fn names(&self, stem: &'static str, count: u32) -> impl Iterator<Item = String> + use<> {
        (1..=count).map(move |number| format!("{stem}{number}"))
    }

    fn workers(&self) -> impl Iterator<Item = String> + use<> {
        self.names(WORKER, self.workers)
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

impl Era {
    fn apply(self, endpoint: &mut lab::EndpointSpec) {
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

impl Run {
    fn new(switch: SwitchKind, tcp: &str, era: Era, segments: u64) -> Self {
        Self {
            switch,
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
    fn round(
        &mut self,
        bench: &Bench<'_>,
        lab: &Lab,
        config: &Config,
        queries: u64,
    ) -> Result<(), MeasureError> {
        let aggregators: Vec<String> = config.names(AGGREGATOR, config.aggregators).collect();
        let names: Vec<String> = config.workers().collect();
        let before = settled(lab)?;
        let role = Role::PaWorker(Worker { port: WORKER_PORT, congestion: self.tcp.clone() });
        let mut workers = start(bench, lab, &names, |_| Ok(role.clone()))?;
        start_all(bench, &mut workers)?;
        let mut background = match &config.background {
            None => Vec::new(),
            Some(flows) => {
                let everyone: Vec<String> = aggregators.iter().chain(&names).cloned().collect();
                start(bench, lab, &everyone, |number| self.background(lab, &everyone, number, flows))?
            }
        };
        start_all(bench, &mut background)?;
        let addresses =
            names.iter().map(|name| address(lab, name, WORKER_PORT)).collect::<Result<Vec<_>, _>>()?;
        let mut asking = start(bench, lab, &aggregators, |number| {
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
        let peers = others.map(|(_, name)| address(lab, name, BACKGROUND_PORT)).collect::<Result<_, _>>()?;
        Ok(Role::Background(Background {
            port: BACKGROUND_PORT,
            peers,
            sizes: flows.sizes.clone(),
            gap: flows.gap,
            congestion: self.tcp.clone(),
            seed: number as u64,
        }))
    }

    fn conclude(mut self, config: &Config) -> Completion {
        let frames = config.frames(self.segments);
        Completion {
            switch: self.switch,
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
    let start = |(number, endpoint): (usize, &String)| Program::start(bench, lab, endpoint, &role(number)?);
    endpoints.iter().enumerate().map(start).collect()
}

/// Each run's figures, compared with the baseline's under the same conditions.
fn conclude(runs: Vec<Run>, config: &Config) -> Vec<Completion> {
    let mut results: Vec<Completion> = runs.into_iter().map(|run| run.conclude(config)).collect();
    let baselines: Vec<Completion> =
        results.iter().filter(|result| result.switch == config.baseline).cloned().collect();
    let compared = |result: &&mut Completion| result.switch != config.baseline && result.queries > 0;
    for result in results.iter_mut().filter(compared) {
        let same = |other: &&Completion| {
            (&other.tcp, other.era, other.response_bytes) == (&result.tcp, result.era, result.response_bytes)
        };
        result.gain_over = baselines.iter().find(same).map(|baseline| Gain {
            switch: config.baseline,
            mean: baseline.fct_us.mean / result.fct_us.mean,
            p50: baseline.fct_us.p50 / result.fct_us.p50,
            p99: baseline.fct_us.p99 / result.fct_us.p99,
        });
    }
    results
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Readable;

    pub(crate) fn config() -> Config {
        Config {
            switches: vec![SwitchKind::Bridge, SwitchKind::Zovn],
            workers: 31,
            aggregators: 1,
            sizes: vec![4],
            queries: 10,
            tcp: vec!["cubic".into()],
            eras: vec![Era::Today],
            rate: Some(Rate::from_gbit(1)),
            buffer: Some(32),
            offload: false,
            think: Span::ZERO,
            background: None,
            baseline: SwitchKind::Bridge,
            rounds: 1,
        }
    }

    fn run_of(switch: SwitchKind, fct_ms: u64) -> Run {
        let mut run = Run::new(switch, "cubic", Era::Today, 4);
        run.fct_ns.extend([fct_ms * 1_000_000; 10]);
        run
    }

    #[test]
    fn the_gain_is_the_baselines_time_over_ours() {
        let runs = vec![run_of(SwitchKind::Bridge, 30), run_of(SwitchKind::Zovn, 2)];
        let [bridge, zovn] = &conclude(runs, &config())[..] else { panic!("two results") };
        assert_eq!(bridge.gain_over, None);
        let gain = zovn.gain_over.unwrap();
        assert_eq!((gain.switch, gain.mean, gain.p99), (SwitchKind::Bridge, 15.0, 15.0));
    }

    #[test]
    fn a_query_that_was_not_answered_is_told_and_not_compared() {
        let mut bridge = run_of(SwitchKind::Bridge, 30);
        bridge.fct_ns = Samples::default();
        bridge.fct_ns.extend([1; 7]);
        let runs = vec![bridge, Run::new(SwitchKind::Zovn, "cubic", Era::Today, 4)];
        let results = conclude(runs, &config());
        assert_eq!((results[0].queries, results[1].gain_over), (7, None));
        let report = Measurement::new("pa", Environment::default(), config(), results);
        let broken = report.broken();
        assert!(
            broken[0].contains("bridge") && broken[0].contains("completed 7 of 10 queries"),
            "{broken:?}"
        );
        assert!(broken[1].contains("completed 0 of 10 queries"), "{broken:?}");
    }

    #[test]
    fn the_ideal_is_frames_over_rate() {
        let [zovn] = &conclude(vec![run_of(SwitchKind::Zovn, 2)], &config())[..] else {
            panic!("one result")
        };
        // 31 × 4 frames of 1514 bytes at 8 ns a byte.
        assert_eq!(zovn.ideal_us, Some(1501.888));
        assert_eq!(zovn.response_bytes, 5792);
        assert_eq!(zovn.percentiles_us.len(), 101);
    }

    #[test]
    fn what_cannot_be_compared_is_refused() {
        let wrong = |change: fn(&mut Config)| {
            let mut config = config();
            change(&mut config);
            check(&config).is_err()
        };
        assert!(check(&config()).is_ok());
        assert!(wrong(|config| config.baseline = SwitchKind::Ovs));
        assert!(wrong(|config| config.workers = 0));
        assert!(wrong(|config| config.sizes = vec![0]));
        assert!(wrong(|config| config.sizes = vec![u64::MAX / 1000]));
        assert!(wrong(|config| config.tcp = vec!["nosuch".into()]));
        assert!(wrong(|config| config.switches = vec![SwitchKind::Zovn, SwitchKind::Zovn]));
        assert!(wrong(|config| config.eras = vec![]));
    }
}
