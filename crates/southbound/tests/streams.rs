//! Agents and a controller, each end as it is shipped, over TCP on loopback.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use model::Generation;
use replica::{Changed, Delta, Fence, Follower, Limits, Map, Name, Store};
use southbound::{Change, Execute, FollowError, Node, Place, Ports, Publisher, follow, service};
use tokio::net::TcpListener;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio_stream::wrappers::TcpListenerStream;
use tonic::transport::{Channel, Endpoint, Server};

const LIMITS: Limits = Limits { domains: 64, update_bytes: 1 << 20 };
const LONG: Duration = Duration::from_secs(60);

/// What an agent executes, for the test to see.
#[derive(Default)]
struct Seen {
    domains: BTreeMap<Name, (Generation, usize)>,
    /// Rows that it was told of, of each new generation.
    told: Vec<usize>,
    unknown: BTreeSet<String>,
    marked: Generation,
}

/// Executes everything, but for rows that say that they cannot be.
#[derive(Clone, Default)]
struct Host(Arc<Mutex<Seen>>);

impl Execute for Host {
    async fn execute(&mut self, changed: &Changed<'_>) -> Result<(), String> {
        let is_bad = |row: &Option<Arc<[u8]>>| row.as_ref().is_some_and(|row| **row == *b"bad");
        if changed.delta().iter().any(|(_, row)| is_bad(row)) {
            return Err("a row is bad".into());
        }
        let seen = &mut *self.0.lock().unwrap();
        seen.told.push(changed.delta().len());
        let (generation, rows) = seen.domains.entry(changed.domain().clone()).or_default();
        *generation = changed.generation();
        *rows += changed.delta().iter().filter(|(_, row)| row.is_some()).count();
        Ok(())
    }

    fn began(&mut self, _: Store, _: Fence) {}

    async fn dropped(&mut self, domain: &Name) {
        self.0.lock().unwrap().domains.remove(domain);
    }

    async fn marked(&mut self, revision: Generation) {
        self.0.lock().unwrap().marked = revision;
    }

    fn unknown(&mut self, ports: Vec<String>) {
        self.0.lock().unwrap().unknown.extend(ports);
    }
}

/// A controller that listens.
async fn serve(publisher: Publisher) -> (Arc<Publisher>, Channel) {
    let publisher = Arc::new(publisher);
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let to = format!("http://{}", listener.local_addr().unwrap());
    let server = Server::builder().add_service(service(publisher.clone()));
    tokio::spawn(server.serve_with_incoming(TcpListenerStream::new(listener)));
    (publisher, Endpoint::from_shared(to).unwrap().connect().await.unwrap())
}

/// An agent that follows, and keeps its copies where it ends.
struct Agent {
    host: Host,
    ports: mpsc::Sender<Ports>,
    task: JoinHandle<(FollowError, Follower)>,
}

fn agent(channel: &Channel, name: &str, incarnation: u64, ports: &[&str], has: Follower) -> Agent {
    let (host, channel) = (Host::default(), channel.clone());
    let (sender, mut changes) = mpsc::channel(4);
    let node = Node { name: name.into(), incarnation, window_bytes: 1 << 16 };
    let attached = ports.iter().map(|it| (*it).to_owned()).collect();
    let all = Ports { attached, detached: Vec::new() };
    let mut execute = host.clone();
    let task = tokio::spawn(async move {
        let mut follower = has;
        let ended = follow(channel, &node, &mut follower, &mut changes, all, &mut execute).await;
        (ended.unwrap_err(), follower)
    });
    Agent { host, ports: sender, task }
}

