//! The agent's local API, as seen from outside: where it listens, what its paths are, and a client.
//!
//! ```text
//! top, lab, tests ─▶ Client ─HTTP/JSON over a Unix socket─▶ agent
//! ```
//!
//! The messages are `model`'s types; a refused request is answered with a [`Problem`]. The agent
//! serves the same paths, and describes them as an OpenAPI document under [`OPENAPI`].

#![forbid(unsafe_code)]

mod client;
mod controlled;
mod unless;

use std::collections::BTreeMap;

use model::{Generation, LogicalPortName, PortName, PortState};
use serde::{Deserialize, Serialize};

pub use client::{Client, ClientError, Condition, Stream};
pub use controlled::{Asked, Refused, Remote, RemoteClient, RemoteError};
pub use model::DEFAULT_SOCKET;

/// `GET`: the whole agent, a `model::AgentStatus`.
pub const STATUS: &str = "/v1/status";

/// `GET`: every port, a list of `model::PortStatus`. `POST` a `model::PortSpec`: attach one more.
pub const PORTS: &str = "/v1/ports";

/// `GET`, `PATCH` (a `model::PortChange`) and `DELETE`: one port, a `model::PortStatus`.
pub const PORT: &str = "/v1/ports/{name}";

/// `GET`: the connections that are followed of a logical port of this host, a
/// `model::ConnectionsPage`; the name is the host's port's or the logical one, `shop%2Fweb-1`.
/// `?limit=` says how many at most, `?after=` goes on behind the page that said so in `next`.
pub const CONNECTIONS: &str = "/v1/ports/{name}/connections";

/// `GET`: what another host needs to go on with a logical port of this one, as bytes that only
/// agents read; `?stays=true`: the port does not go yet. `PUT` them to the agent of the host that
/// the port goes to, which a `model::HandoverTaken` answers. The name is as of [`CONNECTIONS`].
pub const HANDOVER: &str = "/v1/ports/{name}/handover";

/// `GET`: where each Ethernet address is reached, a list of `model::AddressStatus`.
pub const ADDRESSES: &str = "/v1/addresses";

/// `GET`: the virtual networks, a `model::NetworksStatus`. `PUT` a list of `model::NetworkSpec`:
/// replace all of them, which a `model::NetworksReplaced` answers. Each answer has the generation
/// as its `ETag`, which `If-Match` asks for (RFC 9110 §13.1.1); with `?dry_run=true` nothing
/// changes.
pub const NETWORKS: &str = "/v1/networks";

/// `PUT` a `model::NetworkSpec` (add or replace that network alone) and `DELETE`: one network; a
/// `model::NetworksReplaced` answers.
pub const NETWORK: &str = "/v1/networks/{name}";

/// `GET`: the logical networks, a [`LogicalNetworks`]. `PUT` their objects, as a list or as YAML:
/// replace all of them, which a `model::LogicalApplied` answers. `ETag`, `If-Match` and
/// `?dry_run=true` as of [`NETWORKS`].
pub const LOGICAL: &str = "/v1/logical";

/// `GET`: what each rule of the logical networks has admitted and refused here, a list of
/// `model::RuleHits`; `?port=shop/web-1`: only rules that hold for that port.
pub const LOGICAL_RULES: &str = "/v1/logical/rules";

/// `POST` a `model::PacketTraceSpec`: what would become of a packet in the logical networks, a
/// `model::PacketTrace`. Nothing changes.
pub const LOGICAL_TRACE: &str = "/v1/logical/trace";

/// `GET`: frames as they come by, a pcapng file that goes on until its reader has enough; the query
/// is a `model::CaptureSpec`.
pub const CAPTURE: &str = "/v1/capture";

/// `POST` a `model::TraceSpec`: what would become of a frame, a `model::TraceReport`. Nothing
/// changes.
pub const TRACE: &str = "/v1/trace";

/// `GET`: 204 while frames flow, 503 while the agent drains.
pub const READY: &str = "/v1/ready";

/// `GET`: this API as an OpenAPI 3.1 document.
pub const OPENAPI: &str = "/v1/openapi.json";

/// `GET`: everything counted, as OpenMetrics text for Prometheus.
pub const METRICS: &str = "/metrics";

/// Why a request was refused, for the one who made it.
#[derive(Clone, Debug, Eq, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Problem {
    /// What went wrong and what to do, in one sentence.
    pub error: String,
    /// All that is wrong with objects that were sent.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub errors: Vec<FieldProblem>,
}

/// What is wrong with one field of an object.
#[derive(Clone, Debug, Eq, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct FieldProblem {
    /// The object, as `LogicalPort/shop/web-1`, or as much of it as is known.
    pub object: String,
    /// The field, as a JSON pointer (RFC 6901) from the object.
    pub path: String,
    /// What is wrong, and what to write instead.
    pub message: String,
    /// The line of the body where that is, from 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub line: Option<u64>,
}

/// The logical networks of an agent.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct LogicalNetworks {
    /// The generation that was applied last; 0 before there is one.
    pub generation: Generation,
    /// What was applied: docs/logical.schema.json describes it.
    #[cfg_attr(feature = "openapi", schema(value_type = Vec<Object>))]
    pub objects: Vec<serde_json::Value>,
    /// Every port that a machine can have, by name, and those that ports of this host are and no
    /// object declares.
    pub ports: Vec<LogicalPort>,
    /// What can reach each other, by name.
    pub domains: Vec<DomainRows>,
    /// For how many seconds the controller that is followed has said nothing; 0 while its session
    /// lasts. After a start without one: since it last changed something here. Absent: none is
    /// followed, or it has never been heard.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub silence_seconds: Option<u64>,
}

/// A machine's port of a logical network, as one host sees it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct LogicalPort {
    /// The port.
    #[cfg_attr(feature = "openapi", schema(value_type = String, example = "shop/web-1"))]
    pub name: LogicalPortName,
    /// The port of this host that it is. Absent: it is not here.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub port: Option<PortName>,
    /// The state of that.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub state: Option<PortState>,
    /// The generation that decides about its frames here. Absent: none does, and it reaches nobody.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub realized: Option<Generation>,
    /// How many frames that it sent, or that were for it, were refused here, by why.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub refused: BTreeMap<String, u64>,
}

/// How large a domain is.
#[derive(Clone, Debug, Eq, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct DomainRows {
    /// Which: the least of its switches and routers.
    pub domain: String,
    /// Its rows.
    pub rows: u64,
    /// Those that this host executes.
    pub here: u64,
}
