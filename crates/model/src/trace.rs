//! What would become of a frame.

use alloc::string::String;
use alloc::vec::Vec;
use core::net::IpAddr;

use serde::{Deserialize, Serialize};
use units::{Class, Mac, Rate, Span};

use crate::{NetworkName, PausedBy, PortName};

/// A frame that somebody asks about.
#[derive(Clone, Debug, Eq, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct TraceSpec {
    /// The port that it comes by.
    pub port: PortName,
    /// Whom it is for: an Ethernet address, or an IP address of a machine that the switch knows; everybody if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub to: Option<String>,
    /// The priority code point of its tag, which it gets for that; the port's own class, without a tag, if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<u8>, maximum = 7))]
    pub class: Option<Class>,
    /// Its length in bytes, from the Ethernet header on, without check sequence: 60 to 65549.
    #[serde(default = "shortest")]
    pub size: u32,
    /// The VLAN of its tag, which it gets for that.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(maximum = 4094))]
    pub vlan: Option<u16>,
}

/// The shortest frame of Ethernet, without check sequence (802.3 §3.2.8).
fn shortest() -> u32 {
    60
}

/// What would become of it now, hop by hop.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct TraceReport {
    /// Where it would come, in order: where it is flooded, each egress after the other.
    pub hops: Vec<TraceHop>,
    /// What would become of it.
    pub outcome: TraceOutcome,
    /// The same in a sentence.
    pub verdict: String,
}

/// What would become of a frame.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "lowercase")]
pub enum TraceOutcome {
    /// It would be refused.
    Refused,
    /// It would wait.
    Held,
    /// It would be handed to its receiver, or sent to another host.
    Delivered,
    /// The switch itself would answer it.
    Answered,
}

/// A place that a frame would come to.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(tag = "at", rename_all = "lowercase")]
pub enum TraceHop {
    /// The port that it comes by.
    Ingress(TraceIngress),
    /// Where the switch looks whether it is to answer.
    Question {
        /// What is asked, and what is answered, in a sentence.
        answer: String,
    },
    /// Where the switch looks whom it is for.
    Table(TraceTable),
    /// A port that is to have it.
    Egress(TraceEgress),
    /// The session with another host.
    Session(TraceSession),
}

/// A frame at the port that it comes by.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct TraceIngress {
    /// The port.
    pub port: PortName,
    /// The class that the frame is of.
    #[cfg_attr(feature = "openapi", schema(value_type = u8, maximum = 7))]
    pub class: Class,
    /// How many more frames of this sender may be held.
    pub room: u32,
    /// What holds the sender back, if something does.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub held_by: Option<PausedBy>,
    /// Why nothing is taken from it at all, if so.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub because: Option<String>,
}

/// What the table says.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct TraceTable {
    /// The virtual network, if the port is in one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub network: Option<NetworkName>,
    /// The frame's VLAN; 0 if it has none.
    pub vlan: u16,
    /// Whom it is for.
    #[cfg_attr(feature = "openapi", schema(value_type = String, example = "02:00:00:00:00:01"))]
    pub to: Mac,
    /// It is for no one port, and goes to all that may have it.
    pub flooded: bool,
    /// The ports that are to have it; another host's is named by its tunnel address.
    pub egresses: Vec<PortName>,
    /// Why nobody is, if so: a reason of refusals.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub refused: Option<String>,
}

/// A frame at a port that is to have it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct TraceEgress {
    /// The port; another host's is named by its tunnel address.
    pub port: PortName,
    /// Frames of its class before it in the egress's queue.
    pub frames: u32,
    /// Bytes of those.
    pub bytes: u64,
    /// Frames of its class that wait for room in that queue.
    pub waiting: u32,
    /// The receiver takes nothing, so that frames for it are refused.
    pub stalled: bool,
    /// The egress's rate, if it has one.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<String>, example = "1gbit"))]
    pub rate: Option<Rate>,
    /// Flows that are set aside there.
    pub parked_flows: usize,
    /// What would become of it here.
    pub outcome: TraceOutcome,
    /// Why it would not be delivered.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub because: Option<String>,
}

/// A frame that is to leave for another host.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct TraceSession {
    /// The other host's tunnel address.
    #[cfg_attr(feature = "openapi", schema(value_type = String, example = "192.0.2.2"))]
    pub vtep: IpAddr,
    /// The network's number in the tunnel.
    pub vni: u32,
    /// The number by which the other host means its port; none if the frame is for all that are there.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub label: Option<u32>,
    /// Bytes that the far receiver still takes. As the next three, absent where there is no session: frames are sent, and nothing
    /// more is heard of them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub credit: Option<u64>,
    /// Bytes in the fabric.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub in_flight: Option<u64>,
    /// The most that may be there.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub window: Option<u64>,
    /// The smoothed round trip.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<String>, example = "50us"))]
    pub round_trip: Option<Span>,
    /// Frames that the other host has not told that it has.
    pub underway: usize,
}
