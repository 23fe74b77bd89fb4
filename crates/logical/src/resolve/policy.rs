//! Policies: whom they hold for, and what their rules match.

use alloc::collections::BTreeSet;
use alloc::format;
use alloc::string::ToString;
use alloc::vec::Vec;

use super::names::Names;
use crate::fault::Fault;
use crate::objects::{
    self, Action, AddressRange, Direction, Established, Ethertype, Identity, Kind, Name, Object,
    PortGroup, Reference, Selector, ServiceChoice,
};
use crate::report::Report;
use crate::topology::{
    Match, Peer, Policy, Port, PortIndex, Rule, Service, SwitchIndex, Topology, Verdict,
};

/// How deep groups may be within groups.
const DEEPEST: usize = 8;

/// Makes the policies, in the order in which they decide.
pub fn policies(topology: &mut Topology, names: &Names<'_>, faults: &mut Vec<Fault>) {
    check_groups(names, faults);
    let mut policies = names.each(faults, |id, object, report| match object {
        Object::Policy(it) => Some(policy(id, &it.spec, topology, names, report)),
        _ => None,
    });
    policies
        .sort_by(|a, b| (a.tier, a.level, a.order, &a.id).cmp(&(b.tier, b.level, b.order, &b.id)));
    topology.policies = policies;
}

/// Groups refer to groups that there are, never in a circle, and not too deep.
fn check_groups(names: &Names<'_>, faults: &mut Vec<Fault>) {
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
fn selected(
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

/// Whom references of one kind or another name.
struct Whom<'a> {
    tenant: Option<&'a Name>,
    topology: &'a Topology,
    names: &'a Names<'a>,
}

impl Whom<'_> {
    fn ports(
        &self,
        references: &[Reference],
        path: &str,
        report: &mut Report<'_>,
        ports: &mut BTreeSet<PortIndex>,
    ) {
        for (i, reference) in references.iter().enumerate() {
            let path = format!("{path}/{i}");
            let found = self.names.find(Kind::LogicalPort, self.tenant, reference, path, report);
            ports.extend(found.map(PortIndex));
        }
    }

    fn groups(
        &self,
        references: &[Reference],
        path: &str,
        report: &mut Report<'_>,
        ports: &mut BTreeSet<PortIndex>,
    ) {
        for (i, reference) in references.iter().enumerate() {
            let path = format!("{path}/{i}");
            let found = self.names.object(Kind::PortGroup, self.tenant, reference, path, report);
            if let Some(Object::PortGroup(group)) = found {
                let tenant = group.metadata.tenant.as_ref();
                members(tenant, &group.spec, self.topology, self.names, 0, ports);
            }
        }
    }
}

fn policy(
    id: Identity,
    it: &objects::Policy,
    topology: &Topology,
    names: &Names<'_>,
    report: &mut Report<'_>,
) -> Policy {
    let tenant = id.tenant.as_ref();
    let whom = Whom { tenant, topology, names };
    let applies = &it.applies_to;
    let mut ports = BTreeSet::new();
    whom.ports(&applies.ports, "/spec/appliesTo/ports", report, &mut ports);
    for (i, port) in applies.ports.iter().enumerate() {
        let path = format!("/spec/appliesTo/ports/{i}");
        let found = names.object(Kind::LogicalPort, tenant, port, &path, report);
        if let Some(Object::LogicalPort(found)) = found
            && (found.spec.router.is_some() || found.spec.provider.is_some())
        {
            report.say(path, "policies hold for machines' ports alone: name one");
        }
    }
    whom.groups(&applies.groups, "/spec/appliesTo/groups", report, &mut ports);
    for (i, switch) in applies.switches.iter().enumerate() {
        let path = format!("/spec/appliesTo/switches/{i}");
        let found = names.find(Kind::LogicalSwitch, tenant, switch, path, report).map(SwitchIndex);
        let of_switch = topology.ports().filter(|(_, port)| Some(port.switch) == found);
        ports.extend(of_switch.map(|(index, _)| index));
    }
    if let Some(selector) = &applies.selector {
        ports.extend(selected(selector, tenant, topology));
    }
    ports.retain(|port| topology[*port].is_machine());
    let isolates = match (&it.default_action, it.directions.as_slice()) {
        (None, _) => BTreeSet::new(),
        (Some(_), []) => BTreeSet::from([Direction::FromPort, Direction::ToPort]),
        (Some(_), directions) => directions.iter().copied().collect(),
    };
    let rules = it.rules.iter().enumerate();
    let mut rules: Vec<_> =
        rules.map(|(i, one)| rule(i, one, tenant, topology, names, report)).collect();
    rules.sort_by_key(|rule| core::cmp::Reverse(rule.priority));
    Policy {
        tier: it.tier,
        level: it.level,
        order: it.order,
        ports,
        persist: it.established == Established::Persist,
        isolates,
        rules,
        id,
    }
}

