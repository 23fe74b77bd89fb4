//! Which node has a port.
//!
//! One has it: the one that it is bound to; without a Binding, the first of those that may have it
//! to say that it has. Others that say so are told that it is not theirs, and so is one that loses
//! it; they are sent nothing of it. They wait: one of them has it once the first has it no more, or
//! is away. Only a port that is everywhere is had by all that may have it.

use std::collections::BTreeSet;

use replica::Name;

use super::{Inner, Place, Publisher, Session};

/// Which connected nodes say that they have a port.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Holding {
    /// The one that has it; several if it is everywhere.
    pub holders: Vec<Name>,
    /// Those that may not have it, or wait for it.
    pub others: Vec<Name>,
    /// Whether it is where it was found, as no Binding says where it is.
    pub is_found: bool,
}

impl Publisher {
    /// Who says that it has a port. `None`: hosts have no such port.
    pub fn holding(&self, port: &str) -> Option<Holding> {
        let inner = self.lock();
        let place = inner.ports.get(port)?;
        let is_found = !place.is_everywhere && place.nodes.bound().is_none();
        let connected = inner.claims.of(port).filter(|it| inner.sessions[*it].says(port));
        let has = |node: &Name| inner.domain(port, node).is_some();
        let (holders, others) = connected.cloned().partition(has);
        Some(Holding { holders, others, is_found })
    }
}

impl Session {
    /// Whether its agent is connected and says that it has a port.
    fn says(&self, port: &str) -> bool {
        self.is_connected && self.claims.has(port)
    }
}

impl Inner {
    /// Looks anew at who has these ports. Then these nodes, and those that this concerns, follow
    /// the domains that they are to.
    pub(super) fn elect_all<'p>(
        &mut self,
        ports: impl IntoIterator<Item = &'p Name>,
        mut changed: BTreeSet<Name>,
    ) {
        ports.into_iter().for_each(|port| self.elect(port, &mut changed));
        changed.iter().for_each(|node| self.settle(node));
    }

    /// Looks anew at who has a port. If that is another, it concerns whoever says or said so.
    pub(super) fn elect(&mut self, port: &Name, changed: &mut BTreeSet<Name>) {
        let before = self.holders.remove(port);
        let after = self.elected(port, before.as_ref()).cloned();
        if let Some(node) = &after {
            self.holders.insert(port.clone(), node.clone());
            if let Some(session) = self.sessions.get_mut(node) {
                session.unknown.remove(port);
            }
        }
        let is_lost = |it: &&Name| Some(*it) != after.as_ref() && self.domain(port, it).is_none();
        let loser = before.as_ref().filter(is_lost);
        if let Some(session) = loser.and_then(|it| self.sessions.get_mut(it))
            && session.says(port)
        {
            session.unknown.insert(port.clone());
            session.wake.notify_one();
        }
        if before != after {
            changed.extend(before.into_iter().chain(after));
            changed.extend(self.claims.of(port).cloned());
        }
        self.find(port);
    }

    /// The node that is to have a port: the one that has it, unless it is away and another is
    /// there.
    fn elected<'a>(&'a self, port: &Name, before: Option<&'a Name>) -> Option<&'a Name> {
        let Place { nodes, .. } = self.ports.get(port).filter(|it| !it.is_everywhere)?;
        let may_stay = |it: &Session| it.claims.has(port) || it.before.ports.contains(port);
        let before = before.filter(|node| nodes.admit(node));
        let before = before.filter(|node| self.sessions.get(*node).is_some_and(may_stay));
        let stays = before.filter(|node| !self.sessions[*node].is_away);
        let is_there = |node: &&Name| nodes.admit(node) && self.sessions[*node].says(port);
        stays.or_else(|| self.claims.of(port).find(is_there)).or(before)
    }

    /// The domain of a port that a node says it has, if that is so.
    pub(super) fn domain(&self, port: &str, node: &str) -> Option<&Name> {
        let place = self.ports.get(port)?;
        let has = match place.is_everywhere {
            true => place.nodes.admit(node),
            false => self.holders.get(port).is_some_and(|it| **it == *node),
        };
        has.then_some(&place.domain)
    }

    /// The domain of a port that this node had, if nobody else has it or is to have it.
    pub(super) fn lingers(&self, port: &str, node: &str) -> Option<&Name> {
        let is_free = !self.holders.contains_key(port);
        let place = self.ports.get(port).filter(|it| is_free && it.nodes.admit(node));
        place.map(|it| &it.domain)
    }
}
