//! What is found near is what all objects say.

use std::collections::BTreeSet;

use logical::objects::{Identity, Object};
use proptest::prelude::*;
use serde_json::Value;
use units::Rng;
use worlds::{CORNERS, World};

use super::stands;
use crate::objects::Objects;

/// A write: what it puts, and what is to be gone.
type Edit = (Vec<Object>, BTreeSet<Identity>);

fn read(text: &str) -> Vec<Object> {
    let read = logical::read(text);
    assert!(read.faults.is_empty(), "{:#?}", read.faults);
    read.objects
}

fn named(objects: Vec<Object>) -> Objects {
    objects.into_iter().map(|it| (it.identity(), it)).collect()
}

fn one<'a, T>(all: &'a [T], rng: &mut Rng) -> &'a T {
    &all[rng.below(all.len() as u64) as usize]
}

/// A place in an object that has no more in it: the way to it, as JSON names places, and what is
/// there.
fn leaves(value: &Value, way: &str, found: &mut Vec<(String, Value)>) {
    match value {
        Value::Object(fields) => {
            fields.iter().for_each(|(key, it)| leaves(it, &format!("{way}/{key}"), found));
        }
        Value::Array(items) => {
            items.iter().enumerate().for_each(|(i, it)| leaves(it, &format!("{way}/{i}"), found));
        }
        _ => found.push((way.into(), value.clone())),
    }
}

/// An object that says something otherwise: what another object says under a name like that, or one
/// thing less.
fn altered(object: &Object, others: &[Object], rng: &mut Rng) -> Option<Object> {
    let mut value = serde_json::to_value(object).ok()?;
    value.as_object_mut()?.remove("kind");
    let (mut own, mut other) = (Vec::new(), Vec::new());
    leaves(&value, "", &mut own);
    leaves(&serde_json::to_value(one(others, rng)).ok()?, "", &mut other);
    let (way, _) = one(&own, rng);
    let (at, last) = way.rsplit_once('/')?;
    if rng.below(4) == 0 {
        let place = value.pointer_mut(at)?;
        match place {
            Value::Object(fields) => drop(fields.remove(last)),
            Value::Array(items) => drop(items.remove(last.parse().ok()?)),
            _ => {}
        }
    } else {
        let is_text = |it: &Value| it.is_string();
        let was = value.pointer_mut(way)?;
        other.retain(|(_, it)| is_text(it) == is_text(was));
        *was = one((!other.is_empty()).then_some(&other)?, rng).1.clone();
    }
    Object::read(object.kind(), value).ok()
}

/// What somebody writes, right or wrong. `others` say what may be said.
fn edit(objects: &Objects, others: &[Object], rng: &mut Rng) -> Edit {
    let all: Vec<_> = objects.iter().map(|(_, it)| it.clone()).collect();
    let (mut puts, mut gone) = (Vec::new(), BTreeSet::new());
    for _ in 0..=rng.below(3) {
        match rng.below(4) {
            0 => gone.extend([one(&all, rng).identity()]),
            1 => puts.push(one(others, rng).clone()),
            _ => puts.extend(altered(one(&all, rng), others, rng)),
        }
    }
    gone.retain(|it| puts.iter().all(|put| put.identity() != *it));
    (puts, gone)
}

/// The objects after a write, if they are right together.
fn after(objects: &Objects, (puts, gone): &Edit) -> Option<Vec<Object>> {
    let is_put = |identity: &Identity| puts.iter().any(|it| it.identity() == *identity);
    let kept = objects.iter().filter(|(it, _)| !gone.contains(it) && !is_put(it));
    let next: Vec<_> = puts.iter().chain(kept.map(|(_, it)| it)).cloned().collect();
    logical::resolve(&next).is_ok().then_some(next)
}

/// Writes at random. How many stood, and how many of these did so by what is near.
fn write(text: &str, other: &str, rng: &mut Rng) -> (usize, usize) {
    let (first, others) = (read(text), read(other));
    let (mut objects, others) = (named(first.clone()), [first, others].concat());
    let (mut stood, mut found) = (0, 0);
    for _ in 0..40 {
        let edit = edit(&objects, &others, rng);
        let next = after(&objects, &edit);
        let is_found = stands(&objects, &edit.0, &edit.1);
        assert!(next.is_some() || !is_found, "{edit:#?}\nin {objects:#?}");
        let Some(next) = next else { continue };
        stood += 1;
        found += usize::from(is_found);
        edit.1.iter().for_each(|it| objects.remove(it));
        edit.0.into_iter().for_each(|it| objects.insert(it.identity(), it));
        assert_eq!(objects, named(next));
    }
    (stood, found)
}

