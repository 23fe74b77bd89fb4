//! Where frames go. This crate decides, and `lossless` queues.
//!
//! ```text
//!  a port's frame ─▶ Datapath::visit ─▶ Decision: class, and to whom, or why to nobody
//!
//!  NetworkSpec ─▶ Directory ─▶ VirtualNetwork ─▶ Place: this port here, or that port of that host
//!                                    │
//!  a port's frame ─is_question─▶ answer ─▶ back to the port: who has an address, what is too long
//! ```
//!
//! A [`Datapath`] knows ports and networks. It parses a frame's header into a flow key, and looks
//! for an action in its caches; if there is none, it asks its stages. No frame leaves its network.
//!
//! A virtual network is known whole on every host, so nothing is flooded to find a machine, and no
//! question for an address leaves the host that it is asked on. A [`Directory`] is made of one
//! generation of networks and never changes: who has a newer one lets go of the older.
//!
//! The crate knows nothing of ports, tunnels or time.

#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

mod address;
mod answer;
mod cache;
mod decide;
mod directory;
mod flaps;
mod groups;
mod key;
mod l2;
mod network;
mod remote;
mod spoof;
mod storm;
mod vlan;

pub use answer::{Answer, LONGEST_ANSWER, answer, is_question};
pub use decide::{
    Datapath, Decision, Explained, Fate, MacEntry, PortConfig, Settings, Verdict, Visit,
    is_link_local,
};
pub use directory::{CannotReach, Directory, Labelled, Place, VirtualNetwork};
pub use flaps::Flap;
pub use network::Network;
pub use remote::{Declared, Origin, Peer, Remote};
pub use spoof::{Behind, Sender, is_spoofed};
pub use storm::StormLimits;
pub use vlan::{Retag, Vlans};
