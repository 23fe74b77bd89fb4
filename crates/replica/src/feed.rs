//! What one agent is sent, and what it has: its session, as the controller sees it.
//!
//! ```text
//!            changed                    next                     Ack
//! current ──────────▶ behind ──────────────────▶ underway ──────────────▶ current, or behind again
//!    ▲                  ▲                            │ Nack: its copy is not as thought: all rows
//!    │                  └────────────────────────────┤
//!    └───────────────────────────────────────────────┘ Nack: not before the next generation
//! ```
//!
//! A session costs the same whatever happens to its domains: at most one update of each is
//! underway, and what changes meanwhile is asked of the [`History`](crate::History) when it can be
//! sent.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::sync::Arc;
use core::mem;

use model::Generation;

use crate::history::{Histories, Update};
use crate::known::{Known, Name};
use crate::message::{CHUNK, Part, Reason, Reply, ToAgent};

/// An agent has answered what it was not asked: its session ends.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
#[error(
    "cannot go on with an agent that answers for an update it was not sent; it is to connect again"
)]
pub struct Misled;

/// One agent's session.
#[derive(Debug, Default)]
pub struct Feed {
    /// How many bytes of updates it takes before it has answered.
    window: usize,
    /// How many are sent and not answered.
    unanswered: usize,
    /// What it said that it has, of domains that it has not said that it follows.
    cached: BTreeMap<Name, Option<Known>>,
    domains: BTreeMap<Name, Followed>,
    /// Domains that may have a newer generation to send, and none underway.
    behind: BTreeSet<Name>,
    /// Domains that it is to be told to drop, once it has answered what is underway of them.
    dropped: BTreeSet<Name>,
    /// The update of which the last chunk is not sent yet.
    sending: Option<Part>,
    /// An update that there is no room for yet: it is encoded once while it waits.
    waiting: Option<Arc<Update>>,
    marked: Generation,
    /// Whether a domain is to be compared, and the one that was compared last.
    is_comparing: bool,
    compared: Option<Name>,
}

/// What an agent has of a domain.
#[derive(Debug, Default)]
struct Followed {
    known: Option<Known>,
    underway: Option<Arc<Update>>,
    /// A generation that it has refused, and why.
    refused: Option<(Generation, Reason)>,
}

impl Feed {
    /// A session with an agent that takes so many bytes of updates before it has answered, or one
    /// update that is longer. `cached`: the domains that it has, and as what, if that is of this
    /// controller's store.
    pub fn new(window: usize, cached: BTreeMap<Name, Option<Known>>) -> Self {
        Self { window, cached, ..Self::default() }
    }

    /// The agent has ports in a domain.
    pub fn follow(&mut self, domain: Name) {
        self.dropped.remove(&domain);
        let known = self.cached.remove(&domain).flatten();
        let followed = self.domains.entry(domain.clone()).or_default();
        if followed.underway.is_none() {
            followed.known = followed.known.or(known);
            self.behind.insert(domain);
        }
    }

    /// The agent has ports in no other domain: it drops what else it has.
    pub fn follow_no_other(&mut self) {
        self.dropped.extend(mem::take(&mut self.cached).into_keys());
    }

    /// The agent has no ports in a domain any more.
    pub fn unfollow(&mut self, domain: &str) {
        if let Some((domain, _)) = self.domains.get_key_value(domain) {
            self.dropped.insert(domain.clone());
        }
    }

    /// The agent is gone: what is underway does not reach it. What it had answered for, it has.
    pub fn abandon(&mut self) {
        (self.unanswered, self.sending, self.waiting) = (0, None, None);
        self.domains.values_mut().for_each(|it| it.underway = None);
    }

    /// Whether the agent follows a domain.
    pub fn follows(&self, domain: &str) -> bool {
        self.domains.contains_key(domain) && !self.dropped.contains(domain)
    }

    /// A domain has a new generation.
    pub fn changed(&mut self, domain: &Name) {
        if self.domains.get(domain).is_some_and(|it| it.underway.is_none()) {
            self.behind.insert(domain.clone());
        }
    }

    /// What the agent has of a domain, as far as it has answered.
    pub fn known(&self, domain: &str) -> Option<Known> {
        self.domains.get(domain)?.known
    }

    /// The generation of a domain that the agent has refused last, and why, if it has taken none
    /// since.
    pub fn refused(&self, domain: &str) -> Option<&(Generation, Reason)> {
        self.domains.get(domain)?.refused.as_ref()
    }

    /// Has the agent look whether a domain is still what it has answered for: the next in turn.
    pub fn compare(&mut self) {
        self.is_comparing = true;
    }

    /// Whether it has been sent some of an update that it has not answered.
    pub fn is_asked(&self) -> bool {
        self.domains.values().any(|it| it.underway.is_some())
    }

