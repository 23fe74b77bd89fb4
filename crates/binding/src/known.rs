//! Frames whose flow is known: where they go, and how they leave, without a rule being asked.

use alloc::vec::Vec;

use classifier::exact::Found;
use datapath::{Origin, Remote};
use logical::objects::Identity;
use lossless::{Destination, PortId};
use pipeline::{Gated, Head, Passes, Way};
use units::{Class, Instant};

use crate::flows::{Flow, Flows, Site, Source};
use crate::networks::{Bound, Leaving, Networks};
use crate::notes::MachineFrame;

/// How a frame leaves whose flow is known.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Known {
    /// As it came.
    AsItIs,
    /// As [`Leaving`] has it.
    Rewritten,
}

/// What a machine's frame is, by which flows are told apart.
#[inline(always)]
fn head(bound: &[Option<Bound>], frame: &MachineFrame<'_>) -> Option<Head> {
    let number = bound.get(frame.from.index())?.as_ref()?.number?;
    Head::of(Source::Port(number).place(), frame.bytes)
}

/// What is known of a machine's frame that takes its flow's way.
#[inline(always)]
fn find<'a>(
    flows: &'a Flows,
    bound: &[Option<Bound>],
    frame: &MachineFrame<'_>,
) -> Option<(Found, &'a Flow, &'a Way)> {
    let head = head(bound, frame)?;
    let (found, flow) = flows.find(&head)?;
    let way = flow.way.as_ref()?;
    way.takes(&head, frame.bytes, frame.excess).then_some((found, flow, way))
}

/// Notes which connections a flow's packets are of.
#[cold]
fn note(flows: &mut Flows, found: Found, sender: Passes, receiver: Passes) {
    let Some(flow) = flows.at_mut(found) else { return };
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
    pub(crate) fn known_destination(
        &mut self,
        now: Instant,
        class: Class,
        frame: &MachineFrame<'_>,
    ) -> Option<Destination<'static>> {
        let found = find(&self.flows, &self.bound, frame).and_then(|(found, flow, way)| {
            if !way.gate.allows() {
                let passes = self.state.again(&way.gate, frame.bytes, now, &mut Vec::new());
                (passes != Passes::Unknown).then_some(())?;
            }
            let to = match self.flows.site(flow.to) {
                Site::Here(port) if port != frame.from => Destination::One(port),
                Site::There(remote) => Destination::Flow(self.uplink?, remote.flow(class)),
                Site::Here(_) | Site::Nowhere => return None,
            };
            Some((found, to))
        });
        self.notes.set(frame, found.map(|(found, _)| found));
        found.map(|(_, to)| to)
    }

    /// Has a machine's frame leave by a port of this host, if it is known how.
    #[inline(always)]
    pub(crate) fn leaves_known(
        &mut self,
        now: Instant,
        to: PortId,
        frame: &MachineFrame<'_>,
    ) -> Option<Known> {
        self.goes(now, Site::Here(to), frame)
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
        let head = Head::of(Source::Far(origin.label, label).place(), frame)?;
        let (found, flow) = self.flows.find(&head)?;
        if self.flows.site(flow.to) != Site::Here(to) {
            return None;
        }
        self.leaving.begin();
        let advances = &mut self.leaving.advances;
        match self.state.again(flow.gate.as_ref()?, frame, now, advances) {
            Passes::Yes => {}
            Passes::By(connection) => {
                let gate = self.flows.at_mut(found).and_then(|flow| flow.gate.as_mut());
                gate.into_iter().for_each(|gate| gate.note(connection));
            }
            Passes::Unknown => return None,
        }
        let rule = self.flows.at(found).and_then(|flow| flow.gate.as_ref()?.rule());
        self.leaving.again = [rule.map(|rule| (to, rule)), None];
        self.leaving.bytes = frame.len();
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
        let known = self.goes(now, Site::There(remote), frame)?;
        let label = self.bound.get(frame.from.index())?.as_ref()?.label;
        Some((known, Origin { label, ..Origin::default() }))
    }

    /// Has a machine's frame that has come before, and is as it was, go to where a port is.
    #[inline(always)]
    fn goes(&mut self, now: Instant, to: Site, frame: &MachineFrame<'_>) -> Option<Known> {
        let Self { flows, notes, bound, state, leaving, decided, .. } = self;
        let noted = notes.get(frame).and_then(|found| Some((found, flows.at(found)?)));
        let noted = noted.and_then(|(found, flow)| Some((found, flow, flow.way.as_ref()?)));
        let (found, flow, way) = match noted {
            Some(noted) => noted,
            None => find(flows, bound, frame)?,
        };
        if flows.site(flow.to) != to {
            return None;
        }
        leaving.begin();
        let mut again = |gate: &Gated| state.again(gate, frame.bytes, now, &mut leaving.advances);
        let sender = again(&way.gate);
        if sender == Passes::Unknown {
            return None;
        }
        let receiver = match (&flow.gate, to) {
            (Some(gate), _) => again(gate),
            // Its own host decides whether it arrives.
            (None, Site::There(_)) => Passes::Yes,
            (None, _) => Passes::Unknown,
        };
        if receiver == Passes::Unknown {
            return None;
        }
        decided.known += 1;
        leaving.bytes = frame.bytes.len();
        let arrives = flow.gate.as_ref().and_then(Gated::rule);
        let there = match to {
            Site::Here(port) => arrives.map(|rule| (port, rule)),
            Site::There(_) | Site::Nowhere => None,
        };
        leaving.again = [way.gate.rule().map(|rule| (frame.from, rule)), there];
        let way = *way;
        if (sender, receiver) != (Passes::Yes, Passes::Yes) {
            note(flows, found, sender, receiver);
        }
        if way.changes_nothing() {
            return Some(Known::AsItIs);
        }
        let head = Head::of(0, frame.bytes)?;
        leaving.frame.clear();
        leaving.frame.extend_from_slice(frame.bytes);
        way.rewrite(&head, &mut leaving.frame);
        Some(Known::Rewritten)
    }

    /// Remembers what was decided of a machine's frame for a port; `gate`: what this says of it, if
    /// it is here.
    pub(crate) fn remember(
        &mut self,
        frame: &MachineFrame<'_>,
        (way, to): (Option<Way>, &Identity),
        gate: Option<Gated>,
    ) {
        let there = self.places.get(to).filter(|_| gate.is_some());
        let there = there.and_then(|port| self.bound_to(*port)).map(|there| there.rules.0);
        // A new number may be the first of all that are given anew: the sender's has to be read
        // behind it.
        let to = self.number(to);
        let (Some(way), Some(head)) = (way, head(&self.bound, frame)) else { return };
        let Some(from) = self.bound_to(frame.from) else { return };
        let cells = from.cells().chain(there);
        self.flows.insert(&head, cells, Flow { way: Some(way), to, gate });
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
        let Some(head) = Head::of(place, frame) else { return };
        let Some(name) = self.far.name(label).cloned() else { return };
        let number = self.number(&name);
        let Some(to) = self.bound_to(to) else { return };
        self.flows.insert(&head, to.cells(), Flow { way: None, to: number, gate: Some(gate) });
    }
}

impl Leaving {
    /// A frame leaves, and nothing is left of the one before.
    #[inline(always)]
    fn begin(&mut self) {
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
    }
}
