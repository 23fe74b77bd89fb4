//! Changes as they come.

use crate::client::Served;

const SWITCHES: &str = "/v1/tenants/t/logical-switches";

fn switch(name: &str) -> String {
    format!(r#"{{"kind":"LogicalSwitch","metadata":{{"name":"{name}","tenant":"t"}},"spec":{{}}}}"#)
}

fn served() -> Served {
    let served = Served::new();
    served
        .put("/v1/tenants/t", &[], r#"{"kind":"Tenant","metadata":{"name":"t"},"spec":{}}"#)
        .is(201);
    served
}

#[test]
fn a_watcher_sees_each_change_between_bookmarks() {
    let served = served();
    let mut watch = served.watch(&format!("{SWITCHES}?watch=true"), &[]);
    assert_eq!(watch.next().unwrap(), "bookmark 1");
    served.apply("", &format!("[{},{}]", switch("b"), switch("a"))).is(200);
    assert_eq!(watch.several(3), ["put a 2", "put b 2", "bookmark 2"]);
    // Others' changes are not told of.
    let port = r#"{"kind":"PortGroup","metadata":{"name":"g","tenant":"t"},"spec":{}}"#;
    served.put("/v1/tenants/t/port-groups/g", &[], port).is(201);
    served.ask("DELETE", &format!("{SWITCHES}/a"), &[], "").is(200);
    assert_eq!(watch.several(2), ["delete a 4", "bookmark 4"]);
}

#[test]
fn a_watcher_resumes_by_the_last_bookmark() {
    let served = served();
    for name in ["a", "b", "c"] {
        served.apply("", &switch(name)).is(200);
    }
    let watch = format!("{SWITCHES}?watch=true&from=2");
    let told = ["bookmark 2", "put b 3", "bookmark 3", "put c 4", "bookmark 4"];
    assert_eq!(served.watch(&watch, &[]).several(5), told);
    let mut resumed = served.watch(&watch, &[("last-event-id", "3")]);
    assert_eq!(resumed.several(3), ["bookmark 3", "put c 4", "bookmark 4"]);
    served.get(&format!("{SWITCHES}?watch=true&from=99")).is(400);
    served.ask("GET", &watch, &[("last-event-id", "x")], "").is(400);
}

#[test]
fn a_watcher_whose_history_is_gone_begins_anew() {
    let served = served();
    served.apply("", &switch("a")).is(200);
    served.apply("", &switch("b")).is(200);
    served.catalog.store().compact(served.catalog.store().revision()).unwrap();
    let mut watch = served.watch(&format!("{SWITCHES}?watch=true&from=1"), &[]);
    assert_eq!(watch.several(3), ["bookmark 1", "reset"]);
    assert_eq!(watch.next(), None);
}

#[test]
fn who_does_not_read_keeps_nobody_waiting() {
    let served = served();
    let asleep: Vec<_> =
        (0..8).map(|_| served.watch(&format!("{SWITCHES}?watch=true"), &[])).collect();
    let mut awake = served.watch(&format!("{SWITCHES}?watch=true"), &[]);
    awake.next();
    // More than sockets hold: 20 MB.
    let note = "x".repeat(1 << 20);
    for round in 0..20 {
        let noted = switch("a").replace(
            "\"tenant\"",
            &format!("\"annotations\":{{\"n\":\"{note}{round}\"}},\"tenant\""),
        );
        served.apply("", &noted).is(200);
        let revision = round + 2;
        assert_eq!(awake.several(2), [format!("put a {revision}"), format!("bookmark {revision}")]);
    }
    drop(asleep);
}
