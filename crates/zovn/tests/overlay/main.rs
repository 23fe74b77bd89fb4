//! Virtual networks across hosts as a whole: an agent on each, tunnels between them, and a physical switch (`zovn fabric`).

mod classes;
#[allow(dead_code, reason = "other tests use more of it")]
#[path = "../common/mod.rs"]
mod common;
mod held;
mod linux;
mod lives;
mod memory;
mod mtu;
mod numbered;
mod reach;
mod silence;
mod stt;
#[path = "../../../wire/tests/tshark/mod.rs"]
mod tshark;
mod uplinks;
mod world;
