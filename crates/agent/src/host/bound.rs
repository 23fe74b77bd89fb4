//! Ports that are logical networks': what their interfaces have of these, and what decides about
//! their frames.

use std::borrow::Cow;

use binding::{Networks, Refused};
use kernel::random;
use lossless::PortId;
use model::{
    Attachment, Generation, LastRefusal, LogicalPortName, LogicalPortStatus, LogicalSettings,
    NetworkName, PortShare, PortSpec,
};
use units::{Bytes, Class, Instant, Rate};

use super::attached::Attached;
use super::host_plane::HostPlane;
use crate::logical::{AllFacts, Facts, Provided, Rates, network_of};

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
pub fn completed<'a>(all: &AllFacts, spec: &'a PortSpec) -> Cow<'a, PortSpec> {
    let Some(facts) = facts(all, spec) else {
        return Cow::Borrowed(spec);
    };
    let mut spec = spec.clone();
    if let Some(mac) = spec.attach.declared_mac() {
        mac.get_or_insert(facts.mac);
    }
    let mtu = spec.attach.declared_mtu();
    *mtu = mtu.or(facts.mtu.map(u32::from));
    Cow::Owned(spec)
}

fn facts<'a>(all: &'a AllFacts, spec: &PortSpec) -> Option<&'a Facts> {
    all.get(spec.logical.as_ref()?)
}

/// The class of a port's frames: its logical port's, where its declaration has none.
pub fn class(all: &AllFacts, spec: &PortSpec) -> Class {
    let logical = || facts(all, spec).map(|facts| facts.class);
    spec.class.or_else(logical).unwrap_or_default()
}

/// What a port may have of the uplink: as it is declared, or as its logical port's profile says, of
/// which so much is guaranteed here.
pub fn share(all: &AllFacts, spec: &PortSpec, guaranteed: Option<Rate>) -> PortShare {
    match rates(all, spec) {
        Some(rates) => PortShare { min: guaranteed, max: rates.limit, weight: None },
        None => spec.share,
    }
}

/// How much of a port's limit may go at once after a rest, if its logical port's profile says that.
pub fn burst(all: &AllFacts, spec: &PortSpec) -> Option<Bytes> {
    rates(all, spec)?.burst
}

fn rates<'a>(all: &'a AllFacts, spec: &PortSpec) -> Option<&'a Rates> {
    facts(all, spec)?.rates.as_ref()
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
    if let (Attachment::Interface { interface, vlan, .. }, Some(facts)) =
        (&port.spec.attach, facts.get(name))
        && let Some(wanted) = facts.vlan.filter(|wanted| *vlan != Some(*wanted))
    {
        notes.push(format!(
            "logical port {name} stands for VLAN {wanted} of its provider's network, and the port is another of \
             {interface}: declare `vlan = {wanted}`"
        ));
    }
    if let (Attachment::Interface { interface, .. }, Some(provided)) =
        (&port.spec.attach, facts.get(name).and_then(|it| it.provided.as_ref()))
    {
        notes.extend(unprovided(name, interface, provided));
    }
    notes
}

/// That the host's TransportNode does not say of an interface that it leads to the provider's
/// network that a port of it stands for.
fn unprovided(name: &LogicalPortName, interface: &str, provided: &Provided) -> Option<String> {
    let Provided { network, node, interface: wanted } = provided;
    match wanted {
        None => Some(format!(
            "logical port {name} stands for ProviderNetwork/{network}, which is none of the `providers` of \
             TransportNode/{node}: add `{network}: {interface}` there, or have the port at a host that has it"
        )),
        Some(wanted) if wanted != interface => Some(format!(
            "logical port {name} stands for ProviderNetwork/{network}, which TransportNode/{node} has by {wanted}, \
             and the port is {interface}: attach it to {wanted}, or correct `providers` there"
        )),
        Some(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use model::{PortChange, PortName};

    use super::*;

    #[test]
    fn a_port_of_a_provider_network_that_its_host_does_not_list_says_so() {
        let name = "ops/out".parse().unwrap();
        let said = |interface: Option<&str>| {
            let (network, node) = ("campus".parse().unwrap(), "h1".parse().unwrap());
            let provided = Provided { network, node, interface: interface.map(Into::into) };
            unprovided(&name, "eth1", &provided)
        };
        assert_eq!(said(Some("eth1")), None);
        let none = said(None).unwrap();
        assert!(none.contains("TransportNode/h1: add `campus: eth1`"), "{none}");
        let other = said(Some("eth2")).unwrap();
        assert!(other.contains("has by eth2, and the port is eth1"), "{other}");
    }

    /// A declared class goes before that of the logical port, 0 as any other.
    #[test]
    fn a_class_is_declared_or_the_logical_ports() {
        let text = r#"{"name": "web", "attach": {"kind": "vhost-user", "socket": "/run/web"}, "logical": "shop/web"}"#;
        let none: PortSpec = serde_json::from_str(text).unwrap();
        assert_eq!((none.name.clone(), none.class), (PortName("web".into()), None));
        let written = serde_json::to_value(&none).unwrap();
        assert_eq!(written.get("class"), None);
        let mut all = AllFacts::default();
        assert_eq!(class(&all, &none).pcp(), 0);
        let (mac, five) = (units::Mac::local(1), Class::from_low_bits(5));
        let facts = Facts { mac, mtu: None, class: five, rates: None, vlan: None, provided: None };
        all.ports.insert("shop/web".parse().unwrap(), facts);
        assert_eq!(class(&all, &none), five);
        let change = |text: &str| serde_json::from_str::<PortChange>(text);
        let zero = none.changed(&change(r#"{"class": 0}"#).unwrap());
        assert_eq!(class(&all, &zero).pcp(), 0);
        let kept: PortSpec = serde_json::from_value(serde_json::to_value(&zero).unwrap()).unwrap();
        assert_eq!(kept, zero);
        assert_eq!(zero.changed(&change(r#"{"class": "none"}"#).unwrap()), none);
        for wrong in [r#"{"class": 8}"#, r#"{"class": "0"}"#] {
            let error = change(wrong).unwrap_err().to_string();
            assert!(error.contains("a class is 0 to 7, or \"none\""), "{error}");
        }
    }
}
