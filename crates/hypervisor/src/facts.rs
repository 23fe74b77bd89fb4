//! Objects as the tuples that rules begin with.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use image::{Group, Target};
use logical::Object;
use logical::objects::{
    AddressRange, Identity, Kind, LogicalPort, LogicalRouter, MacChoice, Metadata, Name, Policy,
    PortGroup, Reference, RoutePolicyAction, RouterPort, Selector,
};
use logical::topology::TenantTerms;
use nlog::{Batch, Engine, TableId};
use units::{Mac, Prefix, hash};

use crate::speech::Speech;
use crate::text;

/// The flags of routes.
pub const SYMMETRIC: u64 = 1;
pub const MONITORED: u64 = 2;

/// A value of a tuple.
pub enum Word {
    Text(String),
    Number(u64),
}

impl From<&Identity> for Word {
    fn from(id: &Identity) -> Self {
        Self::Text(text::name(id))
    }
}

impl From<Identity> for Word {
    fn from(id: Identity) -> Self {
        Self::from(&id)
    }
}

impl From<String> for Word {
    fn from(text: String) -> Self {
        Self::Text(text)
    }
}

impl From<&str> for Word {
    fn from(text: &str) -> Self {
        Self::Text(text.to_string())
    }
}

impl From<u64> for Word {
    fn from(number: u64) -> Self {
        Self::Number(number)
    }
}

/// The tables of the rules, by name.
pub struct Tables(BTreeMap<String, TableId>);

impl Tables {
    pub fn of(engine: &Engine) -> Self {
        Self(engine.tables().map(|table| (engine.name(table).to_string(), table)).collect())
    }

    pub fn get(&self, name: &str) -> TableId {
        *self.0.get(name).unwrap_or_else(|| panic!("the rules have no table {name}"))
    }
}

/// Writes objects into a batch.
pub struct Writer<'a> {
    pub engine: &'a mut Engine,
    pub tables: &'a Tables,
    pub batch: &'a mut Batch,
    /// Whether what is said comes; else it goes.
    pub comes: bool,
}

