//! Who the members of groups are.

use alloc::collections::{BTreeMap, BTreeSet};
use core::net::IpAddr;

use image::{Domain, Group};
use logical::objects::Identity;

/// Who members of a group are.
#[derive(Clone, Debug, Default)]
pub struct Members {
    pub ports: BTreeSet<Identity>,
    pub addresses: BTreeSet<IpAddr>,
}

/// The groups of a part.
pub fn members(part: &Domain) -> BTreeMap<&Group, Members> {
    let mut all: BTreeMap<&Group, Members> = BTreeMap::new();
    for ((group, port), addresses) in &part.members {
        let members = all.entry(group).or_default();
        members.ports.insert(port.clone());
        members.addresses.extend(addresses);
    }
    all
}
