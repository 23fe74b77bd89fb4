//! Checks objects together and makes a topology of them.
//!
//! ```text
//! objects ─check─▶ each by itself
//!         ─names─▶ what each name leads to ─▶ switches, ports ─▶ routers ─▶ groups ─▶ policies ─▶ Topology
//!         ─domains─▶ what is connected: its size, its labels
//! ```
//!
//! Objects of a kind are in the order of their tenants and names, whatever order they were declared
//! in. While there is a fault, an index may lead to nothing; no topology is made then.

mod domains;
mod groups;
mod names;
mod network;
mod policy;
mod router;
mod services;

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::format;
use alloc::string::ToString;
use alloc::vec::Vec;

use crate::check::check;
use crate::fault::Fault;
use crate::objects::{Identity, Kind, Object};
use crate::report::Report;
use crate::topology::{NamedMeter, Node, Profile, Qos, Set, TenantTerms, Topology};
use names::Names;
pub use network::allowed;
pub use services::zone;

/// Checks objects together: the topology that they declare, or all that is wrong.
pub fn resolve<'a>(objects: impl IntoIterator<Item = &'a Object>) -> Result<Topology, Vec<Fault>> {
    resolve_among(&objects.into_iter().collect::<Vec<_>>(), &BTreeSet::new())
}

/// Checks objects together. References to what is broken are no faults of theirs.
pub fn resolve_among(
    objects: &[&Object],
    broken: &BTreeSet<Identity>,
) -> Result<Topology, Vec<Fault>> {
    let mut faults = Vec::new();
    let mut first: BTreeMap<Identity, usize> = BTreeMap::new();
    for (index, object) in objects.iter().enumerate() {
        let identity = object.identity();
        let name = identity.to_string();
        let mut report = Report { index, object: &name, faults: &mut faults };
        if first.contains_key(&identity) {
            report.say("/metadata/name", format!("{name} is declared already: keep one"));
        }
        check(object, &mut report);
        first.entry(identity).or_insert(index);
    }
    let names = Names::new(objects, &first, broken);
    names.check_tenants(&mut faults);

    let mut topology = Topology {
        meters: names.each(&mut faults, |id, object, _| match object {
            Object::Meter(it) => Some(NamedMeter { id, meter: it.spec }),
            _ => None,
        }),
        nodes: names.each(&mut faults, |id, object, report| match object {
            Object::TransportNode(it) => {
                services::node(&it.spec, &names, report);
                Some(Node { id, node: it.spec.clone() })
            }
            _ => None,
        }),
        qos_profiles: names.each(&mut faults, |id, object, _| match object {
            Object::QosProfile(it) => Some(Qos { id, profile: it.spec }),
            _ => None,
        }),
        profiles: names.each(&mut faults, |id, object, _| match object {
            Object::DhcpProfile(it) => {
                Some(Profile { id, v4: it.spec.v4.clone(), v6: it.spec.v6.clone() })
            }
            _ => None,
        }),
        zones: names.each(&mut faults, |id, object, _| match object {
            Object::DnsZone(it) => Some(services::zone(id, &it.spec)),
            _ => None,
        }),
        sets: names.each(&mut faults, |id, object, _| match object {
            Object::AddressSet(it) => Some(Set { id, addresses: it.spec.addresses.clone() }),
            _ => None,
        }),
        terms: names
            .each(&mut faults, |id, object, _| match object {
                Object::Tenant(it) => Some((id.name, TenantTerms::declared(&it.spec)?)),
                _ => None,
            })
            .into_iter()
            .collect(),
        ..Topology::default()
    };
    network::switches_and_ports(&mut topology, &names, &mut faults);
    router::routers(&mut topology, &names, &mut faults);
    network::check_switches(&topology, &names, &mut faults);
    groups::groups(&mut topology, &names, &mut faults);
    policy::policies(&mut topology, &names, &mut faults);
    router::match_packets(&mut topology, &names, &mut faults);
    services::balancers(&mut topology, &names, &mut faults);
    services::bind(&mut topology, &names, &mut faults);
    for kind in [Kind::ExternalPool, Kind::ProviderNetwork, Kind::Gateway] {
        services::outside(kind, &names, &mut faults);
    }
    // Who is connected to whom is known once every name leads somewhere.
    if faults.is_empty() && broken.is_empty() {
        domains::check(&topology, &names, &mut faults);
    }
    if faults.is_empty() {
        return Ok(topology);
    }
    faults.sort_by(|a, b| (a.index, &a.path).cmp(&(b.index, &b.path)));
    faults.dedup();
    Err(faults)
}

#[cfg(test)]
mod tests;
