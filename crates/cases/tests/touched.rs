//! Which ports' rules a change of rows touches.

use image::Domain;
use logical::objects::{Identity, Name};
use pipeline::Touched;

const TEXT: &str = "
- {kind: Tenant, metadata: {name: t}, spec: {}}
- {kind: LogicalSwitch, metadata: {name: s, tenant: t}, spec: {subnets: [10.0.0.0/24]}}
- {kind: LogicalPort, metadata: {name: a, tenant: t}, spec: {switch: s, vif: {}, mac: '02:00:00:00:00:01', addresses: [10.0.0.1]}}
- {kind: LogicalPort, metadata: {name: b, tenant: t}, spec: {switch: s, vif: {}, mac: '02:00:00:00:00:02', addresses: [10.0.0.2]}}
- {kind: AddressSet, metadata: {name: x, tenant: t}, spec: {addresses: [192.0.2.0/24]}}
- {kind: Policy, metadata: {name: p, tenant: t}, spec: {appliesTo: {ports: [a]}, rules: [{name: r, direction: toPort, action: allow, peer: {sets: [x]}}]}}
- {kind: Policy, metadata: {name: q, tenant: t}, spec: {appliesTo: {ports: [b]}, rules: [{name: r, direction: toPort, action: drop}]}}
";

fn rows(text: &str) -> Domain {
    let topology = logical::load(text).unwrap_or_else(|faults| panic!("{faults:?}"));
    compiler::compile(&topology).into_values().next().unwrap()
}

fn touched(from: &str, to: &str) -> Touched {
    assert!(TEXT.contains(from), "{from}");
    Touched::between(&rows(TEXT), &rows(&TEXT.replace(from, to)))
}

fn ports(names: &[&str]) -> Touched {
    let kind = logical::objects::Kind::LogicalPort;
    let tenant: Option<Name> = Some("t".parse().unwrap());
    let port = |name: &&str| Identity { kind, tenant: tenant.clone(), name: name.parse().unwrap() };
    Touched::Ports(names.iter().map(port).collect())
}

#[test]
fn what_one_policy_or_set_says_touches_its_ports_alone() {
    assert_eq!(touched("192.0.2.0", "192.0.2.0"), ports(&[]));
    assert_eq!(touched("192.0.2.0", "198.51.100.0"), ports(&["a"]));
    assert_eq!(touched("action: drop", "action: reject"), ports(&["b"]));
    assert_eq!(touched("{ports: [b]}", "{ports: [a]}"), ports(&["a", "b"]));
}

/// A router that translates but for some addresses, and what has one of its own.
const TRANSLATED: &str = "
- {kind: LogicalRouter, metadata: {name: r, tenant: t}, spec: {}}
- {kind: RouterPort, metadata: {name: rs, tenant: t}, spec: {router: r, mac: '02:00:00:00:01:00', addresses: [10.0.0.254/24]}}
- {kind: LogicalPort, metadata: {name: sr, tenant: t}, spec: {switch: s, router: {routerPort: rs}}}
- {kind: ExternalPool, metadata: {name: e}, spec: {prefixes: [198.51.100.0/24], tenants: [t]}}
- {kind: Nat, metadata: {name: n, tenant: t}, spec: {kind: snat, router: r, external: 198.51.100.7, logical: 10.0.0.0/24, exempt: [x]}}
";

#[test]
fn what_a_translation_speaks_of_touches_everything() {
    let all = [TEXT, TRANSLATED].concat();
    let touched = |now: &str| Touched::between(&rows(&all), &rows(now));
    assert_eq!(touched(&all.replace("192.0.2.0", "203.0.113.0")), Touched::All);
    assert_eq!(touched(&all.replace("action: drop", "action: reject")), ports(&["b"]));
    let new = |address: &str| {
        let port = format!(
            "- {{kind: LogicalPort, metadata: {{name: c, tenant: t}}, spec: {{switch: s, vif: {{}}, \
             mac: '02:00:00:00:00:03', addresses: [{address}], allowOutside: true}}}}\n"
        );
        touched(&[&all, &port[..]].concat())
    };
    assert_eq!(new("10.0.0.3"), ports(&["c"]));
    assert_eq!(new("198.51.100.7"), Touched::All, "the router stood for it");
}

#[test]
fn a_new_port_touches_itself_and_what_others_send_to_where_it_was_everything() {
    let new = "
- {kind: LogicalPort, metadata: {name: c, tenant: t}, spec: {switch: s, vif: {}, mac: '02:00:00:00:00:03', addresses: [10.0.0.3]}}
- {kind: AddressSet";
    assert_eq!(touched("\n- {kind: AddressSet", new), ports(&["c"]));
    assert_eq!(touched("00:02", "00:03"), Touched::All);
    assert_eq!(
        touched("subnets: [10.0.0.0/24]", "subnets: [10.0.0.0/24], mtu: 1400"),
        Touched::All
    );
}
