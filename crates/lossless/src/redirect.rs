//! Flows whose receivers are elsewhere by now: what is held of them goes there, in its order.
//!
//! ```text
//!  waits ─▶ 5 6 7       hold: nothing leaves      returned: 3, then 4     redirect: none is underway
//!  away  ─▶ 1 2 3 4     arrived: 1, 2             waits ─▶ 3 4 5 6 7      3 4 5 6 7 ─▶ the new receiver
//! ```
//!
//! What is underway ends in order, at the old receiver or back here. So when none is, what is held
//! is what the old receiver has not had, and no frame passes another on its way to the new one.

use alloc::vec::Vec;

use units::{Class, Instant};

use crate::account::{End, Load, Refusal};
use crate::cells::{Node, Queue};
use crate::flows::{Flow, State};
use crate::id::PortId;
use crate::port::Port;
use crate::switch::{Released, Switch};

/// What becomes of a frame that waited for a receiver that is elsewhere.
#[derive(Clone, Copy, Debug)]
pub enum Redirected {
    /// It waits for this port, or in a flow of it.
    To(PortId, Option<Flow>),
    /// The switch's owner has taken it: its sender's account has it as delivered, and that of the
    /// receiver for which it waited as moved.
    Taken,
    /// Nobody is to have it.
    Refused(Refusal),
}

impl<F: Copy> Switch<F> {
    /// A flow takes no turns from now on, whatever [unblocks](Self::unblock) it, before it is
    /// [redirected](Self::redirect).
    pub fn hold_flow(&mut self, now: Instant, port: PortId, flow: Flow) {
        let Self { ports, cells, .. } = self;
        let egress = &mut ports[port].egress;
        egress.flows.hold(flow);
        for part in egress.flows.parts_of(flow) {
            let Some(sharer) = egress.flows.block(now, part) else { continue };
            Class::all().for_each(|class| egress.note_ready(class));
            egress.note_first(now, sharer, cells);
        }
    }

    /// Whether a flow is [held](Self::hold_flow).
    pub fn is_held(&self, port: PortId, flow: Flow) -> bool {
        self.port(port).egress.flows.is_held(flow)
    }

    /// Whether frames of a flow have [departed](crate::Head::depart), and it is not known what
    /// became of them.
    pub fn is_underway(&self, port: PortId, flow: Flow) -> bool {
        self.port(port).egress.away.contains_key(&flow)
    }

    /// The flows of which frames are underway.
    pub fn underway(&self, port: PortId) -> impl Iterator<Item = Flow> {
        self.port(port).egress.away.keys().copied()
    }

    /// Of a flow that is underway, the first frame is back: its receiver is elsewhere. It waits
    /// before all that has not departed, in a flow that is held. Whose it is, and its handle.
    pub fn returned(&mut self, now: Instant, port: PortId, flow: Flow) -> Option<(PortId, F)> {
        let node = self.pop_away(port, flow)?;
        self.hold_flow(now, port, flow);
        let Self { ports, cells, pending, .. } = self;
        let from = PortId(cells.label(node).stamp.ingress());
        let sharer = ports[port].egress.sharer(&ports[from].ingress);
        let egress = &mut ports[port].egress;
        egress.begin_work(now);
        let frames = egress.flows.put_back(now, flow, sharer, cells, node);
        pending.insert(port);
        let Port { config, ingress, .. } = &mut ports[from];
        ingress.at_quota += u32::from(frames == config.quota.get());
        Some((from, self.cells.look(node).frame))
    }

