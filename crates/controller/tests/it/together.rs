//! Many objects at once, and pages of them.

use crate::client::Served;

const SHOP: &str = include_str!("../../../../examples/shop.yaml");

const PORTS: &str = "/v1/tenants/shop/logical-ports";

/// Five switches with a label.
fn switches(names: &[&str]) -> String {
    let switch = |name: &&str| {
        format!(
            r#"{{"kind":"LogicalSwitch","metadata":{{"name":"{name}","tenant":"t","labels":{{"set":"a"}}}},"spec":{{}}}}"#
        )
    };
    let tenant = r#"{"kind":"Tenant","metadata":{"name":"t","labels":{"set":"a"}},"spec":{}}"#;
    let all: Vec<_> = names.iter().map(switch).chain([tenant.to_owned()]).collect();
    format!("[{}]", all.join(","))
}

fn changes(answer: &crate::client::Answer) -> Vec<String> {
    let objects = answer.body["objects"].as_array().unwrap();
    let word = |it: &serde_json::Value| it.as_str().unwrap().to_owned();
    objects.iter().map(|it| format!("{} {}", word(&it["object"]), word(&it["change"]))).collect()
}

#[test]
fn a_file_is_one_revision_in_whatever_order() {
    let served = Served::new();
    let dry = served.apply("?dryRun=true", SHOP).is(200);
    assert_eq!((&dry.body["revision"], served.catalog.store().revision().0), (&0.into(), 0));
    assert!(changes(&dry).iter().all(|it| it.ends_with(" created")), "{dry:?}");
    assert_eq!(served.apply("?dry_run=true", SHOP).is(200).body, dry.body);
    let done = served.apply("", SHOP).is(200);
    assert_eq!(done.body["revision"], 1);
    assert_eq!(changes(&done), changes(&dry));
    let again = served.apply("", SHOP).is(200);
    assert_eq!(again.body["revision"], 1);
    assert!(changes(&again).iter().all(|it| it.ends_with(" unchanged")), "{again:?}");
    let list = served.get(PORTS).is(200);
    assert_eq!(list.body["revision"], 1);
    assert!(list.body["items"].as_array().unwrap().len() > 2);
}

#[test]
fn one_fault_keeps_all_out() {
    let served = Served::new();
    let wrong = SHOP.replacen("10.0.1.2", "10.0.1.300", 1);
    assert_ne!(wrong, SHOP);
    let refused = served.apply("", &wrong).is(422);
    let line = refused.body["errors"][0]["line"].as_u64().unwrap() as usize;
    assert!(wrong.lines().nth(line - 1).unwrap().contains("10.0.1.300"), "{refused:?}");
    assert_eq!(served.catalog.store().revision().0, 0);
    served.apply("", "").is(400);
    served.apply("", "[]").is(200);
    served.apply("?dry=true", "[]").is(400);
}

