//! What a domain may have in it: so many ports and hosts as tenants' quotas say.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::format;
use alloc::string::ToString;
use alloc::vec::Vec;

use super::names::Names;
use crate::domains::Domains;
use crate::fault::Fault;
use crate::objects::{Identity, Kind, Name, Quota};
use crate::report::Report;
use crate::topology::{Attachment, NodeIndex, Port, Topology};

/// What a tenant has in a domain.
#[derive(Default)]
struct Size {
    ports: usize,
    hosts: BTreeSet<NodeIndex>,
}

/// Checks the domains of a topology in which nothing dangles: a tenant has no more ports in one
/// than its quota says, and they are at no more hosts.
pub fn check(topology: &Topology, names: &Names<'_>, faults: &mut Vec<Fault>) {
    let domains = Domains::new(topology);
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
