//! The numbers that networks have in the switch.

use std::collections::{BTreeMap, HashMap};

use datapath::Network;
use model::NetworkName;

/// The numbers that networks have in the switch: each keeps its own as long as there is the switch.
#[derive(Debug, Default)]
pub struct Numbers(BTreeMap<NetworkName, Network>);

impl Numbers {
    /// The number of a network, from now on if it had none; none if there were 65,534 others.
    pub fn of(&mut self, name: &NetworkName) -> Option<Network> {
        if let Some(network) = self.0.get(name) {
            return Some(*network);
        }
        let network = Network::new(u16::try_from(self.0.len() + 1).ok()?)?;
        self.0.insert(name.clone(), network);
        Some(network)
    }

    /// The names of all.
    pub fn names(&self) -> HashMap<Network, &NetworkName> {
        self.0.iter().map(|(name, network)| (*network, name)).collect()
    }
}
