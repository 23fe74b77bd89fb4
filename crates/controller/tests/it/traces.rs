//! What a controller says of packets is what the interpreter and agents say, and tenants are told
//! of what is theirs.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use binding::{Networks, Settings};
use controller::{Explained, Role};
use logical::Topology;
use logical::objects::Identity;
use logical::topology::Attachment;
use lossless::{PortConfig, Switch};
use model::PacketRefused;
use pipeline::Net;
use reach::Question;
use serde_json::{Value, json};
use units::{Instant, Rng};
use worlds::{Options, World};

use crate::client::{Answer, Served};
use crate::tenants::{As, Guarded};

const SHOP: &str = include_str!("../../../../examples/shop.yaml");

fn ask(served: &Served, question: &Value) -> Answer {
    served.ask("POST", "/v1/trace", &[], &question.to_string())
}

#[test]
fn a_packet_is_explained_by_objects_hosts_and_what_to_change() {
    let served = Served::new();
    served.apply("", SHOP).is(200);
    let host = "[{kind: TransportNode, metadata: {name: h1}, spec: {vteps: [192.0.2.1]}},\
        {kind: Binding, metadata: {name: web-1}, spec: {port: shop/web-1, node: h1}}]";
    served.apply("", host).is(200);
    let question = |port: u16| json!({"from": "shop/web-1", "to": "shop/db-1", "tcp": port});
    let told = ask(&served, &question(5432)).is(200).body;
    assert_eq!(told["outcome"], "delivered");
    assert_eq!(told["delivered"], json!(["LogicalPort/shop/db-1"]));
    assert_eq!(told["revision"], 2);
    assert_eq!(told["hosts"], json!([{"object": "LogicalPort/shop/web-1", "node": "h1"}]));
    let objects = told["objects"].as_array().unwrap();
    for object in ["LogicalPort/shop/web-1", "LogicalRouter/shop/edge", "Policy/shop/db-in"] {
        assert!(objects.contains(&object.into()), "{told}");
    }
    assert_eq!(told.get("remedy"), None);
    let told = ask(&served, &question(22)).is(200).body;
    assert_eq!(told["outcome"], "refused");
    assert_eq!(told["refused"][0]["reason"], "rejected");
    let remedy = &told["remedy"];
    assert_eq!(remedy["object"], "Policy/shop/db-in", "{told}");
    assert!(remedy["what"].as_str().unwrap().contains("`nothing-else`"), "{told}");
    // Nothing was written, or recorded as if it had been.
    assert_eq!(served.catalog.store().revision().0, 2);
    assert_eq!(served.recorded().len(), 2);
    // What is written counts for the next question.
    served.apply("", &SHOP.replace("5432", "5433")).is(200);
    let told = ask(&served, &question(5433)).is(200).body;
    assert_eq!((&told["revision"], &told["outcome"]), (&json!(3), &json!("delivered")));
}

#[test]
fn few_ask_at_once_and_hold_up_no_writes() {
    let served = Served::new();
    served.apply("", SHOP).is(200);
    let question = json!({"from": "shop/web-1", "to": "shop/db-1", "tcp": 5432});
    let asking: Vec<_> = (0..3).map(|_| served.head("POST", "/v1/trace", &[], 100)).collect();
    // Requests that were sent are taken up a moment later.
    let begun = std::time::Instant::now();
    let is_early = || begun.elapsed() < std::time::Duration::from_secs(30);
    while ask(&served, &question).status != 429 {
        assert!(is_early());
    }
    served.apply("", SHOP).is(200);
    drop(asking);
    while ask(&served, &question).status == 429 {
        assert!(is_early());
    }
}

