//! Who is in which multicast group of one network, as it has said itself (RFC 4541).
//!
//! A group's frames go to everybody in its network all the same: there may be members that said so
//! before anybody listened, and a switch that filtered would cut them off for as long as no router
//! asks. But who has said that it is in a group is a receiver like any other, for which its sender
//! waits; the others are bystanders.
//!
//! Machines are told apart by their Ethernet addresses, as there are many behind one port: one that
//! leaves, or says so of itself, speaks for no other.
//!
//! Hosts say when they leave, their kernels even of programs that were killed, and a port that goes
//! takes its memberships along. So what was said holds until then; but where a router asks, a group
//! of which nobody answers for as long as it may take has no members any more (RFC 3376 §8.4).
//! Of one that answers all stay: before IGMPv3 and MLDv2, who hears another's answer gives none
//! (RFC 2236 §3).

use alloc::collections::btree_map::Entry;
use alloc::collections::{BTreeMap, BTreeSet};

use lossless::{PortId, PortSet};
use units::{Instant, Mac, Span};
use wire::membership::Told;

use crate::address::Address;

/// How long a router may take to ask again: two queries may be lost (RFC 3376 §8.5).
const ROUTER_ASKS: Span = Span::from_secs(255);

/// How long an answer holds, where a router asks (RFC 3376 §8.4).
const ANSWER_HOLDS: Span = Span::from_secs(260);

/// The groups of one network.
#[derive(Debug, Default)]
pub(crate) struct Groups {
    /// By the Ethernet address of the group and its VLAN. None is empty.
    groups: BTreeMap<Address, Group>,
    /// How many memberships there are behind each port; no port has none.
    counts: BTreeMap<PortId, u32>,
    /// When a router last asked.
    asked_at: Option<Instant>,
}

/// The members of one group.
#[derive(Debug)]
struct Group {
    /// The machines behind each port. No port has none.
    members: BTreeMap<PortId, BTreeSet<Mac>>,
    /// When one of them last said that it is a member.
    said: Instant,
}

impl Groups {
    pub(crate) fn is_empty(&self) -> bool {
        self.groups.is_empty()
    }

    /// The ports behind which a group has members in a VLAN.
    pub(crate) fn members(&self, group: Mac, vlan: u16) -> PortSet {
        let mut set = PortSet::default();
        if let Some(group) = self.groups.get(&Address::new(group, vlan)) {
            group.members.keys().for_each(|port| set.insert(*port));
        }
        set
    }

    /// The machine of this Ethernet address, behind a port, has told of groups in a VLAN. There may
    /// be `most` memberships behind a port.
    pub(crate) fn hear(
        &mut self,
        now: Instant,
        (port, machine): (PortId, Mac),
        vlan: u16,
        told: Told,
        most: u32,
    ) {
        let Self { groups, counts, asked_at } = self;
        match told {
            Told::Query => *asked_at = Some(now),
            Told::Joins(group) => {
                let address = Address::new(group, vlan);
                let count = counts.get(&port).copied().unwrap_or(0);
                let known = groups.get_mut(&address);
                let members = known.as_ref().and_then(|group| group.members.get(&port));
                let is_member = members.is_some_and(|members| members.contains(&machine));
                if !is_member && count >= most {
                    return;
                }
                let group = match known {
                    Some(group) => group,
                    None => groups
                        .entry(address)
                        .or_insert(Group { members: BTreeMap::new(), said: now }),
                };
                group.said = now;
                if !is_member {
                    group.members.entry(port).or_default().insert(machine);
                    counts.insert(port, count + 1);
                }
            }
            Told::Leaves(group) => {
                let Entry::Occupied(mut group) = groups.entry(Address::new(group, vlan)) else {
                    return;
                };
                let members = &mut group.get_mut().members;
                let Entry::Occupied(mut behind) = members.entry(port) else { return };
                if !behind.get_mut().remove(&machine) {
                    return;
                }
                if behind.get().is_empty() {
                    behind.remove();
                }
                if members.is_empty() {
                    group.remove();
                }
                count_off(counts, port, 1);
            }
        }
    }

    /// A port is in no group any more.
    pub(crate) fn forget(&mut self, port: PortId) {
        self.groups.retain(|_, group| {
            group.members.remove(&port);
            !group.members.is_empty()
        });
        self.counts.remove(&port);
    }

    /// Forgets groups of which nobody has answered, where a router asks.
    pub(crate) fn sweep(&mut self, now: Instant) {
        let Self { groups, counts, asked_at } = self;
        if asked_at.is_none_or(|asked_at| now.since(asked_at) >= ROUTER_ASKS) {
            return;
        }
        groups.retain(|_, group| {
            let stays = now.since(group.said) < ANSWER_HOLDS;
            if !stays {
                let gone = group.members.iter();
                gone.for_each(|(port, behind)| count_off(counts, *port, behind.len() as u32));
            }
            stays
        });
    }
}

