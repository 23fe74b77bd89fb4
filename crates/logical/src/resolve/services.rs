//! Names, load balancers, nodes and the outside.

use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::ToString;
use alloc::vec::Vec;

use super::names::Names;
use crate::fault::Fault;
use crate::objects::{DnsZone, Identity, Kind, LoadBalancer, Object, TransportNode};
use crate::report::Report;
use crate::topology::{
    Backend, Balancer, NodeIndex, PortIndex, Record, RouterIndex, SwitchIndex, Topology, Zone,
};

/// The names of a zone.
pub fn zone(id: Identity, it: &DnsZone) -> Zone {
    let name = |name: &str| name.trim_end_matches('.').to_ascii_lowercase();
    let record = |value: &str| match value.parse() {
        Ok(address) => Record::Address(address),
        Err(_) => Record::Name(name(value)),
    };
    let records = it
        .records
        .iter()
        .map(|(key, values)| (name(key), values.iter().map(|value| record(value)).collect()));
    Zone { id, records: records.collect(), ttl: it.ttl.unwrap_or(60), forward: it.forward }
}

pub fn node(it: &TransportNode, names: &Names<'_>, report: &mut Report<'_>) {
    for network in it.providers.keys() {
        let path = format!("/spec/providers/{network}");
        names.named(Kind::ProviderNetwork, network, path, report);
    }
}

/// Checks what only the operator's objects refer to.
pub fn outside(kind: Kind, names: &Names<'_>, faults: &mut Vec<Fault>) {
    for (identity, place, object) in names.of(kind) {
        let name = identity.to_string();
        let mut report = Report { index: place, object: &name, faults };
        match object {
            Object::ExternalPool(it) => {
                let it = &it.spec;
                names.all(Kind::Tenant, &it.tenants, "/spec/tenants", &mut report);
                for (kind, field, name) in [
                    (Kind::ProviderNetwork, "provider", &it.provider),
                    (Kind::Gateway, "gateway", &it.gateway),
                ] {
                    let path = format!("/spec/{field}");
                    name.iter().for_each(|name| {
                        names.named(kind, name, &path, &mut report);
                    });
                }
            }
            Object::ProviderNetwork(it) => {
                names.all(Kind::Tenant, &it.spec.shared_with, "/spec/sharedWith", &mut report);
            }
            Object::Gateway(it) => {
                for (i, node) in it.spec.nodes.iter().enumerate() {
                    let path = format!("/spec/nodes/{i}/node");
                    names.named(Kind::TransportNode, &node.node, path, &mut report);
                }
            }
            _ => {}
        }
    }
}

/// Says of each port where it is. A port has one binding.
pub fn bind(topology: &mut Topology, names: &Names<'_>, faults: &mut Vec<Fault>) {
    let mut bound: BTreeMap<u32, Identity> = BTreeMap::new();
    for (identity, place, object) in names.of(Kind::Binding) {
        let Object::Binding(it) = object else { continue };
        let name = identity.to_string();
        let mut report = Report { index: place, object: &name, faults };
        let to = it.spec.migration.as_ref();
        if let Some(to) = to {
            names.named(Kind::TransportNode, &to.to, "/spec/migration/to", &mut report);
        }
        let node = names.named(Kind::TransportNode, &it.spec.node, "/spec/node", &mut report);
        if it.spec.port.tenant.is_none() {
            continue;
        }
        let port = names.find(Kind::LogicalPort, None, &it.spec.port, "/spec/port", &mut report);
        let (Some(node), Some(port)) = (node, port) else { continue };
        if let Some(other) = bound.insert(port, identity.clone()) {
            report.say("/spec/port", format!("{other} says where it is already: keep one"));
        }
        let port = &mut topology.ports[port as usize];
        if !port.nodes.is_empty() && !port.nodes.contains(&NodeIndex(node)) {
            let message = format!("{} may not be there: its `node` does not list it", port.id);
            report.say("/spec/node", message);
        }
        port.node = Some(NodeIndex(node));
    }
}

/// Makes the load balancers. Ports and routers are known by now.
pub fn balancers(topology: &mut Topology, names: &Names<'_>, faults: &mut Vec<Fault>) {
    let made = names.each(faults, |id, object, report| match object {
        Object::LoadBalancer(it) => Some(balancer(id, &it.spec, topology, names, report)),
        _ => None,
    });
    topology.balancers = made;
}

fn balancer(
    id: Identity,
    it: &LoadBalancer,
    topology: &Topology,
    names: &Names<'_>,
    report: &mut Report<'_>,
) -> Balancer {
    let tenant = id.tenant.as_ref();
    let mut backends = Vec::new();
    for (i, backend) in it.backends.iter().enumerate() {
        let path = format!("/spec/backends/{i}/logicalPort");
        let reference = backend.logical_port.as_ref();
        let port = reference.and_then(|reference| {
            names.find(Kind::LogicalPort, tenant, reference, &path, report).map(PortIndex)
        });
        let own = port.and_then(|port| {
            let mut addresses = topology[port].addresses.iter();
            addresses.find(|address| address.is_ipv4() == it.vip.is_ipv4()).copied()
        });
        if port.is_some() && own.is_none() {
            report.say(
                &path,
                format!("it has no address of the family of {}: add one there", it.vip),
            );
        }
        let Some(address) = backend.ip.or(own) else { continue };
        let weight = backend.weight.unwrap_or(1);
        backends.push(Backend { logical_port: port, address, port: backend.port, weight });
    }
    let (mut switches, mut routers) = (Vec::new(), Vec::new());
    for (i, attachment) in it.attach.iter().enumerate() {
        if let Some(switch) = &attachment.switch {
            let path = format!("/spec/attach/{i}/switch");
            let found = names.find(Kind::LogicalSwitch, tenant, switch, path, report);
            switches.extend(found.map(SwitchIndex));
        }
        if let Some(router) = &attachment.router {
            let path = format!("/spec/attach/{i}/router");
            let found = names.find(Kind::LogicalRouter, tenant, router, path, report);
            routers.extend(found.map(RouterIndex));
        }
    }
    Balancer {
        vip: it.vip,
        port: it.port,
        protocol: it.protocol,
        backends,
        affinity: it.affinity,
        reject: it.reject,
        health_check: it.health_check,
        switches,
        routers,
        hairpin_snat: it.hairpin_snat,
        id,
    }
}
