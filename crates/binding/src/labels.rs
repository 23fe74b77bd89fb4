//! Numbers of ports and tenants on hosts that no controller gives any: each host works them out of
//! their names, and all come to the same.
//!
//! Two names may have one number. Of a thousand ports that is so once in 4,000 times, and then it
//! is an error that tells which: [`SameLabel`](crate::SameLabel).

use alloc::string::ToString;

use logical::objects::{Identity, Name};
use units::hash::{fnv1a_64, splitmix64};

/// How many labels there are: those of flooded frames have another bit.
const LABELS: u64 = (1 << 31) - 1;

/// How many tenants' networks can be told apart in tunnels: the upper half of VNIs.
const VNIS: u64 = 1 << 23;

/// A port's label: 1 to 2^31 - 1.
pub fn label(port: &Identity) -> u32 {
    1 + (number(&port.to_string()) % LABELS) as u32
}

/// The number of what is a tenant's among a host's networks: 2^23 to 2^24 - 1. Networks that are
/// declared beside have the others. Frames of logical networks do not carry it: their labels say
/// whose they are.
pub fn vni(tenant: &Name) -> u32 {
    (VNIS + number(tenant.as_str()) % VNIS) as u32
}

fn number(name: &str) -> u64 {
    splitmix64(fnv1a_64(name.as_bytes()))
}

#[cfg(test)]
mod tests {
    use alloc::collections::BTreeSet;
    use alloc::format;

    use super::*;
    use logical::objects::Kind;

    fn port(name: &str) -> Identity {
        let tenant = Some("shop".parse().unwrap());
        Identity { kind: Kind::LogicalPort, tenant, name: name.parse().unwrap() }
    }

    /// Other hosts, and other versions, work out the same.
    #[test]
    fn numbers_stay_what_they_are() {
        assert_eq!(label(&port("web-1")), 1_595_099_959);
        assert_eq!(vni(&"shop".parse().unwrap()), 14_009_702);
    }

    #[test]
    fn numbers_are_in_their_ranges_and_seldom_the_same() {
        let names = (0..2000).map(|number| format!("p{number}"));
        let labels: BTreeSet<u32> = names.map(|name| label(&port(&name))).collect();
        assert_eq!(labels.len(), 2000);
        assert!(labels.iter().all(|label| (1..1 << 31).contains(label)));
        let vnis: BTreeSet<u32> =
            (0..500).map(|number| vni(&format!("t{number}").parse().unwrap())).collect();
        assert!(vnis.iter().all(|vni| (1 << 23..1 << 24).contains(vni)));
        assert_eq!(vnis.len(), 500);
    }
}
