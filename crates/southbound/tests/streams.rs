//! Agents and a controller, each end as it is shipped, over TCP on loopback.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use model::Generation;
use replica::{Changed, Delta, Fence, Follower, Limits, Map, Name, Store};
use southbound::proto::southbound_client::SouthboundClient;
use southbound::{
    Admit, Change, ConnectError, Connection, Credentials, Everybody, Execute, Executing,
    FollowError, Node, Nodes, Place, Ports, Proof, Publisher, connect, follow, proto,
};
use tls::sign::Authority;
use tls::{Protocol, is_for};
use tokio::net::TcpListener;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio_stream::wrappers::ReceiverStream;
use tonic::transport::Endpoint;
use tonic::{Code, Status, Streaming};
use units::Span;

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
    /// Whether it has lost all rows of a domain, and does not know.
    has_lost: bool,
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

    fn executes_instead(&self, _: &Name, _: &Map) -> Option<Map> {
        std::mem::take(&mut self.0.lock().unwrap().has_lost).then(Map::default)
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
async fn serve(publisher: Publisher) -> (Arc<Publisher>, Connection) {
    let publisher = Arc::new(publisher);
    let address = listen(&publisher, None, Arc::new(Everybody)).await;
    (publisher, connect(address, &Proof::default()).await.unwrap())
}

/// The same, for those who it admits.
async fn listen(
    publisher: &Arc<Publisher>,
    tls: Option<Arc<tls::Server>>,
    admit: Arc<dyn Admit>,
) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(southbound::serve(listener, tls, Arc::clone(publisher), admit));
    address
}

/// An agent that follows, and keeps its copies where it ends.
struct Agent {
    host: Host,
    ports: mpsc::Sender<Ports>,
    task: JoinHandle<(FollowError, Follower)>,
}

