//! What is written reaches the agents that have ports there, as rows that are those of the
//! compiler.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use image::{Domain, Site, Told};
use logical::objects::Identity;
use model::Generation;
use replica::{Changed, Fence, Follower, Limits, Name, Store};
use southbound::{Everybody, Execute, Node, Ports, Proof, Publisher, connect, follow};
use store::Embedded;
use tokio::net::TcpListener;
use tokio::runtime::Builder;
use tokio::sync::{mpsc, oneshot};

use crate::client::{Served, open};

pub const SHOP: &str = include_str!("../../../../examples/shop.yaml");

/// Where its machines are.
pub const PLACES: &str = "
---
- {kind: TransportNode, metadata: {name: h1}, spec: {vteps: [192.0.2.1]}}
- {kind: TransportNode, metadata: {name: h2}, spec: {vteps: [192.0.2.2]}}
- {kind: Binding, metadata: {name: web-1}, spec: {port: shop/web-1, node: h1}}
- {kind: Binding, metadata: {name: db-1}, spec: {port: shop/db-1, node: h2}}
";

/// A controller that tells agents, as long as this lives.
pub struct Controller {
    pub served: Served,
    publisher: Arc<Publisher>,
    agents: SocketAddr,
    thread: Option<(oneshot::Sender<()>, JoinHandle<()>)>,
}

impl Controller {
    pub fn on(folder: &Path) -> Self {
        Self::serving(Served::on(open(folder)))
    }

    pub fn serving(served: Served) -> Self {
        let publisher = Arc::clone(&served.publisher);
        let (stop, stopped) = oneshot::channel::<()>();
        let (tell, told) = channel();
        let published = Arc::clone(&publisher);
        let thread = thread::spawn(move || {
            let runtime = Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(async {
                let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
                tell.send(listener.local_addr().unwrap()).unwrap();
                tokio::select! {
                    _ = stopped => {}
                    ended = southbound::serve(listener, None, published, Arc::new(Everybody)) => panic!("{ended:?}"),
                }
            });
        });
        Self { served, publisher, agents: told.recv().unwrap(), thread: Some((stop, thread)) }
    }

    /// Waits until every agent executes all that was written.
    pub fn settle(&self) -> Generation {
        let revision = Generation(self.served.catalog.store().revision().0);
        let begun = Instant::now();
        while self.publisher.revision() < revision || self.publisher.behind() > 0 {
            assert!(begun.elapsed() < Duration::from_secs(60), "{:?}", self.publisher.woken());
            thread::sleep(Duration::from_millis(2));
        }
        revision
    }

    /// Ends it, and waits until another can have its folder.
    pub fn end(self, folder: &Path) {
        drop(self);
        let begun = Instant::now();
        while Embedded::open(folder).is_err() {
            assert!(begun.elapsed() < Duration::from_secs(60), "it does not end");
            thread::sleep(Duration::from_millis(2));
        }
    }
}

impl Drop for Controller {
    fn drop(&mut self) {
        let Some((stop, thread)) = self.thread.take() else { return };
        let _ = stop.send(());
        let ended = thread.join();
        assert!(thread::panicking() || ended.is_ok(), "the controller died");
    }
}

/// What an agent was told, for the test to see.
#[derive(Default)]
pub struct Seen {
    domains: BTreeMap<Name, (Domain, BTreeMap<Identity, Site>)>,
    labels: BTreeMap<Identity, u32>,
    /// How many rows of each generation.
    pub told: Vec<usize>,
    unknown: Vec<String>,
    /// Why it follows no more.
    pub ended: String,
    /// Whether it takes nothing.
    pub is_full: bool,
}

#[derive(Clone, Default)]
pub struct Host(pub Arc<Mutex<Seen>>);

impl Execute for Host {
    async fn execute(&mut self, changed: &Changed<'_>) -> Result<(), String> {
        let seen = &mut *self.0.lock().unwrap();
        if seen.is_full {
            return Err("no room".into());
        }
        let (domain, sites) = seen.domains.entry(changed.domain().clone()).or_default();
        for (key, row) in changed.delta().iter() {
            match Told::decode(key, row.as_deref()).map_err(|error| error.to_string())? {
                Told::Row(change) => domain.apply(change),
                Told::Site(id, Some(site)) => drop(sites.insert(id, site)),
                Told::Site(id, None) => drop(sites.remove(&id)),
                Told::Label(id, Some(label)) => drop(seen.labels.insert(id, label)),
                Told::Label(id, None) => drop(seen.labels.remove(&id)),
            }
        }
        seen.told.push(changed.delta().len());
        Ok(())
    }

    fn began(&mut self, _: Store, _: Fence) {}

