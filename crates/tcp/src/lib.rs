//! A TCP endpoint, without a network.
//!
//! An [`Endpoint`] is one side of one connection. It owns no clock, no socket and no bytes: payload
//! is counted, not carried, and a [`Segment`] says which stretch of the stream it stands for. Its
//! owner tells it what the application writes and reads, what arrives and what time it is, and
//! takes out what is to be sent:
//!
//! ```text
//!                write, read, close                      poll_transmit ─▶ Segment
//!  application ─────────────────────▶ ┌──────────────┐ ──────────────────────────▶ network
//!              ◀───────────────────── │   Endpoint   │ ◀──────────────────────────
//!              delivered, peer_closed └──────────────┘  handle(Segment, marked)
//!                                        ▲        │
//!                        handle_deadline │        ▼ next_deadline
//!                                          clock
//! ```
//!
//! After every call that may have changed something, call [`Endpoint::poll_transmit`] until it has
//! no more, then ask for [`Endpoint::next_deadline`].
//!
//! Inside are two halves. The receiver puts the stream together, owes acknowledgements and opens
//! its window. The sender keeps the books of what is in flight (the scoreboard), estimates the
//! round trip, decides what is lost and how much may be in flight. Windows are counted in segments,
//! as Linux counts them, not in bytes.
//!
//! | subject | source | where |
//! |---|---|---|
//! | connections, windows, silly windows, probes | RFC 9293, 5961, 1337 | `endpoint`, `send`, `receive` |
//! | window scale, timestamps, PAWS | RFC 7323 | `endpoint`, `receive` |
//! | SACK, DSACK | RFC 2018, 2883 | `receive`, `scoreboard` |
//! | timeouts | RFC 6298 | `rtt` |
//! | fast recovery | RFC 6675 with SACK, 6582 without; 3042, 6937 | `recovery` |
//! | time-based loss detection, tail loss probes | RFC 8985 | `rack` |
//! | undoing what was not needed | RFC 3522, 4015, 3708 | `recovery` |
//! | congestion control | RFC 5681, 9438, 8257, 3168; Vegas and HyStart as in Linux | `control` |
//!
//! Where RFCs and Linux part, it goes with Linux:
//!
//! - What is halved is the window, not what is in flight (RFC 5681 §3.1), and what is delivered
//!   grows it, however few acknowledgements say so (RFC 3465 allows two segments for each).
//! - A copy that is lost is sent again, but does not shrink the window once more (RFC 5681 §4.3).
//! - RACK grows more patient by duplicates only where segments were seen to overtake each other
//!   (RFC 8985 §6.2), and the probe of a single segment takes the place of the timeout.
//! - What is undone is the window; CUBIC's curve begins anew (RFC 9438 §4.9).
//! - Reports of a gap that is known wait a little for each other (RFC 5681 §4.2 wants each at
//!   once).
//! - CUBIC grows by a twentieth of its window each round trip while nothing was ever lost.
//! - The variation of round trips does not fall below the minimum timeout, so that this comes on
//!   top of the round trip.
//!
//! It goes with the RFCs where Linux is only older: CUBIC's growth below its curve (RFC 9438 §4.3),
//! the rescue retransmission (RFC 6675 §4) in stacks without RACK, and the echo that tells RACK
//! which copy has arrived (RFC 8985 §6.2).
//!
//! Not here: F-RTO, pacing, buffers that tune themselves, urgent data, keep-alives, giving up. A
//! sender tries for ever; its owner may [`Endpoint::abort`] it.

#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

mod bursts;
mod config;
mod control;
mod endpoint;
mod rack;
mod receive;
mod recovery;
mod rtt;
mod scoreboard;
mod segment;
mod send;
mod sent;

pub use config::{Config, Control, Nagle, Profile, Rto, UnknownName};
pub use endpoint::{Endpoint, State, Stats};
pub use segment::{SackBlocks, Segment, SynOptions, Timestamps};
pub use wire::tcp::Flags;

use units::Instant;

/// The deadline of a timer that is not running.
const NEVER: Instant = Instant::from_nanos(u64::MAX);
