//! The status of a host's tunnels: its own end, and each peer.

use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::vec::Vec;
use core::net::IpAddr;

use serde::{Deserialize, Serialize};
use units::{Rate, Span};

use crate::{Encapsulation, LedgerStatus, Ledgers, NetworkName, PortName, TunnelMode, VtepList};

/// This host's end of its tunnels at one moment. Counters start at 0 with the agent and never
/// decrease.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct UplinkStatus {
    /// This host's own addresses in the underlay.
    pub vtep: VtepList,
    /// The interface that has each of these addresses.
    pub interfaces: Vec<InterfaceStatus>,
    /// How frames are carried.
    pub encapsulation: Encapsulation,
    /// What protects tunnels from others in the underlay; absent if no `key` is declared.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub protection: Option<ProtectionStatus>,
    /// Datagrams received from an address that is no peer's: no network has a member there.
    pub unknown_peers: u64,
    /// Datagrams from peers that are not valid tunnel packets, by reason.
    pub refused: BTreeMap<String, u64>,
    /// Datagrams that the kernel failed to send.
    pub send_errors: u64,
    /// The kernel's error for the last of them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_send_error: Option<String>,
    /// Pause frames at each uplink, if `pfc` is declared.
    pub pause_frames: Vec<PauseFramesStatus>,
    /// What each uplink is given at most, if `rate` is declared.
    pub shaping: Vec<ShapingStatus>,
    /// How networks share the uplinks, if `rate` is declared.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sharing: Option<SharingStatus>,
    /// How what arrives at each uplink is shared, with `grants`.
    #[serde(default)]
    pub downlinks: Vec<DownlinkStatus>,
    /// What the switch's own ARP, ND and path MTU responder did.
    pub responder: ResponderStatus,
    /// The ledgers of frames received from all peers.
    pub ingress: Ledgers,
    /// The ledgers of frames for all peers.
    pub egress: Ledgers,
    /// Every peer, by address.
    pub peers: Vec<PeerStatus>,
    /// Notes for the operator, in sentences.
    pub notes: Vec<String>,
}

/// The interface that has one of this host's tunnel addresses.
#[derive(Clone, Debug, Eq, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct InterfaceStatus {
    /// The tunnel address.
    #[cfg_attr(feature = "openapi", schema(value_type = String, example = "192.0.2.1"))]
    pub vtep: IpAddr,
    /// The interface's name; absent if none has the address.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(example = "eth0"))]
    pub interface: Option<String>,
    /// Whether it is in operation.
    pub state: InterfaceState,
    /// Its longest packet in bytes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mtu: Option<u32>,
    /// Its speed, if it says one.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<String>, example = "10gbit"))]
    pub speed: Option<Rate>,
}

/// Whether an uplink's interface is in operation.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum InterfaceState {
    /// It is.
    Up,
    /// It is set up, and its cable or its far end is not.
    NoCarrier,
    /// It is set down.
    Down,
    /// No interface has the address.
    NoAddress,
}

/// What protects tunnels from others in the underlay.
#[derive(Clone, Debug, Eq, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct ProtectionStatus {
    /// What is done with packets.
    pub mode: TunnelMode,
    /// The fingerprints of the pre-shared keys that are accepted. Handshakes begin with the first.
    #[cfg_attr(feature = "openapi", schema(example = json!(["5f0c2a91"])))]
    pub keys: Vec<String>,
}

/// Pause frames of a link (802.1Qbb, 802.3 annex 31B).
#[derive(Clone, Copy, Debug, Eq, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct PauseFramesStatus {
    /// This host's tunnel address at the link.
    #[cfg_attr(feature = "openapi", schema(value_type = String, example = "192.0.2.1"))]
    pub vtep: IpAddr,
    /// Pause frames received, XON included.
    pub received: u64,
    /// Pause frames sent.
    pub sent: u64,
}

/// How networks share this host's uplinks.
#[derive(Clone, Debug, Eq, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct SharingStatus {
    /// What is promised to all networks together, in bits a second.
    pub promised_bits: u64,
    /// The longest that a frame within its network's guarantee waits for other networks' frames,
    /// but for the one that is being sent.
    #[cfg_attr(feature = "openapi", schema(value_type = String, example = "120us"))]
    pub promised_wait: Span,
    /// How long guarantees did not hold, because the link sent less than they add up to.
    #[cfg_attr(feature = "openapi", schema(value_type = String, example = "0s"))]
    pub short: Span,
    /// The networks that have sent something or have terms, by name.
    pub networks: Vec<NetworkShareStatus>,
}

