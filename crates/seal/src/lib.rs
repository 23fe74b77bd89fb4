//! The authenticated channel between two hosts.
//!
//! All that a host sends to another goes through a [`Channel`] where the hosts have a key in
//! common: it is *sealed*, so that the far end opens each packet at most once, and only if this
//! host has sent it so. The channel lies below the tunnel's session and knows nothing of it.
//!
//! ```text
//!   session, frames ─▶ seal ─▶ ┌─────────┐ ══ underlay ══▶ ┌─────────┐ ─▶ open ─▶ session, frames
//!                              │ Channel │                 │ Channel │
//!   poll_transmit ◀── due ──── └─────────┘ ◀═ handshake ═▶ └─────────┘
//! ```
//!
//! | subject | source | where |
//! |---|---|---|
//! | one end: its keys, old and new | docs/protocol.md | `channel` |
//! | who begins a handshake, who answers | docs/protocol.md | `initiator`, `responder`, `handshake` |
//! | the handshake's cryptography | Noise, revision 34: NNpsk0 | `noise` |
//! | how often a host does Diffie-Hellman | | `pace` |
//! | sealing and opening | NIST SP 800-38D, RFC 9001 §6.6 | `traffic`, `crypto` |
//! | each packet once | RFC 6479 | `window` |
//! | pre-shared keys | RFC 5869 | `keys` |
//! | BFD's packets with a digest | RFC 5880 §6.7.4 | [`bfd`] |
//! | the wire format | docs/protocol.md, RFC 8926 | `packet` |
//!
//! # Promises
//!
//! - **Nothing is opened that the peer did not seal**, and each packet once at most. In mode
//!   `encrypt` nobody underway can read it.
//! - **Who does not have the pre-shared key** neither ends nor replaces keys, nor has a host do
//!   Diffie-Hellman for more than its peer began, whatever is forged or replayed. It can drop
//!   packets.
//! - **A restart of either end heals** as soon as the network delivers.
//! - **Keys are new** after 2^23 packets or ten minutes of use. A pre-shared key that is known
//!   later opens no packet that was recorded before.
//! - **Sealing and opening allocate nothing** and copy nothing, and no input makes them panic.
//!
//! Time is an argument. Random numbers come from the operating system.

#![forbid(unsafe_code)]

pub mod bfd;
mod channel;
mod config;
mod counters;
mod crypto;
mod handshake;
mod initiator;
mod keys;
mod noise;
mod pace;
mod packet;
mod responder;
mod timer;
mod traffic;
mod window;

pub use channel::{Channel, State};
pub use config::{Config, Ends, Mode};
pub use counters::{Counters, NotSealed, Refusal};
pub use keys::{Fingerprint, Key, Keys, KeysError};
pub use pace::Pace;
pub use packet::{Control, Kind, OVERHEAD, VERSION};
pub use window::WINDOW;