#[test]
fn an_object_that_says_its_revision_counts_only_for_that() {
    let served = Served::new();
    served.apply("", &switches(&["a"])).is(200);
    let path = "/v1/tenants/t/logical-switches/a";
    let read = served.get(path).body;
    served.ask("PATCH", path, &[], r#"{"spec":{"mtu":1500}}"#).is(200);
    let stale = served.apply("", &read.to_string()).is(412);
    assert_eq!(stale.body["current"]["spec"]["mtu"], 1500);
    served.apply("", &served.get(path).body.to_string()).is(200);
}

#[test]
fn what_a_set_no_longer_has_is_pruned_by_its_label() {
    let served = Served::new();
    served.apply("", &switches(&["a", "b", "c"])).is(200);
    let other = r#"{"kind":"LogicalSwitch","metadata":{"name":"z","tenant":"t"},"spec":{}}"#;
    served.apply("", other).is(200);
    let pruned = served.apply("?prune=set%3Da", &switches(&["a", "d"])).is(200);
    assert_eq!(
        changes(&pruned),
        [
            "Tenant/t unchanged",
            "LogicalSwitch/t/a unchanged",
            "LogicalSwitch/t/b deleted",
            "LogicalSwitch/t/c deleted",
            "LogicalSwitch/t/d created",
        ]
    );
    served.get("/v1/tenants/t/logical-switches/z").is(200);
    // The next one would not find it.
    let refused = served.apply("?prune=set%3Da", other).is(422);
    assert!(refused.errors().contains(&"LogicalSwitch/t/z /metadata/labels".into()));
    served.apply("?prune=set", "[]").is(400);
}

#[test]
fn a_request_with_a_key_is_done_once() {
    let served = Served::new();
    let key = [("idempotency-key", "k1")];
    let set = switches(&["a"]);
    let first = served.ask("POST", "/v1/apply", &key, &set).is(200);
    served.ask("DELETE", "/v1/tenants/t/logical-switches/a", &[], "").is(200);
    let again = served.ask("POST", "/v1/apply", &key, &set).is(200);
    assert_eq!(again.body, first.body);
    let recorded = served.recorded().pop().unwrap();
    assert_eq!((&recorded["repeated"], &recorded["changed"]), (&true.into(), &0.into()));
    served.get("/v1/tenants/t/logical-switches/a").is(404);
    served.ask("POST", "/v1/apply", &key, &switches(&["b"])).is(422);
    served.ask("POST", "/v1/apply?dryRun=false", &key, &set).is(422);
    served.ask("POST", "/v1/apply", &[("idempotency-key", "")], &set).is(400);
    // A day later nobody asks again.
    let day = std::time::Duration::from_hours(25);
    served.catalog.forget(std::time::SystemTime::now() + day).unwrap();
    let anew = served.ask("POST", "/v1/apply", &key, &set).is(200);
    assert!(changes(&anew).contains(&"LogicalSwitch/t/a created".into()), "{anew:?}");
}

#[test]
fn pages_are_of_the_first_ones_revision() {
    let served = Served::new();
    served.apply("", &switches(&["a", "b", "c", "d", "e"])).is(200);
    let path = "/v1/tenants/t/logical-switches";
    let names = |answer: &crate::client::Answer| -> Vec<String> {
        let items = answer.body["items"].as_array().unwrap();
        items.iter().map(|it| it["metadata"]["name"].as_str().unwrap().to_owned()).collect()
    };
    let first = served.get(&format!("{path}?limit=2")).is(200);
    assert_eq!(names(&first), ["a", "b"]);
    served.ask("DELETE", &format!("{path}/c"), &[], "").is(200);
    let next = first.body["continue"].as_str().unwrap();
    let second = served.get(&format!("{path}?limit=2&continue={next}")).is(200);
    assert_eq!(
        (names(&second), &second.body["revision"]),
        (vec!["c".into(), "d".into()], &1.into())
    );
    let next = second.body["continue"].as_str().unwrap();
    let last = served.get(&format!("{path}?limit=2&continue={next}")).is(200);
    assert_eq!((names(&last), last.body.get("continue")), (vec!["e".into()], None));
    let whole = served.get(path).is(200);
    assert_eq!((names(&whole).len(), whole.tag().as_str()), (4, "\"r2\""));
    served.catalog.store().compact(served.catalog.store().revision()).unwrap();
    let gone = served.get(&format!("{path}?limit=2&continue={next}")).is(410);
    assert_eq!(gone.body["continue"], "2.d");
    let rest = served.get(&format!("{path}?limit=2&continue=2.d")).is(200);
    assert_eq!((names(&rest), &rest.body["revision"]), (vec!["e".into()], &2.into()));
    for query in ["limit=0", "limit=1001", "continue=x", "continue=9.a", "colour=1"] {
        served.get(&format!("{path}?{query}")).is(400);
    }
}

#[test]
fn a_read_waits_for_a_revision_that_it_has_to_have() {
    let served = Served::new();
    served.apply("", &switches(&["a"])).is(200);
    let (list, one) = ("/v1/tenants/t/logical-switches", "/v1/tenants/t/logical-switches/a");
    served.get(&format!("{one}?atLeast=r1")).is(200);
    std::thread::scope(|scope| {
        let asked = [list, one, "/v1/tenants/t/port-groups"].map(|path| {
            let served = &served;
            scope.spawn(move || served.get(&format!("{path}?atLeast=r2")).is(200))
        });
        served.apply("", &switches(&["a", "b"])).is(200);
        let [list, one, empty] = asked.map(|it| it.join().unwrap());
        assert_eq!(
            (list.tag(), one.tag(), empty.tag()),
            ("\"r2\"".into(), "\"r1\"".into(), "\"r2\"".into())
        );
    });
    served.get(&format!("{one}?atLeast=r99")).is(412);
    for wrong in ["2", "r", "rx", "r-1"] {
        served.get(&format!("{one}?atLeast={wrong}")).is(400);
    }
}

#[test]
fn objects_go_in_the_revision_in_which_others_come() {
    let served = Served::new();
    served.apply("", &switches(&["a", "b", "c"])).is(200);
    let apply = |query: &str, body: &str| served.apply(&format!("?delete={query}"), body);
    let [a, b] = ["LogicalSwitch/t/a", "LogicalSwitch/t/b"];
    let port = "{kind: LogicalPort, metadata: {name: p, tenant: t}, spec: {switch: a, vif: {}}}";
    served.apply("", port).is(200);
    let moved = port.replace("switch: a", "switch: d");
    let moved = format!("[{}, {moved}]", switches(&["d"]).trim_matches(['[', ']']));
    let dry = apply(&format!("{a},{b}@r1&dryRun=true"), &moved).is(200);
    let done = apply(&format!("{a},{b}@r1"), &moved).is(200);
    assert_eq!(changes(&done), changes(&dry));
    assert_eq!(done.body["revision"], 3);
    for object in
        ["LogicalSwitch/t/a deleted", "LogicalSwitch/t/b deleted", "LogicalSwitch/t/d created"]
    {
        assert!(changes(&done).contains(&object.to_owned()), "{done:?}");
    }
    // Who is needed stays, and so does all else that was asked for.
    let needed = apply("LogicalSwitch/t/d", "[]").is(409);
    assert_eq!(needed.errors(), ["LogicalPort/t/p /spec/switch"]);
    apply("LogicalSwitch/t/d,LogicalPort/t/p", &switches(&["e"])).is(200);
    apply("LogicalSwitch/t/c@r2", &switches(&["f"])).is(412);
    apply(a, &switches(&["f"])).is(404);
    served.get("/v1/tenants/t/logical-switches/f").is(404);
    for wrong in ["", "a", "LogicalSwitch/t/c@1", "LogicalSwitch/t/c,", "LogicalSwitch/t/c@r"] {
        apply(wrong, "[]").is(400);
    }
    apply("LogicalSwitch/t/c", &switches(&["c"])).is(400);
    served.get("/v1/tenants/t/logical-switches/c").is(200);
}

#[test]
fn what_goes_takes_along_what_needs_it_and_nothing_of_others() {
    let served = Served::new();
    let objects = "
- {kind: Tenant, metadata: {name: a}, spec: {sharedWith: [b]}}
- {kind: Tenant, metadata: {name: b}, spec: {}}
- {kind: TransportNode, metadata: {name: h1}, spec: {vteps: [192.0.2.1]}}
- {kind: LogicalSwitch, metadata: {name: s, tenant: a}, spec: {}}
- {kind: LogicalPort, metadata: {name: p, tenant: a}, spec: {switch: s, vif: {}}}
- {kind: PortGroup, metadata: {name: g, tenant: a}, spec: {ports: [p]}}
- {kind: LogicalSwitch, metadata: {name: other, tenant: a}, spec: {}}
- {kind: Binding, metadata: {name: p}, spec: {port: a/p, node: h1}}
";
    served.apply("", objects).is(200);
    let remove = |path: &str| served.ask("DELETE", path, &[], "");
    let switch = "/v1/tenants/a/logical-switches/s";
    remove(switch).is(409);
    // What the operator has said of the port is not the tenant's: it is in the way.
    let refused = remove(&format!("{switch}?cascade=true")).is(409);
    assert_eq!(refused.errors(), ["Binding/p /spec/port"]);
    remove("/v1/bindings/p").is(200);
    let gone = ["LogicalSwitch/a/s", "LogicalPort/a/p", "PortGroup/a/g"];
    let gone = gone.map(|it| format!("{it} deleted"));
    let dry = remove(&format!("{switch}?cascade=true&dryRun=true")).is(200);
    assert_eq!(changes(&dry), gone);
    served.get(switch).is(200);
    assert_eq!(changes(&remove(&format!("{switch}?cascade=true")).is(200)), gone);
    served.get("/v1/tenants/a/port-groups/g").is(404);
    served.get("/v1/tenants/a/logical-switches/other").is(200);
    // A tenant goes with all that it has.
    let all = remove("/v1/tenants/a?cascade=true").is(200);
    assert_eq!(changes(&all), ["Tenant/a deleted", "LogicalSwitch/a/other deleted"]);
    served.get("/v1/tenants/b").is(200);
}
