//! Who is in which multicast group of one network, as it has said itself (RFC 4541).
//!
//! A group's frames go to everybody in its network all the same: there may be members that said so
//! before anybody listened, and a switch that filtered would cut them off for as long as no router
//! asks. But who has said that it is in a group is a receiver like any other, for which its sender
//! waits; the others are bystanders.
//!
//! Hosts say when they leave, their kernels even of programs that were killed, and a port that goes
//! takes its memberships along. So what was said holds until then; but where a router asks, who
//! does not answer for as long as it may take is in the group no more (RFC 3376 §8.4).

use alloc::collections::BTreeMap;
use alloc::collections::btree_map::Entry;

use lossless::{PortId, PortSet};
use units::{Instant, Mac, Span};
use wire::membership::Told;

use crate::l2::Address;

/// How long a router may take to ask again: two queries may be lost (RFC 3376 §8.5).
const ROUTER_ASKS: Span = Span::from_secs(255);

/// How long an answer holds, where a router asks (RFC 3376 §8.4).
const ANSWER_HOLDS: Span = Span::from_secs(260);

/// The groups of one network.
#[derive(Debug, Default)]
pub(crate) struct Groups {
    /// By the Ethernet address of the group: its members, and when each said so last. None is
    /// empty.
    members: BTreeMap<Address, BTreeMap<PortId, Instant>>,
    /// In how many of them each port is; no port is in none.
    counts: BTreeMap<PortId, u32>,
    /// When a router last asked.
    asked_at: Option<Instant>,
}

impl Groups {
    pub(crate) fn is_empty(&self) -> bool {
        self.members.is_empty()
    }

    /// The members of a group in a VLAN.
    pub(crate) fn members(&self, group: Mac, vlan: u16) -> PortSet {
        let mut set = PortSet::default();
        let members = self.members.get(&Address::new(group, vlan));
        members.into_iter().flat_map(BTreeMap::keys).for_each(|port| set.insert(*port));
        set
    }

    /// Somebody behind a port has told of groups in a VLAN. A port may be in `most` groups.
    pub(crate) fn hear(&mut self, now: Instant, port: PortId, vlan: u16, told: Told, most: u32) {
        match told {
            Told::Query => self.asked_at = Some(now),
            Told::Joins(group) => {
                let address = Address::new(group, vlan);
                let known = self.members.get_mut(&address).and_then(|it| it.get_mut(&port));
                if let Some(said) = known {
                    *said = now;
                    return;
                }
                let count = self.counts.entry(port).or_default();
                if *count < most {
                    *count += 1;
                    self.members.entry(address).or_default().insert(port, now);
                }
            }
            Told::Leaves(group) => {
                let Entry::Occupied(mut group) = self.members.entry(Address::new(group, vlan))
                else {
                    return;
                };
                if group.get_mut().remove(&port).is_some() {
                    leave(&mut self.counts, port);
                }
                if group.get().is_empty() {
                    group.remove();
                }
            }
        }
    }

    /// A port is in no group any more.
    pub(crate) fn forget(&mut self, port: PortId) {
        self.retain(|member, _| member != port);
    }

    /// Forgets who has not answered, where a router asks.
    pub(crate) fn sweep(&mut self, now: Instant) {
        if self.asked_at.is_some_and(|asked_at| now.since(asked_at) < ROUTER_ASKS) {
            self.retain(|_, said| now.since(said) < ANSWER_HOLDS);
        }
    }

    fn retain(&mut self, stays: impl Fn(PortId, Instant) -> bool) {
        let Self { members, counts, .. } = self;
        members.retain(|_, members| {
            members.retain(|port, said| {
                let stays = stays(*port, *said);
                if !stays {
                    leave(counts, *port);
                }
                stays
            });
            !members.is_empty()
        });
    }
}

/// A port is in one group less.
fn leave(counts: &mut BTreeMap<PortId, u32>, port: PortId) {
    if let Entry::Occupied(mut count) = counts.entry(port) {
        *count.get_mut() -= 1;
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

    fn port(number: u16) -> PortId {
        PortId::new(number).unwrap()
    }

    fn members(groups: &Groups) -> alloc::vec::Vec<usize> {
        groups.members(GROUP, 7).iter().map(PortId::index).collect()
    }

    #[test]
    fn who_joins_is_a_member_until_it_leaves_or_goes() {
        let mut groups = Groups::default();
        for number in [1, 2, 3] {
            groups.hear(NOW, port(number), 7, Told::Joins(GROUP), 9);
        }
        assert_eq!(members(&groups), [1, 2, 3]);
        assert!(groups.members(GROUP, 0).is_empty(), "another VLAN");
        groups.hear(NOW, port(2), 7, Told::Leaves(GROUP), 9);
        groups.forget(port(3));
        groups.sweep(NOW + Span::from_secs(100_000));
        assert_eq!(members(&groups), [1], "nobody asks, so nobody need answer");
        groups.hear(NOW, port(1), 7, Told::Leaves(GROUP), 9);
        assert!(groups.is_empty());
    }

    #[test]
    fn where_a_router_asks_who_does_not_answer_is_forgotten() {
        let mut groups = Groups::default();
        for number in [1, 2] {
            groups.hear(NOW, port(number), 7, Told::Joins(GROUP), 9);
        }
        let later = NOW + Span::from_secs(250);
        groups.hear(later, port(5), 7, Told::Query, 9);
        groups.hear(later, port(1), 7, Told::Joins(GROUP), 9);
        groups.sweep(later);
        assert_eq!(members(&groups), [1, 2]);
        groups.sweep(later + Span::from_secs(20));
        assert_eq!(members(&groups), [1]);
    }

    #[test]
    fn a_port_is_in_so_many_groups_and_no_more() {
        let mut groups = Groups::default();
        for last in 0..20 {
            let group = Mac([0x01, 0, 0x5e, 1, 2, last]);
            groups.hear(NOW, port(1), 0, Told::Joins(group), 3);
            groups.hear(NOW, port(2), 0, Told::Joins(group), 30);
        }
        assert_eq!([1, 2].map(|number| groups.counts[&port(number)]), [3, 20]);
        groups.forget(port(2));
        assert_eq!((groups.members.len(), groups.counts.len()), (3, 1));
    }
}
