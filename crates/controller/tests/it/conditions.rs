//! What is so of objects, as agents answer, and waiting for it.

use std::io::Write as _;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::agents::{Controller, Host, PLACES, SHOP, agent, copies};
use crate::client::{Answer, Served};

const WEB_1: &str = "/v1/tenants/shop/logical-ports/web-1";
const SERVICE: &str = "/v1/tenants/shop/services/postgres";

/// A condition of an object, or of whatever has some.
fn condition(of: &Value, kind: &str) -> Value {
    let all = of.pointer("/status/conditions").or_else(|| of.get("conditions")).unwrap();
    let found = all.as_array().unwrap().iter().find(|it| it["type"] == kind);
    found.unwrap_or_else(|| panic!("no {kind}: {of}")).clone()
}

/// Whether it is so, why, and the sentence.
#[track_caller]
fn is(condition: &Value, status: &str, reason: &str, message: &str) {
    let said = condition["message"].as_str().unwrap();
    assert!(
        condition["status"] == status && condition["reason"] == reason && said.contains(message),
        "{condition}"
    );
}

/// A condition of a port, once it has this reason.
fn until(served: &Served, kind: &str, reason: &str) -> Value {
    let begun = Instant::now();
    loop {
        let told = condition(&served.get(WEB_1).is(200).body, kind);
        if told["reason"] == reason {
            return told;
        }
        assert!(begun.elapsed() < Duration::from_secs(60), "{told}");
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// Two hosts, of which each has the machine that is bound to it.
fn hosts(controller: &Controller) -> [Host; 2] {
    [("h1", "shop/web-1"), ("h2", "shop/db-1")]
        .map(|(node, port)| agent(controller, node, &[port], copies()).0)
}

#[test]
fn an_object_is_realized_once_all_hosts_that_have_to_do_with_it_execute_it() {
    let folder = tempfile::tempdir().unwrap();
    let controller = Controller::on(folder.path());
    let served = &controller.served;
    served.apply("", &(SHOP.trim_end().to_owned() + PLACES)).is(200);
    served.settle();
    let waiting = format!("{WEB_1}?waitFor=Realized&timeout=TIMEOUT");
    let early = served.get(&waiting.replace("TIMEOUT", "100ms")).is(200).body;
    is(
        &condition(&early, "Realized"),
        "Unknown",
        "Unreachable",
        "0 execute it, and 2 are not connected: h1, h2",
    );
    is(&condition(&early, "Bound"), "False", "Nowhere", "zovn attach … --logical shop/web-1");
    let status = |path: &str| {
        let mut status = served.get(path).is(200).body["status"].take();
        status.as_object_mut().unwrap().remove("conditions").unwrap();
        status
    };
    let h2 = "/v1/transport-nodes/h2";
    assert_eq!(status(h2), json!({"connected": false}));
    let hosts = hosts(&controller);
    let port = served.get(&waiting.replace("TIMEOUT", "60s")).is(200).body;
    is(&condition(&port, "Realized"), "True", "Executed", "of 2 hosts");
    is(&condition(&port, "Compiled"), "True", "Computed", "");
    is(&condition(&port, "Accepted"), "True", "Valid", "");
    assert_eq!(condition(&port, "Realized")["observedGeneration"], 1);
    let list = served.get("/v1/tenants/shop/logical-ports?limit=1000").is(200).body;
    let listed =
        list["items"].as_array().unwrap().iter().find(|it| it["metadata"]["name"] == "web-1");
    assert_eq!(listed.unwrap()["status"], served.get(WEB_1).body["status"]);

    assert_eq!(status(WEB_1), json!({"nodes": ["h1"]}));
    assert_eq!(status(h2), json!({"connected": true, "lag": 0}));

    // One does not take what is written, and is told; then it does.
    hosts[1].0.lock().unwrap().is_full = true;
    let service = served.get(SERVICE).is(200);
    let (tag, text) = (service.tag(), service.body.to_string());
    let write = |query: &str, tag: &str, port: u16| {
        let text = text.replace("5432", &port.to_string());
        served.put(&format!("{SERVICE}{query}"), &[("if-match", tag)], &text).is(200)
    };
    let refused = write("?waitFor=Realized&timeout=6s", &tag, 5433);
    is(
        &condition(&refused.body, "Realized"),
        "False",
        "Refused",
        "1 execute it, and 1 refuse it: h2 (no room)",
    );
    let at = refused.body["metadata"]["revision"].as_u64().unwrap();
    assert_eq!(status(h2), json!({"connected": true, "lag": 1, "executes": at - 1}));
    // What was before it is realized still, and what is told of its domains is refused, too.
    let port = served.get(WEB_1).body;
    is(&condition(&port, "Realized"), "True", "Executed", "2 execute it");
    let why = "of 2 hosts that have to do with it, 1 refuse what they are told of its domains: h2 (no room)";
    is(&condition(&port, "Degraded"), "True", "Refused", why);
    hosts[1].0.lock().unwrap().is_full = false;
    let taken = write("?waitFor=Realized&timeout=60s", &refused.tag(), 5434);
    is(&condition(&taken.body, "Realized"), "True", "Executed", "2 execute it");
    let conditions = taken.body["status"]["conditions"].as_array().unwrap();
    assert!(conditions.iter().all(|it| it["type"] != "Degraded"), "{conditions:?}");

    // What a write leads to is waited for as a whole, and so is one that changes nothing.
    let text = SHOP.replace("5432", "5435");
    for _ in 0..2 {
        let applied = served.apply("?waitFor=Realized&timeout=60s", &text).is(200).body;
        is(&applied["realized"], "True", "Executed", "2 execute it");
    }
    let deleted = served.ask("DELETE", "/v1/bindings/db-1?waitFor=Realized", &[], "").is(200).body;
    is(&deleted["realized"], "True", "Executed", "2 execute it");
    let newest = deleted["revision"].as_u64().unwrap();
    let revision = served.get(&format!("/v1/revisions/{newest}?waitFor=Realized")).is(200).body;
    is(&condition(&revision, "Realized"), "True", "Executed", "2 execute it");
    assert_eq!(revision["behind"], Value::Null);
    drop(hosts);
}

#[test]
fn a_port_is_ready_once_the_host_that_has_it_executes_it() {
    let folder = tempfile::tempdir().unwrap();
    let controller = Controller::on(folder.path());
    let served = &controller.served;
    served.apply("", &(SHOP.trim_end().to_owned() + PLACES)).is(200);
    let waiting = format!("{WEB_1}?waitFor=PolicyReady&timeout=");
    served.settle();
    let early = served.get(&(waiting.clone() + "100ms")).is(200).body;
    is(&condition(&early, "PolicyReady"), "False", "Nowhere", "no host has it");
    // It does not matter to it how far others are.
    let (host, _) = agent(&controller, "h1", &["shop/web-1"], copies());
    let port = served.get(&(waiting.clone() + "60s")).is(200).body;
    is(&condition(&port, "PolicyReady"), "True", "Executed", "of 1 hosts that have it, 1 execute");
    is(&condition(&port, "Realized"), "Unknown", "Unreachable", "not connected: h2");
    // What it is from now on has to be executed, too.
    host.0.lock().unwrap().is_full = true;
    let relabel = |app: &str| {
        let patch = format!(r#"{{"metadata":{{"labels":{{"app":"{app}"}}}}}}"#);
        served.ask("PATCH", WEB_1, &[], &patch).is(200);
    };
    relabel("other");
    is(&until(served, "PolicyReady", "Refused"), "False", "Refused", "refuse it: h1 (no room)");
    host.0.lock().unwrap().is_full = false;
    relabel("web");
    let port = served.get(&(waiting + "60s")).is(200).body;
    is(&condition(&port, "PolicyReady"), "True", "Executed", "");
    // Only a port has that, and only one object is waited for so.
    let wrong = "waitFor=PolicyReady";
    served.get(&format!("{SERVICE}?{wrong}")).is(400);
    served.get(&format!("/v1/revisions/1?{wrong}")).is(400);
    served.ask("DELETE", &format!("{WEB_1}?{wrong}"), &[], "").is(400);
}

#[test]
fn a_port_that_is_found_at_no_transport_node_is_not_bound() {
    let folder = tempfile::tempdir().unwrap();
    let controller = Controller::on(folder.path());
    let served = &controller.served;
    served.apply("", SHOP).is(200);
    served.settle();
    let _host = agent(&controller, "h1", &["shop/web-1"], copies());
    let until = |reason| until(served, "Bound", reason);
    is(&until("NoTransportNode"), "False", "NoTransportNode", "h1 has it, and is no TransportNode");
    let node = "{kind: TransportNode, metadata: {name: h1}, spec: {vteps: [192.0.2.1]}}";
    served.apply("", node).is(200);
    is(&until("Discovered"), "True", "Discovered", "h1 has it, without a Binding");
    served.ask("DELETE", "/v1/transport-nodes/h1", &[], "").is(200);
    is(&until("NoTransportNode"), "False", "NoTransportNode", "");
}

#[test]
fn who_watches_conditions_is_told_when_hosts_execute_an_object() {
    let folder = tempfile::tempdir().unwrap();
    let controller = Controller::on(folder.path());
    let served = &controller.served;
    served.apply("", &(SHOP.trim_end().to_owned() + PLACES)).is(200);
    served.settle();
    let services = "/v1/tenants/shop/services?watch=true";
    let mut others = served.watch(services, &[]);
    let mut watch = served.watch(&format!("{services}&status=true"), &[]);
    assert_eq!(watch.several(2), ["bookmark 1", "status postgres 1"]);
    // What is told until it is as a read says it: each of the service, and no other than before.
    let mut until_executed = |last: &mut Value| {
        loop {
            let (event, data) = watch.event().unwrap();
            match event.as_str() {
                "put" => assert_eq!(data.get("status"), None),
                "status" => {
                    assert_ne!(data["status"], *last, "it was told already");
                    *last = data["status"].clone();
                    let realized = condition(&data, "Realized");
                    if realized["status"] == "True" {
                        is(&realized, "True", "Executed", "of 2 hosts");
                        return data["metadata"]["revision"].clone();
                    }
                }
                other => assert_eq!(other, "bookmark"),
            }
        }
    };
    let mut last = Value::Null;
    let hosts = hosts(&controller);
    assert_eq!(until_executed(&mut last), 1);
    assert_eq!(last, served.get(SERVICE).body["status"]);
    // Also one whose conditions end as they were: a client has the object without them.
    let executed = std::mem::take(&mut last);
    served.ask("PATCH", SERVICE, &[], r#"{"metadata":{"labels":{"a":"b"}}}"#).is(200);
    assert_eq!(until_executed(&mut last), 2);
    assert_eq!(last, executed);
    // Who has not asked for conditions is told of none.
    let told = std::iter::from_fn(|| others.next()).take_while(|it| it != "bookmark 2");
    let told: Vec<_> = told.filter(|it| it != "bookmark 1").collect();
    assert_eq!(told, ["put postgres 2"]);
    served.get("/v1/tenants/shop/services?status=true").is(400);
    drop(hosts);
}

#[test]
fn what_was_written_is_told_though_its_revision_is_forgotten_meanwhile() {
    let served = Served::new();
    served.apply("", &(SHOP.trim_end().to_owned() + PLACES)).is(200);
    let (path, patch) =
        (format!("{WEB_1}?waitFor=Realized&timeout=2s"), r#"{"spec":{"enabled":false}}"#);
    let mut waiting = served.head("PATCH", &path, &[], patch.len());
    waiting.write_all(patch.as_bytes()).unwrap();
    let begun = Instant::now();
    while served.catalog.store().revision().0 < 2 {
        assert!(begun.elapsed() < Duration::from_secs(60));
    }
    for name in ["t", "u", "v"] {
        let tenant = format!("{{kind: Tenant, metadata: {{name: {name}}}, spec: {{}}}}");
        served.apply("", &tenant).is(200);
    }
    served.catalog.store().compact(served.catalog.store().revision()).unwrap();
    let told = Answer::read(waiting).is(200).body;
    assert_eq!(
        (&told["metadata"]["revision"], &told["spec"]["enabled"]),
        (&2.into(), &false.into())
    );
}

#[test]
fn a_group_or_a_policy_without_ports_is_told_of() {
    let served = Served::new();
    let port = "{kind: LogicalPort, metadata: {name: p, tenant: t, labels: {app: web}}, spec: {switch: s, vif: {}}}";
    let policy = |name: &str, to: &str| {
        format!(
            "- {{kind: Policy, metadata: {{name: {name}, tenant: t}}, spec: {{appliesTo: {{{to}}}, rules: [{{name: r, direction: toPort, action: drop}}]}}}}\n"
        )
    };
    let objects = "
- {kind: Tenant, metadata: {name: t}, spec: {}}
- {kind: LogicalSwitch, metadata: {name: s, tenant: t}, spec: {}}
- {kind: PortGroup, metadata: {name: g, tenant: t}, spec: {selector: {matchLabels: {app: web}}}}
- {kind: PortGroup, metadata: {name: h, tenant: t}, spec: {include: [g]}}
"
    .to_owned()
        + &policy("grouped", "groups: [h]")
        + &policy("selected", "selector: {matchLabels: {app: web}}")
        + &policy("switched", "switches: [s]");
    served.apply("", &objects).is(200);
    let all = [
        "port-groups/g",
        "port-groups/h",
        "policies/grouped",
        "policies/selected",
        "policies/switched",
    ];
    let has_ports = |told: (&str, &str)| {
        served.settle();
        for path in all {
            let object = served.get(&format!("/v1/tenants/t/{path}")).is(200).body;
            is(&condition(&object, "Resolved"), told.0, told.1, "");
        }
    };
    has_ports(("False", "NoPorts"));
    served.apply("", port).is(200);
    has_ports(("True", "HasPorts"));
    let members = |path: &str| served.get(path).is(200).body["status"]["members"].clone();
    assert_eq!(members("/v1/tenants/t/port-groups/h"), 1);
    served.ask("DELETE", "/v1/tenants/t/logical-ports/p", &[], "").is(200);
    has_ports(("False", "NoPorts"));
    assert_eq!(members("/v1/tenants/t/port-groups/h"), 0);
}

#[test]
fn what_no_host_has_is_realized_at_once() {
    let served = Served::new();
    let tenant = r#"{"kind":"Tenant","metadata":{"name":"t"},"spec":{}}"#;
    let new = served.put("/v1/tenants/t?waitFor=Realized", &[], tenant).is(201).body;
    is(&condition(&new, "Realized"), "True", "NoHosts", "no host");
    let revision = served.get("/v1/revisions/1").is(200).body;
    is(&condition(&revision, "Realized"), "True", "NoHosts", "no host");
    served.get("/v1/revisions/2").is(404);
    served.get("/v1/revisions/x").is(404);
    for wrong in [
        "waitFor=Done",
        "timeout=1s",
        "waitFor=Realized&timeout=301s",
        "waitFor=Realized&timeout=x",
        "wait=1",
    ] {
        served.get(&format!("/v1/tenants/t?{wrong}")).is(400);
    }
}
