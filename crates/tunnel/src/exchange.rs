//! What a session and its owner tell each other.

use units::Span;

use crate::message::Stream;

/// What shares a congestion window, as a rule all streams of one virtual network. The number is our
/// owner's; small ones cost less memory.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct Lane(pub u16);

/// Whether a frame may be sent.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Admission {
    /// It may.
    Go,
    /// No session: the handshake is not complete in both directions.
    NoSession,
    /// The stream has no credit, or too many of its frames are outstanding. Other streams may send.
    NoCredit,
    /// The congestion window is full.
    NoWindow,
}

/// A period in which offsets of streams are counted from 0. It ends when either end begins a new
/// incarnation.
#[derive(Clone, Copy, Debug, Default, Eq, Ord, PartialEq, PartialOrd)]
pub struct Epoch(pub(crate) u32);

impl Epoch {
    /// The next epoch.
    #[must_use]
    pub fn next(self) -> Self {
        Self(self.0.wrapping_add(1))
    }
}

/// The payload of a data packet; `R` is the handle of a frame.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Payload<R> {
    /// A frame, or a part of one.
    Frame(R),
    /// None: the frame's sender has it no more, or has it again. Its position counts.
    Placeholder,
    /// One that our owner does not use. Its position counts.
    Unwanted,
    /// A frame for which our owner has no memory.
    NoMemory,
    /// A frame that our owner cannot judge yet: what decided it is not known here.
    NotYet,
}

impl<R> Payload<R> {
    /// The frame, if there is one.
    pub(crate) fn frame(self) -> Option<R> {
        match self {
            Self::Frame(frame) => Some(frame),
            Self::Placeholder | Self::Unwanted | Self::NoMemory | Self::NotYet => None,
        }
    }

    /// Releases the frame.
    pub(crate) fn release(self, arrived: impl FnMut(Arrival<R>)) {
        self.frame().map(Arrival::Release).into_iter().for_each(arrived);
    }
}

/// What our owner is to do with a frame.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Arrival<R> {
    /// Deliver it to its egress, and call [`consumed`](crate::Session::consumed) once that has
    /// consumed it.
    Deliver {
        /// Its stream.
        stream: Stream,
        /// The epoch in which it was sent.
        from: Epoch,
        /// Its offset in the stream.
        offset: u64,
        /// Its handle.
        frame: R,
    },
    /// Release the handle: the frame is not used.
    Release(R),
    /// Drop the unfinished frame of the stream: its next part will never come.
    Gap {
        /// The stream.
        stream: Stream,
    },
}

/// The counters of a session.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Counters {
    /// Frames sent, retransmissions excluded.
    pub sent: u64,
    /// Frames sent [large](crate::Session::send_large).
    pub sent_large: u64,
    /// Frames retransmitted.
    pub retransmitted: u64,
    /// Packets found lost.
    pub lost: u64,
    /// Frames received more than once, or too late to tell.
    pub duplicates: u64,
    /// Frames received beyond their stream's limit.
    pub credit_exceeded: u64,
    /// Frames received while memory was short, of reliable classes. Each arrival counts.
    pub nacked: u64,
    /// Frames received before what decided them was known. Each arrival counts.
    pub not_yet: u64,
    /// Frames given back to the peer.
    pub given_back: u64,
    /// Frames lost because memory was short, of unreliable classes.
    pub no_memory: u64,
    /// HELLOs that do not offer our version.
    pub unsupported_version: u64,
    /// Frames and window probes of streams beyond the most that there may be.
    pub too_many_streams: u64,
    /// Packets to or from an incarnation that is not current.
    pub stale_incarnation: u64,
    /// Bytes of unreliable classes that the peer sent and that did not arrive in time.
    pub unrecovered: u64,
    /// Packets sent that the fabric marked, as the peer reports.
    pub ecn_marked: u64,
    /// How often the peer began a new incarnation.
    pub resets: u64,
    /// How often we began one because a stream of the peer contradicted itself.
    pub contradictions: u64,
}

/// The path to the peer, as the session measures it.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct PathMetrics {
    /// The smoothed round-trip time; `None` before the first sample.
    pub rtt: Option<Span>,
    /// Bytes sent and neither acknowledged nor found lost.
    pub in_flight: u64,
    /// The congestion windows of all lanes that have sent something, in bytes.
    pub congestion_window: u64,
}
