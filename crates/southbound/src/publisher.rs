//! What a controller has for its agents, and the session of each.
//!
//! A session that has ended is kept, as one that does not answer, until its node is back: what its
//! host executes is known, and that it lacks what came later.

mod claims;
mod executing;
mod finding;
mod holders;
mod place;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use model::Generation;
use replica::{
    Delta, Feed, Fence, Histories, History, Known, Map, Name, Reason, Reply, Store, ToAgent,
};
use tokio::sync::{Notify, watch};
use units::{Instant, Span};

use self::claims::Claims;
pub use self::executing::Executing;
pub use self::holders::Holding;
pub use self::place::{Nodes, Place};
use crate::convert::{self, Malformed};
use crate::proto::{self, from_agent, from_controller};
use crate::{VERSIONS, proto::FromController};

/// The most ports of an agent, and the most domains that it may say that it has.
const MOST_PORTS: usize = 1 << 16;

/// The most ports of an agent together with those that it had a while ago.
const MOST_REMEMBERED: usize = 2 * MOST_PORTS;

/// The most bytes of an update that are underway to an agent, whatever it says that it takes.
const MOST_WINDOW: u64 = 64 << 20;

/// The longest name of a port or a node: a tenant's and its own.
const LONGEST_NAME: usize = 127;

/// How many bytes of past steps of a domain are remembered.
const REMEMBERED: usize = 1 << 20;

/// How many sessions that have ended are kept.
const MOST_ABSENT: usize = 1 << 14;

/// How long an agent may take to answer an update, counted from its last bytes.
const PATIENCE: Span = Span::from_secs(120);

/// How often an agent is to compare a domain, one after another.
const COMPARED: Span = Span::from_secs(60);

/// The moments of such a time at which some agents do so.
const MOMENTS: u64 = 60;

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
    /// It has a later revision of this store than the controller.
    #[error(
        "the agent has revision {0} of this store, whose newest is {1}: the store was restored from a backup; end the controller, run `zovn controller restored`, and start it again"
    )]
    Restored(Generation, Generation),
    /// Too much of something.
    #[error("cannot serve an agent with so many {0}: at most {1} are served")]
    TooMany(&'static str, usize),
    /// It answers for what it was not sent.
    #[error(transparent)]
    Misled(#[from] replica::Misled),
    /// It does not answer for what it was sent, or does not say its ports.
    #[error(
        "cannot go on with an agent that has not answered an update for {0}, or not said its ports; it is to connect again"
    )]
    Silent(Span),
}

/// An agent's session.
#[derive(Debug)]
struct Session {
    number: u64,
    incarnation: u64,
    is_connected: bool,
    /// It has ended so long ago that others may have its ports.
    is_away: bool,
    feed: Feed,
    /// The ports that it says it has, and the domains of those that it may have.
    claims: Claims,
    follows: BTreeSet<Name>,
    /// What the session before it had and followed, until it has said its ports.
    before: Left,
    /// Since when it could answer an update, or say its ports, and has not.
    asked: Option<Instant>,
    /// Ports that it is to be told are not its: some of those that it says it has.
    unknown: BTreeSet<Name>,
    /// Whether it has said which ports it has: before, nothing can be said to be complete.
    has_said: bool,
    wake: Arc<Notify>,
    /// Whether it has been woken and has not asked yet what for.
    is_woken: bool,
}

