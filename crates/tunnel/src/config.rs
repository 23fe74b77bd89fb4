//! The settings of a session.

use units::{Class, ClassSet};

use crate::message::Unsolicited;

/// The longest frame in bytes, whole or in parts: a packet of 64 KiB and its Ethernet header,
/// rounded up.
pub const MAX_FRAME_LEN: u32 = 66 << 10;

/// The widest window of a stream.
const MAX_WINDOW: u32 = Unsolicited::MOST;

/// The settings of a session.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct SessionConfig {
    /// The classes in which the peer waits for our credit: `unsolicited` and `stream_window` apply
    /// to these. In all other classes the peer may send 2^30 bytes of each stream ahead of its
    /// receiver.
    pub credit: ClassSet,
    /// Streams of these classes may be sent no further than our owner [grants](crate::grants) them,
    /// whatever their window: they share a link, beside memory.
    pub is_granted: bool,
    /// Bytes of each stream that we accept before the first grant. This applies to the first
    /// incarnation of the peer that we know.
    pub unsolicited: u32,
    /// The window of each stream: bytes in flight to us or waiting here, of all incarnations of the
    /// peer together. It is clamped to [`MAX_FRAME_LEN`] at least and 2^30 at most.
    pub stream_window: u32,
    /// The limit of the congestion window, in bytes.
    pub max_in_flight: u32,
    /// The most frames that are kept until they are consumed. A stream keeps no more than are left
    /// for all others, but may always keep four. So memory must suffice for four more frames of
    /// each stream.
    pub max_frames: usize,
    /// The most streams to us in one incarnation of the peer. Frames and window probes of further
    /// streams are refused.
    pub max_streams: usize,
    /// The payload of a full datagram, in bytes.
    pub datagram: u32,
    /// The classes that we retransmit. Frames of other classes are sent once and not kept.
    pub reliable: ClassSet,
}

impl SessionConfig {
    /// With a window that holds the longest frame, and that offsets of 32 bits can tell.
    pub(crate) fn clamped(self) -> Self {
        Self { stream_window: self.stream_window.clamp(MAX_FRAME_LEN, MAX_WINDOW), ..self }
    }

    /// The window of each stream of this class, in bytes.
    pub(crate) fn window(&self, class: Class) -> u32 {
        if self.credit.contains(class) { self.stream_window } else { MAX_WINDOW }
    }

    /// How far a stream of this class may be sent that was granted nothing, whatever its window;
    /// `None` if only its window counts.
    pub(crate) fn cap(&self, class: Class, unsolicited: u32) -> Option<u32> {
        (self.is_granted && self.credit.contains(class)).then_some(unsolicited)
    }

    /// What we accept before the first grant, from a peer that we do not know.
    pub(crate) fn unsolicited(&self) -> Unsolicited {
        Unsolicited { bytes: self.unsolicited, unlimited: self.credit.others() }
    }
}
