//! Which packets a rule, a route policy or a translation speaks of.

use alloc::collections::BTreeSet;
use alloc::vec::Vec;

use logical::objects::{AddressRange, Ethertype, Identity, Name, Selector};
use logical::topology::Service;
use serde::{Deserialize, Serialize};
use units::Mac;

/// Ports that conditions speak of together. Who they are is in rows of their own.
#[derive(Clone, Debug, Eq, Ord, PartialEq, PartialOrd, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub enum Group {
    /// One port.
    Port(Identity),
    /// A PortGroup.
    Named(Identity),
    /// Machines' ports by their labels.
    Selected {
        /// Whose ports. `None`: all tenants'.
        tenant: Option<Name>,
        /// Their labels.
        selector: Selector,
    },
}

/// Whoever is at the other end of packets.
#[derive(Clone, Debug, Default, Eq, Ord, PartialEq, PartialOrd, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Peer {
    /// The ports of these groups.
    pub groups: BTreeSet<Group>,
    /// The addresses of these sets.
    pub sets: BTreeSet<Identity>,
    /// These addresses.
    pub prefixes: Vec<AddressRange>,
    /// But for these, of sets and prefixes.
    pub except: Vec<AddressRange>,
}

/// Which packets: all that is said has to hold.
#[derive(Clone, Debug, Default, Eq, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Condition {
    /// What the frame carries.
    pub ethertype: Option<Ethertype>,
    /// Source Ethernet addresses. None: all.
    pub source_macs: Vec<Mac>,
    /// Destination Ethernet addresses. None: all.
    pub destination_macs: Vec<Mac>,
    /// Where they come from. `None`: anywhere.
    pub source: Option<Peer>,
    /// Where they go. `None`: anywhere.
    pub destination: Option<Peer>,
    /// What they ask for. None: anything.
    pub services: Vec<Service>,
}

impl Condition {
    /// The peers that it speaks of.
    pub fn peers(&self) -> impl Iterator<Item = &Peer> {
        self.source.iter().chain(&self.destination)
    }
}
