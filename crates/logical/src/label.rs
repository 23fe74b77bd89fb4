//! Labels: the numbers by which hosts mean ports in tunnels.
//!
//! Each host works them out of names, and all come to the same. Two names may have one label: of a
//! thousand ports that is so once in 4,000 times. [`resolve`](crate::resolve()) refuses two in one
//! domain.

use alloc::string::ToString;

use units::hash::{fnv1a_64, splitmix64};

use crate::objects::{Identity, Object};

/// How many labels there are: those of flooded frames have another bit.
const LABELS: u64 = (1 << 31) - 1;

/// The label of a name: 1 to 2^31 - 1.
pub fn label(name: &Identity) -> u32 {
    1 + (splitmix64(fnv1a_64(name.to_string().as_bytes())) % LABELS) as u32
}

/// The label of an object, if it is one that hosts send to: a port that a machine or the outside
/// can have, a router's port, or a load balancer that is told which of its backends serve.
pub fn label_of(object: &Object) -> Option<u32> {
    let has_one = match object {
        Object::LogicalPort(it) => it.spec.router.is_none() && it.spec.l2gateway.is_none(),
        Object::RouterPort(_) => true,
        Object::LoadBalancer(it) => it.spec.health_check.is_some(),
        _ => false,
    };
    has_one.then(|| label(&object.identity()))
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
        assert!(labels.iter().all(|label| (1..1 << 31).contains(label)));
        assert_eq!(label(&port("p34417")), label(&port("p99995")));
    }
}