    async fn dropped(&mut self, domain: &Name) {
        self.0.lock().unwrap().domains.remove(domain);
    }

    async fn marked(&mut self, _: Generation) {}

    fn unknown(&mut self, ports: Vec<String>) {
        self.0.lock().unwrap().unknown.extend(ports);
    }
}

/// An agent that has these ports. It gives its copies when the controller ends.
pub fn agent(
    controller: &Controller,
    node: &str,
    ports: &[&str],
    mut follower: Follower,
) -> (Host, Receiver<Follower>) {
    let host = Host::default();
    let (give, given) = channel();
    let (address, mut execute) = (controller.agents, host.clone());
    let node = Node { name: node.into(), incarnation: 1, window_bytes: 1 << 20 };
    let attached = ports.iter().map(|it| (*it).to_owned()).collect();
    thread::spawn(move || {
        Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
            let channel = connect(address, &Proof::default()).await.unwrap();
            let (_sender, mut changes) = mpsc::channel(1);
            let all = Ports { attached, ..Ports::default() };
            let follow = follow(channel, &node, &mut follower, &mut changes, all, &mut execute);
            let ended = follow.await.unwrap_err().to_string();
            execute.0.lock().unwrap().ended = ended;
            let _ = give.send(follower);
        });
    });
    (host, given)
}

pub fn copies() -> Follower {
    Follower::new(Limits { domains: 64, update_bytes: 1 << 24 })
}

/// The one domain of the tenant, as the compiler makes it.
fn compiled(text: &str) -> (Name, Domain) {
    let topology = logical::load(text).unwrap();
    let mut all = compiler::compile(&topology).into_iter();
    let (name, domain) = all.next().unwrap();
    assert!(all.next().is_none());
    (name.to_string().into(), domain)
}

/// Waits until an agent has been told so often.
pub fn until_told(host: &Host, times: usize) {
    let begun = Instant::now();
    while host.0.lock().unwrap().told.len() < times {
        assert!(begun.elapsed() < Duration::from_secs(60), "it is not told");
        thread::sleep(Duration::from_millis(2));
    }
}

#[test]
fn agents_are_told_what_a_write_changes_and_after_a_restart_nothing_again() {
    let folder = tempfile::tempdir().unwrap();
    let controller = Controller::on(folder.path());
    let text = SHOP.trim_end().to_owned() + PLACES;
    controller.served.apply("", &text).is(200);
    controller.settle();
    let (one, copy) = agent(&controller, "h1", &["shop/web-1", "shop/db-1"], copies());
    until_told(&one, 1);
    let (name, domain) = compiled(&text);
    let sites: BTreeMap<Identity, Site> =
        [("LogicalPort/shop/web-1", [192, 0, 2, 1]), ("LogicalPort/shop/db-1", [192, 0, 2, 2])]
            .map(|(port, vtep)| (port.parse().unwrap(), vec![vtep.into()]))
            .into();
    assert_eq!(one.0.lock().unwrap().domains[&name], (domain, sites));
    assert_eq!(one.0.lock().unwrap().unknown, ["shop/db-1"], "it is bound to the other");

    // A rule changes, then where a machine is.
    let text = text.replace("ports: [5432]", "ports: [5433]");
    controller.served.apply("", &text).is(200);
    controller.settle();
    let text = text.replace("shop/db-1, node: h2", "shop/db-1, node: h1");
    controller.served.apply("", &text).is(200);
    let newest = controller.settle();
    until_told(&one, 3);
    {
        let seen = one.0.lock().unwrap();
        assert_eq!(seen.domains[&name].0, compiled(&text).1);
        assert_eq!(seen.told[1..], [1, 1], "a policy, and a place");
    }

    // What another has is not his.
    controller.served.apply("", "{kind: Tenant, metadata: {name: other}, spec: {}}").is(200);
    let last = controller.settle();
    controller.end(folder.path());
    let copy = copy.recv().unwrap();
    assert_eq!(copy.known().next().unwrap().1.unwrap().generation, newest);
    let controller = Controller::on(folder.path());
    let (again, copy) = agent(&controller, "h1", &["shop/web-1", "shop/db-1"], copy);
    until_told(&again, 1);
    assert_eq!(again.0.lock().unwrap().told, [0], "it has the rows");
    assert_eq!(controller.settle(), last);
    controller.end(folder.path());
    assert_eq!(copy.recv().unwrap().known().next().unwrap().1.unwrap().generation, last);
}

