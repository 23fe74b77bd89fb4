//! More of the corner cases: learning, groups' reports, routers behind routers.

use super::*;

#[test]
fn addresses_are_learned_behind_ports_that_take_unknown_ones() {
    let port = |number: u8| {
        format!(
            "- {{kind: LogicalPort, metadata: {{name: u{number}, tenant: t}}, spec: {{switch: l, vif: {{}}, \
             mac: '02:00:00:00:00:1{number}', unknown: true, security: {{mode: 'off'}}}}}}\n"
        )
    };
    let switch = "- {kind: LogicalSwitch, metadata: {name: l, tenant: t}, spec: {macLearning: true, unknownUnicast: flood}}\n";
    let mut net = Net::new(&[switch, &port(1), &port(2), &port(3)].concat());
    let (x, y) = (Mac([2, 0, 0, 0, 9, 1]), Mac([2, 0, 0, 0, 9, 2]));
    let decision = net.send("u1", &udp_of([x, y], AB, [1, 2]));
    assert_eq!(decision.delivered.len(), 2, "{}", told(&decision));
    net.gets("u2", &udp_of([y, x], BA, [2, 1]), "u1");
    // It is seen elsewhere, and goes there.
    net.gets("u3", &udp_of([x, y], AB, [1, 2]), "u2");
    net.gets("u2", &udp_of([y, x], BA, [2, 1]), "u3");
    // What a port declares is nobody else's.
    net.silently_refuses(
        "u1",
        &udp_of([Mac([2, 0, 0, 0, 0, 0x12]), y], AB, [1, 2]),
        Reason::Spoofed,
    );
}

#[test]
fn reports_of_groups_need_no_rule() {
    let closed = ["a", "b"].map(|port| with_policy(port, "defaultAction: drop,", "")).concat();
    let mut net = Net::new(&closed);
    let group = wire::membership::group_mac_v4(v4("239.0.0.9"));
    let report = frame([A, group], ["10.1.0.1", "239.0.0.9"], 2, &[0x16, 0, 0, 0, 239, 0, 0, 9]);
    net.gets("a", &summed(report, 2, false), "b");
    net.silently_refuses(
        "a",
        &udp_of([A, group], ["10.1.0.1", "239.0.0.9"], [1, 2]),
        Reason::Policy,
    );
}

#[test]
fn routers_behind_routers_each_take_a_hop() {
    let far = "\
- {kind: LogicalSwitch, metadata: {name: far, tenant: t}, spec: {subnets: [10.7.0.0/24]}}
- {kind: LogicalPort, metadata: {name: d, tenant: t}, spec: {switch: far, vif: {}, mac: '02:00:00:00:00:04', addresses: [10.7.0.4]}}
- {kind: LogicalRouter, metadata: {name: r2, tenant: t}, spec: {routes: [{prefix: 10.1.0.0/24, nextHop: 10.8.0.1}]}}
- {kind: RouterPort, metadata: {name: r2-far, tenant: t}, spec: {router: r2, mac: '02:00:00:00:01:01', addresses: [10.7.0.254/24]}}
- {kind: RouterPort, metadata: {name: r2-r, tenant: t}, spec: {router: r2, mac: '02:00:00:00:01:02', addresses: [10.8.0.2/30], peer: r-r2}}
- {kind: RouterPort, metadata: {name: r-r2, tenant: t}, spec: {router: r, mac: '02:00:00:00:01:03', addresses: [10.8.0.1/30], peer: r2-r}}
- {kind: LogicalPort, metadata: {name: far-r2, tenant: t}, spec: {switch: far, router: {routerPort: r2-far}}}
";
    let routed = WORLD.replace(
        "{name: r, tenant: t}, spec: {}",
        "{name: r, tenant: t}, spec: {routes: [{prefix: 10.7.0.0/24, nextHop: 10.8.0.2}]}",
    );
    let mut net = Net::new("");
    net.topology =
        logical::load(&[&routed[..], far].concat()).unwrap_or_else(|it| panic!("{it:#?}"));
    let mut there = udp_of([A, LAN], ["10.1.0.1", "10.7.0.4"], [1, 2]);
    assert_eq!(ip(&net.gets("a", &there, "d")).ttl, 62);
    let back = [Mac([2, 0, 0, 0, 0, 4]), Mac([2, 0, 0, 0, 1, 1])];
    assert_eq!(ip(&net.gets("d", &udp_of(back, ["10.7.0.4", "10.1.0.1"], [2, 1]), "a")).ttl, 62);
    // The second router tells of what ends there.
    ttl(&mut there, 2);
    let answer = net.refuses("a", &there, Reason::TimeToLive).unwrap();
    assert_eq!(ip(&answer).tuple.source.0, v4("10.8.0.2"));
}

#[test]
fn nothing_enters_or_leaves_by_what_is_switched_off() {
    let mut net = Net::new("");
    let off = |from: &str, to: &str| WORLD.replace(from, to);
    let port = "{switch: lan, router: {routerPort: r-lan}}";
    let text = off(port, "{switch: lan, enabled: false, router: {routerPort: r-lan}}");
    assert_ne!(text, WORLD);
    net.topology = logical::load(&text).unwrap_or_else(|it| panic!("{it:#?}"));
    net.silently_refuses("a", &udp_of([A, LAN], AC, [1, 2]), Reason::Disabled);
    // A way by a port that is down is none, though a policy of routes wants it.
    let policies = "{name: r, tenant: t}, spec: {policies: [{name: p, priority: 1, \
                    action: {reroute: {nextHops: [{nextHop: 10.2.0.3}]}}}]}";
    let text = off("{name: r, tenant: t}, spec: {}", policies);
    assert_ne!(text, WORLD);
    let text = text.replace(
        "spec: {router: r, mac: '02:00:00:00:00:fd'",
        "spec: {router: r, enabled: false, mac: '02:00:00:00:00:fd'",
    );
    net.topology = logical::load(&text).unwrap_or_else(|it| panic!("{it:#?}"));
    net.refuses("a", &udp_of([A, LAN], AC, [1, 2]), Reason::NoRoute);
}

#[test]
fn routers_find_what_another_router_translates_on_their_switch() {
    let other = "\
- {kind: LogicalSwitch, metadata: {name: far, tenant: t}, spec: {subnets: [10.7.0.0/24]}}
- {kind: LogicalPort, metadata: {name: d, tenant: t}, spec: {switch: far, vif: {}, mac: '02:00:00:00:00:04', addresses: [10.7.0.4]}}
- {kind: LogicalRouter, metadata: {name: q, tenant: t}, spec: {}}
- {kind: RouterPort, metadata: {name: q-far, tenant: t}, spec: {router: q, mac: '02:00:00:00:01:01', addresses: [10.7.0.254/24]}}
- {kind: RouterPort, metadata: {name: q-wan, tenant: t}, spec: {router: q, mac: '02:00:00:00:01:02', addresses: [10.2.0.253/24]}}
- {kind: LogicalPort, metadata: {name: far-q, tenant: t}, spec: {switch: far, router: {routerPort: q-far}}}
- {kind: LogicalPort, metadata: {name: wan-q, tenant: t}, spec: {switch: wan, router: {routerPort: q-wan}}}
";
    let mut net = Net::new(&[other, FLOATING].concat());
    let macs = [Mac([2, 0, 0, 0, 0, 4]), Mac([2, 0, 0, 0, 1, 1])];
    let got = net.gets("d", &udp_of(macs, ["10.7.0.4", "10.2.0.101"], [1, 2]), "a");
    assert_eq!(ip(&got).tuple.destination.0, v4("10.1.0.1"));
}
