//! Which switches and routers are connected.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;

use crate::Topology;
use crate::objects::Identity;
use crate::topology::{Link, RouterIndex, SwitchIndex};

/// The domain of each switch and router, by the name of the least in it.
pub struct Domains<'a> {
    switches: BTreeMap<SwitchIndex, &'a Identity>,
    routers: BTreeMap<RouterIndex, &'a Identity>,
}

/// A switch or a router.
#[derive(Clone, Copy, Eq, Ord, PartialEq, PartialOrd)]
enum Node {
    Switch(SwitchIndex),
    Router(RouterIndex),
}

impl<'a> Domains<'a> {
    /// Those of a topology.
    pub fn new(topology: &'a Topology) -> Self {
        let mut neighbours: BTreeMap<Node, Vec<Node>> = BTreeMap::new();
        for (_, port) in topology.router_ports() {
            let own = Node::Router(port.router);
            let other = match port.link {
                Link::Switch(at) => Node::Switch(topology[at].switch),
                Link::Peer(peer) => Node::Router(topology[peer].router),
                Link::Nowhere => continue,
            };
            neighbours.entry(own).or_default().push(other);
            neighbours.entry(other).or_default().push(own);
        }
        let switches = topology.switches().map(|(index, it)| (&it.id, Node::Switch(index)));
        let routers = topology.routers().map(|(index, it)| (&it.id, Node::Router(index)));
        let mut all: Vec<_> = switches.chain(routers).collect();
        all.sort();
        let mut found = Self { switches: BTreeMap::new(), routers: BTreeMap::new() };
        // In the order of names, so that the first of a domain is the least.
        for (name, node) in all {
            let mut next = alloc::vec![node];
            while let Some(node) = next.pop() {
                let is_new = match node {
                    Node::Switch(index) if !found.switches.contains_key(&index) => {
                        found.switches.insert(index, name).is_none()
                    }
                    Node::Router(index) if !found.routers.contains_key(&index) => {
                        found.routers.insert(index, name).is_none()
                    }
                    Node::Switch(_) | Node::Router(_) => false,
                };
                if is_new {
                    next.extend(neighbours.get(&node).into_iter().flatten());
                }
            }
        }
        found
    }

    /// The domain of a switch.
    pub fn of_switch(&self, index: SwitchIndex) -> &'a Identity {
        self.switches[&index]
    }

    /// The domain of a router.
    pub fn of_router(&self, index: RouterIndex) -> &'a Identity {
        self.routers[&index]
    }
}
