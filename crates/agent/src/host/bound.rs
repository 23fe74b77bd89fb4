//! Ports that are logical networks': what their interfaces have of these, and what decides about
//! their frames.

use std::borrow::Cow;

use binding::{Networks, Refused};
use kernel::random;
use lossless::PortId;
use model::{
    Attachment, Generation, LastRefusal, LogicalPortName, LogicalPortStatus, LogicalSettings,
    NetworkName, PortSpec,
};
use units::Instant;

use super::attached::Attached;
use super::host_plane::HostPlane;
use crate::logical::{AllFacts, network_of};

/// The most logical ports that a host keeps connections of: its own, and children of those.
const ZONES: u32 = 16_384;

/// The most tenants that a host keeps connections of.
const TENANTS: u32 = 16_384;

/// What a host has for logical networks.
#[derive(Clone, Copy, Debug)]
pub struct Room {
    /// The most connections.
    pub connections: u32,
    /// The most flows.
    pub flows: u32,
}

impl From<&LogicalSettings> for Room {
    fn from(settings: &LogicalSettings) -> Self {
        Self { connections: settings.connections, flows: settings.flows }
    }
}

/// Memory for so much, and no networks yet. That takes a while: it is not made on the switch's
/// thread while frames flow.
pub fn memory(room: Room, now: Instant) -> Networks {
    let connections = conntrack::Settings {
        connections: room.connections,
        zones: ZONES,
        tenants: TENANTS,
        timeouts: conntrack::Timeouts::default(),
        key: [random::number(), random::number()],
    };
    let secret = [random::number(), random::number()];
    Networks::new(&binding::Settings { connections, flows: room.flows, secret }, now)
}

/// The network in the switch whose books a port's frames are in: its own, or that of all ports of
/// logical networks of its tenant. No declared network has such a name.
pub fn owner(spec: &PortSpec) -> Option<NetworkName> {
    let tenant = || spec.logical.as_ref().map(LogicalPortName::tenant);
    spec.network.clone().or_else(|| Some(network_of(tenant()?)))
}

/// A declaration with what the interface has of its logical port, where it does not say otherwise.
pub fn completed<'a>(facts: &AllFacts, spec: &'a PortSpec) -> Cow<'a, PortSpec> {
    let Some(facts) = spec.logical.as_ref().and_then(|name| facts.get(name)) else {
        return Cow::Borrowed(spec);
    };
    let mut spec = spec.clone();
    let (Attachment::Container { mac, mtu, .. } | Attachment::VhostUser { mac, mtu, .. }) =
        &mut spec.attach;
    mac.get_or_insert(facts.mac);
    *mtu = mtu.or(facts.mtu.map(u32::from));
    Cow::Owned(spec)
}

/// What a port is to its logical network, if it is in one.
pub fn status(plane: &HostPlane, id: PortId, now: Instant) -> Option<LogicalPortStatus> {
    let networks = plane.logical()?;
    let (_, is_realized) = networks.name(id)?;
    let refused = networks.refused(id).map(|(why, count)| (why.name().to_owned(), count));
    Some(LogicalPortStatus {
        realized: is_realized.then(|| Generation(networks.generation())),
        refused: refused.collect(),
        taken: networks.taken(id),
        last_refusals: networks.refusals(id).rev().map(|it| told(it, now)).collect(),
    })
}

/// A refusal, as the API has it.
fn told(it: &Refused, now: Instant) -> LastRefusal {
    LastRefusal {
        ago: now.since(it.at),
        reason: it.reason.name().into(),
        at: it.object.as_ref().map(ToString::to_string),
        by: it.by.as_ref().map(ToString::to_string),
        flow: it.flow.as_ref().map(ToString::to_string),
        generation: Generation(it.generation),
    }
}

/// What is in the way of a logical port, in sentences.
pub fn notes(plane: &HostPlane, port: &Attached, facts: &AllFacts) -> Vec<String> {
    let Some(name) = &port.spec.logical else { return Vec::new() };
    let logical = plane.logical().and_then(|it| it.name(port.id));
    let is_realized = logical.is_some_and(|(_, is_realized)| is_realized);
    let mut notes = Vec::new();
    if !is_realized {
        notes.push(format!(
            "no logical network here has the machine's port {name}: nothing goes to it or comes from it; `zovn apply -f` \
             one that has it"
        ));
    }
    if let (Attachment::Container { .. }, Some(facts)) = (&port.spec.attach, facts.get(name))
        && let Some(mac) = port.mac.filter(|mac| *mac != facts.mac)
    {
        notes.push(format!(
            "its interface has {mac}, and logical port {name} has {}: what it sends is refused as spoofed; attach the \
             port anew",
            facts.mac
        ));
    }
    notes
}
