//! A physical switch between hosts, as a program that owns their interfaces.
//!
//! ```text
//! fabric.toml ─▶ FabricSpec ─▶ PhysicalSwitch::up ─┬─ turn    frames move, as far as their time has come
//!                                                  ├─ report  what was counted
//!                                                  └─ down    nothing is left
//!
//! namespace of host a          │ one thread                                     │ namespace of host b
//! socket ─▶ token bucket ─▶ eth0 ─▶ TapPort ─▶ fabric::Fabric ─▶ TapPort ─▶ eth0 ─▶ the whole stack
//! ```
//!
//! There may be several switches with trunks between them, all in this program:
//! [`Fabrics`](::fabric::Fabrics).
//!
//! What a host sends is lifted no faster than its link's rate, so its sockets wait as they would
//! for a NIC. What becomes of it then is the [`Fabric`](::fabric::Fabric)'s to say. A host that
//! goes on in a lossless class although it was paused is held back as a container is, by its
//! credit: nothing is lost.

mod plan;
mod report;
mod spec;
mod switch;

pub use ::fabric::Tally;
pub use report::{ClassReport, FabricReport};
pub use spec::{FabricPort, FabricSpec, Trunk};
pub use switch::PhysicalSwitch;
