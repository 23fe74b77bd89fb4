//! Ports of logical networks on other hosts: where they are, as bindings say, and the numbers by
//! which hosts mean them.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use binding::{Places, SameLabel};
use datapath::{Labelled, Peer};
use image::{Domain, StationRole};
use logical::Topology;
use logical::objects::Identity;
use logical::topology::Attachment;
use model::{NetworkName, VtepList};

/// The labels of all ports that machines have, and the tunnel addresses of the hosts that those are
/// bound to.
#[derive(Clone, Debug, Default)]
pub struct Elsewhere {
    labels: Places,
    hosts: BTreeMap<Identity, VtepList>,
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
        let labels = Places::new(ports().map(|port| (port.id.clone(), binding::label(&port.id))))?;
        let host = |port: &logical::topology::Port| {
            // A child is where its parent is.
            let node = match port.attachment {
                Attachment::Child { parent, .. } => topology[parent].node,
                _ => port.node,
            };
            let vteps = topology[node?].node.vteps.clone();
            Some((port.id.clone(), VtepList::try_from(vteps).ok()?))
        };
        Ok(Self { labels, hosts: ports().filter_map(host).collect() })
    }

    /// Where ports are that are bound to other hosts than the one with these tunnel addresses.
    pub fn places(&self, own: &VtepList, peer_of: impl Fn(IpAddr) -> Option<Peer>) -> Places {
        let mut places = self.labels.clone();
        for (port, host) in self.hosts.iter().filter(|(_, host)| *host != own) {
            places.place(port, peer_of(host.first()));
        }
        places
    }

    /// What tunnels have to carry for a host with these tunnel addresses that executes these
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
            let hosts = ports.iter().filter_map(|port| self.hosts.get(*port));
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
