//! Frames whose flow is known: where they go, and how they leave, without a rule being asked.

use alloc::vec::Vec;

use classifier::exact::Found;
use datapath::{Origin, Remote};
use logical::objects::Identity;
use lossless::{Destination, PortId};
use pipeline::{Gated, Head, Way};
use units::{Class, Instant};

use crate::decide::MachineFrame;
use crate::flows::{Flow, Site, Source};
use crate::networks::{Bound, Leaving, Networks};

/// How a frame leaves whose flow is known.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Known {
    /// As it came.
    AsItIs,
    /// As [`Leaving`] has it.
    Rewritten,
}

/// What was found of frames when they came, for when they leave: by their senders' ports, and where
/// they lie there.
#[derive(Debug, Default)]
pub struct Notes(Vec<Vec<Option<Found>>>);

/// Of how many places of a port notes are kept.
const SLOTS: u32 = 1 << 16;

impl Notes {
    /// What was found of a frame, or that nothing was.
    #[inline(always)]
    pub fn set(&mut self, frame: &MachineFrame<'_>, found: Option<Found>) {
        let Some(slot) = frame.slot.filter(|slot| *slot < SLOTS) else { return };
        match self.0.get_mut(frame.from.index()).and_then(|it| it.get_mut(slot as usize)) {
            Some(note) => *note = found,
            None => self.add(frame.from, slot, found),
        }
    }

    #[cold]
    fn add(&mut self, from: PortId, slot: u32, found: Option<Found>) {
        if self.0.len() <= from.index() {
            self.0.resize_with(from.index() + 1, Vec::new);
        }
        let notes = &mut self.0[from.index()];
        notes.resize(notes.len().max(slot as usize + 1), None);
        notes[slot as usize] = found;
    }

    #[inline(always)]
    fn get(&self, frame: &MachineFrame<'_>) -> Option<Found> {
        *self.0.get(frame.from.index())?.get(frame.slot? as usize)?
    }

    /// A port is gone.
    pub fn forget(&mut self, port: PortId) {
        if let Some(notes) = self.0.get_mut(port.index()) {
            *notes = Vec::new();
        }
    }
}

impl Networks {
    /// What a machine's frame has come with.
    #[inline(always)]
    fn head(&self, frame: &MachineFrame<'_>) -> Option<Head> {
        let number = self.bound.get(frame.from.index())?.as_ref()?.number?;
        Head::of(Source::Port(number).place(), frame.bytes)
    }

    /// What is known of a machine's frame that takes its flow's way.
    #[inline(always)]
    fn find(&self, frame: &MachineFrame<'_>) -> Option<(Found, &Flow, &Way)> {
        let head = self.head(frame)?;
        let (found, flow) = self.flows.find(&head)?;
        let way = flow.way.as_ref()?;
        way.takes(&head, frame.bytes, frame.excess).then_some((found, flow, way))
    }

    /// The same of one that has come before, and is as it was.
    #[inline(always)]
    fn find_again(&self, frame: &MachineFrame<'_>) -> Option<(&Flow, &Way)> {
        if let Some(found) = self.notes.get(frame)
            && let Some(flow) = self.flows.at(found)
            && let Some(way) = &flow.way
        {
            return Some((flow, way));
        }
        self.find(frame).map(|(_, flow, way)| (flow, way))
    }

    /// Where a machine's frame goes, if that is known. Whether it may is asked when it leaves,
    /// unless its sender may have to be told now.
    #[inline(always)]
    pub(crate) fn known_destination(
        &mut self,
        now: Instant,
        class: Class,
        frame: &MachineFrame<'_>,
    ) -> Option<Destination<'static>> {
        let found = self.find(frame).and_then(|(found, flow, way)| {
            if !way.gate.allows() {
                self.state.again(&way.gate, frame.bytes, now)?;
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
        let (flow, way) = self.find_again(frame)?;
        if self.flows.site(flow.to) != Site::Here(to) {
            return None;
        }
        let sender = self.state.again(&way.gate, frame.bytes, now)?;
        let receiver = self.state.again(flow.gate.as_ref()?, frame.bytes, now)?;
        let way = (!way.changes_nothing()).then_some(*way);
        self.leaving.begin([sender, receiver]);
        self.decided.known += 1;
        Some(self.rewrite(way, frame))
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
        let (_, flow) = self.flows.find(&head)?;
        if self.flows.site(flow.to) != Site::Here(to) {
            return None;
        }
        let receiver = self.state.again(flow.gate.as_ref()?, frame, now)?;
        self.leaving.begin([None, receiver]);
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
        let (flow, way) = self.find_again(frame)?;
        if self.flows.site(flow.to) != Site::There(remote) {
            return None;
        }
        let sender = self.state.again(&way.gate, frame.bytes, now)?;
        let way = (!way.changes_nothing()).then_some(*way);
        let label = self.bound.get(frame.from.index())?.as_ref()?.label;
        let origin = Origin { label, is_networks: false, generation: 0 };
        self.leaving.begin([sender, None]);
        self.decided.known += 1;
        Some((self.rewrite(way, frame), origin))
    }

    /// Makes a frame what it is where it gets to, if that is other than it is.
    #[inline(always)]
    fn rewrite(&mut self, way: Option<Way>, frame: &MachineFrame<'_>) -> Known {
        let Some((way, head)) = way.zip(Head::of(0, frame.bytes)) else { return Known::AsItIs };
        let to = &mut self.leaving.frame;
        to.clear();
        to.extend_from_slice(frame.bytes);
        way.rewrite(&head, to);
        Known::Rewritten
    }

    /// Remembers what was decided of a machine's frame for a port; `gate`: what this says of it, if
    /// it is here.
    pub(crate) fn remember(
        &mut self,
        frame: &MachineFrame<'_>,
        (way, to): (Option<Way>, &Identity),
        gate: Option<Gated>,
    ) {
        let (Some(way), Some(head)) = (way, self.head(frame)) else { return };
        let to = self.number(to);
        let bound = self.bound.get(frame.from.index()).and_then(Option::as_ref);
        if let Some(cell) = bound.and_then(|it| it.cell) {
            self.flows.insert(&head, cell, Flow { way: Some(way), to, gate });
        }
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
        let name = self.number(&name);
        let Some(Some(Bound { cell: Some(cell), .. })) = self.bound.get(to.index()) else {
            return;
        };
        self.flows.insert(&head, *cell, Flow { way: None, to: name, gate: Some(gate) });
    }
}

impl Leaving {
    /// A frame leaves that changes no more than these connections.
    #[inline(always)]
    fn begin(&mut self, advances: [Option<conntrack::Change>; 2]) {
        self.changes.clear();
        self.copies.clear();
        self.changes.extend(advances.into_iter().flatten().map(pipeline::Change::Advance));
    }
}
