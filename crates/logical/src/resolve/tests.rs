use alloc::string::String;
use core::net::IpAddr;

use units::Mac;

use crate::objects::{Direction, Name, Object};
use crate::topology::{Attachment, Link, Target, Topology, Verdict};
use crate::{load, read};

const SHOP: &str = include_str!("../../../../examples/shop.yaml");

/// A tenant with one switch, and whatever else is declared.
fn with(more: &str) -> String {
    let begin = "\
- {kind: Tenant, metadata: {name: shop}, spec: {}}
- {kind: Tenant, metadata: {name: other}, spec: {}}
- {kind: LogicalSwitch, metadata: {name: web, tenant: shop}, spec: {subnets: [10.0.0.0/24, fd00::/64]}}
- {kind: LogicalRouter, metadata: {name: edge, tenant: shop}, spec: {}}
- {kind: RouterPort, metadata: {name: lan, tenant: shop}, spec: {router: edge, mac: '02:00:00:00:00:fe', addresses: [10.0.0.254/24]}}
- {kind: LogicalPort, metadata: {name: web-lan, tenant: shop}, spec: {switch: web, router: {routerPort: lan}}}
";
    let mut text = String::from(begin);
    text.push_str(more);
    text
}

/// What is told of such a declaration: path and message.
#[track_caller]
fn refused(more: &str, path: &str, message: &str) {
    let faults = load(&with(more)).expect_err("it is refused");
    let found = faults.iter().any(|it| it.path == path && it.message.contains(message));
    assert!(found, "{path}: {message}\nis not among {faults:#?}");
    assert!(faults.iter().all(|it| it.position.is_some()), "{faults:#?}");
}

fn resolved(more: &str) -> Topology {
    load(&with(more)).unwrap_or_else(|faults| panic!("{faults:#?}"))
}

/// A machine's port.
fn port(name: &str, more: &str) -> String {
    alloc::format!(
        "- {{kind: LogicalPort, metadata: {{name: {name}, tenant: shop}}, \
         spec: {{switch: web, {more}}}}}\n"
    )
}

#[test]
fn the_example_is_resolved() {
    let topology = load(SHOP).unwrap_or_else(|faults| panic!("{faults:#?}"));
    let web1 = topology.port("shop", "web-1").unwrap();
    assert_eq!(topology[web1].mac, Mac([2, 0, 0, 0, 1, 1]));
    let web2 = topology.port("shop", "web-2").unwrap();
    assert_ne!(topology[web2].mac, Mac([0; 6]));
    let policy = topology.policies().next().unwrap().1;
    assert_eq!(policy.ports, [topology.port("shop", "db-1").unwrap()].into());
    assert_eq!(policy.rules[0].verdict, Verdict::Allow { stateful: true });
    assert_eq!(policy.rules[0].direction, Direction::ToPort);
    let source = policy.rules[0].conditions[0].source.as_ref().unwrap();
    assert_eq!(topology.ports_of(source).collect::<Vec<_>>(), [web1, web2]);
    let (_, edge) = topology.routers().next().unwrap();
    assert_eq!(edge.ports.len(), 2);
    for port in &edge.ports {
        let Link::Switch(at) = topology[*port].link else { panic!("it leads to a switch") };
        assert_eq!(topology[at].attachment, Attachment::Router(*port));
        assert_eq!(topology[at].mac, topology[*port].mac);
    }
}

#[test]
fn the_order_of_declarations_does_not_matter() {
    let mut objects = read(SHOP).objects;
    let one = crate::resolve(&objects).unwrap();
    objects.reverse();
    assert_eq!(crate::resolve(&objects).unwrap(), one);
}

#[test]
fn what_was_read_is_written_and_read_again() {
    let objects = read(SHOP).objects;
    let json = serde_json::to_string_pretty(&objects).unwrap();
    let again = read(&json);
    assert_eq!(again.faults, []);
    assert_eq!(again.objects, objects);
}

#[test]
fn every_fault_is_told_at_once() {
    let text = with(
        &[
            &port("a", "vif: {}, addresses: [10.0.0.1]")[..],
            &port("b", "vif: {}, addresses: [10.0.0.1, 10.9.0.1]"),
            &port("b", "vif: {}, local: {}"),
            &port("c", "vif: {}, dhcp4: nobody"),
        ]
        .concat(),
    );
    let faults = load(&text).unwrap_err();
    let paths: alloc::vec::Vec<_> = faults.iter().map(|it| it.path.as_str()).collect();
    assert_eq!(
        paths,
        ["/spec/addresses/0", "/spec/addresses/1", "/metadata/name", "/spec/local", "/spec/dhcp4"],
        "{faults:#?}"
    );
}

