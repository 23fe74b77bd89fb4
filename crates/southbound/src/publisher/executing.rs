//! How far hosts are with what they were told.

use std::collections::{BTreeMap, BTreeSet};

use model::Generation;
use replica::{Feed, History, Name, Reason};
use tokio::sync::watch;

use super::{Inner, Publisher, Session};

/// A host, as far as it executes some domains.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Executing {
    /// Its node.
    pub node: Name,
    /// The revision up to which it executes everything of them.
    pub until: Generation,
    /// Whether its agent is connected. One that is not goes on with what it has.
    pub is_connected: bool,
    /// Why it does not take a generation of one of them, if it has taken none since.
    pub refused: Option<Reason>,
}

impl Publisher {
    /// How far the hosts are that have to do with some domains, or with any: those whose agents
    /// follow one, and those that ports are bound to, or that routers have their flows at, or that
    /// followed one before they came back, and whose agents are not connected or have not said
    /// their ports yet. And the revision that agents are told of.
    pub fn executing(&self, domains: Option<&BTreeSet<Name>>) -> (Generation, Vec<Executing>) {
        let inner = self.lock();
        let mut hosts = BTreeMap::new();
        match domains {
            Some(domains) => {
                let known = domains.iter().filter_map(|it| inner.domains.get_key_value(it));
                known.for_each(|(name, history)| inner.add(name, history, &mut hosts));
            }
            None => inner.domains.iter().for_each(|(name, it)| inner.add(name, it, &mut hosts)),
        }
        (inner.revision, hosts.into_values().collect())
    }

    /// How far the hosts are that have a port, with its domain: the one that has it, also while its
    /// agent is not connected; several if the port is everywhere. And the revision that agents are
    /// told of. `None`: hosts have no such port.
    pub fn executing_port(&self, port: &str) -> Option<(Generation, Vec<Executing>)> {
        let inner = self.lock();
        let place = inner.ports.get(port)?;
        let history = inner.domains.get(&place.domain)?;
        let has = |node: &&Name| {
            place.is_everywhere && place.nodes.admit(node) && inner.sessions[*node].claims.has(port)
        };
        let nodes = inner.holders.get(port).into_iter().chain(inner.claims.of(port).filter(has));
        let hosts = nodes.map(|node| inner.host(node, &place.domain, history)).collect();
        Some((inner.revision, hosts))
    }

    /// Says when hosts may be further than they were, or agents come or go.
    pub fn subscribe(&self) -> watch::Receiver<()> {
        self.moved.subscribe()
    }
}

impl Publisher {
    /// How far a node is with all domains that it follows, and the revision that agents are told
    /// of. `None`: its agent has never been connected, or long ago.
    pub fn node(&self, node: &str) -> Option<(Generation, Executing)> {
        let inner = self.lock();
        let (node, session) = inner.sessions.get_key_value(node)?;
        let Session { number, is_connected, feed, follows, has_said, .. } = session;
        if *number <= inner.restored {
            return None;
        }
        let mut host = Executing {
            node: node.clone(),
            until: if *has_said { inner.revision } else { Generation(0) },
            is_connected: *is_connected,
            refused: None,
        };
        for domain in follows {
            let Some(history) = inner.domains.get(domain) else { continue };
            host.until = host.until.min(inner.until(feed, domain, history));
            host.refused = host.refused.or_else(|| Some(feed.refused(domain)?.1.clone()));
        }
        Some((inner.revision, host))
    }
}

impl Inner {
    /// The revision up to which an agent executes everything of a domain.
    fn until(&self, feed: &Feed, domain: &Name, history: &History) -> Generation {
        let has = feed.known(domain).map_or(Generation(0), |it| it.generation);
        match history.after(has) {
            _ if has == history.generation() => self.revision,
            Some(next) => Generation(next.0 - 1),
            None => has,
        }
    }

    /// How far a node is with a domain: not at all, if its agent does not follow that.
    fn host(&self, node: &Name, domain: &Name, history: &History) -> Executing {
        let session = self.sessions.get(node);
        let feed = session.filter(|it| it.follows.contains(domain)).map(|it| &it.feed);
        Executing {
            node: node.clone(),
            until: feed.map_or(Generation(0), |it| self.until(it, domain, history)),
            is_connected: session.is_some_and(|it| it.is_connected),
            refused: feed.and_then(|it| it.refused(domain)).map(|(_, reason)| reason.clone()),
        }
    }

    /// Adds how far the hosts of a domain are: with several, as far as they are with each.
    fn add(&self, domain: &Name, history: &History, hosts: &mut BTreeMap<Name, Executing>) {
        let mut add = |node: &Name| {
            let host = self.host(node, domain, history);
            let known = hosts.entry(host.node.clone()).or_insert_with(|| host.clone());
            known.until = known.until.min(host.until);
            known.refused = known.refused.take().or(host.refused);
        };
        self.followers.of(domain).for_each(&mut add);
        let bound = self.bound.get(domain).into_iter().flat_map(BTreeMap::keys);
        let homes = self.homes.get(domain).into_iter().flatten();
        for node in bound.chain(homes).chain(self.returning.of(domain)) {
            let may_have = |it: &Session| !it.is_connected || !it.has_said;
            let has_not = |it: &Session| may_have(it) && !it.follows.contains(domain);
            if self.sessions.get(node).is_none_or(has_not) {
                add(node);
            }
        }
    }
}
