//! A ring as the front-end hands it over: its addresses, its position, and its notifications.

use std::io::IoSliceMut;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use rustix::io::{ReadWriteFlags, preadv2};

use super::features::Features;
use super::message::Addresses;
use crate::virtio::Parts;
pub use crate::virtio::packed::Turn;
pub use crate::virtio::ring::Base;

/// How a ring's driver notifies the device of new buffers.
#[derive(Clone, Debug)]
pub enum Kick {
    /// It writes to this eventfd.
    Fd(Arc<OwnedFd>),
    /// Not at all: the device polls the ring.
    Polled,
}

/// Consumes pending notifications of this eventfd. A front-end that finds one pending when its
/// rings have stopped handles it itself: QEMU then discards the guest's available buffers.
pub(super) fn heard(kick: &OwnedFd) {
    // Only its front-end decides whether the eventfd is non-blocking, so poll before reading.
    let mut count = [0; 8];
    let _ = preadv2(kick, &mut [IoSliceMut::new(&mut count)], u64::MAX, ReadWriteFlags::NOWAIT);
}

/// A running ring.
#[derive(Clone, Debug)]
pub struct Vring {
    /// Its index: the guest receives by even rings and transmits by odd ones (VIRTIO 1.2 §5.1.2).
    pub index: usize,
    /// The number of descriptors.
    pub size: u16,
    /// Its addresses, as the front-end sees them: all inside the memory.
    pub addresses: Addresses,
    /// Its position when it last stopped. It matters only when the ring starts.
    pub base: Base,
    /// How the driver notifies of new buffers.
    pub kick: Kick,
    /// The eventfd to write to when buffers were used; `None` if the driver polls.
    pub call: Option<Arc<OwnedFd>>,
    /// The eventfd to write to when the ring contradicts itself.
    pub error: Option<Arc<OwnedFd>>,
    /// Whether it is enabled. A disabled ring passes no frames in either direction.
    pub enabled: bool,
    /// The negotiated features.
    pub features: Features,
}

impl Vring {
    /// Whether it has the same addresses and position as another one.
    pub(super) fn lies_as(&self, other: &Self) -> bool {
        let place = |vring: &Self| (vring.size, Addresses { log: None, ..vring.addresses });
        place(self) == place(other)
    }

    /// Whether they differ in nothing but their initial position.
    pub(super) fn is_same(&self, other: &Self) -> bool {
        let same = |a: &Option<Arc<OwnedFd>>, b: &Option<Arc<OwnedFd>>| match (a, b) {
            (Some(a), Some(b)) => Arc::ptr_eq(a, b),
            (None, None) => true,
            _ => false,
        };
        let same_kick = match (&self.kick, &other.kick) {
            (Kick::Fd(a), Kick::Fd(b)) => Arc::ptr_eq(a, b),
            (Kick::Polled, Kick::Polled) => true,
            _ => false,
        };
        self.lies_as(other)
            && same_kick
            && same(&self.call, &other.call)
            && same(&self.error, &other.error)
            && (self.addresses.log, self.enabled, self.features)
                == (other.addresses.log, other.enabled, other.features)
    }
}

impl Base {
    /// The position of a new ring.
    pub const fn new(packed: bool) -> Self {
        let first = Turn { index: 0, wrap: true };
        if packed { Self::Packed { available: first, used: first } } else { Self::Split(0) }
    }

    /// Parses the number of a request. That of a packed ring contains two indices, each with its
    /// wrap counter in the highest bit.
    pub fn parse(base: u32, packed: bool) -> Option<Self> {
        if !packed {
            return u16::try_from(base).ok().map(Self::Split);
        }
        let turn = |half: u32| Turn { index: half as u16 & 0x7fff, wrap: half & 0x8000 != 0 };
        // DPDK's virtio-user leaves the upper half 0 for new rings. By the letter, all descriptors
        // would be in flight, but it always starts such rings anew.
        let used = if base == 0x8000 { base } else { base >> 16 };
        Some(Self::Packed { available: turn(base), used: turn(used) })
    }

    /// Whether the position is valid in a ring of this size. The index of a split ring counts
    /// beyond its size.
    pub const fn is_in(self, size: u16) -> bool {
        match self {
            Self::Split(_) => true,
            Self::Packed { available, used } => available.index < size && used.index < size,
        }
    }

    /// The number for a message.
    pub fn emit(self) -> u32 {
        let half =
            |Turn { index, wrap }: Turn| u32::from(index & 0x7fff) | if wrap { 0x8000 } else { 0 };
        match self {
            Self::Split(available) => available.into(),
            Self::Packed { available, used } => half(available) | half(used) << 16,
        }
    }
}

/// One of the three parts of a ring.
#[derive(Clone, Copy, Debug)]
pub struct Part {
    /// Its address, as the front-end sees it.
    pub address: u64,
    /// Its length in bytes.
    pub len: u64,
    /// Its alignment in bytes.
    pub align: u64,
}

impl Addresses {
    /// A ring's descriptors, its used part and its available part (VIRTIO 1.2 §2.7, §2.8).
    pub fn parts(&self, size: u16, packed: bool) -> [Part; 3] {
        let starts = [self.descriptors, self.available, self.used];
        let (lens, aligns) = (Parts::lens(size, packed), Parts::aligns(packed));
        let part = |at: usize| Part {
            address: starts[at],
            len: lens[at] as u64,
            align: aligns[at] as u64,
        };
        [part(0), part(2), part(1)]
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn parsing_a_base_undoes_emitting_it(index: u16, turns: [(u16, bool); 2]) {
            prop_assert_eq!(Base::parse(Base::Split(index).emit(), false), Some(Base::Split(index)));
            let [available, used] = turns.map(|(index, wrap)| Turn { index: index & 0x7fff, wrap });
            let base = Base::Packed { available, used };
            let is_new = base.emit() == 0x8000;
            prop_assert_eq!(Base::parse(base.emit(), true), Some(if is_new { Base::new(true) } else { base }));
        }
    }

    #[test]
    fn a_new_ring_of_virtio_users_is_a_new_ring() {
        assert_eq!(Base::parse(0x8000, true), Some(Base::new(true)));
        assert_eq!(Base::parse(0x8000_8000, true), Some(Base::new(true)));
        assert_eq!(Base::parse(0, false), Some(Base::new(false)));
        assert_eq!(Base::parse(0x1_0000, false), None);
    }
}