/// What a session that is forgotten has left.
#[derive(Debug, Default)]
struct Left {
    /// The ports that it said it had.
    ports: BTreeSet<Name>,
    /// The domains that it followed.
    follows: BTreeSet<Name>,
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
    /// The node that has a port.
    holders: BTreeMap<Name, Name>,
    sessions: BTreeMap<Name, Session>,
    /// Those of them that have ended, by their numbers.
    absent: BTreeMap<u64, Name>,
    /// The nodes that follow a domain whatever ports they have; and the other way round.
    homes: BTreeMap<Name, BTreeSet<Name>>,
    at_home: Index,
    /// How many ports of a domain are bound to each node.
    bound: BTreeMap<Name, BTreeMap<Name, usize>>,
    /// The nodes that follow a domain, and those that say they have a port, or that it lingers at.
    followers: Index,
    claims: Index,
    /// The nodes that followed a domain before they came back, and have not said their ports since.
    returning: Index,
    /// Where ports are that nobody has bound, as is kept, and those that are elsewhere now.
    found: BTreeMap<Name, Name>,
    refound: BTreeSet<Name>,
    /// Told of the latter.
    news: Arc<Notify>,
    /// The last session that is one of before this controller began.
    restored: u64,
    /// Nodes that are no more.
    gone: BTreeSet<Name>,
    /// Whether it was told that an agent has later revisions of the store.
    has_told_restored: bool,
    /// Sessions that there have been.
    begun: u64,
    /// How often a session was woken.
    wakes: u64,
    /// How many updates agents have not taken, by the reason's word.
    refusals: BTreeMap<&'static str, u64>,
    /// How many domains agents have not had as they had answered for.
    differing: u64,
}

