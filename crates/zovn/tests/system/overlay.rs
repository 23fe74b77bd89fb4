//! Virtual networks across hosts as a whole: an agent on each, tunnels between them, and a physical
//! switch (`zovn fabric`).

mod classes;
mod controller;
mod held;
mod interface;
mod keys;
mod linux;
mod lives;
mod logical;
mod memory;
mod moving;
mod mtu;
mod neighbours;
pub mod numbered;
mod packets;
mod parts;
mod ports;
mod promises;
mod rate;
mod reach;
mod repeated;
mod sharing;
mod silence;
mod stt;
mod uplinks;
mod world;
