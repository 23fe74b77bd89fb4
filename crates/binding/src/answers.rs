//! What networks themselves hand to machines: answers, and copies of what is for several of those
//! that are behind one port.
//!
//! Each port has a token bucket (RFC 4443 §2.4 (f)): who asks too much, or does not take its
//! answers, gets none, and delays nobody else's. Whoever needs an answer asks again.

use alloc::collections::VecDeque;
use alloc::vec::Vec;

use lossless::PortId;
use units::{Gcra, Instant, Span};

/// The token bucket's depth: the most answers to one port at once. As many may wait for it.
const BURST: u32 = 256;

/// The token bucket's rate: a thousand answers a second to one port.
const EACH: Span = Span::from_millis(1);

/// What is on its way to one port.
#[derive(Debug)]
struct Asker {
    bucket: Gcra,
    waiting: VecDeque<Vec<u8>>,
}

/// Answers that wait for their askers' ports.
#[derive(Debug, Default)]
pub struct Answers {
    /// By port number.
    askers: Vec<Option<Asker>>,
    /// Ports with answers, in the order in which they asked.
    waiting: VecDeque<PortId>,
    /// How many were given, and how many were not, as a port asked too much.
    pub given: u64,
    pub rate_limited: u64,
}

impl Answers {
    /// A port gets an answer, unless it has had as many as it may for now.
    pub fn push(&mut self, now: Instant, port: PortId, frame: Vec<u8>) {
        self.add(port, frame, |bucket| bucket.try_take(now));
    }

    /// A port gets a copy of a frame that is for many, unless too much waits for it.
    pub fn push_copy(&mut self, port: PortId, frame: Vec<u8>) {
        self.add(port, frame, |_| true);
    }

    fn add(&mut self, port: PortId, frame: Vec<u8>, may: impl FnOnce(&mut Gcra) -> bool) {
        if self.askers.len() <= port.index() {
            self.askers.resize_with(port.index() + 1, || None);
        }
        let new = || Asker { bucket: Gcra::of_units(EACH, BURST), waiting: VecDeque::new() };
        let asker = self.askers[port.index()].get_or_insert_with(new);
        if asker.waiting.len() >= BURST as usize || !may(&mut asker.bucket) {
            self.rate_limited += 1;
            return;
        }
        if asker.waiting.is_empty() {
            self.waiting.push_back(port);
        }
        asker.waiting.push_back(frame);
    }

    /// Nothing is left for a port.
    pub fn forget(&mut self, port: PortId) {
        self.waiting.retain(|asker| *asker != port);
        if let Some(asker) = self.askers.get_mut(port.index()) {
            *asker = None;
        }
    }

    /// Hands out what waits. `transmit` returns whether an answer is done with; if not, it and what
    /// is behind it for the same port go on waiting.
    pub fn poll_transmit(&mut self, mut transmit: impl FnMut(PortId, &[u8]) -> bool) {
        let Self { askers, waiting, given, .. } = self;
        waiting.retain(|port| {
            let Some(asker) = askers[port.index()].as_mut() else { return false };
            while let Some(answer) = asker.waiting.front() {
                if !transmit(*port, answer) {
                    return true;
                }
                *given += 1;
                asker.waiting.pop_front();
            }
            false
        });
    }
}