#[test]
fn references_lead_somewhere() {
    refused(
        "- {kind: LogicalPort, metadata: {name: a, tenant: shop}, spec: {switch: wep, vif: {}}}",
        "/spec/switch",
        "there is no LogicalSwitch/shop/wep: did you mean `web`?",
    );
    refused(
        "- {kind: LogicalPort, metadata: {name: a, tenant: none}, spec: {switch: web, vif: {}}}",
        "/metadata/tenant",
        "there is no Tenant/none",
    );
    refused(
        "- {kind: LogicalPort, metadata: {name: a, tenant: other}, spec: {switch: shop/web, vif: {}}}",
        "/spec/switch",
        "tenant `shop` shares nothing with `other`",
    );
    refused(&port("a", "vif: {}, node: [h1]"), "/spec/node/0", "there is no TransportNode/h1");
}

#[test]
fn annotations_are_bounded_together() {
    let noted = |bytes: usize| {
        let (one, other) = ("x".repeat(bytes / 2), "y".repeat(bytes - bytes / 2));
        alloc::format!(
            "- {{kind: LogicalSwitch, metadata: {{name: noted, tenant: shop, \
             annotations: {{a: {one}, b: {other}}}}}, spec: {{}}}}"
        )
    };
    let most = (256 << 10) - "ab".len();
    resolved(&noted(most));
    let message = "these have 262145 bytes together: write at most 262144";
    refused(&noted(most + 1), "/metadata/annotations", message);
}

#[test]
fn a_tenant_shares_what_it_says_it_shares() {
    let text = "\
- {kind: Tenant, metadata: {name: shop}, spec: {sharedWith: [other]}}
- {kind: Tenant, metadata: {name: other}, spec: {}}
- {kind: LogicalSwitch, metadata: {name: web, tenant: shop}, spec: {}}
- {kind: LogicalPort, metadata: {name: a, tenant: other}, spec: {switch: shop/web, vif: {}}}
";
    assert!(load(text).is_ok());
}

#[test]
fn addresses_are_inside_their_subnets_and_each_is_one_ports() {
    let a = port("a", "vif: {}, mac: '02:00:00:00:00:01', addresses: [10.0.0.1]");
    let b = |more| [&a[..], &port("b", more)].concat();
    refused(
        &b("vif: {}, mac: '02:00:00:00:00:01'"),
        "/spec/mac",
        "is LogicalPort/shop/a's already",
    );
    refused(&b("vif: {}, addresses: [10.0.0.1]"), "/spec/addresses/0", "is LogicalPort/shop/a's");
    refused(
        &b("vif: {}, addresses: [10.0.0.254]"),
        "/spec/addresses/0",
        "is RouterPort/shop/lan's",
    );
    refused(&b("vif: {}, addresses: [10.1.0.1]"), "/spec/addresses/0", "10.0.0.0/24 and fd00::/64");
    refused(&b("vif: {}, addresses: [10.0.0.255]"), "/spec/addresses/0", "everybody in it");
    refused(&b("vif: {}, addresses: [224.0.0.1]"), "/spec/addresses/0", "cannot be a machine's");
    refused(&b("vif: {}, addresses: ['::ffff:10.0.0.2']"), "/spec/addresses/0", "within IPv6");
    refused(&b("vif: {}, mac: '01:00:00:00:00:01'"), "/spec/mac", "nobody's own");
    refused(&b("vif: {}, mac: '00:00:00:00:00:00'"), "/spec/mac", "nobody's own");
    resolved(&b("vif: {}, addresses: [10.1.0.1, fd00::1], allowOutside: true"));
}

#[test]
fn subnets_and_routers_prefixes_are_apart() {
    refused(
        "- {kind: LogicalSwitch, metadata: {name: db, tenant: shop}, spec: {subnets: [10.0.0.0/8, 10.1.0.0/16]}}",
        "/spec/subnets/1",
        "overlaps 10.0.0.0/8",
    );
    refused(
        "- {kind: LogicalSwitch, metadata: {name: db, tenant: shop}, spec: {subnets: [10.0.0.1/24]}}",
        "/spec/subnets/0",
        "write 10.0.0.0/24",
    );
    refused(
        "- {kind: LogicalSwitch, metadata: {name: db, tenant: shop}, spec: {mtu: 1279}}",
        "/spec/mtu",
        "write 1280 to 9216",
    );
    refused(
        "- {kind: RouterPort, metadata: {name: wan, tenant: shop}, spec: {router: edge, mac: '02:00:00:00:00:fd', addresses: [10.0.0.1/16]}}",
        "/spec/addresses/0",
        "overlaps 10.0.0.0/24",
    );
}

