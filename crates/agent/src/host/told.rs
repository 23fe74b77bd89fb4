//! What the log was told of last.

use std::collections::HashMap;
use std::net::IpAddr;

use model::{InterfaceStatus, PortState};
use overlay::Outline;
use units::Instant;

/// Where the round is, and what was told of far hosts.
#[derive(Debug)]
pub struct News {
    /// When the next round may begin.
    pub due: Instant,
    /// Something may have happened since the round began.
    pub is_stirred: bool,
    /// Which port or far host is next in this round.
    pub next: Option<usize>,
    /// How many refusals may be told of in this round.
    pub refusals: u32,
    /// The far hosts as they were told of.
    pub hosts: HashMap<IpAddr, Outline>,
    /// The uplinks' interfaces as they were told of, by address.
    pub interfaces: HashMap<IpAddr, InterfaceStatus>,
}

/// What was told of a port.
#[derive(Clone, Copy, Debug)]
pub struct Told {
    pub state: PortState,
    pub quarantines: u64,
    /// The reasons for which frames were refused, one bit each.
    pub reasons: u32,
}

impl Told {
    /// A port that has just come in this state.
    pub fn new(state: PortState) -> Self {
        Self { state, quarantines: 0, reasons: 0 }
    }
}

impl News {
    pub fn new(now: Instant) -> Self {
        Self {
            due: now,
            is_stirred: true,
            next: None,
            refusals: 0,
            hosts: HashMap::new(),
            interfaces: HashMap::new(),
        }
    }

    /// Something may have happened.
    pub fn stir(&mut self) {
        self.is_stirred = true;
    }

    /// When there is something to do, although nothing else happens.
    pub fn deadline(&self) -> Option<Instant> {
        (self.is_stirred || self.next.is_some()).then_some(self.due)
    }
}
