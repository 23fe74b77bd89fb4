//! Guests: virtual machines that boot in seconds, whose network interfaces are vhost-user ports of
//! a switch.
//!
//! ```text
//!    Kernel ─┐                        ┌───────────── QEMU, emulated ─────────────┐
//!            ├─▶ Image ─▶ Guest::boot │ init ─▶ agent ─┬─ programs ── eth0, eth1 │
//!  programs ─┘                        └──────▲─────────┴──────────────▲──────────┘
//!                                            │ run, spawn             │ vhost-user
//!                                          Guest                the switch under test
//! ```
//!
//! A guest is asked to run programs, and tells what they said and how they ended, over a channel of
//! its own: the network under test is not needed for it. A guest that is paused, whose network is
//! unplugged or whose switch is gone is still in our hands. See docs/guests.md.
//!
//! Guests and hosts are x86-64. Everything in a guest is emulated: its times say nothing about a
//! switch.

mod agent;
mod archive;
mod control;
mod elf;
mod emulator;
mod error;
mod image;
mod kernel;
mod machine;
mod protocol;
mod qmp;
mod spec;

pub use agent::serve;
pub use error::GuestError;
pub use image::Image;
pub use kernel::Kernel;
pub use machine::{Booting, Guest, Running};
pub use spec::{Features, GuestSpec, Nic, Socket};
