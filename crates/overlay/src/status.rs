//! The state of peers, as the API and metrics report it.

use lossless::{PortId, Switch};
use model::{LargeSegments, NetworkName, PathStatus, PeerState, PeerStatus, SessionStatus};
use port::Slot;
use units::{Instant, Span};

use crate::link::Link;
use crate::trunk::{Liveness, Trunk};

/// The state of a far host that shares these networks. Its port of the switch is the uplink, and it
/// is stalled if it takes nothing for `patience`.
pub(crate) fn peer(
    trunk: &Trunk,
    links: &[Link],
    (switch, uplink): (&Switch<Slot>, PortId),
    networks: Vec<NetworkName>,
    now: Instant,
    patience: Span,
) -> PeerStatus {
    let session = trunk.session_status(now);
    let state = state(trunk, session.as_ref(), now, patience);
    let peer = trunk.owner().peer;
    let account = switch.group_account(uplink, peer.index() as u32);
    let (ingress, ingress_bytes) = trunk.ingress();
    PeerStatus {
        vtep: trunk.host(),
        networks,
        state,
        paths: paths(trunk, links, now),
        channel: trunk.channel_status(now),
        session,
        ingress,
        egress: account.map(plane::ledger).unwrap_or_default(),
        ingress_bytes,
        egress_bytes: account.map_or(0, |account| account.bytes),
        held_flows: trunk.held_flows().filter(|flow| switch.is_parked(uplink, *flow)).count()
            as u32,
        refused: trunk.refusals(),
    }
}

/// The state of a far host, whose session has this status.
pub(crate) fn state(
    trunk: &Trunk,
    session: Option<&SessionStatus>,
    now: Instant,
    patience: Span,
) -> PeerState {
    if trunk.is_stalled(now, patience) {
        PeerState::Stalled
    } else if trunk.liveness() == Liveness::Down {
        PeerState::Down
    } else if !trunk.is_channel_open() || session.is_some_and(|session| !session.is_established) {
        PeerState::Handshake
    } else {
        PeerState::Up
    }
}

/// The state of each path to a far host.
fn paths(trunk: &Trunk, links: &[Link], now: Instant) -> Vec<PathStatus> {
    let status = |(link, (remote, is_active)): (&Link, _)| {
        let bfd = link.monitor().status(remote);
        let parts = trunk.parts_because(now).filter(|_| is_active);
        let parts = parts.map(|why| LargeSegments::Parts { reason: why.into() });
        let large_segments = parts.or_else(|| link.large_segments(remote));
        PathStatus { local: link.vtep(), remote, is_active, bfd, large_segments }
    };
    links.iter().zip(trunk.paths()).map(status).collect()
}
