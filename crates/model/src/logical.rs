//! A host's part in logical networks: which of its ports are theirs, what it has for them, and what
//! they have done here.

use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::vec::Vec;
use core::net::IpAddr;
use core::ops::RangeInclusive;

use serde::{Deserialize, Serialize};
use units::{Mac, Span};

use crate::{Generation, InvalidConfig};

/// What a host has for logical networks, and where it reads them.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(
    default,
    deny_unknown_fields,
    expecting = "what this host has for logical networks, as `[logical]` and a line for each setting"
)]
pub struct LogicalSettings {
    /// How many connections it can follow: 160 bytes each, reserved with the first logical port.
    pub connections: u32,
    /// Of how many flows of each version of IP it remembers what was decided: some 300 bytes each,
    /// as they come. A connection has two, one each way.
    pub flows: u32,
    /// The files that declare the logical networks that there are at the start; together they are
    /// one declaration. Without any there are those that were applied last.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub files: Vec<String>,
}

/// How many connections a host can be told to follow: at most 2.7 GB of memory.
const CONNECTIONS: RangeInclusive<u32> = 1024..=16_777_216;

/// Of how many flows a host can be told to remember what was decided: at most 310 MB of memory.
const FLOWS: RangeInclusive<u32> = 0..=1_048_576;

impl Default for LogicalSettings {
    fn default() -> Self {
        Self { connections: 262_144, flows: 524_288, files: Vec::new() }
    }
}

impl LogicalSettings {
    /// Whether nothing is said.
    pub fn is_default(&self) -> bool {
        *self == Self::default()
    }

    /// Whether the settings can stand.
    ///
    /// # Errors
    ///
    /// [`InvalidConfig::Logical`] says what is wrong and what to write instead.
    pub fn check(&self) -> Result<(), InvalidConfig> {
        if !CONNECTIONS.contains(&self.connections) {
            return Err(InvalidConfig::Logical("`connections` lies outside 1024 to 16777216"));
        }
        if !FLOWS.contains(&self.flows) {
            return Err(InvalidConfig::Logical("`flows` lies outside 0 to 1048576"));
        }
        Ok(())
    }
}

/// What a port of the host is to its logical network. Counters start at 0 when it is attached.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct LogicalPortStatus {
    /// The generation that decides about its frames. Absent: none that is here has this port, and
    /// nothing goes to it or comes from it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub realized: Option<Generation>,
    /// How many frames that it sent, or that were for it, were refused, by why.
    pub refused: BTreeMap<String, u64>,
    /// How many frames that it sent its network itself has answered, or heard what they say: of
    /// addresses, names, groups. They are in no ledger.
    #[serde(default)]
    pub taken: u64,
    /// The last of them, at most 16, the last one first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub last_refusals: Vec<LastRefusal>,
}

/// A frame that a logical network has refused.
#[derive(Clone, Debug, Eq, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct LastRefusal {
    /// How long ago.
    #[cfg_attr(feature = "openapi", schema(value_type = String, example = "1.5s"))]
    pub ago: Span,
    /// Why.
    pub reason: String,
    /// At which object, as `LogicalPort/shop/db-1`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at: Option<String>,
    /// By which policy and rule, if by one, as `Policy/shop/db-in/others`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<String>,
    /// Whose it was, as `tcp 10.0.1.1:40000 > 10.0.2.1:22`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub flow: Option<String>,
    /// The generation that refused it.
    pub generation: Generation,
}

/// Frames, and their bytes.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct FrameCount {
    /// Frames: one that is cut into packets later is one.
    pub frames: u64,
    /// Their bytes.
    pub bytes: u64,
}

/// What a rule has admitted and refused on this host. Counted is what has left, or was refused; a
/// copy for each of several receivers is one. Over generations its name counts.
#[derive(Clone, Debug, Eq, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct RuleHits {
    /// The policy, as `Policy/shop/db-in`.
    pub policy: String,
    /// The rule's name in it.
    pub rule: String,
    /// Which way the packets go: `fromPort` or `toPort`.
    pub direction: String,
    /// What it says: `allow`, `drop`, `reject` or `pass`.
    pub action: String,
    /// What it let pass, replies of connections that it admitted among it.
    pub admitted: FrameCount,
    /// What it refused.
    pub refused: FrameCount,
}

