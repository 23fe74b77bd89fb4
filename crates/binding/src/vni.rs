//! Numbers of tenants' networks on hosts that no controller gives any: each host works them out of
//! their names, and all come to the same.

use logical::objects::Name;
use units::hash::{fnv1a_64, splitmix64};

/// How many tenants' networks can be told apart in tunnels: the upper half of VNIs.
const VNIS: u64 = 1 << 23;

/// The number of what is a tenant's among a host's networks: 2^23 to 2^24 - 1. Networks that are
/// declared beside have the others. Frames of logical networks do not carry it: their labels
/// ([`logical::label`]) say whose they are.
pub fn vni(tenant: &Name) -> u32 {
    (VNIS + splitmix64(fnv1a_64(tenant.as_str().as_bytes())) % VNIS) as u32
}

#[cfg(test)]
mod tests {
    use alloc::collections::BTreeSet;
    use alloc::format;

    use super::*;

    /// Other hosts, and other versions, work out the same.
    #[test]
    fn numbers_stay_what_they_are() {
        assert_eq!(vni(&"shop".parse().unwrap()), 14_009_702);
    }

    #[test]
    fn numbers_are_in_their_range_and_seldom_the_same() {
        let vnis: BTreeSet<u32> =
            (0..500).map(|number| vni(&format!("t{number}").parse().unwrap())).collect();
        assert!(vnis.iter().all(|vni| (1 << 23..1 << 24).contains(vni)));
        assert_eq!(vnis.len(), 500);
    }
}
