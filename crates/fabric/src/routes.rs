//! Where addresses are that were declared, and which of several ways a flow goes.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;

use units::Mac;
use wire::ethernet::{Peek, Tag};
use wire::flow;

use crate::Route;
use crate::port::address;

/// Nobody's address: what is for it reaches this switch's other hosts, and goes by no trunk.
const NOBODY: Mac = Mac([0x02, 0xfa, 0xb0, 0x01, 0x00, 0x00]);

/// Ports by the addresses that they lead to.
#[derive(Debug)]
pub(crate) struct Routes {
    ports: BTreeMap<Mac, Vec<usize>>,
    /// Some address is reached by several ports.
    has_choice: bool,
}

impl Routes {
    pub fn new(routes: &[Route]) -> Self {
        let ports: BTreeMap<_, _> = routes.iter().map(|route| (route.mac, route.ports.clone())).collect();
        let has_choice = ports.values().any(|ports| ports.len() > 1);
        Self { ports, has_choice }
    }

    /// The hash of a frame's flow, if that is of use.
    pub fn flow(&self, head: &[u8], len: usize) -> u32 {
        if self.has_choice { flow::hash(head, len) } else { 0 }
    }

    /// What the switch is to go by: a frame for a declared address is for the port that leads there.
    pub fn lead(&self, header: Peek, flow: u32) -> Peek {
        let to = header.destination();
        // What is for the next switch alone, 802.1Q refuses by itself (§8.6.3).
        if self.ports.is_empty() || to.0[..5] == [0x01, 0x80, 0xc2, 0, 0] {
            return header;
        }
        let port = self.ports.get(&to).map(|ports| ports[flow::place(flow, ports.len())]);
        Peek::new(port.map_or(NOBODY, address), header.source(), header.tag.map(|tag| Tag { vlan: 0, ..tag }))
    }
}