/// Waits until something is so.
async fn until(mut is_so: impl FnMut() -> bool) {
    let begun = std::time::Instant::now();
    while !is_so() {
        assert!(begun.elapsed() < LONG, "it does not come about");
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
}

fn rows(many: u32, row: &[u8]) -> Map {
    (0..many).map(|key| (Arc::from(key.to_be_bytes()), Arc::from(row))).collect()
}

fn edit(key: u32, row: Option<&[u8]>) -> Delta {
    [(Arc::from(key.to_be_bytes()), row.map(Arc::from))].into_iter().collect()
}

fn place(domain: &str, node: Option<&str>) -> Place {
    Place { domain: domain.into(), node: node.map(Name::from) }
}

/// Domains `a` and `b` with ports of these names, of which `b2` is bound to node `two`.
fn publisher() -> Publisher {
    let domains = [("a".into(), rows(3000, &[7; 60])), ("b".into(), rows(2, b"row"))];
    let ports = [
        ("t/a1".into(), place("a", None)),
        ("t/b1".into(), place("b", None)),
        ("t/b2".into(), place("b", Some("two"))),
    ];
    Publisher::new((Store(9), Fence(1)), Generation(10), domains, ports)
}

fn change(domain: &str, delta: Delta) -> Change {
    Change { domains: BTreeMap::from([(domain.into(), delta)]), ..Change::default() }
}

fn generation(agent: &Agent, domain: &str) -> Option<Generation> {
    agent.host.0.lock().unwrap().domains.get(domain).map(|it| it.0)
}

#[tokio::test]
async fn an_agent_has_the_domains_of_its_ports_and_is_woken_for_no_others() {
    let (publisher, channel) = serve(publisher()).await;
    let one = agent(&channel, "one", 1, &["t/a1", "t/b2", "t/none"], Follower::new(LIMITS));
    let two = agent(&channel, "two", 1, &["t/b1", "t/b2"], Follower::new(LIMITS));
    until(|| generation(&one, "a").is_some() && generation(&two, "b").is_some()).await;
    let of_others: BTreeSet<String> = ["t/b2".into(), "t/none".into()].into();
    until(|| one.host.0.lock().unwrap().unknown == of_others).await;
    assert_eq!(generation(&one, "b"), None);
    assert_eq!(one.host.0.lock().unwrap().domains["a"].1, 3000, "three chunks");
    let (agents, woken) = publisher.woken();
    publisher.publish(Generation(11), change("b", edit(0, Some(b"other"))));
    until(|| publisher.lagging("b") == Some((Generation(11), Vec::new()))).await;
    until(|| two.host.0.lock().unwrap().marked == Generation(11)).await;
    assert_eq!((agents, publisher.woken().1 - woken), (2, 1));
    assert_eq!(generation(&one, "a"), Some(Generation(10)));
    // A port comes, and another goes.
    one.ports
        .send(Ports { attached: vec!["t/b1".into()], detached: vec!["t/a1".into()] })
        .await
        .unwrap();
    until(|| generation(&one, "a").is_none() && generation(&one, "b").is_some()).await;
    // Its port is bound elsewhere.
    let ports = BTreeMap::from([("t/b1".into(), Some(place("b", Some("two"))))]);
    publisher.publish(Generation(12), Change { ports, ..Change::default() });
    until(|| generation(&one, "b").is_none()).await;
    assert_eq!(generation(&two, "b"), Some(Generation(11)));
}

#[tokio::test]
async fn what_an_agent_refuses_is_told_and_another_has_it() {
    let (publisher, channel) = serve(publisher()).await;
    let one = agent(&channel, "one", 1, &["t/b1"], Follower::new(LIMITS));
    until(|| {
        publisher.lagging("b") == Some((Generation(10), Vec::new()))
            && generation(&one, "b").is_some()
    })
    .await;
    publisher.publish(Generation(11), change("b", edit(0, Some(b"bad"))));
    until(|| publisher.lagging("b").unwrap().1.iter().any(|it| it.refused.is_some())).await;
    let (newest, lagging) = publisher.lagging("b").unwrap();
    assert_eq!((newest, lagging[0].executes), (Generation(11), Some(Generation(10))));
    publisher.publish(Generation(12), change("b", edit(0, Some(b"good"))));
    until(|| publisher.lagging("b") == Some((Generation(12), Vec::new()))).await;
}

#[tokio::test]
async fn who_comes_back_is_sent_what_has_changed_since() {
    let (publisher, channel) = serve(publisher()).await;
    let one = agent(&channel, "one", 1, &["t/a1"], Follower::new(LIMITS));
    until(|| {
        publisher.lagging("a") == Some((Generation(10), Vec::new()))
            && generation(&one, "a").is_some()
    })
    .await;
    // A later start of the same node takes its place.
    let other = agent(&channel, "one", 2, &[], Follower::new(LIMITS));
    let (ended, follower) = one.task.await.unwrap();
    assert!(ended.to_string().contains("another session of node one"), "{ended}");
    other.task.abort();
    publisher.publish(Generation(11), change("a", edit(5, None)));
    let one = agent(&channel, "one", 3, &["t/a1"], follower);
    until(|| generation(&one, "a") == Some(Generation(11))).await;
    assert_eq!(one.host.0.lock().unwrap().told, [1]);
    // An earlier start is not served any more.
    let (ended, _) = agent(&channel, "one", 2, &[], Follower::new(LIMITS)).task.await.unwrap();
    assert!(ended.to_string().contains("another session"), "{ended}");
}

#[tokio::test]
async fn a_master_of_before_is_not_followed() {
    let (_old, before) = serve(publisher()).await;
    let new = Publisher::new((Store(9), Fence(2)), Generation(10), [], []);
    let (_new, channel) = serve(new).await;
    let one = agent(&channel, "one", 1, &[], Follower::new(LIMITS));
    let two = agent(&channel, "one", 2, &[], Follower::new(LIMITS));
    let (_, follower) = one.task.await.unwrap();
    drop(two);
    let (ended, _) = agent(&before, "one", 3, &[], follower).task.await.unwrap();
    assert!(matches!(ended, FollowError::Rejected(_)), "{ended}");
}
