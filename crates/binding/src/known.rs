//! Frames whose flow is known: where they go, and how they leave, without a rule being asked.

use alloc::vec::Vec;

use datapath::{Origin, Remote};
use logical::objects::Identity;
use lossless::{Destination, PortId};
use pipeline::{Gated, Head, Passes, Ports, Start, Via, Way};
use units::{Class, Instant};

use crate::flows::{At, Flow, Flows, Now, Site, Source};
use crate::networks::{Bound, Leaving, Networks};
use crate::notes::MachineFrame;
use crate::seed::reseed;

/// How a frame leaves whose flow is known.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Known {
    /// As it came.
    AsItIs,
    /// With its first bytes as [`Leaving`] has them.
    Rewritten,
}

/// What a machine's frame is, by which flows are told apart.
#[inline(always)]
fn head(bound: &[Option<Bound>], frame: &MachineFrame<'_>) -> Option<Head> {
    let number = bound.get(frame.from.index())?.as_ref()?.number?;
    Head::of(Source::Port(number).place(), frame.start())
}

/// Notes which connections a flow's packets are of.
#[cold]
fn note(flows: &mut Flows, at: At, sender: Passes, receiver: Passes) {
    // What flows have in common is of no connection.
    let flow = flows.at_mut(at).filter(|it| it.ports() == Ports::Both);
    let Some(flow) = flow else { return };
    if let (Passes::By(connection), Some(way)) = (sender, &mut flow.way) {
        way.gate.note(connection);
    }
    if let (Passes::By(connection), Some(gate)) = (receiver, &mut flow.gate) {
        gate.note(connection);
    }
}

