//! The tunnel protocol between two switches: nothing between them is lost.
//!
//! A [`Session`] is one end of a tunnel between two hosts. It has no clock, no socket and no bytes:
//! its owner gives frames handles, and the session says which may be sent, which are to be
//! retransmitted, which were received in order, and which the far receiver has consumed.
//!
//! ```text
//!        admit, send, retransmit ─▶ Data                        arrived ─▶ in order, once
//!  local switch ─────────────────▶ ┌─────────┐ ══ fabric ══▶ ┌─────────┐ ────────────▶ far switch
//!               ◀───────────────── │ Session │               │ Session │ ◀────────────
//!                    completed     └─────────┘ ◀═══════════  └─────────┘    consumed
//!                                                Report
//! ```
//!
//! A stream is a label (the far egress) and a class. Its frames keep their order; streams do not
//! wait for each other. Two limits bound a stream: the *credit* of the far receiver, in bytes from
//! the stream's beginning, and the *congestion window* of its lane. A frame is completed, so
//! that the guest has its buffer back, when the far receiver has consumed it. Until then the
//! sender's own ring is the retransmit buffer, and no failure of the far host loses anything.
//!
//! | subject | source | where |
//! |---|---|---|
//! | settings, what a session tells its owner | | `config`, `exchange` |
//! | handshake, incarnations | docs/protocol.md | `session`, `handshake` |
//! | packet numbers, acknowledged ranges | RFC 9000 §12.3, §13.2, §19.3, A.3 | `ranges`, `number` |
//! | sending, credit, window probes | RFC 9000 §4.1 | `sender`, `send_stream`, `window_probe` |
//! | receiving | RFC 9000 §2.2, §4.1 | `receiver`, `receive_stream`, `delivered` |
//! | receive memory | Choudhury and Hahne (1998) | [`quota`] |
//! | credit for a link that many send to | | [`grants`] |
//! | loss detection, probe timeouts | RFC 9002 §5, §6 | `recovery`, `large` |
//! | the congestion window, and whose it is | RFC 9002 §7, RFC 8257 | `congestion`, `lanes` |
//! | the wire format | docs/protocol.md | `message`, `context`, `answer` |
//!
//! Beside it, [`outer`] encapsulates frames, and [`bfd`] watches whether a path works.
//!
//! The fabric may delay, lose, duplicate or reorder packets. Each frame of a reliable class is
//! delivered once and in its stream's order, or still held by its sender; of an unreliable class,
//! each frame that arrives in time. If one end begins a new incarnation, frames that were delivered
//! and not reported are delivered again. A session accepts a new incarnation of its peer only once
//! that has named a random number that was told to nobody else, so nobody ends it who does not see
//! its packets.

#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

mod answer;
pub mod bfd;
mod config;
mod congestion;
mod context;
mod delivered;
mod exchange;
pub mod grants;
mod handshake;
mod lanes;
mod large;
pub mod message;
mod number;
pub mod outer;
pub mod quota;
mod ranges;
mod receive_stream;
mod receiver;
mod recovery;
mod returns;
mod send_stream;
mod sender;
mod session;
mod window_probe;

pub use answer::Answer;
pub use config::{MAX_FRAME_LEN, SessionConfig};
pub use context::{Context, ContextFlags};
pub use exchange::{Admission, Arrival, Counters, Epoch, Lane, PathMetrics, Payload};
pub use message::{Data, Hello, Incarnation, Part, Report, Return, Stream, Tag, Unsolicited};
pub use session::Session;
