//! Frames for logical ports that have moved: they go where the port is, once and in order.
//!
//! ```text
//!  at senders' hosts    relocate ─▶ held until none is underway ─▶ redirected
//!                                     ▲ returned, arrived           or sent there again
//!  at its old host      relocate ─▶ from far: given back    from here: decided anew
//! ```
//!
//! A host may learn that a port has left before it learns where it is, and a sender's host before
//! the host that the port has come to. So what has come back to where the port is said to be is
//! sent there again, until it is taken or the port counts as stalled.

use core::ops::RangeInclusive;
use std::collections::BTreeSet;

use binding::{Site, Verdict};
use datapath::Remote;
use lossless::{Destination, Flow, PortId, Redirected, Refusal, Released};
use port::{Port, Slot};
use units::{Class, Instant, Ticks};

use crate::bound::{gather, machine_frame};
use crate::peers::Peers;
use crate::plane::Plane;
use crate::stages::{Gate, Responder};
use crate::waits::{AGAIN, Wait};

/// The flows to a far port: one of each class.
fn flows(remote: Remote) -> impl Iterator<Item = (Class, Flow)> {
    Class::all().map(move |class| (class, remote.flow(class)))
}

impl<P: Port, F: Peers, R: Responder, G: Gate, T: Ticks> Plane<P, F, R, G, T> {
    /// How many frames came back from hosts that their ports were not at, and were sent again or
    /// refused.
    pub fn returned(&self) -> u64 {
        self.moves.returned
    }

    /// Logical networks have learned where ports are: what is held for those that are elsewhere now
    /// goes there.
    pub fn relocate(&mut self, now: Instant) {
        let (Some(id), Some(logical)) = (self.uplink, self.logical.as_deref()) else { return };
        let left: Vec<(PortId, Remote)> = logical.elsewhere().collect();
        left.into_iter().for_each(|(port, remote)| self.redirect_port(now, port, remote));
        let all = self.switch.flows(id).chain(self.switch.underway(id));
        let all: BTreeSet<Remote> = all.map(|flow| Remote::of_flow(flow).0).collect();
        let mut moved: BTreeSet<Remote> = self.moves.waits.keys().copied().collect();
        for remote in all {
            let logical = self.logical.as_deref_mut().expect("it was there before");
            if logical.moved(remote).is_some() {
                logical.wait_for(remote);
                self.hold(now, id, remote);
                moved.insert(remote);
            }
        }
        for remote in moved {
            self.moves.wait(remote).is_told = true;
            self.go_on_to(now, remote);
        }
    }

    /// The next frame of a flow is back: it waits until it is known where its receiver is, and none
    /// is underway.
    pub(crate) fn take_back(&mut self, now: Instant, flow: Flow) {
        let Some(id) = self.uplink else { return };
        let Some((port, slot)) = self.switch.returned(now, id, flow) else { return };
        if let Some(line) = &mut self.lines[port.index()] {
            line.restore(slot);
        }
        if let Some(logical) = &mut self.logical {
            logical.ended(now, port, slot.0, true);
        }
        let remote = Remote::of_flow(flow).0;
        self.moves.returned += 1;
        self.hold(now, id, remote);
        self.go_on_to(now, remote);
    }

    /// Nothing goes to a port where it was, in whatever class, before all that is underway there
    /// has ended.
    fn hold(&mut self, now: Instant, id: PortId, remote: Remote) {
        flows(remote).for_each(|(_, flow)| self.switch.hold_flow(now, id, flow));
        self.moves.wait(remote);
    }

    /// A frame of a flow was consumed, or refused for good.
    #[inline]
    pub(crate) fn go_on(&mut self, now: Instant, flow: Flow) {
        if !self.moves.waits.is_empty() {
            let remote = Remote::of_flow(flow).0;
            if let Some(wait) = self.moves.waits.get_mut(&remote) {
                wait.since = None;
                self.go_on_to(now, remote);
            }
        }
    }

    /// Sends again what has come back and is due.
    pub(crate) fn send_again(&mut self, now: Instant) {
        let is_due = |wait: &Wait| wait.again_at.is_some_and(|at| at <= now);
        let waits = self.moves.waits.iter();
        let due: Vec<_> = waits.filter(|(_, wait)| is_due(wait)).map(|(it, _)| *it).collect();
        due.into_iter().for_each(|remote| self.go_on_to(now, remote));
    }

