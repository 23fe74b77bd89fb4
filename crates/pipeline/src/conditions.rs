//! What rules ask about, as sets, and the classes of those that are in them.
//!
//! ```text
//! group ─▶ a set of ports and of their addresses          ┐
//! address set, prefixes, exceptions ─▶ a set of addresses │ each has a number, and no two share one
//! service ─▶ a set of protocols and ports                 │
//! Ethernet address ─▶ a set of its own                    ┘
//! ```
//!
//! Rules name sets by their numbers. A packet's ends, service and Ethernet addresses are turned
//! into the classes of sets that they are in, once, whatever the number of rules.

use alloc::borrow::Cow;
use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use core::net::IpAddr;

use classifier::class::{Class, ClassId, SetId};
use classifier::classes::{Classes, Member};
use classifier::decisions::{self, End};
use classifier::intervals::{Form, Services, icmp};
use classifier::table::HashKey;
use image::{Condition, Domain, Group};
use logical::objects::{AddressRange, Identity, PortRange};
use logical::topology::Service;
use packet::Tuple;
use units::Mac;
use wire::ip::protocol;

/// A service's fields in an order.
type ServiceKey = (u8, Vec<PortRange>, Vec<PortRange>, Option<u8>, Option<u8>);

/// The sets that a part's conditions speak of.
#[derive(Clone, Debug)]
pub struct Conditions {
    classes: Classes,
    /// How many sets have a number.
    sets: u32,
    groups: BTreeMap<Group, SetId>,
    named: BTreeMap<Identity, SetId>,
    ranges: BTreeMap<Vec<AddressRange>, SetId>,
    services: BTreeMap<ServiceKey, SetId>,
    /// The services that messages of ICMP are of whose type nobody can read.
    typeless: BTreeMap<u8, Vec<SetId>>,
    forms: Vec<(SetId, Form)>,
    lines: Services,
    macs: BTreeMap<Mac, (SetId, ClassId)>,
    /// The classes of the groups that ports are in.
    ports: BTreeMap<Identity, ClassId>,
}

fn lines(forms: Vec<(SetId, Form)>) -> Services {
    // It is never asked to remember anything, so there is nothing to hash.
    Services::new(forms, 0, HashKey([0; 2]))
}

const fn is_icmp(number: u8) -> bool {
    matches!(number, protocol::ICMP | protocol::ICMPV6)
}

impl Conditions {
    /// The groups and sets of a part, and no condition yet.
    pub fn new(part: &Domain) -> Self {
        let mut made = Self {
            classes: Classes::default(),
            sets: 0,
            groups: BTreeMap::new(),
            named: BTreeMap::new(),
            ranges: BTreeMap::new(),
            services: BTreeMap::new(),
            typeless: BTreeMap::new(),
            forms: Vec::new(),
            lines: lines(Vec::new()),
            macs: BTreeMap::new(),
            ports: BTreeMap::new(),
        };
        let mut of_ports: BTreeMap<&Identity, Vec<SetId>> = BTreeMap::new();
        for ((group, port), addresses) in &part.members {
            let set = match made.groups.get(group) {
                Some(set) => *set,
                None => {
                    let set = made.number();
                    made.groups.insert(group.clone(), set);
                    set
                }
            };
            of_ports.entry(port).or_default().push(set);
            addresses.iter().for_each(|it| made.include(set, *it, *it));
        }
        for (port, sets) in of_ports {
            let class = made.classes.hold(&sets);
            made.ports.insert(port.clone(), class);
        }
        for (name, range) in part.addresses.keys() {
            let set = match made.named.get(name) {
                Some(set) => *set,
                None => {
                    let set = made.number();
                    made.named.insert(name.clone(), set);
                    set
                }
            };
            made.include(set, range.first(), range.last());
        }
        made
    }

    fn number(&mut self) -> SetId {
        self.sets += 1;
        SetId(self.sets - 1)
    }

    fn include(&mut self, set: SetId, first: IpAddr, last: IpAddr) {
        if let Some(member) = Member::new(first, last) {
            self.classes.add(set, member, |_| {});
        }
    }

