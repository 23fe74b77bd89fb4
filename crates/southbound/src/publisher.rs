//! What a controller has for its agents, and the session of each.
//!
//! A session that has ended is kept, as one that does not answer, until its node is back: what its
//! host executes is known, and that it lacks what came later.

mod executing;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use model::Generation;
use replica::{Delta, Feed, Fence, Histories, History, Known, Map, Name, Reply, Store};
use tokio::sync::{Notify, watch};

pub use self::executing::Executing;
use crate::convert::{self, Malformed};
use crate::proto::{self, from_agent, from_controller};
use crate::{VERSIONS, proto::FromController};

/// The most ports of an agent, and the most domains that it may say that it has.
const MOST_PORTS: usize = 1 << 16;

/// The most bytes of an update that are underway to an agent, whatever it says that it takes.
const MOST_WINDOW: u64 = 64 << 20;

/// The longest name of a port or a node: a tenant's and its own.
const LONGEST_NAME: usize = 127;

/// How many bytes of past steps of a domain are remembered.
const REMEMBERED: usize = 1 << 20;

/// How many sessions that have ended are kept.
const MOST_ABSENT: usize = 1 << 14;

/// Where a logical port is.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Place {
    /// The domain that it is in.
    pub domain: Name,
    /// The only node that may have it. `None`: whichever says that it has.
    pub node: Option<Name>,
}

/// What one revision of the store changes.
#[derive(Clone, Debug, Default)]
pub struct Change {
    /// Rows, by domain. A domain without rows is gone.
    pub domains: BTreeMap<Name, Delta>,
    /// Ports that are elsewhere, or gone, by name as tenant/name.
    pub ports: BTreeMap<Name, Option<Place>>,
    /// The nodes that follow a domain whether they have a port of it or not, of domains whose
    /// nodes are others: routers keep their flows there.
    pub homes: BTreeMap<Name, BTreeSet<Name>>,
    /// Nodes that are no more: once their agents are not connected, they are not waited for.
    pub gone: BTreeSet<Name>,
    /// Nodes that are declared, or are again.
    pub come: BTreeSet<Name>,
}

