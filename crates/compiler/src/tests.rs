//! The same objects make the same rows, and a change makes few.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use image::{Change, Domain, Group, Target};
use logical::objects::Identity;
use logical::{Topology, load};
use proptest::prelude::*;
use units::Rng;
use worlds::World;

use crate::compile;

fn compiled(text: &str) -> BTreeMap<Identity, Domain> {
    compile(&loaded(text))
}

fn loaded(text: &str) -> Topology {
    load(text).unwrap_or_else(|faults| panic!("{text}\n{faults:#?}"))
}

/// The changes of each domain, by its name.
fn changes(before: &str, after: &str) -> BTreeMap<Identity, Vec<Change>> {
    let (before, after) = (compiled(before), compiled(after));
    let none = Domain::default();
    let names: BTreeSet<_> = before.keys().chain(after.keys()).cloned().collect();
    let each = names.into_iter().map(|name| {
        let [before, after] = [&before, &after].map(|it| it.get(&name).unwrap_or(&none));
        let changes = before.diff(after);
        (name, changes)
    });
    each.filter(|(_, changes)| !changes.is_empty()).collect()
}

/// Two switches around a router, and a third alone.
const SHOP: &str = "\
- {kind: Tenant, metadata: {name: t}, spec: {}}
- {kind: LogicalSwitch, metadata: {name: web, tenant: t}, spec: {}}
- {kind: LogicalSwitch, metadata: {name: db, tenant: t}, spec: {}}
- {kind: LogicalSwitch, metadata: {name: alone, tenant: t}, spec: {}}
- {kind: LogicalRouter, metadata: {name: r, tenant: t}, spec: {}}
- {kind: RouterPort, metadata: {name: r-web, tenant: t}, spec: {router: r, mac: '02:00:00:00:00:fe', addresses: [10.1.0.254/24]}}
- {kind: RouterPort, metadata: {name: r-db, tenant: t}, spec: {router: r, mac: '02:00:00:00:00:fd', addresses: [10.2.0.254/24]}}
- {kind: LogicalPort, metadata: {name: web-r, tenant: t}, spec: {switch: web, router: {routerPort: r-web}}}
- {kind: LogicalPort, metadata: {name: db-r, tenant: t}, spec: {switch: db, router: {routerPort: r-db}}}
- {kind: LogicalPort, metadata: {name: w1, tenant: t, labels: {app: web}}, spec: {switch: web, vif: {}, addresses: [10.1.0.1]}}
- {kind: LogicalPort, metadata: {name: w2, tenant: t, labels: {app: web}}, spec: {switch: web, vif: {}, addresses: [10.1.0.2]}}
- {kind: LogicalPort, metadata: {name: d1, tenant: t}, spec: {switch: db, vif: {}, addresses: [10.2.0.1]}}
- {kind: LogicalPort, metadata: {name: x1, tenant: t}, spec: {switch: alone, vif: {}, addresses: [10.1.0.1]}}
";

/// So many rules of as many policies at `d1`, that all speak of a set, a group and a selection.
fn with_rules(many: usize, set: &str, group: &str) -> String {
    let mut text = String::from(SHOP);
    text += &format!(
        "- {{kind: AddressSet, metadata: {{name: s, tenant: t}}, spec: {{addresses: [{set}]}}}}\n"
    );
    text += &format!(
        "- {{kind: PortGroup, metadata: {{name: g, tenant: t}}, spec: {{ports: [{group}]}}}}\n"
    );
    for n in 0..many {
        text += &format!(
            "- {{kind: Policy, metadata: {{name: p{n}, tenant: t}}, spec: {{appliesTo: {{ports: [d1]}}, rules: [{{name: \
             a, direction: toPort, action: allow, peer: {{sets: [s], groups: [g], selector: {{matchLabels: {{app: \
             web}}}}}}}}]}}}}\n"
        );
    }
    text
}

#[test]
fn what_routers_join_is_one_domain() {
    let domains = compiled(SHOP);
    let names: Vec<_> = domains.keys().map(|it| format!("{it}")).collect();
    assert_eq!(names, ["LogicalSwitch/t/alone", "LogicalSwitch/t/db"]);
    let shop = &domains.values().nth(1).unwrap();
    let counts: BTreeMap<_, _> = shop.counts().filter(|(_, count)| *count > 0).collect();
    let expected = [
        ("switches", 2),
        ("stations", 5),
        ("ports", 3),
        ("routers", 1),
        ("router ports", 2),
        ("routes", 2),
    ];
    assert_eq!(counts, expected.into());
    assert!(shop.routes.keys().all(|it| matches!(it.target, Target::Connected { .. })));
}

#[test]
fn a_member_is_one_row_however_many_rules_speak_of_it() {
    let before = with_rules(50, "10.9.0.1", "w1");
    let changed = changes(&before, &with_rules(50, "10.9.0.1, 10.9.0.2", "w1"));
    let all: Vec<_> = changed.values().flatten().collect();
    assert!(matches!(all[..], [Change::Address(_, Some(()))]), "{all:?}");

    let changed = changes(&before, &with_rules(50, "10.9.0.1", "w1, w2"));
    let all: Vec<_> = changed.values().flatten().collect();
    assert!(matches!(all[..], [Change::Member((Group::Named(_), _), Some(_))]), "{all:?}");

    let relabeled =
        before.replace("w2, tenant: t, labels: {app: web}", "w2, tenant: t, labels: {app: db}");
    let changed = changes(&before, &relabeled);
    let all: Vec<_> = changed.values().flatten().collect();
    assert!(matches!(all[..], [Change::Member((Group::Selected { .. }, _), None)]), "{all:?}");
}

