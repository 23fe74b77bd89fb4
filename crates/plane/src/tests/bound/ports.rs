//! Flows are known by the ports that rules look at.

use super::*;

/// A rule for what `b` gets, as a policy has it.
fn for_b(rules: &str) -> Topology {
    let policy = format!(
        "- {{kind: Policy, metadata: {{name: p, tenant: t}}, \
         spec: {{appliesTo: {{ports: [b]}}, rules: [{rules}]}}}}\n"
    );
    logical::load(&[TWO, &policy].concat()).unwrap_or_else(|faults| panic!("{faults:#?}"))
}

#[test]
fn flows_are_one_that_differ_in_ports_that_nothing_looks_at() {
    let now = Instant::from_nanos(1_000_000_000);
    let cases = [
        ("action: pass", 1, 9),
        ("action: allow, stateful: false", 1, 9),
        ("action: allow, stateful: false, services: [{protocol: udp}]", 1, 9),
        ("action: allow, stateful: false, services: [{protocol: tcp, ports: [2]}]", 3, 9),
        // What is refused is decided each time.
        ("action: drop, services: [{protocol: udp, ports: [2]}]", 2 + 3, 6),
        ("action: drop, services: [{protocol: udp, sourcePorts: [2]}]", 9, 6),
        ("action: allow", 9, 9),
        ("action: allow, stateful: false, log: {severity: info}", 9, 9),
    ];
    for (rule, anew, arrive) in cases {
        let mut host =
            Hosts::new(&for_b(&format!("{{name: r, direction: toPort, {rule}}}")), 1, MEMORY);
        let a = host.ends.keys().next().unwrap().clone();
        let mut got = 0;
        for (source, destination) in (1..4).flat_map(|it| (1..4).map(move |other| (it, other))) {
            host.offer(&a, &datagram_of(source, destination));
            got += host.turn(now).len();
        }
        let decided = host.planes[0].logical().unwrap().decided();
        assert_eq!((decided.anew, got), (anew, arrive), "{rule}");
    }
}

#[test]
fn who_knows_flows_tells_them_apart_as_rules_do() {
    let now = Instant::from_nanos(1_000_000_000);
    let mut known = 0;
    for seed in 0..60 {
        let mut rng = Rng::new(seed);
        let rules = (0..1 + rng.below(3)).map(|number| {
            let mut one = |of: &[&'static str]| of[rng.below(of.len() as u64) as usize];
            let action = one(&["allow, stateful: false", "allow, stateful: true", "drop", "pass"]);
            let protocol = one(&["udp", "udp", "tcp"]);
            let ports = one(&["", ", ports: [1-2]", ", ports: [3]", ", ports: [2-3]"]);
            let sources = one(&["", "", ", sourcePorts: [1-2]", ", sourcePorts: [3]"]);
            format!(
                "{{name: r{number}, direction: toPort, action: {action}, \
                 services: [{{protocol: {protocol}{ports}{sources}}}]}}"
            )
        });
        let rules: Vec<_> = rules.collect();
        let topology = for_b(&rules.join(", "));
        let mut all = [64, 0].map(|it| Hosts::remembering(it, &topology, 1, MEMORY));
        let a = all[0].ends.keys().next().unwrap().clone();
        for _ in 0..60 {
            let frame = datagram_of(rng.below(4) as u16, rng.below(4) as u16);
            let [seen, expected] = all.each_mut().map(|host| {
                host.offer(&a, &frame);
                host.turn(now)
            });
            assert_eq!(seen, expected, "{seed}: {frame:02x?} {rules:?}");
        }
        known += all[0].known();
    }
    assert!(known > 1000, "{known}");
}
