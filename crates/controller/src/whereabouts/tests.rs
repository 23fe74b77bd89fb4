//! What is kept by domain is what all objects say together.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use image::{Site, StationRole};
use logical::objects::{Identity, Object};
use logical::topology::Attachment;
use logical::{Topology, load, read};
use proptest::prelude::*;
use southbound::{Change, Nodes, Place};
use store::Revision;
use units::Rng;
use worlds::{CORNERS, World};

use super::name;
use crate::networks::Networks;

/// Where everything is: what hosts are told of each domain, and who may or does follow one.
#[derive(Debug, Default, PartialEq)]
struct Told {
    sites: BTreeMap<(replica::Name, Identity), Site>,
    labels: BTreeMap<(replica::Name, Identity), u32>,
    ports: BTreeMap<replica::Name, Place>,
    homes: BTreeMap<replica::Name, BTreeSet<replica::Name>>,
}

impl Told {
    /// What all objects say.
    fn of(topology: &Topology) -> Self {
        let nodes = compiler::sites(topology);
        let mut all = Self::default();
        for (domain, rows) in compiler::compile(topology) {
            for ((_, port), station) in &rows.stations {
                if matches!(station.role, StationRole::Machine | StationRole::Local)
                    && let Some(tenant) = &port.tenant
                {
                    let node = nodes.get(port).map(|node| topology[*node].id.name.as_str().into());
                    let nodes = node.map_or_else(|| listed(topology, port), Nodes::Bound);
                    let is_everywhere = station.role == StationRole::Local;
                    let place = Place { domain: name(&domain), nodes, is_everywhere };
                    all.ports.insert(format!("{tenant}/{}", port.name).into(), place);
                }
            }
            let ports = rows.stations.keys().map(|(_, port)| port);
            for id in ports.chain(rows.router_ports.keys()).chain(rows.routers.keys()) {
                if let Some(node) = nodes.get(id) {
                    let vteps = topology[*node].node.vteps.clone();
                    all.sites.insert((name(&domain), id.clone()), vteps);
                }
            }
            for node in rows.routers.keys().filter_map(|it| nodes.get(it)) {
                let node = topology[*node].id.name.as_str().into();
                all.homes.entry(name(&domain)).or_default().insert(node);
            }
        }
        all
    }

    /// Follows what is told of a change.
    fn follow(&mut self, change: Change) {
        for (domain, delta) in change.domains {
            for (key, row) in delta.iter() {
                match image::Told::decode(key, row.as_deref()).unwrap() {
                    image::Told::Site(id, Some(site)) => {
                        assert_ne!(self.sites.get(&(domain.clone(), id.clone())), Some(&site));
                        self.sites.insert((domain.clone(), id), site);
                    }
                    image::Told::Site(id, None) => {
                        assert!(self.sites.remove(&(domain.clone(), id)).is_some());
                    }
                    image::Told::Label(id, Some(label)) => {
                        self.labels.insert((domain.clone(), id), label);
                    }
                    image::Told::Label(id, None) => {
                        assert!(self.labels.remove(&(domain.clone(), id)).is_some());
                    }
                    image::Told::Row(_) => {}
                }
            }
        }
        for (domain, nodes) in change.homes {
            match nodes.is_empty() {
                false => drop(self.homes.insert(domain, nodes)),
                true => assert!(self.homes.remove(&domain).is_some()),
            }
        }
        for (port, place) in change.ports {
            match place {
                Some(place) => drop(self.ports.insert(port, place)),
                None => assert!(self.ports.remove(&port).is_some()),
            }
        }
    }
}

/// The nodes that a port without a Binding may be at.
fn listed(topology: &Topology, id: &Identity) -> Nodes {
    let tenant = id.tenant.as_ref().unwrap();
    let port = &topology[topology.port(tenant.as_str(), id.name.as_str()).unwrap()];
    let parent = match port.attachment {
        Attachment::Child { parent, .. } => Some(&topology[parent]),
        _ => None,
    };
    let mut nodes = Nodes::Any;
    for listing in parent.into_iter().chain([port]).filter(|it| !it.nodes.is_empty()) {
        let listed = listing.nodes.iter().map(|node| topology[*node].id.name.as_str().into());
        let listed: BTreeSet<_> = listed.collect();
        nodes = Nodes::Among(match nodes {
            Nodes::Among(before) => before.intersection(&listed).cloned().collect(),
            _ => listed,
        });
    }
    nodes
}

