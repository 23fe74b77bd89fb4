//! Routers, their ports, and what they translate.

use alloc::format;

use super::policy;
use crate::objects::{AddressRange, NextHop, RoutePolicyAction};
use crate::objects::{LogicalRouter, Nat, NatKind, NatPlace, RaMode, Route, RouterPort};
use crate::report::Report;

pub fn router(it: &LogicalRouter, report: &mut Report<'_>) {
    report.most("/spec/routes", &it.routes, 1000);
    report.most("/spec/policies", &it.policies, 1000);
    report.within("/spec/ecmp/max", it.ecmp.max, 1..=16);
    for (i, one) in it.routes.iter().enumerate() {
        route(one, &format!("/spec/routes/{i}"), it.ecmp.max, report);
    }
    let names = it.policies.iter().enumerate();
    report.once(names.map(|(i, it)| (format!("/spec/policies/{i}/name"), &it.name)));
    for (i, policy) in it.policies.iter().enumerate() {
        let path = format!("/spec/policies/{i}");
        policy::matches(&policy.matches, &format!("{path}/match"), report);
        if let RoutePolicyAction::Reroute(reroute) = &policy.action {
            let path = format!("{path}/action/reroute/nextHops");
            hops(&reroute.next_hops, &path, it.ecmp.max, report);
        }
    }
}

/// Neighbours that share: at least one, of one family.
fn hops(hops: &[NextHop], path: &str, most: u8, report: &mut Report<'_>) {
    report.most(path, hops, most.into());
    let Some(first) = hops.first() else {
        return report.say(path, "there is no next hop: add one, as { nextHop: 10.0.0.254 }");
    };
    for (i, hop) in hops.iter().enumerate() {
        report.host(format!("{path}/{i}/nextHop"), hop.next_hop);
        if hop.next_hop.is_ipv4() != first.next_hop.is_ipv4() {
            let message = format!("{} is of another family than the first", hop.next_hop);
            report.say(format!("{path}/{i}/nextHop"), message);
        }
    }
}

pub fn route(it: &Route, path: &str, most: u8, report: &mut Report<'_>) {
    report.network(format!("{path}/prefix"), it.prefix);
    let ways = [it.next_hop.is_some(), !it.ecmp.is_empty(), it.discard];
    if ways.iter().filter(|is| **is).count() != 1 {
        report.say(path, "write exactly one of `nextHop`, `ecmp` and `discard`");
    }
    if it.reject && !it.discard {
        report.say(
            format!("{path}/reject"),
            "only what is discarded is told of: add `discard: true`",
        );
    }
    if let Some(hop) = it.next_hop {
        report.host(format!("{path}/nextHop"), hop);
        if hop.is_ipv4() != it.prefix.address.is_ipv4() {
            let message = format!("{hop} is of another family than {}", it.prefix);
            report.say(format!("{path}/nextHop"), message);
        }
    }
    if !it.ecmp.is_empty() {
        hops(&it.ecmp, &format!("{path}/ecmp"), most, report);
    }
    if it.via.is_some() && it.next_hop.is_none() {
        report.say(format!("{path}/via"), "this belongs to `nextHop`: add one, or take it out");
    }
    if it.onlink && it.via.is_none() {
        report.say(format!("{path}/onlink"), "say by which port: add `via`");
    }
    if let Some(source) = it.source {
        report.network(format!("{path}/source"), source);
        if source.address.is_ipv4() != it.prefix.address.is_ipv4() {
            let message = format!("{source} is of another family than {}", it.prefix);
            report.say(format!("{path}/source"), message);
        }
    }
    if it.distance == Some(0) {
        report.say(format!("{path}/distance"), "0 is the ports' own prefixes': write 1 to 255");
    }
}

