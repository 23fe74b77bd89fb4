//! `zovn plan serve`: schedulers ask over HTTP which hosts take a machine.
//!
//! ```text
//!  kube-scheduler ─▶ /k8s/filter, /k8s/prioritize ─┐            desk: one thread
//!  nova-scheduler ─▶ /v1/plan/hosts ───────────────┼─ bodies ─▶ scheduler: plan, what is assumed
//!  Prometheus ─────▶ /metrics ─────────────────────┘                 └▶ placement::Vacancies
//!  agents ◀─ observed: how long senders were paused, and by ports which machines are there
//! ```
//!
//! Connections may be encrypted, and clients be asked for a certificate (`entrance`).
//! A question is read, answered and written (`exchange`) by one thread (`desk`), one after another,
//! so that each sees what was assumed of the one before. A new plan is made ready beside the one
//! that is served, and takes its place.

mod bounded;
mod counts;
mod desk;
mod entrance;
mod exchange;
mod extender;
mod http;
mod nova;
mod observed;
mod ports;
mod problem;
mod quantity;
mod refusals;
mod scheduler;
mod unlisted;
mod word;

pub use entrance::{Encryption, Entrance};
pub(crate) use exchange::{Question, respond};
pub use http::{Options, ServeError, router, serve};
pub(crate) use scheduler::{Scheduler, by_model};