/// What a network has of this host's uplinks: the terms that are enforced.
#[derive(Clone, Debug, Eq, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct NetworkShareStatus {
    /// The network.
    pub network: NetworkName,
    /// The least rate.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<String>, example = "500mbit"))]
    pub min: Option<Rate>,
    /// The highest.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<String>, example = "2gbit"))]
    pub max: Option<Rate>,
    /// Its part of what guarantees leave.
    pub weight: u16,
    /// Bytes sent, with what tunnels and the link put around frames; without what is sent again.
    pub sent_bytes: u64,
    /// The part of these that was sent within `min`.
    pub guaranteed_bytes: u64,
    /// Bytes sent again, which count against its terms as well.
    #[serde(default)]
    pub resent_bytes: u64,
    /// How long it had frames that the link could have sent.
    #[serde(default)]
    #[cfg_attr(feature = "openapi", schema(value_type = String, example = "1500ms"))]
    pub backlogged: Span,
    /// The part of that in which the link sent other networks' frames instead: what it waited for
    /// others. The rest went by with its own frames, or until its `max` let the next one go.
    #[serde(default)]
    #[cfg_attr(feature = "openapi", schema(value_type = String, example = "120ms"))]
    pub waited: Span,
    /// Bytes that far hosts were granted to send here, with what tunnels and the link put around
    /// frames. 0 where far hosts do not wait for credit.
    #[serde(default)]
    pub granted_bytes: u64,
    /// The part of these that was granted within `min`.
    #[serde(default)]
    pub granted_guaranteed_bytes: u64,
    /// Its ports here, if one of them has a `share`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ports: Vec<PortShareStatus>,
}

/// What a port has of this host's uplinks, within its network's share: the terms that are enforced.
#[derive(Clone, Debug, Eq, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct PortShareStatus {
    /// The port.
    pub port: PortName,
    /// The least rate.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<String>, example = "100mbit"))]
    pub min: Option<Rate>,
    /// The highest.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<String>, example = "500mbit"))]
    pub max: Option<Rate>,
    /// Its part of what guarantees leave of its network's.
    pub weight: u16,
    /// Bytes sent since the network's ports have terms, with what tunnels and the link put around
    /// frames; without what is sent again.
    pub sent_bytes: u64,
    /// The part of these that was sent within `min`.
    pub guaranteed_bytes: u64,
}

/// How credit is granted to far hosts, so that what they send here together fits the uplink's link.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct DownlinkStatus {
    /// This host's tunnel address at the link.
    #[cfg_attr(feature = "openapi", schema(value_type = String, example = "192.0.2.1"))]
    pub vtep: IpAddr,
    /// Whether so much arrives, or so many send, that credit is granted in turn.
    pub is_contended: bool,
    /// How often that began.
    pub contentions: u64,
    /// Credit that was granted and is likely to be used soon, in bytes.
    pub outstanding_bytes: u64,
    /// Streams that use their credit, or wait for more.
    pub active_streams: u32,
    /// Streams that have credit and do not use it: their senders send less than they might.
    pub resting_streams: u32,
    /// How long it takes from a grant until what is sent by it arrives.
    #[cfg_attr(feature = "openapi", schema(value_type = String, example = "120us"))]
    pub round_trip: Span,
}

/// What an uplink's link is given at most, so that nothing waits below the switch.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct ShapingStatus {
    /// This host's tunnel address at the link.
    #[cfg_attr(feature = "openapi", schema(value_type = String, example = "192.0.2.1"))]
    pub vtep: IpAddr,
    /// The rate that is kept: 0.99 of the declared one.
    #[cfg_attr(feature = "openapi", schema(value_type = String, example = "9900mbit"))]
    pub rate: Rate,
    /// Bytes sent, as the link counts them: with check sequence, preamble and gap.
    pub sent_bytes: u64,
}

/// The responder answers ARP and neighbor discovery for machines on other hosts, and packets that
/// exceed the tunnel's MTU (ICMP).
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct ResponderStatus {
    /// Replies that machines have received.
    pub replies: u64,
    /// Replies not sent: the port exceeded its rate (RFC 4443 §2.4 (f)), or had not received
    /// earlier replies yet.
    pub rate_limited: u64,
}

/// A host that a tunnel leads to. Counters start at 0 when the peer is declared and never decrease.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct PeerStatus {
    /// Its tunnel address; the first, if it has several.
    #[cfg_attr(feature = "openapi", schema(value_type = String, example = "192.0.2.2"))]
    pub vtep: IpAddr,
    /// The networks that have members on both hosts.
    pub networks: Vec<NetworkName>,
    /// Whether frames are sent to the peer.
    pub state: PeerState,
    /// The paths to the peer, one for each uplink that both hosts have.
    pub paths: Vec<PathStatus>,
    /// The channel that seals packets; absent if no `key` is declared.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub channel: Option<ChannelStatus>,
    /// The session; absent where neither `retransmit` nor `credit` is declared.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub session: Option<SessionStatus>,
    /// The ledger of frames received from the peer.
    pub ingress: LedgerStatus,
    /// The ledger of frames for the peer. A frame is delivered once its far receiver has consumed
    /// it; where nothing is retransmitted, once it is sent.
    pub egress: LedgerStatus,
    /// Bytes received.
    pub ingress_bytes: u64,
    /// Bytes sent.
    pub egress_bytes: u64,
    /// Flows that wait for credit.
    pub held_flows: u32,
    /// Packets and frames from the peer that were not accepted, by reason. Classes that are
    /// retransmitted are not counted here when memory is short: see `nacked`.
    pub refused: BTreeMap<String, u64>,
}

