//! What the agent reports of itself and its ports.

use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::vec::Vec;

use serde::{Deserialize, Serialize};
use units::{Class, Mac, Rate, Span};

use crate::{
    Attachment, ClassKind, Generation, Limits, NetworkName, NetworkSpec, PortName, Scheduling, UplinkStatus,
    VtepList,
};

/// The whole agent at one moment.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct AgentStatus {
    /// The version that runs.
    pub version: String,
    /// Nanoseconds since the agent started.
    pub uptime_ns: u64,
    /// Nanoseconds that the switch's thread was busy.
    pub busy_ns: u64,
    /// Whether UDP flows are held while their socket is full.
    pub udp_gate: GateStatus,
    /// Every attached port, by name.
    pub ports: Vec<PortStatus>,
    /// This host's end of its tunnels, if it has one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub uplink: Option<UplinkStatus>,
    /// The law over the whole switch, detached ports included.
    pub ledger: LedgerStatus,
    /// Whether the law holds, port by port and class by class, and as a whole.
    pub balanced: bool,
}

/// Whether UDP flows are held while their socket is full: `"on"`, or `{"off": "why"}`.
#[derive(Clone, Debug, Eq, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "lowercase")]
pub enum GateStatus {
    /// They are, behind every port whose notes do not say otherwise.
    On,
    /// They are not, and this is why: sockets that are full lose what they are sent.
    Off(String),
}

/// One port at one moment. Counters run from the port's attachment and never go back.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct PortStatus {
    /// The port's name.
    pub name: PortName,
    /// What it is attached to.
    pub attach: Attachment,
    /// The virtual network that it is in, if it is in one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub network: Option<NetworkName>,
    /// The number by which other hosts mean it, if it is in a network.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub label: Option<u32>,
    /// Whether it runs.
    pub state: PortState,
    /// Its egress rate, if it has one.
    #[cfg_attr(feature = "openapi", schema(value_type = Option<String>, example = "1gbit"))]
    pub rate: Option<Rate>,
    /// How much may wait for its receiver, in each class.
    pub egress_limits: Limits,
    /// How much of its sender's may be held in the switch, in each class.
    pub ingress_limits: Limits,
    /// The class of frames that carry no 802.1Q tag.
    #[cfg_attr(feature = "openapi", schema(value_type = u8, maximum = 7))]
    pub class: Class,
    /// How many of its sender's frames may wait for one receiver in one class, if that is bounded.
    pub quota: Option<u32>,
    /// How the egress chooses among its classes.
    pub scheduling: Scheduling,
    /// What came in here, wherever it went.
    pub ingress: Ledgers,
    /// What was addressed to here, wherever it came from.
    pub egress: Ledgers,
    /// Bytes that came in.
    pub ingress_bytes: u64,
    /// Bytes that went out.
    pub egress_bytes: u64,
    /// How long this port's sender was held back since the port was attached.
    #[cfg_attr(feature = "openapi", schema(value_type = String, example = "1500ms"))]
    pub paused: Span,
    /// What holds it back now, if something does.
    pub paused_by: Option<PausedBy>,
    /// UDP flows towards this port that wait for their socket now.
    pub held_flows: u32,
    /// What the operator ought to know, in sentences.
    pub notes: Vec<String>,
}

/// Where one Ethernet address is reached.
#[derive(Clone, Debug, Eq, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct AddressStatus {
    /// The address.
    #[cfg_attr(feature = "openapi", schema(value_type = String, example = "02:00:00:00:00:01"))]
    pub mac: Mac,
    /// The VLAN that it is in; 0 for frames without a tag.
    pub vlan: u16,
    /// The port.
    pub port: PortName,
    /// How long ago a frame from it was last noted, which happens once in an eighth of `mac_age`. Absent if it was
    /// pinned there: then it neither ages nor moves.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<String>, example = "12s"))]
    pub age: Option<Span>,
}

/// The virtual networks that an agent knows.
#[derive(Clone, Debug, Eq, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct NetworksStatus {
    /// Which version of them this is: those of host.toml are the first.
    pub generation: Generation,
    /// This host's own addresses in the underlay, if it has any.
    pub vtep: Option<VtepList>,
    /// All of them.
    pub networks: Vec<NetworkSpec>,
}

/// That an agent has replaced its virtual networks.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct NetworksReplaced {
    /// Which version of them it has now.
    pub generation: Generation,
}

/// Whether a port runs.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "lowercase")]
pub enum PortState {
    /// Frames flow.
    Up,
    /// Its receiver has taken nothing for the stall time: frames for it are refused until it does.
    Stalled,
    /// No guest is there to take frames or send them; its notes say why, and whether it is stalled as well.
    Down,
    /// Its device failed; its notes say how.
    Failed,
}

/// What holds a sender back.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "lowercase")]
pub enum PausedBy {
    /// One receiver: its quota of frames waits for it.
    Egress,
    /// Its own share of the switch: so many frames, so many bytes or so much memory is in use, whoever they are for.
    Ingress,
}

/// The law, class by class.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Ledgers {
    /// All classes together.
    pub total: LedgerStatus,
    /// Each class that saw a frame.
    pub classes: Vec<ClassStatus>,
}

/// One class of one direction of a port.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct ClassStatus {
    /// The class, 0 to 7.
    pub class: u8,
    /// What it promises.
    pub kind: ClassKind,
    /// Its account.
    pub ledger: LedgerStatus,
}

/// accepted = delivered + refused + held, in frames.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct LedgerStatus {
    /// Frames taken over from a sender.
    pub accepted: u64,
    /// Frames handed to a receiver.
    pub delivered: u64,
    /// Frames refused, by reason.
    pub refused: BTreeMap<String, u64>,
    /// Frames that wait now.
    pub held: u64,
}

impl PortStatus {
    /// Whether every frame in both directions is accounted for.
    pub fn balances(&self) -> bool {
        self.ingress.balances() && self.egress.balances()
    }
}

impl Ledgers {
    /// Whether every frame is accounted for, in each class and together.
    pub fn balances(&self) -> bool {
        self.total.balances() && self.classes.iter().all(|class| class.ledger.balances())
    }
}

impl LedgerStatus {
    /// Frames refused for whatever reason.
    pub fn refused_total(&self) -> u64 {
        self.refused.values().sum()
    }

    /// Whether every accepted frame is accounted for.
    pub fn balances(&self) -> bool {
        self.accepted == self.delivered + self.refused_total() + self.held
    }
}
