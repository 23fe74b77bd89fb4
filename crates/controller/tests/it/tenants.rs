//! Who asks, and what they may see and write.

use std::io::Write;
use std::net::TcpStream;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use controller::tokens::{self, Tokens};
use controller::{Door, Role};
use proptest::prelude::*;
use serde_json::Value;
use tempfile::TempDir;

use crate::client::{Answer, Served, Watch, open};
use crate::traces::SHARED;

const DAY: Duration = Duration::from_hours(24);

/// A controller that asks for tokens.
pub struct Guarded {
    served: Served,
    door: Arc<Door>,
    folder: TempDir,
}

/// Somebody with a token.
pub struct As<'a> {
    guarded: &'a Guarded,
    bearer: String,
}

impl Guarded {
    pub fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let tokens = Tokens::open(folder.path()).unwrap();
        let door = Arc::new(Door::Known { tokens, clients: None });
        let served = Served::behind(open(folder.path()), Arc::clone(&door));
        Self { served, door, folder }
    }

    fn reload(&self) {
        let Door::Known { tokens, .. } = &*self.door else { panic!("it asks for tokens") };
        tokens.reload().unwrap();
    }

    pub fn token(&self, name: &str, role: Role) -> As<'_> {
        let (folder, name) = (self.folder.path(), name.parse().unwrap());
        let token = tokens::create(folder, &name, role, DAY, SystemTime::now()).unwrap();
        self.reload();
        As { guarded: self, bearer: format!("Bearer {token}") }
    }

    pub fn admin(&self) -> As<'_> {
        self.token("admin", Role::Admin)
    }

    /// Who writes a tenant's objects.
    pub fn tenant(&self, tenant: &str) -> As<'_> {
        self.token(tenant, Role::TenantAdmin { tenant: tenant.parse().unwrap() })
    }
}

impl As<'_> {
    pub fn ask(&self, method: &str, path: &str, headers: &[(&str, &str)], body: &str) -> Answer {
        let headers = [&[("authorization", self.bearer.as_str())], headers].concat();
        self.guarded.served.ask(method, path, &headers, body)
    }

    fn get(&self, path: &str) -> Answer {
        self.ask("GET", path, &[], "")
    }

    pub fn apply(&self, query: &str, body: &str) -> Answer {
        self.ask("POST", &format!("/v1/apply{query}"), &[], body)
    }

    /// Begins to apply something that is so long.
    fn begin(&self, length: usize) -> TcpStream {
        let headers = [("authorization", self.bearer.as_str())];
        self.guarded.served.head("POST", "/v1/apply", &headers, length)
    }

    fn watch(&self, path: &str) -> Watch {
        self.guarded.served.watch(path, &[("authorization", &self.bearer)])
    }
}

/// Two tenants and a host; a port of each, of which the operator has said where it may be.
const BOTH: &str = "
- {kind: Tenant, metadata: {name: a}, spec: {}}
- {kind: Tenant, metadata: {name: b}, spec: {}}
- {kind: TransportNode, metadata: {name: h1}, spec: {vteps: [192.0.2.1]}}
- {kind: LogicalSwitch, metadata: {name: s, tenant: a, labels: {set: x}}, spec: {}}
- {kind: LogicalSwitch, metadata: {name: secret, tenant: b, labels: {set: x}}, spec: {}}
- {kind: LogicalPort, metadata: {name: p, tenant: a}, spec: {switch: s, vif: {}, mac: '02:00:00:00:00:01', node: [h1]}}
";

/// Where the first tenant's port is.
const BINDING: &str = "- {kind: Binding, metadata: {name: p}, spec: {port: a/p, node: h1}}";

const OWN: &str = "/v1/tenants/a/logical-switches";
const OTHERS: &str = "/v1/tenants/b/logical-switches";

#[test]
fn nobody_without_a_token_is_answered() {
    let guarded = Guarded::new();
    let me = guarded.admin();
    let wrong = format!("{}0", me.bearer);
    let wrong = wrong.as_str();
    for path in ["/v1/whoami", OWN, "/v1/tenants", "/v1/nothing", "/v1/apply"] {
        let served = &guarded.served;
        let same = ("authorization", me.bearer.as_str());
        let headers: [&[_]; 4] =
            [&[], &[("authorization", wrong)], &[("authorization", "Basic YTpi")], &[same, same]];
        for headers in headers {
            let refused = served.ask("GET", path, headers, "").is(401);
            assert!(refused.head.contains("www-authenticate: Bearer"), "{refused:?}");
            assert_eq!(refused.body["status"], 401);
        }
    }
    guarded.served.get("/v1/ready").is(204);
    guarded.served.get("/v1/openapi.json").is(200);
    assert_eq!(me.get("/v1/whoami").is(200).body["role"], "admin");
    me.get("/v1/nothing").is(404);
}

