//! What a switch and its ports are told.

use alloc::boxed::Box;
use core::num::NonZeroU32;

use units::{Class, ClassMap, Gcra, Rate, Span};

/// What a class promises (IEEE 802.1Qbb calls a lossless class PFC-enabled).
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum ClassKind {
    /// A frame waits in its sender's queue until there is room.
    #[default]
    Lossless,
    /// A frame that finds its egress full is refused.
    Lossy,
}

/// The eight classes' promises.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Classes(pub ClassMap<ClassKind>);

/// A class that is known to be lossy: the licence to refuse a frame for want of room.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct LossyClass(());

impl Classes {
    /// All eight promise the same.
    pub fn all(kind: ClassKind) -> Self {
        Self(ClassMap([kind; Class::COUNT]))
    }

    /// The licence to refuse frames of `class` for want of room, if it is lossy.
    #[inline]
    pub fn lossy(&self, class: Class) -> Option<LossyClass> {
        (self.0[class] == ClassKind::Lossy).then_some(LossyClass(()))
    }
}

/// A queue's bounds. Both hold; a queue that is empty takes any one frame.
///
/// At an egress, a large segment counts as the frames, and the bytes, that it stands for on a wire; at an ingress, as
/// one frame of so many bytes.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Limits {
    /// The most frames.
    pub frames: u32,
    /// The most bytes.
    pub bytes: u64,
}

impl Limits {
    /// Bounded in frames alone.
    pub const fn frames(frames: u32) -> Self {
        Self { frames, bytes: u64::MAX }
    }
}

/// How an egress chooses among its classes.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum Scheduling {
    /// The highest class that has a frame (802.1Q §8.6.8.1).
    #[default]
    Strict,
    /// In turn, each class for its weight in bytes (802.1Q §8.6.8.3, by deficit round robin). Zero counts as one.
    Weighted(ClassMap<u32>),
}

/// An egress's token bucket.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Shaping {
    /// The rate in the long run, counted in frames' bytes from the Ethernet header on, without preamble and FCS.
    pub rate: Rate,
    /// The bucket's depth in bytes. A frame leaves as soon as the bucket is not in debt, so up to `burst` bytes, and
    /// the frame that crosses it, leave back to back.
    pub burst: u32,
}

impl Shaping {
    pub(crate) fn bucket(self) -> Box<Gcra> {
        Box::new(Gcra::of_bytes(self.rate, self.burst))
    }
}

/// What a port is told when it is attached.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct PortConfig {
    /// How much of this port's sender may be held in each class. A burst that is already being offered may cross the
    /// bound in bytes.
    pub ingress: Limits,
    /// How many of those frames may wait for one egress in one class before the sender is held back (the VOQ's
    /// quota). A burst that is already being offered may cross it.
    pub quota: NonZeroU32,
    /// How much may wait for this port's receiver in each class, once switched.
    pub egress: Limits,
    /// The egress's token bucket; unshaped if absent.
    pub shaping: Option<Shaping>,
    /// How the egress chooses among its classes.
    pub scheduling: Scheduling,
}

impl Default for PortConfig {
    fn default() -> Self {
        Self {
            ingress: Limits::frames(1024),
            quota: NonZeroU32::MAX,
            egress: Limits::frames(1024),
            shaping: None,
            scheduling: Scheduling::Strict,
        }
    }
}

/// What the switch as a whole is told.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Settings {
    /// What each class promises.
    pub classes: Classes,
    /// How long a receiver may take nothing, while frames wait for it that may leave, before it is stalled.
    pub stall_after: Span,
}

impl Default for Settings {
    fn default() -> Self {
        Self { classes: Classes::default(), stall_after: Span::from_secs(10) }
    }
}