    /// What is held in a flow is for another receiver, as `to` says for each sender, and the flow
    /// held no longer: a sender's frames go behind what waits there. What that does not take is
    /// released.
    ///
    /// # Panics
    ///
    /// If frames of the flow are underway: they may come back.
    pub fn redirect(
        &mut self,
        now: Instant,
        (port, flow): (PortId, Flow),
        mut to: impl FnMut(PortId) -> (PortId, Option<Flow>),
        mut released: impl FnMut(Released<F>),
    ) {
        assert!(!self.is_underway(port, flow), "{flow:?} has frames underway");
        let Self { ports, cells, .. } = self;
        let side = &mut ports[port].egress;
        side.flows.let_go(flow);
        let parts: Vec<_> = side.flows.parts_of(flow).collect();
        let mut gone = Vec::new();
        for part in parts {
            let Some(queue) = side.flows.remove(part) else { continue };
            Class::all().for_each(|class| side.note_ready(class));
            side.note_first(now, queue.sharer, cells);
            gone.push(queue);
        }
        for (sender, lane) in gone.iter().flat_map(|queue| queue.lanes()) {
            let Port { config, ingress, .. } = self.port_mut(sender);
            if lane.frames >= config.quota.get() {
                ingress.at_quota -= 1;
                ingress.resume(now, config);
            }
            for node in self.cells.iter(&lane.queue).collect::<Vec<_>>() {
                self.rebook(now, port, to(sender), node).into_iter().for_each(&mut released);
            }
        }
        self.rest(port);
    }

    /// What is held for a port is for others, frame by frame: `to` says what becomes of a sender's
    /// frame, which is of a class. Of each sender, frames stay in order. What waits for nobody any
    /// more is released.
    pub fn redirect_port(
        &mut self,
        now: Instant,
        port: PortId,
        mut to: impl FnMut(PortId, Class, F) -> Redirected,
        mut released: impl FnMut(Released<F>),
    ) {
        let mut nodes = Vec::new();
        // What was set aside came before others of its flow.
        let parts: Vec<_> = self.port(port).egress.flows.keys().collect();
        for part in parts {
            let Some(gone) = self.port_mut(port).egress.flows.remove(part) else { continue };
            for (sender, lane) in gone.lanes() {
                assert!(gone.state == State::Aside, "no flow is offered at a receiver's port");
                let Port { config, ingress, .. } = self.port_mut(sender);
                ingress.take_back(now, lane.frames - lane.spares, config);
                nodes.extend(self.cells.iter(&lane.queue));
            }
        }
        for class in Class::all() {
            let Self { ports, cells, .. } = self;
            let egress = &mut ports[port].egress;
            egress.ready &= !(1 << class.pcp());
            let side = &mut egress.classes[class];
            nodes.extend(cells.iter(&side.queue));
            (side.load, side.queue) = (Load::NONE, Queue::EMPTY);
            while let Some(node) = self.pop_waiting(now, port, class) {
                nodes.push(node);
            }
        }
        for node in nodes {
            let seen = self.cells.look(node);
            let stamp = seen.label.stamp;
            let ended = match to(PortId(stamp.ingress()), stamp.class(), seen.frame) {
                Redirected::To(to, flow) => self.rebook(now, port, (to, flow), node),
                Redirected::Taken => self.finish(now, port, node, End::Taken),
                Redirected::Refused(refusal) => self.refuse(now, port, node, refusal),
            };
            ended.into_iter().for_each(&mut released);
        }
        self.rest(port);
    }

    /// A frame that lies in no queue is for another receiver. It comes back if that does not take
    /// it.
    fn rebook(
        &mut self,
        now: Instant,
        before: PortId,
        (to, flow): (PortId, Option<Flow>),
        node: Node,
    ) -> Option<Released<F>> {
        let stamp = self.cells.label(node).stamp;
        let (from, class) = (PortId(stamp.ingress()), stamp.class());
        let group = self.cells.take_group(node);
        let standing = stamp.is_spare().then(|| {
            self.end_copy(from, before, group, node);
            self.copies_held(from)
        });
        let egress = &mut self.port_mut(before).egress;
        egress.classes[class].account.hand_back(to == before);
        if let Some(group) = group {
            let stays = to == before && flow.is_some_and(|flow| flow.group() == group);
            egress.groups.account(group).hand_back(stays);
        }
        if to == from {
            // No queue leads from a port to itself.
            self.port_mut(to).egress.classes[class].account.accept(1);
            return self.refuse(now, to, node, Refusal::SAME_PORT);
        }
        let (frame, reason) = self.place(now, from, to, flow, node, standing)?;
        Some(Released { port: from, frame, refused: Some(reason) })
    }
}
