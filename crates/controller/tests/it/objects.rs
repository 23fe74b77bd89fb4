//! Objects, one at a time.

use crate::client::{Served, open};

const SHOP: &str = "/v1/tenants/shop";
const SWITCH: &str = "/v1/tenants/shop/logical-switches/web";
const PORT: &str = "/v1/tenants/shop/logical-ports/web-1";

const WEB: &str = r#"{"kind":"LogicalSwitch","metadata":{"name":"web","tenant":"shop"},"spec":{"subnets":["10.0.0.0/24"]}}"#;
const WEB_1: &str = r#"{"kind":"LogicalPort","metadata":{"name":"web-1","tenant":"shop"},
    "spec":{"switch":"web","vif":{},"mac":"02:00:00:00:00:01","addresses":["10.0.0.1"]}}"#;

fn tenant(quota: &str) -> String {
    format!(r#"{{"kind":"Tenant","metadata":{{"name":"shop"}},"spec":{{"quota":{{{quota}}}}}}}"#)
}

/// A controller with a tenant, a switch and a port.
fn served() -> Served {
    let served = Served::new();
    served.put(SHOP, &[], &tenant("")).is(201);
    served.put(SWITCH, &[], WEB).is(201);
    served.put(PORT, &[], WEB_1).is(201);
    served
}

#[test]
fn an_object_is_what_was_written_and_what_the_controller_says_of_it() {
    let served = served();
    let port = served.get(PORT).is(200);
    assert_eq!(port.tag(), "\"r3\"");
    let metadata = &port.body["metadata"];
    assert_eq!(metadata["revision"], 3);
    assert_eq!(metadata["generation"], 1);
    assert_eq!(metadata["uid"].as_str().unwrap().len(), 36);
    assert!(metadata["createdAt"].as_str().unwrap().ends_with('Z'));
    assert_eq!(port.body["spec"]["addresses"][0], "10.0.0.1");
    served.get("/v1/tenants/shop/logical-ports/web-2").is(404);
    served.get("/v1/tenants/shop/ports/web-1").is(404);
    served.get("/v1/logical-ports/web-1").is(404);
}

#[test]
fn who_replaces_an_object_says_which_one_he_knows() {
    let served = served();
    let more = WEB_1.replace("10.0.0.1", "10.0.0.2");
    served.put(PORT, &[], &more).is(428);
    let stale = served.put(PORT, &[("if-match", "\"r2\"")], &more).is(412);
    assert_eq!(stale.body["current"]["metadata"]["revision"], 3);
    served.put(PORT, &[("if-none-match", "*")], &more).is(412);
    let new = served.put(PORT, &[("if-match", "\"r1\", \"r3\"")], &more).is(200);
    assert_eq!((new.tag().as_str(), &new.body["metadata"]["generation"]), ("\"r4\"", &2.into()));
    // What was read is written again: nothing changes.
    let again = served.put(PORT, &[("if-match", "*")], &new.body.to_string()).is(200);
    assert_eq!(again.tag(), "\"r4\"");
    // A label is none of its fields.
    let labelled = r#"{"metadata":{"labels":{"app":"web"}}}"#;
    let labelled = served.ask("PATCH", PORT, &[], labelled).is(200);
    assert_eq!(labelled.tag(), "\"r5\"");
    assert_eq!(labelled.body["metadata"]["generation"], 2);
    assert_eq!(labelled.body["metadata"]["uid"], new.body["metadata"]["uid"]);
    let other = more.replace("web-1", "web-9");
    served.put("/v1/tenants/shop/logical-ports/web-9", &[("if-match", "*")], &other).is(412);
}

#[test]
fn a_patch_changes_what_it_names() {
    let served = served();
    let patch = r#"{"spec":{"addresses":["10.0.0.7"],"enabled":false}}"#;
    let port = served.ask("PATCH", PORT, &[("if-match", "\"r3\"")], patch).is(200);
    assert_eq!(port.body["spec"]["addresses"][0], "10.0.0.7");
    assert_eq!(port.body["spec"]["mac"], "02:00:00:00:00:01");
    served.ask("PATCH", PORT, &[("if-match", "\"r3\"")], patch).is(412);
    let back = served.ask("PATCH", PORT, &[], r#"{"spec":{"enabled":null}}"#).is(200);
    assert_eq!(back.body["spec"].get("enabled"), None);
    let wrong = served.ask("PATCH", PORT, &[], r#"{"spec":{"mac":"x"}}"#).is(422);
    assert_eq!(wrong.errors(), ["LogicalPort/shop/web-1 /spec/mac"]);
    served.ask("PATCH", "/v1/tenants/shop/logical-ports/web-9", &[], "{}").is(404);
}

#[test]
fn json_patches_of_one_object_that_come_at_once_are_all_done() {
    const JSON_PATCH: (&str, &str) = ("content-type", "application/json-patch+json");
    let served = served();
    let set = "/v1/tenants/shop/address-sets/known";
    let empty = r#"{"kind":"AddressSet","metadata":{"name":"known","tenant":"shop"},"spec":{"addresses":["10.0.0.1"]}}"#;
    served.put(set, &[], empty).is(201);
    std::thread::scope(|scope| {
        for thread in 0..8 {
            let served = &served;
            scope.spawn(move || {
                for member in 0..4 {
                    let patch = format!(
                        r#"[{{"op":"add","path":"/spec/addresses/-","value":"10.0.{thread}.1{member}"}}]"#
                    );
                    served.ask("PATCH", set, &[JSON_PATCH], &patch).is(200);
                }
            });
        }
    });
    let all = served.get(set).is(200);
    assert_eq!(all.body["spec"]["addresses"].as_array().unwrap().len(), 33);
    // Who prefers so is not answered by all of them.
    let last = r#"[{"op":"remove","path":"/spec/addresses/32"}]"#;
    let minimal = [JSON_PATCH, ("prefer", "respond-async, return=minimal")];
    let brief = served.ask("PATCH", set, &minimal, last).is(204);
    let all = served.get(set).is(200);
    assert_eq!(all.body["spec"]["addresses"].as_array().unwrap().len(), 32);
    let tag = format!("etag: \"r{}\"", all.body["metadata"]["revision"]);
    assert!(brief.head.contains(&tag) && brief.body.is_null(), "{}", brief.head);
    for (patch, status) in [
        (r#"[{"op":"test","path":"/spec/addresses/0","value":"10.0.0.2"}]"#, 412),
        (r#"[{"op":"remove","path":"/spec/addresses/99"}]"#, 422),
        (r#"[{"op":"add","path":"/spec/addresses/-","value":"nowhere"}]"#, 422),
        (r#"{"spec":{}}"#, 400),
    ] {
        served.ask("PATCH", set, &[JSON_PATCH], patch).is(status);
    }
    assert_eq!(served.get(set).is(200).body, all.body);
}

#[test]
fn members_come_and_go_whoever_else_writes() {
    let served = served();
    let set = "/v1/tenants/shop/address-sets/known";
    let [add, remove] = ["add", "remove"].map(|it| format!("{set}:{it}"));
    let one = r#"{"addresses":["10.0.0.7/32","10.0.0.7"]}"#;
    served.ask("POST", &add, &[], one).is(404);
    let empty = r#"{"kind":"AddressSet","metadata":{"name":"known","tenant":"shop"},"spec":{"addresses":[]}}"#;
    served.put(set, &[], empty).is(201);
    let first = served.ask("POST", &add, &[], one).is(200);
    assert_eq!(first.body["spec"]["addresses"], serde_json::json!(["10.0.0.7"]));
    // What is so already is no new revision.
    assert_eq!(served.ask("POST", &add, &[], one).is(200).tag(), first.tag());
    let other = r#"{"addresses":["10.9.0.0/16"]}"#;
    assert_eq!(served.ask("POST", &remove, &[], other).is(200).tag(), first.tag());
    std::thread::scope(|scope| {
        for thread in 0..8 {
            let (served, add) = (&served, &add);
            scope.spawn(move || {
                let body = format!(r#"{{"addresses":["10.1.0.{thread}"]}}"#);
                served.ask("POST", add, &[], &body).is(200);
            });
        }
    });
    let all = served.ask("POST", &remove, &[], r#"{"addresses":["10.0.0.7/32"]}"#).is(200);
    assert_eq!(all.body["spec"]["addresses"].as_array().unwrap().len(), 8);
    let wrong = served.ask("POST", &add, &[], r#"{"addresses":["10.2.0.1","x"]}"#).is(422);
    assert_eq!(wrong.errors(), ["AddressSet/shop/known /addresses/1"]);
    served.ask("POST", &add, &[], r#"{"ports":["web-1"]}"#).is(400);
    served.ask("POST", &add, &[("if-match", &first.tag())], one).is(412);
    served.ask("POST", &add, &[("prefer", "return=minimal")], one).is(204);
    let group = "/v1/tenants/shop/port-groups/webs";
    let none = r#"{"kind":"PortGroup","metadata":{"name":"webs","tenant":"shop"},"spec":{}}"#;
    served.put(group, &[], none).is(201);
    let ports = r#"{"ports":["web-1"]}"#;
    let webs = served.ask("POST", &format!("{group}:add"), &[], ports).is(200);
    assert_eq!(webs.body["spec"]["ports"], serde_json::json!(["web-1"]));
    served.ask("POST", &format!("{group}:add"), &[], r#"{"ports":["web-9"]}"#).is(422);
    served.ask("POST", &format!("{group}:remove"), &[], ports).is(200);
}

#[test]
fn all_that_is_wrong_is_told_at_once_and_nothing_is_changed() {
    let served = served();
    let wrong = WEB_1.replace("10.0.0.1", "10.9.0.1").replace("\"web\"", "\"wib\"");
    let wrong = wrong.replace("\"vif\":{}", "\"vif\":{},\"colour\":1");
    let answer = served.put(PORT, &[("if-match", "*")], &wrong).is(422);
    assert_eq!(answer.errors(), ["LogicalPort/shop/web-1 /spec/colour"]);
    let wrong = wrong.replace(",\"colour\":1", "").replace("02:", "03:");
    let answer = served.put(PORT, &[("if-match", "*")], &wrong).is(422);
    let paths = ["LogicalPort/shop/web-1 /spec/mac", "LogicalPort/shop/web-1 /spec/switch"];
    let errors = answer.errors();
    assert!(paths.iter().all(|it| errors.contains(&(*it).to_owned())), "{errors:?}");
    assert!(answer.head.contains("content-type: application/problem+json"), "{}", answer.head);
    assert_eq!(answer.body["errors"][0]["line"], 2);
    let other = served.put(SWITCH, &[("if-match", "*")], WEB_1).is(422);
    assert_eq!(other.errors(), ["LogicalPort/shop/web-1 /metadata"]);
    served.put(SWITCH, &[("if-match", "*")], "").is(400);
    served.put(SWITCH, &[("if-match", "\"r1\"")], "false").is(422);
    served.put(SWITCH, &[("if-match", "*")], &format!("[{WEB},{WEB_1}]")).is(400);
    served.put(SWITCH, &[], &"#".repeat((8 << 20) + 1)).is(413);
    assert_eq!(served.catalog.store().revision().0, 3);
}

#[test]
fn what_others_need_stays() {
    let served = served();
    let needed = served.ask("DELETE", SWITCH, &[], "").is(409);
    assert_eq!(needed.errors(), ["LogicalPort/shop/web-1 /spec/switch"]);
    let needed = served.ask("DELETE", SHOP, &[], "").is(409);
    assert_eq!(needed.errors().len(), 2, "{needed:?}");
    served.ask("DELETE", PORT, &[("if-match", "\"r2\"")], "").is(412);
    let gone = served.ask("DELETE", PORT, &[], "").is(200);
    assert_eq!(gone.body["revision"], 4);
    assert_eq!(gone.body["objects"][0]["change"], "deleted");
    served.get(PORT).is(404);
    served.ask("DELETE", PORT, &[], "").is(404);
    served.ask("DELETE", SWITCH, &[], "").is(200);
    // A name is free at once; who has it then is another.
    let uid = served.put(SWITCH, &[], WEB).is(201).body["metadata"]["uid"].clone();
    served.ask("DELETE", SWITCH, &[], "").is(200);
    assert_ne!(served.put(SWITCH, &[], WEB).is(201).body["metadata"]["uid"], uid);
}

#[test]
fn a_tenant_has_no_more_than_its_quota() {
    let served = served();
    served.put(SHOP, &[("if-match", "*")], &tenant("\"ports\":1")).is(200);
    let second = WEB_1.replace("web-1", "web-2").replace(":01", ":02").replace("0.0.1", "0.0.2");
    let refused = served.put("/v1/tenants/shop/logical-ports/web-2", &[], &second).is(422);
    assert!(refused.body["errors"][0]["message"].as_str().unwrap().contains("quota.ports"));
    // Less than there is cannot be said.
    served.put(SHOP, &[("if-match", "*")], &tenant("\"ports\":0")).is(422);
}

#[test]
fn a_controller_that_comes_back_has_all_objects() {
    let folder = tempfile::tempdir().unwrap();
    let catalog = open(folder.path());
    let served = Served::on(catalog);
    served.put(SHOP, &[], &tenant("")).is(201);
    served.put(SWITCH, &[], WEB).is(201);
    // What becomes of it is computed anew, so that is not compared.
    let kept = |served: &Served| {
        let switch = served.get(SWITCH).is(200).body;
        ["kind", "metadata", "spec"].map(|part| switch[part].clone())
    };
    let switch = kept(&served);
    let catalog = std::sync::Arc::clone(&served.catalog);
    drop(served);
    // Its thread has it until it ends.
    let mut catalog = Some(catalog);
    while catalog.as_ref().is_some_and(|it| std::sync::Arc::strong_count(it) > 1) {
        std::thread::yield_now();
    }
    drop(catalog.take());
    let served = Served::on(open(folder.path()));
    assert_eq!(kept(&served), switch);
    served.put(PORT, &[], WEB_1).is(201);
    served.ask("DELETE", SWITCH, &[], "").is(409);
}

#[test]
fn other_paths_and_methods_say_what_there_is() {
    let served = served();
    served.get("/v2").is(404);
    served.ask("POST", PORT, &[], "").is(405);
    served.get("/v1/ready").is(204);
    assert_eq!(served.get("/v1/openapi.json").is(200).body["openapi"], "3.1.0");
}
