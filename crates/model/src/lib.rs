//! What is declared and what is reported.
//!
//! A host's operator writes a [`HostConfig`]; the agent's local API takes a [`PortSpec`] for each port that is
//! attached live, and answers with a [`PortStatus`]. The same types are the file's, the API's and the clients'.
//!
//! ```text
//! host.toml ──▶ HostConfig ──▶ agent ──▶ AgentStatus ──▶ top, metrics, lab, measure
//!                              ▲
//! API ───────▶ PortSpec, PortChange
//! ```
//!
//! Nothing here acts: checking a declaration and explaining what is wrong with it is all it does.

#![cfg_attr(not(feature = "openapi"), no_std)]
#![forbid(unsafe_code)]

extern crate alloc;

mod host;
mod port;
mod status;

pub use host::{AgentSettings, DEFAULT_SOCKET, HostConfig, InvalidConfig, Polling};
pub use port::{
    Attachment, ClassKind, Limits, LimitsChange, NoRate, PinnedAddress, PortChange, PortName, PortSpec,
    RateChange, Scheduling, SocketMode,
};
pub use status::{
    AddressStatus, AgentStatus, ClassStatus, GateStatus, LedgerStatus, Ledgers, PausedBy, PortState,
    PortStatus,
};
