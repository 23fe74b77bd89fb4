//! Frames whose flow is known: where they go, and how they leave, without a rule being asked.

use datapath::{Origin, Remote};
use logical::objects::Identity;
use lossless::{Destination, PortId};
use pipeline::{Gated, Head, Way};
use units::{Class, Instant};

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

/// A frame that goes as those of its flow before.
struct Goes<'a> {
    flow: &'a Flow,
    way: &'a Way,
    to: Site,
    head: Head,
}

impl Networks {
    /// A machine's frame whose flow is known, and that takes its way.
    #[inline]
    fn goes(&self, from: PortId, frame: &[u8], excess: usize) -> Option<Goes<'_>> {
        let number = self.bound.get(from.index())?.as_ref()?.number?;
        let head = Head::of(frame, frame.len())?;
        let flow = self.flows.find(Source::Port(number), &head)?;
        let (way, to) = (flow.way.as_ref()?, self.flows.site(flow.to));
        way.takes(&head, frame, excess).then_some(Goes { flow, way, to, head })
    }

    /// Where a machine's frame goes, if that is known. Whether it may is asked when it leaves,
    /// unless its sender may have to be told now.
    #[inline]
    pub(crate) fn known_destination(
        &self,
        now: Instant,
        from: PortId,
        class: Class,
        frame: &[u8],
        excess: usize,
    ) -> Option<Destination<'static>> {
        let Goes { way, to, head, .. } = self.goes(from, frame, excess)?;
        if !way.gate.allows() {
            self.state.again(&way.gate, &head, frame, now)?;
        }
        match to {
            Site::Here(port) if port != from => Some(Destination::One(port)),
            Site::There(remote) => {
                self.uplink.map(|uplink| Destination::Flow(uplink, remote.flow(class)))
            }
            Site::Here(_) | Site::Nowhere => None,
        }
    }

    /// Has a machine's frame leave by a port of this host, if it is known how.
    #[inline]
    pub(crate) fn leaves_known(
        &mut self,
        now: Instant,
        from: PortId,
        to: PortId,
        frame: &[u8],
        excess: usize,
    ) -> Option<Known> {
        let Goes { flow, way, to: site, head } = self.goes(from, frame, excess)?;
        if site != Site::Here(to) {
            return None;
        }
        let sender = self.state.again(&way.gate, &head, frame, now)?;
        let receiver = self.state.again(flow.gate.as_ref()?, &head, frame, now)?;
        let way = *way;
        self.decided.known += 1;
        self.leaving.begin([sender, receiver]);
        Some(self.leaving.rewrite(&way, &head, frame))
    }

    /// Has a far machine's frame leave by a port of this host, if it is known how.
    #[inline]
    pub(crate) fn leaves_known_from_far(
        &mut self,
        now: Instant,
        (label, origin): (u32, Origin),
        to: PortId,
        frame: &[u8],
    ) -> Option<Known> {
        let head = Head::of(frame, frame.len()).filter(|_| !origin.is_networks)?;
        let flow = self.flows.find(Source::Far(origin.label, label), &head)?;
        if self.flows.site(flow.to) != Site::Here(to) {
            return None;
        }
        let receiver = self.state.again(flow.gate.as_ref()?, &head, frame, now)?;
        self.decided.known += 1;
        self.leaving.begin([None, receiver]);
        Some(Known::AsItIs)
    }

    /// Has a machine's frame depart to a port of another host, if it is known how.
    #[inline]
    pub(crate) fn departs_known(
        &mut self,
        now: Instant,
        from: PortId,
        remote: Remote,
        frame: &[u8],
        excess: usize,
    ) -> Option<(Known, Origin)> {
        let Goes { way, to, head, .. } = self.goes(from, frame, excess)?;
        if to != Site::There(remote) {
            return None;
        }
        let sender = self.state.again(&way.gate, &head, frame, now)?;
        let way = *way;
        let label = self.bound.get(from.index())?.as_ref()?.label;
        let origin = Origin { label, is_networks: false, generation: 0 };
        self.decided.known += 1;
        self.leaving.begin([sender, None]);
        Some((self.leaving.rewrite(&way, &head, frame), origin))
    }

    /// Remembers what was decided of a machine's frame for a port; `gate`: what this says of it, if
    /// it is here.
    pub(crate) fn remember(
        &mut self,
        from: PortId,
        frame: &[u8],
        (way, to): (Option<Way>, &Identity),
        gate: Option<Gated>,
    ) {
        let Some(way) = way else { return };
        let Some(head) = Head::of(frame, frame.len()) else { return };
        let to = self.number(to);
        let Some(Some(Bound { number: Some(number), cell: Some(cell), .. })) =
            self.bound.get(from.index())
        else {
            return;
        };
        let flow = Flow { way: Some(way), to, gate };
        self.flows.insert(Source::Port(*number), &head, *cell, flow);
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
        let Some(head) = Head::of(frame, frame.len()) else { return };
        let Some(name) = self.far.name(label).cloned() else { return };
        let name = self.number(&name);
        let Some(Some(Bound { cell: Some(cell), .. })) = self.bound.get(to.index()) else {
            return;
        };
        let flow = Flow { way: None, to: name, gate: Some(gate) };
        self.flows.insert(Source::Far(origin.label, label), &head, *cell, flow);
    }
}

impl Leaving {
    /// A frame leaves that changes no more than these connections.
    fn begin(&mut self, advances: [Option<conntrack::Change>; 2]) {
        self.changes.clear();
        self.copies.clear();
        self.advances = advances;
    }

    fn rewrite(&mut self, way: &Way, head: &Head, frame: &[u8]) -> Known {
        if way.changes_nothing() {
            return Known::AsItIs;
        }
        self.frame.clear();
        self.frame.extend_from_slice(frame);
        way.rewrite(head, &mut self.frame);
        Known::Rewritten
    }
}