#[test]
fn a_port_stands_for_one_thing() {
    refused(&port("a", "addresses: []"), "/spec", "what it stands for is missing");
    refused(&port("a", "vif: {}, local: {}"), "/spec/local", "`vif` already");
    refused(&port("a", "provider: {}"), "/spec/provider", "has no `provider`");
    refused(
        &port("a", "router: {routerPort: lan}"),
        "/spec/router/routerPort",
        "leads to one switch",
    );
    let nested = [
        &port("a", "vif: {}")[..],
        &port("b", "child: {parent: a, vlan: 7}"),
        &port("c", "child: {parent: b, vlan: 7}"),
    ];
    refused(&nested.concat(), "/spec/child/parent", "only a `vif` has children");
    refused(&port("b", "child: {parent: a, vlan: 0}"), "/spec/child/vlan", "1 to 4094");
    refused(
        &port("a", "vif: {}, security: {own: false}"),
        "/spec/security/own",
        "nothing is allowed",
    );
}

#[test]
fn groups_form_no_circle_and_are_not_too_deep() {
    let group = |name: &str, include: &str| {
        alloc::format!(
            "- {{kind: PortGroup, metadata: {{name: {name}, tenant: shop}}, spec: {{include: [{include}]}}}}\n"
        )
    };
    let circle = [group("a", "b"), group("b", "c"), group("c", "a")].concat();
    refused(&circle, "/spec/include/0", "the group is within itself, a → b → c → a");
    refused(&group("a", "a"), "/spec/include/0", "a → a");
    let chain = |length: u32| -> String {
        let middle =
            (1..length).map(|i| group(&alloc::format!("g{i}"), &alloc::format!("g{}", i + 1)));
        middle.chain([group(&alloc::format!("g{length}"), "")]).collect()
    };
    resolved(&chain(8));
    refused(&chain(9), "/spec/include/0", "more than 8 deep");
}

#[test]
fn groups_have_the_ports_of_the_groups_in_them() {
    let topology = resolved(&[
        &port("a", "vif: {}")[..],
        &port("b", "vif: {}"),
        "- {kind: PortGroup, metadata: {name: inner, tenant: shop}, spec: {ports: [b]}}\n",
        "- {kind: PortGroup, metadata: {name: outer, tenant: shop}, spec: {ports: [a], include: [inner]}}\n",
        "- {kind: Policy, metadata: {name: p, tenant: shop}, spec: {appliesTo: {groups: [outer]}}}\n",
    ]
    .concat());
    let ports = ["a", "b"].map(|name| topology.port("shop", name).unwrap());
    assert_eq!(topology.policies().next().unwrap().1.ports, ports.into());
}

#[test]
fn next_hops_are_neighbours() {
    let router = |route: &str| {
        alloc::format!(
            "- {{kind: LogicalRouter, metadata: {{name: r, tenant: shop}}, spec: {{routes: [{route}]}}}}\n\
             - {{kind: RouterPort, metadata: {{name: r-lan, tenant: shop}}, spec: {{router: r, mac: '02:00:00:00:00:0a', addresses: [10.5.0.1/24]}}}}\n"
        )
    };
    refused(
        &router("{prefix: 0.0.0.0/0, nextHop: 10.6.0.1}"),
        "/spec/routes/0/nextHop",
        "in no prefix",
    );
    refused(
        &router("{prefix: 0.0.0.0/0, nextHop: 10.5.0.1}"),
        "/spec/routes/0/nextHop",
        "the router itself",
    );
    refused(
        &router("{prefix: 0.0.0.0/0, nextHop: fd00::1}"),
        "/spec/routes/0/nextHop",
        "another family",
    );
    refused(&router("{prefix: 0.0.0.0/0}"), "/spec/routes/0", "exactly one of");
    refused(
        &router("{prefix: 10.0.0.1/8, discard: true}"),
        "/spec/routes/0/prefix",
        "write 10.0.0.0/8",
    );
    refused(
        &router("{prefix: 0.0.0.0/0, nextHop: 10.6.0.1, via: lan}"),
        "/spec/routes/0/via",
        "another router's",
    );
    let topology =
        resolved(&router("{prefix: 0.0.0.0/0, nextHop: 10.6.0.1, via: r-lan, onlink: true}"));
    let router = topology.routers().find(|(_, it)| it.id.name.as_str() == "r").unwrap().1;
    let Target::Hops { hops, .. } = &router.routes[0].target else { panic!("it has a hop") };
    assert_eq!(hops[0].address, "10.6.0.1".parse::<IpAddr>().unwrap());
}