    /// A port is a member of a group by other addresses than before, comes to it (`before`: `None`)
    /// or leaves it (`now`: `None`). Returns the class of the groups that it is in then; `None` if
    /// the group had no member yet: nobody asks about it.
    pub fn change_member(
        &mut self,
        (group, port): &(Group, Identity),
        before: Option<&[IpAddr]>,
        now: Option<&[IpAddr]>,
    ) -> Option<ClassId> {
        let set = *self.groups.get(group)?;
        for member in before.into_iter().flatten().filter_map(|it| Member::new(*it, *it)) {
            self.classes.remove(set, member, |_| {});
        }
        now.into_iter().flatten().for_each(|it| self.include(set, *it, *it));
        let old = self.groups_of(port);
        if before.is_some() == now.is_some() {
            return Some(old);
        }
        let sets = self.classes.class(old).sets.iter().copied().filter(|it| *it != set);
        let sets: Vec<_> = sets.chain(now.map(|_| set)).collect();
        let class = self.classes.hold(&sets);
        self.classes.release(old);
        match class {
            ClassId::NONE => self.ports.remove(port),
            _ => self.ports.insert(port.clone(), class),
        };
        Some(class)
    }

    /// The class of the groups that a port is in.
    pub fn groups_of(&self, port: &Identity) -> ClassId {
        self.ports.get(port).copied().unwrap_or(ClassId::NONE)
    }

    /// A rule, as it is looked for. Nothing is to be asked before all rules are
    /// [there](Self::finish).
    pub fn rule(&mut self, it: &image::Rule) -> decisions::Rule {
        let names_kind = |it: &Condition| it.ethertype.is_some() || !it.services.is_empty();
        decisions::Rule {
            conditions: it.conditions.iter().map(|it| self.condition(it)).collect(),
            passes: it.verdict == logical::topology::Verdict::Pass,
            names_control: it.conditions.iter().any(names_kind),
        }
    }

    /// A condition alone, as it is looked for.
    pub fn alone(&mut self, it: &Condition) -> decisions::Rule {
        let conditions = Vec::from([self.condition(it)]);
        decisions::Rule { conditions, passes: false, names_control: true }
    }

    fn condition(&mut self, it: &Condition) -> decisions::Condition {
        decisions::Condition {
            ethertype: it.ethertype.map(|it| it.0),
            source: it.source.as_ref().map(|it| self.peer(it)),
            destination: it.destination.as_ref().map(|it| self.peer(it)),
            source_macs: it.source_macs.iter().map(|it| self.set_of_mac(*it)).collect(),
            destination_macs: it.destination_macs.iter().map(|it| self.set_of_mac(*it)).collect(),
            services: it.services.iter().map(|it| self.set_of_service(it)).collect(),
        }
    }

    fn peer(&mut self, it: &image::Peer) -> decisions::Peer {
        let groups = it.groups.iter().filter_map(|it| self.groups.get(it).copied()).collect();
        let sets = it.sets.iter().filter_map(|it| self.named.get(it).copied());
        let mut sets: Vec<_> = sets.collect();
        sets.extend(self.set_of_ranges(&it.prefixes));
        let except = self.set_of_ranges(&it.except).into_iter().collect();
        decisions::Peer { groups, sets, except }
    }

    fn set_of_ranges(&mut self, ranges: &[AddressRange]) -> Option<SetId> {
        if ranges.is_empty() {
            return None;
        }
        if let Some(set) = self.ranges.get(ranges) {
            return Some(*set);
        }
        let set = self.number();
        self.ranges.insert(ranges.to_vec(), set);
        ranges.iter().for_each(|it| self.include(set, it.first(), it.last()));
        Some(set)
    }

    fn set_of_mac(&mut self, mac: Mac) -> SetId {
        if let Some((set, _)) = self.macs.get(&mac) {
            return *set;
        }
        let set = self.number();
        let class = self.classes.hold(&[set]);
        self.macs.insert(mac, (set, class));
        set
    }

    fn set_of_service(&mut self, it: &Service) -> SetId {
        let number = it.protocol.0;
        let key = (number, it.ports.clone(), it.source_ports.clone(), it.icmp_type, it.icmp_code);
        if let Some(set) = self.services.get(&key) {
            return *set;
        }
        let set = self.number();
        self.services.insert(key, set);
        let ranges =
            |ranges: &[PortRange]| ranges.iter().map(|it| (it.first, it.last)).collect::<Vec<_>>();
        let is_typed = it.icmp_type.is_some() || it.icmp_code.is_some();
        if is_icmp(number) {
            self.forms.push((set, Form::icmp(number, it.icmp_type, it.icmp_code)));
            if !is_typed {
                self.typeless.entry(number).or_default().push(set);
            }
        } else if !is_typed {
            let (destination, source) = (ranges(&it.ports), ranges(&it.source_ports));
            self.forms.push((set, Form { protocol: number, destination, source }));
        }
        set
    }

