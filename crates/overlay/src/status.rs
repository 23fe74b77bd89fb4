//! The state of peers, as the API and metrics report it.

use std::collections::HashMap;
use std::net::IpAddr;

use datapath::Network;
use lossless::PortId;
use model::{LargeSegments, NetworkName, PathStatus, PeerState, PeerStatus};
use plane::{Gate, Plane, Responder};
use port::Port;
use units::Instant;

use crate::link::Link;
use crate::trunk::{Liveness, Trunk};

/// The state of the far host behind a port.
pub(crate) fn peer<P: Port, R: Responder, G: Gate>(
    plane: &Plane<P, Trunk, R, G>,
    links: &[Link],
    id: PortId,
    vtep: IpAddr,
    names: &HashMap<Network, &NetworkName>,
    now: Instant,
) -> PeerStatus {
    let trunk = plane.peer(id);
    let switch = plane.switch();
    let session = trunk.session_status(now);
    let state = if switch.stalled(id) {
        PeerState::Stalled
    } else if trunk.liveness() == Liveness::Down {
        PeerState::Down
    } else if session.as_ref().is_some_and(|session| !session.is_established) {
        PeerState::Handshake
    } else {
        PeerState::Up
    };
    let (ingress, ingress_bytes) = plane.ingress_ledgers(id);
    let (egress, egress_bytes) = plane.egress_ledgers(id);
    PeerStatus {
        vtep,
        networks: trunk.networks().map(|network| names[&network].clone()).collect(),
        state,
        paths: paths(trunk, links, now),
        session,
        ingress,
        egress,
        ingress_bytes,
        egress_bytes,
        held_flows: switch.flows(id).len() as u32,
        refused: trunk.refusals(),
    }
}

/// The state of each path to a far host.
fn paths(trunk: &Trunk, links: &[Link], now: Instant) -> Vec<PathStatus> {
    let status = |(link, (remote, is_active)): (&Link, _)| {
        let bfd = link.monitor().status(now, remote);
        let parts = trunk.parts_because(now).filter(|_| is_active);
        let parts = parts.map(|why| LargeSegments::Parts { reason: why.into() });
        let large_segments = parts.or_else(|| link.large_segments(remote));
        PathStatus { local: link.vtep(), remote, is_active, bfd, large_segments }
    };
    links.iter().zip(trunk.paths()).map(status).collect()
}
