//! What is told of a run: the same bytes wherever the same scenario runs.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use traffic::{Samples, TimesUs};

use crate::confidence::mean_error;
use crate::excess::Excess;
use crate::outcome::{Ending, Outcome};
use crate::scenario::Cell;

/// A cell's outcome, at a glance.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CellResult {
    /// The cell's number in its plan.
    pub cell: u64,
    /// What it is called: its values.
    pub name: String,
    /// The value of each of the sweep's axes.
    pub values: BTreeMap<String, String>,
    /// What its randomness was drawn from.
    pub seed: u64,
    /// [`Scenario::digest`](crate::scenario::Scenario::digest), in hexadecimal.
    pub scenario: String,
    /// How it ended.
    pub ending: Ended,
    /// The ports of a deadlock, in a circle: each waits for the next.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub circle: Vec<String>,
    /// The simulated time.
    pub time_s: f64,
    /// Queries, and rounds, that count.
    pub queries: u64,
    /// Whether they are as many as the scenario wants, or their mean known as well; absent if it
    /// wants nothing. If not, the quick ones of the last are there, and the slow ones missing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub enough: Option<bool>,
    /// Their completion times. The mean's error is by batches of queries in the order in which they
    /// began.
    #[serde(flatten)]
    pub completion: Completion,
    /// Flows that count.
    pub flows: u64,
    /// Their payload.
    pub flow_bytes: u64,
    /// Streams that count.
    pub streams: u64,
    /// Their payload that arrived while it counted.
    pub stream_bytes: u64,
    /// Queries and flows that were begun and are not complete.
    pub unfinished: u64,
    /// Of sources that go through states; absent without any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub overload: Option<OverloadResult>,
    /// By class.
    pub classes: BTreeMap<String, ClassResult>,
    /// TCP segments sent.
    pub segments: u64,
    /// Of them, those sent again.
    pub retransmits: u64,
    /// Of these, tail loss probes; results of before do not tell.
    #[serde(default)]
    pub tail_probes: u64,
    /// Retransmission timeouts.
    pub timeouts: u64,
    /// UDP datagrams sent.
    pub datagrams: u64,
    /// Events that happened.
    pub events: u64,
    /// Frames over links, each link counted.
    pub packet_hops: u64,
    /// A number for all rows together, in hexadecimal.
    pub rows: String,
    /// What must not be: each a sentence.
    pub defects: Vec<String>,
}

/// Completion times at a glance; absent without any.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Completion {
    /// What they are like.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fct_us: Option<TimesUs>,
    /// 5 of 100 took at most this.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fct_p5_us: Option<f64>,
    /// Half the width of the mean's 95 % confidence interval, where it is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fct_mean_error_us: Option<f64>,
}

impl Completion {
    /// What is told of times, which are in nanoseconds.
    pub fn of(times: &[u64], mean_error_us: Option<f64>) -> Self {
        let mut samples = Samples::default();
        samples.extend(times.iter().copied());
        let any = !samples.is_empty();
        Self {
            fct_us: any.then(|| samples.times_us()),
            fct_p5_us: any.then(|| samples.quantile(0.05) as f64 / 1e3),
            fct_mean_error_us: mean_error_us.filter(|_| any),
        }
    }
}

/// What sources that go through states have asked for, and what of it was more than is carried.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct OverloadResult {
    /// Bytes of packets that sources made.
    pub offered_bytes: u64,
    /// Of them, those that were lost at the source, because its queue was full.
    pub excess_bytes: u64,
    /// For how long some source lost something again and again.
    pub overloaded_s: f64,
    /// How often that began.
    pub episodes: u64,
    /// For how long all of that was counted.
    pub counted_s: f64,
}

impl OverloadResult {
    fn of(it: Excess) -> Self {
        Self {
            offered_bytes: it.offered(),
            excess_bytes: it.lost(),
            overloaded_s: it.overloaded().as_secs_f64(),
            episodes: it.episodes(),
            counted_s: it.counted().as_secs_f64(),
        }
    }

    /// The share of the time in which more was asked for than is carried.
    pub fn share_of_time(&self) -> f64 {
        self.overloaded_s / self.counted_s
    }

    /// The share of what was asked for that is more than is carried.
    pub fn share_of_traffic(&self) -> f64 {
        self.excess_bytes as f64 / self.offered_bytes.max(1) as f64
    }
}

