//! The virtual networks that share a switch, and who is a member of which: 802.1Q's member sets (§8.8.10), with
//! networks for VLANs.
//!
//! A local port is a member of one network. A trunk leads to other switches, and is a member of the networks that it joined.
//! What is for no one port reaches members alone:
//!
//! | | local ports | trunks |
//! |---|---|---|
//! | from a local port, to a group | the others | all |
//! | from a local port, to an address that is not known | the others | none |
//! | from a trunk | all | none |
//!
//! An address behind a trunk is declared, so nobody need look for it there. What came from a trunk has reached every trunk it is
//! for: where each switch has a way to each other, this split horizon keeps frames from going in circles (RFC 4762 §4.4).

use alloc::collections::BTreeMap;

use crate::{PortConfig, PortId, PortSet};

/// A virtual network on one switch, by the number that the switch's owner gives it.
///
/// Those who say nothing are in network 0. A number may be given to another network once the switch holds nothing of the first.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct Network(u16);

impl Network {
    /// The network of this number; `None` for `0xffff`, which stands for no network.
    pub const fn new(number: u16) -> Option<Self> {
        if number == Self::NONE.0 { None } else { Some(Self(number)) }
    }

    /// Its number.
    pub const fn number(self) -> u16 {
        self.0
    }

    /// No frame's.
    pub(crate) const NONE: Self = Self(u16::MAX);

    /// The network of a number that was one.
    #[inline]
    pub(crate) const fn from_number(number: u16) -> Self {
        Self(number)
    }
}

/// Who is a member of which network.
#[derive(Debug, Default)]
pub(crate) struct Members {
    /// None is empty.
    sets: BTreeMap<Network, PortSet>,
    trunks: PortSet,
}

impl Members {
    /// A port is attached: a member of its network, or a trunk, of none yet.
    pub(crate) fn attach(&mut self, port: PortId, config: &PortConfig) {
        if config.trunk {
            self.trunks.insert(port);
        } else {
            self.join(port, config.network);
        }
    }

    pub(crate) fn detach(&mut self, port: PortId) {
        self.trunks.remove(port);
        self.sets.retain(|_, members| {
            members.remove(port);
            !members.is_empty()
        });
    }

    pub(crate) fn join(&mut self, port: PortId, network: Network) {
        self.sets.entry(network).or_default().insert(port);
    }

    pub(crate) fn leave(&mut self, port: PortId, network: Network) {
        if let Some(members) = self.sets.get_mut(&network) {
            members.remove(port);
            if members.is_empty() {
                self.sets.remove(&network);
            }
        }
    }

    pub(crate) fn is_trunk(&self, port: PortId) -> bool {
        self.trunks.contains(port)
    }

    pub(crate) fn is_member(&self, port: PortId, network: Network) -> bool {
        self.sets.get(&network).is_some_and(|members| members.contains(port))
    }

    /// Who is to have a frame of `network` that came in by `from` and is for no one port.
    pub(crate) fn audience(&self, network: Network, from: PortId, is_group: bool) -> PortSet {
        let mut audience = self.sets.get(&network).copied().unwrap_or_default();
        audience.remove(from);
        if !is_group || self.is_trunk(from) {
            audience.subtract(&self.trunks);
        }
        audience
    }
}