/// What all rules of a tenant's policies have admitted and refused on this host.
#[derive(Clone, Debug, Eq, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct RuleTotals {
    /// The tenant. Absent: they are the operator's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tenant: Option<String>,
    /// What they let pass.
    pub admitted: FrameCount,
    /// What they refused.
    pub refused: FrameCount,
}

/// Logical networks on this host at one moment. Counters start at 0 with the first logical port.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct LogicalStatus {
    /// The generation that was applied last; 0 before there is one.
    pub generation: Generation,
    /// Answers that networks have given to machines: of addresses, names, errors and rejections.
    pub answers: u64,
    /// Answers that they have not given, as a port asked too much.
    pub limited_answers: u64,
    /// Connections that are followed now.
    pub connections: u64,
    /// The most that can be.
    pub most_connections: u64,
    /// Frames that were decided as those of their flow before.
    pub known_frames: u64,
    /// Frames that were decided by rules and routes.
    pub decided_frames: u64,
    /// Flows of which it is remembered what was decided.
    pub flows: u64,
    /// Frames that hosts which their receivers had left gave back, to be sent again.
    #[serde(default)]
    pub returned_frames: u64,
    /// Lines of rules' logs that their meters have held back.
    #[serde(default)]
    pub suppressed_lines: u64,
    /// Checks of load balancers' backends that this host has made.
    #[serde(default)]
    pub checks: u64,
    /// How many of them have failed.
    #[serde(default)]
    pub failed_checks: u64,
    /// The backends of load balancers with health checks.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub backends: Vec<BackendStatus>,
    /// Neighbours of routers here that nobody declares.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub neighbours: Vec<NeighbourStatus>,
    /// What rules have admitted and refused, by their policies' tenants.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub rules: Vec<RuleTotals>,
    /// How many guarantees of ports here, and of their tenants, are not kept, because there is no
    /// room for them at the uplink. Notes of the ports tell which.
    #[serde(default)]
    pub refused_guarantees: u32,
    /// For how many seconds the controller that is followed has said nothing; 0 while its session
    /// lasts. After a start without one: since it last changed something here. Absent: none is
    /// followed, or it has never been heard.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub silence_seconds: Option<u64>,
}

/// Whether a backend of a load balancer serves.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "lowercase")]
pub enum BackendState {
    /// It gets new connections.
    Up,
    /// Its checks have failed: it gets none.
    Down,
}

/// A backend of a load balancer that has a health check.
#[derive(Clone, Debug, Eq, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct BackendStatus {
    /// The load balancer.
    #[cfg_attr(feature = "openapi", schema(example = "LoadBalancer/shop/web"))]
    pub balancer: String,
    /// The backend's address.
    #[cfg_attr(feature = "openapi", schema(value_type = String, example = "10.0.1.1"))]
    pub address: IpAddr,
    /// Its port.
    pub port: u16,
    /// Whether it serves.
    pub state: BackendState,
    /// Whether this host checks it: its machine is here.
    pub here: bool,
}

/// What a router knows of a neighbour that nobody declares.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "lowercase")]
pub enum NeighbourState {
    /// It is being asked, and has not answered yet.
    Asked,
    /// It was heard a short time ago.
    Reachable,
    /// It was heard, and will be asked again once a packet is for it.
    Stale,
    /// It was heard, and is being asked whether it is still there.
    Probed,
    /// It was asked in vain: what is for it is refused.
    Silent,
}

impl NeighbourState {
    /// All of them.
    pub const ALL: [Self; 5] =
        [Self::Asked, Self::Reachable, Self::Stale, Self::Probed, Self::Silent];

    /// The state in metrics and tables.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Asked => "asked",
            Self::Reachable => "reachable",
            Self::Stale => "stale",
            Self::Probed => "probed",
            Self::Silent => "silent",
        }
    }
}

/// A neighbour of a router that nobody declares.
#[derive(Clone, Debug, Eq, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct NeighbourStatus {
    /// The router's port that it is behind.
    #[cfg_attr(feature = "openapi", schema(example = "RouterPort/shop/edge-wan"))]
    pub port: String,
    /// Its address.
    #[cfg_attr(feature = "openapi", schema(value_type = String, example = "192.0.2.254"))]
    pub address: IpAddr,
    /// Its Ethernet address, if it was heard.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<String>, example = "02:00:00:00:00:01"))]
    pub mac: Option<Mac>,
    /// What is known of it.
    pub state: NeighbourState,
    /// How many packets wait for it.
    pub held: u32,
}

