//! What is held of one sender's copies for bystanders, and how much may be.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;

use crate::config::PortConfig;
use crate::id::PortId;

/// The most that a sender's share may be, however much it may have held: eight bursts.
const MOST: u32 = 1024;

/// What a frame counts as of which ports have few places (see `tap`): a large segment.
const LARGE: u32 = 16;

/// A frame is large above so many bytes.
const SMALL_BYTES: u32 = 2048;

/// What is held of one sender's copies for bystanders.
#[derive(Debug, Default)]
pub(crate) struct Copies {
    /// Frames of which a bystander has yet to take its copy.
    pub(crate) frames: u32,
    /// Copies by the number of their egress.
    at_ports: Vec<u32>,
    /// Copies by the [group](Flow::group) of their flow.
    at_groups: BTreeMap<u32, u32>,
}

impl Copies {
    /// The copies at one egress, or in one group behind it.
    pub(crate) fn at(&self, egress: PortId, group: Option<u32>) -> u32 {
        let copies = match group {
            None => self.at_ports.get(egress.index()),
            Some(group) => self.at_groups.get(&group),
        };
        copies.copied().unwrap_or(0)
    }

    /// The same, to be changed.
    pub(crate) fn at_mut(&mut self, egress: PortId, group: Option<u32>) -> &mut u32 {
        match group {
            None => {
                if self.at_ports.len() <= egress.index() {
                    self.at_ports.resize(egress.index() + 1, 0);
                }
                &mut self.at_ports[egress.index()]
            }
            Some(group) => self.at_groups.entry(group).or_default(),
        }
    }

    /// The copies at all egresses.
    pub(crate) fn sum(&self) -> u32 {
        self.at_ports.iter().chain(self.at_groups.values()).sum()
    }

    /// A group has no copies any more.
    pub(crate) fn forget(&mut self, group: u32) {
        self.at_groups.remove(&group);
    }
}

/// How much of what a sender may have held its copies for bystanders may take up.
pub(crate) fn share(config: &PortConfig) -> u32 {
    (config.ingress.frames / 2).min(MOST)
}

/// What a frame of so many bytes counts as.
pub(crate) fn weight(bytes: u32) -> u32 {
    if bytes > SMALL_BYTES { LARGE } else { 1 }
}
