//! Which switches and routers are connected.
//!
//! A connected component is no rule's work: its name is the least of all that it has, and rules
//! would have to keep who reaches whom. So it is kept beside them, as a graph. What a change of an
//! edge touches is looked at whole, which is the domain that changes anyway.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;

use logical::objects::Identity;

/// The graph of switches and routers, and the domain of each: the least of its component.
#[derive(Default)]
pub struct Domains {
    nodes: BTreeSet<Identity>,
    /// Routers' ports, each with its router and its peer.
    router_ports: BTreeMap<Identity, (Identity, Option<Identity>)>,
    /// The ports of switches that stand for a router's port, each with its switch. There is one,
    /// but while edits are under way.
    stands: BTreeMap<Identity, BTreeMap<Identity, Identity>>,
    /// The two ends of what a router's port connects.
    edges: BTreeMap<Identity, [Identity; 2]>,
    /// The neighbours of each node, with how many edges lead to them.
    neighbours: BTreeMap<Identity, BTreeMap<Identity, usize>>,
    domains: BTreeMap<Identity, Identity>,
    /// Nodes whose neighbours have changed since the last look.
    dirty_nodes: BTreeSet<Identity>,
    /// Routers' ports that have.
    dirty_ports: BTreeSet<Identity>,
}

/// A node and its domain, before and after.
pub type Moved = (Identity, Option<Identity>, Option<Identity>);

impl Domains {
    /// A switch or a router comes or goes.
    pub fn node(&mut self, node: &Identity, is_there: bool) {
        match is_there {
            true => self.nodes.insert(node.clone()),
            false => self.nodes.remove(node),
        };
        self.dirty_nodes.insert(node.clone());
    }

    /// A router's port is another, or goes: its router, and its peer.
    pub fn router_port(&mut self, port: &Identity, to: Option<(Identity, Option<Identity>)>) {
        let before = self.router_ports.remove(port);
        let peers = before.iter().chain(&to).filter_map(|(_, peer)| peer.clone());
        self.dirty_ports.extend(peers);
        self.dirty_ports.insert(port.clone());
        self.router_ports.extend(to.map(|to| (port.clone(), to)));
    }

    /// A port of a switch stands for a router's port, or no longer does.
    pub fn stand(&mut self, port: &Identity, by: &Identity, switch: Option<&Identity>) {
        let all = self.stands.entry(port.clone()).or_default();
        match switch {
            Some(switch) => all.insert(by.clone(), switch.clone()),
            None => all.remove(by),
        };
        if all.is_empty() {
            self.stands.remove(port);
        }
        self.dirty_ports.insert(port.clone());
    }

    /// The domain of a node, as of the last look.
    pub fn of(&self, node: &Identity) -> Option<&Identity> {
        self.domains.get(node)
    }

    /// The nodes whose domain is another than at the last call.
    pub fn settle(&mut self) -> Vec<Moved> {
        for port in core::mem::take(&mut self.dirty_ports) {
            let edge = self.edge(&port);
            if self.edges.get(&port) != edge.as_ref() {
                let before = self.edges.remove(&port);
                before.iter().for_each(|edge| self.connect(edge, false));
                edge.iter().for_each(|edge| self.connect(edge, true));
                self.edges.extend(edge.map(|edge| (port, edge)));
            }
        }
        let mut moved = Vec::new();
        let mut seen = BTreeSet::new();
        for node in core::mem::take(&mut self.dirty_nodes) {
            if !self.nodes.contains(&node) {
                moved.extend(self.domains.remove(&node).map(|it| (node, Some(it), None)));
                continue;
            }
            let component = self.component(node, &mut seen);
            let Some(least) = component.first().cloned() else { continue };
            for node in component {
                let before = self.domains.insert(node.clone(), least.clone());
                if before.as_ref() != Some(&least) {
                    moved.push((node, before, Some(least.clone())));
                }
            }
        }
        moved
    }

    fn edge(&self, port: &Identity) -> Option<[Identity; 2]> {
        let (router, peer) = self.router_ports.get(port)?;
        let stands = self.stands.get(port).and_then(|all| all.values().next());
        let other = stands.or_else(|| Some(&self.router_ports.get(peer.as_ref()?)?.0));
        Some([router.clone(), other?.clone()])
    }

    fn connect(&mut self, edge: &[Identity; 2], comes: bool) {
        for (own, other) in [(&edge[0], &edge[1]), (&edge[1], &edge[0])] {
            let all = self.neighbours.entry(own.clone()).or_default();
            let number = all.entry(other.clone()).or_default();
            *number = if comes { *number + 1 } else { *number - 1 };
            if *number == 0 {
                all.remove(other);
            }
            if all.is_empty() {
                self.neighbours.remove(own);
            }
            self.dirty_nodes.insert(own.clone());
        }
    }

    /// All that a node reaches, unless it was seen.
    fn component(&self, from: Identity, seen: &mut BTreeSet<Identity>) -> BTreeSet<Identity> {
        let mut found = BTreeSet::new();
        let mut next = alloc::vec![from];
        while let Some(node) = next.pop() {
            if self.nodes.contains(&node) && seen.insert(node.clone()) {
                next.extend(
                    self.neighbours.get(&node).into_iter().flat_map(|it| it.keys()).cloned(),
                );
                found.insert(node);
            }
        }
        found
    }
}