    /// What is held for a port that was there goes where it is, if none is underway.
    fn go_on_to(&mut self, now: Instant, remote: Remote) {
        let (Some(id), Some(logical)) = (self.uplink, &mut self.logical) else { return };
        let Some(wait) = self.moves.waits.get_mut(&remote) else { return };
        if flows(remote).any(|(_, flow)| self.switch.is_underway(id, flow)) {
            // Whatever becomes of these goes on with the others.
            return;
        }
        let is_held = flows(remote).any(|(_, flow)| self.switch.is_held(id, flow));
        let is_there = logical.moved(remote).is_none();
        if is_there && is_held {
            let since = *wait.since.get_or_insert(now);
            if now.since(since) >= self.switch.settings().stall_after {
                return self.give_up(now, remote, Refusal::STALLED);
            }
            if !wait.is_told && *wait.again_at.get_or_insert(now + AGAIN) > now {
                return;
            }
            (wait.is_told, wait.again_at) = (false, None);
            logical.follow(remote);
            for (_, flow) in flows(remote) {
                self.redirect(now, flow, (id, Some(flow)));
            }
            if !self.switch.flows(id).any(|flow| Remote::of_flow(flow).0 == remote) {
                self.moves.waits.remove(&remote);
            }
            return;
        }
        let site = logical.moved(remote);
        logical.follow(remote);
        self.moves.waits.remove(&remote);
        match site {
            // All that was sent again was taken.
            None => {}
            Some(Site::Nowhere) => self.give_up(now, remote, Refusal::DETACHED),
            Some(Site::Here(port)) => {
                flows(remote).for_each(|(_, flow)| self.redirect(now, flow, (port, None)));
            }
            Some(Site::There(new)) => {
                for (class, flow) in flows(remote) {
                    self.redirect(now, flow, (id, Some(new.flow(class))));
                }
            }
        }
    }

    /// Nobody takes what is held for a port.
    fn give_up(&mut self, now: Instant, remote: Remote, refusal: Refusal) {
        let Some(id) = self.uplink else { return };
        let mut gone = Vec::new();
        for (_, flow) in flows(remote) {
            let released = |released: Released<_>| gone.push(released);
            self.switch.abandon_flows(now, id, flow..=flow, refusal, released);
        }
        self.release_all(now, gone);
        self.moves.waits.remove(&remote);
        if let Some(logical) = &mut self.logical {
            logical.follow(remote);
        }
    }

    /// What is held in a flow goes elsewhere, but for frames of no logical network.
    fn redirect(&mut self, now: Instant, flow: Flow, to: (PortId, Option<Flow>)) {
        let Self { uplink: Some(id), switch, logical_ports, .. } = self else { return };
        let id = *id;
        let mut gone = Vec::new();
        let to = |from| if logical_ports.contains(from) { to } else { (id, Some(flow)) };
        switch.redirect(now, (id, flow), to, |released| gone.push(released));
        self.release_all(now, gone);
    }

    /// What is held for a port of this host whose logical port is elsewhere: far hosts have it
    /// back, and what was sent here is decided anew.
    fn redirect_port(&mut self, now: Instant, port: PortId, remote: Remote) {
        let Self { uplink: Some(id), switch, lines, logical, gathered, .. } = self else { return };
        let (Some(logical), id) = (logical, *id) else { return };
        let mut gone = Vec::new();
        let to = |from: PortId, class, slot: Slot| {
            if from == id {
                return Redirected::Refused(Refusal::MOVED);
            }
            let line = lines[from.index()].as_deref().expect("it has frames");
            let view = line.end.frame(slot);
            if view.bytes.is_empty() {
                return Redirected::Refused(Refusal::WITHDRAWN);
            }
            let frame = machine_frame(from, slot, &view);
            let whole = binding::MachineFrame { bytes: gather(&view, gathered), ..frame };
            match logical.send_anew(now, class, &whole) {
                Verdict::Forward(Destination::One(port)) => Redirected::To(port, None),
                Verdict::Forward(Destination::Flow(port, flow)) => Redirected::To(port, Some(flow)),
                // A copy of a frame for many, of which others have theirs.
                Verdict::Forward(Destination::Many(_)) => {
                    Redirected::To(id, Some(remote.flow(class)))
                }
                Verdict::Taken => Redirected::Taken,
                Verdict::Refuse(refusal) => Redirected::Refused(refusal),
            }
        };
        switch.redirect_port(now, port, to, |released| gone.push(released));
        self.release_all(now, gone);
    }

    /// What waits in these flows, of which none is underway, goes where its ports are, if that is
    /// elsewhere.
    pub(crate) fn leave(&mut self, now: Instant, flows: &RangeInclusive<Flow>) {
        let (Some(id), Some(logical)) = (self.uplink, self.logical.as_deref()) else { return };
        let waiting = self.switch.flows(id).filter(|flow| flows.contains(flow));
        let mut left: BTreeSet<Remote> = waiting.map(|flow| Remote::of_flow(flow).0).collect();
        left.retain(|remote| logical.moved(*remote).is_some());
        for remote in left {
            self.moves.wait(remote);
            self.go_on_to(now, remote);
        }
    }

    /// Nothing of these flows is held any more: what comes for their ports goes where those are.
    pub(crate) fn end_waits(&mut self, flows: &RangeInclusive<Flow>) {
        let is_of = |remote: &Remote| flows.contains(&remote.flow(Class::default()));
        let gone = self.moves.waits.extract_if(.., |remote, _| is_of(remote));
        let gone: Vec<Remote> = gone.map(|(remote, _)| remote).collect();
        let Some(logical) = &mut self.logical else { return };
        gone.into_iter().for_each(|remote| logical.follow(remote));
    }
}
