//! What all trunks of a host share.

use std::collections::{HashMap, VecDeque};

use datapath::Network;
use plane::Event;
use seal::Pace;
use units::Span;

use crate::slots::Slots;

/// What all trunks of a host share.
pub struct Shared {
    /// Memory for frames that have arrived.
    pub slots: Slots,
    /// The networks that tunnels carry.
    pub networks: Networks,
    /// Holds a contiguous copy of a frame that does not lie in one piece.
    pub scratch: Vec<u8>,
    /// Holds a frame that is cut into fragments.
    pub cut: Vec<u8>,
    /// What the plane has not polled.
    pub events: VecDeque<Event>,
    /// How long a far host may take nothing before it counts as stalled.
    pub patience: Span,
    /// How often channels do Diffie-Hellman.
    pub pace: Pace,
}

/// The networks that tunnels carry, and their VNIs.
#[derive(Debug, Default)]
pub struct Networks {
    by_vni: HashMap<u32, Network>,
    /// By the network's number.
    vnis: Vec<Option<u32>>,
}

impl Networks {
    /// A network has this VNI from now on; `None`: tunnels do not carry it any more.
    pub fn set(&mut self, network: Network, vni: Option<u32>) {
        let index = usize::from(network.number());
        if self.vnis.len() <= index {
            self.vnis.resize(index + 1, None);
        }
        if let Some(old) = std::mem::replace(&mut self.vnis[index], vni)
            && self.by_vni.get(&old) == Some(&network)
        {
            self.by_vni.remove(&old);
        }
        self.by_vni.extend(vni.map(|vni| (vni, network)));
    }

    /// The VNI of a network.
    pub fn vni(&self, network: Network) -> Option<u32> {
        *self.vnis.get(usize::from(network.number()))?
    }

    /// The network with this VNI.
    pub fn of_vni(&self, vni: u32) -> Option<Network> {
        self.by_vni.get(&vni).copied()
    }
}
