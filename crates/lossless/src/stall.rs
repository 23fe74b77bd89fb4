//! Receivers that take nothing: what waits for one is refused after a while, so that it does not
//! hold its senders back for ever.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;

use units::{Class, Instant, Span};

use crate::account::Refusal;
use crate::cells::Queue;
use crate::config::Settings;
use crate::flows::{Flow, FlowPart, FlowQueue, Full, State};
use crate::id::PortId;
use crate::port::{Egress, Port, Review};
use crate::switch::{Released, Switch};

/// How much sooner at most a socket is judged whose sender has as much set aside as it may: by as
/// much as there are sockets behind one port that it may be set aside for.
const HURRY: u64 = 10;

/// How long an egress is not looked at for each of its flows: thousands are not to cost each tick
/// as many looks.
const REST: Span = Span::from_micros(16);

/// Of so few flows, it is known at any time when the first verdict is due.
const FEW: usize = 64;

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
            let flows = match egress.flows.len() {
                ..=FEW => self.first_verdict(egress),
                _ => Some(egress.review.due.max(egress.review.at)),
            };
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
        if !self.is_reviewed(now, id) {
            return self.rest(id);
        }
        let egress = &self.port(id).egress;
        let dead = self.verdicts(now, egress).map(|(part, queue, refusal)| {
            let reads = queue.waits_for_reads().filter(|_| refusal == Refusal::SOCKET_STALLED);
            let full = reads.zip(queue.head()).map(|(reads, head)| {
                let bytes = self.cells.label(head).bytes;
                Full { reads, bytes }
            });
            (part, refusal, full)
        });
        for (part, refusal, full) in dead.collect::<Vec<_>>() {
            self.refuse_flow(now, id, part, refusal, released);
            if let Some(full) = full {
                self.port_mut(id).egress.flows.note_stalled(part.flow, full);
            }
        }
        let egress = &self.port(id).egress;
        let at = now + Span::from_nanos(REST.as_nanos() * egress.flows.len() as u64);
        let due = self.first_verdict(egress).unwrap_or(at);
        self.port_mut(id).egress.review = Review { at, due };
        self.rest(id);
    }

    /// The flows that are set aside for a receiver and that the next [`tick`](Self::tick) refuses,
    /// unless their sockets turn out to have been read: see [`Head::note_full`].
    ///
    /// [`Head::note_full`]: crate::Head::note_full
    pub fn due(&self, now: Instant, id: PortId) -> impl Iterator<Item = Flow> {
        let egress = Some(&self.port(id).egress).filter(|_| self.is_reviewed(now, id));
        let verdicts = egress.into_iter().flat_map(move |egress| self.verdicts(now, egress));
        let aside = verdicts.filter(|(_, queue, _)| queue.state == State::Aside);
        aside.map(|(part, ..)| part.flow)
    }

    /// Whether an egress has flows, and they are looked at now.
    fn is_reviewed(&self, now: Instant, id: PortId) -> bool {
        let egress = &self.port(id).egress;
        !egress.flows.is_empty() && (now >= egress.review.at || egress.stalled)
    }

    /// The flows that have taken nothing for too long, and as what they are refused.
    fn verdicts<'a>(
        &'a self,
        now: Instant,
        egress: &'a Egress,
    ) -> impl Iterator<Item = (FlowPart, &'a FlowQueue, Refusal)> {
        let pressed = self.pressed(egress);
        egress.flows.iter().filter_map(move |(part, queue)| {
            let refusal = match self.patience(queue, &pressed) {
                None => egress.stalled.then_some(Refusal::STALLED),
                Some((patience, refusal)) => {
                    (now >= egress.idle_since(queue.progress) + patience).then_some(refusal)
                }
            };
            Some((part, queue, refusal?))
        })
    }

    /// When the first of an egress's flows will have taken nothing for too long.
    fn first_verdict(&self, egress: &Egress) -> Option<Instant> {
        let pressed = self.pressed(egress);
        let due = |flow: &FlowQueue| {
            Some(egress.idle_since(flow.progress) + self.patience(flow, &pressed)?.0)
        };
        egress.flows.iter().filter_map(|(_, flow)| due(flow)).min()
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