#[test]
fn a_tenant_has_its_own_objects_and_no_others() {
    let guarded = Guarded::new();
    guarded.admin().apply("", BOTH).is(200);
    let a = guarded.tenant("a");
    a.get(OWN).is(200);
    a.get("/v1/tenants/a").is(200);
    guarded.served.settle();
    let root = guarded.token("root", Role::Admin);
    let status = |who: &As<'_>, path: &str| who.get(path).is(200).body["status"].clone();
    for (who, domain) in [(&a, Value::Null), (&root, "LogicalSwitch/a/s".into())] {
        let switch = status(who, "/v1/tenants/a/logical-switches/s");
        assert_eq!((&switch["ports"], &switch["domain"]), (&1.into(), &domain));
        let used = &status(who, "/v1/tenants/a")["used"];
        assert_eq!([&used["ports"], &used["switches"], &used["rules"]], [1, 1, 0]);
    }
    // By which it cannot see it finds nothing either.
    let at_h1 = "/v1/tenants/a/logical-ports?fieldSelector=spec.switch=s,spec.node=h1";
    let found = |who: &As<'_>| who.get(at_h1).is(200).body["items"].as_array().unwrap().len();
    assert_eq!((found(&a), found(&root)), (0, 1));
    for path in [
        OTHERS,
        "/v1/tenants/c/logical-switches",
        "/v1/tenants",
        "/v1/tenants/b",
        "/v1/transport-nodes",
        "/v1/transport-nodes/h1",
        "/v1/bindings",
        "/v1/tenants/b/logical-switches/secret",
        "/v1/tenants/b/logical-switches?watch=true",
    ] {
        a.get(path).is(404);
    }
    let switch = |tenant, name| {
        format!("{{kind: LogicalSwitch, metadata: {{name: {name}, tenant: {tenant}}}, spec: {{}}}}")
    };
    for name in ["secret", "none"] {
        let path = format!("{OTHERS}/{name}");
        for (method, body) in [("PUT", &switch("b", name)), ("PATCH", &"{}".into())] {
            a.ask(method, &path, &[], body).is(404);
        }
        a.ask("DELETE", &path, &[], "").is(404);
        a.apply("", &switch("b", name)).is(404);
        a.apply("?dryRun=true", &switch("b", name)).is(404);
    }
    a.ask("PATCH", "/v1/tenants/a", &[], r#"{"spec":{"quota":{"ports":9}}}"#).is(403);
    // By a label goes what is its own.
    let pruned = a.apply("?prune=set=x&dryRun=true", "[]").is(409);
    assert_eq!(pruned.errors(), ["LogicalPort/a/p /spec/switch"]);
    a.ask("DELETE", "/v1/tenants/a/logical-ports/p", &[], "").is(200);
    a.apply("?prune=set=x", "[]").is(200);
    assert_eq!(
        guarded.token("eye", Role::Auditor).get(OTHERS).is(200).body["items"][0]["metadata"]["name"],
        "secret"
    );
}

#[test]
fn who_only_reads_writes_nothing() {
    let guarded = Guarded::new();
    guarded.admin().apply("", BOTH).is(200);
    let (a, h1) = ("a".parse().unwrap(), "h1".parse().unwrap());
    let viewer = guarded.token("viewer", Role::TenantViewer { tenant: a });
    let auditor = guarded.token("auditor", Role::Auditor);
    let node = guarded.token("node", Role::Node { node: h1 });
    for (who, seen) in [
        (&viewer, "/v1/tenants/a/logical-switches/s"),
        (&auditor, "/v1/tenants/b/logical-switches/secret"),
        (&node, "/v1/transport-nodes/h1"),
    ] {
        who.get(seen).is(200);
        who.ask("PATCH", seen, &[], "{}").is(403);
        who.ask("DELETE", seen, &[], "").is(403);
        who.ask("POST", &format!("{seen}:add"), &[], r#"{"ports":[]}"#).is(403);
        who.apply("?prune=set=x", "[]").is(403);
    }
    // Nobody waits for a body that is not to be applied.
    for who in [&viewer, &auditor, &node] {
        Answer::read(who.begin(100)).is(403);
    }
    viewer.ask("DELETE", "/v1/tenants/b/logical-switches/secret", &[], "").is(404);
    node.get("/v1/tenants/a/logical-switches/s").is(404);
}

#[test]
fn a_tenant_neither_sees_nor_says_where_its_ports_are() {
    let guarded = Guarded::new();
    let admin = guarded.admin();
    admin.apply("", BOTH).is(200);
    let (a, path) = (guarded.tenant("a"), "/v1/tenants/a/logical-ports/p");
    let mut watch = a.watch("/v1/tenants/a/logical-ports?watch=true&from=0");
    let seen = a.get(path).is(200);
    assert_eq!(seen.body["spec"].get("node"), None);
    assert!(!a.get("/v1/tenants/a/logical-ports").is(200).body.to_string().contains("h1"));
    // What the tenant does not see stays as it is.
    let body = seen.body.to_string();
    a.ask("PUT", path, &[("if-match", &seen.tag())], &body).is(200);
    a.ask("PATCH", path, &[], r#"{"spec":{"enabled":false}}"#).is(200);
    assert_eq!(admin.get(path).body["spec"]["node"], serde_json::json!(["h1"]));
    let stale = a.ask("PUT", path, &[("if-match", "\"r9\"")], &body).is(412);
    assert_eq!(stale.body["current"]["spec"].get("node"), None);
    // No guess is told from another.
    for (node, field) in [("h1", "node"), ("h2", "node")] {
        let patch = format!(r#"{{"spec":{{"{field}":["{node}"]}}}}"#);
        assert_eq!(
            a.ask("PATCH", path, &[], &patch).is(422).errors(),
            ["LogicalPort/a/p /spec/node"]
        );
    }
    let off = r#"{"spec":{"security":{"mode":"off"}}}"#;
    a.ask("PATCH", path, &[], off).is(422);
    admin.ask("PATCH", path, &[], off).is(200);
    a.ask("PATCH", path, &[], r#"{"spec":{"enabled":true}}"#).is(200);
    assert_eq!(watch.several(3), ["bookmark 0", "put p 1", "bookmark 1"]);
    // What is told of conditions does not name them either.
    admin.apply("", BINDING).is(200);
    guarded.served.settle();
    let ports = "/v1/tenants/a/logical-ports?watch=true&status=true";
    for (mut watch, names_host) in [(a.watch(ports), false), (admin.watch(ports), true)] {
        assert_eq!(watch.event().unwrap().0, "bookmark");
        let (event, told) = watch.event().unwrap();
        let told = told.to_string();
        assert!(event == "status" && told.contains("Unreachable"), "{event}: {told}");
        assert_eq!(told.contains("h1"), names_host, "{told}");
    }
}

#[test]
fn only_the_operator_joins_switches_to_provider_networks() {
    let guarded = Guarded::new();
    let admin = guarded.admin();
    let world = "
- {kind: ProviderNetwork, metadata: {name: net}, spec: {vlanRanges: [[100, 199]]}}
- {kind: Tenant, metadata: {name: a}, spec: {allowProvider: [net]}}
- {kind: LogicalSwitch, metadata: {name: s, tenant: a}, spec: {provider: {network: net, vlan: 100}}}
- {kind: LogicalSwitch, metadata: {name: t, tenant: a}, spec: {}}
";
    admin.apply("", world).is(200);
    let a = guarded.tenant("a");
    for (name, provider) in [
        ("s", r#"{"network":"net","vlan":101}"#),
        ("s", "null"),
        ("t", r#"{"network":"net","vlan":101}"#),
    ] {
        let patch = format!(r#"{{"spec":{{"provider":{provider}}}}}"#);
        let refused = a.ask("PATCH", &format!("{OWN}/{name}"), &[], &patch).is(422);
        assert_eq!(refused.errors(), [format!("LogicalSwitch/a/{name} /spec/provider")]);
    }
    a.ask("PATCH", &format!("{OWN}/s"), &[], r#"{"spec":{"mtu":1400}}"#).is(200);
    let kept = &admin.get(&format!("{OWN}/s")).body["spec"]["provider"];
    assert_eq!(*kept, serde_json::json!({ "network": "net", "vlan": 100 }));
}

/// What the operator has made of a tenant's objects beyond what tenants may.
#[test]
fn what_is_the_operators_of_ports_and_routers_stays() {
    let guarded = Guarded::new();
    let admin = guarded.admin();
    let world = "
- {kind: Tenant, metadata: {name: a}, spec: {}}
- {kind: Meter, metadata: {name: slow}, spec: {rate: 10, burst: 20, unit: pps}}
- {kind: LogicalSwitch, metadata: {name: s, tenant: a}, spec: {}}
- {kind: LogicalSwitch, metadata: {name: t, tenant: a}, spec: {}}
- {kind: LogicalPort, metadata: {name: open, tenant: a}, spec: {switch: s, vif: {}, security: {mode: 'off'}}}
- {kind: LogicalPort, metadata: {name: own, tenant: a}, spec: {switch: s, vif: {}}}
- {kind: LogicalRouter, metadata: {name: r, tenant: a}, spec: {copp: slow}}
";
    admin.apply("", world).is(200);
    let a = guarded.tenant("a");
    let ask = |kind: &str, name: &str, spec: &str| {
        let path = format!("/v1/tenants/a/{kind}/{name}");
        a.ask("PATCH", &path, &[], &format!(r#"{{"spec":{spec}}}"#))
    };
    let refused = ask("logical-ports", "open", r#"{"switch":"t"}"#).is(422);
    assert_eq!(refused.errors(), ["LogicalPort/a/open /spec/switch"]);
    let refused = ask("logical-routers", "r", r#"{"copp":null}"#).is(422);
    assert_eq!(refused.errors(), ["LogicalRouter/a/r /spec/copp"]);
    ask("logical-ports", "own", r#"{"switch":"t"}"#).is(200);
    ask("logical-ports", "open", r#"{"enabled":false}"#).is(200);
    ask("logical-routers", "r", r#"{"enabled":false}"#).is(200);
}

#[test]
fn what_another_shares_may_be_named() {
    let guarded = Guarded::new();
    let world = "
- {kind: Tenant, metadata: {name: a}, spec: {}}
- {kind: Tenant, metadata: {name: b}, spec: {sharedWith: [a]}}
- {kind: Tenant, metadata: {name: c}, spec: {sharedWith: [b]}}
- {kind: LogicalSwitch, metadata: {name: s, tenant: b}, spec: {}}
- {kind: LogicalSwitch, metadata: {name: s, tenant: c}, spec: {}}
- {kind: LogicalPort, metadata: {name: p, tenant: b}, spec: {switch: c/s, vif: {}, mac: '02:00:00:00:00:01'}}
";
    guarded.admin().apply("", world).is(200);
    let a = guarded.tenant("a");
    let port = |switch| {
        format!(
            "{{kind: LogicalPort, metadata: {{name: p, tenant: a}}, spec: {{switch: {switch}, vif: {{}}, mac: '02:00:00:00:00:02'}}}}"
        )
    };
    a.apply("", &port("b/s")).is(200);
    // What `a` knows of `b` names what `a` does not know. That is `b`'s, and keeps nobody.
    a.apply("", "{kind: PortGroup, metadata: {name: g, tenant: a}, spec: {ports: [b/p]}}").is(200);
    a.get("/v1/tenants/b/logical-switches/s").is(404);
    // Sharing goes no further.
    assert_eq!(a.apply("", &port("c/s")).is(422).body, {
        let absent = a.apply("", &port("c/t")).is(422).body.to_string();
        serde_json::from_str::<Value>(&absent.replace("c/t", "c/s")).unwrap()
    });
    // That somebody uses it keeps it, and is told without a name.
    let b = guarded.tenant("b");
    let kept = b.ask("DELETE", "/v1/tenants/b/logical-switches/s", &[], "").is(409);
    assert!(kept.errors().is_empty() && !kept.body.to_string().contains("a/p"), "{kept:?}");
}

#[test]
fn no_sentence_has_a_name_that_a_tenant_does_not_know() {
    let guarded = Guarded::new();
    let admin = guarded.admin();
    admin.apply("", BOTH).is(200);
    let a = guarded.tenant("a");
    let port = |switch: &str| {
        format!(
            "{{kind: LogicalPort, metadata: {{name: q, tenant: a}}, spec: {{switch: {switch}, vif: {{}}, mac: '02:00:00:00:00:02'}}}}"
        )
    };
    let there = a.apply("", &port("b/secret")).is(422);
    let absent = a.apply("", &port("b/absent")).is(422);
    assert_eq!(there.body, absent.body);
    // An operator's policy holds for a port: it cannot go, and is not told why.
    admin
        .apply("", "{kind: Binding, metadata: {name: hidden}, spec: {port: a/p, node: h1}}")
        .is(200);
    let kept = a.ask("DELETE", "/v1/tenants/a/logical-ports/p", &[], "").is(409);
    assert!(kept.errors().is_empty() && !kept.body.to_string().contains("hidden"), "{kept:?}");
}

#[test]
fn keys_of_requests_are_their_senders() {
    let guarded = Guarded::new();
    guarded.admin().apply("", BOTH).is(200);
    let key = [("idempotency-key", "k")];
    let post = |who: &As<'_>, body: &str| who.ask("POST", "/v1/apply", &key, body);
    post(
        &guarded.tenant("b"),
        "{kind: Service, metadata: {name: x, tenant: b}, spec: {protocol: tcp}}",
    )
    .is(200);
    let (folder, b) = (guarded.folder.path(), "b".parse().unwrap());
    tokens::revoke(folder, &b).unwrap();
    // The same name, for another tenant.
    let a = guarded.token("b", Role::TenantAdmin { tenant: "a".parse().unwrap() });
    assert_eq!(post(&a, "[]").is(200).body["objects"], serde_json::json!([]));
}

#[test]
fn a_watch_ends_with_its_token() {
    let guarded = Guarded::new();
    guarded.admin().apply("", BOTH).is(200);
    let a = guarded.tenant("a");
    let mut watch = a.watch(&format!("{OWN}?watch=true"));
    assert_eq!(watch.next().unwrap(), "bookmark 1");
    tokens::revoke(guarded.folder.path(), &"a".parse().unwrap()).unwrap();
    guarded.reload();
    assert_eq!(watch.next(), None);
    a.get(OWN).is(401);
}

#[test]
fn a_write_whose_token_is_revoked_meanwhile_is_not_done() {
    let guarded = Guarded::new();
    guarded.admin().apply("", BOTH).is(200);
    let a = guarded.tenant("a");
    let text = "{kind: Service, metadata: {name: x, tenant: a}, spec: {protocol: tcp}}";
    let mut stream = a.begin(text.len());
    let (first, last) = text.split_at(20);
    stream.write_all(first.as_bytes()).unwrap();
    tokens::revoke(guarded.folder.path(), &"a".parse().unwrap()).unwrap();
    guarded.reload();
    stream.write_all(last.as_bytes()).unwrap();
    Answer::read(stream).is(401);
    guarded.token("eye", Role::Auditor).get("/v1/tenants/a/services/x").is(404);
}

#[test]
fn who_is_let_in_no_more_while_it_waits_is_told_nothing_of_what_it_wrote() {
    let guarded = Guarded::new();
    guarded.admin().apply("", &(BOTH.trim_end().to_owned() + "\n" + BINDING)).is(200);
    let a = guarded.tenant("a");
    let port = "/v1/tenants/a/logical-ports/p?waitFor=Realized&timeout=60s";
    let patch = r#"{"spec":{"enabled":false}}"#;
    let headers = [("authorization", a.bearer.as_str())];
    let mut stream = guarded.served.head("PATCH", port, &headers, patch.len());
    stream.write_all(patch.as_bytes()).unwrap();
    let begun = std::time::Instant::now();
    while guarded.served.catalog.store().revision().0 < 2 {
        assert!(begun.elapsed() < Duration::from_secs(60));
    }
    tokens::revoke(guarded.folder.path(), &"a".parse().unwrap()).unwrap();
    guarded.reload();
    Answer::read(stream).is(401);
}

#[test]
fn one_tenants_slow_writes_keep_no_other_waiting() {
    let guarded = Guarded::new();
    guarded.admin().apply("", BOTH).is(200);
    let (a, b) = (guarded.tenant("a"), guarded.tenant("b"));
    // More than may be done at once.
    let _slow: Vec<_> = (0..20).map(|_| a.begin(100)).collect();
    b.apply("", "{kind: Service, metadata: {name: x, tenant: b}, spec: {protocol: tcp}}").is(200);
}

#[test]
fn a_tenant_that_is_made_anew_is_another() {
    let guarded = Guarded::new();
    let admin = guarded.admin();
    // A token that is there before its tenant is none.
    let early = guarded.token("early", Role::TenantViewer { tenant: "a".parse().unwrap() });
    early.get("/v1/whoami").is(401);
    admin.apply("", BOTH).is(200);
    let old = guarded.tenant("a");
    let ports = "/v1/tenants/a/logical-ports";
    let switch = "{kind: LogicalSwitch, metadata: {name: t, tenant: a}, spec: {}}";
    old.apply("", switch).is(200);
    let page = old.get(&format!("{OWN}?limit=1")).is(200).body["continue"].clone();
    let mut watch = old.watch(&format!("{OWN}?watch=true"));
    assert_eq!(watch.next().unwrap(), "bookmark 2");
    for path in [&format!("{ports}/p"), &format!("{OWN}/s"), &format!("{OWN}/t"), "/v1/tenants/a"] {
        admin.ask("DELETE", path, &[], "").is(200);
    }
    while watch.next().is_some() {}
    old.get(OWN).is(401);
    admin.apply("", "{kind: Tenant, metadata: {name: a}, spec: {}}").is(200);
    old.get(OWN).is(401);
    early.get(OWN).is(401);
    let new = guarded.token("new", Role::TenantAdmin { tenant: "a".parse().unwrap() });
    new.get("/v1/whoami").is(200);
    // What was before it is not shown.
    new.get(&format!("{OWN}?limit=1&continue={}", page.as_str().unwrap())).is(410);
    let mut watch = new.watch(&format!("{OWN}?watch=true&from=0"));
    assert_eq!(watch.several(3), ["bookmark 0", "reset"]);
    let mut watch = new.watch(&format!("{OWN}?watch=true"));
    new.apply("", switch).is(200);
    assert_eq!(watch.several(2), ["bookmark 7", "put t 8"]);
}

#[test]
fn what_is_written_is_recorded_with_who_wrote_it_and_without_secrets() {
    let guarded = Guarded::new();
    let admin = guarded.admin();
    admin.apply("", BOTH).is(200);
    admin.apply("?dryRun=true", BOTH).is(200);
    let a = guarded.tenant("a");
    let viewer = guarded.token("viewer", Role::TenantViewer { tenant: "a".parse().unwrap() });
    let (switch, key) = (format!("{OWN}/s"), [("idempotency-key", "hush")]);
    a.get(&switch).is(200);
    let patch = r#"{"metadata":{"labels":{"hush":"hush"}}}"#;
    a.ask("PATCH", &switch, &key, patch).is(200);
    a.ask("DELETE", &switch, &[], "").is(409);
    viewer.ask("DELETE", &switch, &[], "").is(403);
    a.ask("PUT", &format!("{OTHERS}/secret"), &[], "{}").is(404);
    a.apply("?zovn_a_hush=1", "[]").is(400);
    let lines = guarded.served.recorded();
    let refusals = guarded.served.recorded_refusals();
    let words = |lines: &[Value]| -> Vec<_> {
        let words = |it: &Value| {
            let word = |field: &str| it[field].as_str().unwrap_or("-").to_owned();
            let [who, action, object] = ["who", "action", "object"].map(word);
            format!("{who} {action} {object} {} {} {}", it["status"], it["revision"], it["changed"])
        };
        lines.iter().map(words).collect()
    };
    assert_eq!(words(&lines), ["admin POST - 200 1 6", "a PATCH LogicalSwitch/a/s 200 2 1"]);
    assert_eq!(
        words(&refusals),
        [
            "a DELETE LogicalSwitch/a/s 409 null null",
            "viewer DELETE LogicalSwitch/a/s 403 null null",
            "a PUT LogicalSwitch/b/secret 404 null null",
            "a POST - 400 null null",
        ]
    );
    let updated = serde_json::json!([{ "object": "LogicalSwitch/a/s", "change": "updated" }]);
    assert_eq!((&lines[1]["changes"], &lines[1]["tenant"]), (&updated, &"a".into()));
    let from = lines[0]["from"].as_str().unwrap();
    assert!(from.starts_with("127.0.0.1:"), "{from}");
    let text = serde_json::to_string(&(lines, refusals)).unwrap();
    let secret = a.bearer.rsplit('_').next().unwrap();
    assert!(!text.contains(secret) && !text.contains("hush"), "{text}");
}

/// What a tenant may have, by a few numbers.
fn object(tenant: &str, (kind, name, other, label): (u8, u8, u8, bool)) -> String {
    let labels = if label { "labels: {set: x}" } else { "labels: {}" };
    let metadata = format!("{{name: n{name}, tenant: {tenant}, {labels}}}");
    // Of another tenant, which shares it with one of the two.
    let other = if other == 5 { "c/n1".into() } else { format!("n{other}") };
    let (kind, spec) = match kind {
        0 => ("LogicalSwitch", format!("{{subnets: [10.0.{name}.0/24]}}")),
        1 => (
            "LogicalPort",
            format!("{{switch: {other}, vif: {{}}, mac: '02:00:00:00:00:0{name}'}}"),
        ),
        2 => ("AddressSet", format!("{{addresses: [10.0.0.{name}]}}")),
        3 => ("PortGroup", format!("{{ports: [{other}]}}")),
        _ => ("LogicalRouter", "{}".into()),
    };
    format!("- {{kind: {kind}, metadata: {metadata}, spec: {spec}}}\n")
}

fn objects() -> impl Strategy<Value = Vec<(u8, u8, u8, bool)>> {
    prop::collection::vec((0..5u8, 1..5u8, 1..6u8, any::<bool>()), 0..8)
}

/// A request of tenant `a`: of its own, of the other, of one that shares with it, of nobody.
fn request(who: &As<'_>, (how, whose, it): (u8, u8, (u8, u8, u8, bool))) -> Answer {
    let kinds =
        ["logical-switches", "logical-ports", "address-sets", "port-groups", "logical-routers"];
    let tenant = ["a", "a", "b", "c", "d"][whose as usize];
    let shelf = format!("/v1/tenants/{tenant}/{}", kinds[it.0 as usize]);
    let path = format!("{shelf}/n{}", it.1);
    let object = object(tenant, it);
    let one = object.trim_start_matches("- ");
    who.guarded.served.settle();
    let mut answer = match how {
        0 => who.get(&path),
        1 => who.get(&shelf),
        2 => who.get(&format!("{shelf}?limit=1")),
        3 => who.ask("PUT", &path, &[("if-match", "*")], one),
        4 => who.ask("PUT", &path, &[], one),
        5 => who.ask("DELETE", &path, &[], ""),
        6 => who.ask("PATCH", &path, &[], r#"{"metadata":{"labels":{"set":"x"}}}"#),
        7 => who.apply("?dryRun=true", &object),
        8 => who.apply("?prune=set=x", &object.replace("labels: {}", "labels: {set: x}")),
        9 => who.ask("POST", "/v1/apply", &[("idempotency-key", "k")], &object),
        10 => who.get(&format!("/v1/tenants/{tenant}")),
        _ => who.apply("", &object.replace("switch: n", "switch: b/n")),
    };
    // Whether what was just written is computed already is chance: conditions say it, and the facts
    // beside them are there only then. A problem's `status` is a number.
    let status = answer.body.get_mut("status");
    if let Some(status) = status.filter(|it| how > 2 && it.is_object()) {
        status.take();
    }
    answer
}

/// What is random of an answer's objects is not looked at.
fn timeless(mut value: Value) -> Value {
    match &mut value {
        Value::Object(fields) => {
            fields.retain(|name, _| !["uid", "createdAt"].contains(&name.as_str()));
            fields.values_mut().for_each(|it| *it = timeless(it.take()));
        }
        Value::Array(all) => all.iter_mut().for_each(|it| *it = timeless(it.take())),
        _ => {}
    }
    value
}

/// Tenant `c` shares with `a`, and uses what `b` shares with it alone. So `a` may name objects that
/// name objects which it may not.
const THREE: &str = "
- {kind: Tenant, metadata: {name: a}, spec: {}}
- {kind: Tenant, metadata: {name: b}, spec: {sharedWith: [c]}}
- {kind: Tenant, metadata: {name: c}, spec: {sharedWith: [a]}}
- {kind: LogicalSwitch, metadata: {name: base, tenant: b}, spec: {}}
- {kind: LogicalSwitch, metadata: {name: n1, tenant: c}, spec: {}}
- {kind: LogicalPort, metadata: {name: n1, tenant: c}, spec: {switch: b/base, vif: {}, mac: '02:00:00:00:00:09'}}
";

/// Writes as many of tenant `b`'s objects as can stand, in one revision whatever they are.
fn populate(admin: &As<'_>, objects: &[(u8, u8, u8, bool)]) {
    let mut text =
        "- {kind: Service, metadata: {name: one, tenant: b}, spec: {protocol: tcp}}\n".to_owned();
    for it in objects {
        let more = format!("{text}{}", object("b", *it));
        if admin.apply("?dryRun=true", &more).status == 200 {
            text = more;
        }
    }
    admin.apply("", &text).is(200);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    #[test]
    fn what_another_tenant_has_changes_no_answer(
        others in [objects(), objects()],
        requests in prop::collection::vec(
            (0..12u8, 0..5u8, (0..5u8, 1..5u8, 1..6u8, any::<bool>())), 1..24),
    ) {
        let worlds = others.map(|objects| {
            let guarded = Guarded::new();
            let admin = guarded.admin();
            admin.apply("", THREE).is(200);
            populate(&admin, &objects);
            guarded
        });
        let askers = worlds.each_ref().map(|it| it.tenant("a"));
        for one in requests {
            let [left, right] = askers.each_ref().map(|it| {
                let answer = request(it, one);
                let tag = answer.head.lines().find(|it| it.starts_with("etag: ")).map(str::to_owned);
                (answer.status, tag, timeless(answer.body))
            });
            prop_assert_eq!(left, right, "{:?}", one);
        }
    }
}

#[test]
fn a_tenant_is_told_how_many_hosts_are_behind_and_not_which() {
    let guarded = Guarded::new();
    let admin = guarded.admin();
    let other = "- {kind: TransportNode, metadata: {name: h2}, spec: {vteps: [192.0.2.2]}}";
    admin.apply("", &[BOTH.trim_end(), BINDING, other].join("\n")).is(200);
    let port = "/v1/tenants/a/logical-ports/p?waitFor=Realized&timeout=0ms";
    let tenant = guarded.tenant("a");
    let begun = std::time::Instant::now();
    let realized = |who: &As<'_>, path: &str| loop {
        let answer = who.get(path).is(200).body;
        let conditions = answer.get("conditions").unwrap_or(&answer["status"]["conditions"]);
        let found = conditions.as_array().unwrap().iter().find(|it| it["type"] == "Realized");
        let found = found.unwrap().clone();
        if found["reason"] != "Computing" {
            break (found, answer.to_string());
        }
        assert!(begun.elapsed() < Duration::from_secs(60));
    };
    for path in [port, "/v1/revisions/1"] {
        let (of_operator, _) = realized(&admin, path);
        assert!(of_operator["message"].as_str().unwrap().ends_with("not connected: h1"));
        let (of_tenant, whole) = realized(&tenant, path);
        assert!(of_tenant["message"].as_str().unwrap().ends_with("and 1 are not connected"));
        assert!(!whole.contains("h1"), "{whole}");
    }
    // Another's hosts are not counted.
    let (of_other, _) = realized(&guarded.tenant("b"), "/v1/revisions/1");
    assert_eq!(of_other["reason"], "NoHosts");
    // Nor is a host told which others there are.
    let node = guarded.token("n", Role::Node { node: "h2".parse().unwrap() });
    let (of_node, whole) = realized(&node, "/v1/transport-nodes/h2");
    assert!(of_node["message"].as_str().unwrap().ends_with("and 1 are not connected"));
    assert!(!whole.contains("h1"), "{whole}");
    node.get("/v1/revisions/1").is(404);
}

#[test]
fn hosts_of_a_switch_that_another_shares_are_waited_for() {
    let guarded = Guarded::new();
    let host = "
- {kind: TransportNode, metadata: {name: h1}, spec: {vteps: [192.0.2.1]}}
- {kind: Binding, metadata: {name: x}, spec: {port: a/x, node: h1}}
";
    guarded.admin().apply("", &(SHARED.trim_end().to_owned() + host)).is(200);
    guarded.served.settle();
    let revision = guarded.tenant("a").get("/v1/revisions/1").is(200).body;
    assert_eq!(revision["conditions"][1]["reason"], "Unreachable", "{revision}");
}

#[test]
fn a_tenant_that_waits_as_often_as_it_can_leaves_places_to_others() {
    let guarded = Guarded::new();
    let admin = guarded.admin();
    admin.apply("", &(BOTH.trim_end().to_owned() + "\n" + BINDING)).is(200);
    let tenant = guarded.tenant("a");
    let port = "/v1/tenants/a/logical-ports/p?waitFor=Realized&timeout=60s";
    let mut waiting: Vec<_> = (0..32).map(|_| tenant.watch(port)).collect();
    // Requests that were sent are taken up a moment later. One that finds this one's has no place.
    let begun = std::time::Instant::now();
    let short = port.replace("60s", "1ms");
    while tenant.get(&short).status != 429 {
        assert!(begun.elapsed() < Duration::from_secs(30));
        waiting.push(tenant.watch(port));
    }
    admin.get(&short).is(200);
    let switch = "{kind: LogicalSwitch, metadata: {name: t, tenant: a}, spec: {}}";
    tenant.apply("?waitFor=Realized", switch).is(429);
    tenant.get("/v1/tenants/a/logical-switches/t").is(404);
    // Who hangs up waits no more.
    drop(waiting);
    while tenant.get(&short).status == 429 {
        assert!(begun.elapsed() < Duration::from_secs(30));
    }
}
