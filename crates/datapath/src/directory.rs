//! Where each machine of each virtual network is, as one host sees it.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::sync::Arc;
use core::net::IpAddr;

use model::{InvalidNetwork, NetworkName, NetworkSpec, VtepList, check_networks};
use units::{ClassSet, Mac};

/// All virtual networks of one generation, as one host sees them. By default there are none.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Directory {
    /// By number.
    networks: BTreeMap<u32, Arc<VirtualNetwork>>,
    names: BTreeMap<NetworkName, u32>,
    /// By the first of their addresses.
    peers: BTreeMap<IpAddr, VtepList>,
}

/// One virtual network.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct VirtualNetwork {
    places: BTreeMap<Mac, Place>,
    /// Those on this host, by their labels.
    here: BTreeMap<u32, Mac>,
    owners: BTreeMap<IpAddr, Mac>,
    peers: BTreeSet<IpAddr>,
    classes: Option<ClassSet>,
    /// Who is in it says itself where its frames go.
    has_own_labels: bool,
}

/// A network of which no addresses are declared: who is in it says itself to which port of which
/// host each frame goes.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Labelled {
    /// Its name.
    pub name: NetworkName,
    /// Its number in tunnels.
    pub vni: u32,
    /// The tunnel addresses of each other host that has ports of it.
    pub hosts: BTreeSet<VtepList>,
}

/// Why a network cannot stand beside others.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
pub enum CannotReach {
    /// Its number is another's.
    #[error("network `{0}` has the VNI of `{1}`, {2}: give one of them another name, or number")]
    SameVni(NetworkName, NetworkName, u32),
    /// One address is said to be two hosts'.
    #[error(
        "{0} is the first tunnel address of hosts whose other addresses differ: give each host the same list everywhere"
    )]
    SameHost(IpAddr),
}

/// Where a machine is.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub enum Place {
    /// On this host.
    Here {
        /// Behind the port with this label.
        label: u32,
    },
    /// On another.
    There {
        /// At whose end of tunnels: its first address.
        vtep: IpAddr,
        /// Behind which of its ports.
        label: u32,
    },
}

impl Directory {
    /// What the host with these tunnel addresses has to know of these networks.
    ///
    /// # Errors
    ///
    /// [`InvalidNetwork`] if they cannot stand.
    pub fn new(networks: &[NetworkSpec], vtep: &VtepList) -> Result<Self, InvalidNetwork> {
        Self::make(networks.iter(), vtep, |_| None)
    }

