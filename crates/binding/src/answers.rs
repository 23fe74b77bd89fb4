//! What networks themselves hand to machines: answers, and copies of what is for several of those
//! that are behind one port.
//!
//! How often a port may be answered is the networks' own rule ([`pipeline::State::may_answer`]).
//! Who does not take its answers gets no more than wait for it, and delays nobody else's. Whoever
//! needs an answer asks again.

use alloc::collections::VecDeque;
use alloc::vec::Vec;

use lossless::PortId;
use packet::answer::MOST_A_SECOND;

/// How many answers may wait for one port.
const MOST_WAITING: usize = MOST_A_SECOND as usize;

/// Answers that wait for their askers' ports.
#[derive(Debug, Default)]
pub struct Answers {
    /// By port number.
    askers: Vec<VecDeque<Vec<u8>>>,
    /// Ports with answers, in the order in which they asked.
    waiting: VecDeque<PortId>,
    /// How many were given, and how many were not, as a port asked too much.
    pub given: u64,
    pub rate_limited: u64,
}

impl Answers {
    /// A port gets an answer of the network's, or a copy of a frame that is for many, unless too
    /// much waits for it.
    pub fn push(&mut self, port: PortId, frame: Vec<u8>) {
        if self.room(port) == 0 {
            self.rate_limited += 1;
            return;
        }
        if self.askers.len() <= port.index() {
            self.askers.resize_with(port.index() + 1, VecDeque::new);
        }
        let asker = &mut self.askers[port.index()];
        if asker.is_empty() {
            self.waiting.push_back(port);
        }
        asker.push_back(frame);
    }

    /// How much more may wait for a port.
    pub fn room(&self, port: PortId) -> usize {
        let waiting = self.askers.get(port.index()).map_or(0, VecDeque::len);
        MOST_WAITING.saturating_sub(waiting)
    }

    /// Nothing is left for a port.
    pub fn forget(&mut self, port: PortId) {
        self.waiting.retain(|asker| *asker != port);
        if let Some(asker) = self.askers.get_mut(port.index()) {
            *asker = VecDeque::new();
        }
    }

    /// Hands out what waits. `transmit` returns whether an answer is done with; if not, it and what
    /// is behind it for the same port go on waiting.
    pub fn poll_transmit(&mut self, mut transmit: impl FnMut(PortId, &[u8]) -> bool) {
        let Self { askers, waiting, given, .. } = self;
        waiting.retain(|port| {
            let asker = &mut askers[port.index()];
            while let Some(answer) = asker.front() {
                if !transmit(*port, answer) {
                    return true;
                }
                *given += 1;
                asker.pop_front();
            }
            false
        });
    }
}
