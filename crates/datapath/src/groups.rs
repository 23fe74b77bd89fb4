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

use alloc::collections::BTreeMap;
use alloc::collections::btree_map::Entry;

use lossless::{PortId, PortSet};
use units::{Instant, Mac, Span};
use wire::ip::Version;
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
    /// Where a router asks: of which VLAN, and of IPv6's groups or IPv4's.
    asked: BTreeMap<(u16, bool), Asked>,
}

/// A router that asks.
#[derive(Clone, Copy, Debug)]
struct Asked {
    /// Since when, without a long pause.
    since: Instant,
    /// When it last did.
    last: Instant,
}

/// The members of one group.
#[derive(Debug)]
struct Group {
    /// The machines behind each port, and for which sources they are in it. No port has none.
    members: BTreeMap<PortId, BTreeMap<Mac, Sources>>,
    /// When one of them last said that it is a member.
    said: Instant,
}

/// For which sources a machine is in a group.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Sources {
    /// For all, or all but some.
    All,
    Some,
}

impl Groups {
    pub(crate) fn is_empty(&self) -> bool {
        self.groups.is_empty()
    }

    /// Whether a group has members in a VLAN.
    pub(crate) fn has_members(&self, group: Mac, vlan: u16) -> bool {
        self.groups.contains_key(&Address::new(group, vlan))
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
        match told {
            Told::Query(version) => {
                let asked = self.asked.entry((vlan, version == Version::V6));
                let asked = asked.or_insert(Asked { since: now, last: now });
                if !asked.goes_on(now) {
                    asked.since = now;
                }
                asked.last = now;
            }
            Told::Joins(group) => self.join(now, group, vlan, (port, machine), Sources::All, most),
            Told::Includes(group) => {
                self.join(now, group, vlan, (port, machine), Sources::Some, most);
            }
            Told::Allows(group) => {
                let sources = self.sources(group, vlan, (port, machine)).unwrap_or(Sources::Some);
                self.join(now, group, vlan, (port, machine), sources, most);
            }
            // Of who is in a group but for some sources, it is one more of these.
            Told::Blocks(group) => {
                if self.sources(group, vlan, (port, machine)) == Some(Sources::Some) {
                    self.leave(group, vlan, (port, machine));
                }
            }
            Told::Leaves(group) => self.leave(group, vlan, (port, machine)),
        }
    }

    /// For which sources a machine is in a group, if it is.
    fn sources(&self, group: Mac, vlan: u16, (port, machine): (PortId, Mac)) -> Option<Sources> {
        self.groups.get(&Address::new(group, vlan))?.members.get(&port)?.get(&machine).copied()
    }

    fn join(
        &mut self,
        now: Instant,
        group: Mac,
        vlan: u16,
        (port, machine): (PortId, Mac),
        sources: Sources,
        most: u32,
    ) {
        let is_member = self.sources(group, vlan, (port, machine)).is_some();
        let count = self.counts.get(&port).copied().unwrap_or(0);
        if !is_member && count >= most {
            return;
        }
        let group = self.groups.entry(Address::new(group, vlan));
        let group = group.or_insert(Group { members: BTreeMap::new(), said: now });
        group.said = now;
        group.members.entry(port).or_default().insert(machine, sources);
        if !is_member {
            self.counts.insert(port, count + 1);
        }
    }

    fn leave(&mut self, group: Mac, vlan: u16, (port, machine): (PortId, Mac)) {
        let Entry::Occupied(mut group) = self.groups.entry(Address::new(group, vlan)) else {
            return;
        };
        let members = &mut group.get_mut().members;
        let Entry::Occupied(mut behind) = members.entry(port) else { return };
        if behind.get_mut().remove(&machine).is_none() {
            return;
        }
        if behind.get().is_empty() {
            behind.remove();
        }
        if members.is_empty() {
            group.remove();
        }
        count_off(&mut self.counts, port, 1);
    }

    /// Of the machines behind a port, those of which `stays` says no are in no group any more.
    pub(crate) fn retain_machines(&mut self, port: PortId, stays: impl Fn(Mac) -> bool) {
        let Self { groups, counts, .. } = self;
        groups.retain(|_, group| {
            if let Some(behind) = group.members.get_mut(&port) {
                let before = behind.len();
                behind.retain(|machine, _| stays(*machine));
                count_off(counts, port, (before - behind.len()) as u32);
                if behind.is_empty() {
                    group.members.remove(&port);
                }
            }
            !group.members.is_empty()
        });
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
        let Self { groups, counts, asked } = self;
        asked.retain(|_, asked| asked.goes_on(now));
        groups.retain(|address, group| {
            let is_v6 = address.mac().0[..2] == [0x33, 0x33];
            // Nobody need have answered before the router began.
            let stays = asked
                .get(&(address.vlan(), is_v6))
                .is_none_or(|asked| now.since(group.said.max(asked.since)) < ANSWER_HOLDS);
            if !stays {
                let gone = group.members.iter();
                gone.for_each(|(port, behind)| count_off(counts, *port, behind.len() as u32));
            }
            stays
        });
    }
}

