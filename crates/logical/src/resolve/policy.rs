//! Policies: whom they hold for, and what their rules match.

use alloc::collections::BTreeSet;
use alloc::format;
use alloc::vec::Vec;

use super::groups::{self, selected};
use super::names::Names;
use crate::fault::Fault;
use crate::objects::{
    self, Action, AddressRange, Direction, Established, Ethertype, Identity, Kind, Name, Object,
    Reference, ServiceChoice,
};
use crate::report::Report;
use crate::topology::{
    GroupIndex, Match, Peer, Policy, PortIndex, Rule, Service, SetIndex, SwitchIndex, Topology,
    Verdict,
};

/// Makes the policies, in the order in which they decide.
pub fn policies(topology: &mut Topology, names: &Names<'_>, faults: &mut Vec<Fault>) {
    let mut policies = names.each(faults, |id, object, report| match object {
        Object::Policy(it) => Some(policy(id, &it.spec, topology, names, report)),
        _ => None,
    });
    policies
        .sort_by(|a, b| (a.tier, a.level, a.order, &a.id).cmp(&(b.tier, b.level, b.order, &b.id)));
    topology.policies = policies;
}

/// Whom references of one kind or another name.
struct Whom<'a> {
    tenant: Option<&'a Name>,
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
    ) -> BTreeSet<GroupIndex> {
        let mut groups = BTreeSet::new();
        for (i, reference) in references.iter().enumerate() {
            let path = format!("{path}/{i}");
            let found = self.names.find(Kind::PortGroup, self.tenant, reference, path, report);
            groups.extend(found.map(GroupIndex));
        }
        groups
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
    let whom = Whom { tenant, names };
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
    let groups = whom.groups(&applies.groups, "/spec/appliesTo/groups", report);
    ports.extend(groups.iter().flat_map(|group| &topology[*group].ports));
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
    let whom = Whom { tenant, names };
    let mut ports = BTreeSet::new();
    whom.ports(&it.ports, &format!("{path}/ports"), report, &mut ports);
    let mut groups = whom.groups(&it.groups, &format!("{path}/groups"), report);
    groups.extend(it.selector.as_ref().and_then(|it| groups::find(topology, tenant, it)));
    Peer {
        ports,
        groups,
        prefixes: it.prefixes.iter().map(|it| AddressRange::from(*it)).collect(),
        sets: sets(&it.sets, &format!("{path}/sets"), tenant, names, report),
        except: it.except.iter().map(|it| AddressRange::from(*it)).collect(),
    }
}

/// The sets that references name.
pub fn sets(
    references: &[Reference],
    path: &str,
    tenant: Option<&Name>,
    names: &Names<'_>,
    report: &mut Report<'_>,
) -> BTreeSet<SetIndex> {
    let mut find = |(i, reference)| {
        names.find(Kind::AddressSet, tenant, reference, format!("{path}/{i}"), report)
    };
    references.iter().enumerate().filter_map(&mut find).map(SetIndex).collect()
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
