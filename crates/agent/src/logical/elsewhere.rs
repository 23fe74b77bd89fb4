//! Ports of logical networks on other hosts: where they are, as bindings say, and the numbers by
//! which hosts mean them.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use binding::{Places, SameLabel};
use datapath::{Labelled, Peer};
use image::{Domain, StationRole};
use logical::Topology;
use logical::objects::Identity;
use logical::topology::{Attachment, Link, Route, RouterIndex, Target};
use model::{NetworkName, VtepList};

/// The labels of all ports that machines have, and the tunnel addresses of the hosts that those are
/// bound to.
#[derive(Clone, Debug, Default)]
pub struct Elsewhere {
    labels: Places,
    hosts: BTreeMap<Identity, VtepList>,
    /// Where each router is that keeps flows, if a host is known.
    routers: BTreeMap<Identity, VtepList>,
}

/// The network in the switch, and in tunnels, of all that is a tenant's. No declared network has
/// such a name.
pub fn network_of(tenant: &str) -> NetworkName {
    NetworkName(format!("logical/{tenant}"))
}

impl Elsewhere {
    /// What objects say.
    ///
    /// # Errors
    ///
    /// [`SameLabel`] if two ports' names come to one label.
    pub fn new(topology: &Topology) -> Result<Self, SameLabel> {
        let is_had = |it: &Attachment| {
            matches!(it, Attachment::Vif | Attachment::Local | Attachment::Child { .. })
        };
        let ports = || topology.ports().map(|(_, port)| port).filter(|it| is_had(&it.attachment));
        let router_ports = || topology.router_ports().map(|(_, port)| port);
        let named = ports().map(|port| &port.id).chain(router_ports().map(|port| &port.id));
        let labels = Places::new(named.map(|name| (name.clone(), binding::label(name))))?;
        let routers: BTreeMap<_, _> = topology
            .routers()
            .filter_map(|(index, router)| Some((router.id.clone(), home(topology, index)?)))
            .collect();
        let mut hosts: BTreeMap<_, _> = router_ports()
            .filter_map(|port| {
                let home = routers.get(&topology[port.router].id)?;
                Some((port.id.clone(), home.clone()))
            })
            .collect();
        let host = |port: &logical::topology::Port| {
            // A child is where its parent is.
            let node = match port.attachment {
                Attachment::Child { parent, .. } => topology[parent].node,
                _ => port.node,
            };
            let vteps = topology[node?].node.vteps.clone();
            Some((port.id.clone(), VtepList::try_from(vteps).ok()?))
        };
        hosts.extend(ports().filter_map(host));
        Ok(Self { labels, hosts, routers })
    }

    /// The routers that keep their flows at the host with these tunnel addresses, for others too.
    pub fn routers_at(&self, own: Option<&VtepList>) -> BTreeSet<Identity> {
        let all = self.routers.iter().filter(|(_, home)| Some(*home) == own);
        all.map(|(router, _)| router.clone()).collect()
    }

    /// Whether a router keeps its flows at one host, for one that has these tunnel addresses.
    pub fn has_home(&self, router: &Identity, own: Option<&VtepList>) -> bool {
        own.is_some() && self.routers.contains_key(router)
    }

    /// Where ports are that are bound to other hosts than the one with these tunnel addresses.
    pub fn places(&self, own: &VtepList, peer_of: impl Fn(IpAddr) -> Option<Peer>) -> Places {
        let mut places = self.labels.clone();
        for (port, host) in self.hosts.iter().filter(|(_, host)| *host != own) {
            places.place(port, peer_of(host.first()));
        }
        places
    }

    /// Whether a port of a domain is bound to the host with these tunnel addresses.
    pub fn is_any_at(&self, own: &VtepList, domain: &Domain) -> bool {
        domain.ports.keys().any(|port| self.hosts.get(port) == Some(own))
    }

    /// What tunnels have to carry for a host with these tunnel addresses, of these
    /// domains: the network of each tenant that has ports there, to all hosts that have any.
    pub fn labelled<'a>(
        &self,
        own: &VtepList,
        domains: impl Iterator<Item = &'a Domain>,
    ) -> Vec<Labelled> {
        let mut networks: BTreeMap<_, BTreeSet<VtepList>> = BTreeMap::new();
        for domain in domains {
            let is_had =
                |role: &StationRole| matches!(role, StationRole::Machine | StationRole::Local);
            let stations = domain.stations.iter().filter(|(_, station)| is_had(&station.role));
            let ports: Vec<_> = stations.map(|((_, port), _)| port).collect();
            let all = ports.iter().copied().chain(domain.router_ports.keys());
            let hosts = all.filter_map(|port| self.hosts.get(port));
            let hosts: BTreeSet<_> = hosts.filter(|host| *host != own).cloned().collect();
            for tenant in ports.iter().filter_map(|port| port.tenant.as_ref()) {
                networks.entry(tenant).or_default().extend(hosts.iter().cloned());
            }
        }
        let labelled = |(tenant, hosts): (&logical::objects::Name, _)| Labelled {
            name: network_of(tenant.as_str()),
            vni: binding::vni(tenant),
            hosts,
        };
        networks.into_iter().map(labelled).collect()
    }
}

/// The tunnel addresses of the host where a router keeps its flows, if it does, since it translates
/// or leads them back where they came from: its first gateway; if it has none, the first host, by
/// its name, that has a port of one of its switches. All hosts of one file come to the same.
fn home(topology: &Topology, index: RouterIndex) -> Option<VtepList> {
    let router = &topology[index];
    let balances = || topology.balancers().any(|(_, it)| it.routers.contains(&index));
    let is_symmetric = |it: &Route| matches!(it.target, Target::Hops { symmetric: true, .. });
    let leads_back = || router.routes.iter().any(is_symmetric);
    if router.nats.is_empty() && !balances() && !leads_back() {
        return None;
    }
    let ports = router.ports.iter().map(|port| &topology[*port]);
    let gateway = ports.clone().flat_map(|port| &port.gateway).next().copied();
    let switches = ports.filter_map(|port| match port.link {
        Link::Switch(at) => Some(&topology[topology[at].switch]),
        Link::Peer(_) | Link::Nowhere => None,
    });
    let nodes = switches.flat_map(|it| &it.ports).filter_map(|port| topology[*port].node);
    let node = gateway.or_else(|| nodes.min_by_key(|node| &topology[*node].id))?;
    VtepList::try_from(topology[node].node.vteps.clone()).ok()
}