impl Networks {
    /// Where a machine's frame goes, if that is known. Whether it may is asked when it leaves,
    /// unless its sender may have to be told now.
    #[inline(always)]
    pub fn known_destination(
        &mut self,
        now: Instant,
        class: Class,
        frame: &MachineFrame<'_>,
    ) -> Option<Destination<'static>> {
        let found = self.find_destination(now, class, frame);
        self.notes.set(frame, found.map(|(at, _)| at));
        found.map(|(_, to)| to)
    }

    #[inline(always)]
    fn find_destination(
        &mut self,
        now: Instant,
        class: Class,
        frame: &MachineFrame<'_>,
    ) -> Option<(At, Destination<'static>)> {
        let head = head(&self.bound, frame)?;
        let at = self.find(&head, Some(frame.from))?;
        let flow = self.flows.fresh(at)?;
        if !flow.now.passes {
            let way = flow.way.as_ref().filter(|it| it.takes(&head, frame.bytes, frame.excess))?;
            self.state.leads(way, &head, frame.start(), now).then_some(())?;
            if !way.gate.allows() {
                let passes = self.state.again(&way.gate, frame.start(), now, &mut Vec::new());
                (!passes.is_unknown()).then_some(())?;
            }
        }
        let to = match self.flows.site(flow.to) {
            Site::Here(port) if port != frame.from => Destination::One(port),
            Site::There(remote) => Destination::Flow(self.uplink?, remote.flow(class)),
            Site::Here(_) | Site::Nowhere => return None,
        };
        Some((at, to))
    }

    /// Where a packet's flow is that is known, and comes from a port of this host if one is named.
    /// It is [fresh](Flows::fresh).
    #[inline(always)]
    fn find(&mut self, head: &Head, from: Option<PortId>) -> Option<At> {
        for ports in Ports::ALL {
            let found = self.flows.find(head, ports);
            if let Some((at, is_fresh)) = found
                && (is_fresh || self.renew(at, from).is_some())
            {
                return Some(at);
            }
        }
        None
    }

    /// Works out what follows of a decision as things are now, if it is still true.
    #[cold]
    fn renew(&mut self, at: At, from: Option<PortId>) -> Option<()> {
        let Flow { to, way, gate, .. } = *self.flows.renew(at)?;
        let (to, alone) = (self.flows.site(to), |gate: &Gated| self.state.passes_alone(gate));
        let sends = match (&way, from) {
            (Some(way), Some(_)) => way.changes_nothing() && alone(&way.gate),
            (None, None) => true,
            _ => false,
        };
        let receives = match (&gate, to) {
            (Some(gate), Site::Here(_)) => alone(gate),
            // Its own host decides whether it arrives.
            (None, Site::There(_)) => from.is_some(),
            _ => false,
        };
        let counter = |port: Option<PortId>, gate: Option<&Gated>| {
            let counts = self.bound_to(port?)?.counts.as_ref()?;
            counts.rule(gate?.rule()?)
        };
        let here = if let Site::Here(port) = to { Some(port) } else { None };
        let counters =
            [counter(from, way.as_ref().map(|it| &it.gate)), counter(here, gate.as_ref())];
        self.flows.at_mut(at)?.now = Now { counters, passes: sends && receives };
        Some(())
    }

    /// Has a frame of so many bytes, which lies in a slot of a machine's port, leave by a port of
    /// this host as it is, if its flow was found when it came and nothing that it depends on has
    /// changed since.
    #[inline(always)]
    pub fn leaves_at_once(&mut self, from: PortId, slot: u32, to: PortId, bytes: usize) -> bool {
        self.goes_at_once(from, slot, Site::Here(to), bytes)
    }

    #[inline(always)]
    fn goes_at_once(&mut self, from: PortId, slot: u32, to: Site, bytes: usize) -> bool {
        let flow = self.notes.get(from, slot).and_then(|at| self.flows.fresh(at));
        match flow.filter(|flow| flow.now.passes && self.flows.site(flow.to) == to) {
            Some(flow) => {
                self.leaving.simply(flow.now, bytes);
                self.decided.known += 1;
                true
            }
            None => false,
        }
    }

    /// Has a machine's frame leave by a port of this host, if it is known how.
    #[inline(always)]
    pub(crate) fn leaves_known(
        &mut self,
        now: Instant,
        to: PortId,
        frame: &MachineFrame<'_>,
    ) -> Option<Known> {
        self.goes(now, Site::Here(to), frame).map(|(known, _)| known)
    }

    /// Has a far machine's frame leave by a port of this host, if it is known how.
    #[inline(always)]
    pub(crate) fn leaves_known_from_far(
        &mut self,
        now: Instant,
        (label, origin): (u32, Origin),
        to: PortId,
        frame: &[u8],
    ) -> Option<Known> {
        if origin.is_networks {
            return None;
        }
        let head = Head::of(Source::Far(origin.label, label).place(), frame.into())?;
        let at = self.find(&head, None)?;
        let Flow { to: its, now: follows, gate, .. } = *self.flows.fresh(at)?;
        if self.flows.site(its) != Site::Here(to) {
            return None;
        }
        if follows.passes {
            self.leaving.simply(follows, frame.len());
        } else {
            self.leaving.begin(follows, frame.len());
            let advances = &mut self.leaving.advances;
            match self.state.again(gate.as_ref()?, frame.into(), now, advances) {
                Passes::Unknown => return None,
                Passes::Yes => {}
                receiver => note(&mut self.flows, at, Passes::Yes, receiver),
            }
        }
        self.decided.known += 1;
        Some(Known::AsItIs)
    }

    /// Has a machine's frame depart to a port of another host, if it is known how.
    #[inline(always)]
    pub(crate) fn departs_known(
        &mut self,
        now: Instant,
        remote: Remote,
        frame: &MachineFrame<'_>,
    ) -> Option<(Known, Origin)> {
        let (to, bytes) = (Site::There(remote), frame.len);
        let (known, hides_origin) = match frame.slot {
            Some(slot) if self.goes_at_once(frame.from, slot, to, bytes) => (Known::AsItIs, false),
            _ => self.goes(now, to, frame)?,
        };
        let label = self.bound.get(frame.from.index())?.as_ref()?.label;
        let label = if hides_origin { 0 } else { label };
        Some((known, Origin { label, ..Origin::default() }))
    }

    /// Has a machine's frame that has come before, and is as it was, go to where a port is. How,
    /// and whether its receiver cannot tell where it is from.
    #[inline(always)]
    fn goes(&mut self, now: Instant, to: Site, frame: &MachineFrame<'_>) -> Option<(Known, bool)> {
        let noted = frame.slot.and_then(|slot| self.notes.get(frame.from, slot));
        let at = match noted.filter(|at| self.flows.fresh(*at).is_some()) {
            Some(noted) => noted,
            None => {
                let head = head(&self.bound, frame)?;
                let at = self.find(&head, Some(frame.from))?;
                let way = self.flows.fresh(at)?.way.as_ref()?;
                way.takes(&head, frame.bytes, frame.excess).then_some(at)?
            }
        };
        let Self { flows, state, leaving, decided, .. } = self;
        let Flow { to: its, now: follows, way, gate } = flows.fresh(at)?;
        let way = way.as_ref()?;
        if flows.site(*its) != to {
            return None;
        }
        leaving.begin(*follows, frame.len);
        let start = frame.start();
        let sender = state.again(&way.gate, start, now, &mut leaving.advances);
        if sender.is_unknown() || !state.takes_again(way, start, now, &mut leaving.advances) {
            return None;
        }
        let known = match way.changes_nothing() {
            true => Known::AsItIs,
            false => {
                leaving.frame.clear();
                leaving.frame.extend_from_slice(frame.bytes);
                way.rewrite(&Head::of(0, start)?, &mut leaving.frame);
                Known::Rewritten
            }
        };
        if way.translates() && frame.partial.is_some() {
            reseed((frame.bytes, frame.len), &mut leaving.frame, frame.partial)?;
        }
        let receiver = match (gate, to) {
            // Its port sees the ends that a router has given it.
            (Some(gate), _) if way.translates() => {
                let start = Start { bytes: &leaving.frame, len: frame.len };
                state.again(gate, start, now, &mut leaving.advances)
            }
            (Some(gate), _) => state.again(gate, start, now, &mut leaving.advances),
            // Its own host decides whether it arrives.
            (None, Site::There(_)) => Passes::Yes,
            (None, _) => Passes::Unknown,
        };
        if receiver.is_unknown() {
            return None;
        }
        decided.known += 1;
        let hides_origin = way.hides_origin();
        if !matches!((sender, receiver), (Passes::Yes, Passes::Yes)) {
            note(flows, at, sender, receiver);
        }
        Some((known, hides_origin))
    }

    /// Remembers what was decided of a machine's frame for a port; `gate`: what this says of it, if
    /// it is here.
    pub(crate) fn remember(
        &mut self,
        frame: &MachineFrame<'_>,
        (way, via, to): (Option<Way>, Option<Via>, &Identity),
        gate: Option<Gated>,
    ) {
        let there = self.places.get(to).filter(|_| gate.is_some());
        let there = there.and_then(|port| self.bound_to(*port)).map(|there| there.rules.0);
        // A new number may be the first of all that are given anew: the sender's has to be read
        // behind it.
        let to = self.number(to);
        let (Some(way), Some(head)) = (way, head(&self.bound, frame)) else { return };
        let Self { vias, flows, .. } = self;
        let via = via.map(|via| *vias.entry(via).or_insert_with(|| flows.add_cell()));
        let Some(from) = self.bound_to(frame.from) else { return };
        let cells = from.cells().chain(there).chain(via);
        self.flows.insert(&head, cells, Flow { to, now: Now::default(), way: Some(way), gate });
    }

    /// The same of a far machine's frame, for one of this host.
    pub(crate) fn remember_from_far(
        &mut self,
        (label, origin): (u32, Origin),
        to: PortId,
        frame: &[u8],
        gate: Option<Gated>,
    ) {
        // What is not a known port's is decided one by one: it may become known.
        let is_known = origin.label == 0 || self.far.name(origin.label).is_some();
        let Some(gate) = gate.filter(|_| is_known && !origin.is_networks) else { return };
        let place = Source::Far(origin.label, label).place();
        let Some(head) = Head::of(place, frame.into()) else { return };
        let Some(name) = self.far.name(label).cloned() else { return };
        let number = self.number(&name);
        let Some(to) = self.bound_to(to) else { return };
        let flow = Flow { to: number, now: Now::default(), way: None, gate: Some(gate) };
        self.flows.insert(&head, to.cells(), flow);
    }
}

impl Leaving {
    /// A frame of so many bytes leaves, and nothing is left of the one before.
    #[inline(always)]
    fn begin(&mut self, follows: Now, bytes: usize) {
        self.advances.clear();
        if !self.changes.is_empty() {
            self.changes.clear();
        }
        if !self.copies.is_empty() {
            self.copies.clear();
        }
        if !self.ruled.is_empty() {
            self.ruled.clear();
        }
        self.simply(follows, bytes);
        self.is_simple = false;
    }

    /// A frame of so many bytes leaves that changes nothing.
    #[inline(always)]
    const fn simply(&mut self, follows: Now, bytes: usize) {
        (self.counters, self.bytes, self.is_simple) = (follows.counters, bytes, true);
    }
}