/// Why a session ends.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
pub enum Ended {
    /// A message cannot be read.
    #[error(transparent)]
    Malformed(#[from] Malformed),
    /// No common version.
    #[error(
        "cannot speak with an agent of versions {0} to {1}: this controller speaks {2} to {3}; update the older"
    )]
    Version(u32, u32, u32, u32),
    /// There is a later session of this node.
    #[error("another session of node {0} has begun: an agent of one node runs once")]
    Replaced(String),
    /// Too much of something.
    #[error("cannot serve an agent with so many {0}: at most {1} are served")]
    TooMany(&'static str, usize),
    /// It answers for what it was not sent.
    #[error(transparent)]
    Misled(#[from] replica::Misled),
}

/// An agent's session.
#[derive(Debug)]
struct Session {
    number: u64,
    incarnation: u64,
    is_connected: bool,
    feed: Feed,
    /// The ports that it says it has, and the domains of those that it may have.
    ports: BTreeSet<Name>,
    follows: BTreeSet<Name>,
    /// The domains that the session before it followed, until it has said its ports.
    followed: BTreeSet<Name>,
    /// Ports that it is to be told are not its.
    unknown: Vec<Name>,
    /// Whether it has said which ports it has: before, nothing can be said to be complete.
    has_said: bool,
    wake: Arc<Notify>,
}

/// The nodes that something concerns, or whatever else a name leads to.
#[derive(Debug, Default)]
struct Index(BTreeMap<Name, BTreeSet<Name>>);

impl Index {
    fn of(&self, name: &str) -> impl Iterator<Item = &Name> {
        self.0.get(name).into_iter().flatten()
    }

    fn insert(&mut self, of: &Name, one: &Name) {
        self.0.entry(of.clone()).or_default().insert(one.clone());
    }

    fn remove(&mut self, of: &Name, one: &Name) {
        if let Some(all) = self.0.get_mut(of) {
            all.remove(one);
            if all.is_empty() {
                self.0.remove(of);
            }
        }
    }
}

#[derive(Debug, Default)]
struct Inner {
    revision: Generation,
    domains: Histories,
    ports: BTreeMap<Name, Place>,
    sessions: BTreeMap<Name, Session>,
    /// Those of them that have ended, by their numbers.
    absent: BTreeMap<u64, Name>,
    /// The nodes that follow a domain whatever ports they have; and the other way round.
    homes: BTreeMap<Name, BTreeSet<Name>>,
    at_home: Index,
    /// How many ports of a domain are bound to each node.
    bound: BTreeMap<Name, BTreeMap<Name, usize>>,
    /// The nodes that follow a domain, and those that say they have a port.
    followers: Index,
    claims: Index,
    /// The nodes that followed a domain before they came back, and have not said their ports since.
    returning: Index,
    /// Nodes that are no more.
    gone: BTreeSet<Name>,
    /// Sessions that there have been.
    begun: u64,
    /// How often a session was woken.
    wakes: u64,
}

/// A controller's domains, where ports are, and its agents' sessions.
#[derive(Debug)]
pub struct Publisher {
    store: Store,
    fence: Fence,
    inner: Mutex<Inner>,
    /// Told when hosts may be further than they were.
    moved: watch::Sender<()>,
}

/// One session, by which its agent is served.
#[derive(Debug)]
pub struct Handle {
    pub node: Name,
    number: u64,
    /// Told when there may be something to send.
    pub wake: Arc<Notify>,
}

impl Publisher {
    /// A controller of a store that has these domains as of a revision.
    pub fn new(
        (store, fence): (Store, Fence),
        revision: Generation,
        domains: impl IntoIterator<Item = (Name, Map)>,
        ports: impl IntoIterator<Item = (Name, Place)>,
    ) -> Self {
        let history = |(name, rows)| (name, History::new(revision, rows, REMEMBERED));
        let domains = domains.into_iter().map(history).collect();
        let mut inner = Inner { revision, domains, ..Inner::default() };
        ports.into_iter().for_each(|(port, place)| inner.locate(port, Some(place)));
        Self { store, fence, inner: Mutex::new(inner), moved: watch::Sender::new(()) }
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The store has a new revision, which changes this. Agents of no other domains are woken.
    ///
    /// # Panics
    ///
    /// If the revision is not behind the last.
    pub fn publish(&self, revision: Generation, change: Change) {
        self.advance(revision, change);
        self.moved.send_replace(());
    }

    fn advance(&self, revision: Generation, change: Change) {
        let inner = &mut *self.lock();
        assert!(revision > inner.revision, "{revision} is not behind {}", inner.revision);
        inner.revision = revision;
        let mut moved = BTreeSet::new();
        for (port, place) in change.ports {
            moved.extend(inner.claims.of(&port).cloned());
            inner.locate(port, place);
        }
        for (domain, delta) in change.domains {
            let is_new = match inner.domains.get_mut(&domain) {
                Some(history) => history.advance(revision, delta),
                None => {
                    let mut rows = Map::default();
                    rows.apply(delta);
                    let history = History::new(revision, rows, REMEMBERED);
                    inner.domains.insert(domain.clone(), history).is_none()
                }
            };
            if inner.domains[&domain].rows().is_empty() {
                inner.domains.remove(&domain);
            } else if is_new {
                inner.changed(&domain);
            }
        }
        for (domain, nodes) in change.homes {
            moved.extend(inner.house(domain, nodes));
        }
        moved.iter().for_each(|node| inner.settle(node));
        let is_absent = |node: &&Name| inner.sessions.get(*node).is_some_and(|it| !it.is_connected);
        let gone: Vec<_> = change.gone.iter().filter(is_absent).collect();
        gone.into_iter().for_each(|node| drop(inner.forget(node)));
        for node in &change.come {
            inner.gone.remove(node);
        }
        inner.gone.extend(change.gone);
    }

    /// The revision that was published last.
    pub fn revision(&self) -> Generation {
        self.lock().revision
    }

    /// How many agents do not execute the newest generation of some domain that they have.
    pub fn behind(&self) -> usize {
        let Inner { sessions, domains, .. } = &*self.lock();
        let lags = |session: &&Session| {
            session.follows.iter().any(|domain| {
                let newest = domains.get(domain).map(History::generation);
                session.feed.known(domain).map(|it| it.generation) != newest
            })
        };
        sessions.values().filter(|it| it.is_connected).filter(lags).count()
    }

    /// How many agents are connected, and how often one was woken.
    pub fn woken(&self) -> (usize, u64) {
        let inner = self.lock();
        (inner.sessions.len() - inner.absent.len(), inner.wakes)
    }

    /// An agent says hello: it is the node that it says.
    pub(crate) fn open(&self, hello: &proto::Hello) -> Result<(Handle, FromController), Ended> {
        let (oldest, newest) = (hello.oldest_version, hello.newest_version);
        let version = newest.min(*VERSIONS.end());
        if version < oldest.max(*VERSIONS.start()) {
            return Err(Ended::Version(oldest, newest, *VERSIONS.start(), *VERSIONS.end()));
        }
        if hello.node.is_empty() || hello.node.len() > LONGEST_NAME {
            return Err(Malformed("a node has a name of at most 127 bytes").into());
        }
        if hello.known.len() > MOST_PORTS {
            return Err(Ended::TooMany("domains", MOST_PORTS));
        }
        let is_ours = !hello.store.is_empty() && convert::store(&hello.store)? == self.store;
        let known = |it: &proto::Known| -> Result<_, Malformed> {
            let (domain, known): (Name, Option<Known>) = convert::known(it)?;
            Ok((domain, known.filter(|_| is_ours)))
        };
        let cached = hello.known.iter().map(known).collect::<Result<_, _>>()?;
        let feed = Feed::new(hello.window_bytes.min(MOST_WINDOW) as usize, cached);
        let node: Name = hello.node.as_str().into();
        let inner = &mut *self.lock();
        let is_later = |it: &Session| it.is_connected && it.incarnation > hello.incarnation;
        if inner.sessions.get(&node).is_some_and(is_later) {
            return Err(Ended::Replaced(hello.node.clone()));
        }
        inner.begun += 1;
        let followed = inner.forget(&node);
        followed.iter().for_each(|domain| inner.returning.insert(domain, &node));
        let wake = Arc::new(Notify::new());
        let handle = Handle { node: node.clone(), number: inner.begun, wake: wake.clone() };
        let (number, incarnation) = (inner.begun, hello.incarnation);
        let (ports, follows, unknown) = Default::default();
        let (is_connected, has_said) = (true, false);
        let session = Session {
            number,
            incarnation,
            is_connected,
            feed,
            ports,
            follows,
            followed,
            unknown,
            has_said,
            wake,
        };
        inner.sessions.insert(node, session);
        self.moved.send_replace(());
        let welcome = proto::Welcome {
            version,
            store: self.store.0.to_be_bytes().to_vec(),
            fence: self.fence.0,
        };
        Ok((handle, message(from_controller::Message::Welcome(welcome))))
    }

    /// A message of an agent.
    pub(crate) fn receive(&self, handle: &Handle, message: proto::FromAgent) -> Result<(), Ended> {
        self.take(handle, message)?;
        self.moved.send_replace(());
        Ok(())
    }

    fn take(&self, handle: &Handle, message: proto::FromAgent) -> Result<(), Ended> {
        let inner = &mut *self.lock();
        let session = inner.session(handle)?;
        match message.message {
            Some(from_agent::Message::Ports(ports)) => inner.claim(handle, ports)?,
            Some(from_agent::Message::Ack(ack)) => {
                let reply = Reply::Ack(ack.domain.into(), Generation(ack.generation));
                session.feed.answered(&reply)?;
            }
            Some(from_agent::Message::Nack(nack)) => {
                let reply = convert::nack(nack)?;
                if let Reply::Nack(domain, generation, reason) = &reply {
                    let node = &handle.node;
                    tracing::warn!(
                        "{node} does not take generation {generation} of {domain}: {reason}"
                    );
                }
                session.feed.answered(&reply)?;
            }
            Some(from_agent::Message::Hello(_)) => {
                return Err(Malformed("hello is said once, first").into());
            }
            None => return Err(Malformed("it says nothing that this version knows").into()),
        }
        Ok(())
    }

    /// What an agent is to be sent next.
    pub(crate) fn next(&self, handle: &Handle) -> Result<Option<FromController>, Ended> {
        let inner = &mut *self.lock();
        let revision = inner.revision;
        inner.session(handle)?;
        let Inner { sessions, domains, .. } = inner;
        let session = sessions.get_mut(&handle.node).expect("it was there just now");
        if !session.unknown.is_empty() {
            let ports = session.unknown.drain(..).map(|port| port.to_string()).collect();
            return Ok(Some(message(from_controller::Message::Unknown(proto::Unknown { ports }))));
        }
        let marked = if session.has_said { revision } else { Generation(0) };
        Ok(session.feed.next(domains, marked).map(|it| message((&it).into())))
    }

    /// A session has ended.
    pub(crate) fn close(&self, handle: &Handle) {
        let inner = &mut *self.lock();
        let Ok(session) = inner.session(handle) else { return };
        session.is_connected = false;
        session.feed.abandon();
        inner.absent.insert(handle.number, handle.node.clone());
        if inner.gone.contains(&handle.node) {
            inner.forget(&handle.node);
        }
        if inner.absent.len() > MOST_ABSENT
            && let Some((_, oldest)) = inner.absent.pop_first()
        {
            inner.forget(&oldest);
        }
        self.moved.send_replace(());
    }
}

fn message(message: from_controller::Message) -> FromController {
    FromController { message: Some(message) }
}

impl Inner {
    /// A session, if it has not ended and no later one of its node has begun.
    fn session(&mut self, handle: &Handle) -> Result<&mut Session, Ended> {
        let session = self.sessions.get_mut(&handle.node);
        let own = session.filter(|it| it.number == handle.number && it.is_connected);
        own.ok_or_else(|| Ended::Replaced(handle.node.to_string()))
    }

    /// Ends a node's session, which is told so. Returns the domains that it followed, or that it
    /// may follow again once it has said its ports.
    fn forget(&mut self, node: &Name) -> BTreeSet<Name> {
        let Some(session) = self.sessions.remove(node) else { return BTreeSet::new() };
        self.absent.remove(&session.number);
        session.wake.notify_one();
        session.follows.iter().for_each(|domain| self.followers.remove(domain, node));
        session.followed.iter().for_each(|domain| self.returning.remove(domain, node));
        session.ports.iter().for_each(|port| self.claims.remove(port, node));
        &session.follows | &session.followed
    }

    /// A domain has a new generation.
    fn changed(&mut self, domain: &Name) {
        for node in self.followers.of(domain) {
            let session = self.sessions.get_mut(node).expect("a node that follows has a session");
            session.feed.changed(domain);
            session.wake.notify_one();
            self.wakes += u64::from(session.is_connected);
        }
    }

    /// A port is elsewhere, or gone.
    fn locate(&mut self, port: Name, place: Option<Place>) {
        let bound = |place: &Place| Some((place.domain.clone(), place.node.clone()?));
        if let Some((domain, node)) = self.ports.get(&port).and_then(bound)
            && let Some(nodes) = self.bound.get_mut(&domain)
            && let Some(count) = nodes.get_mut(&node)
        {
            *count -= 1;
            nodes.retain(|_, count| *count > 0);
            if nodes.is_empty() {
                self.bound.remove(&domain);
            }
        }
        if let Some((domain, node)) = place.as_ref().and_then(bound) {
            *self.bound.entry(domain).or_default().entry(node).or_default() += 1;
        }
        match place {
            Some(place) => drop(self.ports.insert(port, place)),
            None => drop(self.ports.remove(&port)),
        }
    }

    /// An agent says which ports it has.
    fn claim(&mut self, handle: &Handle, said: proto::Ports) -> Result<(), Ended> {
        let node = &handle.node;
        let names = |names: &[String]| names.iter().map(|it| Name::from(it.as_str())).collect();
        let (attached, detached): (Vec<Name>, Vec<Name>) =
            (names(&said.attached), names(&said.detached));
        if attached.iter().any(|port| port.len() > LONGEST_NAME) {
            return Err(Malformed("a port's name is too long").into());
        }
        let Session { ports, unknown, .. } = self.session(handle)?;
        if ports.len() + attached.len() > MOST_PORTS {
            return Err(Ended::TooMany("ports", MOST_PORTS));
        }
        ports.extend(attached.iter().cloned());
        detached.iter().for_each(|port| drop(ports.take(port)));
        unknown.retain(|port| !detached.contains(port));
        attached.iter().for_each(|port| self.claims.insert(port, node));
        detached.iter().for_each(|port| self.claims.remove(port, node));
        let of_others: Vec<_> =
            attached.into_iter().filter(|it| self.domain(it, node).is_none()).collect();
        self.session(handle)?.unknown.extend(of_others);
        self.settle(node);
        let session = self.session(handle)?;
        session.has_said = true;
        if said.complete {
            session.feed.follow_no_other();
        }
        let followed = std::mem::take(&mut session.followed);
        followed.iter().for_each(|domain| self.returning.remove(domain, node));
        Ok(())
    }

    /// The domain of a port, if a node may have it.
    fn domain(&self, port: &str, node: &str) -> Option<&Name> {
        let place = self.ports.get(port)?;
        let is_its = place.node.as_ref().is_none_or(|only| **only == *node);
        is_its.then_some(&place.domain)
    }

    /// These nodes follow a domain whatever ports they have. Returns those that did or do.
    fn house(&mut self, domain: Name, nodes: BTreeSet<Name>) -> BTreeSet<Name> {
        let before = self.homes.remove(&domain).unwrap_or_default();
        before.iter().for_each(|node| self.at_home.remove(node, &domain));
        nodes.iter().for_each(|node| self.at_home.insert(node, &domain));
        let all = before.union(&nodes).cloned().collect();
        if !nodes.is_empty() {
            self.homes.insert(domain, nodes);
        }
        all
    }

    /// Has a node follow the domains of its ports, and those that it follows without any.
    fn settle(&mut self, node: &Name) {
        let Some(session) = self.sessions.get(node) else { return };
        let of_ports = session.ports.iter().filter_map(|port| self.domain(port, node));
        let wanted: BTreeSet<Name> = of_ports.chain(self.at_home.of(node)).cloned().collect();
        let session = self.sessions.get_mut(node).expect("it was there just now");
        for domain in session.follows.difference(&wanted) {
            session.feed.unfollow(domain);
            self.followers.remove(domain, node);
        }
        for domain in wanted.difference(&session.follows) {
            session.feed.follow(domain.clone());
            self.followers.insert(domain, node);
        }
        if wanted != session.follows {
            session.follows = wanted;
            session.wake.notify_one();
            self.wakes += u64::from(session.is_connected);
        }
    }
}

#[cfg(test)]
mod tests {
    use units::Rng;

    use super::*;

    /// Anything that an agent could say, some of it right.
    fn said(rng: &mut Rng) -> proto::FromAgent {
        let domain = ["a", "b", "c"][rng.below(3) as usize].to_owned();
        let generation = 1 + rng.below(12);
        let port = ["t/a", "t/b", "t/c", &"x".repeat(200)][rng.below(100) as usize % 4].to_owned();
        let message = match rng.below(6) {
            0 => from_agent::Message::Hello(proto::Hello::default()),
            1 => from_agent::Message::Ports(proto::Ports {
                attached: vec![port],
                ..proto::Ports::default()
            }),
            2 => from_agent::Message::Ports(proto::Ports {
                detached: vec![port],
                complete: true,
                ..proto::Ports::default()
            }),
            3 | 4 => from_agent::Message::Ack(proto::Ack { domain, generation }),
            _ => {
                let (reason, why) = (rng.below(9) as i32, "x".repeat(rng.below(1100) as usize));
                from_agent::Message::Nack(proto::Nack { domain, generation, reason, why })
            }
        };
        proto::FromAgent { message: (rng.below(50) > 0).then_some(message) }
    }

    #[test]
    fn whatever_an_agent_says_is_served_or_ends_its_session_alone() {
        let mut ended = 0;
        for seed in 0..300 {
            let mut rng = Rng::new(seed);
            let rows = |row: u8| Map::from_iter([(Arc::from([row]), Arc::from([row]))]);
            let domains = ["a", "b"].map(|name| (Name::from(name), rows(1)));
            let place = |name: &str| Place { domain: name.into(), node: None };
            let ports = ["a", "b"].map(|name| (format!("t/{name}").into(), place(name)));
            let first = Generation(1);
            let publisher = Publisher::new((Store(1), Fence(1)), first, domains, ports);
            let (good, _) = publisher.open(&hello("good")).unwrap();
            let (bad, _) = publisher.open(&hello("bad")).unwrap();
            for revision in 2..4 + rng.below(6) {
                if publisher.receive(&bad, said(&mut rng)).is_err() {
                    publisher.close(&bad);
                    assert!(publisher.next(&bad).is_err());
                    ended += 1;
                    break;
                }
                while publisher.next(&bad).unwrap().is_some() {}
                let delta = [(Arc::from([revision as u8]), Some(Arc::from([1])))];
                let domains = BTreeMap::from([("a".into(), delta.into_iter().collect())]);
                let change = Change { domains, ..Change::default() };
                publisher.publish(Generation(revision), change);
            }
            publisher.receive(&good, has(&["t/a"])).unwrap();
            assert!(publisher.next(&good).unwrap().is_some(), "the other is served");
        }
        assert!((1..300).contains(&ended), "{ended} of 300 ended");
    }

    fn hello(node: &str) -> proto::Hello {
        proto::Hello {
            node: node.into(),
            newest_version: 1,
            window_bytes: 1000,
            ..proto::Hello::default()
        }
    }

    /// An agent has these ports.
    fn has(ports: &[&str]) -> proto::FromAgent {
        let attached = ports.iter().map(|it| (*it).to_owned()).collect();
        let ports = proto::Ports { attached, ..proto::Ports::default() };
        proto::FromAgent { message: Some(from_agent::Message::Ports(ports)) }
    }

    /// A domain with a port that is bound to node `one`, and a port that any node may have.
    fn publisher() -> Publisher {
        let rows = Map::from_iter([(Arc::from([1u8]), Arc::from([1u8]))]);
        let place = |node: Option<&str>| Place { domain: "a".into(), node: node.map(Name::from) };
        let ports = [("t/bound".into(), place(Some("one"))), ("t/any".into(), place(None))];
        Publisher::new((Store(1), Fence(1)), Generation(1), [("a".into(), rows)], ports)
    }

    /// The hosts that are waited for, and whether they are connected.
    fn hosts(publisher: &Publisher) -> Vec<(String, bool)> {
        let (_, hosts) = publisher.executing(None);
        hosts.into_iter().map(|it| (it.node.to_string(), it.is_connected)).collect()
    }

    #[test]
    fn a_host_that_comes_back_counts_until_it_has_said_its_ports() {
        let publisher = publisher();
        let open = || ["one", "two"].map(|node| publisher.open(&hello(node)).unwrap().0);
        let both = |is_connected| ["one", "two"].map(|node| (node.to_owned(), is_connected));
        let [one, two] = open();
        assert_eq!(hosts(&publisher), [("one".to_owned(), true)], "its port is bound");
        publisher.receive(&one, has(&["t/bound"])).unwrap();
        publisher.receive(&two, has(&["t/any"])).unwrap();
        assert_eq!(hosts(&publisher), both(true));
        // Also if it goes again before it has said them.
        for _ in 0..2 {
            let agents = open();
            assert_eq!(hosts(&publisher), both(true));
            agents.iter().for_each(|it| publisher.close(it));
            assert_eq!(hosts(&publisher), both(false));
        }
        for agent in open() {
            publisher.receive(&agent, has(&[])).unwrap();
        }
        assert!(hosts(&publisher).is_empty(), "none has a port there any more");
    }

    #[test]
    fn a_node_that_is_gone_is_not_waited_for_once_its_agent_is_gone_too() {
        let publisher = publisher();
        let open = || {
            let (agent, _) = publisher.open(&hello("two")).unwrap();
            publisher.receive(&agent, has(&["t/any"])).unwrap();
            agent
        };
        let bound = || ("one".to_owned(), false);
        let two = |is_connected| ("two".to_owned(), is_connected);
        let node = || BTreeSet::from([Name::from("two")]);
        let agent = open();
        publisher.publish(Generation(2), Change { gone: node(), ..Change::default() });
        assert_eq!(hosts(&publisher), [bound(), two(true)]);
        publisher.close(&agent);
        assert_eq!(hosts(&publisher), [bound()]);
        let agent = open();
        publisher.publish(Generation(3), Change { come: node(), ..Change::default() });
        publisher.close(&agent);
        assert_eq!(hosts(&publisher), [bound(), two(false)]);
    }
}