#[test]
fn external_addresses_are_granted() {
    let nat = "- {kind: Nat, metadata: {name: out, tenant: shop}, spec: {router: edge, kind: snat, external: 198.51.100.1, logical: 10.0.0.0/24}}\n";
    refused(nat, "/spec/external", "no ExternalPool grants");
    let pool = "- {kind: ExternalPool, metadata: {name: world}, spec: {prefixes: [198.51.100.0/24], tenants: [shop]}}\n";
    let topology = resolved(&[nat, pool].concat());
    assert_eq!(topology.routers().next().unwrap().1.nats.len(), 1);
    let wide = nat
        .replace("kind: snat, external: 198.51.100.1", "kind: floating, external: 198.51.100.0/25");
    refused(&[&wide[..], pool].concat(), "/spec/logical", "one to one");
}

#[test]
fn rules_say_what_can_be_so() {
    let policy = |more: &str| {
        alloc::format!(
            "- {{kind: Policy, metadata: {{name: p, tenant: shop}}, spec: {{appliesTo: {{switches: [web]}}, {more}}}}}\n"
        )
    };
    let rule = |more: &str| {
        policy(&alloc::format!("rules: [{{name: r, direction: toPort, action: allow, {more}}}]"))
    };
    refused(
        &rule("services: [{protocol: icmp, ports: [7]}]"),
        "/spec/rules/0/services/0/ports",
        "no ports",
    );
    refused(
        &rule("services: [{protocol: tcp, icmpType: 8}]"),
        "/spec/rules/0/services/0",
        "no ICMP type",
    );
    refused(
        &rule("ethertype: arp, stateful: true"),
        "/spec/rules/0/stateful",
        "only IP has connections",
    );
    refused(
        &rule("peer: {groups: [g]}"),
        "/spec/rules/0/peer/groups/0",
        "there is no PortGroup/shop/g",
    );
    refused(&rule("services: [http]"), "/spec/rules/0/services/0", "there is no Service/shop/http");
    refused(&rule("sample: 1001"), "/spec/rules/0/sample", "write 0 to 1000");
    refused(&policy("tier: operatorFirst"), "/spec/tier", "the operator's policies only");
    refused(&policy("order: 1001"), "/spec/order", "0 to 1000");
    refused(&policy("level: 4"), "/spec/level", "0 to 3");
    let twice = "rules: [{name: r, direction: toPort, action: allow, priority: 7}, {name: r, direction: toPort, action: drop}]";
    refused(&policy(twice), "/spec/rules/1/name", "there already");
    refused(&policy(twice), "/spec/rules/1", "add one here");
    refused(
        "- {kind: Policy, metadata: {name: p, tenant: shop}, spec: {appliesTo: {}}}",
        "/spec/appliesTo",
        "holds for nobody",
    );
}

#[test]
fn health_checks_are_of_what_can_be_asked() {
    let balancer = |spec: &str| {
        alloc::format!(
            "- {{kind: LoadBalancer, metadata: {{name: l, tenant: shop}}, spec: {{vip: 10.9.9.9, \
             attach: [{{switch: web}}], backends: [{{ip: 10.0.0.1}}], {spec}}}}}\n"
        )
    };
    let path = "/spec/healthCheck";
    refused(&balancer("protocol: udp, port: 53, healthCheck: {}"), path, "TCP");
    refused(&balancer("protocol: tcp, healthCheck: {}"), path, "port");
    for (field, wrong) in [
        ("interval", "interval: 99ms, timeout: 99ms"),
        ("timeout", "timeout: 0s"),
        ("timeout", "interval: 1s, timeout: 2s"),
        ("failures", "failures: 0"),
        ("successes", "successes: 101"),
    ] {
        let text = balancer(&alloc::format!("protocol: tcp, port: 80, healthCheck: {{{wrong}}}"));
        refused(&text, &alloc::format!("{path}/{field}"), "");
    }
    let right = "protocol: tcp, port: 80, healthCheck: {interval: 100ms, timeout: 100ms}";
    let topology = resolved(&balancer(right));
    let (_, it) = topology.balancers().next().unwrap();
    assert_eq!(it.health_check.map(|it| (it.failures, it.successes)), Some((3, 2)));
}

