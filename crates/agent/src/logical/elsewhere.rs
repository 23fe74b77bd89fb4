//! Ports of logical networks on other hosts: where they are, as bindings say, and the numbers by
//! which hosts mean them.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::{Arc, Mutex, PoisonError};

use binding::{Places, SameLabel};
use datapath::{Labelled, Peer};
use image::{Balancer, Domain, Site, Station, Table};
use logical::objects::{Identity, Kind};
use model::{NetworkName, VtepList};

/// Domains by their names.
pub type Domains = BTreeMap<Identity, Arc<Domain>>;

/// Where ports are, and routers that keep flows. What a later table says counts.
pub type Sites = Vec<Table<Identity, Site>>;

/// The numbers by which hosts mean ports, as a controller has given them.
pub type Labels = Vec<Table<Identity, u32>>;

/// The labels of all ports that machines have, and the tunnel addresses of the hosts that those are
/// bound to.
#[derive(Debug, Default)]
pub struct Elsewhere {
    labels: Places,
    hosts: BTreeMap<Identity, VtepList>,
    /// Where each router is that keeps flows, if a host is known.
    routers: BTreeMap<Identity, VtepList>,
    /// The hosts that choose among the backends of each load balancer with a health check: its
    /// clients', and its routers'.
    choosers: BTreeMap<Identity, BTreeSet<VtepList>>,
    /// By what all these hosts are known.
    addresses: BTreeSet<IpAddr>,
    /// What was found last.
    found: Mutex<Option<Found>>,
}

/// Who is where, for a host with these addresses that knows others by these numbers.
#[derive(Debug)]
struct Found {
    own: Option<VtepList>,
    peers: Peers,
    places: Arc<Places>,
}

/// The numbers of hosts.
type Peers = BTreeMap<IpAddr, Option<Peer>>;

/// The network in the switch, and in tunnels, of all that is a tenant's. No declared network has
/// such a name.
pub fn network_of(tenant: &str) -> NetworkName {
    NetworkName(format!("logical/{tenant}"))
}

/// The machines' stations of domains.
fn stations(domains: &Domains) -> impl Iterator<Item = (&(Identity, Identity), &Station)> {
    let all = domains.values().flat_map(|domain| &domain.stations);
    all.filter(|(_, it)| it.role.is_had())
}

/// Their load balancers with a health check.
fn checked(domains: &Domains) -> impl Iterator<Item = (&Identity, &Balancer)> {
    let all = domains.values().flat_map(|domain| &domain.balancers);
    all.filter(|(_, it)| it.health_check.is_some())
}

impl Elsewhere {
    /// Of the ports of these domains. What a controller has given no label, as there is none or it
    /// is older, has that of its name; but one that was given is nobody else's.
    ///
    /// # Errors
    ///
    /// [`SameLabel`] if two ports' names come to one label.
    pub fn new(domains: &Domains, sites: &Sites, labels: &Labels) -> Result<Self, SameLabel> {
        let given = labels.iter().flat_map(|it| it.iter());
        let (numbers, taken): (BTreeMap<_, _>, BTreeSet<_>) =
            given.map(|(name, label)| ((name, *label), *label)).unzip();
        // A domain that changes into another is there beside it for a moment.
        let named: BTreeSet<_> = domains.values().flat_map(|it| it.labelled()).collect();
        let label = |name: &Identity| match numbers.get(name) {
            Some(label) => Some(*label),
            None => Some(logical::label(name)).filter(|it| !taken.contains(it)),
        };
        let all = named.into_iter().filter_map(|it| Some((it.clone(), label(it)?)));
        Ok(Self { labels: Places::new(all)?, ..Self::default() }.located(domains, sites))
    }

    /// The same ports of these domains at other places.
    pub fn located(&self, domains: &Domains, sites: &Sites) -> Self {
        let host = |(id, site): (&Identity, &Site)| {
            Some((id.clone(), VtepList::try_from(site.clone()).ok()?))
        };
        let all = sites.iter().flatten().filter_map(host);
        let (routers, hosts): (BTreeMap<_, _>, BTreeMap<_, _>) =
            all.partition(|(id, _)| id.kind == Kind::LogicalRouter);
        let mut choosers: BTreeMap<_, BTreeSet<VtepList>> = BTreeMap::new();
        for (id, balancer) in checked(domains) {
            let clients = stations(domains).filter(|((at, _), _)| balancer.switches.contains(at));
            let clients = clients.filter_map(|((_, port), _)| hosts.get(port));
            let homes = balancer.routers.iter().filter_map(|router| routers.get(router));
            choosers.entry(id.clone()).or_default().extend(clients.chain(homes).cloned());
        }
        let addresses = hosts.values().chain(routers.values()).map(VtepList::first).collect();
        let (labels, found) = (self.labels.clone(), Mutex::default());
        Self { labels, hosts, routers, choosers, addresses, found }
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

    /// Where ports are that are bound to other hosts than the one with these tunnel addresses:
    /// nowhere, if it has none.
    pub fn places(
        &self,
        own: Option<&VtepList>,
        peer_of: impl Fn(IpAddr) -> Option<Peer>,
    ) -> Arc<Places> {
        let number = |host: &IpAddr| (*host, peer_of(*host));
        let peers: Peers = self.addresses.iter().map(number).collect();
        let mut found = self.found.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(same) = &*found
            && (same.own.as_ref(), &same.peers) == (own, &peers)
        {
            return same.places.clone();
        }
        let places = Arc::new(self.placed(own, &peers));
        *found = Some(Found { own: own.cloned(), peers, places: places.clone() });
        places
    }

    fn placed(&self, own: Option<&VtepList>, peers: &Peers) -> Places {
        let mut places = self.labels.clone();
        let Some(own) = own else { return places };
        let peer_of = |host: &VtepList| peers.get(&host.first()).copied().flatten();
        for (port, host) in self.hosts.iter().filter(|(_, host)| *host != own) {
            places.place(port, peer_of(host));
        }
        for (balancer, hosts) in &self.choosers {
            let others = hosts.iter().filter(|host| *host != own);
            places.choose_at(balancer, others.filter_map(peer_of).collect());
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
            let stations = domain.stations.iter().filter(|(_, it)| it.role.is_had());
            let ports: Vec<_> = stations.map(|((_, port), _)| port).collect();
            let all = ports.iter().copied().chain(domain.router_ports.keys());
            let hosts = all.filter_map(|port| self.hosts.get(port));
            let hosts: BTreeSet<_> = hosts.filter(|host| *host != own).cloned().collect();
            let tenants = ports.iter().filter_map(|port| port.tenant.as_ref());
            // Each once: a domain has many more ports than tenants.
            for tenant in tenants.collect::<BTreeSet<_>>() {
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
