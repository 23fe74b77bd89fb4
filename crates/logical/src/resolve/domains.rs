//! What a domain may have in it: so many ports and hosts as tenants' quotas say, and each label
//! once.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::format;
use alloc::string::ToString;
use alloc::vec::Vec;

use super::names::Names;
use crate::domains::Domains;
use crate::fault::Fault;
use crate::label::label_of;
use crate::objects::{Identity, Kind, Name, Quota};
use crate::report::Report;
use crate::topology::{Attachment, NodeIndex, Port, Topology};

/// Checks the domains of a topology in which nothing dangles.
pub fn check(topology: &Topology, names: &Names<'_>, faults: &mut Vec<Fault>) {
    let domains = Domains::new(topology);
    sizes(topology, &domains, names, faults);
    labels(topology, &domains, names, faults);
}

/// What a tenant has in a domain.
#[derive(Default)]
struct Size {
    ports: usize,
    hosts: BTreeSet<NodeIndex>,
}

/// A tenant has no more ports in a domain than its quota says, and they are at no more hosts.
fn sizes(topology: &Topology, domains: &Domains<'_>, names: &Names<'_>, faults: &mut Vec<Fault>) {
    let mut sizes: BTreeMap<(&Identity, &Name), Size> = BTreeMap::new();
    for ((identity, place, _), (_, port)) in names.of(Kind::LogicalPort).zip(topology.ports()) {
        let Some(tenant) = &identity.tenant else { continue };
        let Some(Quota { domain_ports, domain_hosts, .. }) =
            names.tenant(tenant).map(|it| it.quota)
        else {
            continue;
        };
        if domain_ports.or(domain_hosts).is_none() {
            continue;
        }
        let size = sizes.entry((domains.of_switch(port.switch), tenant)).or_default();
        size.ports += 1;
        let is_new_host = node_of(topology, port).is_some_and(|node| size.hosts.insert(node));
        let mut say = |message| {
            Report { index: place, object: &identity.to_string(), faults }.say("", message);
        };
        // The first that is too many is told, and not those behind it.
        let is_first = |size: usize, most: &u32| size == *most as usize + 1;
        if let Some(most) = domain_ports.filter(|most| is_first(size.ports, most)) {
            say(format!(
                "tenant `{tenant}` may have {most} ports in one domain by `quota.domainPorts`, and this is one more"
            ));
        }
        let most = domain_hosts.filter(|most| is_new_host && is_first(size.hosts.len(), most));
        if let Some(most) = most {
            say(format!(
                "tenant `{tenant}` may be at {most} hosts in one domain by `quota.domainHosts`, and this is at one more"
            ));
        }
    }
}

/// Where a port is. A child is where its parent is.
fn node_of(topology: &Topology, port: &Port) -> Option<NodeIndex> {
    match port.attachment {
        Attachment::Child { parent, .. } => topology[parent].node,
        _ => port.node,
    }
}

/// No two have one label: hosts would take one for the other.
fn labels(topology: &Topology, domains: &Domains<'_>, names: &Names<'_>, faults: &mut Vec<Fault>) {
    let one = |domain| BTreeSet::from([domain]);
    let of_ports = topology.ports().map(|(_, it)| one(domains.of_switch(it.switch)));
    let of_routers = topology.router_ports().map(|(_, it)| one(domains.of_router(it.router)));
    let of_balancers = topology.balancers().map(|(_, it)| {
        let switches = it.switches.iter().map(|it| domains.of_switch(*it));
        let routers = it.routers.iter().map(|it| domains.of_router(*it));
        switches.chain(routers).collect::<BTreeSet<_>>()
    });
    let ports = names.of(Kind::LogicalPort).zip(of_ports);
    let routers = names.of(Kind::RouterPort).zip(of_routers);
    let balancers = names.of(Kind::LoadBalancer).zip(of_balancers);
    let mut owners: BTreeMap<(u32, &Identity), &Identity> = BTreeMap::new();
    for ((identity, place, object), at) in ports.chain(routers).chain(balancers) {
        let Some(label) = label_of(object) else { continue };
        for domain in at {
            let Some(other) = owners.insert((label, domain), identity) else { continue };
            let message = format!(
                "its name has the same label as that of {other}, so hosts could not tell them apart: give it another name"
            );
            Report { index: place, object: &identity.to_string(), faults }
                .say("/metadata/name", message);
        }
    }
}
