//! How long it takes to tell who reaches whom among 1,000 ports with 5,000 rules, to prove a
//! sentence of them, and to tell what changed.
//!
//! `cargo bench -p reach --bench thousand`. There are 50 groups of ports, each with 100 rules.
//! `plain`: a group's ports are on two switches. `spread`: they are on any of 20, so that there are
//! hundreds of classes of ports.

use std::fmt::Write as _;

use criterion::{Criterion, criterion_group, criterion_main};
use logical::{Topology, load};
use reach::{Sentence, matrix};
use units::Rng;

const PORTS: u64 = 1_000;
const SWITCHES: u64 = 20;
const RULES: u64 = 5_000;

const GROUPS: u64 = 50;

/// A tenant's network of a seed.
fn declare(seed: u64, is_plain: bool) -> String {
    let mut rng = Rng::new(seed);
    let mut text = String::from("- {kind: Tenant, metadata: {name: t}, spec: {}}\n");
    let mut say = |kind: &str, name: &str, spec: &str| {
        let _ = writeln!(
            text,
            "- {{kind: {kind}, metadata: {{name: {name}, tenant: t}}, spec: {{{spec}}}}}"
        );
    };
    say("LogicalRouter", "r", "");
    for n in 0..SWITCHES {
        let own = "defaultAction: {toPort: drop}";
        say("LogicalSwitch", &format!("s{n}"), &format!("subnets: [10.{n}.0.0/16], {own}"));
        let mac = format!("'02:00:00:00:ff:{n:02x}'");
        let address = format!("router: r, mac: {mac}, addresses: [10.{n}.255.254/16]");
        say("RouterPort", &format!("r{n}"), &address);
        let spec = format!("switch: s{n}, router: {{routerPort: r{n}}}");
        say("LogicalPort", &format!("s{n}-r"), &spec);
    }
    let mut members: Vec<Vec<String>> = vec![Vec::new(); GROUPS as usize];
    for n in 0..PORTS {
        let (switch, host) = (n % SWITCHES, n / SWITCHES + 1);
        let spec = format!("switch: s{switch}, vif: {{}}, addresses: [10.{switch}.0.{host}]");
        say("LogicalPort", &format!("p{n}"), &spec);
        let group = if is_plain { n % GROUPS } else { rng.below(GROUPS) };
        members[group as usize].push(format!("p{n}"));
    }
    for (n, ports) in members.iter().enumerate() {
        say("PortGroup", &format!("g{n}"), &format!("ports: [{}]", ports.join(", ")));
    }
    let each = RULES / GROUPS;
    for n in 0..GROUPS {
        let rules = (0..each).map(|i| {
            let peer = match rng.below(4) {
                0 => format!("prefixes: [10.{}.0.0/{}]", rng.below(SWITCHES), 16 + rng.below(9)),
                _ => format!("groups: [g{}]", rng.below(GROUPS)),
            };
            let first = 1 + rng.below(2_000);
            let ports = match rng.below(4) {
                0 => format!("{first}-{}", first + rng.below(1_000)),
                _ => format!("{first}"),
            };
            let protocol = ["tcp", "tcp", "udp"][rng.below(3) as usize];
            let action = ["allow", "allow", "allow", "drop"][rng.below(4) as usize];
            format!(
                "{{name: r{i}, direction: toPort, action: {action}, peer: {{{peer}}}, services: \
                 [{{protocol: {protocol}, ports: [{ports}]}}]}}"
            )
        });
        let rules: Vec<_> = rules.collect();
        let spec = format!("appliesTo: {{groups: [g{n}]}}, rules: [{}]", rules.join(", "));
        say("Policy", &format!("of-g{n}"), &spec);
    }
    text
}

fn network(text: &str) -> Topology {
    load(text).unwrap_or_else(|faults| panic!("{faults:#?}"))
}

fn thousand(c: &mut Criterion) {
    for (name, is_plain) in [("plain", true), ("spread", false)] {
        let text = declare(1, is_plain);
        let topology = network(&text);
        let changed = network(&text.replacen("action: drop", "action: allow", 10));
        let all = matrix(&topology).expect("nothing is translated");
        let classes = all.ports().len();
        let name = format!("1000 ports, 5000 rules, {name}: {classes} classes of ports");
        let mut group = c.benchmark_group(name);
        group.sample_size(10);
        group.bench_function("matrix", |b| b.iter_with_large_drop(|| matrix(&topology)));
        group.bench_function("rows", |b| b.iter_with_large_drop(|| all.reached_rows()));
        for text in ["switch s0 never reaches switch s1 by sctp", "switch s0 reaches switch s1"] {
            let sentence = Sentence::read(&topology, text).expect("it makes sense");
            group.bench_function(text, |b| b.iter(|| all.prove(&topology, &sentence)));
        }
        let other = matrix(&changed).expect("nothing is translated");
        group.bench_function("changes", |b| b.iter_with_large_drop(|| other.changes(&all)));
        group.finish();
    }
}

criterion_group!(benches, thousand);
criterion_main!(benches);
