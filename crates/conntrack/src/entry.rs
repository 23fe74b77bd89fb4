//! What is kept of a connection.

use crate::timeouts::Age;
use crate::track::{Track, Way, bit};
use crate::tuple::{Ends, Tuple};

/// What a caller knows of its rules when it admits a connection, or looks at one again.
///
/// Where the generation is the caller's present one, the rule still allows the connection.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct Stamp {
    /// Which generation of rules was asked; of a longer number the lower bits.
    pub generation: u32,
    /// Which of its rules decided, as the caller numbers them.
    pub rule: u32,
}

/// What is so of a connection, or not.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Flags(pub(crate) u8);

impl Flags {
    /// None.
    pub const NONE: Self = Self(0);

    /// It stays although its rule says otherwise now: the caller's own note.
    pub const PERSISTS: Self = Self(bit::PERSISTS);

    /// Its rule no longer allows it, and packets both ways are refused until one does: the caller's
    /// own note.
    pub const BLOCKED: Self = Self(bit::BLOCKED);

    /// Whether it [persists](Self::PERSISTS).
    pub const fn persists(self) -> bool {
        self.0 & bit::PERSISTS != 0
    }

    /// Whether it is [blocked](Self::BLOCKED).
    pub const fn is_blocked(self) -> bool {
        self.0 & bit::BLOCKED != 0
    }

    /// Whether a packet of it went the other way.
    pub const fn is_answered(self) -> bool {
        self.0 & bit::ANSWERED != 0
    }

    /// Whether its TCP windows are not known: it was taken over in the middle, or is in fragments.
    /// No segment is refused by them, and a reset only by its exact number counts.
    pub const fn is_loose(self) -> bool {
        self.0 & bit::LOOSE != 0
    }
}

/// A connection's place: two lines of memory.
#[derive(Clone, Copy, Debug)]
#[repr(C, align(128))]
pub struct Entry {
    pub original: Ends,
    /// The zone's handle; 0: the place is free.
    pub zone: u32,
    /// The tick by which it is forgotten.
    pub deadline: u32,
    pub stamp: Stamp,
    /// How often the place was used: so that an id is of one connection.
    pub life: u32,
    /// The caller's.
    pub mark: u32,
    pub reply: Ends,
    pub track: Track,
}

const _: () = assert!(size_of::<Entry>() == 128);

impl Entry {
    #[inline]
    pub const fn ends(&self, way: Way) -> &Ends {
        match way {
            Way::Original => &self.original,
            Way::Reply => &self.reply,
        }
    }

    pub const fn tuple(&self, way: Way) -> Tuple {
        Tuple { ends: *self.ends(way), protocol: self.track.protocol }
    }

    pub const fn flags(&self) -> Flags {
        Flags(self.track.bits)
    }

    pub const fn is_answered(&self) -> bool {
        self.track.has(bit::ANSWERED)
    }

    /// Which timeout holds. What stands for others' addresses is kept until an answer may come, for
    /// who is to answer knows no other: minutes, whatever is known of the connection (RFC 4787,
    /// REQ-5; RFC 5382, REQ-5; RFC 5508, REQ-2).
    #[inline]
    pub fn age(&self) -> Age {
        match self.track.age() {
            Age::Udp | Age::Names if self.is_translated() => Age::UdpAnswered,
            Age::Echo | Age::Other if self.is_translated() => Age::OtherAnswered,
            Age::TcpOpening | Age::TcpAccepting | Age::TcpTimeWait | Age::TcpClosed
                if self.is_translated() =>
            {
                Age::TcpClosing
            }
            age => age,
        }
    }

    /// Whether its two tuples are not each other's reverse.
    fn is_translated(&self) -> bool {
        self.original.reversed() != self.reply
    }
}