pub fn port(it: &RouterPort, report: &mut Report<'_>) {
    report.mac("/spec/mac", it.mac);
    report.mtu("/spec/mtu", it.mtu);
    if it.addresses.is_empty() {
        report.say("/spec/addresses", "it has no address: add one, as 10.0.0.254/24");
    }
    for (i, address) in it.addresses.iter().enumerate() {
        report.host(format!("/spec/addresses/{i}"), address.address);
        let range = AddressRange::from(*address);
        let is_v4_net = address.address.is_ipv4() && address.length < 31;
        if is_v4_net && (range.first() == address.address || range.last() == address.address) {
            let message =
                format!("{address} is its network itself, or everybody in it: write another");
            report.say(format!("/spec/addresses/{i}"), message);
        }
    }
    if let Some(gateway) = &it.gateway {
        if gateway.nodes.is_empty() {
            report.say("/spec/gateway/nodes", "there is no node: add one, as { node: gw1 }");
        }
        let nodes = gateway.nodes.iter().enumerate();
        report.once(nodes.map(|(i, it)| (format!("/spec/gateway/nodes/{i}/node"), &it.node)));
    }
    let has_v6 = it.addresses.iter().any(|it| it.address.is_ipv6());
    if it.ra6.mode != RaMode::Off && !has_v6 {
        report.say("/spec/ra6/mode", "it has no IPv6 address to advertise: add one, or write off");
    }
    report.mtu("/spec/ra6/mtu", it.ra6.mtu);
    for (i, prefix) in it.ra6.prefixes.iter().enumerate() {
        report.network(format!("/spec/ra6/prefixes/{i}"), *prefix);
    }
}

pub fn nat(it: &Nat, report: &mut Report<'_>) {
    let size = |range: AddressRange| range.place(range.last());
    if it.external.first().is_ipv4() != it.logical.first().is_ipv4() {
        let message = format!("{} is of another family than {}", it.logical, it.external);
        report.say("/spec/logical", message);
    }
    match it.kind {
        NatKind::Floating if size(it.external) != size(it.logical) => {
            let message = "outside and inside are of different length: make them one to one";
            report.say("/spec/logical", message);
        }
        NatKind::Dnat if size(it.logical) != 0 => {
            report.say("/spec/logical", "several addresses are no destination: write one");
        }
        NatKind::Dnat if size(it.external) != 0 => {
            report.say("/spec/external", "several addresses lead to one: write one");
        }
        _ => {}
    }
    let only = |wanted: &[NatKind]| !wanted.contains(&it.kind);
    let misplaced = [
        ("port", it.port.is_some() && only(&[NatKind::Dnat]), "dnat"),
        (
            "externalPorts",
            it.external_ports.is_some() && only(&[NatKind::Dnat, NatKind::Snat]),
            "dnat and snat",
        ),
        ("externalMac", it.external_mac.is_some() && only(&[NatKind::Floating]), "floating"),
        ("at", it.at == NatPlace::Port && only(&[NatKind::Floating]), "floating"),
        ("stateless", it.stateless && only(&[NatKind::Floating]), "floating"),
    ];
    for (field, _, kinds) in misplaced.iter().filter(|(_, is, _)| *is) {
        report.say(format!("/spec/{field}"), format!("only {kinds} has this: take it out"));
    }
    if it.external_mac.is_some() != (it.at == NatPlace::Port) && it.kind == NatKind::Floating {
        let message = "`externalMac` and `at: port` belong together: write both, or neither";
        report.say("/spec", message);
    }
    if let Some(mac) = it.external_mac {
        report.mac("/spec/externalMac", mac);
    }
    let has_ports = it.protocol.is_some_and(|protocol| protocol.has_ports());
    if it.kind == NatKind::Dnat && (it.port.is_some() || it.external_ports.is_some()) && !has_ports
    {
        report.say("/spec", "ports are of a protocol: add `protocol`, as tcp");
    }
    if it.port == Some(0) {
        report.say("/spec/port", "0 is no port: write 1 to 65535");
    }
    if it.port.is_some() && it.external_ports.is_some_and(|ports| ports.first != ports.last) {
        report.say(
            "/spec/port",
            "several ports outside lead to one: write one outside, or take it out",
        );
    }
    if let Some(one) = &it.matches {
        policy::matches(one, "/spec/match", report);
    }
}