/// Domains that have room for little, of which one port (`c-r`) makes another.
const NARROW: &str = "\
- {kind: Tenant, metadata: {name: t}, spec: {quota: {domainPorts: 6, domainHosts: 2}}}
- {kind: TransportNode, metadata: {name: h1}, spec: {vteps: [192.0.2.1]}}
- {kind: TransportNode, metadata: {name: h2}, spec: {vteps: [192.0.2.2]}}
- {kind: TransportNode, metadata: {name: h3}, spec: {vteps: [192.0.2.3]}}
- {kind: LogicalSwitch, metadata: {name: a, tenant: t}, spec: {}}
- {kind: LogicalSwitch, metadata: {name: b, tenant: t}, spec: {}}
- {kind: LogicalSwitch, metadata: {name: c, tenant: t}, spec: {}}
- {kind: LogicalRouter, metadata: {name: r, tenant: t}, spec: {}}
- {kind: LogicalRouter, metadata: {name: q, tenant: t}, spec: {}}
- {kind: RouterPort, metadata: {name: r-a, tenant: t}, spec: {router: r, mac: '02:00:00:00:00:f1', addresses: [10.1.0.254/24]}}
- {kind: RouterPort, metadata: {name: r-q, tenant: t}, spec: {router: r, mac: '02:00:00:00:00:f2', addresses: [10.9.0.1/24], peer: q-r}}
- {kind: RouterPort, metadata: {name: q-r, tenant: t}, spec: {router: q, mac: '02:00:00:00:00:f3', addresses: [10.9.0.2/24], peer: r-q}}
- {kind: RouterPort, metadata: {name: q-b, tenant: t}, spec: {router: q, mac: '02:00:00:00:00:f4', addresses: [10.2.0.254/24]}}
- {kind: RouterPort, metadata: {name: q-c, tenant: t}, spec: {router: q, mac: '02:00:00:00:00:f5', addresses: [10.3.0.254/24]}}
- {kind: LogicalPort, metadata: {name: a-r, tenant: t}, spec: {switch: a, router: {routerPort: r-a}}}
- {kind: LogicalPort, metadata: {name: b-q, tenant: t}, spec: {switch: b, router: {routerPort: q-b}}}
- {kind: LogicalPort, metadata: {name: p0, tenant: t}, spec: {switch: a, vif: {}}}
- {kind: LogicalPort, metadata: {name: p1, tenant: t}, spec: {switch: b, vif: {}}}
- {kind: LogicalPort, metadata: {name: p2, tenant: t}, spec: {switch: c, vif: {}}}
- {kind: LogicalPort, metadata: {name: p3, tenant: t}, spec: {switch: c, child: {parent: p1, vlan: 3}}}
- {kind: Binding, metadata: {name: one}, spec: {port: t/p0, node: h1}}
- {kind: Binding, metadata: {name: two}, spec: {port: t/p1, node: h2}}
- {kind: Binding, metadata: {name: three}, spec: {port: t/p2, node: h1}}
";

/// What may be written there, alone: some of it is too much.
const MORE: &str = "\
- {kind: LogicalPort, metadata: {name: p7, tenant: t}, spec: {switch: b, vif: {}}}
- {kind: LogicalPort, metadata: {name: p7, tenant: t}, spec: {switch: c, vif: {}}}
- {kind: LogicalPort, metadata: {name: p4, tenant: t}, spec: {switch: a, vif: {}}}
- {kind: LogicalPort, metadata: {name: p5, tenant: t}, spec: {switch: b, vif: {}}}
- {kind: LogicalPort, metadata: {name: p6, tenant: t}, spec: {switch: b, vif: {}}}
- {kind: LogicalPort, metadata: {name: c-r, tenant: t}, spec: {switch: c, router: {routerPort: q-c}}}
- {kind: Binding, metadata: {name: two}, spec: {port: t/p1, node: h1}}
- {kind: Binding, metadata: {name: two}, spec: {port: t/p1, node: h2}}
- {kind: Binding, metadata: {name: three}, spec: {port: t/p2, node: h3}}
- {kind: Binding, metadata: {name: four}, spec: {port: t/p4, node: h3}}
- {kind: RouterPort, metadata: {name: q-r, tenant: t}, spec: {router: q, mac: '02:00:00:00:00:f3', addresses: [10.9.0.2/24]}}
- {kind: RouterPort, metadata: {name: r-q, tenant: t}, spec: {router: r, mac: '02:00:00:00:00:f2', addresses: [10.9.0.1/24]}}
";