impl Asked {
    /// Whether it is to be expected that the router asks again.
    fn goes_on(&self, now: Instant) -> bool {
        now.since(self.last) < ROUTER_ASKS
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
        asks(&mut groups, later, 7, Version::V4);
        groups.hear(later, at(1), 7, Told::Joins(GROUP), 9);
        groups.sweep(later + Span::from_secs(20));
        assert_eq!((members(&groups).len(), groups.groups.len()), (2, 2), "it has just begun");
        for seconds in [125, 250] {
            let now = later + Span::from_secs(seconds);
            asks(&mut groups, now, 7, Version::V4);
            groups.hear(now, at(1), 7, Told::Joins(GROUP), 9);
        }
        groups.sweep(later + Span::from_secs(260));
        assert_eq!(members(&groups), [1, 2], "the second kept quiet, as the first had answered");
        assert!(groups.members(OTHER, 7).is_empty());
        assert_eq!([1, 2].map(|number| groups.counts[&port(number)]), [1, 1]);
    }

    fn asks(groups: &mut Groups, now: Instant, vlan: u16, version: Version) {
        groups.hear(now, at(5), vlan, Told::Query(version), 9);
    }

    #[test]
    fn a_router_asks_of_one_vlan_and_one_protocol() {
        const V6: Mac = Mac([0x33, 0x33, 0, 1, 2, 3]);
        let mut groups = Groups::default();
        for (group, vlan) in [(GROUP, 7), (GROUP, 8), (V6, 7)] {
            groups.hear(NOW, at(1), vlan, Told::Joins(group), 9);
        }
        let sweep = |groups: &mut Groups, seconds| {
            groups.sweep(NOW + Span::from_secs(seconds));
            [(GROUP, 7), (GROUP, 8), (V6, 7)].map(|(group, vlan)| groups.has_members(group, vlan))
        };
        for seconds in [1000, 1125, 1250] {
            asks(&mut groups, NOW + Span::from_secs(seconds), 7, Version::V4);
            assert_eq!(sweep(&mut groups, seconds), [true; 3], "they were never asked before");
        }
        assert_eq!(sweep(&mut groups, 1260), [false, true, true]);
        // A router that comes back begins anew.
        groups.hear(NOW + Span::from_secs(1260), at(1), 7, Told::Joins(GROUP), 9);
        asks(&mut groups, NOW + Span::from_secs(5000), 7, Version::V4);
        assert_eq!(sweep(&mut groups, 5200), [true; 3]);
    }

    #[test]
    fn who_is_in_a_group_for_some_sources_leaves_by_blocking_them() {
        let mut groups = Groups::default();
        let hear = |groups: &mut Groups, told: fn(Mac) -> Told| {
            groups.hear(NOW, at(1), 7, told(GROUP), 9);
            groups.has_members(GROUP, 7)
        };
        for told in [Told::Allows, Told::Includes] {
            assert!(hear(&mut groups, told) && hear(&mut groups, Told::Allows));
            assert!(!hear(&mut groups, Told::Blocks));
        }
        assert!(groups.is_empty() && groups.counts.is_empty());
        // Of who is in it but for some sources, these are just more, or fewer.
        assert!(hear(&mut groups, Told::Joins) && hear(&mut groups, Told::Allows));
        assert!(hear(&mut groups, Told::Blocks));
        assert!(!hear(&mut groups, Told::Leaves));
    }

    #[test]
    fn who_is_gone_from_behind_a_port_is_in_no_group() {
        let mut groups = Groups::default();
        for machine in [8, 9] {
            for group in [GROUP, OTHER] {
                groups.hear(NOW, (port(1), Mac::local(machine)), 7, Told::Joins(group), 9);
            }
        }
        groups.hear(NOW, at(2), 7, Told::Joins(OTHER), 9);
        groups.retain_machines(port(1), |mac| mac == Mac::local(8));
        assert_eq!((members(&groups), groups.counts[&port(1)]), (alloc::vec![1], 2));
        groups.retain_machines(port(1), |_| false);
        assert_eq!((groups.groups.len(), groups.counts.len()), (1, 1), "another's remains");
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
