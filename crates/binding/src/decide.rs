//! What becomes of a frame: when it comes, and when its turn has come.

use alloc::sync::Arc;
use alloc::vec::Vec;
use core::mem;

use datapath::{Origin, Remote};
use logical::objects::Identity;
use lossless::{Audience, Destination, PortId, Refusal};
use pipeline::{Change, Net, Onward, PortAt, Reason, Received, Told};
use units::{Class, Instant};
use wire::PartialChecksum;

use crate::flows::Site;
use crate::known::Known;
use crate::neighbours::{self, settle};
use crate::networks::{Leaving, Networks};
use crate::notes::MachineFrame;
use crate::seed::reseed;
use crate::turn::Said;

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

/// What becomes of a frame whose turn has come at a port.
#[derive(Clone, Copy, Debug)]
pub enum Leaves<'a> {
    /// It leaves as it is.
    AsItIs,
    /// It leaves with its first bytes, as many as were shown, as these.
    Begins(&'a [u8]),
    /// It leaves as this: the whole frame, as its receiver gets it.
    As(&'a [u8]),
    /// Its receiver does not get it.
    Refused(Refusal),
}

/// What becomes of a frame whose turn has come on its way to another host.
#[derive(Clone, Copy, Debug)]
pub enum Departs<'a> {
    /// It departs as it is, and its receiver's host has to know this of it.
    AsItIs(Origin),
    /// The same with its first bytes, as many as were shown, as these.
    Begins(&'a [u8], Origin),
    /// It departs as this: the whole frame, and what its receiver's host has to know of it.
    As(&'a [u8], Origin),
    /// It does not.
    Refused(Refusal),
}

const REFUSED: Refusal = Refusal::LOGICAL_NETWORK;

impl Networks {
    pub(crate) fn bound(&self, port: PortId) -> Option<(Arc<Net>, PortAt)> {
        let (ready, at) = self.bound.get(port.index())?.as_ref()?.at.as_ref()?;
        Some((ready.net.clone(), *at))
    }

    fn note_taken(&mut self, port: PortId) {
        if let Some(Some(bound)) = self.bound.get_mut(port.index()) {
            bound.taken += 1;
        }
    }

    /// Decides where a whole frame of a class goes that a machine has sent. Of a frame that goes
    /// nowhere, whatever it changes is changed at once; of others nothing is, until
    /// [`left`](Self::left).
    pub fn send(&mut self, now: Instant, class: Class, frame: &MachineFrame<'_>) -> Verdict<'_> {
        match self.known_destination(now, class, frame) {
            Some(to) => Verdict::Forward(to),
            None => self.send_anew(now, class, frame),
        }
    }

    /// The same of a whole frame whose [destination](Self::known_destination) is not known.
    pub fn send_anew(
        &mut self,
        now: Instant,
        class: Class,
        whole: &MachineFrame<'_>,
    ) -> Verdict<'_> {
        let MachineFrame { from, bytes: frame, excess, .. } = *whole;
        if let Some((said, word)) = self.word(from, frame) {
            return self.pass_on(now, class, said, word);
        }
        if self.hear_answer(from, frame) {
            self.note_taken(from);
            return Verdict::Taken;
        }
        let Some((net, mut sent)) = self.decide(now, from, frame, excess) else {
            self.note_refused(now, from, None, Reason::Disabled, frame);
            return Verdict::Refuse(REFUSED);
        };
        if self.turn.is_none() {
            // What were held could not go on.
            sent = settle(sent);
        }
        if !self.note_neighbours(now, class, whole, &mut sent.changes) {
            sent = settle(sent);
        }
        self.tell_far(now, frame, &sent.told);
        let is_limited = self.limit_announced(now, &mut sent);
        let is_held = neighbours::is_held(&sent);
        let is_taken = |reason| matches!(reason, Reason::Answered | Reason::Held);
        let is_heard = is_limited || sent.refused.iter().any(|it| is_taken(it.reason));
        for refusal in sent.refused.iter().filter(|it| !is_taken(it.reason)) {
            self.note_refused(now, from, Some(refusal), refusal.reason, frame);
        }
        for answer in sent.answers {
            self.answer(now, from, net.name(answer.port), answer.frame);
        }
        self.audience = Audience::default();
        let mut has_returned = false;
        for onward in &sent.onward {
            match self.site(&onward.to) {
                Site::Here(port) if port != from => self.audience.ports.insert(port),
                Site::Here(_) => {
                    // No queue leads from a port to itself.
                    let received = net.receive_quietly(&self.state, now, onward);
                    let ruled = received.ruled;
                    match self.judge(now, from, received, frame) {
                        Ok((copy, changes)) => {
                            has_returned = true;
                            self.note_ruled(now, from, ruled, frame);
                            self.commit(&changes, now);
                            self.answers.push(from, copy);
                        }
                        Err(Refusal::REJECTED) => self.rejected(now, from, frame),
                        Err(_) => {}
                    }
                }
                Site::There(remote) => {
                    let uplink = self.uplink.into_iter();
                    self.audience.flows.extend(uplink.map(|it| (it, remote.flow(class))));
                }
                Site::Nowhere => self.note_refused(now, from, None, Reason::Unknown, frame),
            }
        }
        if self.audience.ports.is_empty() && self.audience.flows.is_empty() {
            self.note_ruled(now, from, sent.ruled, frame);
        }
        let Audience { ports, flows, bystanders } = &mut self.audience;
        match (ports.iter().next(), &flows[..]) {
            (Some(port), []) if ports.len() == 1 => Verdict::Forward(Destination::One(port)),
            (None, [(uplink, flow)]) => Verdict::Forward(Destination::Flow(*uplink, *flow)),
            (None, []) => {
                let mut changes = sent.changes;
                // What is held is on its way: what it opens is open.
                changes.retain(|change| has_returned || is_held || !change.grants());
                self.commit(&changes, now);
                match is_heard || has_returned {
                    true => {
                        self.note_taken(from);
                        Verdict::Taken
                    }
                    false => Verdict::Refuse(REFUSED),
                }
            }
            _ => {
                *bystanders = *ports;
                self.uplink.into_iter().for_each(|uplink| bystanders.insert(uplink));
                Verdict::Forward(Destination::Many(&self.audience))
            }
        }
    }

    /// What is said of a load balancer's backends goes to the hosts that choose among them, or is
    /// heard. Who takes no more copies has the next word soon.
    fn pass_on(&mut self, now: Instant, class: Class, said: Said, word: &[u8]) -> Verdict<'_> {
        let balancer = match said {
            Said::Here(balancer) => balancer,
            Said::There(balancer) => {
                self.hear_word(now, &balancer, word);
                return Verdict::Taken;
            }
        };
        self.audience = Audience::default();
        let Audience { flows, bystanders, .. } = &mut self.audience;
        if let Some(uplink) = self.uplink {
            let hosts = self.far.choosers(&balancer);
            flows.extend(hosts.map(|host| (uplink, host.flow(class))));
            bystanders.insert(uplink);
        }
        match flows.is_empty() {
            true => Verdict::Taken,
            false => Verdict::Forward(Destination::Many(&self.audience)),
        }
    }

    /// The port of this host that a frame from another host is for, or by which it goes around if
    /// it is for a router; `None` if it is not here.
    pub fn arrive(&self, label: u32) -> Option<PortId> {
        let name = self.far.name(label)?;
        self.places.get(name).copied().or_else(|| self.turn_of(name))
    }

    /// Decides again, as things are now, about a frame whose turn it is at a port. Of what is
    /// refused here the sender is told, if a rule rejects it. Nothing else changes, until
    /// [`left`](Self::left). `whole` is all of the frame.
    #[inline]
    pub fn leave<'f>(
        &mut self,
        now: Instant,
        to: PortId,
        frame: &MachineFrame<'_>,
        whole: impl FnOnce() -> &'f [u8],
    ) -> Leaves<'_> {
        match self.leaves_known(now, to, frame) {
            Some(Known::AsItIs) => Leaves::AsItIs,
            Some(Known::Rewritten) => Leaves::Begins(&self.leaving.frame),
            None => {
                let frame = MachineFrame { bytes: whole(), ..*frame };
                match self.leave_anew(now, to, &frame) {
                    Ok(()) => {
                        self.reseed(&frame);
                        Leaves::As(&self.leaving.frame)
                    }
                    Err(refusal) => Leaves::Refused(refusal),
                }
            }
        }
    }

    /// The same of a frame from another host, for the port with a label.
    #[inline]
    pub fn leave_from_far(
        &mut self,
        now: Instant,
        came: (u32, Origin),
        to: PortId,
        class: Class,
        frame: &[u8],
        partial: Option<PartialChecksum>,
    ) -> Leaves<'_> {
        if self.turn == Some(to) {
            return match self.go_around(came, class, frame) {
                Ok(()) => Leaves::As(&self.leaving.frame),
                Err(refusal) => Leaves::Refused(refusal),
            };
        }
        match self.leaves_known_from_far(now, came, to, frame) {
            Some(_) => Leaves::AsItIs,
            None => match self.leave_from_far_anew(now, came, to, frame) {
                Ok(()) => {
                    reseed((frame, frame.len()), &mut self.leaving.frame, partial);
                    Leaves::As(&self.leaving.frame)
                }
                Err(refusal) => Leaves::Refused(refusal),
            },
        }
    }

    /// The far host of a frame has rejected it, which a machine has sent as this: that is told.
    pub fn rejected(&mut self, now: Instant, from: PortId, frame: &[u8]) {
        if self.turn == Some(from) {
            return self.tell_far(now, frame, &[Told::Rejected]);
        }
        if let Some((net, at)) = self.bound(from)
            && let Some(told) = net.rejected(at, frame)
        {
            self.answer(now, from, net.name(told.port), told.frame);
        }
    }

    /// The network itself answers a logical port, by a port of the switch, unless it was answered
    /// as often as it may be.
    pub(crate) fn answer(&mut self, now: Instant, by: PortId, port: &Identity, frame: Vec<u8>) {
        match self.state.may_answer(port, now) {
            true => self.answers.push(by, frame),
            false => self.answers.rate_limited += 1,
        }
    }

    fn leave_anew(
        &mut self,
        now: Instant,
        to: PortId,
        whole: &MachineFrame<'_>,
    ) -> Result<(), Refusal> {
        let MachineFrame { from, bytes: frame, excess, .. } = *whole;
        self.decided.anew += 1;
        let Some((net, sent)) = self.decide(now, from, frame, excess) else {
            self.note_refused(now, to, None, Reason::Disabled, frame);
            return Err(REFUSED);
        };
        let sent = settle(sent);
        let bytes = frame.len();
        let mut is_any_here = false;
        // Of both ends.
        let ruled = Vec::with_capacity(2);
        let mut leaving = Leaving { changes: sent.changes, bytes, ruled, ..Leaving::default() };
        let mut leaves = Err(REFUSED);
        for onward in &sent.onward {
            if self.places.get(&onward.to) != Some(&to) {
                continue;
            }
            is_any_here = true;
            let received = net.receive_quietly(&self.state, now, onward);
            if let Some(gate) = received.gate {
                self.remember(whole, (sent.way, sent.via, &onward.to), Some(gate));
            }
            let ruled = received.ruled;
            match self.judge(now, to, received, frame) {
                Ok((copy, changes)) => {
                    leaving.changes.extend(changes);
                    leaving.ruled.extend(ruled.map(|it| self.pending(to, it, frame)));
                    match leaves {
                        Err(_) => leaving.frame = copy,
                        Ok(()) => leaving.copies.push((to, copy)),
                    }
                    leaves = Ok(());
                }
                Err(refusal) => {
                    if refusal == Refusal::REJECTED {
                        self.rejected(now, from, frame);
                    }
                    leaves = leaves.map_err(|_| refusal);
                }
            }
        }
        if !is_any_here {
            self.note_refused(now, from, sent.refused.first(), Reason::Unknown, frame);
        }
        match leaves {
            Ok(()) => {
                leaving.ruled.extend(sent.ruled.map(|it| self.pending(from, it, frame)));
            }
            Err(_) => self.note_ruled(now, from, sent.ruled, frame),
        }
        self.leaving = leaving;
        leaves
    }

    /// A frame for a router here.
    fn go_around(&mut self, far: (u32, Origin), class: Class, frame: &[u8]) -> Result<(), Refusal> {
        let frame = self.around(far, class, frame).ok_or(REFUSED)?;
        self.leaving = Leaving { frame, ..Leaving::default() };
        Ok(())
    }

    fn leave_from_far_anew(
        &mut self,
        now: Instant,
        (label, origin): (u32, Origin),
        to: PortId,
        frame: &[u8],
    ) -> Result<(), Refusal> {
        self.decided.anew += 1;
        let name = |label| self.far.name(label).cloned();
        let onward = |to: Identity| Onward {
            to,
            origin: name(origin.label),
            is_networks: origin.is_networks,
            routers: origin.routers,
            frame: frame.to_vec(),
        };
        let is_here = |name: &Identity| self.places.get(name) == Some(&to);
        let onward = name(label).filter(is_here).map(onward);
        let Some((onward, (net, _))) = onward.zip(self.bound(to)) else {
            if self.is_elsewhere(label) {
                return Err(Refusal::MOVED);
            }
            self.note_refused(now, to, None, Reason::Unknown, frame);
            return Err(REFUSED);
        };
        let received = net.receive_quietly(&self.state, now, &onward);
        self.remember_from_far((label, origin), to, frame, received.gate);
        let ruled = received.ruled;
        let (copy, changes) = self.judge(now, to, received, frame)?;
        let ruled = ruled.map(|it| self.pending(to, it, frame)).into_iter().collect();
        let bytes = frame.len();
        self.leaving = Leaving { frame: copy, changes, bytes, ruled, ..Leaving::default() };
        Ok(())
    }

    /// Decides again about a frame of one port whose turn it is on its way to a port of another
    /// host. Nothing changes, until [`left`](Self::left). `whole` is all of the frame.
    #[inline]
    pub fn depart<'f>(
        &mut self,
        now: Instant,
        remote: Remote,
        frame: &MachineFrame<'_>,
        whole: impl FnOnce() -> &'f [u8],
    ) -> Departs<'_> {
        match self.departs_known(now, remote, frame) {
            Some((Known::AsItIs, origin)) => Departs::AsItIs(origin),
            Some((Known::Rewritten, origin)) => Departs::Begins(&self.leaving.frame, origin),
            None => {
                let frame = MachineFrame { bytes: whole(), ..*frame };
                self.depart_anew(now, remote, &frame)
            }
        }
    }

    fn depart_anew(
        &mut self,
        now: Instant,
        remote: Remote,
        whole: &MachineFrame<'_>,
    ) -> Departs<'_> {
        let MachineFrame { from, bytes: frame, excess, .. } = *whole;
        if let Some((_, word)) = self.word(from, frame) {
            let bytes = frame.len();
            self.leaving = Leaving { frame: word.to_vec(), bytes, ..Leaving::default() };
            let origin = Origin { is_networks: true, ..Origin::default() };
            return Departs::As(&self.leaving.frame, origin);
        }
        self.decided.anew += 1;
        let Some((_, sent)) = self.decide(now, from, frame, excess) else {
            self.note_refused(now, from, None, Reason::Disabled, frame);
            return Departs::Refused(REFUSED);
        };
        let sent = settle(sent);
        let is_there = |it: &Onward| self.far.far(&it.to) == Some(remote);
        let Some(onward) = sent.onward.into_iter().find(is_there) else {
            self.note_refused(now, from, sent.refused.first(), Reason::Unknown, frame);
            self.note_ruled(now, from, sent.ruled, frame);
            return Departs::Refused(REFUSED);
        };
        let origin = Origin {
            label: onward.origin.as_ref().map_or(0, |it| self.far.label(it)),
            is_networks: onward.is_networks,
            opens: sent.changes.iter().any(Change::opens),
            is_anew: false,
            generation: 0,
            routers: onward.routers,
        };
        self.remember(whole, (sent.way, sent.via, &onward.to), None);
        let ruled = sent.ruled.map(|it| self.pending(from, it, frame)).into_iter().collect();
        let (bytes, changes) = (frame.len(), sent.changes);
        let frame = onward.frame;
        self.leaving = Leaving { frame, changes, bytes, ruled, ..Leaving::default() };
        self.reseed(whole);
        Departs::As(&self.leaving.frame, origin)
    }

    /// A copy of a frame as its receiver gets it, and what that changes, or why it does not get it.
    fn judge(
        &mut self,
        now: Instant,
        to: PortId,
        received: Received,
        frame: &[u8],
    ) -> Result<(Vec<u8>, Vec<Change>), Refusal> {
        let refusal = match received.fate {
            Ok(copy) => return Ok((copy.frame, received.changes)),
            Err(refusal) => refusal,
        };
        self.note_refused(now, to, Some(&refusal), refusal.reason, frame);
        self.note_ruled(now, to, received.ruled, frame);
        self.commit(&received.changes, now);
        Err(if refusal.reason == Reason::Rejected { Refusal::REJECTED } else { REFUSED })
    }

    /// The frame that was decided last is on its way to another host, and in its port's slot until
    /// that tells what became of it: [`ended`](Self::ended). What it changes is changed.
    #[inline]
    pub fn departed(&mut self, now: Instant, from: PortId, slot: u32) {
        let Leaving { changes, is_simple, .. } = &mut self.leaving;
        let changes = if *is_simple { Vec::new() } else { mem::take(changes) };
        if !changes.is_empty() || !self.underway.is_empty() {
            let opened = self.state.open(&changes, now);
            self.underway.put((from, slot), opened);
            self.note_zones();
        }
        self.left(now);
    }

    /// A frame that had departed is its port's again: its receiver has it, or not. In the second
    /// case nothing is open by it.
    #[inline]
    pub fn ended(&mut self, now: Instant, from: PortId, slot: u32, is_refused: bool) {
        let opened = self.underway.take((from, slot));
        if is_refused {
            opened.into_iter().for_each(|id| self.state.take_back(id, now));
        }
    }

    /// The receiver, or the far host, has the frame that was decided last: what it changes is
    /// changed.
    #[inline(always)]
    pub fn left(&mut self, now: Instant) {
        let Leaving { counters, bytes, is_simple, .. } = self.leaving;
        if let Some(at) = counters[0] {
            self.hits.admit(at, bytes);
        }
        if let Some(at) = counters[1] {
            self.hits.admit(at, bytes);
        }
        if !is_simple {
            self.left_more(now);
        }
    }

    fn left_more(&mut self, now: Instant) {
        let Leaving { copies, changes, advances, ruled, bytes, .. } = &mut self.leaving;
        if !advances.is_empty() {
            advances.iter().for_each(|change| self.state.advance(change, now));
            advances.clear();
        }
        if !copies.is_empty() {
            copies.drain(..).for_each(|(port, frame)| self.answers.push(port, frame));
        }
        if !changes.is_empty() || !ruled.is_empty() {
            let (bytes, changes, ruled) = (*bytes, mem::take(changes), mem::take(ruled));
            self.commit(&changes, now);
            ruled.into_iter().for_each(|pending| self.note(now, pending, bytes));
        }
    }
}
