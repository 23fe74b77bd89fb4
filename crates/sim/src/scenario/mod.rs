//! What is simulated: the scenario language.
//!
//! ```text
//! scenario.toml ─▶ Plan ─┬─ cell(0) ─▶ Scenario      one run: checked, all defaults said
//!                        ├─ cell(1) ─▶ Scenario      what a result file carries, with its digest
//!                        └─ …                        a sweep has one cell for each combination
//! ```
//!
//! A [`Plan`] is what people write; a [`Scenario`] is what the engine runs. Everything that cannot
//! be simulated is refused here, by a [`Fault`] that names the line, the field, what is wrong and
//! what to write instead; past this door it is not asked again. docs/scenarios.md shows every
//! field.
//!
//! Nothing here knows of events or packets.

mod check;
mod drawn;
mod fabric;
mod fault;
mod markov;
mod network;
mod node;
mod plan;
mod summary;
mod sweep;
mod tcp;
mod topology;
mod virtual_network;
mod words;
mod workload;

use std::borrow::Cow;
use std::collections::BTreeMap;

use model::ClassKind;
use serde::{Deserialize, Serialize};
use traffic::{Cdf, Known};
use units::{Bytes, Class, Span, hash};

pub(crate) use ::fabric::PFC_FRAME;
pub use ::fabric::{Link, Pfc, Thresholds};
pub use fabric::{Buffer, ClassSpec, DEFAULT_CLASS, Fabric, Scheduling};
pub use fault::{Fault, ScenarioError};
pub use markov::{Level, Markov};
pub use network::Network;
pub use node::{LinkName, Node, Tier};
pub use plan::{Cell, MOST_SEED, Plan};
pub use summary::{Summary, SwitchCount, WorkloadSummary};
pub use sweep::{Axis, Choice, ParseShardError, Setting, Shard};
pub use tcp::{Control, Profile, Tcp};
pub use topology::{
    Cable, Dumbbell, FatTree, KAry, Layer, LeafSpine, LinkChange, Ring, RingRouting, Star, Topology,
};
pub use virtual_network::{Capacity, Congestion, VirtualNetwork};
pub use words::{Arrivals, ParseWordError, Sizes, Vm, Vms};
pub use workload::{
    AllToAll, Flows, Incast, PartitionAggregate, Permutation, Stream, Transport, Workload,
    WorkloadKind,
};

/// The schema that this program reads, and writes into results.
pub const VERSION: u32 = 1;

/// What IPv4 and UDP put before a datagram's payload, in bytes.
pub(crate) const UDP_HEADERS: u32 = 28;

/// The class that congestion control reports in, with its priority.
pub(crate) const REPORTS: &str = "reports";
pub(crate) const REPORTS_PRIORITY: Class = Class::from_low_bits(7);

/// What its weight is, where outputs take turns.
const REPORTS_WEIGHT: u32 = 16;

/// How much of a controlled class waits at an output before it marks, as time at the link's rate:
/// 30 kB at 10 Gb/s.
const MARK_AFTER: Span = Span::from_micros(24);

/// One run, with everything said.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Scenario {
    /// The schema it is written in: [`VERSION`].
    pub version: u32,
    /// What people call it.
    pub name: String,
    /// What it shows, and what to expect.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub description: String,
    /// When it ends, and what counts.
    #[serde(default)]
    pub run: Run,
    /// Which networks pause their senders instead of losing frames.
    #[serde(default)]
    pub flow_control: FlowControl,
    /// What is connected to what.
    pub topology: Topology,
    /// Every link of which the topology says nothing else.
    #[serde(default)]
    pub link: Link,
    /// The physical switches and NICs.
    #[serde(default)]
    pub fabric: Fabric,
    /// The virtual switches and machines.
    #[serde(rename = "virtual", default)]
    pub virtual_network: VirtualNetwork,
    /// Every TCP connection.
    #[serde(default)]
    pub tcp: Tcp,
    /// The classes by name; one called `default` if the file declares none.
    #[serde(rename = "class", default = "default_classes")]
    pub classes: BTreeMap<String, ClassSpec>,
    /// Virtual networks that have terms, by name; all other machines are one more, without terms.
    #[serde(rename = "network", default, skip_serializing_if = "BTreeMap::is_empty")]
    pub networks: BTreeMap<String, Network>,
    /// Distributions that workloads name, besides the published ones.
    #[serde(rename = "distribution", default, skip_serializing_if = "BTreeMap::is_empty")]
    pub distributions: BTreeMap<String, Points>,
    /// What the virtual machines do, by name.
    #[serde(rename = "workload", default)]
    pub workloads: BTreeMap<String, Workload>,
    /// What a run writes down.
    #[serde(default)]
    pub output: Output,
}

/// When a run ends, and what of it counts. Without a bound it ends with its last workload.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Run {
    /// What all randomness is drawn from; repetition *r* of a sweep, counted from 0, has `seed +
    /// r`.
    pub seed: u64,
    /// The most simulated time; no bound if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub duration: Option<Span>,
    /// End once the first so many queries that count are complete, over all workloads.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub queries: Option<u64>,
    /// End once half the width of the 95 % confidence interval of the queries' mean is at most this
    /// share of it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub precision: Option<f64>,
    /// Queries and flows that begin before this do not count.
    pub warmup: Span,
    /// The most real time, after which what there is is written and the run counts as unfinished;
    /// no bound if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub time_limit: Option<Span>,
}

