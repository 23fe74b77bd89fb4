//! Bidirectional forwarding detection (RFC 5880): detects within a bounded time that the path to
//! another host fails in either direction.
//!
//! Each end periodically sends its session state. An end that receives nothing for the detection
//! time declares the path down, and reports that to the other end.
//!
//! ```text
//!                             ┌──┐
//!                             │  │ AdminDown, Up, silence
//!                             ▼  │
//!                   Down   ┌────────┐   Init
//!             ┌────────────│  Down  │────────────┐
//!             │            └────────┘            │       on the arrows: what the far end said of itself,
//!             ▼   AdminDown, ▲    ▲   AdminDown, ▼       as RFC 5880 §6.2 draws them
//!         ┌──────┐  silence  │    │   Down,  ┌──────┐
//!         │ Init │───────────┘    └──────────│  Up  │
//!         └──────┘                  silence  └──────┘
//!             └──────────────────────────────────▲
//!                          Init, Up
//! ```
//!
//! A [`Session`] is one end. It implements asynchronous mode in full (§6.8), without authentication
//! and echo packets. If the far end asks for demand mode (§6.6), our periodic packets stop.
//! [`Sessions`] is a table of many, with one timer heap. A packet names its session by a
//! discriminator. If it names none, because its sender has not received a packet of ours yet, the
//! caller finds the session by the packet's addresses or tunnel.
//!
//! The caller also checks what the bytes do not show: over one hop, that the packet arrived with a
//! TTL of [`TTL`](wire::bfd::TTL) (RFC 5881 §5).

mod session;
mod sessions;
mod timers;

use core::num::{NonZeroU8, NonZeroU32};

use units::Span;
use wire::bfd::{Diagnostic, Header, State};

pub use session::Session;
pub use sessions::Sessions;

/// An interval between packets, in the unit of packets: 1 µs to about 71 minutes.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub struct Interval(NonZeroU32);

impl Interval {
    /// `span` in whole microseconds; `None` if that is zero or exceeds 32 bits.
    pub const fn new(span: Span) -> Option<Self> {
        let us = span.as_nanos() / 1_000;
        if us > u32::MAX as u64 {
            return None;
        }
        match NonZeroU32::new(us as u32) {
            Some(us) => Some(Self(us)),
            None => None,
        }
    }

    /// The interval as a span.
    pub const fn span(self) -> Span {
        Span::from_micros(self.0.get() as u64)
    }

    /// Microseconds.
    const fn get(self) -> u32 {
        self.0.get()
    }
}

/// The settings of one end. The effective intervals are negotiated with the far end (RFC 5880
/// §6.8.2).
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Config {
    /// The minimum interval between our packets while the session is up; at least 1 s while it is
    /// not (bfd.DesiredMinTxInterval).
    pub desired_min_tx: Interval,
    /// The minimum interval between the far end's packets that we support
    /// (bfd.RequiredMinRxInterval).
    pub required_min_rx: Interval,
    /// The number of our packets in a row that must be missing before the far end declares the path
    /// down (bfd.DetectMult).
    pub multiplier: NonZeroU8,
    /// Sends nothing until a packet of the far end has arrived (§6.1: the passive role). At least
    /// one of the two ends must be active.
    pub is_passive: bool,
}

/// The state of a session.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Status {
    /// Our state (bfd.SessionState).
    pub state: State,
    /// The reason of its last change, or what was set by [`Session::tell`] (bfd.LocalDiag).
    pub diagnostic: Diagnostic,
    /// The far end's diagnostic in its last packet.
    pub remote_diagnostic: Diagnostic,
}

/// A change of a session's status.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Change {
    /// The status before.
    pub from: Status,
    /// The status now.
    pub to: Status,
}

/// What a session does when a timer expires.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Output {
    /// Send this packet to the far end.
    Send(Header),
    /// The detection time expired.
    Changed(Change),
}

/// Why a packet is discarded (RFC 5880 §6.8.6).
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Refusal {
    /// It names a session that does not exist.
    UnknownSession,
    /// It is authenticated. Our sessions do not use authentication.
    Authenticated,
}
