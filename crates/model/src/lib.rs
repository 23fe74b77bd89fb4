//! What is declared and what is reported.
//!
//! A host's operator writes a [`HostConfig`]; the agent's local API takes a [`PortSpec`] for each
//! port that is attached live, and answers with a [`PortStatus`]. Which machines are in virtual
//! networks, and where, is the same on every host: each is told every [`NetworkSpec`], and of
//! itself its [`Uplink`]. The same types are the file's, the API's and the clients'.
//!
//! ```text
//! host.toml ──▶ HostConfig ──▶ agent ──▶ AgentStatus ──▶ top, metrics, lab, measure
//!                              ▲
//! API ───────▶ PortSpec, PortChange, NetworkSpec
//! ```
//!
//! Nothing here acts: checking a declaration and explaining what is wrong with it is all it does.

#![cfg_attr(not(feature = "openapi"), no_std)]
#![forbid(unsafe_code)]

extern crate alloc;

mod address;
mod capture;
mod claim;
mod filter;
mod host;
mod invalid;
mod ledger;
mod logical;
mod logical_port;
pub mod mistake;
mod name;
mod network;
mod overlay;
mod packet_trace;
mod port;
mod position;
mod status;
mod thread;
mod trace;
mod uplink;
mod vtep;

pub use capture::{CaptureDirection, CaptureSpec, InvalidCapture};
pub use claim::Claims;
pub use filter::{
    Expression, Filter, InvalidFilter, LONGEST_FILTER, Protocol, Side as FilterSide,
    Test as FilterTest,
};
pub use host::{AgentSettings, DEFAULT_SOCKET, Deleted, HostConfig, MOST_PORTS, Polling};
pub use invalid::InvalidConfig;
pub use ledger::{ClassStatus, LedgerStatus, Ledgers};
pub use logical::{
    BackendState, BackendStatus, Connection, ConnectionEnds, ConnectionState, ConnectionsPage,
    DomainChange, FrameCount, HandoverTaken, LastRefusal, LogicalApplied, LogicalPortStatus,
    LogicalSettings, LogicalStatus, MOST_CONNECTIONS, NeighbourState, NeighbourStatus,
    ObjectChange, ObjectFate, RuleHits, RuleTotals,
};
pub use logical_port::{LogicalPortName, NoLogicalPort};
pub use name::PortName;
pub use network::{
    Generation, InvalidNetwork, LABELS, Member, NetworkFault, NetworkName, NetworkShare,
    NetworkSpec, ShareFault, VNIS, check_networks,
};
pub use overlay::{
    BfdState, BfdStatus, ChannelStatus, DownlinkStatus, InterfaceState, InterfaceStatus,
    LargeSegments, NetworkShareStatus, PathStatus, PauseFramesStatus, PeerState, PeerStatus,
    PortShareStatus, ProtectionStatus, ResponderStatus, SessionStatus, ShapingStatus,
    SharingStatus, UplinkStatus,
};
pub use packet_trace::{
    FrameBytes, NoFrame, PacketEnds, PacketOutcome, PacketRefused, PacketSent, PacketStep,
    PacketTrace, PacketTraceSpec,
};
pub use port::{
    Attachment, ClassChange, ClassKind, Limits, LimitsChange, NoRate, PinnedAddress, PortChange,
    PortShare, PortSpec, RateChange, RouteSpec, Scheduling, SocketMode, StormLimits,
    VlanMembership,
};
pub use position::Position;
pub use status::{
    AddressStatus, AgentStatus, GateStatus, HeldSocket, NetworkStatus, NetworksReplaced,
    NetworksStatus, PausedBy, PortState, PortStatus, SocketsStatus,
};
pub use thread::{ThreadStatus, ThreadUse};
pub use trace::{
    TraceEgress, TraceHop, TraceIngress, TraceOutcome, TraceReport, TraceSession, TraceSpec,
    TraceTable,
};
pub use uplink::{Bfd, CONTROL, Encapsulation, TunnelKey, TunnelMode, Uplink, all_or_some};
pub use vtep::{MOST_UPLINKS, NoVtep, VtepList};