    /// What is to be sent next, as the domains are at this revision of the store; `None` until the
    /// agent answers or something changes.
    pub fn next(&mut self, domains: &mut Histories, revision: Generation) -> Option<ToAgent> {
        if self.sending.is_none() {
            if let Some(domain) = self.drops() {
                return Some(ToAgent::Drop(domain));
            }
            if mem::take(&mut self.is_comparing)
                && let Some((domain, known)) = self.next_in_turn()
            {
                self.compared = Some(domain.clone());
                return Some(ToAgent::Compare(domain, known));
            }
            self.begin(domains);
        }
        if let Some(part) = self.sending.take() {
            let next = part.at + CHUNK;
            self.sending =
                (next < part.update.body.len()).then(|| Part { at: next, ..part.clone() });
            return Some(ToAgent::Part(part));
        }
        let is_complete = revision > self.marked && self.behind.is_empty() && !self.lags(domains);
        is_complete.then(|| {
            self.marked = revision;
            ToAgent::Mark(revision)
        })
    }

    /// The domain to be compared after the last: one of which nothing is underway.
    fn next_in_turn(&self) -> Option<(Name, Known)> {
        let known = |(domain, it): (&Name, &Followed)| {
            let known = it.known.filter(|_| it.underway.is_none());
            Some((domain.clone(), known?))
        };
        let all = || self.domains.iter().filter_map(known);
        let next = all().find(|(domain, _)| Some(domain) > self.compared.as_ref());
        next.or_else(|| all().next())
    }

    /// Whether a domain has a newer generation than the one underway.
    fn lags(&self, domains: &Histories) -> bool {
        self.domains.iter().any(|(domain, it)| {
            let (underway, newest) = (it.underway.as_ref(), domains.get(domain));
            underway.zip(newest).is_some_and(|(update, newest)| newest.generation() > update.to)
        })
    }

    /// A domain that the agent is to be told to drop.
    fn drops(&mut self) -> Option<Name> {
        let is_free = |it: &&Name| self.domains.get(*it).is_none_or(|it| it.underway.is_none());
        let domain = self.dropped.iter().find(is_free)?.clone();
        self.domains.remove(&domain);
        self.behind.remove(&domain);
        self.dropped.take(&domain)
    }

    /// Begins with an update, if one is due and the agent has room for it.
    fn begin(&mut self, domains: &mut Histories) {
        // Its history finds it for as long as somebody has it.
        let _waiting = self.waiting.take();
        while let Some(domain) = self.behind.first().cloned() {
            let followed = self.domains.get_mut(&domain).expect("it is followed");
            let update = domains.get_mut(&domain).and_then(|it| it.since(followed.known));
            let refused = followed.refused.as_ref().map(|(generation, _)| *generation);
            let is_refused = |update: &Arc<Update>| refused == Some(update.to);
            let Some(update) = update.filter(|it| !is_refused(it)) else {
                self.behind.remove(&domain);
                continue;
            };
            if self.unanswered > 0 && self.unanswered + update.body.len() > self.window {
                self.waiting = Some(update);
                return;
            }
            self.behind.remove(&domain);
            self.unanswered += update.body.len();
            followed.underway = Some(update.clone());
            self.sending = Some(Part { domain, update, at: 0 });
            return;
        }
    }

    /// The agent's answer.
    ///
    /// # Errors
    ///
    /// [`Misled`]: it answers for what it was not sent, or not whole.
    pub fn answered(&mut self, reply: &Reply) -> Result<(), Misled> {
        let (domain, generation, reason) = match reply {
            Reply::Ack(domain, generation) => (domain, generation, None),
            Reply::Nack(domain, generation, reason) => (domain, generation, Some(reason)),
            Reply::Differs(domain, generation) => {
                self.differs(domain, *generation);
                return Ok(());
            }
        };
        let is_whole = self.sending.as_ref().is_none_or(|part| part.domain != *domain);
        let followed = self.domains.get_mut(domain).ok_or(Misled)?;
        // What is too large may be refused at its first chunk.
        let is_asked =
            |it: &mut Arc<Update>| it.to == *generation && (is_whole || reason.is_some());
        let update = followed.underway.take_if(is_asked).ok_or(Misled)?;
        if !is_whole {
            self.sending = None;
        }
        self.unanswered -= update.body.len();
        match reason {
            None => {
                followed.known = Some(Known { generation: update.to, digest: update.digest });
                followed.refused = None;
            }
            // All rows help, unless it had them all.
            Some(Reason::Base | Reason::Digest) if update.from != Generation(0) => {
                followed.known = None;
            }
            Some(reason) => followed.refused = Some((update.to, reason.clone())),
        }
        self.behind.insert(domain.clone());
        Ok(())
    }

    /// What the agent has of a domain is not what it has answered for: it is sent all rows. It may
    /// have been told to drop it meanwhile.
    fn differs(&mut self, domain: &Name, generation: Generation) {
        if let Some(followed) = self.domains.get_mut(domain)
            && followed.known.take_if(|it| it.generation == generation).is_some()
            && followed.underway.is_none()
        {
            self.behind.insert(domain.clone());
        }
    }
}
