//! What a controller has for its agents, and the session of each.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use model::Generation;
use replica::{Delta, Feed, Fence, Histories, History, Known, Map, Name, Reply, Store};
use tokio::sync::Notify;

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
}

/// An agent that does not execute the newest generation of a domain.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Lagging {
    /// Its node.
    pub node: Name,
    /// What it executes.
    pub executes: Option<Generation>,
    /// What it has refused since.
    pub refused: Option<Generation>,
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
    feed: Feed,
    /// The ports that it says it has, and the domains of those that it may have.
    ports: BTreeSet<Name>,
    follows: BTreeSet<Name>,
    /// Ports that it is to be told are not its.
    unknown: Vec<Name>,
    wake: Arc<Notify>,
}

/// The nodes that something concerns.
#[derive(Debug, Default)]
struct Index(BTreeMap<Name, BTreeSet<Name>>);

impl Index {
    fn nodes(&self, of: &str) -> impl Iterator<Item = &Name> {
        self.0.get(of).into_iter().flatten()
    }

    fn insert(&mut self, of: &Name, node: &Name) {
        self.0.entry(of.clone()).or_default().insert(node.clone());
    }

    fn remove(&mut self, of: &Name, node: &Name) {
        if let Some(nodes) = self.0.get_mut(of) {
            nodes.remove(node);
            if nodes.is_empty() {
                self.0.remove(of);
            }
        }
    }
}

#[derive(Debug)]
struct Inner {
    revision: Generation,
    domains: Histories,
    ports: BTreeMap<Name, Place>,
    sessions: BTreeMap<Name, Session>,
    /// The nodes that follow a domain, and those that say they have a port.
    followers: Index,
    claims: Index,
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
        let ports = ports.into_iter().collect();
        let (sessions, followers, claims) = Default::default();
        let (begun, wakes) = (0, 0);
        let inner = Inner { revision, domains, ports, sessions, followers, claims, begun, wakes };
        Self { store, fence, inner: Mutex::new(inner) }
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
        let inner = &mut *self.lock();
        assert!(revision > inner.revision, "{revision} is not behind {}", inner.revision);
        inner.revision = revision;
        let mut moved = BTreeSet::new();
        for (port, place) in change.ports {
            moved.extend(inner.claims.nodes(&port).cloned());
            match place {
                Some(place) => inner.ports.insert(port, place),
                None => inner.ports.remove(&port),
            };
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
        moved.iter().for_each(|node| inner.settle(node));
    }

    /// The newest generation of a domain, and the agents that do not execute it.
    pub fn lagging(&self, domain: &str) -> Option<(Generation, Vec<Lagging>)> {
        let inner = self.lock();
        let newest = inner.domains.get(domain)?.generation();
        let lagging = inner.followers.nodes(domain).filter_map(|node| {
            let feed = &inner.sessions.get(node)?.feed;
            let executes = feed.known(domain).map(|it| it.generation);
            let refused = feed.refused(domain);
            (executes != Some(newest)).then(|| Lagging { node: node.clone(), executes, refused })
        });
        Some((newest, lagging.collect()))
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
        sessions.values().filter(lags).count()
    }

    /// How many agents there are, and how often one was woken.
    pub fn woken(&self) -> (usize, u64) {
        let inner = self.lock();
        (inner.sessions.len(), inner.wakes)
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
        if inner.sessions.get(&node).is_some_and(|it| it.incarnation > hello.incarnation) {
            return Err(Ended::Replaced(hello.node.clone()));
        }
        inner.begun += 1;
        inner.forget(&node);
        let wake = Arc::new(Notify::new());
        let handle = Handle { node: node.clone(), number: inner.begun, wake: wake.clone() };
        let (number, incarnation) = (inner.begun, hello.incarnation);
        let (ports, follows, unknown) = Default::default();
        let session = Session { number, incarnation, feed, ports, follows, unknown, wake };
        inner.sessions.insert(node, session);
        let welcome = proto::Welcome {
            version,
            store: self.store.0.to_be_bytes().to_vec(),
            fence: self.fence.0,
        };
        Ok((handle, message(from_controller::Message::Welcome(welcome))))
    }

    /// A message of an agent.
    pub(crate) fn receive(&self, handle: &Handle, message: proto::FromAgent) -> Result<(), Ended> {
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
        Ok(session.feed.next(domains, revision).map(|it| message((&it).into())))
    }

    /// A session has ended.
    pub(crate) fn close(&self, handle: &Handle) {
        let inner = &mut *self.lock();
        if inner.session(handle).is_ok() {
            inner.forget(&handle.node);
        }
    }
}

fn message(message: from_controller::Message) -> FromController {
    FromController { message: Some(message) }
}

impl Inner {
    /// A session, if no later one of its node has begun.
    fn session(&mut self, handle: &Handle) -> Result<&mut Session, Ended> {
        let session = self.sessions.get_mut(&handle.node);
        let own = session.filter(|it| it.number == handle.number);
        own.ok_or_else(|| Ended::Replaced(handle.node.to_string()))
    }

    /// Ends a node's session, which is told so.
    fn forget(&mut self, node: &Name) {
        let Some(session) = self.sessions.remove(node) else { return };
        session.wake.notify_one();
        session.follows.iter().for_each(|domain| self.followers.remove(domain, node));
        session.ports.iter().for_each(|port| self.claims.remove(port, node));
    }

    /// A domain has a new generation.
    fn changed(&mut self, domain: &Name) {
        for node in self.followers.nodes(domain) {
            let session = self.sessions.get_mut(node).expect("a node that follows has a session");
            session.feed.changed(domain);
            session.wake.notify_one();
            self.wakes += 1;
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
        if said.complete {
            self.session(handle)?.feed.follow_no_other();
        }
        Ok(())
    }

    /// The domain of a port, if a node may have it.
    fn domain(&self, port: &str, node: &str) -> Option<&Name> {
        let place = self.ports.get(port)?;
        let is_its = place.node.as_ref().is_none_or(|only| **only == *node);
        is_its.then_some(&place.domain)
    }

    /// Has a node follow the domains of its ports, and no others.
    fn settle(&mut self, node: &Name) {
        let Some(session) = self.sessions.get(node) else { return };
        let ports = session.ports.iter();
        let wanted: BTreeSet<Name> =
            ports.filter_map(|port| self.domain(port, node)).cloned().collect();
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
            self.wakes += 1;
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
            let hello = |node: &str| proto::Hello {
                node: node.into(),
                newest_version: 1,
                window_bytes: 1000,
                ..proto::Hello::default()
            };
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
            let attached = vec!["t/a".to_owned()];
            let ports = proto::Ports { attached, ..proto::Ports::default() };
            let message = proto::FromAgent { message: Some(from_agent::Message::Ports(ports)) };
            publisher.receive(&good, message).unwrap();
            assert!(publisher.next(&good).unwrap().is_some(), "the other is served");
        }
        assert!((1..300).contains(&ended), "{ended} of 300 ended");
    }
}