    /// All rules are there: now it may be asked.
    pub fn finish(&mut self) {
        self.lines = lines(core::mem::take(&mut self.forms));
    }

    /// Who is at an end of a packet: by the class of its port's groups if that is known, by its
    /// address otherwise.
    pub fn end(&self, address: Option<IpAddr>, groups: Option<ClassId>) -> End<'_> {
        let Some(address) = address else { return End::Nobody };
        let address = self.classes.class_of(address).class;
        match groups {
            Some(groups) => End::Port { groups: self.classes.class(groups), address },
            None => End::Address(address),
        }
    }

    /// The class of an Ethernet address.
    pub fn mac(&self, mac: Mac) -> Class<'_> {
        if self.macs.is_empty() {
            return Class::default();
        }
        self.macs.get(&mac).map_or(Class::default(), |(_, class)| self.classes.class(*class))
    }

    /// The services that a packet is of.
    pub fn services(&self, tuple: Option<Tuple>, message: Option<(u8, u8)>) -> Cow<'_, [SetId]> {
        let Some(Tuple { protocol, source, destination }) = tuple else {
            return Cow::Borrowed(&[]);
        };
        match message {
            Some((kind, code)) => self.lines.sets_of(protocol, 0, icmp(kind, code)).sets,
            // A later fragment, for one.
            None if is_icmp(protocol) => {
                Cow::Borrowed(self.typeless.get(&protocol).map_or(&[][..], |it| it))
            }
            None => self.lines.sets_of(protocol, source.1, destination.1).sets,
        }
    }
}

#[cfg(test)]
mod tests {
    use alloc::collections::BTreeSet;
    use alloc::format;

    use units::Rng;

    use super::*;

    /// The groups that each port is in, and each address.
    fn groups(conditions: &Conditions) -> [Vec<BTreeSet<&Group>>; 2] {
        let names = |sets: &[SetId]| {
            let all = conditions.groups.iter();
            all.filter(|(_, set)| sets.contains(set)).map(|(group, _)| group).collect()
        };
        let of_port = |it| conditions.classes.class(conditions.groups_of(&port(it))).sets;
        let of_address = |it| conditions.classes.class_of(address(it)).class.sets;
        [
            (0..8).map(|it| names(of_port(it))).collect(),
            (0..8).map(|it| names(of_address(it))).collect(),
        ]
    }

    fn port(number: u64) -> Identity {
        format!("LogicalPort/t/p{number}").parse().unwrap()
    }

    fn group(number: u64) -> Group {
        Group::Named(format!("PortGroup/t/g{number}").parse().unwrap())
    }

    fn address(number: u64) -> IpAddr {
        [10, 0, 0, number as u8].into()
    }

    #[test]
    fn members_that_change_are_as_if_they_had_been_there() {
        let mut rng = Rng::new(7);
        let mut part = Domain::default();
        (0..3).for_each(|it| drop(part.members.insert((group(it), port(it)), Vec::new())));
        let mut conditions = Conditions::new(&part);
        for _ in 0..2000 {
            let key = (group(rng.below(3)), port(rng.below(8)));
            let before = part.members.get(&key).cloned();
            // Two members may have one address, and one may have it twice.
            let now: Option<Vec<_>> = (rng.below(3) > 0)
                .then(|| (0..rng.below(3)).map(|_| address(rng.below(8))).collect());
            match &now {
                Some(addresses) => part.members.insert(key.clone(), addresses.clone()),
                None => part.members.remove(&key),
            };
            let class = conditions.change_member(&key, before.as_deref(), now.as_deref());
            assert_eq!(class, Some(conditions.groups_of(&key.1)));
            assert_eq!(groups(&conditions), groups(&Conditions::new(&part)));
        }
        let unknown = (group(3), port(0));
        assert_eq!(conditions.change_member(&unknown, None, Some(&[])), None);
    }
}
