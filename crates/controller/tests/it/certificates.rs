//! Who asks, by a certificate instead of a token.

use std::fs;
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::{Duration, SystemTime};

use api::{Asked, Remote, RemoteClient, RemoteError};
use axum::http::Method;
use controller::tokens::{self, Tokens};
use controller::{Door, Role};
use serde_json::Value;
use tempfile::TempDir;
use tls::sign::Authority;
use tls::{Own, Protocol, Server};

use crate::client::{Served, open};

/// The controller's name in its certificate.
const NAME: &str = "controller.example";

const BOTH: &str = "
- {kind: Tenant, metadata: {name: a}, spec: {}}
- {kind: Tenant, metadata: {name: b}, spec: {}}
- {kind: LogicalSwitch, metadata: {name: s, tenant: a}, spec: {}}
- {kind: LogicalSwitch, metadata: {name: secret, tenant: b}, spec: {}}
";

/// A controller that asks for tokens or certificates. One authority has signed its own, another
/// signs people's.
struct Certified {
    served: Served,
    door: Arc<Door>,
    folder: TempDir,
    hosts: Authority,
    people: Authority,
}

impl Certified {
    fn new() -> Self {
        let (folder, hosts, people) =
            (tempfile::tempdir().unwrap(), Authority::new(), Authority::new());
        let server = Server::open(hosts.sign(NAME), Some(people.path("ca")), Protocol::Http1);
        let server = Arc::new(server.unwrap());
        let tokens = Tokens::open(folder.path()).unwrap();
        let door = Arc::new(Door::Known { tokens, clients: Some(Arc::clone(&server)) });
        let served = Served::encrypted(open(folder.path()), Arc::clone(&door), Some(server));
        Self { served, door, folder, hosts, people }
    }

    fn reload(&self) {
        let Door::Known { tokens, .. } = &*self.door else { panic!("it asks who somebody is") };
        tokens.reload().unwrap();
    }

    /// Has certificates for a name be somebody's.
    fn add(&self, name: &str, role: Role) {
        let name = name.parse().unwrap();
        tokens::certify(self.folder.path(), &name, role, SystemTime::now()).unwrap();
        self.reload();
    }

    /// Has them be nobody's.
    fn remove(&self, name: &str) {
        tokens::decertify(self.folder.path(), &name.parse().unwrap()).unwrap();
        self.reload();
    }

    fn client(&self, own: Option<Own>, token: Option<String>) -> RemoteClient {
        let server = format!("https://{}", self.served.address);
        let tls = Some(self.hosts.client(NAME, own));
        RemoteClient::new(Remote { server, tls, token }).unwrap()
    }

    /// Who shows a new certificate for a name.
    fn shows(&self, name: &str) -> RemoteClient {
        self.client(Some(self.people.sign(name)), None)
    }

    fn apply(client: &RemoteClient, text: &str) -> Result<Value, RemoteError> {
        let (method, path) = (Method::POST, "/v1/apply".into());
        client.ask(Asked { method, path, if_match: None, body: text.into() })
    }
}

fn get(client: &RemoteClient, path: &str) -> Result<Value, RemoteError> {
    client.ask(Asked::get(path))
}

/// Why a request is refused: the status, and the sentence.
#[track_caller]
fn refused(asked: Result<Value, RemoteError>) -> (u16, String) {
    match asked {
        Err(RemoteError::Refused(refused)) => (refused.status, refused.detail),
        other => panic!("{other:?}"),
    }
}

#[test]
fn who_shows_a_certificate_is_who_its_name_is() {
    let certified = Certified::new();
    let (status, detail) = refused(get(&certified.client(None, None), "/v1/whoami"));
    assert_eq!(status, 401);
    assert!(detail.contains("Bearer TOKEN") && detail.contains("certificate"), "{detail}");
    let me = certified.shows("me");
    let (status, detail) = refused(get(&me, "/v1/whoami"));
    assert!(status == 401 && detail.contains("certificate add"), "{detail}");
    certified.add("me", Role::Admin);
    let told = get(&me, "/v1/whoami").unwrap();
    assert_eq!(told, serde_json::json!({ "name": "me", "role": "admin" }));
    Certified::apply(&me, BOTH).unwrap();
    // A renewed certificate is the same person's.
    Certified::apply(&certified.shows("me"), BOTH).unwrap();
    certified.add("alice", Role::TenantAdmin { tenant: "a".parse().unwrap() });
    let alice = certified.shows("alice");
    let seen = get(&alice, "/v1/tenants/a/logical-switches").unwrap();
    assert_eq!(seen["items"][0]["metadata"]["name"], "s");
    for others in ["/v1/tenants/b/logical-switches", "/v1/tenants/b", "/v1/tenants"] {
        assert_eq!(refused(get(&alice, others)).0, 404, "{others}");
    }
    let others = "{kind: LogicalSwitch, metadata: {name: x, tenant: b}, spec: {}}";
    assert_eq!(refused(Certified::apply(&alice, others)).0, 404);
    let own = "{kind: LogicalSwitch, metadata: {name: x, tenant: a}, spec: {}}";
    Certified::apply(&alice, own).unwrap();
    let lines = certified.served.recorded();
    let last = lines.last().unwrap();
    assert_eq!((&last["who"], &last["tenant"]), (&"alice".into(), &"a".into()));
    assert_eq!(certified.served.recorded_refusals()[0]["who"], "alice");
}

