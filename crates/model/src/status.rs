//! The status of an agent and its ports.

use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;
use core::net::SocketAddr;

use serde::{Deserialize, Serialize};
use units::{Class, Mac, Rate, Span};

use crate::{
    Attachment, Generation, LedgerStatus, Ledgers, Limits, LogicalPortName, LogicalPortStatus,
    LogicalStatus, NetworkName, NetworkSpec, PinnedAddress, PortName, PortShare, PortSpec,
    Scheduling, StormLimits, ThreadStatus, ThreadUse, UplinkStatus, VlanMembership, VtepList,
};

/// The whole agent at one moment.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct AgentStatus {
    /// The agent's version.
    pub version: String,
    /// Nanoseconds since the agent started.
    pub uptime_ns: u64,
    /// Nanoseconds that the switch's thread was busy, since the agent started.
    pub busy_ns: u64,
    /// Turns that the switch's thread has taken, since the agent started.
    #[serde(default)]
    pub turns: u64,
    /// Those of them in which no frame moved.
    #[serde(default)]
    pub empty_turns: u64,
    /// The switch's thread, and who has had it.
    #[serde(default)]
    pub thread: ThreadStatus,
    /// Whether UDP flows are held while their socket is full.
    pub udp_gate: GateStatus,
    /// Every attached port, by name.
    pub ports: Vec<PortStatus>,
    /// The virtual networks that have a port here, or had one, by name.
    #[serde(default)]
    pub networks: Vec<NetworkStatus>,
    /// Logical networks, if any were applied or a port is in one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub logical: Option<LogicalStatus>,
    /// This host's end of its tunnels, if an uplink is declared.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub uplink: Option<UplinkStatus>,
    /// The ledger of the whole switch, detached ports included.
    pub ledger: LedgerStatus,
    /// Whether every ledger balances, and the queues hold what the ledgers say.
    pub balanced: bool,
}

/// A virtual network on this host at one moment: what its ports have done, those that were detached
/// included. Counters start at 0 when the network is first declared here or has its first port, and
/// again once it has neither.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct NetworkStatus {
    /// The network; `logical/shop` is all ports of logical networks of the tenant `shop`.
    pub name: NetworkName,
    /// Its ports that are attached.
    pub ports: u32,
    /// The ledger of frames from its machines here.
    pub ingress: LedgerStatus,
    /// The ledger of frames for its machines here, from wherever.
    pub egress: LedgerStatus,
    /// Bytes received from its machines here.
    pub ingress_bytes: u64,
    /// Bytes delivered to its machines here.
    pub egress_bytes: u64,
    /// How long its senders were paused, added up.
    #[cfg_attr(feature = "openapi", schema(value_type = String, example = "1500ms"))]
    pub paused: Span,
    /// Memory that its frames from other hosts take up now, in bytes.
    #[serde(default)]
    pub memory_bytes: u64,
    /// What it has had of the switch's thread.
    #[serde(default)]
    pub thread: ThreadUse,
}

/// Whether UDP flows are held while their socket is full: `"on"`, or `{"off": "why"}`.
#[derive(Clone, Debug, Eq, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "lowercase")]
pub enum GateStatus {
    /// They are held, behind every port whose notes do not say otherwise.
    On,
    /// They are not held, for this reason: a full socket loses what it is sent.
    Off(String),
}

