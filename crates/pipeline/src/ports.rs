//! Which ports tell flows apart.

use image::Condition;
use logical::topology::Service;

/// Which of its ports a flow's fate depends on. Flows that differ in the others fare alike.
#[derive(Clone, Copy, Debug, Default, Eq, Ord, PartialEq, PartialOrd)]
pub enum Ports {
    /// On neither.
    #[default]
    None,
    /// On the destination's.
    Destination,
    /// On both.
    Both,
}

impl Ports {
    /// Each, those of the most ports first.
    pub const ALL: [Self; 3] = [Self::Both, Self::Destination, Self::None];
}

/// Which ports it depends on whether a condition holds.
pub fn ports_of(condition: &Condition) -> Ports {
    let ports = |it: &Service| match (it.source_ports.is_empty(), it.ports.is_empty()) {
        (false, _) => Ports::Both,
        (true, false) => Ports::Destination,
        (true, true) => Ports::None,
    };
    condition.services.iter().map(ports).max().unwrap_or_default()
}
