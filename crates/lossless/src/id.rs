//! Ports' numbers.

/// A port of one switch.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct PortId(pub(crate) u16);

impl PortId {
    /// No port's.
    pub(crate) const NONE: Self = Self(u16::MAX);

    /// The port with this number; `None` if no switch has so many.
    pub const fn new(number: u16) -> Option<Self> {
        if (number as usize) < MAX_PORTS { Some(Self(number)) } else { None }
    }

    /// The port's number, from 0; a detached port's number is given out again.
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

/// The most ports of one switch.
pub const MAX_PORTS: usize = model::MOST_PORTS;