/// So many memberships behind a port are over.
fn count_off(counts: &mut BTreeMap<PortId, u32>, port: PortId, memberships: u32) {
    if let Entry::Occupied(mut count) = counts.entry(port) {
        *count.get_mut() -= memberships;
        if *count.get() == 0 {
            count.remove();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Instant = Instant::ZERO;
    const GROUP: Mac = Mac([0x01, 0, 0x5e, 1, 2, 3]);
    const OTHER: Mac = Mac([0x01, 0, 0x5e, 1, 2, 4]);

    fn port(number: u16) -> PortId {
        PortId::new(number).unwrap()
    }

    /// The only machine behind a port.
    fn at(number: u16) -> (PortId, Mac) {
        (port(number), Mac::local(number.into()))
    }

    fn members(groups: &Groups) -> alloc::vec::Vec<usize> {
        groups.members(GROUP, 7).iter().map(PortId::index).collect()
    }

    #[test]
    fn who_joins_is_a_member_until_it_leaves_or_goes() {
        let mut groups = Groups::default();
        for number in [1, 2, 3] {
            groups.hear(NOW, at(number), 7, Told::Joins(GROUP), 9);
        }
        assert_eq!(members(&groups), [1, 2, 3]);
        assert!(groups.members(GROUP, 0).is_empty(), "another VLAN");
        groups.hear(NOW, at(2), 7, Told::Leaves(GROUP), 9);
        groups.forget(port(3));
        groups.sweep(NOW + Span::from_secs(100_000));
        assert_eq!(members(&groups), [1], "nobody asks, so nobody need answer");
        groups.hear(NOW, at(1), 7, Told::Leaves(GROUP), 9);
        assert!(groups.is_empty() && groups.counts.is_empty());
    }

    #[test]
    fn nobody_leaves_for_another_behind_its_port() {
        let mut groups = Groups::default();
        let [first, second] = [8, 9].map(|machine| (port(1), Mac::local(machine)));
        for machine in [first, second, first] {
            groups.hear(NOW, machine, 7, Told::Joins(GROUP), 9);
        }
        for _ in 0..2 {
            groups.hear(NOW, first, 7, Told::Leaves(GROUP), 9);
            assert_eq!((members(&groups), groups.counts[&port(1)]), (alloc::vec![1], 1));
        }
        groups.hear(NOW, second, 7, Told::Leaves(GROUP), 9);
        assert!(groups.is_empty() && groups.counts.is_empty());
    }

    #[test]
    fn where_a_router_asks_a_group_of_which_nobody_answers_is_forgotten() {
        let mut groups = Groups::default();
        for number in [1, 2] {
            groups.hear(NOW, at(number), 7, Told::Joins(GROUP), 9);
            groups.hear(NOW, at(number), 7, Told::Joins(OTHER), 9);
        }
        let later = NOW + Span::from_secs(250);
        groups.hear(later, at(5), 7, Told::Query, 9);
        groups.hear(later, at(1), 7, Told::Joins(GROUP), 9);
        groups.sweep(later);
        assert_eq!((members(&groups).len(), groups.groups.len()), (2, 2));
        groups.sweep(later + Span::from_secs(20));
        assert_eq!(members(&groups), [1, 2], "the second kept quiet, as the first had answered");
        assert!(groups.members(OTHER, 7).is_empty());
        assert_eq!([1, 2].map(|number| groups.counts[&port(number)]), [1, 1]);
    }

    #[test]
    fn there_are_so_many_memberships_behind_a_port_and_no_more() {
        let mut groups = Groups::default();
        for last in 0..20 {
            let group = Mac([0x01, 0, 0x5e, 1, 2, last]);
            // One machine that is in many groups, or many that are in one.
            groups.hear(NOW, at(1), 0, Told::Joins(group), 3);
            groups.hear(NOW, (port(2), Mac::local(last.into())), 0, Told::Joins(GROUP), 3);
            groups.hear(NOW, at(3), 0, Told::Joins(group), 30);
        }
        assert_eq!([1, 2, 3].map(|number| groups.counts[&port(number)]), [3, 3, 20]);
        groups.forget(port(3));
        assert_eq!((groups.groups.len(), groups.counts.len()), (4, 2));
        // Who is a member may say so again.
        groups.hear(NOW + Span::from_secs(1), at(1), 0, Told::Joins(Mac([1, 0, 0x5e, 1, 2, 0])), 3);
        assert_eq!(groups.counts[&port(1)], 3);
    }
}
