//! Receivers that take nothing: what waits for one is refused after a while, so that it does not
//! hold its senders back for ever.

use alloc::vec::Vec;

use units::{Class, Instant};

use crate::account::Refusal;
use crate::cells::Queue;
use crate::flows::{FlowQueue, State};
use crate::id::PortId;
use crate::port::Port;
use crate::switch::{Released, Switch};

impl<F: Copy> Switch<F> {
    /// Does what time asks for: declares receivers stalled and refuses what waits for them.
    pub fn tick(&mut self, now: Instant, mut released: impl FnMut(Released<F>)) {
        for port in self.pending.iter() {
            self.watch(now, port, &mut released);
        }
    }

    /// When the next shaped frame may leave or the next verdict falls due, if nothing else happens
    /// before.
    ///
    /// A frame that may leave already is no deadline: its receiver has to ask.
    pub fn deadline(&self, now: Instant) -> Option<Instant> {
        let verdict = self.settings.stall_after;
        let of_port = |port: &Port| {
            let egress = &port.egress;
            let shaped = egress
                .shaper
                .as_ref()
                .map(|shaper| shaper.ready_at())
                .filter(|at| !egress.is_idle() && *at > now);
            let waits = egress.ready | egress.ready_flows != 0;
            let stall =
                (waits && !egress.stalled).then(|| egress.idle_since(egress.progress) + verdict);
            let flows = egress.flows.iter().filter(|(_, flow)| flow.state != State::Ready);
            let flows = flows.map(|(_, flow)| egress.idle_since(flow.progress) + verdict).min();
            [shaped, stall, flows].into_iter().flatten().min()
        };
        self.pending.iter().filter_map(|port| of_port(self.port(port))).min()
    }

    /// The stall verdict on one receiver and on each of its flows.
    fn watch(&mut self, now: Instant, id: PortId, released: &mut impl FnMut(Released<F>)) {
        let patience = self.settings.stall_after;
        let egress = &mut self.port_mut(id).egress;
        if egress.ready | egress.ready_flows == 0 {
            egress.progress = now;
            egress.stalled = false;
        }
        if now >= egress.idle_since(egress.progress) + patience {
            egress.stalled = true;
            self.refuse_waiting(now, id, Refusal::STALLED, released);
            self.refuse_switched(now, id, released);
        }
        let egress = &self.port(id).egress;
        let dead = |flow: &FlowQueue| match flow.state {
            State::Ready => egress.stalled,
            State::Aside | State::Blocked => now >= egress.idle_since(flow.progress) + patience,
        };
        let flows: Vec<_> =
            egress.flows.iter().filter(|(_, flow)| dead(flow)).map(|(flow, _)| flow).collect();
        for flow in flows {
            self.refuse_flow(now, id, flow, Refusal::STALLED, released);
        }
        self.rest(id);
    }

    /// Has a port's receiver left in peace if it has nothing to take.
    #[inline]
    pub(crate) fn rest(&mut self, id: PortId) {
        let Self { ports, pending, .. } = self;
        let egress = &mut ports[id].egress;
        if egress.is_idle() {
            egress.stalled = false;
            pending.remove(id);
        }
    }

    /// Refuses what is switched to a stalled receiver, so that its senders have their share back
    /// for others. The first of each class stays: with it the receiver shows that it is there
    /// again.
    fn refuse_switched(
        &mut self,
        now: Instant,
        id: PortId,
        released: &mut impl FnMut(Released<F>),
    ) {
        for class in Class::all() {
            let Self { ports, cells, .. } = self;
            let side = &mut ports[id].egress.classes[class];
            let Some(first) = cells.pop(&mut side.queue) else { continue };
            let mut gone = core::mem::replace(&mut side.queue, Queue::EMPTY);
            cells.push(&mut side.queue, first);
            side.load = cells.label(first).load();
            self.refuse_queue(now, id, &mut gone, Refusal::STALLED, released);
        }
    }
}
