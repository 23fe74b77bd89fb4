//! The physical switches and NICs: where frames wait, who is paused, what is marked.

use ::fabric::Pfc;
use model::ClassKind;
use serde::{Deserialize, Serialize};
use units::{Bytes, Class};

/// Every physical switch and NIC.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Fabric {
    /// How an output chooses among its classes.
    pub scheduling: Scheduling,
    /// What the choice among equal paths is drawn from, beside the run's seed.
    pub ecmp_seed: u64,
    /// How much waits at a server's NIC in each class. A lossless virtual switch waits for room in
    /// it, a lossy one loses what finds it full.
    pub nic_queue: Bytes,
    /// A switch's memory.
    pub buffer: Buffer,
    /// How many queues an output has for the flows of each class, where switches pause flows.
    #[serde(skip_serializing_if = "is_default_queues")]
    pub flow_queues: u32,
    /// When a switch pauses its neighbours.
    pub pfc: Pfc,
}

impl Default for Fabric {
    fn default() -> Self {
        Self {
            scheduling: Scheduling::Strict,
            ecmp_seed: 1,
            nic_queue: Bytes(256_000),
            buffer: Buffer::default(),
            flow_queues: DEFAULT_QUEUES,
            pfc: Pfc::default(),
        }
    }
}

/// How an output chooses among its classes.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Scheduling {
    /// The highest priority that has a frame and is not paused (802.1Q §8.6.8.1).
    #[default]
    Strict,
    /// In turn, each class for its [`ClassSpec::weight`] (802.1Q §8.6.8.3).
    Weighted,
}

/// A switch's memory, which decides where frames are lost.
///
/// A frame of a lossless class is always accounted to the input that it came by, since that is what
/// PFC can pause.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case", deny_unknown_fields)]
pub enum Buffer {
    /// Each input has memory of its own for each class. A lossy frame that finds its input's full
    /// is lost.
    PrivateInput {
        /// For each input and class.
        bytes: Bytes,
    },
    /// Each output has memory of its own for each class. A lossy frame that finds its output's full
    /// is lost; an input may hold as much of a lossless class.
    PerOutput {
        /// For each output and class.
        bytes: Bytes,
    },
    /// All ports share one memory. A lossy frame is lost when its output and class holds `alpha`
    /// times what is free; a lossless class of an input is paused there. The headroom of every
    /// lossless class and port is set aside first.
    Shared {
        /// For the whole switch.
        bytes: Bytes,
        /// The share of what is free that one queue may take (Choudhury and Hahne 1998).
        #[serde(default = "default_alpha")]
        alpha: f64,
    },
}

impl Default for Buffer {
    fn default() -> Self {
        Self::PrivateInput { bytes: Bytes(140_000) }
    }
}

/// The class of a workload that names none, in a scenario that declares none.
pub const DEFAULT_CLASS: &str = "default";

/// A traffic class.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ClassSpec {
    /// Its 802.1p priority, 0 to 7: one of its own. 7 is served first.
    pub priority: Class,
    /// What it promises in networks that have flow control.
    pub kind: ClassKind,
    /// Its share where outputs take turns, against the other classes' weights.
    pub weight: u32,
    /// Mark frames that find so much of their class waiting at their output (RFC 3168); never if
    /// absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ecn: Option<Bytes>,
}

impl Default for ClassSpec {
    fn default() -> Self {
        Self { priority: Class::default(), kind: ClassKind::Lossless, weight: 1, ecn: None }
    }
}

/// As many as the switches have that the paper simulates.
const DEFAULT_QUEUES: u32 = 32;

fn is_default_queues(queues: &u32) -> bool {
    *queues == DEFAULT_QUEUES
}

fn default_alpha() -> f64 {
    0.125
}