    /// The same of networks of which only this one has changed, come or gone: the others are taken
    /// from this directory.
    ///
    /// # Errors
    ///
    /// [`InvalidNetwork`] if they cannot stand.
    pub fn with_change<'a>(
        &self,
        changed: &NetworkName,
        networks: impl Iterator<Item = &'a NetworkSpec> + Clone,
        vtep: &'a VtepList,
    ) -> Result<Self, InvalidNetwork> {
        let known = |network: &NetworkSpec| self.networks.get(&network.vni).cloned();
        Self::make(networks, vtep, |network| known(network).filter(|_| network.name != *changed))
    }

    /// `known` has what is known of a network already.
    fn make<'a>(
        networks: impl Iterator<Item = &'a NetworkSpec> + Clone,
        vtep: &'a VtepList,
        known: impl Fn(&NetworkSpec) -> Option<Arc<VirtualNetwork>>,
    ) -> Result<Self, InvalidNetwork> {
        check_networks(networks.clone(), Some(vtep))?;
        let names = networks.clone().map(|network| (network.name.clone(), network.vni)).collect();
        let mut peers = BTreeMap::new();
        for member in networks
            .clone()
            .flat_map(|network| &network.members)
            .filter(|member| member.vtep != *vtep)
        {
            peers.entry(member.vtep.first()).or_insert_with(|| member.vtep.clone());
        }
        let new = |network| Arc::new(VirtualNetwork::new(network, vtep.first()));
        let networks = networks
            .map(|network| (network.vni, known(network).unwrap_or_else(|| new(network))))
            .collect();
        Ok(Self { networks, names, peers })
    }

    /// The same, and these networks.
    ///
    /// # Errors
    ///
    /// [`CannotReach`] if they cannot stand beside those that there are.
    pub fn with_labelled(
        &self,
        networks: impl IntoIterator<Item = Labelled>,
    ) -> Result<Self, CannotReach> {
        let mut new = self.clone();
        for Labelled { name, vni, hosts } in networks {
            if new.networks.contains_key(&vni) {
                let other = new.names.iter().find(|(_, it)| **it == vni).map(|(name, _)| name);
                let other = other.cloned().unwrap_or_else(|| name.clone());
                return Err(CannotReach::SameVni(name, other, vni));
            }
            for host in &hosts {
                let known = new.peers.entry(host.first()).or_insert_with(|| host.clone());
                if known != host {
                    return Err(CannotReach::SameHost(host.first()));
                }
            }
            let peers = hosts.iter().map(VtepList::first).collect();
            let network = VirtualNetwork { peers, has_own_labels: true, ..Default::default() };
            new.networks.insert(vni, Arc::new(network));
            new.names.insert(name, vni);
        }
        Ok(new)
    }

    /// The network with this number.
    pub fn network(&self, vni: u32) -> Option<&Arc<VirtualNetwork>> {
        self.networks.get(&vni)
    }

    /// All networks by name, with their numbers.
    pub fn networks(&self) -> impl Iterator<Item = (u32, &NetworkName, &Arc<VirtualNetwork>)> {
        self.names.iter().map(|(name, vni)| (*vni, name, &self.networks[vni]))
    }

    /// The number of the network with this name.
    pub fn vni(&self, name: &NetworkName) -> Option<u32> {
        self.names.get(name).copied()
    }

    /// Every other host that has machines of any network, in order: the first of its addresses.
    pub fn peers(&self) -> impl ExactSizeIterator<Item = IpAddr> {
        self.peers.keys().copied()
    }

    /// All addresses of another host, by the first of them.
    pub fn addresses_of(&self, peer: IpAddr) -> Option<&VtepList> {
        self.peers.get(&peer)
    }
}

impl VirtualNetwork {
    fn new(network: &NetworkSpec, our: IpAddr) -> Self {
        let mut new = Self { classes: network.share.classes, ..Self::default() };
        for member in &network.members {
            let (vtep, label) = (member.vtep.first(), member.label);
            let place =
                if vtep == our { Place::Here { label } } else { Place::There { vtep, label } };
            new.places.insert(member.mac, place);
            if vtep == our {
                new.here.insert(label, member.mac);
            }
            new.owners.extend(member.addresses.iter().map(|address| (*address, member.mac)));
            if vtep != our {
                new.peers.insert(vtep);
            }
        }
        new
    }

    /// Where the machine with this Ethernet address is.
    pub fn place(&self, mac: Mac) -> Option<Place> {
        self.places.get(&mac).copied()
    }

    /// The machine that is declared behind the port of this host with this label.
    pub fn behind(&self, label: u32) -> Option<Mac> {
        self.here.get(&label).copied()
    }

    /// Where each machine is, by its Ethernet address.
    pub fn places(&self) -> impl Iterator<Item = (Mac, Place)> {
        self.places.iter().map(|(mac, place)| (*mac, *place))
    }

    /// Whether any of its machines is on this host.
    pub fn is_here(&self) -> bool {
        !self.here.is_empty() || self.has_own_labels
    }

    /// Which machine has this IP address.
    pub fn owner(&self, address: IpAddr) -> Option<Mac> {
        self.owners.get(&address).copied()
    }

    /// The classes that its machines may choose, if they are declared.
    pub fn classes(&self) -> Option<ClassSet> {
        self.classes
    }

