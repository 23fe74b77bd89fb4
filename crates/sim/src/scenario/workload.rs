//! What the virtual machines do.

use serde::{Deserialize, Serialize};
use units::{Bytes, Rate, Span};

use super::fabric::DEFAULT_CLASS;
use super::{Arrivals, Markov, Sizes, Vms};

/// What some of the virtual machines do.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Workload {
    /// The class of its frames.
    #[serde(default = "default_class")]
    pub class: String,
    /// When it begins.
    #[serde(default)]
    pub start: Span,
    /// When it begins nothing new any more; at the run's end if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stop: Option<Span>,
    /// What it is.
    #[serde(flatten)]
    pub kind: WorkloadKind,
}

impl Workload {
    /// The fields that every kind has.
    pub(super) const COMMON: [&str; 4] = ["kind", "class", "start", "stop"];
}

/// The kinds of workloads.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum WorkloadKind {
    /// Queries that fan out and are complete with the last answer (§5.1, figure 6).
    PartitionAggregate(PartitionAggregate),
    /// Many send to one at once.
    Incast(Incast),
    /// Each sends to one other and receives from one other.
    Permutation(Permutation),
    /// Each sends to each other.
    AllToAll(AllToAll),
    /// Flows to destinations drawn one by one: background traffic.
    Flows(Flows),
    /// A constant rate between given machines.
    Stream(Stream),
    /// Rates that change as states do, between given machines.
    Markov(Markov),
}

/// What carries a workload's bytes.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Transport {
    /// TCP, as `[tcp]` says.
    #[default]
    Tcp,
    /// UDP, in full datagrams at a rate.
    Udp,
}

/// Queries that fan out and are complete with the last answer (§5.1, figure 6).
///
/// ```text
///   client ─query─▶ HLA ─request─▶ MLA ─request─▶ workers       three tiers: `mids` is given
///                    ◀────reply─── one per group ◀─reply───     a group: the servers of one first switch
///
///   client ─query─▶ HLA ─request─▶ workers                      two tiers
/// ```
///
/// Each query has an HLA drawn at random. An MLA asks every worker of its group. Nobody asks
/// itself. Clients are the topology's; without any a query arises at its HLA. Its completion time
/// runs from its arrival at the HLA to the last byte of the last reply there.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PartitionAggregate {
    /// The high-level aggregators (HLA).
    pub aggregators: Vms,
    /// The mid-level aggregators (MLA), of which a query uses one in each group, drawn at random;
    /// two tiers if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mids: Option<Vms>,
    /// Who answers.
    pub workers: Vms,
    /// How many a query's HLA asks, of the groups or of the workers, drawn anew each time; all if
    /// absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fan_out: Option<u32>,
    /// A client's message.
    #[serde(default = "default_query")]
    pub query: Bytes,
    /// Each message from an aggregator to whom it asks.
    pub request: Bytes,
    /// Each answer, a worker's and a mid-level aggregator's.
    pub reply: Bytes,
    /// How many queries there are; until the end if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub queries: Option<u64>,
    /// The mean time from one query to the next, over all aggregators; with `closed`, from each
    /// aggregator's completed query to its next. `arrivals` with a mean of their own need none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gap: Option<Span>,
    /// How gaps are spread.
    #[serde(default)]
    pub arrivals: Arrivals,
    /// Whether an aggregator thinks of its next query only once its last is complete.
    #[serde(default)]
    pub closed: bool,
    /// Whether connections are opened before the start and stay (§5.1); otherwise each message has
    /// a new one.
    #[serde(default = "yes")]
    pub persistent: bool,
}

/// Many send to one at once, over TCP connections that stay. A round counts as a query.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Incast {
    /// Who sends.
    pub senders: Vms,
    /// To whom: one machine.
    pub receiver: Vms,
    /// How many send in a round, drawn anew each time; all if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fan_in: Option<u32>,
    /// What each sends in a round.
    pub bytes: Bytes,
    /// How many rounds there are.
    #[serde(default = "one")]
    pub rounds: u64,
    /// How long after a round's last byte the next begins.
    #[serde(default)]
    pub gap: Span,
}

/// Each sends to one other and receives from one other.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Permutation {
    /// Who takes part.
    #[serde(default = "any")]
    pub vms: Vms,
    /// What carries it.
    #[serde(default)]
    pub transport: Transport,
    /// What each sends; until the stop if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bytes: Option<Bytes>,
    /// The n-th sends to the one so many places on; drawn from the seed if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stride: Option<u32>,
}

