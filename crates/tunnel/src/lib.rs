//! What two switches say to each other across a fabric, so that nothing between them is lost.
//!
//! A [`Session`] is one end of a tunnel between two hosts. It owns no clock, no socket and no bytes: frames are known to it
//! by handles of its owner's, and it says which may go, which have to go again, which came in order, and which the far
//! receiver has taken.
//!
//! ```text
//!               admit, send, resend ─▶ Data                         arrived ─▶ in order, once
//!  local switch ──────────────────▶ ┌─────────┐ ══ fabric ══▶ ┌─────────┐ ──────────────▶ far switch
//!               ◀────────────────── │ Session │               │ Session │ ◀──────────────
//!                     completed     └─────────┘ ◀═══════════  └─────────┘     taken
//!                                                 Report
//! ```
//!
//! Frames of one stream, which is a label (the far egress) and a class, keep their order; streams do not wait for each other.
//! Two things bound a stream: the far receiver's *credit*, in bytes from the stream's beginning, and the session's
//! *window*, by which what all streams have in the fabric is kept to what the fabric carries. A sender completes a frame,
//! so that the guest has its buffer back, when the far receiver has taken it: until then the sender's own ring is the
//! retransmit buffer, and no failure of the far host loses anything.
//!
//! | subject | source | where |
//! |---|---|---|
//! | who is there, in which incarnation | docs/protocol.md | `session`, `greeting` |
//! | packet numbers, acknowledged ranges | RFC 9000 §12.3, §13.2, §19.3, A.3 | `ranges`, `number` |
//! | streams as they go out, and credit as cumulative limits | RFC 9000 §4.1 | `outgoing`, `outbound`, `asking` |
//! | streams as they come in | RFC 9000 §2.2, §4.1 | `incoming`, `inbound`, `handed` |
//! | memory for what comes, divided among streams | Choudhury and Hahne (1998) | [`places`] |
//! | detection of loss, probe timeouts | RFC 9002 §5, §6 | `recovery` |
//! | the window | RFC 9002 §7, RFC 8257 | `window` |
//! | how it looks on the wire | docs/protocol.md | `message` |
//!
//! Beside it, [`outer`] is what goes around a frame on its way, and [`bfd`] tells whether that way works at all.
//!
//! Whatever the fabric does, delaying, losing, repeating or reordering, every frame that was sent is delivered once and in
//! its stream's order, or still held by its sender; of classes whose lost packets are not sent again, every frame that the fabric
//! brings in time is. If one end begins anew with nothing remembered, what had been delivered and not been told of is
//! delivered again. A incarnation of the far end is believed once it has named ours, so that nothing stray ends a session.

#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

pub mod bfd;
mod congestion;
mod delivered;
mod handshake;
mod large;
pub mod message;
mod number;
pub mod outer;
pub mod quota;
mod ranges;
mod receive_stream;
mod receiver;
mod recovery;
mod send_stream;
mod sender;
mod session;
mod window_probe;

pub use message::{Data, Hello, Incarnation, Part, Report, Stream, Unsolicited};
/// The longest frame that is carried, in bytes, whole or in parts: a packet of 64 KiB behind an Ethernet header, with room to spare.
pub const MAX_FRAME_LEN: u32 = 66 << 10;

pub use session::{Admission, Arrival, Counters, Epoch, PathMetrics, Payload, Session, SessionConfig};
