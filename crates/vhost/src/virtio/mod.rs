//! virtio rings, from the device's side: how a guest lends us its frames and its empty buffers.
//!
//! ```text
//!   guest's memory ── available ──▶ Ring::take ─▶ Chain: buffers ─▶ Outbox (frames from the guest)
//!                  ◀──── used ───── Ring::give_back                 Inbox  (buffers for frames to it)
//! ```
//!
//! Everything that lies in a ring was written by a guest, which is not trusted, and may change
//! while it is read. So each number is read once, checked, and then kept here. A chain that is
//! wrong costs its guest a frame, which the switch refuses as malformed, or an empty buffer: it is
//! given back. A ring that is wrong ([`Corrupt`]) costs the guest its port.

pub mod card;
pub mod chain;
pub mod driver;
pub mod held;
pub mod inbox;
pub mod log;
pub mod memory;
#[cfg(test)]
mod model;
pub(crate) mod numbers;
pub mod packed;
pub mod record;
pub mod ring;
mod run;
pub mod split;
#[cfg(test)]
mod wakes;

use port::Span;

/// How a ring contradicts itself: nothing in it can be trusted any more.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
pub enum Corrupt {
    /// More is available than the ring has.
    #[error(
        "the available index is {index} where {next} was next: a ring of {size} cannot have so many"
    )]
    Index {
        /// The driver's index.
        index: u16,
        /// Ours.
        next: u16,
        /// The ring's size.
        size: u16,
    },
    /// A head, or a buffer's id, that the ring does not have.
    #[error("descriptor {head} is available, but the ring has {size}")]
    Head {
        /// The head.
        head: u16,
        /// The ring's size.
        size: u16,
    },
    /// A buffer that is available while we have it.
    #[error("descriptor {head} is available, but it was not given back yet")]
    Lent {
        /// The head.
        head: u16,
    },
    /// A chain that takes more descriptors than the ring has; it can be neither read nor given
    /// back.
    #[error("the chain that begins at descriptor {head} has no end")]
    Endless {
        /// The head.
        head: u16,
    },
}

/// Where a ring's parts lie.
#[derive(Clone, Copy, Debug)]
pub struct Parts {
    /// The descriptors.
    pub descriptors: Span,
    /// What the driver writes: the available ring, or its event structure.
    pub driver: Span,
    /// What we write: the used ring, or our event structure.
    pub device: Span,
}

impl Parts {
    /// How many bytes the parts have, in their order (§2.7, §2.8).
    pub const fn lens(size: u16, packed: bool) -> [usize; 3] {
        let size = size as usize;
        if packed { [16 * size, 4, 4] } else { [16 * size, 6 + 2 * size, 6 + 8 * size] }
    }

    /// The multiples at which they begin.
    pub const fn aligns(packed: bool) -> [usize; 3] {
        if packed { [16, 4, 4] } else { [16, 2, 4] }
    }

    /// Parts of a ring of so many descriptors; `None` if one is too short, or not aligned.
    pub fn new(spans: [Span; 3], size: u16, packed: bool) -> Option<Self> {
        let fits = |place: usize| {
            spans[place].len() >= Self::lens(size, packed)[place]
                && spans[place].is_aligned_to(Self::aligns(packed)[place])
        };
        let [descriptors, driver, device] = spans;
        (0..3).all(fits).then_some(Self { descriptors, driver, device })
    }
}

/// One descriptor, read once.
#[derive(Clone, Copy, Debug)]
pub struct Descriptor {
    /// Guest-physical.
    pub address: u64,
    /// Bytes.
    pub len: u32,
    /// [`NEXT`](Self::NEXT) and the others.
    pub flags: u16,
    /// Of a split ring, who comes next.
    pub next: u16,
}

impl Descriptor {
    /// Another descriptor continues the chain.
    pub const NEXT: u16 = 1;
    /// The device writes to the buffer.
    pub const WRITE: u16 = 2;
    /// The buffer holds descriptors.
    pub const INDIRECT: u16 = 4;

    #[inline]
    fn has(self, flag: u16) -> bool {
        self.flags & flag != 0
    }
}