/// What becomes of an object when others are applied.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "lowercase")]
pub enum ObjectFate {
    /// It is new.
    Added,
    /// It is declared otherwise.
    Changed,
    /// It is not declared any more.
    Removed,
}

/// An object of logical networks that is not as it was.
#[derive(Clone, Debug, Eq, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct ObjectChange {
    /// What became of it.
    pub change: ObjectFate,
    /// Which: its kind, its tenant if it is one's, and its name, as `LogicalSwitch/shop/web`.
    pub object: String,
}

/// A domain, of which rows are not as they were. A domain is what can reach each other by switches
/// and routers.
#[derive(Clone, Debug, Eq, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct DomainChange {
    /// Which: the least of its switches and routers.
    pub domain: String,
    /// Rows that are new or otherwise.
    pub put: u64,
    /// Rows that are gone.
    pub removed: u64,
    /// Rows that it has then.
    pub rows: u64,
    /// How many of those this host executes.
    pub here: u64,
}

/// What was applied, or would be: objects of logical networks in place of those before.
#[derive(Clone, Debug, Eq, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct LogicalApplied {
    /// The generation after it.
    pub generation: Generation,
    /// The objects that are not as before, by kind, tenant and name.
    pub objects: Vec<ObjectChange>,
    /// The domains that are not as before.
    pub domains: Vec<DomainChange>,
}

/// The most connections of a page.
pub const MOST_CONNECTIONS: u32 = 1000;

/// How far a connection is. Of TCP: as its endpoints are, as far as can be seen between them.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub enum ConnectionState {
    /// TCP: one side has sent a SYN.
    Opening,
    /// TCP: both have, and neither has answered.
    Crossing,
    /// TCP: the SYN was answered.
    Accepting,
    /// TCP: the handshake is complete.
    Established,
    /// TCP: a side has sent its last, or both have.
    Closing,
    /// TCP: both have, and know it of each other.
    TimeWait,
    /// TCP: reset.
    Closed,
    /// Another protocol: nothing has come back.
    Asked,
    /// Another protocol: something has.
    Answered,
}

/// The ends of packets that go one way.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct ConnectionEnds {
    /// The source's address.
    #[cfg_attr(feature = "openapi", schema(value_type = String, example = "10.0.1.1"))]
    pub source: IpAddr,
    /// Its port; of an echo its identifier.
    pub source_port: u16,
    /// The destination's address.
    #[cfg_attr(feature = "openapi", schema(value_type = String, example = "10.0.2.1"))]
    pub destination: IpAddr,
    /// Its port; of an echo its identifier.
    pub destination_port: u16,
}

/// A connection that is followed for a logical port.
#[derive(Clone, Debug, Eq, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Connection {
    /// Which one it is, as long as it is followed.
    #[cfg_attr(feature = "openapi", schema(example = "17-3"))]
    pub id: String,
    /// Whose it is: the logical port.
    #[cfg_attr(feature = "openapi", schema(example = "LogicalPort/shop/web-1"))]
    pub zone: String,
    /// `tcp`, `udp`, `sctp`, `icmp`, `icmp6`, or a number.
    pub protocol: String,
    /// The ends of its first packet.
    #[serde(flatten)]
    pub ends: ConnectionEnds,
    /// The same behind a load balancer of the port's switch, if that translates it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub translated: Option<ConnectionEnds>,
    /// Which way its first packet went: `fromPort` or `toPort`.
    pub direction: String,
    /// How far it is.
    pub state: ConnectionState,
    /// The logical port that its first packet came from, if it was for this one and that is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub origin: Option<String>,
    /// The policy and rule that admitted it, if one did, as `Policy/shop/db-in/from-web`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<String>,
    /// How long it is remembered if no packet comes.
    #[cfg_attr(feature = "openapi", schema(value_type = String, example = "2m"))]
    pub left: Span,
    /// Whether its TCP windows are not known: it was taken over from another host, or is in
    /// fragments.
    #[serde(default)]
    pub loose: bool,
}

/// What a host has taken over of a logical port that was another's.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct HandoverTaken {
    /// How many connections, and flows that are translated, go on here.
    pub connections: u64,
    /// How many find no room: their next packets are as if they were the first.
    pub lost: u64,
}

/// Some of the connections of a logical port.
#[derive(Clone, Debug, Default, Eq, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct ConnectionsPage {
    /// They, in no order.
    pub connections: Vec<Connection>,
    /// What `after` is to be to go on behind them. Absent: there are no more.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<String>,
}
