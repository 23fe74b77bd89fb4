//! Labels: the numbers by which hosts mean ports in tunnels.
//!
//! A controller gives them, each once. Hosts that have none work them out of names, and all come to
//! the same. Two names may have one label then: of a thousand ports that is so once in 4,000 times,
//! and hosts refuse both.

use alloc::string::ToString;
use core::ops::RangeInclusive;

use units::hash::{fnv1a_64, splitmix64};

use crate::objects::{Identity, Kind};

/// All labels: those of flooded frames have another bit.
pub const LABELS: RangeInclusive<u32> = 1..=(1 << 31) - 1;

/// The label of a name on hosts that have no controller.
pub fn label(name: &Identity) -> u32 {
    1 + (splitmix64(fnv1a_64(name.to_string().as_bytes())) % u64::from(*LABELS.end())) as u32
}

/// Whether hosts may send to objects of a kind.
pub fn is_labelled(kind: Kind) -> bool {
    matches!(kind, Kind::LogicalPort | Kind::RouterPort | Kind::LoadBalancer)
}

#[cfg(test)]
mod tests {
    use alloc::collections::BTreeSet;
    use alloc::format;

    use super::*;

    fn port(name: &str) -> Identity {
        format!("LogicalPort/shop/{name}").parse().unwrap()
    }

    /// Other hosts, and other versions, work out the same.
    #[test]
    fn labels_stay_what_they_are() {
        assert_eq!(label(&port("web-1")), 1_595_099_959);
    }

    #[test]
    fn labels_are_in_their_range_and_seldom_the_same() {
        let labels = (0..2000).map(|number| label(&port(&format!("p{number}"))));
        let labels: BTreeSet<u32> = labels.collect();
        assert_eq!(labels.len(), 2000);
        assert!(labels.iter().all(|label| LABELS.contains(label)));
        assert_eq!(label(&port("p34417")), label(&port("p99995")));
    }
}
