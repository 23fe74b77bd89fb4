//! Which far hosts there are, and where the machines of each network are: the state, and what has
//! changed in it.
//!
//! A [`Topology`] is kept by whoever changes networks, away from the thread that forwards. That
//! thread only puts a [`Delta`] into effect.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::Arc;

use datapath::{Declared, Directory, Peer, VirtualNetwork};
use model::{NetworkName, VtepList};

/// The most far hosts: their numbers have 24 bits.
const NUMBERS: &str = "there are fewer far hosts than numbers, as each has a member of its own";

/// The far hosts of a host, with their numbers, and what is declared of its networks.
#[derive(Clone, Debug, Default)]
pub struct Topology {
    /// By the first address of each.
    hosts: BTreeMap<IpAddr, (Peer, VtepList)>,
    /// Numbers that were given before, and are free.
    free: Vec<Peer>,
    /// Networks with machines on this host.
    networks: BTreeMap<NetworkName, Known>,
}

/// What was declared of a network, and of what that was made.
#[derive(Clone, Debug)]
struct Known {
    declared: Arc<Declared>,
    source: Arc<VirtualNetwork>,
}

/// What has changed, in the order in which it is to be put into effect.
#[derive(Debug, Default)]
pub struct Delta {
    /// Far hosts that no network has a member on any more.
    pub gone: Vec<Peer>,
    /// Far hosts that are new, or have other addresses.
    pub hosts: Vec<(Peer, VtepList)>,
    /// Networks whose machines on other hosts have changed; `None` if there are none on this host.
    pub networks: Vec<(NetworkName, Option<Arc<Declared>>)>,
}

impl Topology {
    /// Everything that there is, as what has changed for somebody who knows nothing yet.
    pub fn whole(&self) -> Delta {
        let networks = self.networks.iter();
        Delta {
            gone: Vec::new(),
            hosts: self.hosts.values().cloned().collect(),
            networks: networks
                .map(|(name, known)| (name.clone(), Some(known.declared.clone())))
                .collect(),
        }
    }

    /// The number of a far host, by the first of its addresses.
    pub fn peer(&self, host: IpAddr) -> Option<Peer> {
        self.hosts.get(&host).map(|(peer, _)| *peer)
    }