/// The channel to a peer: docs/protocol.md, "Sealed packets".
#[derive(Clone, Debug, Eq, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct ChannelStatus {
    /// Whether there are keys, by which packets are sealed.
    pub is_open: bool,
    /// The fingerprint of the pre-shared key that they come from.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(example = "5f0c2a91"))]
    pub pre_shared_key: Option<String>,
    /// The time since they are in use.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<String>, example = "12s"))]
    pub since: Option<Span>,
    /// How many handshakes gave keys.
    pub handshakes: u64,
}

/// Whether frames are sent to a peer.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "lowercase")]
pub enum PeerState {
    /// Frames are sent.
    Up,
    /// A handshake, of the channel or the session, is not complete in both directions: frames wait.
    Handshake,
    /// BFD reports every path down: frames wait.
    Down,
    /// The peer has consumed nothing for `stall_after`: frames for it are refused until it does.
    Stalled,
}

impl PeerState {
    /// All states.
    pub const ALL: [Self; 4] = [Self::Up, Self::Handshake, Self::Down, Self::Stalled];

    /// Its name in JSON and metrics.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Up => "up",
            Self::Handshake => "handshake",
            Self::Down => "down",
            Self::Stalled => "stalled",
        }
    }
}

/// A path to a peer: from one tunnel address of this host to one of the peer's.
#[derive(Clone, Debug, Eq, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct PathStatus {
    /// This host's tunnel address.
    #[cfg_attr(feature = "openapi", schema(value_type = String, example = "192.0.2.1"))]
    pub local: IpAddr,
    /// The peer's tunnel address.
    #[cfg_attr(feature = "openapi", schema(value_type = String, example = "192.0.2.2"))]
    pub remote: IpAddr,
    /// Whether frames are sent on this path. A session uses one path at a time; frames without a
    /// session use all paths that are up.
    pub is_active: bool,
    /// The path's BFD session, if there is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bfd: Option<BfdStatus>,
    /// How large segments are sent on this path: as of the last one, if there was one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub large_segments: Option<LargeSegments>,
}

/// How large segments are sent on a path.
#[derive(Clone, Debug, Eq, PartialEq, Serialize, Deserialize)]
#[serde(tag = "mode", rename_all = "snake_case")]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub enum LargeSegments {
    /// Uncut to the peer, which is on this machine.
    Whole,
    /// Uncut to the network card, which cuts them (LSO).
    Nic,
    /// In parts that fill datagrams.
    Parts {
        /// Why.
        reason: String,
    },
}

/// A path's BFD session (RFC 5880).
#[derive(Clone, Debug, Eq, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct BfdStatus {
    /// Its state.
    pub state: BfdState,
    /// The reason of its last change of state: RFC 5880 §4.1 (Diag).
    pub diagnostic: String,
    /// The diagnostic that the peer sent last.
    pub remote_diagnostic: String,
    /// The time since its last change of state.
    #[cfg_attr(feature = "openapi", schema(value_type = String, example = "12s"))]
    pub since: Span,
}

/// The state of a BFD session (RFC 5880 §6.2).
#[derive(Clone, Copy, Debug, Eq, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum BfdState {
    /// Both ends receive each other's packets.
    Up,
    /// This end receives packets; the peer may not.
    Init,
    /// Nothing is received.
    Down,
    /// Its operator has disabled it.
    AdminDown,
}

/// A session with a peer: docs/protocol.md.
#[derive(Clone, Debug, Eq, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct SessionStatus {
    /// The handshake is complete in both directions.
    pub is_established: bool,
    /// The time since the peer was last heard, while it owes an answer; absent otherwise.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<String>, example = "12s"))]
    pub unresponsive: Option<Span>,
    /// The smoothed round-trip time (RFC 6298); absent before the first sample.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<String>, example = "70us"))]
    pub rtt: Option<Span>,
    /// Bytes sent and neither acknowledged nor found lost.
    pub in_flight_bytes: u64,
    /// The congestion windows of all networks that have sent something there: the limit of
    /// `in_flight_bytes`.
    pub congestion_window_bytes: u64,
    /// Frames sent and not yet known to be consumed by their receivers.
    pub outstanding: u64,
    /// Frames sent for the first time.
    pub sent: u64,
    /// Large segments sent whole.
    pub sent_large: u64,
    /// Frames retransmitted.
    pub retransmitted: u64,
    /// Packets found lost.
    pub lost: u64,
    /// Packets sent that the fabric marked (ECN), as the peer reports.
    pub ecn_marked: u64,
    /// Frames received more than once, or too late to tell.
    pub duplicates: u64,
    /// Frames received while memory was short, and answered by a NACK. Each arrival counts.
    pub nacked: u64,
    /// Bytes of classes without retransmission that did not arrive in time.
    pub unrecovered_bytes: u64,
    /// How often the peer began a new incarnation.
    pub resets: u64,
    /// How often this end began one because a stream of the peer contradicted itself: somebody
    /// forges packets.
    pub contradictions: u64,
}