    /// Every other host that has machines of it, in order: the first of its addresses.
    pub fn peers(&self) -> impl ExactSizeIterator<Item = IpAddr> {
        self.peers.iter().copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::ToString;
    use alloc::vec::Vec;
    use core::net::Ipv4Addr;
    use model::Member;
    use proptest::collection::vec;
    use proptest::prelude::*;

    /// The hosts with even numbers have two addresses.
    fn vtep(host: u8) -> VtepList {
        let addresses = [2, 3].map(|network| Ipv4Addr::new(192, 0, network, host + 1).into());
        addresses[..2 - usize::from(host % 2)].to_vec().try_into().unwrap()
    }

    /// Networks with as many members on hosts as these say; every member has an address of its own.
    fn networks(hosts: &[Vec<u8>]) -> Vec<NetworkSpec> {
        let mut label = 0;
        let network = |(number, hosts): (usize, &Vec<u8>)| {
            let member = |(place, host): (u32, &u8)| {
                label += 1;
                let addresses = [Ipv4Addr::from_bits(0x0a00_0001 + place).into()].into();
                Member { mac: Mac::local(place), addresses, vtep: vtep(*host), label }
            };
            let name = NetworkName((number + 1).to_string());
            NetworkSpec::new(name, number as u32 + 1, (0..).zip(hosts).map(member).collect())
        };
        hosts.iter().enumerate().map(network).collect()
    }

    proptest! {
        #[test]
        fn every_member_is_found_where_it_was_declared(
            hosts in vec(vec(0u8..4, 0..20), 0..6), our in 0u8..4, stranger in 20u32..,
        ) {
            let networks = networks(&hosts);
            let directory = Directory::new(&networks, &vtep(our)).unwrap();
            let mut all = BTreeSet::new();
            for network in &networks {
                prop_assert_eq!(directory.vni(&network.name), Some(network.vni));
                let known = directory.network(network.vni).unwrap();
                for member in &network.members {
                    let (vtep, label) = (&member.vtep, member.label);
                    let (label, vtep) = match known.place(member.mac).unwrap() {
                        Place::Here { label: here } => (here == label, *vtep == self::vtep(our)),
                        Place::There { vtep: there, label: far } => (far == label, directory.addresses_of(there) == Some(vtep)),
                    };
                    prop_assert!(label && vtep);
                    prop_assert_eq!(known.owner(member.addresses[0]), Some(member.mac));
                }
                prop_assert_eq!(known.place(Mac::local(stranger)), None);
                prop_assert_eq!(known.owner(Ipv4Addr::from_bits(0x0a00_0001 + 20).into()), None);
                let peers: BTreeSet<_> =
                    network.members.iter().map(|it| it.vtep.first()).filter(|it| *it != self::vtep(our).first()).collect();
                prop_assert!(known.peers().eq(peers.iter().copied()));
                all.extend(peers);
            }
            prop_assert!(directory.peers().eq(all));
            prop_assert_eq!(directory.network(7), None);
        }
    }

    #[test]
    fn a_network_with_labels_of_its_own_is_here_and_reaches_hosts() {
        let networks = networks(&[[0, 1].into()]);
        let directory = Directory::new(&networks, &vtep(0)).unwrap();
        let labelled = |vni, hosts: &[u8]| Labelled {
            name: NetworkName("logical/shop".into()),
            vni,
            hosts: hosts.iter().copied().map(vtep).collect(),
        };
        let both = directory.with_labelled([labelled(0x80_0001, &[1, 2])]).unwrap();
        let known = both.network(0x80_0001).unwrap();
        assert!(known.is_here());
        assert!(known.peers().eq([1, 2].map(|host| vtep(host).first())));
        assert_eq!(both.addresses_of(vtep(2).first()), Some(&vtep(2)));
        assert_eq!(both.network(1), directory.network(1), "others are as before");
        let same = directory.with_labelled([labelled(1, &[1])]);
        assert!(matches!(same, Err(CannotReach::SameVni(_, _, 1))), "{same:?}");
        let other = VtepList::from(vtep(2).first());
        let hosts = [vtep(2), other].into();
        let two = Labelled { hosts, ..labelled(0x80_0001, &[]) };
        assert_eq!(directory.with_labelled([two]), Err(CannotReach::SameHost(vtep(2).first())));
    }

    #[test]
    fn what_cannot_stand_is_no_directory() {
        let mut networks = networks(&[[0, 1].into()]);
        assert!(Directory::new(&networks, &vtep(0)).is_ok());
        assert!(
            Directory::new(&networks, &IpAddr::V6(core::net::Ipv6Addr::LOCALHOST).into()).is_err(),
            "another family"
        );
        networks[0].members[1].mac = Mac::local(0);
        assert!(Directory::new(&networks, &vtep(0)).is_err());
    }
}
