//! What a pump says of itself.

use std::collections::HashMap;
use std::net::IpAddr;

use datapath::Network;
use lossless::{Account, PortId};
use model::{
    AgentStatus, ClassKind, ClassStatus, LedgerStatus, Ledgers, NetworkName, PathStatus, PausedBy, PeerState,
    PeerStatus, PortState, PortStatus,
};
use units::{Class, Instant};

use super::Attached;
use super::device::Device;
use super::gate::HostGate;
use super::plane::Plane;
use super::trunk::Liveness;
use super::watch::Sight;

pub(super) fn agent(plane: &Plane<Device, HostGate>, attached: &[Attached], now: Instant) -> AgentStatus {
    AgentStatus {
        version: String::new(),
        uptime_ns: 0,
        busy_ns: 0,
        udp_gate: plane.gate().status(),
        ports: attached.iter().map(|port| self::port(plane, port, now)).collect(),
        uplink: None,
        ledger: ledger(&plane.switch().total()),
        balanced: plane.switch().audit().is_ok(),
    }
}

pub(super) fn port(plane: &Plane<Device, HostGate>, attached: &Attached, now: Instant) -> PortStatus {
    let Attached { id, spec, lacks, sight, .. } = attached;
    let failure = plane.failure(*id).map(ToString::to_string);
    let seen = sight.iter().flat_map(Sight::notes);
    let device = plane.device(*id).notes();
    let state = state(plane, *id);
    let is_both = state == PortState::Down && plane.switch().stalled(*id);
    let stalled =
        is_both.then(|| "it is stalled as well: what is for it is refused until it takes a frame".into());
    let notes = lacks
        .iter()
        .cloned()
        .chain(device)
        .chain(stalled)
        .chain(seen)
        .chain(plane.gate().notes(*id))
        .chain(failure);
    let switch = plane.switch();
    let (ingress, ingress_bytes) = side(plane, |class| switch.ingress_account(*id, class));
    let (egress, egress_bytes) = side(plane, |class| switch.egress_account(*id, class));
    let (paused, is_paused) = switch.paused(now, *id);
    PortStatus {
        name: spec.name.clone(),
        attach: spec.attach.clone(),
        network: spec.network.clone(),
        label: spec.label,
        state,
        rate: spec.rate,
        egress_limits: spec.egress,
        ingress_limits: spec.ingress,
        class: spec.class,
        quota: spec.quota,
        scheduling: spec.scheduling,
        ingress,
        egress,
        ingress_bytes,
        egress_bytes,
        paused,
        paused_by: is_paused.then(|| match switch.at_quota(*id) {
            true => PausedBy::Egress,
            false => PausedBy::Ingress,
        }),
        held_flows: switch.parked_flows(*id).len() as u32,
        notes: notes.collect(),
    }
}

/// A host that a trunk leads to.
pub(super) fn peer(
    plane: &Plane<Device, HostGate>,
    id: PortId,
    vtep: IpAddr,
    names: &HashMap<Network, &NetworkName>,
    ways: Vec<PathStatus>,
    now: Instant,
) -> PeerStatus {
    let Device::Trunk(trunk) = plane.device(id) else { unreachable!("the port is a trunk") };
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
    let (ingress, ingress_bytes) = side(plane, |class| switch.ingress_account(id, class));
    let (egress, egress_bytes) = side(plane, |class| switch.egress_account(id, class));
    PeerStatus {
        vtep,
        networks: trunk.networks().map(|network| names[&network].clone()).collect(),
        state,
        paths: ways,
        session,
        ingress,
        egress,
        ingress_bytes,
        egress_bytes,
        held_flows: switch.parked_flows(id).len() as u32,
        refused: trunk.refusals(),
    }
}

fn state(plane: &Plane<Device, HostGate>, id: PortId) -> PortState {
    if plane.failure(id).is_some() {
        PortState::Failed
    } else if plane.device(id).is_down() {
        PortState::Down
    } else if plane.switch().stalled(id) {
        PortState::Stalled
    } else {
        PortState::Up
    }
}

/// An account of a port, class by class, and how many bytes it is about.
fn side<'a>(plane: &Plane<Device, HostGate>, account: impl Fn(Class) -> &'a Account) -> (Ledgers, u64) {
    let bytes = Class::all().map(|class| account(class).bytes).sum();
    (ledgers(plane, account), bytes)
}

fn ledgers<'a>(plane: &Plane<Device, HostGate>, account: impl Fn(Class) -> &'a Account) -> Ledgers {
    let mut total = Account::default();
    let mut classes = Vec::new();
    for class in Class::all().filter(|class| account(*class).accepted > 0) {
        total.merge(account(class));
        let kind = match plane.switch().settings().classes.0[class] {
            lossless::ClassKind::Lossless => ClassKind::Lossless,
            lossless::ClassKind::Lossy => ClassKind::Lossy,
        };
        classes.push(ClassStatus { class: class.pcp(), kind, ledger: ledger(account(class)) });
    }
    Ledgers { total: ledger(&total), classes }
}

fn ledger(account: &Account) -> LedgerStatus {
    LedgerStatus {
        accepted: account.accepted,
        delivered: account.delivered,
        refused: account.refusals().map(|(reason, frames)| (reason.name().into(), frames)).collect(),
        held: account.held,
    }
}
