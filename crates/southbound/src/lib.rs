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
//! have and no other has. Domains that it has no port in cost it nothing: it is not woken for them.
//! A port that comes and goes again and again has its domain followed until it is calm. Now and
//! then an agent is asked whether it still executes what it has answered for.
//!
//! # What messages do not have
//!
//! - **Several domains in one answer.** An Ack stands for its domain's generations up to that one.
//!   An update of a domain is sent once the one before it was answered, so there is nothing to
//!   collect.
//! - **Lists of capabilities.** A field that one end may not know is added as it is; what an end
//!   has to know is a new version, and both ends say which they speak.
//! - **When to connect again.** [`Backoff`] is an agent's own: a controller that cannot answer
//!   cannot say so either.

mod agent;
mod convert;
mod damping;
mod publisher;
mod server;

pub use agent::{
    Backoff, ConnectError, Connection, Execute, FollowError, Node, Ports, Proof, connect, follow,
};
pub use convert::Malformed;
pub use publisher::{Change, Ended, Executing, Holding, Nodes, Place, Publisher};
pub use server::{Admit, Credentials, Everybody, serve};
pub use tonic::transport::Error as ServeError;

/// The messages, as the compiler of protocols made them.
#[expect(missing_docs, clippy::pedantic, reason = "the protocol's file has the words")]
pub mod proto {
    tonic::include_proto!("zovn.southbound.v1");
}

/// The versions of the protocol that this end speaks.
pub const VERSIONS: std::ops::RangeInclusive<u32> = 1..=1;
