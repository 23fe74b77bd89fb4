//! The virtual switch of a host.
//!
//! ```text
//!   host.toml ──▶ serve ──┬── main thread: API, metrics, signals, systemd
//!                         │      │ orders ▲ answers
//!                         └── switch thread: Worker ─▶ Host ─▶ ports
//!                                                       └── watch thread: the ports' interfaces
//! ```
//!
//! One thread owns the ports and the switch: it moves frames, and attaches, detaches and counts
//! when it is asked to. The main thread talks to people and programs, and asks the first for
//! whatever it needs to know. A third watches what containers do to their interfaces. [`bfd`] has
//! one of its own as well. Where a service manager keeps descriptors ([`Store`]), a fourth speaks
//! to it. [`serve`] runs them until a signal ends them.

#![forbid(unsafe_code)]

mod addresses;
mod bell;
pub mod bfd;
mod capture;
mod config;
pub mod host;
mod metrics;
mod networks;
mod routes;
mod serve;
mod socket;
mod store;
mod worker;

pub use config::{ConfigError, load, load_networks};
pub use routes::document;
pub use serve::{ServeError, serve};
pub use socket::SocketError;
pub use store::Store;
pub use worker::{Handle, StartError, Stopped, Worker};
