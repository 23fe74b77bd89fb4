//! The state of ports, as the API and metrics report it.

use std::cmp::Reverse;
use std::net::SocketAddr;

use datapath::Flap;
use lossless::{Aside, Books, PortId};
use model::{
    HeldSocket, NetworkName, NetworkStatus, PausedBy, PortName, PortSpec, PortState, PortStatus,
    ThreadUse,
};
use units::Instant;

use super::attached::Attached;
use super::bound;
use super::guarantees::Guarantees;
use super::host_plane::HostPlane;
use super::watch::Sight;
use crate::logical::AllFacts;

/// The state of a port.
pub(super) fn port(
    plane: &HostPlane,
    attached: &Attached,
    now: Instant,
    facts: &AllFacts,
    guarantees: &Guarantees,
    name_of: impl Fn(PortId) -> PortName,
) -> PortStatus {
    let Attached { id, spec, mtu, mac, lacks, sight, away, .. } = attached;
    let failure = plane.failure(*id).map(ToString::to_string);
    let seen = sight.iter().flat_map(Sight::notes);
    let device = plane.device(*id).notes();
    let state = state(plane, attached);
    let is_both = state == PortState::Down && plane.switch().stalled(*id);
    let stalled = is_both
        .then(|| "it is stalled as well: what is for it is refused until it takes a frame".into());
    let notes = away
        .iter()
        .chain(lacks)
        .cloned()
        .chain(beyond_tunnels(plane, spec, *mtu))
        .chain(bound::notes(plane, attached, facts))
        .chain(guarantees.notes(attached, facts))
        .chain(device)
        .chain(stalled)
        .chain(seen)
        .chain(flaps(plane, *id, now, name_of))
        .chain(plane.gate().notes(*id))
        .chain(failure);
    let switch = plane.switch();
    let (ingress, ingress_bytes) = plane.ingress_ledgers(*id);
    let (egress, egress_bytes) = plane.egress_ledgers(*id);
    let (paused, is_paused) = switch.paused(now, *id);
    PortStatus {
        name: spec.name.clone(),
        attach: spec.attach.clone(),
        mtu: *mtu,
        mac: *mac,
        network: spec.network.clone(),
        label: spec.label,
        logical: spec.logical.clone(),
        logical_state: bound::status(plane, *id, now),
        state,
        rate: spec.rate,
        send_rate: spec.send_rate,
        egress_limits: spec.egress,
        ingress_limits: spec.ingress,
        class: bound::class(facts, spec),
        declared_class: spec.class,
        quota: spec.quota,
        scheduling: spec.scheduling,
        storm: spec.storm,
        share: bound::share(facts, spec, guarantees.of_port(*id)),
        pinned: spec.pinned.clone(),
        antispoof: spec.antispoof,
        ingress,
        egress,
        ingress_bytes,
        egress_bytes,
        paused,
        paused_by: is_paused.then(|| match switch.at_quota(*id) {
            true => PausedBy::Egress,
            false => PausedBy::Ingress,
        }),
        vlan: spec.vlan.clone(),
        moved_addresses: plane.datapath().moves(*id),
        held_flows: switch.flows(*id).len() as u32,
        stalled_flows: stalled_sockets(plane, *id).count() as u32,
        held_sockets: held_sockets(plane, *id, now),
        udp_sockets: plane.gate().sockets(*id),
        missed: sight.as_ref().and_then(Sight::missed),
        notes: notes.collect(),
    }
}

/// What a network's ports have done, how much memory its frames from other hosts take up, and what
/// it has had of the thread.
pub fn network(
    name: &NetworkName,
    books: Books,
    memory_bytes: u64,
    thread: ThreadUse,
) -> NetworkStatus {
    let Books { ports, ingress, egress, paused } = books;
    NetworkStatus {
        name: name.clone(),
        ports,
        ingress: plane::ledger(&ingress),
        egress: plane::ledger(&egress),
        ingress_bytes: ingress.bytes,
        egress_bytes: egress.bytes,
        paused,
        memory_bytes,
        thread,
    }
}