impl Writer<'_> {
    pub fn say<const N: usize>(&mut self, table: &str, words: [Word; N]) {
        let values = self.engine.values_mut();
        let tuple = words.map(|word| match word {
            Word::Text(text) => values.text(&text),
            Word::Number(number) => values.int(number),
        });
        let table = self.tables.get(table);
        match self.comes {
            true => self.batch.insert(table, &tuple),
            false => self.batch.delete(table, &tuple),
        }
    }

    /// Says that one object is in the place of another. Long lists say only what differs.
    pub fn edit(&mut self, before: Option<(&Object, u64)>, after: Option<(&Object, u64)>) {
        for (version, comes) in [(before, false), (after, true)] {
            self.comes = comes;
            version.iter().for_each(|(object, version)| self.object(object, *version));
        }
        let [before, after] = [before, after].map(|it| it.map(|(object, _)| object));
        let Some(any) = after.or(before) else { return };
        let id = any.identity();
        let tenant = id.tenant.as_ref();
        let [old, new] = [before, after].map(|it| match it {
            Some(Object::PortGroup(it)) => &it.spec.ports[..],
            _ => &[],
        });
        for (port, comes) in differing(old, new) {
            self.comes = comes;
            let port = text::meant(Kind::LogicalPort, tenant, port);
            self.say("group_port", [(&id).into(), port.into()]);
        }
        let [old, new] = [before, after].map(|it| match it {
            Some(Object::AddressSet(it)) => &it.spec.addresses[..],
            _ => &[],
        });
        for (range, comes) in differing(old, new) {
            self.comes = comes;
            self.say("address", [(&id).into(), range.to_string().into()]);
        }
    }

    fn object(&mut self, object: &Object, version: u64) {
        let id = &object.identity();
        let tenant = id.tenant.as_ref();
        match object {
            Object::Tenant(it) => {
                let connections = it.spec.quota.connections_per_port;
                let connections = connections.map_or(0, |it| u64::from(it) + 1);
                self.say("quota", [id.name.as_str().into(), connections.into()]);
                if TenantTerms::declared(&it.spec).is_some() {
                    self.say("terms", [id.name.as_str().into(), id.into(), version.into()]);
                }
            }
            Object::LogicalSwitch(it) => {
                let mtu = u64::from(it.spec.mtu.unwrap_or(0));
                self.say("switch", [id.into(), version.into(), mtu.into()]);
                self.each("switch_zone", id, Kind::DnsZone, &it.spec.dns);
                if let Some(qos) = &it.spec.qos {
                    let [own, operators] = text::either(Kind::QosProfile, tenant, qos);
                    self.say("switch_names_qos", [id.into(), own.into(), operators.into()]);
                }
            }
            Object::LogicalPort(it) => self.port(id, &it.metadata, &it.spec, version),
            Object::LogicalRouter(it) => self.router(id, &it.spec, version),
            Object::RouterPort(it) => self.router_port(id, &it.spec, version),
            Object::Nat(it) => {
                self.say("nat", [id.into(), version.into()]);
                let router = text::meant(Kind::LogicalRouter, tenant, &it.spec.router);
                self.say("speaks_at", [id.into(), router.into()]);
            }
            Object::Policy(it) => self.policy(id, &it.spec, version),
            Object::PortGroup(it) => self.group(id, &it.spec),
            Object::AddressSet(_) => self.say("set", [id.into()]),
            Object::LoadBalancer(it) => {
                self.say("balancer", [id.into(), version.into()]);
                let ports = it.spec.backends.iter().filter_map(|it| it.logical_port.as_ref());
                self.each("balancer_port", id, Kind::LogicalPort, ports);
                let places = it.spec.attach.iter();
                let switches = places.clone().filter_map(|it| it.switch.as_ref());
                self.each("balancer_at", id, Kind::LogicalSwitch, switches);
                let routers = places.filter_map(|it| it.router.as_ref());
                self.each("balancer_at", id, Kind::LogicalRouter, routers);
            }
            Object::Service(_) => self.say("service", [id.into(), version.into()]),
            Object::DhcpProfile(_) => self.say("profile", [id.into(), version.into()]),
            Object::DnsZone(_) => self.say("zone", [id.into(), version.into()]),
            Object::QosProfile(_) => self.say("qos", [id.into(), version.into()]),
            Object::Meter(_) => self.say("meter", [id.into(), version.into()]),
            // Rows do not depend on these.
            Object::ExternalPool(_)
            | Object::TransportNode(_)
            | Object::ProviderNetwork(_)
            | Object::Gateway(_)
            | Object::Binding(_) => {}
        }
        self.speech(id, object);
    }

    /// Says of each that references mean that it has to do with an object.
    fn each<'r>(
        &mut self,
        table: &str,
        id: &Identity,
        kind: Kind,
        references: impl IntoIterator<Item = &'r Reference>,
    ) {
        let references = references.into_iter();
        let meant: BTreeSet<_> =
            references.map(|it| text::meant(kind, id.tenant.as_ref(), it)).collect();
        meant.into_iter().for_each(|other| self.say(table, [id.into(), other.into()]));
    }

    fn port(&mut self, id: &Identity, metadata: &Metadata, it: &LogicalPort, version: u64) {
        let tenant = id.tenant.as_ref();
        let switch = text::meant(Kind::LogicalSwitch, tenant, &it.switch);
        let addresses = if it.router.is_some() { &[][..] } else { &it.addresses };
        self.say(
            "port",
            [
                id.into(),
                (&switch).into(),
                version.into(),
                text::tenant_name(tenant).into(),
                text::addresses(addresses).into(),
            ],
        );
        if let Some(to) = &it.router {
            let to = text::meant(Kind::RouterPort, tenant, &to.router_port);
            self.say("stands", [id.into(), to.into()]);
        }
        match it.mac {
            MacChoice::Fixed(mac) => {
                let mac = mac.to_string();
                self.say("claim", [id.into(), switch.into(), mac.clone().into(), mac.into()]);
            }
            MacChoice::Dynamic if it.router.is_none() => {
                let mac = Mac::local(hash::fnv1a_32(id.to_string().as_bytes()));
                let mac = mac.to_string();
                self.say("claim", [id.into(), switch.into(), mac.into(), id.into()]);
            }
            MacChoice::Dynamic => {}
        }
        if let Some(qos) = &it.qos {
            let [own, operators] = text::either(Kind::QosProfile, tenant, qos);
            self.say("port_names_qos", [id.into(), own.into(), operators.into()]);
        }
        self.each("port_profile", id, Kind::DhcpProfile, it.dhcp4.iter().chain(&it.dhcp6));
        if it.router.is_none() && it.provider.is_none() && it.l2gateway.is_none() {
            self.say("machine", [id.into(), text::labels(&metadata.labels).into()]);
            let tenant = text::tenant_name(tenant);
            for (key, value) in &metadata.labels {
                let label = text::label(key, value);
                self.say("port_label", [tenant.into(), label.into(), id.into()]);
            }
        }
    }

    fn router(&mut self, id: &Identity, it: &LogicalRouter, version: u64) {
        self.say("router", [id.into(), id.into(), version.into()]);
        self.say("speaks_at", [id.into(), id.into()]);
        let tenant = id.tenant.as_ref();
        let (mut hops, mut discards) = (BTreeSet::new(), BTreeSet::new());
        for route in &it.routes {
            let [prefix, source] = [Some(route.prefix), route.source].map(|it| it.map(network));
            let prefix = prefix.expect("the prefix was given");
            let destination = text::destination(prefix, source, route.distance.unwrap_or(1));
            let is_monitored = route.monitor.is_some_and(|it| it.bfd);
            let flags = if is_monitored { MONITORED } else { 0 };
            if route.discard {
                let target = text::target(&Target::Discard { reject: route.reject });
                discards.insert((destination, target, flags));
                continue;
            }
            let flags = if route.symmetric { flags | SYMMETRIC } else { flags };
            let one = route.next_hop.map(|address| (address, route.via.as_ref()));
            let several = route.ecmp.iter().map(|it| (it.next_hop, it.via.as_ref()));
            let all = one.into_iter().chain(several.filter(|_| one.is_none()));
            for (address, via) in all {
                let via = via.map(|it| text::name(&text::meant(Kind::RouterPort, tenant, it)));
                hops.insert((destination.clone(), address, via.unwrap_or_default(), flags));
            }
        }
        for (destination, target, flags) in discards {
            self.say("discard", [id.into(), destination.into(), target.into(), flags.into()]);
        }
        for (destination, address, via, flags) in hops {
            let address = address.to_string();
            self.say(
                "hop",
                [id.into(), destination.into(), address.into(), via.into(), flags.into()],
            );
        }
        let reroutes = it.policies.iter().filter_map(|policy| match &policy.action {
            RoutePolicyAction::Reroute(it) => Some(&it.next_hops),
            _ => None,
        });
        let near = reroutes.flatten().filter(|hop| hop.via.is_none());
        let near: BTreeSet<_> = near.map(|hop| hop.next_hop).collect();
        for address in near {
            self.say("policy_hop", [id.into(), address.to_string().into()]);
        }
    }

    fn router_port(&mut self, id: &Identity, it: &RouterPort, version: u64) {
        let router = text::meant(Kind::LogicalRouter, id.tenant.as_ref(), &it.router);
        let mac = it.mac.to_string();
        self.say("router_port", [id.into(), (&router).into(), version.into(), mac.into()]);
        let prefixes: BTreeSet<_> = it.addresses.iter().map(|it| network(*it)).collect();
        for prefix in prefixes {
            self.say("network", [id.into(), (&router).into(), prefix.to_string().into()]);
            if it.enabled {
                let destination = text::destination(prefix, None, 0);
                let target = text::target(&Target::Connected { out: id.clone() });
                self.say("connected", [(&router).into(), destination.into(), target.into()]);
            }
        }
    }

    fn policy(&mut self, id: &Identity, it: &Policy, version: u64) {
        self.say("policy", [id.into(), version.into()]);
        let to = &it.applies_to;
        self.each("policy_port", id, Kind::LogicalPort, &to.ports);
        self.each("policy_group", id, Kind::PortGroup, &to.groups);
        self.each("policy_switch", id, Kind::LogicalSwitch, &to.switches);
        if let Some(selector) = &to.selector {
            let [tenant, selector, label] = selection(id.tenant.as_ref(), selector);
            self.say("policy_selector", [id.into(), tenant, selector, label]);
        }
    }

    fn group(&mut self, id: &Identity, it: &PortGroup) {
        self.each("group_group", id, Kind::PortGroup, &it.include);
        if let Some(selector) = &it.selector {
            let [tenant, selector, label] = selection(id.tenant.as_ref(), selector);
            self.say("group_selector", [id.into(), tenant, selector, label]);
        }
    }

    fn speech(&mut self, id: &Identity, object: &Object) {
        let speech = Speech::of(object);
        for group in &speech.groups {
            let name = text::group(group);
            match group {
                Group::Port(port) => {
                    self.say("speaks_port", [id.into(), name.into(), port.into()]);
                }
                Group::Named(_) => self.say("speaks_group", [id.into(), name.into()]),
                Group::Selected { tenant, selector } => {
                    let [tenant, selector, label] = selection(tenant.as_ref(), selector);
                    let tuple = [id.into(), name.into(), tenant, selector, label];
                    self.say("speaks_selector", tuple);
                }
            }
        }
        for [own, operators] in &speech.sets {
            self.say("speaks_set", [id.into(), own.into(), operators.into()]);
        }
        for service in &speech.services {
            self.say("speaks_service", [id.into(), service.into()]);
        }
        for meter in &speech.meters {
            self.say("speaks_meter", [id.into(), meter.into()]);
        }
    }
}

