//! A ring as it is handed over: where it lies, where it stands, and how each side tells the other.

use std::io::IoSliceMut;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use rustix::io::{ReadWriteFlags, preadv2};

use super::features::Features;
use super::message::Addresses;
use crate::virtio::Parts;
pub use crate::virtio::packed::Turn;
pub use crate::virtio::ring::Base;

/// How a ring's driver tells of new buffers.
#[derive(Clone, Debug)]
pub enum Kick {
    /// It writes to this.
    Fd(Arc<OwnedFd>),
    /// Not at all: the ring is polled.
    Polled,
}

/// Takes back what was told by this. A front-end that finds that its guest was not heard, when the
/// rings are its own again, serves it in our place: QEMU then throws away what the guest has made
/// available.
pub(super) fn heard(kick: &OwnedFd) {
    // Whether it is non-blocking is its front-end's to say.
    let mut count = [0; 8];
    let _ = preadv2(kick, &mut [IoSliceMut::new(&mut count)], u64::MAX, ReadWriteFlags::NOWAIT);
}

/// A ring that runs.
#[derive(Clone, Debug)]
pub struct Vring {
    /// Which one: even ones are what the guest receives by, odd ones what it transmits by (VIRTIO
    /// 1.2 §5.1.2).
    pub index: usize,
    /// How many descriptors.
    pub size: u16,
    /// Where it lies, as the front-end sees it: all inside the memory.
    pub addresses: Addresses,
    /// Where it stood when it last stopped. Only its start tells anything by it.
    pub base: Base,
    /// How new buffers are told of.
    pub kick: Kick,
    /// What to write to when buffers were used, unless the driver polls.
    pub call: Option<Arc<OwnedFd>>,
    /// What to write to when the ring contradicts itself.
    pub error: Option<Arc<OwnedFd>>,
    /// A ring that is not enabled gives nothing to the guest and takes nothing from it.
    pub enabled: bool,
    /// What was negotiated.
    pub features: Features,
}

impl Vring {
    /// Whether it lies and goes on as that one does.
    pub(super) fn lies_as(&self, other: &Self) -> bool {
        let place = |vring: &Self| (vring.size, Addresses { log: None, ..vring.addresses });
        place(self) == place(other)
    }

    /// Whether nothing at all tells them apart but where they began.
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
    /// Where a new ring stands.
    pub const fn new(packed: bool) -> Self {
        let first = Turn { index: 0, wrap: true };
        if packed { Self::Packed { available: first, used: first } } else { Self::Split(0) }
    }

    /// What came over the socket. A packed ring has both places in one number, each with its wrap
    /// counter on top.
    pub fn parse(base: u32, packed: bool) -> Option<Self> {
        if !packed {
            return u16::try_from(base).ok().map(Self::Split);
        }
        let turn = |half: u32| Turn { index: half as u16 & 0x7fff, wrap: half & 0x8000 != 0 };
        // DPDK's virtio-user leaves the upper half out of a new ring's. Read to the letter that
        // would be one whose every descriptor is in flight, but it begins such rings anew always.
        let used = if base == 0x8000 { base } else { base >> 16 };
        Some(Self::Packed { available: turn(base), used: turn(used) })
    }

    /// Whether a ring of so many descriptors has it. The index of a split ring runs on beyond its
    /// size.
    pub const fn is_in(self, size: u16) -> bool {
        match self {
            Self::Split(_) => true,
            Self::Packed { available, used } => available.index < size && used.index < size,
        }
    }

    /// The number that goes over the socket.
    pub fn emit(self) -> u32 {
        let half =
            |Turn { index, wrap }: Turn| u32::from(index & 0x7fff) | if wrap { 0x8000 } else { 0 };
        match self {
            Self::Split(available) => available.into(),
            Self::Packed { available, used } => half(available) | half(used) << 16,
        }
    }
}

/// One of the three parts of a ring: where, how long, and how it must be aligned.
#[derive(Clone, Copy, Debug)]
pub struct Part {
    /// As the front-end sees it.
    pub address: u64,
    /// In bytes.
    pub len: u64,
    /// What its address is a multiple of.
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