/// A controller's domains, where ports are, and its agents' sessions.
#[derive(Debug)]
pub struct Publisher {
    store: Store,
    fence: Fence,
    inner: Mutex<Inner>,
    patience: Span,
    /// How often an agent is to compare a domain.
    pub(crate) compares: Span,
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
        ports.into_iter().for_each(|(port, place)| inner.locate(&port, Some(place)));
        let (inner, moved) = (Mutex::new(inner), watch::Sender::new(()));
        Self { store, fence, inner, patience: PATIENCE, compares: COMPARED, moved }
    }

    /// Agents may take so long to answer an update, instead of two minutes.
    #[must_use]
    pub fn with_patience(mut self, patience: Span) -> Self {
        self.patience = patience;
        self
    }

    /// Agents compare a domain so often, instead of each minute.
    #[must_use]
    pub fn with_compares(mut self, every: Span) -> Self {
        self.compares = every;
        self
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
            inner.locate(&port, place);
            inner.elect(&port, &mut moved);
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
        gone.into_iter().for_each(|node| inner.dismiss(node));
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

    /// How many agents have refused the last that they were told of some domain that they have.
    pub fn refusing(&self) -> usize {
        let refuses = |session: &&Session| {
            session.follows.iter().any(|domain| session.feed.refused(domain).is_some())
        };
        self.lock().sessions.values().filter(|it| it.is_connected).filter(refuses).count()
    }

    /// How many updates agents have not taken, for each reason.
    pub fn refusals(&self) -> [(&'static str, u64); Reason::WORDS.len()] {
        let inner = self.lock();
        Reason::WORDS.map(|word| (word, inner.refusals.get(word).copied().unwrap_or_default()))
    }

    /// How many domains agents did not execute as they had answered for. They were sent all rows.
    pub fn differing(&self) -> u64 {
        self.lock().differing
    }

    /// How many agents are connected, and how often one was woken.
    pub fn woken(&self) -> (usize, u64) {
        let inner = self.lock();
        (inner.sessions.len() - inner.absent.len(), inner.wakes)
    }

    /// How many ports have come and gone so often that their agents, which have them no more, are
    /// not told to drop their domains yet.
    pub fn held_claims(&self) -> usize {
        self.lock().sessions.values().map(|it| it.claims.held()).sum()
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
        let cached = hello.known.iter().map(known).collect::<Result<BTreeMap<_, _>, _>>()?;
        let newest = cached.values().flatten().map(|it| it.generation).max().unwrap_or_default();
        let feed = Feed::new(hello.window_bytes.min(MOST_WINDOW) as usize, cached);
        let node: Name = hello.node.as_str().into();
        let inner = &mut *self.lock();
        if newest > inner.revision {
            let ended = Ended::Restored(newest, inner.revision);
            if !std::mem::replace(&mut inner.has_told_restored, true) {
                tracing::error!("{node} is not served: {ended}");
            }
            return Err(ended);
        }
        let is_later = |it: &Session| it.is_connected && it.incarnation > hello.incarnation;
        if inner.sessions.get(&node).is_some_and(is_later) {
            return Err(Ended::Replaced(hello.node.clone()));
        }
        inner.begun += 1;
        let before = inner.forget(&node);
        before.follows.iter().for_each(|domain| inner.returning.insert(domain, &node));
        let session = Session { before, ..Session::new(inner.begun, hello.incarnation, feed) };
        let (number, wake) = (session.number, Arc::clone(&session.wake));
        inner.sessions.insert(node.clone(), session);
        let handle = Handle { node, number, wake };
        self.moved.send_replace(());
        let welcome = proto::Welcome {
            version,
            store: self.store.0.to_be_bytes().to_vec(),
            fence: self.fence.0,
        };
        Ok((handle, message(from_controller::Message::Welcome(welcome))))
    }

    /// A message of an agent.
    pub(crate) fn receive(
        &self,
        now: Instant,
        handle: &Handle,
        message: proto::FromAgent,
    ) -> Result<(), Ended> {
        self.take(now, handle, message)?;
        self.moved.send_replace(());
        Ok(())
    }

    fn take(&self, now: Instant, handle: &Handle, message: proto::FromAgent) -> Result<(), Ended> {
        let inner = &mut *self.lock();
        let session = inner.session(handle)?;
        match message.message {
            Some(from_agent::Message::Ports(ports)) => inner.claim(now, handle, ports)?,
            Some(from_agent::Message::Ack(ack)) => {
                let reply = Reply::Ack(ack.domain.into(), Generation(ack.generation));
                session.answered(now, &reply)?;
            }
            Some(from_agent::Message::Nack(nack)) => {
                let reply = convert::nack(nack)?;
                session.answered(now, &reply)?;
                if let Reply::Nack(domain, generation, reason) = &reply {
                    let node = &handle.node;
                    tracing::warn!(
                        "{node} does not take generation {generation} of {domain}: {reason}"
                    );
                    *inner.refusals.entry(reason.word()).or_default() += 1;
                }
            }
            Some(from_agent::Message::Differs(proto::Differs { domain, generation })) => {
                let (node, domain) = (&handle.node, Name::from(domain));
                let generation = Generation(generation);
                let known = session.feed.known(&domain).map(|it| it.generation);
                session.answered(now, &Reply::Differs(domain.clone(), generation))?;
                // Anybody can say anything of what it does not have.
                if known == Some(generation) {
                    tracing::error!(
                        "{node} did not execute generation {generation} of {domain} as it was told: it is sent all rows again; report this, with both logs"
                    );
                    inner.differing += 1;
                }
            }
            Some(from_agent::Message::Hello(_)) => {
                return Err(Malformed("hello is said once, first").into());
            }
            None => return Err(Malformed("it says nothing that this version knows").into()),
        }
        Ok(())
    }

    /// What an agent is to be sent next.
    pub(crate) fn next(
        &self,
        now: Instant,
        handle: &Handle,
    ) -> Result<Option<FromController>, Ended> {
        let inner = &mut *self.lock();
        let revision = inner.revision;
        inner.session(handle)?;
        let Inner { sessions, domains, .. } = inner;
        let session = sessions.get_mut(&handle.node).expect("it was there just now");
        session.is_woken = false;
        if !session.unknown.is_empty() {
            let ports = std::mem::take(&mut session.unknown);
            let ports = ports.iter().map(ToString::to_string).collect();
            return Ok(Some(message(from_controller::Message::Unknown(proto::Unknown { ports }))));
        }
        let marked = if session.has_said { revision } else { Generation(0) };
        let next = session.feed.next(domains, marked);
        if matches!(next, Some(ToAgent::Part(_))) {
            session.asked = Some(now);
        }
        Ok(next.map(|it| message((&it).into())))
    }

    /// How long after its session began an agent is to compare a domain first. Of those that came
    /// at once, as after a restart, each has its moment.
    pub(crate) fn first_compare(&self, handle: &Handle) -> Span {
        Span::from_nanos(self.compares.as_nanos() / MOMENTS * (1 + handle.number % MOMENTS))
    }

    /// An agent is to compare a domain, the next in turn.
    pub(crate) fn compare(&self, handle: &Handle) -> Result<(), Ended> {
        self.lock().session(handle)?.feed.compare();
        Ok(())
    }

    /// Does for an agent's session what is due by now, and says when to ask again.
    pub(crate) fn tick(&self, now: Instant, handle: &Handle) -> Result<Option<Instant>, Ended> {
        let inner = &mut *self.lock();
        let session = inner.session(handle)?;
        if !session.has_said {
            session.asked.get_or_insert(now);
        }
        let silent = session.asked.map(|it| it + self.patience);
        if silent.is_some_and(|at| at <= now) {
            return Err(Ended::Silent(self.patience));
        }
        let calm = session.claims.poll(now);
        let due = session.claims.next_deadline().into_iter().chain(silent).min();
        if !calm.is_empty() {
            calm.iter().for_each(|port| inner.leaves(port, &handle.node));
            inner.settle(&handle.node);
            self.moved.send_replace(());
        }
        Ok(due)
    }

    /// A session has ended.
    pub(crate) fn close(&self, handle: &Handle) {
        let inner = &mut *self.lock();
        let Ok(session) = inner.session(handle) else { return };
        session.is_connected = false;
        session.feed.abandon();
        let lingered = session.claims.let_go();
        lingered.iter().for_each(|port| inner.leaves(port, &handle.node));
        inner.absent.insert(handle.number, handle.node.clone());
        inner.settle(&handle.node);
        if inner.gone.contains(&handle.node) {
            inner.dismiss(&handle.node);
        }
        if inner.absent.len() > MOST_ABSENT
            && let Some((_, oldest)) = inner.absent.pop_first()
        {
            inner.dismiss(&oldest);
        }
        self.moved.send_replace(());
    }

    /// A session has ended so long ago that others may have its ports, if its node is not back.
    pub(crate) fn give_up(&self, handle: &Handle) {
        let inner = &mut *self.lock();
        let session = inner.sessions.get(&handle.node);
        if session.is_some_and(|it| it.number == handle.number && !it.is_connected) {
            inner.give_up(&handle.node);
            self.moved.send_replace(());
        }
    }
}

fn message(message: from_controller::Message) -> FromController {
    FromController { message: Some(message) }
}

impl Session {
    /// One that begins, of a node that had nothing before.
    fn new(number: u64, incarnation: u64, feed: Feed) -> Self {
        Self {
            number,
            incarnation,
            is_connected: true,
            is_away: false,
            feed,
            claims: Claims::default(),
            follows: BTreeSet::new(),
            before: Left::default(),
            asked: None,
            unknown: BTreeSet::new(),
            has_said: false,
            wake: Arc::default(),
            is_woken: false,
        }
    }

    /// Has it ask what there is to send. Whether that wakes an agent that nothing has woken yet.
    fn rouse(&mut self) -> bool {
        self.wake.notify_one();
        self.is_connected && !std::mem::replace(&mut self.is_woken, true)
    }

    fn answered(&mut self, now: Instant, reply: &Reply) -> Result<(), Ended> {
        self.feed.answered(reply)?;
        self.asked = self.feed.is_asked().then_some(now);
        Ok(())
    }
}

impl Inner {
    /// A session, if it has not ended and no later one of its node has begun.
    fn session(&mut self, handle: &Handle) -> Result<&mut Session, Ended> {
        let session = self.sessions.get_mut(&handle.node);
        let own = session.filter(|it| it.number == handle.number && it.is_connected);
        own.ok_or_else(|| Ended::Replaced(handle.node.to_string()))
    }

    /// Ends a node's session, which is told so. Returns what it had, or may have again once it has
    /// said its ports.
    fn forget(&mut self, node: &Name) -> Left {
        let Some(session) = self.sessions.remove(node) else { return Left::default() };
        self.absent.remove(&session.number);
        session.wake.notify_one();
        let mut left = session.before;
        session.follows.iter().for_each(|domain| self.followers.remove(domain, node));
        left.follows.iter().for_each(|domain| self.returning.remove(domain, node));
        session.claims.ports().for_each(|port| self.claims.remove(port, node));
        session.claims.lingering().for_each(|port| self.leaves(port, node));
        left.follows.extend(session.follows);
        left.ports.extend(session.claims.ports().cloned());
        left
    }

    /// A port that lingered at a node does so no more.
    fn leaves(&mut self, port: &Name, node: &Name) {
        self.claims.remove(port, node);
        self.find(port);
    }

    /// A node has not been connected for so long that others may have its ports.
    fn give_up(&mut self, node: &Name) {
        let Some(session) = self.sessions.get_mut(node) else { return };
        session.is_away = true;
        let ports: Vec<_> = session.claims.ports().chain(&session.before.ports).cloned().collect();
        self.elect_all(&ports, BTreeSet::new());
    }

    /// Ends a node's session, and it is not waited for.
    fn dismiss(&mut self, node: &Name) {
        let left = self.forget(node);
        self.elect_all(&left.ports, BTreeSet::new());
    }

    /// A domain has a new generation.
    fn changed(&mut self, domain: &Name) {
        for node in self.followers.of(domain) {
            let session = self.sessions.get_mut(node).expect("a node that follows has a session");
            session.feed.changed(domain);
            self.wakes += u64::from(session.rouse());
        }
    }

    /// A port is elsewhere, or gone.
    fn locate(&mut self, port: &Name, place: Option<Place>) {
        let bound = |place: &Place| Some((place.domain.clone(), place.nodes.bound()?.clone()));
        if let Some((domain, node)) = self.ports.get(port).and_then(bound)
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
            Some(place) => drop(self.ports.insert(port.clone(), place)),
            None => drop(self.ports.remove(port)),
        }
    }

    /// An agent says which ports it has.
    fn claim(&mut self, now: Instant, handle: &Handle, said: proto::Ports) -> Result<(), Ended> {
        let node = &handle.node;
        let names = |names: &[String]| names.iter().map(|it| Name::from(it.as_str())).collect();
        let (attached, detached): (Vec<Name>, Vec<Name>) =
            (names(&said.attached), names(&said.detached));
        if attached.iter().any(|port| port.len() > LONGEST_NAME) {
            return Err(Malformed("a port's name is too long").into());
        }
        let session = self.session(handle)?;
        if session.claims.len() + attached.len() > MOST_PORTS {
            return Err(Ended::TooMany("ports", MOST_PORTS));
        }
        attached.iter().for_each(|port| session.claims.attach(now, port));
        let gone: Vec<_> =
            detached.iter().filter(|port| session.claims.detach(now, port)).collect();
        let remembered = session.claims.remembered();
        if !std::mem::replace(&mut session.has_said, true) {
            session.asked = session.feed.is_asked().then_some(now);
        }
        let before = std::mem::take(&mut session.before);
        attached.iter().for_each(|port| self.claims.insert(port, node));
        gone.into_iter().for_each(|port| self.claims.remove(port, node));
        let ports = attached.iter().chain(&detached).chain(&before.ports);
        self.elect_all(ports, BTreeSet::from([node.clone()]));
        let of_others: Vec<_> =
            attached.into_iter().filter(|it| self.domain(it, node).is_none()).collect();
        let session = self.session(handle)?;
        session.unknown.extend(of_others);
        for port in &detached {
            session.unknown.remove(port);
        }
        if said.complete {
            session.feed.follow_no_other();
        }
        before.follows.iter().for_each(|domain| self.returning.remove(domain, node));
        // Asked last: also what a session leaves that ends has to be whole.
        if remembered > MOST_REMEMBERED {
            return Err(Ended::TooMany("ports that come and go", MOST_REMEMBERED));
        }
        Ok(())
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
        let of_ports = session.claims.ports().filter_map(|port| self.domain(port, node));
        let of_held = session.claims.lingering().filter_map(|port| self.lingers(port, node));
        let of_ports = of_ports.chain(of_held);
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
            self.wakes += u64::from(session.rouse());
        }
    }
}

#[cfg(test)]
mod tests;
