//! How the experiment is made, and what is told of it.

use std::fmt;
use std::str::FromStr;

use lab::SwitchKind;
use serde::{Deserialize, Serialize};
use units::Span;

use crate::Measurement;
use crate::vhost::RoundFigures;
use crate::words::one_of;

/// How the experiment is made.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Config {
    /// The switches to compare.
    pub switches: Vec<SwitchKind>,
    /// What frames enter and leave by.
    pub ports: Ports,
    /// What frames pass.
    pub through: Vec<Through>,
    /// How many rules the receiver has with `acl`; `stateful` has the first of these.
    pub rules: Vec<u32>,
    /// How many flows take turns.
    pub flows: Vec<u32>,
    /// What is put on each.
    pub loads: Vec<Load>,
    /// Bytes a frame, Ethernet header included, without checksum.
    pub size: u32,
    /// How many connections are begun each time.
    pub connections: u32,
    /// How long each run lasts.
    pub duration: Span,
    /// How often each switch has its turn.
    pub rounds: u32,
}

/// What frames enter and leave by.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Ports {
    /// Rings in the memory of virtual machines.
    VhostUser,
    /// Interfaces in containers, with the kernel's sockets behind them.
    Container,
}

/// What frames pass between the two ports.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Through {
    /// A switch of addresses, without logical networks.
    Plain,
    /// A logical switch without policy.
    L2,
    /// That, and rules of the receiver that keep no connections.
    Acl,
    /// That, and rules that keep connections.
    Stateful,
    /// Two logical switches and a router.
    Routed,
    /// That, and the router puts another source address on what the first machine sends.
    Nat,
}

/// What is put on a switch.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Load {
    /// Flows that are known, by turns.
    Flows,
    /// Ever new connections, as many as the switch takes; where connections are kept.
    Connect,
    /// Connections of TCP that are opened and closed again.
    Accept,
    /// Ever new flows, at a pace, beside one that is known; through `acl` only.
    First,
}

/// What one switch did with one load. Rates and times are medians of the rounds; counts are sums.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Policed {
    /// The switch.
    pub switch: SwitchKind,
    /// What frames passed.
    pub through: Through,
    /// How many rules the receiver had.
    pub rules: u32,
    /// What was put on it.
    pub load: Load,
    /// How many flows took turns; absent if each frame was of another.
    pub flows: Option<u32>,
    /// Frames that arrived, in 10⁶ a second. Of `accept`: connections that were opened and closed.
    pub mfps: f64,
    /// The same in the worst round and in the best.
    pub mfps_range: [f64; 2],
    /// Frames that the switch took.
    pub sent: u64,
    /// Different frames that arrived.
    pub received: u64,
    /// Frames that did not.
    pub lost: u64,
    /// Frames that arrived again.
    pub duplicates: u64,
    /// Frames that arrived after a later one of their flow.
    pub out_of_order: u64,
    /// Ticks of the time stamp counter that the switch was busy for each frame that it took.
    pub cycles_per_frame: Option<f64>,
    /// Of containers: time of all processors for each frame that arrived, in nanoseconds: switch,
    /// sender, receiver and kernel. Of `accept`: for each connection.
    pub cpu_ns_per_frame: Option<f64>,
    /// The share of its time in which the generator had something to do.
    pub generator_busy: f64,
    /// How long frames were on their way: of `flows` and `connect` at half of the rate (of
    /// containers at 5,000 a second), of `first` those of new flows. Of `accept`: how long a
    /// connection took that was the only one.
    pub latency: Option<Delay>,
    /// Of `first`: how long frames of a known flow were on their way at the same pace.
    pub known: Option<Delay>,
    /// Each round by itself.
    pub rounds: Vec<RoundFigures>,
    /// Whether the switch's own account held; none where it keeps none.
    pub balanced: Option<bool>,
    /// How it was done, where that is not as docs/measurements.md says; why it could not be, where
    /// nothing was sent.
    pub remark: Option<String>,
}

/// How long frames were on their way, from being put into the sender's ring to being seen in the
/// receiver's.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Delay {
    /// How many arrived, in 10⁶ a second.
    pub mfps: f64,
    /// Half of them took no longer, in microseconds.
    pub p50_us: f64,
    /// 99 % of them.
    pub p99_us: f64,
    /// 99.9 % of them.
    pub p999_us: f64,
}

/// The whole experiment.
pub type Report = Measurement<Config, Policed>;

impl Through {
    /// All of them, from the least to the most.
    pub const ALL: [Self; 6] =
        [Self::Plain, Self::L2, Self::Acl, Self::Stateful, Self::Routed, Self::Nat];

    /// Whether there is a router between the two.
    pub fn is_routed(self) -> bool {
        matches!(self, Self::Routed | Self::Nat)
    }

    /// Whether connections are kept.
    pub fn keeps_connections(self) -> bool {
        matches!(self, Self::Stateful | Self::Nat)
    }

    /// Whether there are rules.
    pub fn has_rules(self) -> bool {
        matches!(self, Self::Acl | Self::Stateful)
    }
}

impl Load {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Flows, Self::Connect, Self::Accept, Self::First];

    /// Whether it is put on such a path between such ports.
    pub fn is_put_on(self, through: Through, ports: Ports) -> bool {
        match self {
            Self::Connect | Self::First if ports == Ports::Container => false,
            Self::Flows | Self::Accept => true,
            Self::Connect => through.keeps_connections(),
            Self::First => through == Through::Acl,
        }
    }
}

impl FromStr for Through {
    type Err = String;

    fn from_str(word: &str) -> Result<Self, String> {
        one_of(Self::ALL, word)
    }
}

impl FromStr for Load {
    type Err = String;

    fn from_str(word: &str) -> Result<Self, String> {
        one_of(Self::ALL, word)
    }
}

impl fmt::Display for Through {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Plain => "plain",
            Self::L2 => "l2",
            Self::Acl => "acl",
            Self::Stateful => "stateful",
            Self::Routed => "routed",
            Self::Nat => "nat",
        })
    }
}

impl fmt::Display for Load {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Flows => "flows",
            Self::Connect => "connect",
            Self::Accept => "accept",
            Self::First => "first",
        })
    }
}
