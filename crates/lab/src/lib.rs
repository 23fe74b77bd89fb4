//! A laboratory on one machine: endpoints, their links and the switch under test, as network
//! namespaces.
//!
//! ```text
//! lab.toml ─▶ LabSpec ─▶ Lab::up ─┬─ command   programs inside endpoints
//!                                 ├─ counters  what was counted, place by place
//!                                 └─ down      nothing is left
//! ```
//!
//! Whatever the switch is (the kernel's bridge, Open vSwitch, zovn with or without its promise), an
//! endpoint's rate and buffer mean the same: frames of the MTU, shaped and queued at the switch's
//! port towards that endpoint. So what differs between two runs is the switch.
//!
//! Switches for virtual machines are beside it, in [`vhost`]: there is no kernel between their
//! endpoints.
//!
//! Hosts that come and go with what is tested, and machines that send and get raw frames, are a
//! [`Rack`].
//!
//! The switch between *hosts* is in [`physical`]: a program with the rates, delays, buffers and
//! pauses of a real one.
//!
//! Everything that a lab makes is written down under /run/zovn/lab, named after the lab's id, and
//! removed when the [`Lab`] is dropped. What a killed process leaves behind is found there: see
//! [`Home`].

#![forbid(unsafe_code)]

mod agent;
mod bridge;
mod cable;
mod counters;
mod endpoint;
mod error;
pub mod guest;
mod home;
mod hosts;
mod hugepages;
mod installed;
mod lab;
mod networks;
mod ovs;
pub mod physical;
mod process;
mod program;
mod rack;
mod site;
mod spec;
mod threads;
pub mod vhost;
mod wire;

// Whoever asks a lab's agent.
pub use api::Client;
pub use counters::{
    Counters, DeviceCounters, EndpointCounters, HostLink, PortCounters, QueueCounters,
};
pub use endpoint::INTERFACE;
pub use error::LabError;
pub use home::{Found, Home, Record, State};
pub use hosts::{
    Cable, Controller, ControllerSpec, Declared, HostsSpec, ParseCableError, PhysicalKind,
    PhysicalSpec, Topology, check_wireguard,
};
pub use hugepages::{HUGEPAGE_BYTES, Hugepages};
pub use lab::Lab;
pub use program::{find, nft};
pub use rack::{Machine, Rack};
pub use spec::{Endpoint, EndpointSpec, LabSpec, NetworkTerms, ParseSwitchError, SwitchKind};
pub use threads::ThreadTime;
pub use wire::Wire;