/// Whose ports, which, and one label that all of them have.
fn selection(tenant: Option<&Name>, selector: &Selector) -> [Word; 3] {
    [
        text::tenant_name(tenant).into(),
        text::selector(selector).into(),
        text::asked(selector).into(),
    ]
}

/// A network by its first address.
fn network(prefix: Prefix) -> Prefix {
    Prefix { address: AddressRange::from(prefix).first(), length: prefix.length }
}

/// What one of two lists has and the other has not, each once, with whether it comes. Lists that
/// are alike but for a few places cost little more than a comparison.
fn differing<'a, T: Ord>(before: &'a [T], after: &'a [T]) -> Vec<(&'a T, bool)> {
    let pairs = before.iter().zip(after);
    let start = pairs.take_while(|(old, new)| old == new).count();
    let (common, old, new) = (&before[..start], &before[start..], &after[start..]);
    let pairs = old.iter().rev().zip(new.iter().rev());
    let end = pairs.take_while(|(old, new)| old == new).count();
    let (old, tail) = old.split_at(old.len() - end);
    let new = &new[..new.len() - end];
    let [old, new]: [BTreeSet<&T>; 2] = [old, new].map(|it| it.iter().collect());
    let mut differ: BTreeMap<&T, bool> = BTreeMap::new();
    differ.extend(old.difference(&new).map(|it| (*it, false)));
    differ.extend(new.difference(&old).map(|it| (*it, true)));
    if !differ.is_empty() {
        common.iter().chain(tail).for_each(|it| {
            differ.remove(it);
        });
    }
    differ.into_iter().collect()
}

