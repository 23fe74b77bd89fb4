//! The controller: what tenants and operators declare of logical networks, over REST.
//!
//! ```text
//! HTTP ─▶ routes ─▶ catalog: read, checked with all that is there ─▶ store: one revision, durable
//!            ▲                                                          │
//!            └──────── objects, lists at a revision, changes as events ─┤
//!                                                                        ▼
//! agents ◀═ southbound ◀─ telling: what each revision changes in rows ─ networks: hypervisor
//! ```
//!
//! A write is answered once it is durable. What is refused changes nothing, and all that is wrong
//! with it is told at once. Reads and watches come from the store, so they wait for no write.
//!
//! What the objects lead to is computed behind the writes, and told to the agents of hosts, which
//! never touch the store.

#![forbid(unsafe_code)]

mod access;
mod audit;
mod cascade;
mod catalog;
mod certificate;
mod concerns;
mod conditions;
mod counts;
mod door;
mod events;
mod explain;
mod facts;
mod fields;
mod housekeeping;
mod identity;
mod labels;
mod members;
mod metrics;
mod nearby;
mod networks;
mod numbering;
mod objects;
mod outcome;
mod patch;
mod place;
mod problem;
mod progress;
mod restored;
mod routes;
mod selection;
mod serve;
mod shares;
mod statuses;
mod telling;
pub mod tokens;
mod view;
mod watched;
mod whereabouts;

pub use access::Role;
pub use audit::{Audit, Peer};
pub use catalog::{Catalog, OpenError};
pub use certificate::Shown;
pub use door::Door;
pub use explain::{Explained, ObjectHost};
pub use metrics::Metrics;
pub use progress::Progress;
pub use restored::{RestoreError, Restored, restored};
pub use routes::{document, router};
pub use serve::{ServeError, Settings, answer, serve};
pub use telling::Telling;
