//! What the agent reports of its tunnels: its own end, and each host that they lead to.

use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::vec::Vec;
use core::net::IpAddr;

use serde::{Deserialize, Serialize};
use units::Span;

use crate::{Encapsulation, Ledgers, NetworkName, VtepList};

/// This host's end of its tunnels at one moment. Counters run from the agent's start and never go back.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct UplinkStatus {
    /// This host's own addresses in the underlay.
    pub vtep: VtepList,
    /// How frames are carried.
    pub encapsulation: Encapsulation,
    /// Datagrams from hosts that no network has a member at.
    pub strangers: u64,
    /// Datagrams from known hosts that are no packets of tunnels as they ought to be, by what is wrong with them.
    pub refused: BTreeMap<String, u64>,
    /// Datagrams that the kernel did not send.
    pub unsent: u64,
    /// What it said of the last of them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_error: Option<String>,
    /// Pauses of the link below each address, if they are obeyed.
    pub pauses: Vec<PausesStatus>,
    /// What was answered to machines in the stead of those on other hosts.
    pub answers: AnswersStatus,
    /// Every host that a tunnel leads to, by address.
    pub peers: Vec<PeerStatus>,
    /// What the operator ought to know, in sentences.
    pub notes: Vec<String>,
}

/// Pauses of a link (802.1Qbb, 802.3 annex 31B).
#[derive(Clone, Copy, Debug, Eq, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct PausesStatus {
    /// This host's address at the link.
    #[cfg_attr(feature = "openapi", schema(value_type = String, example = "192.0.2.1"))]
    pub vtep: IpAddr,
    /// Those that came, ends of pauses among them.
    pub received: u64,
    /// Those that we sent.
    pub sent: u64,
}

/// What the switch answered by itself: questions for addresses, and packets that are too long for tunnels.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct AnswersStatus {
    /// Answers that machines have taken.
    pub given: u64,
    /// Answers that were not given: the machine asked more than a port may (RFC 4443 §2.4 (f)), or took none of those before.
    pub limited: u64,
}

/// A host that a tunnel leads to. Counters run from when it became known, and never go back.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct PeerStatus {
    /// Its address in the underlay: the first, if it has several.
    #[cfg_attr(feature = "openapi", schema(value_type = String, example = "192.0.2.2"))]
    pub vtep: IpAddr,
    /// The networks that both hosts have members of.
    pub networks: Vec<NetworkName>,
    /// Whether frames go there.
    pub state: PeerState,
    /// The ways there, one for each uplink that both hosts have.
    pub ways: Vec<WayStatus>,
    /// The session with it, unless frames are neither sent again nor wait for credit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub session: Option<SessionStatus>,
    /// What came from there, wherever it went.
    pub ingress: Ledgers,
    /// What was meant for there, wherever it came from. It is delivered once the far receiver has it, or has been sent where nothing
    /// is sent again.
    pub egress: Ledgers,
    /// Bytes that came.
    pub ingress_bytes: u64,
    /// Bytes that went.
    pub egress_bytes: u64,
    /// Flows that wait for credit now.
    pub held_flows: u32,
    /// What came and was not taken, by reason. With a session that sends again, frames that found no memory come again.
    pub refused: BTreeMap<String, u64>,
}

/// Whether frames go to a host.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "lowercase")]
pub enum PeerState {
    /// They do.
    Up,
    /// It is not heard, or does not hear us: frames wait until the session begins.
    Waiting,
    /// BFD finds that no way works any more: frames wait until one does.
    Down,
    /// It has taken nothing for the stall time: frames for it are refused until it does.
    Stalled,
}

impl PeerState {
    /// All there are.
    pub const ALL: [Self; 4] = [Self::Up, Self::Waiting, Self::Down, Self::Stalled];

    /// As it is written.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Up => "up",
            Self::Waiting => "waiting",
            Self::Down => "down",
            Self::Stalled => "stalled",
        }
    }
}

/// A way to a host.
#[derive(Clone, Debug, Eq, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct WayStatus {
    /// Our end of it.
    #[cfg_attr(feature = "openapi", schema(value_type = String, example = "192.0.2.1"))]
    pub local: IpAddr,
    /// The other host's.
    #[cfg_attr(feature = "openapi", schema(value_type = String, example = "192.0.2.2"))]
    pub remote: IpAddr,
    /// Whether frames go by it now: of a session by one way, others by all that work.
    pub is_used: bool,
    /// What BFD finds of it, if it is watched.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bfd: Option<BfdStatus>,
    /// What becomes of large segments on it: as it was when the last was to go by it, if any was.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub large_segments: Option<LargeSegments>,
}

/// What becomes of large segments on a way.
#[derive(Clone, Debug, Eq, PartialEq, Serialize, Deserialize)]
#[serde(tag = "go", rename_all = "snake_case")]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub enum LargeSegments {
    /// They go whole all the way: the other host is this machine.
    Whole,
    /// They go whole as far as the network card, which cuts them.
    Card,
    /// They go in parts.
    Parts {
        /// Why.
        why: String,
    },
}

/// What BFD finds of a way (RFC 5880).
#[derive(Clone, Debug, Eq, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct BfdStatus {
    /// How the session stands.
    pub state: BfdState,
    /// Why that changed last: RFC 5880 §4.1 (Diag).
    pub diagnostic: String,
    /// What the far end said last of the same.
    pub remote_diagnostic: String,
    /// For how long it has stood so.
    #[cfg_attr(feature = "openapi", schema(value_type = String, example = "12s"))]
    pub since: Span,
}

/// How a BFD session stands (RFC 5880 §6.2).
#[derive(Clone, Copy, Debug, Eq, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum BfdState {
    /// Both ends hear one another.
    Up,
    /// The far end is heard, and may not hear us.
    Init,
    /// Nothing is heard.
    Down,
    /// Its operator holds it down.
    AdminDown,
}

/// A session with a host: docs/protocol.md.
#[derive(Clone, Debug, Eq, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct SessionStatus {
    /// Both ends have heard each other.
    pub is_met: bool,
    /// For how long nothing at all is heard of the far end although it owes an answer, if so.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<String>, example = "12s"))]
    pub silent: Option<Span>,
    /// The smoothed round trip, once there was one.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<String>, example = "70us"))]
    pub round_trip: Option<Span>,
    /// Bytes underway.
    pub in_flight_bytes: u64,
    /// The most bytes that may be underway now.
    pub window_bytes: u64,
    /// Frames that were sent and are not known to be taken.
    pub kept: u64,
    /// Frames sent for the first time.
    pub sent: u64,
    /// Large segments that were sent whole.
    pub sent_large: u64,
    /// Frames sent again.
    pub resent: u64,
    /// Packets that were found lost.
    pub lost: u64,
    /// Packets of ours that the fabric marked, as the far end tells (ECN).
    pub marked: u64,
    /// Frames that came again, or too late to tell whether they did.
    pub repeated: u64,
    /// Frames for which there was no memory, each time that they came: they come again.
    pub turned_away: u64,
    /// Bytes that the far end sent and that did not come in time, where it sends nothing again.
    pub missed_bytes: u64,
    /// How often the far end began anew.
    pub resets: u64,
}
