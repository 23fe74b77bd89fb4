//! A trunk: a far host as the plane sees it, with the session and the paths behind it.
//!
//! ```text
//!                 ┌ Trunk ───────────────────────────────────────────────────┐
//!   plane ──▶ send│ cut to the MTU ─▶ session: credit, window ─▶ header ─────┼─▶ Underlay ══▶
//!         ◀── poll│ in order ◀─────── session ◀─ slot ◀────────── header ◀───┼── datagram ◀══
//!                 └──────────────────────────────────────────────────────────┘
//! ```
//!
//! Where there is a session, a frame that was sent stays in its sender's slot until the far
//! receiver has consumed it, and is retransmitted from there. A large segment leaves as one
//! datagram where a network card can cut it, or else in parts that fill datagrams, each with its
//! own position in the stream. The far end joins the parts; whoever needs the segments cuts them.
//! The frame is in flight from its first part on, and is completed with its last.
//!
//! Where hosts have a key in common, all packets are sealed on their way out and opened on their
//! way in (`channel`). The session does not know.

mod assembly;
mod channel;
mod config;
mod cut;
mod liveness;
mod maintain;
mod out;
mod outlook;
mod paths;
mod receive;
mod report;
mod segments;
mod send;
mod state;
mod steer;
mod stt;
#[cfg(test)]
mod tests;
mod waiting;

pub use self::config::TrunkConfig;
pub use self::liveness::Liveness;
pub use self::out::{DATA_LEN, OPTIONS_LEN};
pub use self::outlook::{Form, Outlook, SessionOutlook};
pub use self::paths::{Path, pair};
pub use self::report::REASONS;
pub use self::state::Trunk;
pub use self::stt::STT_MTU;
