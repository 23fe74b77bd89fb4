//! Which object is to be changed for a packet to get through.

use alloc::format;
use alloc::string::{String, ToString};

use interpreter::{Reason, Refusal};
use logical::Topology;
use logical::objects::{Direction, Identity};
use logical::topology::PortIndex;
#[cfg(feature = "serde")]
use serde::{Deserialize, Serialize};

/// Which object to change, and about what.
#[derive(Clone, Debug, Eq, PartialEq)]
#[cfg_attr(feature = "serde", derive(Serialize, Deserialize))]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Remedy {
    /// The object, as `Policy/shop/db-in`.
    pub object: String,
    /// What it does, and what to do.
    pub what: String,
}

impl Remedy {
    fn new(object: &Identity, what: impl Into<String>) -> Self {
        Self { object: object.to_string(), what: what.into() }
    }
}

/// What would have a port's packet that was refused go on. `None`: the packet itself is wrong, or
/// no object decides it.
pub fn remedy(topology: &Topology, from: PortIndex, refused: &Refusal) -> Option<Remedy> {
    let Refusal { reason, at, by, .. } = refused;
    let of = |what: &str| Some(Remedy::new(at, what));
    if let Some(by) = by {
        let what = match reason {
            Reason::Untracked => {
                format!("its rule `{}` admits connections by their first packets", by.rule)
            }
            _ => format!("its rule `{}` refuses this: change it, or put one before it", by.rule),
        };
        return Some(Remedy::new(&by.policy, what));
    }
    match reason {
        Reason::Policy => Some(default(topology, from, at)),
        Reason::Disabled => of("it is switched off: say `enabled: true`"),
        Reason::Vlan => of("no port stands for this VLAN of it: declare one with `child`"),
        Reason::Spoofed => of(
            "the packet names addresses that are not its own: add them to `addresses`, or to `security`",
        ),
        Reason::ConnectionsFull => of("it has as many connections as its Tenant's quota allows"),
        Reason::Unknown => {
            of("nobody on it has the address that this is for: declare a port that has")
        }
        Reason::NoRoute => of("no route leads there: add one to `routes`"),
        Reason::Discarded => of("a route discards this: change it, or add one that is longer"),
        Reason::TooLong => of("it is longer than what lies ahead carries: raise `mtu` there"),
        Reason::Unresolved => of(
            "its next hop is nobody's: declare a port that has the address, or one that is `unknown`",
        ),
        Reason::NatFull => of("no port of its external addresses is free: add addresses"),
        Reason::NoBackend => of("it has no backend that serves this: add one"),
        Reason::NotItsAddress => of("it does not have the address: add it to `addresses`"),
        _ => None,
    }
}

/// Who refuses what no rule speaks of: a policy that admits nothing else, or the switch.
fn default(topology: &Topology, from: PortIndex, at: &Identity) -> Remedy {
    let Some((index, port)) = topology.ports().find(|(_, it)| it.id == *at) else {
        return Remedy::new(at, "one of its `policies` drops this: change it");
    };
    let way = if index == from { Direction::FromPort } else { Direction::ToPort };
    let isolating = topology.policies().map(|(_, it)| it);
    let isolating = isolating.filter(|it| it.ports.contains(&index) && it.isolates.contains(&way));
    match isolating.min_by_key(|it| (it.tier, it.level)) {
        Some(policy) => {
            Remedy::new(&policy.id, format!("none of its rules admits this at {at}: add one"))
        }
        None => {
            let what = format!(
                "no rule speaks of this at {at}, and its `defaultAction` drops it: add a rule"
            );
            Remedy::new(&topology[port.switch].id, what)
        }
    }
}