fn objects(text: &str) -> BTreeMap<Identity, Arc<Object>> {
    read(text).objects.into_iter().map(|it| (it.identity(), Arc::new(it))).collect()
}

/// Has networks follow texts, one after another.
#[derive(Default)]
struct Followed {
    networks: Option<Networks>,
    told: Told,
    revision: u64,
}

impl Followed {
    fn follow(&mut self, text: &str) {
        let topology = load(text).unwrap_or_else(|faults| panic!("{text}\n{faults:#?}"));
        let networks = self.networks.get_or_insert_with(|| Networks::new(1));
        let edits = networks.edits_to(objects(text));
        self.revision += 1;
        self.told.follow(networks.commit(Revision(self.revision), edits).change);
        assert_eq!(self.told, Told::of(&topology), "{text}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, ..ProptestConfig::default() })]

    #[test]
    fn ports_are_where_all_objects_say_after_any_edits(seed: u64) {
        let rng = &mut Rng::new(seed);
        let mut followed = Followed::default();
        for _ in 0..2 {
            let mut world = World::new(rng.next_u64());
            for _ in 0..6 {
                followed.follow(&world.clone().spread(3, rng).text);
                if rng.below(2) == 0 {
                    world = world.edited(rng);
                }
            }
        }
    }
}

#[test]
fn what_worlds_do_not_have_is_where_all_objects_say() {
    let bound = "\
- {kind: Binding, metadata: {name: v1}, spec: {port: t/v1, node: h1}}
- {kind: Binding, metadata: {name: v2}, spec: {port: t/v2, node: h2}}
- {kind: Binding, metadata: {name: l2}, spec: {port: t/l2, node: h1}}
";
    let text = format!("{CORNERS}{bound}");
    let mut followed = Followed::default();
    for text in [
        CORNERS.to_owned(),
        text.clone(),
        text.replace("vteps: [192.0.2.2]", "vteps: [192.0.2.3]"),
        text.replace("port: t/v2, node: h2", "port: t/v2, node: h1"),
        // Nodes that ports list, and a child's together with its parent's.
        CORNERS.replace("addresses: [10.2.0.2]}", "addresses: [10.2.0.2], node: [h1, h2]}"),
        CORNERS
            .replace("addresses: [10.2.0.2]}", "addresses: [10.2.0.2], node: [h1]}")
            .replace("mac: '02:00:00:00:09:09'}", "mac: '02:00:00:00:09:09', node: [h2]}"),
        CORNERS.replace("mac: '02:00:00:00:09:09'}", "mac: '02:00:00:00:09:09', node: [h2]}"),
        text.replace("addresses: [10.2.0.2]}", "addresses: [10.2.0.2], node: [h1, h2]}"),
        // A port that is on every host.
        CORNERS.replace("spec: {switch: d, vif: {}, qos: gold}", "spec: {switch: d, local: {}}"),
        text.replace("name: v2}, spec: {port: t/v2", "name: a}, spec: {port: t/v2"),
        text.replace(
            "name: v1}, spec: {port: t/v1, node: h1",
            "name: v1}, spec: {port: t/v3, node: h2",
        ),
        text.replace("{node: h1, priority: 1}, {node: h2, priority: 2}", "{node: h1, priority: 2}"),
        text.replace(", child: {parent: v2, vlan: 3}", ", child: {parent: v1, vlan: 3}"),
        text.replace(
            "{name: b-r, tenant: t}, spec: {switch: b, ",
            "{name: b-r, tenant: t}, spec: {switch: c, ",
        ),
        bound.replace("- ", "# ") + "[]",
        text,
    ] {
        followed.follow(&text);
    }
}

fn binding(port: &str, node: &str) -> String {
    format!(
        "- {{kind: Binding, metadata: {{name: {port}}}, spec: {{port: t/{port}, node: {node}}}}}\n"
    )
}

/// The same nodes may have it as before: who has it now may be told to another.
#[test]
fn a_port_that_was_found_is_where_a_binding_would_have_it() {
    let (mut networks, mut told, mut revision) = (Networks::new(1), Told::default(), 0);
    let mut step = |text: &str, found: &[(&str, Option<&str>)], bound: &[(&str, &str)]| {
        for (port, node) in found {
            let port = format!("LogicalPort/t/{port}").parse().unwrap();
            networks.find(port, node.map(|it| it.parse().unwrap()));
        }
        let edits = networks.edits_to(objects(text));
        revision += 1;
        told.follow(networks.commit(Revision(revision), edits).change);
        let bound = bound.iter().map(|(port, node)| binding(port, node));
        let bound = text.to_owned() + &bound.collect::<String>();
        let [bound, own] = [&*bound, text].map(|it| Told::of(&load(it).unwrap()));
        assert_eq!((&told.sites, &told.homes), (&bound.sites, &bound.homes), "{text}");
        assert_eq!(told.ports, own.ports, "{text}");
    };
    step(CORNERS, &[("v1", Some("h1")), ("v2", Some("h2"))], &[("v1", "h1"), ("v2", "h2")]);
    step(CORNERS, &[("v1", Some("h2")), ("v2", None)], &[("v1", "h2")]);
    // At a node of which hosts are not told, until they are.
    let node = "- {kind: TransportNode, metadata: {name: h3}, spec: {vteps: [192.0.2.3]}}\n";
    step(CORNERS, &[("v1", Some("h3"))], &[]);
    step(&format!("{CORNERS}{node}"), &[], &[("v1", "h3")]);
    step(&format!("{CORNERS}{}", node.replace(".3]", ".9]")), &[], &[("v1", "h3")]);
    step(CORNERS, &[], &[]);
    // A Binding counts before that.
    step(&format!("{CORNERS}{}", binding("v1", "h2")), &[("v1", Some("h1"))], &[]);
    step(CORNERS, &[("v2", Some("h1"))], &[("v1", "h1"), ("v2", "h1")]);
    // What may not be there is not.
    let parent = CORNERS.replace("addresses: [10.2.0.2]}", "addresses: [10.2.0.2], node: [h2]}");
    step(&parent, &[], &[("v1", "h1")]);
    let mac = "mac: '02:00:00:00:09:09'";
    let child = CORNERS.replace(mac, &format!("{mac}, node: [h2]"));
    told.follow(networks.commit(Revision(10), networks.edits_to(objects(&child))).change);
    let is_told = |port: &str| told.sites.keys().any(|(_, id)| id.name.as_str() == port);
    assert_eq!(["v2", "v3"].map(is_told), [true, false]);
}

#[test]
fn a_router_keeps_its_flows_where_a_port_is_bound_before_where_one_was_found() {
    let mut networks = Networks::new(1);
    networks.find("LogicalPort/t/v1".parse().unwrap(), "h1".parse().ok());
    let mut homes = |revision, text: &str| {
        let edits = networks.edits_to(objects(text));
        let homes = networks.commit(Revision(revision), edits).change.homes.into_values();
        homes.map(|nodes| format!("{nodes:?}")).collect::<Vec<_>>()
    };
    // The other router's gateway is at the second.
    assert_eq!(homes(1, CORNERS), ["{\"h1\", \"h2\"}"]);
    assert_eq!(homes(2, &format!("{CORNERS}{}", binding("up", "h2"))), ["{\"h2\"}"]);
}

#[test]
fn a_node_that_is_made_anew_at_once_is_not_gone() {
    let text = "- {kind: TransportNode, metadata: {name: h1}, spec: {vteps: [192.0.2.1]}}";
    let (id, node) = objects(text).pop_first().unwrap();
    let mut networks = Networks::new(1);
    networks.commit(Revision(1), vec![(id.clone(), Some(node.clone()))]);
    let edits = vec![(id.clone(), None), (id.clone(), Some(node))];
    let change = networks.commit(Revision(2), edits).change;
    assert_eq!((change.gone.len(), change.come.len()), (0, 1), "{change:?}");
    let change = networks.commit(Revision(3), vec![(id, None)]).change;
    assert_eq!((change.gone.len(), change.come.len()), (1, 0), "{change:?}");
}

/// A machine that moves has its own domain looked at, and no row is computed.
#[test]
fn a_move_is_one_site() {
    let mut followed = Followed::default();
    let world = World::new(3).spread(2, &mut Rng::new(3)).text;
    followed.follow(&world);
    let networks = followed.networks.as_mut().unwrap();
    let mut next = objects(&world);
    let binding = next.values_mut().find_map(|it| match Arc::make_mut(it) {
        Object::Binding(it) => Some(it),
        _ => None,
    });
    let node = &mut binding.unwrap().spec.node;
    *node = (if node.as_str() == "node0" { "node1" } else { "node0" }).parse().unwrap();
    let edits = networks.edits_to(next);
    let change = networks.commit(Revision(followed.revision + 1), edits).change;
    assert_eq!((change.domains.len(), change.ports.len()), (1, 1), "{change:?}");
}

/// Each once, where its object is: also of one that was created again before anybody looked.
#[test]
fn hosts_are_told_the_labels_of_their_domains() {
    let text = "
- {kind: Tenant, metadata: {name: t}, spec: {}}
- {kind: LogicalSwitch, metadata: {name: a, tenant: t}, spec: {}}
- {kind: LogicalSwitch, metadata: {name: b, tenant: t}, spec: {}}
- {kind: LogicalPort, metadata: {name: p, tenant: t}, spec: {switch: a, vif: {}}}
- {kind: LogicalPort, metadata: {name: q, tenant: t}, spec: {switch: b, vif: {}}}
";
    let id = |port: &str| -> Identity { format!("LogicalPort/t/{port}").parse().unwrap() };
    let (mut networks, mut told, mut revision) = (Networks::new(1), Told::default(), 0);
    let mut step = |text: &str, given: &[(&str, Option<u32>)], all: &[(&str, &str, u32)]| {
        revision += 1;
        given.iter().for_each(|(port, label)| networks.label(id(port), *label));
        let edits = networks.edits_to(objects(text));
        let change = networks.commit(Revision(revision), edits).change;
        told.follow(change.clone());
        let domain = |it: &str| replica::Name::from(&*format!("LogicalSwitch/t/{it}"));
        let all = all.iter().map(|(at, port, label)| ((domain(at), id(port)), *label));
        assert_eq!(told.labels, all.collect());
        change.domains.len()
    };
    step(text, &[("p", Some(1)), ("q", Some(2))], &[("a", "p", 1), ("b", "q", 2)]);
    let again = [("p", None), ("p", Some(3))];
    assert_eq!(step(text, &again, &[("a", "p", 3), ("b", "q", 2)]), 1, "one domain is told");
    let moved = text
        .replace("name: q, tenant: t}, spec: {switch: b", "name: q, tenant: t}, spec: {switch: a");
    step(&moved, &[], &[("a", "p", 3), ("a", "q", 2)]);
    let gone = moved.lines().filter(|it| !it.contains("name: p,")).collect::<Vec<_>>().join("\n");
    step(&gone, &[("p", None)], &[("a", "q", 2)]);
}

/// A host that is told nothing of a port's networks can neither have the port, nor give back what
/// comes for it.
#[test]
fn both_hosts_of_a_move_follow_the_domains_of_the_port_and_of_those_behind_its_tags() {
    let text = "
- {kind: Tenant, metadata: {name: t}, spec: {}}
- {kind: TransportNode, metadata: {name: h1}, spec: {vteps: [192.0.2.1]}}
- {kind: TransportNode, metadata: {name: h2}, spec: {vteps: [192.0.2.2]}}
- {kind: LogicalSwitch, metadata: {name: a, tenant: t}, spec: {subnets: [10.0.0.0/24]}}
- {kind: LogicalSwitch, metadata: {name: b, tenant: t}, spec: {subnets: [10.1.0.0/24]}}
- {kind: LogicalPort, metadata: {name: p, tenant: t}, spec: {switch: a, vif: {}}}
- {kind: LogicalPort, metadata: {name: c, tenant: t}, spec: {switch: b, child: {parent: p, vlan: 3}}}
- {kind: Binding, metadata: {name: p}, spec: {port: t/p, node: h1}}
";
    let mut networks = Networks::new(1);
    let mut homes = |revision, said: &str| {
        let edits = networks.edits_to(objects(&text.replace("node: h1", said)));
        let homes = networks.commit(Revision(revision), edits).change.homes.into_iter();
        homes.map(|(domain, nodes)| format!("{domain} {nodes:?}")).collect::<Vec<_>>()
    };
    let both = |nodes| ["a", "b"].map(|it| format!("LogicalSwitch/t/{it} {nodes}"));
    assert_eq!(homes(1, "node: h1"), [""; 0]);
    assert_eq!(homes(2, "node: h1, migration: {to: h2}"), both("{\"h2\"}"));
    assert_eq!(homes(3, "node: h2, migration: {to: h1}"), both("{\"h1\"}"));
    assert_eq!(homes(4, "node: h2"), both("{}"));
}