#[test]
fn certificates_of_others_and_old_ones_are_not_taken() {
    let certified = Certified::new();
    certified.add("me", Role::Admin);
    let others = Authority::new();
    for own in [
        others.sign("me"),
        // Who signs the controller's own signs nobody else's.
        certified.hosts.sign("me"),
        certified.people.sign_expired("me"),
    ] {
        let error = get(&certified.client(Some(own), None), "/v1/whoami").unwrap_err();
        assert!(matches!(error, RemoteError::Distrusted { .. }), "{error:?}");
    }
    get(&certified.shows("me"), "/v1/whoami").unwrap();
    // Who would be two people is neither.
    certified.add("you", Role::Auditor);
    let both = certified.people.sign_all("both", &["me", "you"]);
    let (status, detail) = refused(get(&certified.client(Some(both), None), "/v1/whoami"));
    assert!(status == 401 && detail.contains("several names"), "{detail}");
}

#[test]
fn a_name_that_has_an_end_is_nobodys_after_it() {
    let certified = Certified::new();
    certified.add("me", Role::Admin);
    let path = certified.folder.path().join("tokens.json");
    let mut table: Value = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
    let me = certified.shows("me");
    for (end, status) in [(1_u64, Some(401)), (1 << 40, None)] {
        table["me"]["expires"] = end.into();
        fs::write(&path, table.to_string()).unwrap();
        certified.reload();
        let told = get(&me, "/v1/whoami");
        assert_eq!(told.is_err().then(|| refused(told).0), status);
    }
}

#[test]
fn a_token_counts_before_a_certificate() {
    let certified = Certified::new();
    certified.add("me", Role::Admin);
    let (folder, eye) = (certified.folder.path(), "eye".parse().unwrap());
    let day = Duration::from_hours(24);
    let token = tokens::create(folder, &eye, Role::Auditor, day, SystemTime::now()).unwrap();
    certified.reload();
    let own = certified.people.sign("me");
    let both = certified.client(Some(own.clone()), Some(token.clone()));
    assert_eq!(get(&both, "/v1/whoami").unwrap()["name"], "eye");
    let wrong = certified.client(Some(own), Some(token + "0"));
    assert_eq!(refused(get(&wrong, "/v1/whoami")).0, 401);
}

/// Watches as who shows this certificate, has `act` do something that is to end the watch, and
/// waits until it has ended.
fn watched_until(certified: &Certified, name: &str, act: impl FnOnce()) {
    let client = certified.shows(name);
    let (tell, told) = mpsc::channel();
    thread::scope(|scope| {
        let watch = scope.spawn(|| {
            client.watch("/v1/tenants/a/logical-switches?watch=true", |event, _| {
                tell.send(event.to_owned()).unwrap();
                true
            })
        });
        assert_eq!(told.recv().unwrap(), "bookmark");
        act();
        watch.join().unwrap().unwrap();
    });
}

#[test]
fn a_watch_ends_when_its_certificate_is_nobodys_any_more() {
    let certified = Certified::new();
    certified.add("me", Role::Admin);
    Certified::apply(&certified.shows("me"), BOTH).unwrap();
    watched_until(&certified, "me", || certified.remove("me"));
    assert_eq!(refused(get(&certified.shows("me"), "/v1/whoami")).0, 401);
    // The same name, added anew, is another.
    certified.add("me", Role::Admin);
    watched_until(&certified, "me", || {
        certified.remove("me");
        certified.add("me", Role::Admin);
    });
    // Nor does one go on whose signer is not trusted any more.
    let other = Authority::new();
    watched_until(&certified, "me", || {
        fs::copy(other.path("ca"), certified.people.path("ca")).unwrap();
    });
    let error = get(&certified.shows("me"), "/v1/whoami").unwrap_err();
    assert!(matches!(error, RemoteError::Distrusted { .. }), "{error:?}");
}
