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

use serde::{Deserialize, Serialize};

pub use client::{Client, ClientError, Condition, Stream};
pub use model::DEFAULT_SOCKET;

/// `GET`: the whole agent, a `model::AgentStatus`.
pub const STATUS: &str = "/v1/status";

/// `GET`: every port, a list of `model::PortStatus`. `POST` a `model::PortSpec`: attach one more.
pub const PORTS: &str = "/v1/ports";

/// `GET`, `PATCH` (a `model::PortChange`) and `DELETE`: one port, a `model::PortStatus`.
pub const PORT: &str = "/v1/ports/{name}";

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
}