#[test]
fn what_is_no_question_is_refused_by_a_sentence() {
    let served = Served::new();
    served.apply("", SHOP).is(200);
    for (question, status) in [
        (json!({"from": "shop/web-1"}), 400),
        (json!({"from": "web-1", "to": "10.0.2.1"}), 400),
        (json!({"from": "shop/web-9", "to": "10.0.2.1"}), 404),
        (json!({"from": "shop/web-1", "to": "shop/db-9"}), 404),
        (json!({"from": "shop/web-1", "to": "10.0.2.1", "tcp": 1, "udp": 2}), 422),
        (json!({"from": "shop/web-1", "to": "10.0.1.77"}), 422),
        (json!({"from": "shop/web-1", "to": "10.0.2.1", "size": 9001}), 422),
        (json!({"from": "shop/web-1", "to": "10.0.2.1", "tcp": 70000}), 400),
        (json!({"from": "shop/web-1", "to": "10.0.2.1", "port": 7}), 400),
        (json!([]), 400),
    ] {
        ask(&served, &question).is(status);
    }
    served.ask("POST", "/v1/trace", &[], "").is(400);
    served.ask("POST", "/v1/trace", &[], &" ".repeat((1 << 20) + 1)).is(413);
    served.get("/v1/trace").is(405);
}

/// A tenant whose switch and policy another's port is in.
pub const SHARED: &str = "
- {kind: Tenant, metadata: {name: a}, spec: {}}
- {kind: Tenant, metadata: {name: b}, spec: {sharedWith: [a]}}
- {kind: LogicalSwitch, metadata: {name: net, tenant: b}, spec: {subnets: [10.0.0.0/24]}}
- {kind: LogicalPort, metadata: {name: x, tenant: a, labels: {role: web}}, spec: {switch: b/net, vif: {}, addresses: [10.0.0.1]}}
- {kind: LogicalPort, metadata: {name: y, tenant: b}, spec: {switch: net, vif: {}, addresses: [10.0.0.2]}}
- kind: Policy
  metadata: {name: secret, tenant: b}
  spec:
    appliesTo: {switches: [net]}
    rules:
      - {name: hidden, direction: toPort, action: drop, services: [{protocol: tcp, ports: [22]}]}
- kind: Policy
  metadata: {name: all}
  spec:
    tier: operatorFirst
    appliesTo: {selector: {matchLabels: {role: web}}}
    rules:
      - {name: quiet, direction: fromPort, action: drop, services: [{protocol: udp}]}
";

#[test]
fn a_tenant_is_told_of_its_own_objects_and_of_no_other() {
    let guarded = Guarded::new();
    let admin = guarded.admin();
    admin.apply("", SHARED).is(200);
    let (a, b) = (guarded.tenant("a"), guarded.tenant("b"));
    let trace =
        |who: &As<'_>, question: Value| who.ask("POST", "/v1/trace", &[], &question.to_string());
    let of_x = |port: u16| json!({"from": "x", "to": "10.0.0.2", "tcp": port});
    let open = trace(&a, of_x(80)).is(200).body;
    assert_eq!(open["outcome"], "sent");
    assert_eq!(open["objects"], json!(["LogicalPort/a/x"]));
    assert_eq!(open, trace(&a, of_x(22)).is(200).body, "what others refuse is theirs to know");
    assert!(!open.to_string().contains("/b/"), "{open}");
    // The operator's rules at its own port hold it up, and are not named.
    let held = trace(&a, json!({"from": "a/x", "to": "10.0.0.2", "udp": 53})).is(200).body;
    assert_eq!(held["outcome"], "refused");
    assert_eq!(held["refused"][0]["at"], "LogicalPort/a/x");
    assert!(!held.to_string().contains("quiet"), "{held}");
    // Whose port it is, or whether there is one, nobody else learns.
    for from in ["b/y", "b/none"] {
        trace(&a, json!({"from": from, "to": "10.0.0.1"})).is(404);
        trace(&a, json!({"from": "x", "to": from})).is(404);
    }
    let of_y = trace(&b, json!({"from": "y", "to": "10.0.0.1", "tcp": 80})).is(200).body;
    assert!(!of_y.to_string().contains("/a/") && of_y["outcome"] == "sent", "{of_y}");
    let whole = trace(&admin, json!({"from": "a/x", "to": "b/y", "tcp": 22})).is(200).body;
    assert_eq!(whole["refused"][0]["by"], "Policy/b/secret/hidden");
    assert_eq!(whole["remedy"]["object"], "Policy/b/secret");
    let node = guarded.token("h", Role::Node { node: "h".parse().unwrap() });
    trace(&node, json!({"from": "a/x", "to": "b/y"})).is(404);
}

