//! The virtual switches, and the machines behind them.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use units::{Bytes, Rate, Span};

use super::Scheduling;

/// The virtual network of every server, all alike.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct VirtualNetwork {
    /// Whether servers have virtual switches. Without, a server's one machine sits at its NIC.
    pub switch: bool,
    /// How many virtual machines of each role a server has. A role is a name of the author's choice
    /// that workloads refer to.
    pub vms: BTreeMap<String, u32>,
    /// The largest packet that a machine sends, in bytes.
    pub mtu: u32,
    /// What a frame on a physical link has around that packet. The paper's 54: outer Ethernet 18,
    /// IP 20, UDP 8, VXLAN 8, and no inner header.
    pub encapsulation: Bytes,
    /// How much of a machine's frames the virtual switch holds for each class.
    pub ingress: Bytes,
    /// How much waits for a machine in each class, once switched.
    pub egress: Bytes,
    /// How many of a machine's frames may wait for one receiver in one class, before the machine is
    /// held back; as many as `ingress` allows if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub quota: Option<u32>,
    /// The rate of a machine's virtual NIC; unlimited if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rate: Option<Rate>,
    /// Whether `rate` bounds what a machine sends, too: ports of an agent bound only what it is
    /// sent.
    pub paced: bool,
    /// What a virtual switch carries; whatever comes if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub capacity: Option<Capacity>,
    /// How an egress chooses among its classes.
    pub scheduling: Scheduling,
    /// What a machine's stack adds to each segment that it sends or receives.
    pub stack_delay: Span,
    /// The least time from a burst that a machine's stack sends to its next.
    pub stack_gap: Span,
    /// How late such a burst may be, drawn for each.
    pub stack_jitter: Span,
    /// How long a receiver may take nothing while frames wait for it before it is declared stalled.
    pub stall_after: Span,
    /// What holds machines back that send more than the physical network takes.
    #[serde(skip_serializing_if = "Congestion::is_none")]
    pub congestion: Congestion,
    /// Whether servers grant credit for their links: what is sent to one waits for it, at whoever
    /// sends.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub grants: bool,
    /// By how much hosts may be late together without harm to what is guaranteed by grants.
    #[serde(skip_serializing_if = "is_default_latency")]
    pub latency: Span,
}

/// What a virtual switch carries: one of its limits, or both. What does not fit waits with its
/// senders, which take turns of a frame each.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Capacity {
    /// So many frames a second; any number if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub frames: Option<u64>,
    /// So many bits of machines' packets a second; any number if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bits: Option<Rate>,
    /// Of how many servers, from the first on; of all if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub servers: Option<u32>,
}

/// As an agent's uplink has it.
const DEFAULT_LATENCY: Span = Span::from_millis(5);

fn is_default_latency(latency: &Span) -> bool {
    *latency == DEFAULT_LATENCY
}

/// How congestion is controlled of classes that are lossless in both networks.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Congestion {
    /// Not at all: whoever sends too much is paused.
    #[default]
    None,
    /// By a window at the sending host for each machine, far host and class, which marks make
    /// smaller.
    Lanes,
    /// By a rate at the sending host for each of these, which notices of switches make smaller
    /// (QCN, 802.1Qau).
    Qcn,
    /// By switches that pause flows, hop by hop (BFC, Goyal et al., NSDI 2022).
    Bfc,
}

impl Congestion {
    /// Whether nothing is controlled.
    pub fn is_none(&self) -> bool {
        *self == Self::None
    }
}

impl Default for VirtualNetwork {
    fn default() -> Self {
        Self {
            switch: true,
            vms: BTreeMap::from([("vm".to_owned(), 1)]),
            mtu: 1446,
            encapsulation: Bytes(54),
            ingress: Bytes(256_000),
            egress: Bytes(256_000),
            quota: None,
            rate: None,
            paced: true,
            capacity: None,
            scheduling: Scheduling::Strict,
            stack_delay: Span::from_micros(5),
            stack_gap: Span::ZERO,
            stack_jitter: Span::ZERO,
            stall_after: Span::from_secs(10),
            congestion: Congestion::None,
            grants: false,
            latency: DEFAULT_LATENCY,
        }
    }
}

impl VirtualNetwork {
    /// The rate at which machines send; unlimited if absent.
    pub fn pace(&self) -> Option<Rate> {
        self.rate.filter(|_| self.paced)
    }

    /// Whether hosts or switches send frames of their own class, to tell each other something.
    pub(crate) fn has_reports(&self) -> bool {
        self.grants || matches!(self.congestion, Congestion::Lanes | Congestion::Qcn)
    }

    /// How many machines a server has.
    pub fn vms_per_server(&self) -> u64 {
        self.vms.values().map(|count| u64::from(*count)).sum()
    }
}