impl Default for Run {
    fn default() -> Self {
        Self {
            seed: 1,
            duration: None,
            queries: None,
            precision: None,
            warmup: Span::ZERO,
            time_limit: None,
        }
    }
}

/// Which networks pause their senders instead of losing frames. In a network that does, a class
/// still may be lossy ([`ClassSpec::kind`]); in one that does not, every class is.
///
/// The paper's LL, LZ, ZL and ZZ: the first letter is the virtual network's, Z where it is
/// lossless.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct FlowControl {
    /// The virtual switches.
    #[serde(rename = "virtual")]
    pub virtual_network: ClassKind,
    /// The physical switches and NICs, by PFC (802.1Qbb).
    pub physical: ClassKind,
}

/// A distribution by points of its cumulative function, which is linear between them.
///
/// A file may say `file = "sizes.cdf"` instead: the points are read from there, and a scenario has
/// the points.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Points {
    /// Values, in bytes or nanoseconds, and the share of samples that do not exceed each; the last
    /// share is 1.
    pub points: Vec<(f64, f64)>,
}

/// What a run writes down, besides its summary.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Output {
    /// A row for each flow.
    pub flows: bool,
    /// A row for each query.
    pub queries: bool,
    /// How often every queue and pause is looked at; never if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub samples: Option<Span>,
    /// A link whose frames are written as a pcapng file, by the names of its ends: `server0-leaf0`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pcapng: Option<LinkName>,
}

impl Default for Output {
    fn default() -> Self {
        Self { flows: true, queries: true, samples: None, pcapng: None }
    }
}

impl Scenario {
    /// Whether a class is lossless in the physical network.
    ///
    /// # Panics
    ///
    /// If no class is called so, which a checked scenario's workloads never do.
    pub fn physical_kind(&self, class: &str) -> ClassKind {
        both(self.flow_control.physical, self.classes[class].kind)
    }

    /// Whether a class is lossless in the virtual network.
    ///
    /// # Panics
    ///
    /// If no class is called so, which a checked scenario's workloads never do.
    pub fn virtual_kind(&self, class: &str) -> ClassKind {
        both(self.flow_control.virtual_network, self.classes[class].kind)
    }

    /// The link-layer bytes of the longest frame on a physical link, without [`Link::overhead`].
    pub fn longest_frame(&self) -> u64 {
        u64::from(self.virtual_network.mtu) + self.virtual_network.encapsulation.0
    }

    /// The distribution called `name`: one of the scenario's own, or else a published one.
    pub fn cdf(&self, name: &str) -> Option<Cdf> {
        match self.distributions.get(name) {
            Some(own) => Cdf::new(&own.points).ok(),
            None => name.parse::<Known>().ok().map(Known::cdf),
        }
    }

    /// The priority of the class called `name`.
    ///
    /// # Panics
    ///
    /// If no class is called so, which a checked scenario's workloads never do.
    pub fn priority(&self, name: &str) -> Class {
        self.classes[name].priority
    }

    /// Whether a class is controlled, if any is: it is lossless in both networks.
    pub(crate) fn is_controlled(&self, class: &str) -> bool {
        let kinds = [self.virtual_kind(class), self.physical_kind(class)];
        kinds == [ClassKind::Lossless; 2] && class != REPORTS
    }

    /// Where a class's frames are marked: where it says so, or where congestion control needs it.
    pub(crate) fn mark_at(&self, class: &str) -> Option<Bytes> {
        let bits = u128::from(self.link.rate.bits_per_sec());
        let bytes = bits * u128::from(MARK_AFTER.as_nanos()) / 8_000_000_000;
        let is_needed = self.virtual_network.congestion == Congestion::Lanes;
        let needed = is_needed.then_some(Bytes(bytes as u64));
        self.classes[class].ecn.or(needed)
    }

    /// The scenario as it runs: where congestion is controlled, reports have a class.
    pub(crate) fn with_reports(&self) -> Cow<'_, Self> {
        if !self.virtual_network.has_reports() {
            return Cow::Borrowed(self);
        }
        let mut scenario = self.clone();
        let (priority, weight) = (REPORTS_PRIORITY, REPORTS_WEIGHT);
        let class = ClassSpec { priority, weight, ..ClassSpec::default() };
        scenario.classes.insert(REPORTS.to_owned(), class);
        Cow::Owned(scenario)
    }

    /// A number for this scenario: the same on every machine, another one if anything that is
    /// simulated differs. FNV-1a, 64 bits (RFC 9923), of its JSON without the name, the description
    /// and what is written down.
    pub fn digest(&self) -> u64 {
        let bare = Self {
            name: String::new(),
            description: String::new(),
            output: Output::default(),
            run: Run { time_limit: None, ..self.run },
            ..self.clone()
        };
        let json = serde_json::to_vec(&bare);
        hash::fnv1a_64(&json.expect("a scenario has words for keys, and JSON can say the rest"))
    }
}

/// Lossless where both say so.
fn both(network: ClassKind, class: ClassKind) -> ClassKind {
    if network == ClassKind::Lossless { class } else { ClassKind::Lossy }
}

fn default_classes() -> BTreeMap<String, ClassSpec> {
    BTreeMap::from([(DEFAULT_CLASS.to_owned(), ClassSpec::default())])
}