/// Each sends to each other. A round counts as a query.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AllToAll {
    /// Who takes part.
    #[serde(default = "any")]
    pub vms: Vms,
    /// What each sends to each other in a round, over TCP.
    pub bytes: Bytes,
    /// How many rounds there are; each begins when its predecessor is complete.
    #[serde(default = "one")]
    pub rounds: u64,
}

/// Flows to destinations drawn one by one, uniformly and never to oneself: background traffic.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Flows {
    /// Who sends. Each has gaps of its own.
    #[serde(default = "any")]
    pub sources: Vms,
    /// To whom.
    #[serde(default = "any")]
    pub destinations: Vms,
    /// What carries them.
    #[serde(default)]
    pub transport: Transport,
    /// How large flows are.
    pub sizes: Sizes,
    /// What the sources of a server offer together, as a share of its link's rate, from which the
    /// mean gap follows; 0 is no flow. Either this or `gap`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub load: Option<f64>,
    /// The mean time from a source's flow to its next. `arrivals` with a mean of their own need
    /// none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gap: Option<Span>,
    /// How gaps are spread.
    #[serde(default)]
    pub arrivals: Arrivals,
    /// Whether a gap begins only at the end of the source's flow, as the paper's generators have it
    /// (§5.3).
    #[serde(default)]
    pub closed: bool,
    /// How fast a UDP flow is sent; as fast as its virtual NIC or its server's link if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rate: Option<Rate>,
}

/// A constant rate between given machines: the n-th source sends to the n-th destination, or all to
/// the only one.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Stream {
    /// Who sends.
    pub source: Vms,
    /// To whom.
    pub destination: Vms,
    /// What carries it.
    #[serde(default)]
    pub transport: Transport,
    /// How fast each sends, in payload; as fast as TCP, or a UDP sender's virtual NIC or its
    /// server's link, allows if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rate: Option<Rate>,
    /// The payload of each UDP datagram; what fits into the MTU if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub datagram: Option<Bytes>,
}

impl Transport {
    /// The word for it in a file.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Tcp => "tcp",
            Self::Udp => "udp",
        }
    }
}

impl WorkloadKind {
    /// The word for it in a file.
    pub const fn name(&self) -> &'static str {
        match self {
            Self::PartitionAggregate(_) => "partition-aggregate",
            Self::Incast(_) => "incast",
            Self::Permutation(_) => "permutation",
            Self::AllToAll(_) => "all-to-all",
            Self::Flows(_) => "flows",
            Self::Stream(_) => "stream",
            Self::Markov(_) => "markov",
        }
    }

    /// Whether it has queries or rounds that can be complete.
    pub const fn has_queries(&self) -> bool {
        matches!(self, Self::PartitionAggregate(_) | Self::Incast(_) | Self::AllToAll(_))
    }

    /// What carries its bytes.
    pub const fn transport(&self) -> Transport {
        match self {
            Self::PartitionAggregate(_) | Self::Incast(_) | Self::AllToAll(_) => Transport::Tcp,
            Self::Permutation(Permutation { transport, .. })
            | Self::Flows(Flows { transport, .. })
            | Self::Stream(Stream { transport, .. }) => *transport,
            Self::Markov(_) => Transport::Udp,
        }
    }

    /// Each choice of machines with the name of its field.
    pub fn vms(&self) -> Vec<(&'static str, &Vms)> {
        match self {
            Self::PartitionAggregate(it) => {
                let mids = it.mids.iter().map(|mids| ("mids", mids));
                [("aggregators", &it.aggregators)]
                    .into_iter()
                    .chain(mids)
                    .chain([("workers", &it.workers)])
                    .collect()
            }
            Self::Incast(it) => vec![("senders", &it.senders), ("receiver", &it.receiver)],
            Self::Permutation(it) => vec![("vms", &it.vms)],
            Self::AllToAll(it) => vec![("vms", &it.vms)],
            Self::Flows(it) => vec![("sources", &it.sources), ("destinations", &it.destinations)],
            Self::Stream(it) => vec![("source", &it.source), ("destination", &it.destination)],
            Self::Markov(it) => {
                vec![("sources", &it.sources), ("destinations", &it.destinations)]
            }
        }
    }
}

fn default_class() -> String {
    DEFAULT_CLASS.to_owned()
}

fn default_query() -> Bytes {
    Bytes(1_000)
}

fn any() -> Vms {
    Vms::ANY
}

fn one() -> u64 {
    1
}

fn yes() -> bool {
    true
}