#[test]
fn quotas_bind() {
    let text = SHOP.replace("ports: 100,", "ports: 3,");
    let faults = load(&text).unwrap_err();
    assert_eq!(faults.len(), 2, "{faults:#?}");
    assert!(faults[0].message.contains("may have 3 by `quota.ports`"));
}

/// Another switch with a port, and what joins it with the first one's router.
const FAR: &str = "\
- {kind: LogicalSwitch, metadata: {name: far, tenant: shop}, spec: {}}
- {kind: LogicalPort, metadata: {name: c, tenant: shop}, spec: {switch: far, vif: {}}}
- {kind: RouterPort, metadata: {name: wan, tenant: shop}, spec: {router: edge, mac: '02:00:00:00:00:fd', addresses: [10.9.0.254/24]}}
";
const JOINED: &str = "- {kind: LogicalPort, metadata: {name: far-wan, tenant: shop}, spec: {switch: far, router: {routerPort: wan}}}\n";

/// What is said of the sizes of domains under this quota.
fn too_large(quota: &str, more: &str) -> alloc::vec::Vec<(String, String)> {
    let shop = "{name: shop}, spec: {";
    let text = with(more).replace(shop, &alloc::format!("{shop}quota: {{{quota}}}"));
    let faults = load(&text).err().unwrap_or_default();
    faults.into_iter().map(|it| (it.object, it.message)).collect()
}

#[test]
fn a_tenant_has_so_many_ports_in_a_domain() {
    let apart = [&port("a", "vif: {}")[..], &port("b", "vif: {}"), FAR].concat();
    assert_eq!(too_large("domainPorts: 3", &apart), []);
    assert_eq!(too_large("domainPorts: 5", &(apart.clone() + JOINED)), []);
    let said =
        "tenant `shop` may have 3 ports in one domain by `quota.domainPorts`, and this is one more";
    let first = "LogicalPort/shop/far-wan";
    assert_eq!(
        too_large("domainPorts: 3", &(apart + JOINED)),
        [(first.into(), said.into())],
        "the fourth by name, and not the fifth"
    );
    assert_eq!(too_large("domainPorts: 0", "").len(), 1);
}

#[test]
fn a_tenant_is_at_so_many_hosts_in_a_domain() {
    let nodes = [1, 2, 3].map(|it| {
        alloc::format!("- {{kind: TransportNode, metadata: {{name: h{it}}}, spec: {{vteps: [192.0.2.{it}]}}}}\n")
    });
    let bound = |port: &str, node: &str| {
        alloc::format!(
            "- {{kind: Binding, metadata: {{name: {port}}}, spec: {{port: shop/{port}, node: {node}}}}}\n"
        )
    };
    let ports = [port("a", "vif: {}"), port("b", "vif: {}"), nodes.concat()].concat();
    let child = "- {kind: LogicalPort, metadata: {name: d, tenant: shop}, spec: {switch: far, child: {parent: a, vlan: 7}}}\n";
    let all = [&ports[..], FAR, child, &bound("a", "h1"), &bound("b", "h2"), &bound("c", "h3")];
    let all = all.concat();
    assert_eq!(too_large("domainHosts: 2", &all), []);
    let said = "tenant `shop` may be at 2 hosts in one domain by `quota.domainHosts`, and this is at one more";
    let joined = all.clone() + JOINED;
    assert_eq!(too_large("domainHosts: 2", &joined), [("LogicalPort/shop/c".into(), said.into())]);
    assert_eq!(too_large("domainHosts: 3", &joined), []);
    let one = too_large("domainHosts: 1", &all);
    let of: alloc::vec::Vec<_> = one.iter().map(|(it, _)| it.as_str()).collect();
    assert_eq!(of, ["LogicalPort/shop/b", "LogicalPort/shop/d"], "a child is where its parent is");
}