fn rule(
    i: usize,
    it: &objects::Rule,
    tenant: Option<&Name>,
    topology: &Topology,
    names: &Names<'_>,
    report: &mut Report<'_>,
) -> Rule {
    let path = format!("/spec/rules/{i}");
    let other = it.peer.as_ref();
    let other = other.map(|it| peer(it, &format!("{path}/peer"), tenant, topology, names, report));
    let (source, destination) = match it.direction {
        Direction::FromPort => (None, other),
        Direction::ToPort => (other, None),
    };
    let services = services(&it.services, &path, tenant, names, report);
    let own = Match {
        ethertype: it.ethertype,
        source_macs: Vec::new(),
        destination_macs: Vec::new(),
        source,
        destination,
        services,
    };
    let mut conditions = alloc::vec![own];
    if let Some(more) = &it.matches {
        let path = format!("{path}/match");
        conditions.push(matches(more, &path, tenant, topology, names, report));
    }
    if let Some(meter) = it.log.as_ref().and_then(|log| log.meter.as_ref()) {
        names.named(Kind::Meter, meter, format!("{path}/log/meter"), report);
    }
    // Connections are IP's.
    let is_other =
        |it: &Match| it.ethertype.is_some_and(|it| ![Ethertype::IP4, Ethertype::IP6].contains(&it));
    let stateful = it.stateful.unwrap_or(!conditions.iter().any(is_other));
    let verdict = match it.action {
        Action::Allow => Verdict::Allow { stateful },
        Action::Drop => Verdict::Drop,
        Action::Reject => Verdict::Reject,
        Action::Pass => Verdict::Pass,
    };
    let by_order = u16::MAX - u16::try_from(i).unwrap_or(u16::MAX);
    Rule {
        name: it.name.clone(),
        direction: it.direction,
        verdict,
        priority: it.priority.unwrap_or(by_order),
        conditions,
        log: it.log.clone(),
        sample: it.sample,
    }
}

/// What has to hold of a packet.
pub fn matches(
    it: &objects::Match,
    path: &str,
    tenant: Option<&Name>,
    topology: &Topology,
    names: &Names<'_>,
    report: &mut Report<'_>,
) -> Match {
    let mut end = |name: &str, end: &Option<objects::Peer>| {
        let path = format!("{path}/{name}");
        end.as_ref().map(|it| peer(it, &path, tenant, topology, names, report))
    };
    let (source, destination) = (end("source", &it.source), end("destination", &it.destination));
    Match {
        ethertype: it.ethertype,
        source_macs: it.source_macs.clone(),
        destination_macs: it.destination_macs.clone(),
        source,
        destination,
        services: services(&it.services, path, tenant, names, report),
    }
}

fn peer(
    it: &objects::Peer,
    path: &str,
    tenant: Option<&Name>,
    topology: &Topology,
    names: &Names<'_>,
    report: &mut Report<'_>,
) -> Peer {
    let whom = Whom { tenant, topology, names };
    let mut ports = BTreeSet::new();
    whom.ports(&it.ports, &format!("{path}/ports"), report, &mut ports);
    whom.groups(&it.groups, &format!("{path}/groups"), report, &mut ports);
    if let Some(selector) = &it.selector {
        ports.extend(selected(selector, tenant, topology));
    }
    let mut addresses: Vec<_> = it.prefixes.iter().map(|it| AddressRange::from(*it)).collect();
    addresses.extend(sets(&it.sets, &format!("{path}/sets"), tenant, names, report));
    let except = it.except.iter().map(|it| AddressRange::from(*it)).collect();
    Peer { ports, addresses, except }
}

/// The addresses of sets.
pub fn sets(
    references: &[Reference],
    path: &str,
    tenant: Option<&Name>,
    names: &Names<'_>,
    report: &mut Report<'_>,
) -> Vec<AddressRange> {
    let mut all = Vec::new();
    for (i, reference) in references.iter().enumerate() {
        let path = format!("{path}/{i}");
        let found = names.object(Kind::AddressSet, tenant, reference, path, report);
        if let Some(Object::AddressSet(set)) = found {
            all.extend(&set.spec.addresses);
        }
    }
    all
}

fn services(
    choices: &[ServiceChoice],
    path: &str,
    tenant: Option<&Name>,
    names: &Names<'_>,
    report: &mut Report<'_>,
) -> Vec<Service> {
    let mut all = Vec::new();
    for (i, choice) in choices.iter().enumerate() {
        match choice {
            ServiceChoice::Inline(it) => all.push(Service {
                protocol: it.protocol,
                ports: it.ports.clone(),
                source_ports: it.source_ports.clone(),
                icmp_type: it.icmp_type,
                icmp_code: it.icmp_code,
            }),
            ServiceChoice::Named(reference) => {
                let path = format!("{path}/services/{i}");
                let found = names.object(Kind::Service, tenant, reference, path, report);
                if let Some(Object::Service(it)) = found {
                    all.push(Service {
                        protocol: it.spec.protocol,
                        ports: it.spec.ports.clone(),
                        source_ports: it.spec.source_ports.clone(),
                        icmp_type: None,
                        icmp_code: None,
                    });
                }
            }
        }
    }
    all
}