#[test]
fn rules_of_the_same_content_are_kept_once() {
    let domains = compiled(&with_rules(50, "10.9.0.1", "w1"));
    let policies = &domains.values().nth(1).unwrap().policies;
    assert_eq!(policies.len(), 50);
    let kept: BTreeSet<_> = policies.values().map(|it| it.rules.as_ptr()).collect();
    assert_eq!(kept.len(), 1);
}

#[test]
fn another_domain_does_not_notice() {
    let more =
        "- {kind: LogicalPort, metadata: {name: x2, tenant: t}, spec: {switch: alone, vif: {}}}\n";
    let changed = changes(SHOP, &format!("{SHOP}{more}"));
    let names: Vec<_> = changed.keys().map(|it| it.name.as_str()).collect();
    assert_eq!(names, ["alone"]);
    assert_eq!(changed.values().next().unwrap().len(), 2, "its station and its port");
}

#[test]
fn a_machine_that_moves_changes_no_row() {
    let node = "- {kind: TransportNode, metadata: {name: NODE}, spec: {vteps: [192.0.2.1], encap: [geneve], uplinkMtu: 1600}}\n";
    let bound = "- {kind: Binding, metadata: {name: w1}, spec: {port: t/w1, node: NODE, incarnation: 1, source: declared}}\n";
    let world = |at: &str| {
        let nodes = ["h1", "h2"].map(|name| {
            node.replace("NODE", name).replace("2.1]", if name == "h1" { "2.1]" } else { "2.2]" })
        });
        format!("{SHOP}{}{}", nodes.concat(), bound.replace("NODE", at))
    };
    assert_eq!(changes(&world("h1"), &world("h2")), BTreeMap::new());
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]

    /// Each row of a world, written and read.
    #[test]
    fn rows_are_read_as_they_are_written(seed: u64) {
        let mut keys = BTreeSet::new();
        for (_, domain) in compile(&World::new(seed).topology) {
            keys.clear();
            for change in Domain::default().diff(&domain) {
                let (key, row) = change.encode();
                prop_assert_eq!(Change::decode(&key, row.as_deref()), Ok(change.clone()));
                let gone = Change::decode(&key, None).unwrap();
                prop_assert!(gone.is_removal() && gone.table() == change.table());
                prop_assert!(keys.insert(key), "two rows have one key");
            }
        }
    }

    #[test]
    fn the_order_of_declarations_does_not_matter(seed: u64) {
        let world = World::new(seed);
        let mut lines: Vec<_> = world.text.lines().collect();
        lines.reverse();
        prop_assert_eq!(compile(&world.topology), compiled(&lines.join("\n")));
    }

    /// After any edits the changes make of one generation the next, and say nothing twice.
    #[test]
    fn changes_lead_from_one_generation_to_the_next(seed: u64) {
        let mut rng = Rng::new(seed);
        let mut world = World::new(seed);
        for _ in 0..4 {
            let before = compile(&world.topology);
            world = world.edited(&mut rng);
            let after = compile(&world.topology);
            for (name, next) in &after {
                let mut domain = before.get(name).cloned().unwrap_or_default();
                let changes = domain.diff(next);
                prop_assert!(changes.len() <= domain.len() + next.len());
                changes.into_iter().for_each(|change| domain.apply(change));
                prop_assert_eq!(&domain, next);
                prop_assert_eq!(next.diff(next), Vec::new());
            }
        }
    }

    /// A host's part has its own ports, none of others', and is the same whatever else is there.
    #[test]
    fn a_part_is_of_its_ports_alone(seed: u64, pick: u64) {
        for domain in compile(&World::new(seed).topology).values() {
            let own: BTreeSet<_> =
                domain.ports.keys().enumerate().filter(|(i, _)| pick >> (i % 64) & 1 == 1).map(|(_, id)| id.clone()).collect();
            let part = domain.part(&own);
            prop_assert!(own.iter().all(|it| part.ports.contains_key(it)));
            for (id, port) in &part.ports {
                let parent = port.parent.as_ref().map(|(parent, _)| parent);
                prop_assert!(own.contains(id) || parent.is_some_and(|it| own.contains(it)));
                prop_assert!(port.policies.iter().all(|it| part.policies.contains_key(it)));
            }
            prop_assert_eq!(part.part(&own), part.clone());
            if !part.is_empty() {
                prop_assert_eq!(&part.stations, &domain.stations);
                prop_assert_eq!(&part.routes, &domain.routes);
            }
        }
    }

    /// Tenants with the very same names and addresses share no row.
    #[test]
    fn domains_share_no_port(seed: u64) {
        let domains = compile(&World::new(seed).topology);
        let mut seen = BTreeSet::new();
        for (_, port) in domains.values().flat_map(|it| it.stations.keys()) {
            prop_assert!(seen.insert(port.clone()));
        }
    }
}

#[test]
fn a_row_that_says_more_than_is_known_is_refused() {
    let domain = compiled(SHOP).into_values().next().unwrap();
    let change = Domain::default().diff(&domain).remove(0);
    let (key, row) = change.encode();
    let row = String::from_utf8(row.unwrap()).unwrap();
    let more = row.replacen('{', "{\"encrypted\":true,", 1);
    let unknown = Change::decode(&key, Some(more.as_bytes())).unwrap_err();
    assert!(format!("{unknown}").contains("unknown field `encrypted`"), "{unknown}");
    let other = Change::decode(b"[\"tunnels\",1]", Some(b"1")).unwrap_err();
    assert!(format!("{other}").contains("the table \"tunnels\""), "{other}");
    for wrong in [&b""[..], b"[", b"[\"", b"{}", b"[\"switches\",", b"[\"switches\",7]", b"\xff"] {
        assert!(Change::decode(wrong, None).is_err());
    }
}
