//! What becomes of a frame: when it comes, and when its turn has come.

use alloc::sync::Arc;
use alloc::vec::Vec;

use lossless::{Audience, Destination, PortId, Refusal};
use pipeline::{Change, Net, Onward, PortAt, Reason};
use units::Instant;

use crate::networks::{Bound, Leaving, Networks};

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
        let sent = net.send(&self.state, now, at, frame);
        let is_heard = sent.refused.iter().any(|it| it.reason == Reason::Answered);
        for refusal in sent.refused.iter().filter(|it| it.reason != Reason::Answered) {
            self.note_refused(from, refusal.reason);
        }
        for answer in sent.answers {
            self.answers.push(now, from, answer.frame);
        }
        self.audience = Audience::default();
        let mut has_returned = false;
        for onward in &sent.onward {
            match self.places.get(&onward.to).copied() {
                Some(port) if port != from => self.audience.ports.insert(port),
                Some(_) => {
                    // No queue leads from a port to itself.
                    let copy = self.arrive(now, (&net, at), [from, from], onward, frame);
                    has_returned |= copy.is_some();
                    if let Some((copy, changes)) = copy {
                        self.state.commit(&changes, now);
                        self.answers.push_copy(from, copy);
                    }
                }
                None => self.note_refused(from, Reason::Unknown),
            }
        }
        match self.audience.ports.iter().next() {
            Some(port) if self.audience.ports.len() == 1 => {
                Verdict::Forward(Destination::One(port))
            }
            Some(_) => {
                self.audience.bystanders = self.audience.ports;
                Verdict::Forward(Destination::Many(&self.audience))
            }
            None => {
                let mut changes = sent.changes;
                changes.retain(|change| has_returned || !change.grants());
                self.state.commit(&changes, now);
                match is_heard || has_returned {
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
        let here: Vec<_> = sent.onward.iter().filter(is_here).collect();
        if here.is_empty() {
            let reason = sent.refused.first().map_or(Reason::Unknown, |it| it.reason);
            self.note_refused(from, reason);
        }
        let mut leaving = Leaving { changes: sent.changes, ..Leaving::default() };
        let mut leaves = false;
        for onward in here {
            let Some((copy, changes)) = self.arrive(now, (&net, at), [from, to], onward, frame)
            else {
                continue;
            };
            leaving.changes.extend(changes);
            match leaves {
                false => leaving.frame = copy,
                true => leaving.copies.push((to, copy)),
            }
            leaves = true;
        }
        self.leaving = leaving;
        if leaves { Leaves::As(&self.leaving.frame) } else { refused }
    }

    /// A copy of a frame as its receiver gets it, and what that changes; `None` if it does not get
    /// it: then the sender is told of it if a rule rejects the frame.
    fn arrive(
        &mut self,
        now: Instant,
        (net, at): (&Net, PortAt),
        [from, to]: [PortId; 2],
        onward: &Onward,
        sent: &[u8],
    ) -> Option<(Vec<u8>, Vec<Change>)> {
        let received = net.receive(&self.state, now, onward);
        match received.fate {
            Ok(copy) => Some((copy.frame, received.changes)),
            Err(refusal) => {
                self.note_refused(to, refusal.reason);
                self.state.commit(&received.changes, now);
                if refusal.reason == Reason::Rejected
                    && let Some(told) = net.rejected(at, sent)
                {
                    self.answers.push(now, from, told.frame);
                }
                None
            }
        }
    }

    /// The receiver has the frame that was decided last: what it changes is changed.
    pub fn left(&mut self, now: Instant) {
        let Leaving { copies, changes, .. } = &mut self.leaving;
        self.state.commit(changes, now);
        changes.clear();
        copies.drain(..).for_each(|(port, frame)| self.answers.push_copy(port, frame));
    }
}
