//! A virtual network on one host, by number.

/// A virtual network on one host, by the number that the host's owner gives it.
///
/// Those who say nothing are in network 0. A number may be given to another network once nothing of
/// the first is left.
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

    /// Its place among all networks' states.
    pub(crate) const fn index(self) -> usize {
        self.0 as usize
    }

    /// No frame's.
    pub(crate) const NONE: Self = Self(u16::MAX);
}
