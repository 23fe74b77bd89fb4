//! Conditions in names, and the groups and sets that they speak of.

use alloc::collections::BTreeSet;
use alloc::vec::Vec;

use image::{Condition, Group, Peer};
use logical::Topology;
use logical::objects::Identity;
use logical::topology::{self, GroupName, PortIndex, SetIndex};

/// A condition in names.
pub fn condition(topology: &Topology, it: &topology::Match) -> Condition {
    let end = |it: &Option<topology::Peer>| it.as_ref().map(|it| peer(topology, it));
    Condition {
        ethertype: it.ethertype,
        source_macs: it.source_macs.clone(),
        destination_macs: it.destination_macs.clone(),
        source: end(&it.source),
        destination: end(&it.destination),
        services: it.services.clone(),
    }
}

fn peer(topology: &Topology, it: &topology::Peer) -> Peer {
    let ports = it.ports.iter().map(|port| Group::Port(topology[*port].id.clone()));
    let groups = it.groups.iter().map(|group| group_name(&topology[*group].name));
    Peer {
        groups: ports.chain(groups).collect(),
        sets: sets(topology, &it.sets),
        prefixes: it.prefixes.clone(),
        except: it.except.clone(),
    }
}

/// The names of sets.
pub fn sets(topology: &Topology, sets: &BTreeSet<SetIndex>) -> BTreeSet<Identity> {
    sets.iter().map(|set| topology[*set].id.clone()).collect()
}

fn group_name(name: &GroupName) -> Group {
    match name {
        GroupName::Named(id) => Group::Named(id.clone()),
        GroupName::Selected { tenant, selector } => {
            Group::Selected { tenant: tenant.clone(), selector: selector.clone() }
        }
    }
}

/// The groups that a condition speaks of, with their ports.
pub fn groups(topology: &Topology, it: &topology::Match) -> Vec<(Group, Vec<PortIndex>)> {
    let peers = it.source.iter().chain(&it.destination);
    let each = peers.flat_map(|peer| {
        let ports = peer.ports.iter();
        let ports = ports.map(|it| (Group::Port(topology[*it].id.clone()), alloc::vec![*it]));
        let groups = peer.groups.iter().map(|it| &topology[*it]);
        let groups = groups.map(|it| (group_name(&it.name), it.ports.iter().copied().collect()));
        ports.chain(groups)
    });
    each.collect()
}
