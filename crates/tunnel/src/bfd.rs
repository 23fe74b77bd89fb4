//! Whether the way to another host works, both ways: sessions of bidirectional forwarding detection
//! (RFC 5880).
//!
//! Each end tells the other every so often what it makes of the session. Who hears nothing for the
//! detection time takes the way for cut, and says so.
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
//! A [`Session`] is one end: asynchronous mode in full (§6.8), without authentication and echoes;
//! if the far end asks for demand mode (§6.6), it is spared our periodic packets. [`Sessions`] are
//! many with one clock, which a packet finds by the discriminator that it names. A packet that
//! names none (its sender has not heard us yet) is its caller's to place: by its addresses, or by
//! the tunnel that it came through.
//!
//! What has to be known of a packet besides its bytes is the caller's too: over one hop, that it
//! came with all [`TTL`](wire::bfd::TTL) hops left (RFC 5881 §5).

mod session;
mod sessions;
mod timers;

use core::num::{NonZeroU8, NonZeroU32};

use units::Span;
use wire::bfd::{Diagnostic, Header, State};

pub use session::Session;
pub use sessions::Sessions;

/// A time between two packets, as packets say it: 1 µs to some 71 minutes.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub struct Interval(NonZeroU32);

impl Interval {
    /// The whole microseconds of `span`; `None` if they are none, or do not fit 32 bits.
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

    /// How long it is.
    pub const fn span(self) -> Span {
        Span::from_micros(self.0.get() as u64)
    }

    /// Microseconds.
    const fn get(self) -> u32 {
        self.0.get()
    }
}

/// What an end asks for. What comes of it is agreed upon with the far end, which has wishes of its
/// own (RFC 5880 §6.8.2).
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Config {
    /// The least time between our packets while the session is up; before, it is 1 s at least
    /// (bfd.DesiredMinTxInterval).
    pub desired_min_tx: Interval,
    /// The least time between the far end's packets that we can bear (bfd.RequiredMinRxInterval).
    pub required_min_rx: Interval,
    /// Once so many of our packets in a row are missing, the far end is to take the way for cut
    /// (bfd.DetectMult).
    pub multiplier: NonZeroU8,
    /// Say nothing before the far end has spoken (§6.1: the passive role). Of two ends, one at
    /// least must be active.
    pub is_passive: bool,
}

/// How a session stands.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Status {
    /// What we make of it (bfd.SessionState).
    pub state: State,
    /// Why that changed last, or what we have told of the ways beyond ([`Session::tell`];
    /// bfd.LocalDiag).
    pub diagnostic: Diagnostic,
    /// What the far end said last of the same.
    pub remote_diagnostic: Diagnostic,
}

/// A session's status is another.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Change {
    /// What it was.
    pub from: Status,
    /// What it is.
    pub to: Status,
}

/// What time asks for.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Output {
    /// To be sent to the far end.
    Send(Header),
    /// The far end was silent for too long.
    Changed(Change),
}

/// Why a packet is not taken (RFC 5880 §6.8.6).
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Refusal {
    /// It names a session that is not there.
    UnknownSession,
    /// It is authenticated, which no session here is.
    Authenticated,
}
