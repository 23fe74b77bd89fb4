//! A physical switch and the links to its hosts.
//!
//! A [`Fabric`] is told what hosts send and hands out what they receive, each at the time at which
//! a real one would: a frame takes its length at the link's rate, then the link's delay; the switch
//! stores it whole, and so it goes on to its receivers. It owns no memory of frames, no device and
//! no clock. A frame is a handle of its owner's.
//!
//! ```text
//!  host ─send─▶ transmitter ─▶ delay ─▶ loss? ─▶ input's buffer ─▶ lossless::Switch ─▶ transmitter ─▶ delay ─deliver─▶ host
//!                                                │ by class           marks ◀─┘           ▲
//!                                                └─ XOFF, XON: PFC to the sender          └ paused by the host
//! ```
//!
//! Memory is at the input that a frame came by, for each class: a frame takes it when it has
//! arrived and gives it back when its last transmission begins. A lossy class drops what finds it
//! full. A lossless one pauses its sender before (802.1Qbb).
//!
//! Several switches are [`Fabrics`]: what leaves one by a trunk enters the next.
//!
//! **The law.** received = passed + dropped + held, per port and class ([`Fabric::counters`]),
//! after every call. A lossless class drops for want of room only what a host sends although it was
//! paused.

#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

mod code_points;
mod config;
mod counters;
mod fabric;
mod fabrics;
mod forwarding;
mod frames;
mod input;
mod mark;
mod pauses;
mod pfc;
mod port;
mod transmitter;

pub use config::{Buffer, Config, InvalidConfig, PortConfig, PortFault, Route};
pub use counters::{Counters, DropReason, Tally};
pub use fabric::{Delivery, Fabric, Released, Sent};
pub use fabrics::{Fabrics, Place};
pub use mark::mark;
pub use pfc::{Link, PFC_FRAME, Pfc, Thresholds};
