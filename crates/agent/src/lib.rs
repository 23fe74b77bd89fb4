//! The virtual switch of a host.
//!
//! ```text
//!   host.toml ──▶ serve ──┬── main thread: API, metrics, signals, systemd
//!                         │      │ orders ▲ answers
//!                         └── switch thread: Worker ─▶ Host ─▶ ports
//!                                                       └── watch thread: the ports' interfaces
//! ```
//!
//! The switch thread owns the ports and the switch: it moves frames, and executes orders. The main
//! thread serves the API, and sends orders to the switch thread. The watch thread inspects the
//! containers' interfaces. [`bfd`] has a thread of its own, and so has the [`Store`], which sends
//! messages to the service manager. [`serve`] runs all of them until a signal ends them.

#![forbid(unsafe_code)]

mod addresses;
mod bell;
pub mod bfd;
mod capture;
mod config;
mod exporter;
mod following;
pub mod host;
mod journal;
mod keys;
mod logical;
mod metrics;
mod networks;
mod routes;
mod serve;
mod socket;
mod store;
mod worker;

pub use config::{ConfigError, load, load_networks};
pub use following::{Follows, Keeper, Rows};
pub use host::Ending;
pub use journal::Journal;
pub use keys::{KeyFileError, check_key};
pub use logical::{Logical, StartError as LogicalStartError};
pub use routes::document;
pub use serve::{ServeError, serve};
pub use socket::SocketError;
pub use southbound::Proof;
pub use store::Store;
pub use worker::{Handle, StartError, Stopped, Worker};
