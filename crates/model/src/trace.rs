//! Traces: the hops that a frame would take, and its outcome.

use alloc::string::String;
use alloc::vec::Vec;
use core::net::IpAddr;

use serde::{Deserialize, Serialize};
use units::{Class, Mac, Rate, Span};

use crate::{NetworkName, PausedBy, PortName};

/// The frame to trace.
#[derive(Clone, Debug, Eq, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields, expecting = "a frame to trace")]
pub struct TraceSpec {
    /// The port whose sender sends it.
    pub port: PortName,
    /// Its destination: an Ethernet address, or the IP address of a machine that the switch knows.
    /// Absent: broadcast.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub to: Option<String>,
    /// The priority code point of its 802.1Q tag. Absent: the port's class, and no tag.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<u8>, maximum = 7))]
    pub class: Option<Class>,
    /// Its length in bytes, Ethernet header included, frame check sequence excluded: 60 to 65549.
    #[serde(default = "shortest")]
    pub size: u32,
    /// The VLAN of its 802.1Q tag. Absent: no tag, unless `class` is given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(maximum = 4094))]
    pub vlan: Option<u16>,
    /// Whether its packet may be fragmented on its way (IPv4 without DF). Absent: not, as most
    /// stacks send.
    #[serde(default, skip_serializing_if = "core::ops::Not::not")]
    pub may_fragment: bool,
    /// The UDP port that it is for, if it is for an IP address. Absent: 9, which discards.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub udp: Option<u16>,
}

/// The shortest Ethernet frame, without its frame check sequence (802.3 §3.2.8).
fn shortest() -> u32 {
    60
}

/// The hops that the frame would take now, and its outcome.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct TraceReport {
    /// The hops, in order; a flooded frame has one for each egress.
    pub hops: Vec<TraceHop>,
    /// Its outcome.
    pub outcome: TraceOutcome,
    /// The outcome in a sentence.
    pub verdict: String,
}

/// The outcome of a trace.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "lowercase")]
pub enum TraceOutcome {
    /// It would be refused.
    Refused,
    /// It would wait.
    Held,
    /// It would be delivered to its receiver, or sent to another host.
    Delivered,
    /// The switch would answer it itself.
    Answered,
}

/// A hop of the frame.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(tag = "at", rename_all = "lowercase")]
pub enum TraceHop {
    /// The port whose sender sends it.
    Ingress(TraceIngress),
    /// The switch's own ARP, ND and path MTU responder.
    Responder {
        /// The question and the reply, in a sentence.
        reply: String,
    },
    /// The address table.
    Table(TraceTable),
    /// An egress of the frame.
    Egress(TraceEgress),
    /// The session with another host.
    Session(TraceSession),
}

/// The ingress hop.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct TraceIngress {
    /// The port.
    pub port: PortName,
    /// The frame's class.
    #[cfg_attr(feature = "openapi", schema(value_type = u8, maximum = 7))]
    pub class: Class,
    /// How many more frames of this sender the switch may hold.
    pub free_frames: u32,
    /// What pauses the sender, if something does.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub paused_by: Option<PausedBy>,
    /// Why the switch accepts no frames from this port, if so.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// The table hop.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct TraceTable {
    /// The virtual network, if the port is in one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub network: Option<NetworkName>,
    /// The frame's VLAN; 0 if it has none.
    pub vlan: u16,
    /// The destination address.
    #[cfg_attr(feature = "openapi", schema(value_type = String, example = "02:00:00:00:00:01"))]
    pub to: Mac,
    /// Whether the frame is flooded: unknown unicast, multicast or broadcast.
    pub flooded: bool,
    /// The egresses; a peer is named by its tunnel address.
    pub egresses: Vec<PortName>,
    /// The reason of the refusal, if the table refuses the frame.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub refused: Option<String>,
}

/// An egress hop.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct TraceEgress {
    /// The port; a peer is named by its tunnel address.
    pub port: PortName,
    /// Frames of its class before it in the egress queue.
    pub queued_frames: u32,
    /// Bytes of those frames.
    pub queued_bytes: u64,
    /// Frames of its class that wait in VOQs for a permit of this egress.
    pub waiting_frames: u32,
    /// Whether the receiver is stalled: frames for it are refused.
    pub stalled: bool,
    /// The egress's rate, if it has one.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<String>, example = "1gbit"))]
    pub rate: Option<Rate>,
    /// Flows held because their socket is full, or their credit is used up.
    pub held_flows: usize,
    /// The outcome at this egress.
    pub outcome: TraceOutcome,
    /// Why the frame would not be delivered, if so.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// The session hop: the frame leaves for another host.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct TraceSession {
    /// The peer's tunnel address.
    #[cfg_attr(feature = "openapi", schema(value_type = String, example = "192.0.2.2"))]
    pub vtep: IpAddr,
    /// The network's VNI.
    pub vni: u32,
    /// The label of the far port; absent for a frame to all members on that host.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub label: Option<u32>,
    /// Bytes that the stream may still send. This and the next three are absent without a session.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub credit_bytes: Option<u64>,
    /// Bytes sent to the peer and neither acknowledged nor found lost.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub in_flight_bytes: Option<u64>,
    /// The limit of `in_flight_bytes`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub congestion_window_bytes: Option<u64>,
    /// The smoothed round-trip time (RFC 6298).
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<String>, example = "50us"))]
    pub rtt: Option<Span>,
    /// Frames sent and not yet known to be consumed by the far receiver.
    pub outstanding: usize,
    /// In how many parts it goes, which the far host joins. Absent: whole.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parts: Option<usize>,
    /// In how many fragments its packet goes (RFC 791), which its receiver joins. Absent: whole.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fragments: Option<usize>,
}
