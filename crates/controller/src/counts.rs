//! How many there are of what objects have: ports, members, what a quota counts.
//!
//! They are kept as objects change, so that whoever reads an object has them at once.

use std::collections::BTreeMap;

use logical::objects::{Identity, Kind, Object, Quota};

use crate::objects::meant;

/// What an object has more of, or less: the number is added.
pub type Counted = BTreeMap<(Identity, &'static str), isize>;

/// Ports of a switch, or what a tenant's quota counts of them.
pub const PORTS: &str = "ports";
/// Ports in a group.
pub const MEMBERS: &str = "members";
/// Addresses of a set, as they are listed.
pub const SIZE: &str = "size";
/// One of each TransportNode.
pub const NODES: &str = "nodes";

/// The numbers; what is not there is none.
#[derive(Debug, Default, Eq, PartialEq)]
pub struct Counts(BTreeMap<(Identity, &'static str), usize>);

impl Counts {
    /// Has what has changed count.
    ///
    /// # Panics
    ///
    /// If less than nothing is left, which who counts has to see to.
    pub fn advance(&mut self, counted: Counted) {
        for (of, by) in counted {
            let number = self.0.get(&of).copied().unwrap_or_default();
            let number = number.checked_add_signed(by);
            let number = number.unwrap_or_else(|| panic!("{} has less {} than none", of.0, of.1));
            match number {
                0 => self.0.remove(&of),
                _ => self.0.insert(of, number),
            };
        }
    }

    /// How many of something an object has.
    pub fn get(&self, id: &Identity, what: &'static str) -> usize {
        self.0.get(&(id.clone(), what)).copied().unwrap_or_default()
    }
}

/// Counts what an object in the place of another changes.
pub fn count(counted: &mut Counted, before: Option<&Object>, after: Option<&Object>) {
    for (object, by) in before.map(|it| (it, -1)).into_iter().chain(after.map(|it| (it, 1))) {
        let mut add = |id, what, many: usize| {
            *counted.entry((id, what)).or_default() += by * many as isize;
        };
        let id = object.identity();
        if let Some(name) = &id.tenant
            && let Some((many, _, what)) = Quota::default().counts(object)
        {
            let tenant = Identity { kind: Kind::Tenant, tenant: None, name: name.clone() };
            add(tenant, what, many);
        }
        match object {
            Object::LogicalPort(it) => {
                add(meant(Kind::LogicalSwitch, id.tenant.as_ref(), &it.spec.switch), PORTS, 1);
            }
            Object::AddressSet(it) => add(id, SIZE, it.spec.addresses.len()),
            Object::TransportNode(_) => add(id, NODES, 1),
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_goes_is_counted_no_more() {
        let text = "
- {kind: LogicalPort, metadata: {name: p, tenant: t}, spec: {switch: u/s, vif: {}}}
- {kind: LogicalPort, metadata: {name: p, tenant: t}, spec: {switch: s, vif: {}}}
- {kind: AddressSet, metadata: {name: a, tenant: t}, spec: {addresses: [10.0.0.1, 10.0.1.0/24]}}
- {kind: AddressSet, metadata: {name: a}, spec: {addresses: [10.0.0.1]}}
";
        let [port, moved, set, operators]: [Object; 4] =
            logical::read(text).objects.try_into().unwrap();
        let mut counts = Counts::default();
        let mut step = |before: Option<&Object>, after: Option<&Object>| {
            let mut counted = Counted::new();
            count(&mut counted, before, after);
            counts.advance(counted);
            let of = |id: &str, what| counts.get(&id.parse().unwrap(), what);
            (
                [of("LogicalSwitch/u/s", PORTS), of("LogicalSwitch/t/s", PORTS)],
                [of("Tenant/t", PORTS), of("Tenant/t", "setMembers")],
                [of("AddressSet/t/a", SIZE), of("AddressSet/a", SIZE)],
            )
        };
        assert_eq!(step(None, Some(&port)), ([1, 0], [1, 0], [0, 0]));
        assert_eq!(step(Some(&port), Some(&moved)), ([0, 1], [1, 0], [0, 0]));
        assert_eq!(step(None, Some(&set)), ([0, 1], [1, 2], [2, 0]));
        assert_eq!(step(None, Some(&operators)), ([0, 1], [1, 2], [2, 1]));
        assert_eq!(step(Some(&set), None), ([0, 1], [1, 0], [0, 1]));
        assert_eq!(step(Some(&moved), Some(&moved)), ([0, 1], [1, 0], [0, 1]));
        step(Some(&moved), None);
        step(Some(&operators), None);
        assert_eq!(counts, Counts::default(), "nothing is kept of what is gone");
    }
}