/// What becomes of packets that are longer than tunnels carry, if the port's machine may send such.
pub fn beyond_tunnels(plane: &HostPlane, spec: &PortSpec, mtu: u32) -> Option<String> {
    let tunnels = plane.peers().filter(|_| spec.network.is_some())?;
    let carried = tunnels.inner_mtu();
    let otherwise = match tunnels.joins_parts() {
        true => "others go in parts",
        false => "of others, only IPv4's that may be fragmented are carried",
    };
    (u32::from(carried) < mtu).then(|| {
        format!(
            "its `mtu` of {mtu} is more than the {carried} that tunnels carry whole: who sends longer packets with \"don't fragment\", or of IPv6, is told; {otherwise}"
        )
    })
}

/// The addresses that move to and fro between a port and another, or are seen at one and declared
/// of the other, in sentences.
fn flaps(
    plane: &HostPlane,
    id: PortId,
    now: Instant,
    name_of: impl Fn(PortId) -> PortName,
) -> impl Iterator<Item = String> {
    let flaps = plane.datapath().flaps(now).filter(move |flap| flap.ports.contains(&id));
    flaps.map(move |Flap { mac, ports: [last, before], is_pinned, moves, .. }| {
        let other = name_of(if *last == id { *before } else { *last });
        let what = match (*is_pinned, *last == id) {
            (false, _) => format!("moves to and fro between this port and `{other}`"),
            (true, true) => format!("is the address of `{other}` and comes by this port, too"),
            (true, false) => format!("is this port's address and comes by `{other}`, too"),
        };
        format!(
            "{mac} {what}, {moves} times so far: a loop behind them, or two machines with one address"
        )
    })
}

/// How many held sockets a status names.
const MOST_SOCKETS: usize = 16;

/// The sockets behind a port that frames wait for, or that are stalled.
fn held_sockets(plane: &HostPlane, id: PortId, now: Instant) -> Vec<HeldSocket> {
    let (gate, switch) = (plane.gate(), plane.switch());
    let aside = switch.aside(id).filter_map(|Aside { flow, frames, since }| {
        let silent = Some(now.since(since));
        Some(HeldSocket { socket: gate.socket(id, flow)?, held: frames, silent, stalled: false })
    });
    let stalled = stalled_sockets(plane, id).map(|socket| HeldSocket {
        socket,
        held: 0,
        silent: None,
        stalled: true,
    });
    let mut sockets: Vec<_> = aside.chain(stalled).collect();
    sockets.sort_by_key(|socket| (Reverse(socket.held), socket.socket));
    sockets.truncate(MOST_SOCKETS);
    sockets
}

/// The stalled sockets behind a port: of those that the switch remembers, the ones that are still
/// there, and were not read since. What the switch remembers of others ends with the next frame.
pub fn stalled_sockets(plane: &HostPlane, id: PortId) -> impl Iterator<Item = SocketAddr> {
    let gate = plane.gate();
    plane.switch().stalled_flows(id).filter_map(move |flow| gate.full_socket(id, flow))
}

/// Why a port is as it is, in a line.
pub fn why(plane: &HostPlane, Attached { id, sight, away, .. }: &Attached) -> String {
    let failure = plane.failure(*id).map(ToString::to_string);
    let seen = sight.iter().flat_map(Sight::notes);
    let device = plane.device(*id).notes();
    let all: Vec<_> = away.iter().cloned().chain(failure).chain(device).chain(seen).collect();
    all.join("; ")
}

/// The state of a port.
pub fn state(plane: &HostPlane, attached: &Attached) -> PortState {
    let Attached { id, away, sight, .. } = attached;
    let is_down = || plane.device(*id).is_down() || sight.as_ref().is_some_and(Sight::is_down);
    if away.is_some() {
        PortState::Down
    } else if plane.failure(*id).is_some() {
        PortState::Failed
    } else if is_down() {
        PortState::Down
    } else if plane.switch().stalled(*id) {
        PortState::Stalled
    } else {
        PortState::Up
    }
}