/// Waits until an agent is told that ports are there, and no others.
fn until_at(host: &Host, ports: &[(&str, [u8; 4])]) {
    let sites: BTreeMap<Identity, Site> = ports
        .iter()
        .map(|(port, vtep)| {
            (format!("LogicalPort/shop/{port}").parse().unwrap(), vec![(*vtep).into()])
        })
        .collect();
    let begun = Instant::now();
    while host.0.lock().unwrap().domains.values().all(|(_, it)| *it != sites) {
        assert!(begun.elapsed() < Duration::from_secs(60), "{:?}", host.0.lock().unwrap().domains);
        thread::sleep(Duration::from_millis(2));
    }
}

#[test]
fn agents_are_told_where_ports_are_that_nobody_has_bound_also_after_a_restart() {
    let folder = tempfile::tempdir().unwrap();
    let controller = Controller::on(folder.path());
    let unbound = PLACES.lines().filter(|it| !it.contains("Binding")).collect::<Vec<_>>();
    let text = SHOP.trim_end().to_owned() + &unbound.join("\n");
    controller.served.apply("", &text).is(200);
    controller.settle();
    let (web, db) = (("web-1", [192, 0, 2, 1]), ("db-1", [192, 0, 2, 2]));
    let (one, copy) = agent(&controller, "h1", &["shop/web-1"], copies());
    until_at(&one, &[web]);
    let (two, _) = agent(&controller, "h2", &["shop/db-1"], copies());
    until_at(&one, &[web, db]);
    until_at(&two, &[web, db]);
    let port = controller.served.get("/v1/tenants/shop/logical-ports/db-1").is(200).body;
    let conditions = port["status"]["conditions"].to_string();
    assert!(conditions.contains("Discovered"), "{conditions}");
    // A Binding counts before that.
    let bound = "{kind: Binding, metadata: {name: db-1}, spec: {port: shop/db-1, node: h1}}";
    controller.served.apply("", bound).is(200);
    until_at(&one, &[web, ("db-1", web.1)]);
    controller.served.ask("DELETE", "/v1/bindings/db-1", &[], "").is(200);
    until_at(&one, &[web, db]);
    controller.served.apply("", "{kind: Tenant, metadata: {name: other}, spec: {}}").is(200);
    controller.settle();
    controller.end(folder.path());
    let controller = Controller::on(folder.path());
    let (one, _) = agent(&controller, "h1", &["shop/web-1"], copy.recv().unwrap());
    until_told(&one, 1);
    assert_eq!(one.0.lock().unwrap().told, [0], "it has the rows: the other's port is there still");
    // The other is back, and has it no more.
    let _two = agent(&controller, "h2", &[], copies());
    let begun = Instant::now();
    while one.0.lock().unwrap().told != [0, 1] {
        assert!(begun.elapsed() < Duration::from_secs(60), "{:?}", one.0.lock().unwrap().told);
        thread::sleep(Duration::from_millis(2));
    }
}

/// Names with the same label, as hosts without a controller work it out.
const ALIKE: [&str; 2] = ["p34417", "p99995"];

#[test]
fn hosts_mean_ports_by_numbers_that_no_tenant_chooses_or_sees() {
    let folder = tempfile::tempdir().unwrap();
    let controller = Controller::on(folder.path());
    let port = |name: &str| {
        format!(
            "\n---\n{{kind: LogicalPort, metadata: {{name: {name}, tenant: shop}}, spec: {{switch: web, vif: {{}}}}}}"
        )
    };
    let [one, two] = ALIKE.map(|it| format!("LogicalPort/shop/{it}").parse::<Identity>().unwrap());
    assert_eq!(logical::label(&one), logical::label(&two));
    let text = SHOP.trim_end().to_owned() + &ALIKE.map(port).concat();
    controller.served.apply("", &text).is(200);
    controller.settle();
    let (host, _) = agent(&controller, "h1", &["shop/web-1"], copies());
    until_told(&host, 1);
    let labels = |host: &Host| [&one, &two].map(|it| host.0.lock().unwrap().labels[it]);
    let first = labels(&host);
    assert_ne!(first[0], first[1]);

    let path = format!("/v1/tenants/shop/logical-ports/{}", ALIKE[1]);
    let shown = controller.served.get(&path).is(200).body;
    let known = ["createdAt", "generation", "name", "revision", "tenant", "uid"];
    let metadata: Vec<_> = shown["metadata"].as_object().unwrap().keys().cloned().collect();
    assert!(metadata.iter().all(|it| known.contains(&&**it)), "{shown}");
    assert!(!shown.to_string().contains("label\""), "{shown}");

    controller.served.ask("DELETE", &path, &[], "").is(200);
    controller.settle();
    controller.served.apply("", &text).is(200);
    controller.settle();
    until_told(&host, 3);
    let then = labels(&host);
    assert!(then[0] == first[0] && then[1] > first.into_iter().max().unwrap(), "{then:?}");
}
