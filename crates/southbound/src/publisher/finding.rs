//! Where ports are that nobody has bound: at the node that has them.
//!
//! ```text
//! agent has a port ─▶ holder ─found─▶ who keeps it, and tells all hosts
//!                                        │ after a restart
//!                        holder ◀─restore┘
//! ```
//!
//! A port is where it was until its node has it no more, also while that is not connected, and
//! while the port lingers there: what flaps is not told each time.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use replica::{Feed, Name};

use super::{Inner, Publisher, Session};

impl Publisher {
    /// The ports that are at another node than is kept, or at none any more, once there are some.
    /// Ports with a Binding are at none: that says where they are.
    pub async fn found(&self) -> BTreeMap<Name, Option<Name>> {
        let news = Arc::clone(&self.lock().news);
        loop {
            let found = self.lock().refound();
            if !found.is_empty() {
                return found;
            }
            news.notified().await;
        }
    }

    /// It is kept that ports are there.
    pub fn keep(&self, found: BTreeMap<Name, Option<Name>>) {
        let inner = &mut *self.lock();
        for (port, node) in found {
            match node {
                Some(node) => drop(inner.found.insert(port.clone(), node)),
                None => drop(inner.found.remove(&port)),
            }
            inner.find(&port);
        }
    }

    /// Has nodes have the ports that were found at them before this controller began. Each has its
    /// own until it says otherwise, or is not back after a while and another is there. What is not
    /// so any more, as that of a node that is not there, is told of as found.
    pub fn restore(
        &self,
        found: impl IntoIterator<Item = (Name, Name)>,
        is_there: impl Fn(&Name) -> bool,
    ) {
        let inner = &mut *self.lock();
        for (port, node) in found {
            if is_there(&node) {
                inner.restore(&port, &node);
            }
            inner.found.insert(port.clone(), node);
            inner.find(&port);
        }
        inner.restored = inner.begun;
        self.moved.send_replace(());
    }

    /// Nodes that had ports before this controller began, and are not back, have had their time.
    pub(crate) fn give_up_restored(&self) {
        let inner = &mut *self.lock();
        let late: Vec<_> =
            inner.absent.range(..=inner.restored).map(|(_, it)| it.clone()).collect();
        late.iter().for_each(|node| inner.give_up(node));
        self.moved.send_replace(());
    }
}

impl Inner {
    /// Looks anew where a port is that nobody has bound.
    pub(super) fn find(&mut self, port: &Name) {
        if self.finds(port) == self.found.get(port) {
            self.refound.remove(port);
        } else if self.refound.insert(port.clone()) {
            self.news.notify_one();
        }
    }

    fn finds(&self, port: &Name) -> Option<&Name> {
        let place = self.ports.get(port)?;
        if place.is_everywhere || place.nodes.bound().is_some() {
            return None;
        }
        let lingers = |node: &&Name| {
            let session = self.sessions.get(*node);
            session.is_some_and(|it| it.claims.lingers(port)) && self.lingers(port, node).is_some()
        };
        self.holders.get(port).or_else(|| self.found.get(port).filter(lingers))
    }

    pub(super) fn refound(&self) -> BTreeMap<Name, Option<Name>> {
        self.refound.iter().map(|port| (port.clone(), self.finds(port).cloned())).collect()
    }

    /// A node that is not connected has had a port, and may have it again.
    fn restore(&mut self, port: &Name, node: &Name) {
        let Some(place) = self.ports.get(port) else { return };
        let domain = place.domain.clone();
        if !self.sessions.contains_key(node) {
            self.begun += 1;
            let feed = Feed::new(0, BTreeMap::new());
            let session = Session { is_connected: false, ..Session::new(self.begun, 0, feed) };
            self.sessions.insert(node.clone(), session);
            self.absent.insert(self.begun, node.clone());
        }
        let session = self.sessions.get_mut(node).expect("it is there now");
        session.before.ports.insert(port.clone());
        self.holders.insert(port.clone(), node.clone());
        self.elect(port, &mut BTreeSet::new());
        if self.holders.contains_key(port) {
            let session = self.sessions.get_mut(node).expect("it was there just now");
            session.before.follows.insert(domain.clone());
            self.returning.insert(&domain, node);
        }
    }
}
