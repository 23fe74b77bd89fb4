//! How controllers tell agents what to execute.
//!
//! ```text
//!  controller                                             agent
//!  Publisher: domains, ports' places     gRPC, one        Follow: a Follower, and whoever
//!     └ Session of each agent ══════════ stream each ═══════════▶ executes what it is given
//! ```
//!
//! What is sent, and when, is decided by crate `replica`; here are the messages
//! (`proto/southbound.proto`), the controller's end ([`Publisher`], [`serve`]), and the agent's
//! ([`follow`]).
//!
//! An agent says which logical ports it has, and is sent the domains of those that its node may
//! have. Domains that it has no port in cost it nothing: it is not woken for them.

mod agent;
mod convert;
mod publisher;
mod server;

pub use agent::{
    Backoff, ConnectError, Connection, Execute, FollowError, Node, Ports, Proof, connect, follow,
};
pub use convert::Malformed;
pub use publisher::{Change, Ended, Executing, Place, Publisher};
pub use server::{Admit, Credentials, Everybody, serve};
pub use tonic::transport::Error as ServeError;

/// The messages, as the compiler of protocols made them.
#[expect(missing_docs, clippy::pedantic, reason = "the protocol's file has the words")]
pub mod proto {
    tonic::include_proto!("zovn.southbound.v1");
}

/// The versions of the protocol that this end speaks.
pub const VERSIONS: std::ops::RangeInclusive<u32> = 1..=1;
