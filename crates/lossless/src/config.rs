//! What a switch and its ports are told.

use alloc::boxed::Box;
use core::num::NonZeroU32;

pub use model::{ClassKind, Limits, Scheduling};
use units::{Class, ClassMap, Gcra, Rate, Span};

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

/// An egress's token bucket.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Shaping {
    /// The rate in the long run, counted in frames' bytes from the Ethernet header on, without
    /// preamble and FCS.
    pub rate: Rate,
    /// The bucket's depth in bytes. A frame leaves as soon as the bucket is not in debt, so up to
    /// `burst` bytes, and the frame that crosses it, leave back to back.
    pub burst: u32,
}

impl Shaping {
    pub(crate) fn bucket(self) -> Box<Gcra> {
        Box::new(Gcra::of_bytes(self.rate, self.burst))
    }

    /// How much may be [switched ahead](PortConfig::permits) where this is the rate: what leaves in
    /// 20 µs, and at least four frames, so that the receiver never waits for a turn.
    pub fn permits(&self) -> Limits {
        let frames = self.rate.bits_per_sec() / 8 * 20 / 1_000_000 / u64::from(FRAME);
        Limits::frames((frames as u32).clamp(4, 128))
    }
}

/// The longest ordinary frame, in bytes from the Ethernet header on.
const FRAME: u32 = 1514;

/// What a port is told when it is attached.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct PortConfig {
    /// How much of this port's sender may be held in each class. A burst that is already being
    /// offered may cross the bound in bytes.
    pub ingress: Limits,
    /// How many of those frames may wait for one egress in one class before the sender is held back
    /// (the VOQ's quota). A burst that is already being offered may cross it.
    pub quota: NonZeroU32,
    /// How much may wait for this port's receiver in each class, once switched; and, of a lossy
    /// class, in each flow that is offered behind it.
    pub egress: Limits,
    /// How much of that, in a lossless class, may be switched ahead of its senders' turns. The rest
    /// waits with its senders, and is taken from each in turn: so a sender that has little to send
    /// does not wait behind all that another has.
    pub permits: Limits,
    /// The egress's token bucket; unshaped if absent.
    pub shaping: Option<Shaping>,
    /// How the egress chooses among its classes.
    pub scheduling: Scheduling,
}

impl PortConfig {
    /// How many of this port's frames may be set aside, in all flows together, before the sender is
    /// held back: half of what may be held in a class, so that the rest is left for others.
    pub fn aside(&self) -> u32 {
        (self.ingress.frames / 2).max(1)
    }

    /// How much may wait for the receiver in a class that is not lossy, and in one that is.
    pub(crate) fn places(&self) -> [Limits; 2] {
        let Self { egress, permits, .. } = self;
        let (frames, bytes) = (egress.frames.min(permits.frames), egress.bytes.min(permits.bytes));
        [Limits { frames, bytes }, *egress]
    }
}

impl Default for PortConfig {
    fn default() -> Self {
        Self {
            ingress: Limits::frames(1024),
            quota: NonZeroU32::MAX,
            egress: Limits::frames(1024),
            permits: Limits::frames(u32::MAX),
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
    /// How long a receiver may take nothing, while frames wait for it that may leave, before it is
    /// stalled.
    pub stall_after: Span,
    /// How long a socket of which it is seen how often it is read may be full and take nothing,
    /// before the flow that is set aside for it is stalled. While a sender has [as much set
    /// aside](PortConfig::aside) as it may, for several sockets behind one port, a part suffices of
    /// each of these: a half where they are two, a tenth where they are ten or more.
    pub socket_stall_after: Span,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            classes: Classes::default(),
            stall_after: Span::from_secs(10),
            socket_stall_after: Span::from_secs(1),
        }
    }
}