/// One port at one moment. Counters start at 0 when the port is attached and never decrease.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct PortStatus {
    /// The port's name.
    pub name: PortName,
    /// What it is attached to, as declared.
    pub attach: Attachment,
    /// Its largest packet, in bytes: the declared one, or what it has without.
    #[serde(default)]
    pub mtu: u32,
    /// Its Ethernet address, as far as it is known without its frames: the one that is declared, or
    /// made from the port's name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<String>, example = "02:00:00:00:00:01"))]
    pub mac: Option<Mac>,
    /// Its virtual network, if it has one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub network: Option<NetworkName>,
    /// The label by which other hosts name the port, if it is in a network.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub label: Option<u32>,
    /// The port of a logical network that it is, if it is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<String>, example = "shop/web-1"))]
    pub logical: Option<LogicalPortName>,
    /// What it is to its logical network.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub logical_state: Option<LogicalPortStatus>,
    /// Whether frames flow.
    pub state: PortState,
    /// Its egress rate, if it has one.
    #[cfg_attr(feature = "openapi", schema(value_type = Option<String>, example = "1gbit"))]
    pub rate: Option<Rate>,
    /// The rate at which frames are taken from its sender, if it has one.
    #[serde(default)]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<String>, example = "1gbit"))]
    pub send_rate: Option<Rate>,
    /// The limits of its egress queue, for each class.
    pub egress_limits: Limits,
    /// The limits of what the switch holds of its sender's frames, for each class.
    pub ingress_limits: Limits,
    /// The class of frames without an 802.1Q tag.
    #[cfg_attr(feature = "openapi", schema(value_type = u8, maximum = 7))]
    pub class: Class,
    /// The one that its declaration says, if it says one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<u8>, maximum = 7))]
    pub declared_class: Option<Class>,
    /// How many of its sender's frames may wait for one receiver in one class, if that is bounded.
    pub quota: Option<u32>,
    /// How the egress schedules its classes.
    pub scheduling: Scheduling,
    /// How many frames a second of its sender are flooded, of each kind; 0 for as many as come.
    #[serde(default)]
    pub storm: StormLimits,
    /// What its sender may have of the uplink, within its network's share.
    #[serde(default, skip_serializing_if = "PortShare::is_default")]
    pub share: PortShare,
    /// Ethernet addresses that are behind it for good, besides its own.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub pinned: Vec<PinnedAddress>,
    /// Whether what its sender says from, or of, another's address is refused, if that is declared.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub antispoof: Option<bool>,
    /// The ledger of frames from its sender.
    pub ingress: Ledgers,
    /// The ledger of frames for its receiver.
    pub egress: Ledgers,
    /// Bytes received from its sender.
    pub ingress_bytes: u64,
    /// Bytes delivered to its receiver.
    pub egress_bytes: u64,
    /// How long the sender was paused, since the port was attached.
    #[cfg_attr(feature = "openapi", schema(value_type = String, example = "1500ms"))]
    pub paused: Span,
    /// What pauses the sender now, if something does.
    pub paused_by: Option<PausedBy>,
    /// The VLANs that it is in; all, as its frames' tags say, if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub vlan: Option<VlanMembership>,
    /// How often an Ethernet address has moved to this port from another, or was seen here although
    /// it is declared of another.
    #[serde(default)]
    pub moved_addresses: u64,
    /// UDP flows to this port that wait for their socket now.
    pub held_flows: u32,
    /// UDP flows to this port whose socket has taken nothing for `socket_stall_after`: what is for
    /// them is refused until it does.
    #[serde(default)]
    pub stalled_flows: u32,
    /// The sockets of those flows, at most 16: those with the most frames first.
    #[serde(default)]
    pub held_sockets: Vec<HeldSocket>,
    /// The UDP sockets behind it. Absent if they are not watched.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub udp_sockets: Option<SocketsStatus>,
    /// Frames that came by the host's interface and that the switch never had, as the kernel had no
    /// room for them: what sends there cannot be held back. Absent of other ports.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub missed: Option<u64>,
    /// Notes for the operator, in sentences.
    pub notes: Vec<String>,
}

/// A UDP socket behind a port that had no room for a datagram when it was last asked.
#[derive(Clone, Debug, Eq, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct HeldSocket {
    /// The address and port that datagrams for it are sent to.
    #[cfg_attr(feature = "openapi", schema(value_type = String, example = "10.0.0.2:53"))]
    pub socket: SocketAddr,
    /// Frames that wait for it now.
    pub held: u32,
    /// How long it has taken nothing while they waited; absent once it is stalled.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<String>, example = "300ms"))]
    pub silent: Option<Span>,
    /// It has taken nothing for `socket_stall_after`: what is for it is refused until it does.
    pub stalled: bool,
}

