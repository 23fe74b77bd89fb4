//! A frame between two hosts, or between two steps of one.

use alloc::vec::Vec;

use logical::objects::{Identity, Kind};

/// A frame on its way to a port, on this host or another. The port's own host decides whether it
/// arrives. To a router's port it is on its way to the one host where that router translates.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Onward {
    /// The port.
    pub to: Identity,
    /// The port that it came from. `None`: from outside, or its source is translated.
    pub origin: Option<Identity>,
    /// Whether the network itself sends it on: defaults do not speak of it.
    pub is_networks: bool,
    /// Through how many routers it has come.
    pub routers: u8,
    /// The frame.
    pub frame: Vec<u8>,
}

impl Onward {
    /// Whether it goes on to a router: [`Net::route`](crate::Net::resume) decides there.
    pub fn is_to_router(&self) -> bool {
        self.to.kind == Kind::RouterPort
    }
}
