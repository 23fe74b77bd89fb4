//! At which node ports are, and the routers that keep flows.

use alloc::collections::BTreeMap;

use logical::Topology;
use logical::objects::Identity;
use logical::topology::{Attachment, Link, NodeIndex, Port, Route, RouterIndex, Target};

/// The node of each port, router and router's port that is at one: of a machine's port the node
/// that it is bound to; of a router that keeps flows, and of its ports, the node where it keeps
/// them.
pub fn sites(topology: &Topology) -> BTreeMap<Identity, NodeIndex> {
    let mut sites = BTreeMap::new();
    let is_had = |port: &&Port| port.is_machine() || port.attachment == Attachment::Provider;
    let ports = topology.ports().map(|(_, port)| port).filter(is_had);
    sites.extend(ports.filter_map(|port| Some((port.id.clone(), node(topology, port)?))));
    for (index, router) in topology.routers() {
        let Some(home) = home(topology, index) else { continue };
        let ports = router.ports.iter().map(|port| &topology[*port].id);
        sites.extend(ports.chain([&router.id]).map(|id| (id.clone(), home)));
    }
    sites
}

/// The node of a machine's port. A child is where its parent is.
fn node(topology: &Topology, port: &Port) -> Option<NodeIndex> {
    match port.attachment {
        Attachment::Child { parent, .. } => topology[parent].node,
        _ => port.node,
    }
}

/// The node where a router keeps its flows, if it does, since it translates or leads them back
/// where they came from, or where it asks for neighbours that nobody declares: its first gateway;
/// if it has none, the first, by its name, that has a port of one of its switches. All who ask of
/// the same objects come to the same.
fn home(topology: &Topology, index: RouterIndex) -> Option<NodeIndex> {
    let router = &topology[index];
    let balances = || topology.balancers().any(|(_, it)| it.routers.contains(&index));
    let is_symmetric = |it: &Route| matches!(it.target, Target::Hops { symmetric: true, .. });
    let leads_back = || router.routes.iter().any(is_symmetric);
    let leads_outside = || {
        let switches = router.ports.iter().filter_map(|port| match topology[*port].link {
            Link::Switch(at) => Some(&topology[topology[at].switch]),
            Link::Peer(_) | Link::Nowhere => None,
        });
        let mut ports = switches.flat_map(|it| &it.ports).map(|port| &topology[*port]);
        let is_outside =
            |it: &Attachment| matches!(it, Attachment::Provider | Attachment::L2Gateway { .. });
        ports.any(|port| port.unknown || is_outside(&port.attachment))
    };
    if router.nats.is_empty() && !balances() && !leads_back() && !leads_outside() {
        return None;
    }
    let ports = router.ports.iter().map(|port| &topology[*port]);
    let gateway = ports.clone().flat_map(|port| &port.gateway).next().copied();
    let switches = ports.filter_map(|port| match port.link {
        Link::Switch(at) => Some(&topology[topology[at].switch]),
        Link::Peer(_) | Link::Nowhere => None,
    });
    let nodes = switches.flat_map(|it| &it.ports).filter_map(|port| topology[*port].node);
    gateway.or_else(|| nodes.min_by_key(|node| &topology[*node].id))
}
