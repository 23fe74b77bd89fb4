//! Groups of ports: by name, by other groups, and by labels.

use alloc::collections::BTreeSet;
use alloc::format;
use alloc::string::ToString;
use alloc::vec::Vec;

use super::names::Names;
use crate::fault::Fault;
use crate::objects::{Identity, Kind, Match, Name, Object, Peer, PortGroup, Reference, Selector};
use crate::report::Report;
use crate::topology::{Group, GroupIndex, GroupName, Port, PortIndex, Topology};

/// How deep groups may be within groups.
const DEEPEST: usize = 8;

/// Makes the groups: those that are declared in their order, then those that conditions select.
pub fn groups(topology: &mut Topology, names: &Names<'_>, faults: &mut Vec<Fault>) {
    check(names, faults);
    let mut all = names.each(faults, |id, object, _| match object {
        Object::PortGroup(it) => {
            let mut ports = BTreeSet::new();
            members(id.tenant.as_ref(), &it.spec, topology, names, 0, &mut ports);
            Some(Group { name: GroupName::Named(id), ports })
        }
        _ => None,
    });
    let mut selections = BTreeSet::new();
    names.each(faults, |id, object, _| {
        let tenant = &id.tenant;
        let name =
            |it: &Selector| GroupName::Selected { tenant: tenant.clone(), selector: it.clone() };
        selections
            .extend(peers(object).into_iter().filter_map(|it| it.selector.as_ref()).map(name));
        None::<()>
    });
    all.extend(selections.into_iter().map(|name| {
        let ports = match &name {
            GroupName::Selected { tenant, selector } => {
                selected(selector, tenant.as_ref(), topology)
            }
            GroupName::Named(_) => BTreeSet::new(),
        };
        Group { name, ports }
    }));
    topology.groups = all;
}

/// The peers that an object's conditions speak of.
fn peers(object: &Object) -> Vec<&Peer> {
    match object {
        Object::Policy(it) => {
            let rules = &it.spec.rules;
            let own = rules.iter().filter_map(|rule| rule.peer.as_ref());
            let more = rules.iter().filter_map(|rule| rule.matches.as_deref()).flat_map(ends);
            own.chain(more.flatten()).collect()
        }
        Object::LogicalRouter(it) => {
            it.spec.policies.iter().map(|it| &it.matches).flat_map(ends).flatten().collect()
        }
        Object::Nat(it) => {
            it.spec.matches.as_deref().into_iter().flat_map(ends).flatten().collect()
        }
        _ => Vec::new(),
    }
}

fn ends(it: &Match) -> [Option<&Peer>; 2] {
    [it.source.as_ref(), it.destination.as_ref()]
}

/// The group of the ports that a tenant's condition selects.
pub fn find(topology: &Topology, tenant: Option<&Name>, selector: &Selector) -> Option<GroupIndex> {
    let name = GroupName::Selected { tenant: tenant.cloned(), selector: selector.clone() };
    let place = topology.groups.binary_search_by(|group| group.name.cmp(&name)).ok()?;
    Some(GroupIndex(u32::try_from(place).ok()?))
}

/// Groups refer to groups that there are, never in a circle, and not too deep.
fn check(names: &Names<'_>, faults: &mut Vec<Fault>) {
    for (identity, place, object) in names.of(Kind::PortGroup) {
        let Object::PortGroup(it) = object else { continue };
        let name = identity.to_string();
        let mut report = Report { index: place, object: &name, faults };
        let tenant = identity.tenant.as_ref();
        for (i, port) in it.spec.ports.iter().enumerate() {
            names.find(Kind::LogicalPort, tenant, port, format!("/spec/ports/{i}"), &mut report);
        }
        for (i, include) in it.spec.include.iter().enumerate() {
            let path = format!("/spec/include/{i}");
            let Some(Object::PortGroup(next)) =
                names.object(Kind::PortGroup, tenant, include, &path, &mut report)
            else {
                continue;
            };
            let mut way = alloc::vec![identity.clone()];
            match fall(
                next.metadata.tenant.as_ref(),
                &next.metadata.name,
                &next.spec,
                names,
                &mut way,
            ) {
                Fall::Ground => {}
                Fall::Circle => {
                    let way: Vec<_> = way.iter().map(|it| it.name.as_str()).collect();
                    let message = format!(
                        "the group is within itself, {} → {}: take one of these steps out",
                        way.join(" → "),
                        identity.name
                    );
                    report.say(path, message);
                }
                Fall::Deep => {
                    let message =
                        format!("groups are more than {DEEPEST} deep here: name ports instead");
                    report.say(path, message);
                }
            }
        }
    }
}

/// What following a group's groups comes to.
enum Fall {
    Ground,
    /// Back to the first group of the way.
    Circle,
    Deep,
}

/// Follows a group's groups. `way` is where it came from; after a circle, all of the circle.
fn fall(
    tenant: Option<&Name>,
    name: &Name,
    group: &PortGroup,
    names: &Names<'_>,
    way: &mut Vec<Identity>,
) -> Fall {
    let own = Identity { kind: Kind::PortGroup, tenant: tenant.cloned(), name: name.clone() };
    if way[0] == own {
        return Fall::Circle;
    }
    // Another group's circle: that group is told of it.
    if way.contains(&own) {
        return Fall::Ground;
    }
    if way.len() == DEEPEST {
        return Fall::Deep;
    }
    way.push(own);
    for include in &group.include {
        let found = quietly(names, tenant, include);
        let Some(Object::PortGroup(next)) = found else { continue };
        let (tenant, name) = (next.metadata.tenant.as_ref(), &next.metadata.name);
        match fall(tenant, name, &next.spec, names, way) {
            Fall::Ground => {}
            end => return end,
        }
    }
    way.pop();
    Fall::Ground
}

/// What a group refers to, without telling of what is not there.
fn quietly<'a>(
    names: &Names<'a>,
    tenant: Option<&Name>,
    reference: &Reference,
) -> Option<&'a Object> {
    let mut told = Vec::new();
    let mut report = Report { index: 0, object: "", faults: &mut told };
    names.object(Kind::PortGroup, tenant, reference, "", &mut report)
}

/// The ports of a group, and of the groups in it.
fn members(
    tenant: Option<&Name>,
    group: &PortGroup,
    topology: &Topology,
    names: &Names<'_>,
    depth: usize,
    ports: &mut BTreeSet<PortIndex>,
) {
    let mut told = Vec::new();
    let mut report = Report { index: 0, object: "", faults: &mut told };
    let own = group.ports.iter();
    ports.extend(own.filter_map(|port| {
        names.find(Kind::LogicalPort, tenant, port, "", &mut report).map(PortIndex)
    }));
    if let Some(selector) = &group.selector {
        ports.extend(selected(selector, tenant, topology));
    }
    for include in group.include.iter().filter(|_| depth < DEEPEST) {
        if let Some(Object::PortGroup(next)) = quietly(names, tenant, include) {
            let tenant = next.metadata.tenant.as_ref();
            members(tenant, &next.spec, topology, names, depth + 1, ports);
        }
    }
}

/// Machines' ports by their labels: a tenant's, or all tenants' for the operator.
pub fn selected(
    selector: &Selector,
    tenant: Option<&Name>,
    topology: &Topology,
) -> BTreeSet<PortIndex> {
    let is_meant = |port: &Port| {
        let own = tenant.is_none() || port.id.tenant.as_ref() == tenant;
        own && port.is_machine() && selector.selects(&port.labels)
    };
    topology.ports().filter(|(_, port)| is_meant(port)).map(|(index, _)| index).collect()
}
