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
    let note = "x".repeat(200 << 10);
    for round in 0..100 {
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

#[test]
fn who_asks_for_labels_is_told_of_no_others() {
    let served = served();
    let labelled = |name: &str, labels: &str| {
        switch(name).replace("\"tenant\"", &format!("\"labels\":{{{labels}}},\"tenant\""))
    };
    let watching = format!("{SWITCHES}?watch=true&labelSelector=app=shop,tier!=db");
    let mut watch = served.watch(&watching, &[]);
    assert_eq!(watch.next().unwrap(), "bookmark 1");
    let all = [
        labelled("a", r#""app":"shop""#),
        labelled("b", r#""app":"shop","tier":"db""#),
        labelled("c", r#""app":"other""#),
        labelled("d", r#""app":"shop","tier":"web""#),
    ];
    served.apply("", &format!("[{}]", all.join(","))).is(200);
    assert_eq!(watch.several(3), ["put a 2", "put d 2", "bookmark 2"]);
    // What has other labels is gone for who watches, and comes with them.
    served.apply("", &labelled("a", r#""app":"other""#)).is(200);
    assert_eq!(watch.several(2), ["delete a 3", "bookmark 3"]);
    served.apply("", &labelled("c", r#""app":"shop""#)).is(200);
    assert_eq!(watch.several(2), ["put c 4", "bookmark 4"]);
    served.ask("DELETE", &format!("{SWITCHES}/b"), &[], "").is(200);
    served.ask("DELETE", &format!("{SWITCHES}/d"), &[], "").is(200);
    assert_eq!(watch.several(2), ["delete d 6", "bookmark 6"]);
    let page = |query: &str| -> (Vec<String>, String) {
        let list = served.get(&format!("{SWITCHES}?{query}")).is(200).body;
        let names = list["items"].as_array().unwrap().iter();
        let names = names.map(|it| it["metadata"]["name"].as_str().unwrap().to_owned());
        (names.collect(), list["continue"].as_str().unwrap_or_default().to_owned())
    };
    assert_eq!(page("labelSelector=app").0, ["a", "c"]);
    let (names, next) = page("labelSelector=app=shop&limit=1");
    assert_eq!((names, next.as_str()), (vec!["c".to_owned()], ""));
    let (names, next) = page("labelSelector=app!=shop&limit=1");
    assert_eq!((names, next.as_str()), (vec!["a".to_owned()], "6.a"));
    assert_eq!(page(&format!("labelSelector=app!=shop&limit=1&continue={next}")).0, [""; 0]);
    let (names, next) = page("labelSelector=app&limit=1");
    assert_eq!((names, next.as_str()), (vec!["a".to_owned()], "6.a"));
    let (names, next) = page(&format!("labelSelector=app&limit=1&continue={next}"));
    assert_eq!((names, next.as_str()), (vec!["c".to_owned()], ""));
    served.get(&format!("{SWITCHES}?labelSelector=a=b=c")).is(400);
}

#[test]
fn who_asks_for_fields_is_told_of_no_others() {
    let served = served();
    let of_mtu = |name: &str, mtu: u16| switch(name).replace("{}", &format!("{{\"mtu\":{mtu}}}"));
    let watching = format!("{SWITCHES}?watch=true&fieldSelector=spec.mtu=1400,metadata.name!=c");
    let mut watch = served.watch(&watching, &[]);
    assert_eq!(watch.next().unwrap(), "bookmark 1");
    let all = [of_mtu("a", 1400), of_mtu("b", 1500), of_mtu("c", 1400), switch("d")];
    served.apply("", &format!("[{}]", all.join(","))).is(200);
    assert_eq!(watch.several(2), ["put a 2", "bookmark 2"]);
    served.apply("", &of_mtu("a", 1500)).is(200);
    assert_eq!(watch.several(2), ["delete a 3", "bookmark 3"]);
    let names = |query: &str| -> Vec<String> {
        let list = served.get(&format!("{SWITCHES}?fieldSelector={query}")).is(200).body;
        let names = list["items"].as_array().unwrap().iter();
        names.map(|it| it["metadata"]["name"].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!(names("spec.mtu=1500"), ["a", "b"]);
    assert_eq!(names("spec.mtu!=1500"), ["c", "d"]);
    assert_eq!(names("metadata.revision=3&labelSelector=app"), [""; 0]);
    served.get(&format!("{SWITCHES}?fieldSelector=mtu=1500")).is(400);
}