fn agent(
    connection: &Connection,
    name: &str,
    incarnation: u64,
    ports: &[&str],
    has: Follower,
) -> Agent {
    let (host, connection) = (Host::default(), connection.clone());
    let (sender, mut changes) = mpsc::channel(4);
    let node = Node { name: name.into(), incarnation, window_bytes: 1 << 16 };
    let attached = ports.iter().map(|it| (*it).to_owned()).collect();
    let all = Ports { attached, detached: Vec::new() };
    let mut execute = host.clone();
    let task = tokio::spawn(async move {
        let mut follower = has;
        let ended = follow(connection, &node, &mut follower, &mut changes, all, &mut execute).await;
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
    let nodes = node.map_or(Nodes::Any, |node| Nodes::Bound(node.into()));
    Place { domain: domain.into(), nodes, is_everywhere: false }
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

/// How far the hosts of a domain are.
fn hosts(publisher: &Publisher, domain: &str) -> Vec<Executing> {
    publisher.executing(Some(&BTreeSet::from([domain.into()]))).1
}

/// The revision up to which everything of a domain is executed by those who are connected.
fn until_of(publisher: &Publisher, domain: &str) -> Generation {
    let hosts = hosts(publisher, domain);
    let connected = hosts.iter().filter(|it| it.is_connected);
    connected.map(|it| it.until).min().unwrap_or_default()
}

#[tokio::test]
async fn an_agent_has_the_domains_of_its_ports_and_is_woken_for_no_others() {
    let (publisher, connection) = serve(publisher()).await;
    let one = agent(&connection, "one", 1, &["t/a1", "t/b2", "t/none"], Follower::new(LIMITS));
    let two = agent(&connection, "two", 1, &["t/b2"], Follower::new(LIMITS));
    until(|| generation(&one, "a").is_some() && generation(&two, "b").is_some()).await;
    let of_others: BTreeSet<String> = ["t/b2".into(), "t/none".into()].into();
    until(|| one.host.0.lock().unwrap().unknown == of_others).await;
    assert_eq!(generation(&one, "b"), None);
    assert_eq!(one.host.0.lock().unwrap().domains["a"].1, 3000, "three chunks");
    let (agents, woken) = publisher.woken();
    publisher.publish(Generation(11), change("b", edit(0, Some(b"other"))));
    until(|| until_of(&publisher, "b") == Generation(11)).await;
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
async fn a_domains_home_has_it_without_a_port_for_as_long_as_it_is_its_home() {
    let (publisher, connection) = serve(publisher()).await;
    let homes = |nodes: &[&str]| {
        let nodes = nodes.iter().copied().map(Name::from).collect();
        Change { homes: BTreeMap::from([("b".into(), nodes)]), ..Change::default() }
    };
    publisher.publish(Generation(11), homes(&["one", "two"]));
    let one = agent(&connection, "one", 1, &[], Follower::new(LIMITS));
    let two = agent(&connection, "two", 1, &["t/b2"], Follower::new(LIMITS));
    until(|| generation(&one, "b").is_some() && generation(&two, "b").is_some()).await;
    publisher.publish(Generation(12), change("b", edit(0, Some(b"other"))));
    until(|| generation(&one, "b") == Some(Generation(12))).await;
    publisher.publish(Generation(13), homes(&["three"]));
    until(|| generation(&one, "b").is_none()).await;
    assert_eq!(generation(&two, "b"), Some(Generation(12)), "it has a port there");
}

#[tokio::test]
async fn what_an_agent_refuses_is_told_and_another_has_it() {
    let (publisher, connection) = serve(publisher()).await;
    let one = agent(&connection, "one", 1, &["t/b1"], Follower::new(LIMITS));
    until(|| until_of(&publisher, "b") == Generation(10) && generation(&one, "b").is_some()).await;
    publisher.publish(Generation(11), change("b", edit(0, Some(b"bad"))));
    let refused = || hosts(&publisher, "b").remove(0).refused;
    until(|| refused().is_some_and(|it| it.to_string() == "a row is bad")).await;
    assert_eq!(until_of(&publisher, "b"), Generation(10));
    publisher.publish(Generation(12), change("b", edit(0, Some(b"good"))));
    until(|| until_of(&publisher, "b") == Generation(12)).await;
}

#[tokio::test]
async fn what_a_host_has_lost_is_found_and_told_again() {
    let (publisher, connection) = serve(publisher().with_compares(Span::from_millis(20))).await;
    let one = agent(&connection, "one", 1, &["t/b1"], Follower::new(LIMITS));
    until(|| until_of(&publisher, "b") == Generation(10) && generation(&one, "b").is_some()).await;
    one.host.0.lock().unwrap().has_lost = true;
    until(|| one.host.0.lock().unwrap().told == [2, 2]).await;
    until(|| until_of(&publisher, "b") == Generation(10)).await;
    assert_eq!(publisher.differing(), 1);
}

#[tokio::test]
async fn how_far_hosts_are_is_known_also_of_those_that_are_not_connected() {
    let (publisher, connection) = serve(publisher()).await;
    let of = |domain: &str| -> Vec<_> {
        let host = |it: Executing| (it.node.to_string(), it.until.0, it.is_connected);
        hosts(&publisher, domain).into_iter().map(host).collect()
    };
    // A port is bound to it, so it has to do with the domain.
    assert_eq!(of("b"), [("two".into(), 0, false)]);
    let one = agent(&connection, "one", 1, &["t/b1"], Follower::new(LIMITS));
    let two = agent(&connection, "two", 1, &["t/b2"], Follower::new(LIMITS));
    until(|| of("b") == [("one".into(), 10, true), ("two".into(), 10, true)]).await;
    let holders = || publisher.holding("t/b2").unwrap().holders;
    assert_eq!((holders(), publisher.holding("t/none")), (vec!["two".into()], None));
    // What does not change a domain is executed there at once.
    publisher.publish(Generation(11), change("a", edit(0, Some(b"other"))));
    assert_eq!(of("b"), [("one".into(), 11, true), ("two".into(), 11, true)]);
    for task in [one.task, two.task] {
        task.abort();
    }
    until(|| publisher.woken().0 == 0).await;
    assert_eq!(holders(), Vec::<Name>::new());
    publisher.publish(Generation(12), change("a", edit(1, Some(b"other"))));
    publisher.publish(Generation(13), change("b", edit(0, Some(b"other"))));
    publisher.publish(Generation(14), change("b", edit(1, Some(b"other"))));
    // They have all that was before the first change that they have not heard of.
    assert_eq!(of("b"), [("one".into(), 12, false), ("two".into(), 12, false)]);
    let gone = BTreeSet::from(["one".into(), "two".into()]);
    publisher.publish(Generation(15), Change { gone, ..Change::default() });
    assert_eq!(of("b"), [("two".into(), 0, false)], "its port is still bound");
    let again = agent(&connection, "two", 1, &["t/b2"], Follower::new(LIMITS));
    until(|| of("b") == [("two".into(), 15, true)]).await;
    again.task.abort();
}

#[tokio::test]
async fn who_comes_back_is_sent_what_has_changed_since() {
    let (publisher, connection) = serve(publisher()).await;
    let one = agent(&connection, "one", 1, &["t/a1"], Follower::new(LIMITS));
    until(|| until_of(&publisher, "a") == Generation(10) && generation(&one, "a").is_some()).await;
    // A later start of the same node takes its place.
    let other = agent(&connection, "one", 2, &[], Follower::new(LIMITS));
    let (ended, follower) = one.task.await.unwrap();
    assert!(ended.to_string().contains("another session of node one"), "{ended}");
    other.task.abort();
    publisher.publish(Generation(11), change("a", edit(5, None)));
    let one = agent(&connection, "one", 3, &["t/a1"], follower);
    until(|| generation(&one, "a") == Some(Generation(11))).await;
    assert_eq!(one.host.0.lock().unwrap().told, [1]);
    // An earlier start is not served any more.
    let (ended, _) = agent(&connection, "one", 2, &[], Follower::new(LIMITS)).task.await.unwrap();
    assert!(ended.to_string().contains("another session"), "{ended}");
}

#[tokio::test]
async fn a_master_of_before_is_not_followed() {
    let (_old, before) = serve(publisher()).await;
    let new = Publisher::new((Store(9), Fence(2)), Generation(10), [], []);
    let (_new, connection) = serve(new).await;
    let one = agent(&connection, "one", 1, &[], Follower::new(LIMITS));
    let two = agent(&connection, "one", 2, &[], Follower::new(LIMITS));
    let (_, follower) = one.task.await.unwrap();
    drop(two);
    let (ended, _) = agent(&before, "one", 3, &[], follower).task.await.unwrap();
    assert!(matches!(ended, FollowError::Rejected(_)), "{ended}");
}

/// How many bytes another's connection has room for while nobody reads.
const ROOM: u32 = 65_535;

/// An agent whose program is another: it says this, and has the stream of what it is told.
async fn other_agent(
    address: SocketAddr,
    hello: proto::Hello,
    ports: &[&str],
) -> Result<(mpsc::Sender<proto::FromAgent>, Streaming<proto::FromController>), Status> {
    let attached = ports.iter().map(|it| (*it).to_owned()).collect();
    let ports = proto::Ports { attached, detached: Vec::new(), complete: true };
    let (sender, said) = mpsc::channel(4);
    for message in
        [proto::from_agent::Message::Hello(hello), proto::from_agent::Message::Ports(ports)]
    {
        sender.send(proto::FromAgent { message: Some(message) }).await.unwrap();
    }
    let endpoint = Endpoint::from_shared(format!("http://{address}")).unwrap();
    let endpoint = endpoint.initial_stream_window_size(ROOM).initial_connection_window_size(ROOM);
    let mut client = SouthboundClient::new(endpoint.connect().await.unwrap());
    let told = client.follow(ReceiverStream::new(said)).await?;
    Ok((sender, told.into_inner()))
}

fn hello(node: &str) -> proto::Hello {
    let versions = southbound::VERSIONS;
    proto::Hello {
        node: node.into(),
        incarnation: 1,
        oldest_version: *versions.start(),
        newest_version: *versions.end(),
        window_bytes: 1 << 20,
        ..proto::Hello::default()
    }
}

#[tokio::test]
async fn an_agent_that_does_not_read_or_answer_is_cut_off_and_others_are_served() {
    let publisher = Arc::new(publisher().with_patience(Span::from_secs(5)));
    let address = listen(&publisher, None, Arc::new(Everybody)).await;
    // What it is to be sent is more than its connection has room for.
    let deaf = other_agent(address, hello("deaf"), &["t/a1"]).await.unwrap();
    let (said, mut told) = other_agent(address, hello("mute"), &["t/b1"]).await.unwrap();
    let connection = connect(address, &Proof::default()).await.unwrap();
    let two = agent(&connection, "two", 1, &["t/b2"], Follower::new(LIMITS));
    let ended = loop {
        match told.message().await {
            Ok(message) => assert!(message.is_some()),
            Err(ended) => break ended,
        }
    };
    assert_eq!(ended.code(), Code::DeadlineExceeded);
    assert!(ended.message().contains("has not answered an update for 5s"), "{ended}");
    until(|| publisher.woken().0 == 1).await;
    publisher.publish(Generation(11), change("b", edit(0, Some(b"other"))));
    until(|| generation(&two, "b") == Some(Generation(11))).await;
    assert!(!two.task.is_finished());
    drop((deaf, said));
}

#[tokio::test]
async fn an_agent_of_another_version_is_told_which_of_both_is_the_older() {
    let publisher = Arc::new(publisher());
    let address = listen(&publisher, None, Arc::new(Everybody)).await;
    let newest = *southbound::VERSIONS.end();
    let later =
        proto::Hello { oldest_version: newest + 1, newest_version: newest + 3, ..hello("one") };
    let earlier = proto::Hello { oldest_version: 0, newest_version: 0, ..hello("one") };
    for (hello, versions) in [(later, [newest + 1, newest + 3]), (earlier, [0, 0])] {
        let ended = other_agent(address, hello, &[]).await.unwrap_err();
        let [oldest, newest] = versions;
        assert_eq!(ended.code(), Code::FailedPrecondition);
        assert!(ended.message().contains(&format!("of versions {oldest} to {newest}")), "{ended}");
    }
    assert_eq!(publisher.woken().0, 0);
    // Who speaks later versions, too, speaks one that both know.
    let both = proto::Hello { newest_version: newest + 3, ..hello("one") };
    let (_said, mut told) = other_agent(address, both, &[]).await.unwrap();
    let first = told.message().await.unwrap().unwrap().message;
    let Some(proto::from_controller::Message::Welcome(welcome)) = first else {
        panic!("{first:?}")
    };
    assert_eq!(welcome.version, newest);
}

/// Admits nodes by a certificate, or by a token while that counts.
#[derive(Debug, Default)]
struct Strict {
    is_revoked: AtomicBool,
}

impl Admit for Strict {
    fn know(&self, shown: &Credentials) -> Result<(), String> {
        let is_somebody = shown.authorization.is_some() || shown.certificate.is_some();
        is_somebody.then_some(()).ok_or_else(|| "who is that?".into())
    }

    fn admit(&self, node: &str, shown: &Credentials) -> Result<(), String> {
        let by_token = shown.authorization.as_deref() == Some("Bearer secret")
            && !self.is_revoked.load(Ordering::Relaxed);
        let by_certificate = shown.certificate.as_ref().is_some_and(|it| is_for(it, node));
        (by_token || by_certificate).then_some(()).ok_or_else(|| format!("{node}: who is that?"))
    }
}

#[tokio::test]
async fn an_agent_is_the_node_that_its_token_or_its_certificate_says() {
    let (publisher, authority) = (Arc::new(publisher()), Authority::new());
    let own = authority.sign("127.0.0.1");
    std::fs::copy(authority.path("ca"), authority.path("signers")).unwrap();
    let signers = Some(authority.path("signers"));
    let tls = Arc::new(tls::Server::open(own, signers, Protocol::Http2).unwrap());
    let followed = Arc::clone(&tls);
    tokio::spawn(async move { followed.follow().await });
    let strict = Arc::new(Strict::default());
    let admit: Arc<dyn Admit> = strict.clone();
    let address = listen(&publisher, Some(tls), admit).await;
    let token = authority.path("token");
    std::fs::write(&token, "secret\n").unwrap();
    let proof = |token: Option<&str>, certified: Option<&str>| Proof {
        token: token.map(|name| authority.path(name)),
        tls: Some(authority.client("127.0.0.1", certified.map(|name| authority.sign(name)))),
    };
    // Nobody without a proof, and nobody by another's.
    for proof in [proof(None, None), proof(None, Some("two"))] {
        let connection = connect(address, &proof).await.unwrap();
        let refused = agent(&connection, "one", 1, &["t/a1"], Follower::new(LIMITS));
        let (ended, _) = refused.task.await.unwrap();
        assert!(ended.to_string().contains("who is that?"), "{ended}");
    }
    // Nor does anybody speak to whom it does not trust, or say its token for all to hear.
    let stranger = Proof { tls: Some(Authority::new().client("127.0.0.1", None)), token: None };
    let unencrypted = Proof { tls: None, token: Some(token) };
    connect(address, &stranger).await.unwrap_err();
    let exposed = connect("192.0.2.1:1".parse().unwrap(), &unencrypted).await;
    assert!(matches!(exposed, Err(ConnectError::Exposed(_))));
    let nothing = connect(address, &proof(Some("ca"), None)).await;
    assert!(matches!(nothing, Err(ConnectError::NoToken(..))));
    // Each proof for itself.
    let certified = connect(address, &proof(None, Some("one"))).await.unwrap();
    let by_certificate = agent(&certified, "one", 1, &["t/a1"], Follower::new(LIMITS));
    let said = connect(address, &proof(Some("token"), None)).await.unwrap();
    let by_token = agent(&said, "two", 1, &["t/b2"], Follower::new(LIMITS));
    until(|| generation(&by_certificate, "a") == Some(Generation(10))).await;
    until(|| generation(&by_token, "b") == Some(Generation(10))).await;
    // A token that counts no more ends what was begun with it.
    strict.is_revoked.store(true, Ordering::Relaxed);
    let (ended, _) = by_token.task.await.unwrap();
    assert!(ended.to_string().contains("two: who is that?"), "{ended}");
    assert!(!by_certificate.task.is_finished());
    // Nor does a certificate whose signer is trusted no more.
    std::fs::copy(Authority::new().path("ca"), authority.path("signers")).unwrap();
    let (ended, _) = by_certificate.task.await.unwrap();
    assert!(ended.to_string().contains("one: who is that?"), "{ended}");
    // Who says nothing keeps nobody out.
    let mut silent = Vec::new();
    for _ in 0..300 {
        silent.push(tokio::net::TcpStream::connect(address).await.unwrap());
    }
    connect(address, &proof(None, None)).await.unwrap();
}
