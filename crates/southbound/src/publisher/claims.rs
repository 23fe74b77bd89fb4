//! The ports that an agent says it has.
//!
//! A port that comes has its domain followed at once. One that goes has it dropped at once, too,
//! unless it comes and goes again and again: then it *lingers*, and its domain is followed until it
//! is calm ([`crate::damping`]). So a port that flaps costs its domain once, not each time.

use std::collections::BTreeSet;

use replica::Name;
use units::Instant;

use crate::damping::{Damper, Terms};

/// How many ports are remembered before those that have been gone for long are forgotten, beside
/// twice those that were left the last time.
const UNSWEPT: usize = 256;

/// The ports of one agent.
#[derive(Debug)]
pub struct Claims {
    ports: BTreeSet<Name>,
    lingering: BTreeSet<Name>,
    /// Whether each port is there, as far as its domain is followed for it.
    damper: Damper<Name, bool>,
    /// How many inputs the damper had when it was swept last.
    swept: usize,
}

impl Default for Claims {
    fn default() -> Self {
        let (ports, lingering) = Default::default();
        Self { ports, lingering, damper: Damper::new(Terms::default()), swept: 0 }
    }
}

impl Claims {
    /// A port has come.
    pub fn attach(&mut self, now: Instant, port: &Name) {
        self.ports.insert(port.clone());
        self.lingering.remove(port);
        self.damper.press(now, port.clone(), true);
        if self.damper.len() > 2 * self.swept + UNSWEPT {
            self.damper.sweep(now, |is_there| !is_there);
            self.swept = self.damper.len();
        }
    }

    /// A port has gone. Whether it does not linger.
    pub fn detach(&mut self, now: Instant, port: &Name) -> bool {
        if self.ports.remove(port) && self.damper.offer(now, port.clone(), false).is_none() {
            self.lingering.insert(port.clone());
        }
        !self.lingering.contains(port)
    }

    /// The ports that linger no more.
    pub fn poll(&mut self, now: Instant) -> Vec<Name> {
        let mut calm = Vec::new();
        while let Some((port, _)) = self.damper.poll(now) {
            self.lingering.remove(&port);
            calm.push(port);
        }
        calm
    }

    /// When to ask next.
    pub fn next_deadline(&self) -> Option<Instant> {
        self.damper.next_deadline()
    }

    /// The agent is not connected any more, so nothing lingers. Returns what did.
    pub fn let_go(&mut self) -> BTreeSet<Name> {
        self.damper = Damper::new(Terms::default());
        std::mem::take(&mut self.lingering)
    }

    /// The ports that it has.
    pub fn ports(&self) -> impl Iterator<Item = &Name> {
        self.ports.iter()
    }

    /// The ports that it has no more, whose domains it has still.
    pub fn lingering(&self) -> impl Iterator<Item = &Name> {
        self.lingering.iter()
    }

    /// Whether it had a port whose domain it has still.
    pub fn lingers(&self, port: &str) -> bool {
        self.lingering.contains(port)
    }

    /// Whether it has a port.
    pub fn has(&self, port: &str) -> bool {
        self.ports.contains(port)
    }

    /// How many ports it has.
    pub fn len(&self) -> usize {
        self.ports.len()
    }

    /// How many it has, or had a while ago.
    pub fn remembered(&self) -> usize {
        self.damper.len()
    }

    /// How many linger.
    pub fn held(&self) -> usize {
        self.lingering.len()
    }
}