/// A host that has all machines' ports.
fn host(topology: &Topology, now: Instant) -> Networks {
    let own: BTreeSet<Identity> = topology.ports().map(|(_, port)| port.id.clone()).collect();
    let domains = compiler::compile(topology);
    let nets = domains.values().map(|domain| Arc::new(Net::new(&domain.part(&own)))).collect();
    let timeouts = conntrack::Timeouts::default();
    let (connections, zones, tenants, key) = (1024, 64, 8, [1, 2]);
    let connections = conntrack::Settings { connections, zones, tenants, timeouts, key };
    let mut networks = Networks::new(&Settings { connections, flows: 1024, secret: [3, 4] }, now);
    networks.realize(1, nets);
    let mut switch = Switch::<u8>::new(lossless::Settings::default());
    for (_, port) in topology.ports() {
        if !matches!(port.attachment, Attachment::Child { .. }) {
            let id = switch.attach(now, PortConfig::default()).unwrap();
            networks.bind(id, port.id.clone());
        }
    }
    networks
}

/// What is told of a packet: its steps, who gets it, who is answered, and what is refused, each in
/// no order.
fn sorted(told: [Vec<String>; 4]) -> [Vec<String>; 4] {
    told.map(|mut it| {
        it.sort();
        it
    })
}

fn line(at: &impl ToString, by: Option<String>, what: &str) -> String {
    format!("{} {what} by {}", at.to_string(), by.unwrap_or_default())
}

fn by_controller(told: Explained) -> [Vec<String>; 4] {
    let trace = told.explanation.trace;
    let refused = |it: PacketRefused| line(&it.at, it.by, &it.reason);
    sorted([
        trace.steps.into_iter().map(|it| line(&it.at, it.by, &(it.stage + &it.what))).collect(),
        trace.delivered,
        trace.answered,
        trace.refused.into_iter().map(refused).collect(),
    ])
}

fn by_agent(trace: binding::Trace) -> [Vec<String>; 4] {
    let names = |all: &[Identity]| all.iter().map(ToString::to_string).collect();
    let refused = |it: &pipeline::Refusal| {
        line(&it.at, it.by.as_ref().map(ToString::to_string), it.reason.name())
    };
    let step = |it: pipeline::Step| line(&it.at, it.by, &(it.stage.to_owned() + &it.what));
    sorted([
        trace.steps.into_iter().map(step).collect(),
        names(&trace.delivered),
        names(&trace.answered),
        trace.refused.iter().map(refused).collect(),
    ])
}

#[test]
fn a_controller_says_what_agents_say_in_random_worlds() {
    let options = Options {
        stateful: true,
        translations: false,
        learning: true,
        relay: true,
        stray: true,
        strangers: false,
    };
    let now = Instant::from_nanos(1_000_000_000);
    let mut ends = BTreeMap::<String, u32>::new();
    for seed in 0..40 {
        let mut rng = Rng::new(seed);
        let world = World::with(seed, options);
        let topology = &world.topology;
        let (served, host) = (Served::new(), host(topology, now));
        served.apply("", &world.text).is(200);
        let machines = topology.ports().map(|(_, it)| it).filter(|it| it.is_machine());
        let machines: Vec<_> = machines.collect();
        for _ in 0..20 {
            let mut one = || machines[rng.below(machines.len() as u64) as usize];
            let (from, to) = (one(), one());
            let name = |id: &Identity| format!("{}/{}", id.tenant.as_ref().unwrap(), id.name);
            let mut asked =
                Question { from: name(&from.id), to: name(&to.id), ..Default::default() };
            let port = Some([22, 53, 80, 443, 5432][rng.below(5) as usize]);
            match rng.below(4) {
                0 => asked.tcp = port,
                1 => asked.udp = port,
                2 => asked.protocol = Some(47),
                _ => {}
            }
            let answer = ask(&served, &serde_json::to_value(&asked).unwrap());
            let Ok((_, frame)) = asked.frame(topology) else {
                answer.is(422);
                continue;
            };
            let told: Explained = serde_json::from_value(answer.is(200).body).unwrap();
            let Some(trace) = host.trace(now, &from.id, &frame) else { continue };
            *ends.entry(format!("{:?}", told.explanation.trace.outcome)).or_default() += 1;
            assert_eq!(by_controller(told), by_agent(trace), "{seed} {asked:?}\n{}", world.text);
        }
    }
    assert!(ends["Delivered"] > 50 && ends["Refused"] > 50, "{ends:?}");
}
