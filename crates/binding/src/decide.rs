//! What becomes of a frame: when it comes, and when its turn has come.

use alloc::sync::Arc;

use lossless::{Destination, PortId, Refusal};
use pipeline::{Net, Onward, PortAt, Reason, Sent};
use units::Instant;

use crate::networks::{Bound, Networks};

/// Where a frame goes.
#[derive(Clone, Copy, Debug)]
pub enum Verdict<'a> {
    /// On to its receivers.
    Forward(Destination<'a>),
    /// Nowhere: the network itself has answered it, or heard what it says.
    Taken,
    /// Nowhere, for this reason.
    Refuse(Refusal),
}

/// What becomes of a frame whose turn has come.
#[derive(Clone, Copy, Debug)]
pub enum Leaves<'a> {
    /// It leaves as this: the whole frame, as its receiver gets it.
    As(&'a [u8]),
    /// Its receiver does not get it.
    Refused(Refusal),
}

impl Bound {
    fn refuse(&mut self, reason: Reason) {
        *self.refused.entry(reason).or_default() += 1;
    }
}

impl Networks {
    fn bound(&self, port: PortId) -> Option<(Arc<Net>, PortAt)> {
        self.bound.get(port.index())?.as_ref()?.at.clone()
    }

    fn note_refused(&mut self, port: PortId, reason: Reason) {
        if let Some(Some(bound)) = self.bound.get_mut(port.index()) {
            bound.refuse(reason);
        }
    }

    /// Decides where a frame goes that a machine has sent. Of a frame that goes nowhere, whatever
    /// it changes is changed at once; of others nothing is, until [`left`](Self::left).
    pub fn send(&mut self, now: Instant, from: PortId, frame: &[u8]) -> Verdict<'_> {
        let Some((net, at)) = self.bound(from) else {
            self.note_refused(from, Reason::Disabled);
            return Verdict::Refuse(Refusal::LOGICAL_NETWORK);
        };
        let Sent { onward, answers, refused, changes, .. } = net.send(&self.state, now, at, frame);
        for answer in answers {
            self.answers.push(now, from, answer.frame);
        }
        let is_heard = refused.iter().any(|it| it.reason == Reason::Answered);
        for refusal in refused.iter().filter(|it| it.reason != Reason::Answered) {
            self.note_refused(from, refusal.reason);
        }
        self.audience.ports = Default::default();
        self.audience.flows.clear();
        for onward in &onward {
            match self.places.get(&onward.to) {
                Some(port) if *port != from => self.audience.ports.insert(*port),
                _ => self.note_refused(from, Reason::Unknown),
            }
        }
        let is_one = onward.len() == 1;
        let first = self.audience.ports.iter().next();
        match first {
            Some(port) if is_one => Verdict::Forward(Destination::One(port)),
            Some(_) => {
                self.audience.bystanders = self.audience.ports;
                Verdict::Forward(Destination::Many(&self.audience))
            }
            None => {
                let changes = changes.into_iter().filter(|change| !change.grants());
                self.state.commit(&changes.collect::<alloc::vec::Vec<_>>(), now);
                match is_heard {
                    true => Verdict::Taken,
                    false => Verdict::Refuse(Refusal::LOGICAL_NETWORK),
                }
            }
        }
    }

    /// Decides again, as things are now, about a frame of one port whose turn it is at another. Of
    /// what is refused here the sender is told, if a rule rejects it. Nothing else changes, until
    /// [`left`](Self::left).
    pub fn leave(&mut self, now: Instant, from: PortId, to: PortId, frame: &[u8]) -> Leaves<'_> {
        let refused = Leaves::Refused(Refusal::LOGICAL_NETWORK);
        let Some((net, at)) = self.bound(from) else {
            self.note_refused(to, Reason::Disabled);
            return refused;
        };
        let sent = net.send(&self.state, now, at, frame);
        let is_here = |it: &&Onward| self.places.get(&it.to) == Some(&to);
        let Some(onward) = sent.onward.iter().find(is_here) else {
            let reason = sent.refused.first().map_or(Reason::Unknown, |it| it.reason);
            self.note_refused(from, reason);
            return refused;
        };
        let received = net.receive(&self.state, now, onward);
        match received.fate {
            Ok(copy) => {
                self.leaving = copy.frame;
                self.changes = sent.changes;
                self.changes.extend(received.changes);
                Leaves::As(&self.leaving)
            }
            Err(refusal) => {
                self.note_refused(to, refusal.reason);
                self.state.commit(&received.changes, now);
                if refusal.reason == Reason::Rejected
                    && let Some(told) = net.rejected(at, frame)
                {
                    self.answers.push(now, from, told.frame);
                }
                refused
            }
        }
    }

    /// The receiver has the frame that was decided last: what it changes is changed.
    pub fn left(&mut self, now: Instant) {
        self.state.commit(&self.changes, now);
        self.changes.clear();
    }
}