/// What a port of a switch leads to, if that is a router's port: that one, and the switch.
pub fn stand(object: &Object) -> Option<(Identity, Identity)> {
    let Object::LogicalPort(it) = object else { return None };
    let tenant = it.metadata.tenant.as_ref();
    let to = text::meant(Kind::RouterPort, tenant, &it.spec.router.as_ref()?.router_port);
    Some((to, text::meant(Kind::LogicalSwitch, tenant, &it.spec.switch)))
}

/// A router port's router, and its peer.
pub fn ends(object: &Object) -> Option<(Identity, Option<Identity>)> {
    let Object::RouterPort(it) = object else { return None };
    let tenant = it.metadata.tenant.as_ref();
    let peer = it.spec.peer.as_ref().map(|it| text::meant(Kind::RouterPort, tenant, it));
    Some((text::meant(Kind::LogicalRouter, tenant, &it.spec.router), peer))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn what_differs_leads_from_one_list_to_the_other(
            before in proptest::collection::vec(0..6, 0..8),
            after in proptest::collection::vec(0..6, 0..8),
        ) {
            let mut set: BTreeSet<_> = before.iter().collect();
            for (it, comes) in differing(&before, &after) {
                let is_change = if comes { set.insert(it) } else { set.remove(it) };
                prop_assert!(is_change);
            }
            prop_assert_eq!(set, after.iter().collect());
        }
    }
}