/// The UDP sockets behind a port. Counters start at 0 when it is attached.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct SocketsStatus {
    /// Watched sockets.
    pub watched: u64,
    /// How often a socket could not be watched because there were too many. It may lose datagrams.
    pub untracked: u64,
    /// Datagrams that found no room at any of them.
    pub lost: u64,
    /// Datagrams for which no socket is seen: nobody listens, or who does is behind address
    /// translation, a macvlan or a namespace in the container. The first ones of a flow do not
    /// count.
    pub unseen: u64,
    /// For whom the last of those was.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<String>, example = "10.0.0.2:53"))]
    pub last_unseen: Option<SocketAddr>,
}

/// An entry of the address table.
#[derive(Clone, Debug, Eq, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct AddressStatus {
    /// The address.
    #[cfg_attr(feature = "openapi", schema(value_type = String, example = "02:00:00:00:00:01"))]
    pub mac: Mac,
    /// Its VLAN; 0 for frames without a tag.
    pub vlan: u16,
    /// The port.
    pub port: PortName,
    /// The time since a frame from it was last noted, which happens once in an eighth of `mac_age`.
    /// Absent if the entry is pinned: then it neither ages nor moves.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<String>, example = "12s"))]
    pub age: Option<Span>,
}

/// The virtual networks of an agent.
#[derive(Clone, Debug, Eq, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct NetworksStatus {
    /// Their generation; the networks of host.toml are generation 1.
    pub generation: Generation,
    /// This host's tunnel addresses, if it has any.
    pub vtep: Option<VtepList>,
    /// All networks.
    pub networks: Vec<NetworkSpec>,
}

/// The answer to a replacement of all virtual networks.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct NetworksReplaced {
    /// Their new generation.
    pub generation: Generation,
}

/// Whether frames flow through a port.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "lowercase")]
pub enum PortState {
    /// Frames flow.
    Up,
    /// Its receiver has consumed nothing for `stall_after`: frames for it are refused until it
    /// does.
    Stalled,
    /// Its guest is not connected, its container is not there, or its interface was set down or
    /// moved away; its notes say why, and whether it is stalled as well.
    Down,
    /// Its device failed; its notes say how.
    Failed,
}

impl PortState {
    /// Every state.
    pub const ALL: [Self; 4] = [Self::Up, Self::Stalled, Self::Down, Self::Failed];

    /// Its name, as JSON has it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Up => "up",
            Self::Stalled => "stalled",
            Self::Down => "down",
            Self::Failed => "failed",
        }
    }
}

impl fmt::Display for PortState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// What pauses a sender.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "lowercase")]
pub enum PausedBy {
    /// One receiver: as many frames as the quota allows wait for it.
    Egress,
    /// Its own limits of frames, bytes or memory in the switch, whatever the receivers.
    Ingress,
}

impl PortStatus {
    /// The declaration of the port as it is.
    pub fn declaration(self) -> PortSpec {
        let Self { name, attach, network, label, rate, send_rate, quota, .. } = self;
        // What is its logical port's is no part of it.
        let is_own = self.logical.is_none();
        let share = if is_own { self.share } else { PortShare::default() };
        let says_class = self.declared_class.is_some() || is_own && self.class != Class::default();
        let Self { scheduling, storm, pinned, vlan, antispoof, logical, .. } = self;
        PortSpec {
            name,
            attach,
            rate,
            send_rate,
            egress: self.egress_limits,
            ingress: self.ingress_limits,
            class: says_class.then_some(self.class),
            quota,
            scheduling,
            pinned,
            storm,
            share,
            vlan,
            antispoof,
            network,
            label,
            logical,
        }
    }

    /// Whether every frame in both directions is accounted for.
    pub fn balances(&self) -> bool {
        self.ingress.balances() && self.egress.balances()
    }
}