/// How a cell ended, in a word.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Ended {
    /// All that was to be done is done.
    Done,
    /// Its owner, or its `time_limit`, has stopped it.
    Stopped,
    /// Ports wait for each other in a circle.
    Deadlock,
}

/// A class's outcome.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ClassResult {
    /// Frames lost by virtual switches and virtual NICs.
    pub lost_virtual: u64,
    /// Frames lost by physical switches and NICs.
    pub lost_physical: u64,
    /// Frames that were marked.
    pub marked: u64,
    /// How long physical transmitters were paused, all together.
    pub paused_s: f64,
}

impl CellResult {
    /// What is told of `outcome`.
    pub fn new(cell: &Cell, outcome: &Outcome) -> Self {
        let times = outcome.record.times();
        let (ending, circle) = match &outcome.ending {
            Ending::Done => (Ended::Done, Vec::new()),
            Ending::Stopped => (Ended::Stopped, Vec::new()),
            Ending::Deadlock(circle) => (Ended::Deadlock, circle.clone()),
        };
        let classes = outcome.classes.iter().map(|it| {
            let result = ClassResult {
                lost_virtual: it.lost_virtual,
                lost_physical: it.lost_physical,
                marked: it.marked,
                paused_s: it.paused.as_secs_f64(),
            };
            (it.name.clone(), result)
        });
        Self {
            cell: cell.index,
            name: cell.name.clone(),
            values: cell.values.iter().cloned().collect(),
            seed: cell.scenario.run.seed,
            scenario: format!("{:016x}", cell.scenario.digest()),
            ending,
            circle,
            time_s: outcome.time.as_secs_f64(),
            queries: times.len() as u64,
            enough: outcome.record.enough(),
            completion: Completion::of(&times, mean_error(&times).map(|ns| ns / 1e3)),
            flows: outcome.record.flows().len() as u64,
            flow_bytes: outcome.record.flows().iter().map(|it| it.bytes).sum(),
            streams: outcome.record.streams().len() as u64,
            stream_bytes: outcome.record.streams().iter().map(|it| it.bytes).sum(),
            unfinished: outcome.unfinished,
            overload: outcome.record.overload().map(OverloadResult::of),
            classes: classes.collect(),
            segments: outcome.segments,
            retransmits: outcome.retransmitted,
            tail_probes: outcome.probes,
            timeouts: outcome.timeouts,
            datagrams: outcome.datagrams,
            events: outcome.events,
            packet_hops: outcome.hops,
            rows: format!("{:016x}", rows(outcome)),
            defects: outcome.defects.clone(),
        }
    }

    /// What speaks against the run, in sentences: defects, a deadlock, queries that never ended.
    pub fn complaints(&self) -> Vec<String> {
        let told = |what: String| format!("{}: {what}", self.name);
        let mut complaints: Vec<String> = self.defects.iter().cloned().map(told).collect();
        if !self.circle.is_empty() {
            complaints
                .push(told(format!("a deadlock: {} wait for each other", self.circle.join(", "))));
        }
        if self.ending == Ended::Stopped {
            complaints.push(told("it was stopped before its end".to_owned()));
        }
        if self.queries + self.flows == 0 && self.unfinished > 0 {
            complaints
                .push(told(format!("none of {} queries and flows is complete", self.unfinished)));
        }
        complaints
    }

    /// A sentence, if the run's time was over before it had found out as much as its scenario
    /// wants.
    pub fn shortfall(&self) -> Option<String> {
        (self.ending == Ended::Done && self.enough == Some(false)).then(|| {
            let Self { name, queries, .. } = self;
            format!("{name}: its time was over after {queries} queries, which are not enough: raise `duration` in [run]")
        })
    }
}

/// FNV-1a over every row, in their order.
fn rows(outcome: &Outcome) -> u64 {
    let queries = outcome.record.queries().iter().flat_map(|it| {
        [it.workload.into(), it.at.into(), it.begun.as_picos(), it.ended.as_picos()]
    });
    let flows = outcome.record.flows().iter().chain(outcome.record.streams()).flat_map(|it| {
        let ends = [it.workload.into(), it.from.into(), it.to.into()];
        ends.into_iter().chain([it.bytes, it.begun.as_picos(), it.ended.as_picos()])
    });
    let bytes: Vec<u8> = queries.chain(flows).flat_map(u64::to_le_bytes).collect();
    units::hash::fnv1a_64(&bytes)
}