/// Writes objects one after the other. Each stands, near and with all, or not, as it is said.
#[track_caller]
fn each(objects: &mut Objects, writes: &[(&str, bool)]) {
    for (text, is_right) in writes {
        let edit = (read(text), BTreeSet::new());
        let next = after(objects, &edit);
        let found = (stands(objects, &edit.0, &edit.1), next.is_some());
        assert_eq!(found, (*is_right, *is_right), "{text}");
        if let Some(next) = next {
            *objects = named(next);
        }
    }
}

#[test]
fn a_domain_has_room_for_so_many_ports_and_hosts() {
    let line = |begin: &str| MORE.lines().find(|it| it.contains(begin)).unwrap();
    let port = |name: &str| line(&format!("name: {name}, "));
    each(
        &mut named(read(NARROW)),
        &[
            (port("p4"), true),
            (port("p5"), true),
            (port("p6"), false),
            (line("spec: {port: t/p4, node: h3}"), false),
            (line("spec: {port: t/p2, node: h3}"), true),
            (line("spec: {port: t/p1, node: h1}"), true),
            (line("spec: {port: t/p4, node: h3}"), true),
            (line("spec: {port: t/p1, node: h2}"), false),
        ],
    );
    each(&mut named(read(NARROW)), &[(port("c-r"), false)]);
    let wide = NARROW.replace("domainPorts: 6", "domainPorts: 7");
    each(&mut named(read(&wide)), &[(port("c-r"), true), (port("p4"), false)]);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, ..ProptestConfig::default() })]

    #[test]
    fn what_stands_near_stands_with_all(seed: u64) {
        let rng = &mut Rng::new(seed);
        let [world, other] = [0, 1].map(|_| World::new(rng.next_u64()).spread(2, rng).text);
        write(&world, &other, rng);
        write(CORNERS, CORNERS, rng);
        write(NARROW, MORE, rng);
    }
}

#[test]
fn most_of_what_stands_is_found_near() {
    let rng = &mut Rng::new(1);
    let all = (0..20).map(|_| {
        let world = World::new(rng.next_u64()).spread(2, rng).text;
        write(&world, &world, rng)
    });
    let (stood, found) = all.fold((0, 0), |(a, b), (c, d)| (a + c, b + d));
    assert!(stood > 100 && found * 10 > stood * 7, "{found} of {stood}");
}

#[test]
fn what_is_near_is_little() {
    let mut text =
        String::from("- {kind: Tenant, metadata: {name: t}, spec: {quota: {ports: 2000}}}\n");
    for switch in 0..200 {
        text += &format!(
            "- {{kind: LogicalSwitch, metadata: {{name: s{switch}, tenant: t}}, spec: {{}}}}\n"
        );
        for port in 0..9 {
            text += &format!(
                "- {{kind: LogicalPort, metadata: {{name: p{switch}-{port}, tenant: t}}, spec: {{switch: s{switch}, vif: {{}}, addresses: [10.0.0.{port}]}}}}\n"
            );
        }
    }
    let listed: Vec<_> = (0..200).map(|it| format!("p{it}-0")).collect();
    text += &format!(
        "- {{kind: PortGroup, metadata: {{name: g, tenant: t}}, spec: {{ports: [{}]}}}}\n",
        listed.join(", ")
    );
    let objects = named(read(&text));
    let count = |put: &str| {
        let puts = read(put);
        let gone = BTreeSet::new();
        assert!(stands(&objects, &puts, &gone));
        super::Next::of(&objects, &puts, &gone).and_then(|it| it.near()).unwrap().len()
    };
    let port = "{kind: LogicalPort, metadata: {name: new, tenant: t}, spec: {switch: s7, vif: {}, addresses: [10.0.0.200]}}";
    assert_eq!(count(port), 12, "nine ports, this one, their switch and tenant");
    let listed = format!("{}, p0-1, {}", listed[..100].join(", "), listed[100..].join(", "));
    let group = format!(
        "{{kind: PortGroup, metadata: {{name: g, tenant: t}}, spec: {{ports: [{listed}]}}}}"
    );
    assert_eq!(count(&group), 4, "the group, its new port, and that one's switch and tenant");
}
