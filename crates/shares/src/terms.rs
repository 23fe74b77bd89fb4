//! What a holder is owed and allowed.

use core::num::{NonZeroU16, NonZeroU32};

use units::Rate;

/// What is sent, in both things that it uses.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Cost {
    /// Bytes, as rates count them: from the Ethernet header on, without preamble and FCS.
    pub bytes: u32,
    /// Frames; a large segment counts as many as its owner says.
    pub frames: u32,
}

impl Cost {
    /// One frame of so many bytes.
    pub const fn frame(bytes: u32) -> Self {
        Self { bytes, frames: 1 }
    }

    /// Both together.
    #[inline]
    pub fn plus(self, other: Self) -> Self {
        Self {
            bytes: self.bytes.saturating_add(other.bytes),
            frames: self.frames.saturating_add(other.frames),
        }
    }

    /// The smaller of each.
    #[inline]
    pub(crate) fn min(self, other: Self) -> Self {
        Self { bytes: self.bytes.min(other.bytes), frames: self.frames.min(other.frames) }
    }

    /// The larger of each.
    #[inline]
    pub(crate) fn max(self, other: Self) -> Self {
        Self { bytes: self.bytes.max(other.bytes), frames: self.frames.max(other.frames) }
    }

    /// Whether it is no more than the other in both.
    #[inline]
    pub fn is_within(self, other: Self) -> bool {
        self.bytes <= other.bytes && self.frames <= other.frames
    }
}

/// So many bits a second, and so many bytes at once after a rest.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Bits {
    /// In the long run.
    pub rate: Rate,
    /// In bytes.
    pub burst: u32,
}

/// So many frames a second, and so many at once after a rest.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Frames {
    /// In the long run.
    pub per_second: NonZeroU32,
    /// In frames.
    pub burst: u32,
}

/// A bound by bits, by frames, by both or by none. Where it is by both, both hold.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Bound {
    /// In bits a second.
    pub bits: Option<Bits>,
    /// In frames a second.
    pub frames: Option<Frames>,
}

impl Bound {
    /// By bits alone.
    pub const fn bits(rate: Rate, burst: u32) -> Self {
        Self { bits: Some(Bits { rate, burst }), frames: None }
    }

    /// By frames alone.
    pub const fn frames(per_second: NonZeroU32, burst: u32) -> Self {
        Self { bits: None, frames: Some(Frames { per_second, burst }) }
    }
}

/// A holder's terms.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Terms {
    /// What it is guaranteed: nothing, unless there is a bound. What it sends within all the bounds
    /// that there are goes before what is shared by weight. A burst of one frame is enough for a
    /// steady sender; a larger one goes at once, and all others' frames may wait for it.
    pub min: Bound,
    /// What it may send at most, whatever it is guaranteed: anything, unless there is a bound. A
    /// burst below [`Rate::bucket_bytes`] costs some of the rate, since it is not looked at in time
    /// for each frame.
    pub max: Bound,
    /// Its part of what guarantees leave, in proportion to others' weights.
    pub weight: NonZeroU16,
}

impl Default for Terms {
    /// No guarantee, no maximum, and a weight of one.
    fn default() -> Self {
        Self { min: Bound::default(), max: Bound::default(), weight: NonZeroU16::MIN }
    }
}
