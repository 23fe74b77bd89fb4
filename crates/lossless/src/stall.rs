//! Receivers that take nothing: what waits for one is refused after a while, so that it does not
//! hold its senders back for ever.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;

use units::{Class, Instant, Span};

use crate::account::Refusal;
use crate::cells::Queue;
use crate::config::Settings;
use crate::flows::{FlowQueue, Full, State};
use crate::id::PortId;
use crate::port::{Egress, Port};
use crate::switch::{Released, Switch};

/// How much sooner at most a socket is judged whose sender has as much set aside as it may: by as
/// much as there are sockets behind one port that it may be set aside for.
const HURRY: u64 = 10;

/// Of senders, for how many sockets that are full.
type Pressed = BTreeMap<PortId, u64>;

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
            let shared = egress.link.as_ref().filter(|_| egress.ready_flows != 0);
            let shared = shared.and_then(|link| link.ready_at()).filter(|at| *at > now);
            let waits = egress.ready | egress.ready_flows != 0;
            let stall =
                (waits && !egress.stalled).then(|| egress.idle_since(egress.progress) + verdict);
            let pressed = self.pressed(egress);
            let flows = egress.flows.iter().filter_map(|(_, flow)| {
                Some(egress.idle_since(flow.progress) + self.patience(flow, &pressed)?.0)
            });
            let flows = flows.min();
            [shaped, shared, stall, flows].into_iter().flatten().min()
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
        let pressed = self.pressed(egress);
        let verdict = |flow: &FlowQueue| match self.patience(flow, &pressed) {
            None => egress.stalled.then_some(Refusal::STALLED),
            Some((patience, refusal)) => {
                (now >= egress.idle_since(flow.progress) + patience).then_some(refusal)
            }
        };
        let dead = egress.flows.iter().filter_map(|(flow, queue)| {
            let refusal = verdict(queue)?;
            let reads = queue.waits_for_reads().filter(|_| refusal == Refusal::SOCKET_STALLED);
            let full = reads.zip(queue.head()).map(|(reads, head)| {
                let bytes = self.cells.label(head).bytes;
                Full { reads, bytes }
            });
            Some((flow, refusal, full))
        });
        for (flow, refusal, full) in dead.collect::<Vec<_>>() {
            self.refuse_flow(now, id, flow, refusal, released);
            if let Some(full) = full {
                self.port_mut(id).egress.flows.note_stalled(flow, full);
            }
        }
        self.rest(id);
    }

    /// How long a flow may take nothing, and as what it is refused then; `None` if it shares the
    /// verdict on its port.
    fn patience(&self, flow: &FlowQueue, pressed: &Pressed) -> Option<(Span, Refusal)> {
        let Settings { stall_after, socket_stall_after, .. } = self.settings;
        match (flow.state, flow.waits_for_reads()) {
            (State::Ready, _) => None,
            // The socket has room, and waits for the port; or nobody sees whether it is read.
            (State::Blocked, _) | (State::Aside, None) => Some((stall_after, Refusal::STALLED)),
            (State::Aside, Some(_)) => {
                // Whoever opens many sockets and reads none of them must not hold a sender back
                // for as long as each of them may be silent. One that pauses may.
                let sockets = flow.lanes().filter_map(|(sender, _)| pressed.get(&sender)).max();
                let hurry = sockets.map_or(1, |sockets| *sockets.min(&HURRY));
                let patience = Span::from_nanos(socket_stall_after.as_nanos() / hurry);
                Some((patience, Refusal::SOCKET_STALLED))
            }
        }
    }

    /// The senders that have as much set aside as they may, and for how many sockets behind an
    /// egress.
    fn pressed(&self, egress: &Egress) -> Pressed {
        let mut pressed = Pressed::new();
        let full = egress.flows.iter().filter(|(_, flow)| flow.waits_for_reads().is_some());
        for (sender, lane) in full.flat_map(|(_, flow)| flow.lanes()) {
            let Port { config, ingress, .. } = self.port(sender);
            if ingress.is_pressed(config) && lane.frames > lane.spares {
                *pressed.entry(sender).or_default() += 1;
            }
        }
        pressed
    }

    /// Has a port's receiver left in peace if it has nothing to take.
    #[inline]
    pub(crate) fn rest(&mut self, id: PortId) {
        let Self { ports, pending, .. } = self;
        let egress = &mut ports[id].egress;
        if egress.is_idle() {
            egress.stalled = false;
            // The next copy finds out whether it is there again.
            egress.absent = false;
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