#[test]
fn ports_are_bound_where_they_may_be() {
    let nodes = "- {kind: TransportNode, metadata: {name: h1}, spec: {vteps: [192.0.2.1]}}\n\
                 - {kind: TransportNode, metadata: {name: h2}, spec: {vteps: [192.0.2.2]}}\n";
    let bound = |node: &str| {
        let port = port("a", "vif: {}, node: [h1]");
        alloc::format!(
            "{nodes}{port}- {{kind: Binding, metadata: {{name: a}}, spec: {{port: shop/a, node: {node}}}}}\n"
        )
    };
    refused(&bound("h2"), "/spec/node", "may not be there");
    let topology = resolved(&bound("h1"));
    let node = topology[topology.port("shop", "a").unwrap()].node.unwrap();
    assert_eq!(topology[node].id.name, "h1".parse::<Name>().unwrap());
}

#[test]
fn what_is_named_and_not_there_is_told_and_nothing_follows_from_it() {
    let text = "
- {kind: LogicalPort, metadata: {name: a, tenant: shop}, spec: {switch: x, vif: {}, addresses: [10.9.0.1]}}
- {kind: LogicalPort, metadata: {name: b, tenant: shop}, spec: {switch: y, vif: {}, addresses: [10.9.0.1]}}
- {kind: LogicalPort, metadata: {name: c, tenant: shop}, spec: {switch: web, router: {routerPort: x}}}
- {kind: LogicalPort, metadata: {name: d, tenant: shop}, spec: {switch: web, router: {routerPort: y}}}
- {kind: LogicalPort, metadata: {name: e, tenant: shop}, spec: {switch: web, child: {parent: x, vlan: 7}}}
- {kind: LogicalPort, metadata: {name: f, tenant: shop}, spec: {switch: web, child: {parent: y, vlan: 7}}}
- {kind: RouterPort, metadata: {name: g, tenant: shop}, spec: {router: x, mac: '02:00:00:00:00:01', addresses: [10.0.0.253/24]}}
";
    let faults = load(&with(text)).unwrap_err();
    assert_eq!(faults.len(), 7, "{faults:#?}");
    assert!(faults.iter().all(|it| it.message.starts_with("there is no ")), "{faults:#?}");
}

#[test]
fn labels_are_words() {
    let labelled = |labels: &str| {
        let text =
            "- {kind: PortGroup, metadata: {name: g, tenant: shop, labels: {LABELS}}, spec: {}}";
        text.replace("LABELS", labels)
    };
    for labels in ["a: ''", "app.example/tier_1: v1.2-x", "A: Z"] {
        resolved(&labelled(labels));
    }
    let long = alloc::format!("a: {}", "x".repeat(64));
    for labels in ["a: 'x,y'", "'a=b': c", "'!a': b", "'': b", "/a: b", "a/b/c: d", "a: -x", &long]
    {
        refused(&labelled(labels), "/metadata/labels", "is no label");
    }
}

#[test]
fn a_status_is_not_read() {
    let text = "- {kind: PortGroup, metadata: {name: g, tenant: shop}, spec: {}";
    let [plain, told] = ["}", ", status: {conditions: [{type: 7}], more: x}}"]
        .map(|end| read(&alloc::format!("{text}{end}")).objects);
    assert_eq!(plain, told);
    assert!(!serde_json::to_string(&told).unwrap().contains("status"));
}

#[test]
fn nothing_that_is_read_makes_it_panic() {
    // Each field of the example in turn is left out, or is something else.
    let objects = read(SHOP).objects;
    let whole: alloc::vec::Vec<serde_json::Value> =
        objects.iter().map(|it: &Object| serde_json::to_value(it).unwrap()).collect();
    for (place, object) in whole.iter().enumerate() {
        let mut paths = alloc::vec::Vec::new();
        collect(object, String::new(), &mut paths);
        for path in paths {
            for value in [
                serde_json::json!(null),
                serde_json::json!(7),
                serde_json::json!("x"),
                serde_json::json!([]),
            ] {
                let mut changed = whole.clone();
                *changed[place].pointer_mut(&path).unwrap() = value;
                let _ = load(&serde_json::to_string(&changed).unwrap());
            }
        }
    }
}

fn collect(value: &serde_json::Value, path: String, paths: &mut alloc::vec::Vec<String>) {
    match value {
        serde_json::Value::Object(fields) => fields.iter().for_each(|(key, value)| {
            collect(value, alloc::format!("{path}/{key}"), paths);
        }),
        serde_json::Value::Array(items) => items.iter().enumerate().for_each(|(i, value)| {
            collect(value, alloc::format!("{path}/{i}"), paths);
        }),
        _ => {}
    }
    paths.push(path);
}
