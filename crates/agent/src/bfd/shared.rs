//! What BFD's thread and its owner both know: paths, settings, orders and bells.

use std::net::IpAddr;
use std::num::NonZeroU8;
use std::sync::Arc;

use tunnel::bfd::Interval;
use units::{Dscp, Span};
use wire::bfd::SOURCE_PORTS;

use super::health::{Counters, Watch};
use crate::bell::Bell;

/// The most paths at one address: as many as there are source ports (RFC 5881 §4).
pub const MOST: usize = (*SOURCE_PORTS.end() - *SOURCE_PORTS.start()) as usize + 1;

/// A path between two hosts: one session (RFC 5881 §3).
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub struct Path {
    /// Our address.
    pub local: IpAddr,
    /// The other host's.
    pub remote: IpAddr,
}

/// What is asked of every session.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Settings {
    /// Where packets come to: an address of ours, or all of its family if it is unspecified.
    pub address: IpAddr,
    /// The least time between two packets, in each direction, while a session is up.
    pub interval: Interval,
    /// Once so many packets in a row are missing, the path is down.
    pub multiplier: NonZeroU8,
    /// The code point of what is sent.
    pub dscp: Dscp,
}

impl Settings {
    /// The interval unless it is told: a path that is cut is noticed within 300 ms.
    pub const INTERVAL: Interval =
        Interval::new(Span::from_millis(100)).expect("it is some microseconds");

    /// The multiplier unless it is told.
    pub const MULTIPLIER: NonZeroU8 = NonZeroU8::new(3).expect("it is not 0");

    /// Every 100 ms, with a multiplier of 3: what keeps a network together is not to wait behind
    /// what it carries.
    pub const fn new(address: IpAddr) -> Self {
        Self { address, interval: Self::INTERVAL, multiplier: Self::MULTIPLIER, dscp: Dscp::CS6 }
    }
}

/// An order to the thread.
pub enum Order {
    Open(Path, Arc<Watch>),
    Close(Path),
}

/// What the thread and its owner both see.
#[derive(Debug)]
pub struct Shared {
    /// Rung for the thread.
    pub ordered: Bell,
    /// Rung by the thread.
    pub changed: Bell,
    pub counters: Counters,
}
