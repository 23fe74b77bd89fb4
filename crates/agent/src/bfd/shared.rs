//! What BFD's thread and its owner share: paths, settings, orders and bells.

use std::net::IpAddr;
use std::num::NonZeroU8;
use std::sync::Arc;

use seal::Keys;
use tunnel::bfd::Interval;
use units::{Dscp, Span};
use wire::bfd::SOURCE_PORTS;

use super::health::{Counters, Watch};
use crate::bell::Bell;

/// The most paths at one address: the number of source ports (RFC 5881 §4).
pub const MOST: usize = (*SOURCE_PORTS.end() - *SOURCE_PORTS.start()) as usize + 1;

/// A path between two hosts. It has one session (RFC 5881 §3).
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub struct Path {
    /// Our address.
    pub local: IpAddr,
    /// The other host's address.
    pub remote: IpAddr,
}

/// The settings of all sessions.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The address at which packets are received; if unspecified, all addresses of its family.
    pub address: IpAddr,
    /// The minimum interval between packets in each direction while a session is up.
    pub interval: Interval,
    /// The number of packets in a row that must be missing before the path is down.
    pub multiplier: NonZeroU8,
    /// The code point of sent packets.
    pub dscp: Dscp,
    /// The keys by which packets are authenticated, if they are.
    pub keys: Option<Arc<Keys>>,
}

impl Settings {
    /// The default interval. With the default multiplier a cut is detected within 300 ms.
    pub const INTERVAL: Interval =
        Interval::new(Span::from_millis(100)).expect("it is some microseconds");

    /// The default multiplier.
    pub const MULTIPLIER: NonZeroU8 = NonZeroU8::new(3).expect("it is not 0");

    /// The defaults, at an address. The code point is that of network control, so that these
    /// packets do not wait behind data.
    pub const fn new(address: IpAddr) -> Self {
        let (interval, multiplier) = (Self::INTERVAL, Self::MULTIPLIER);
        Self { address, interval, multiplier, dscp: Dscp::CS6, keys: None }
    }
}

/// An order to the thread.
pub enum Order {
    Open(Path, Arc<Watch>),
    Close(Path),
    SetKeys(Arc<Keys>),
}

/// The state that the thread and its owner share.
#[derive(Debug)]
pub struct Shared {
    /// Wakes the thread.
    pub ordered: Bell,
    /// Wakes the owner.
    pub changed: Bell,
    pub counters: Counters,
}
