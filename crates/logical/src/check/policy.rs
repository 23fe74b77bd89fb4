//! Policies, rules, and what they speak of.

use alloc::format;

use crate::objects::{
    Action, AllowDrop, Ethertype, Match, Operator, Peer, Policy, PortGroup, PortRange, Protocol,
    Rule, Selector, ServiceChoice,
};
use crate::report::Report;

pub fn policy(it: &Policy, report: &mut Report<'_>) {
    report.within("/spec/level", it.level, 0..=3);
    report.within("/spec/order", it.order, 0..=1000);
    report.most("/spec/rules", &it.rules, 1000);
    let names = it.rules.iter().enumerate();
    report.once(names.map(|(i, it)| (format!("/spec/rules/{i}/name"), &it.name)));
    let applies = &it.applies_to;
    let nobody =
        applies.ports.is_empty() && applies.groups.is_empty() && applies.switches.is_empty();
    if nobody && applies.selector.is_none() {
        let message = "it holds for nobody: add ports, groups, switches, or a selector";
        report.say("/spec/appliesTo", message);
    }
    if let Some(one) = &applies.selector {
        selector(one, "/spec/appliesTo/selector", report);
    }
    if !it.directions.is_empty() && it.default_action.is_none() {
        report.say("/spec/directions", "these are of `defaultAction`: add it, or take them out");
    }
    if it.default_action == Some(AllowDrop::Allow) {
        let message =
            "what no rule speaks of goes to the next level anyway: write drop, or take it out";
        report.say("/spec/defaultAction", message);
    }
    // Rules stand in their order, or each says its priority.
    let said = it.rules.iter().filter(|rule| rule.priority.is_some()).count();
    for (i, one) in it.rules.iter().enumerate() {
        let path = format!("/spec/rules/{i}");
        if said > 0 && one.priority.is_none() {
            let message = "other rules have a `priority`: add one here, or take theirs out";
            report.say(&path, message);
        }
        rule(one, &path, report);
    }
}

fn rule(it: &Rule, path: &str, report: &mut Report<'_>) {
    if let Some(one) = &it.peer {
        peer(one, &format!("{path}/peer"), report);
    }
    services(&it.services, path, report);
    if let Some(one) = &it.matches {
        matches(one, &format!("{path}/match"), report);
    }
    report.within(&format!("{path}/sample"), it.sample, 0..=1000);
    let ip = [Ethertype::IP4, Ethertype::IP6];
    let is_ip = it.ethertype.is_none_or(|ethertype| ip.contains(&ethertype));
    if !is_ip && it.stateful == Some(true) {
        let message = "only IP has connections: write false, or take `ethertype` out";
        report.say(format!("{path}/stateful"), message);
    }
    if !is_ip && !it.services.is_empty() {
        let message = "only IP has services: take them out, or `ethertype`";
        report.say(format!("{path}/services"), message);
    }
    if it.stateful == Some(true) && it.action != Action::Allow {
        let message = "only what is allowed has connections: take it out";
        report.say(format!("{path}/stateful"), message);
    }
}

/// What has to hold of a packet.
pub fn matches(it: &Match, path: &str, report: &mut Report<'_>) {
    for (name, end) in [("source", &it.source), ("destination", &it.destination)] {
        if let Some(one) = end {
            peer(one, &format!("{path}/{name}"), report);
        }
    }
    services(&it.services, path, report);
}

fn peer(it: &Peer, path: &str, report: &mut Report<'_>) {
    for (name, prefixes) in [("prefixes", &it.prefixes), ("except", &it.except)] {
        for (i, prefix) in prefixes.iter().enumerate() {
            report.network(format!("{path}/{name}/{i}"), *prefix);
        }
    }
    if let Some(one) = &it.selector {
        selector(one, &format!("{path}/selector"), report);
    }
}

fn services(choices: &[ServiceChoice], path: &str, report: &mut Report<'_>) {
    for (i, choice) in choices.iter().enumerate() {
        let ServiceChoice::Inline(it) = choice else { continue };
        let path = format!("{path}/services/{i}");
        ports(it.protocol, &it.ports, &it.source_ports, &path, report);
        let is_icmp = matches!(it.protocol, Protocol::ICMP | Protocol::ICMP6);
        if !is_icmp && (it.icmp_type.is_some() || it.icmp_code.is_some()) {
            report.say(&path, format!("{} has no ICMP type: take it out", it.protocol));
        }
        if it.icmp_code.is_some() && it.icmp_type.is_none() {
            report.say(&path, "a code is of a type: add `icmpType`");
        }
    }
}

/// Ports, of a protocol that has some.
pub fn ports(
    protocol: Protocol,
    to: &[PortRange],
    from: &[PortRange],
    path: &str,
    report: &mut Report<'_>,
) {
    for (name, ranges) in [("ports", to), ("sourcePorts", from)] {
        if !protocol.has_ports() && !ranges.is_empty() {
            let message = format!("{protocol} has no ports: take them out");
            report.say(format!("{path}/{name}"), message);
        }
    }
}

fn selector(it: &Selector, path: &str, report: &mut Report<'_>) {
    for (i, one) in it.match_expressions.iter().enumerate() {
        if (one.operator == Operator::Exists) != one.values.is_empty() {
            let message = "In and NotIn have values, Exists has none: put that right";
            report.say(format!("{path}/matchExpressions/{i}/values"), message);
        }
    }
}

pub fn group(it: &PortGroup, report: &mut Report<'_>) {
    if let Some(one) = &it.selector {
        selector(one, "/spec/selector", report);
    }
}