    /// Follows a directory. Far hosts keep their numbers as long as any network has a member on
    /// both hosts.
    pub fn advance(&mut self, directory: &Directory) -> Delta {
        let mut delta = Delta::default();
        let here: Vec<_> = directory.networks().filter(|(.., network)| network.is_here()).collect();
        let far: BTreeSet<_> = here.iter().flat_map(|(.., network)| network.peers()).collect();
        self.hosts.retain(|host, (peer, _)| {
            let stays = far.contains(host);
            if !stays {
                delta.gone.push(*peer);
            }
            stays
        });
        self.free.extend(&delta.gone);
        for host in far {
            let addresses =
                directory.addresses_of(host).expect("a peer of a network is one of the directory");
            let count = self.hosts.len() + self.free.len();
            match self.hosts.get_mut(&host) {
                Some((_, known)) if known == addresses => continue,
                Some((peer, known)) => {
                    *known = addresses.clone();
                    delta.hosts.push((*peer, addresses.clone()));
                }
                None => {
                    let new = || Peer::new(count as u32).expect(NUMBERS);
                    let peer = self.free.pop().unwrap_or_else(new);
                    self.hosts.insert(host, (peer, addresses.clone()));
                    delta.hosts.push((peer, addresses.clone()));
                }
            }
        }
        let Self { hosts, networks, .. } = self;
        let mut before = std::mem::take(networks);
        let peer_of = |host| hosts.get(&host).map(|(peer, _)| *peer);
        for (vni, name, network) in here {
            let known = match before.remove(name) {
                // Hosts that stay keep their numbers, and this network's hosts all stay.
                Some(known) if Arc::ptr_eq(&known.source, network) => known,
                before => {
                    let declared = Declared::new(vni, network, peer_of);
                    let same = before.map(|known| known.declared).filter(|it| **it == declared);
                    let declared = same.unwrap_or_else(|| {
                        let declared = Arc::new(declared);
                        delta.networks.push((name.clone(), Some(declared.clone())));
                        declared
                    });
                    Known { declared, source: network.clone() }
                }
            };
            networks.insert(name.clone(), known);
        }
        // Before others: one of these may have had another's VNI.
        let gone = before.into_keys().map(|name| (name, None));
        delta.networks.splice(..0, gone);
        delta
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use model::{Member, NetworkSpec};
    use proptest::collection::{btree_map, vec};
    use proptest::prelude::*;
    use units::Mac;

    use super::*;

    /// A host's addresses: the first, and perhaps another.
    fn vtep(host: u8, has_two: bool) -> VtepList {
        let addresses = [1, 2].map(|link| IpAddr::from(Ipv4Addr::new(192, 0, link, host + 1)));
        addresses[..1 + usize::from(has_two)].to_vec().try_into().unwrap()
    }

    /// By network, its machines, each with its host. Some hosts have two addresses.
    type Networks = BTreeMap<u8, BTreeMap<u8, u8>>;

    fn directory(networks: &Networks, two: &[bool; 6]) -> Directory {
        let member = |network: u8, (machine, host): (&u8, &u8)| Member {
            mac: Mac::local((*machine).into()),
            addresses: Vec::new(),
            vtep: vtep(*host, two[usize::from(*host)]),
            label: (u32::from(network) << 8) + u32::from(*machine) + 1,
        };
        let spec = |(network, machines): (&u8, &BTreeMap<u8, u8>)| {
            let members = machines.iter().map(|it| member(*network, it)).collect();
            NetworkSpec::new(NetworkName(network.to_string()), u32::from(*network) + 1, members)
        };
        let specs: Vec<_> = networks.iter().map(spec).collect();
        Directory::new(&specs, &vtep(0, two[0])).unwrap()
    }

    proptest! {
        /// Whoever follows all deltas knows what the last directory says, and nothing else.
        #[test]
        fn deltas_add_up_to_the_directory(
            steps in vec((btree_map(0u8..4, btree_map(0u8..8, 0u8..6, 1..6), 0..4), any::<[bool; 6]>()), 1..12),
        ) {
            let mut topology = Topology::default();
            let mut hosts: BTreeMap<Peer, VtepList> = BTreeMap::new();
            let mut declared: BTreeMap<NetworkName, Arc<Declared>> = BTreeMap::new();
            for (networks, two) in steps {
                let directory = directory(&networks, &two);
                let delta = topology.advance(&directory);
                for peer in delta.gone {
                    prop_assert!(hosts.remove(&peer).is_some());
                }
                hosts.extend(delta.hosts);
                for (name, change) in delta.networks {
                    match change {
                        Some(now) => drop(declared.insert(name, now)),
                        None => prop_assert!(declared.remove(&name).is_some()),
                    }
                }
                let here: Vec<_> = directory.networks().filter(|(.., it)| it.is_here()).collect();
                prop_assert_eq!(declared.len(), here.len());
                let mut needed = BTreeSet::new();
                for (vni, name, network) in here {
                    let known = &declared[name];
                    prop_assert_eq!(known.vni(), vni);
                    let places: BTreeMap<_, _> = known.places().collect();
                    let mut count = 0;
                    for (mac, place) in network.places() {
                        let datapath::Place::There { vtep, label } = place else { continue };
                        count += 1;
                        let remote = places[&mac];
                        prop_assert_eq!((hosts[&remote.peer].first(), remote.label), (vtep, label));
                        prop_assert_eq!(Some(&hosts[&remote.peer]), directory.addresses_of(vtep));
                        needed.insert(remote.peer);
                    }
                    prop_assert_eq!(places.len(), count);
                }
                prop_assert!(hosts.keys().eq(&needed), "no host without a machine");
                prop_assert!(needed.iter().all(|peer| peer.index() < 6), "numbers are used again");
            }
        }
    }
}
