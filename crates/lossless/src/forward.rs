//! From a sender to an egress: the forwarder of Algorithm 1 in both directions. A frame is pushed
//! as far as there is room, and pulled when there is.

use units::{Class, Instant};

use crate::account::{Load, Reason, Refusal};
use crate::cells::{Cells, Node, Queue};
use crate::config::Limits;
use crate::flows::{Flow, FlowPart};
use crate::id::PortId;
use crate::port::{Egress, EgressClass, Port};
use crate::switch::Switch;
use crate::voqs::{Voq, VoqId};

/// Where a frame goes that has a destination.
pub(crate) enum Step {
    /// Into its egress's queue.
    Switched,
    /// Into the VOQ of its ingress, egress and class, or into its flow.
    Waits,
    Refused(Refusal),
}

impl<F: Copy> Switch<F> {
    /// Puts a frame that lies in no queue where it goes. Of a copy for a bystander it is told what
    /// was [standing](Self::flood) of its sender's. Its handle and why, if it is refused and no
    /// other egress wants it.
    pub(crate) fn place(
        &mut self,
        now: Instant,
        from: PortId,
        to: PortId,
        flow: Option<Flow>,
        node: Node,
        standing: Option<u32>,
    ) -> Option<(F, Reason)> {
        let label = self.cells.label(node);
        let class = label.stamp.class();
        let step = match flow {
            None => self.step(to, class, label.load()),
            Some(flow) => {
                let group = flow.group();
                self.cells.set_group(node, group);
                self.port_mut(to).egress.groups.account(group).accept(1);
                self.step_in_flow(to, self.part(from, to, flow), class, label.load())
            }
        };
        let step = match standing {
            Some(standing) => {
                self.copy_step(step, (from, class), (to, flow), label.bytes, standing)
            }
            None => step,
        };
        if standing.is_some() && !matches!(step, Step::Refused(_)) {
            self.begin_copy(from, to, flow, node);
        }
        match (step, flow) {
            (Step::Switched, _) => self.switch(now, to, class, Queue::of(node), 1, label.load()),
            (Step::Waits, None) => self.hold_back(from, to, class, Queue::of(node), 1),
            (Step::Waits, Some(flow)) => self.join_flow(now, from, to, flow, node),
            (Step::Refused(refusal), _) => {
                self.port_mut(to).egress.classes[class].account.accept(1);
                let released = self.refuse(now, to, node, refusal)?;
                return Some((released.frame, refusal.reason()));
            }
        }
        None
    }

    /// Puts a frame behind others of its flow.
    fn join_flow(&mut self, now: Instant, from: PortId, to: PortId, flow: Flow, node: Node) {
        let Self { ports, cells, pending, .. } = self;
        let class = cells.label(node).stamp.class();
        let sharer = ports[to].egress.sharer(&ports[from].ingress);
        let egress = &mut ports[to].egress;
        egress.begin_work(now);
        egress.classes[class].account.accept(1);
        let (frames, is_new) = egress.flows.offer(now, flow, sharer, cells, node);
        if is_new {
            egress.ready_flows |= 1 << class.pcp();
            egress.note_first(now, sharer, cells);
        }
        pending.insert(to);
        let Port { config, ingress, .. } = &mut ports[from];
        ingress.at_quota += u32::from(frames == config.quota.get());
    }

    /// Where a frame goes that its receiver will take, unless it is stalled: on into its egress's
    /// queue if there is a permit. If not, it waits behind its ingress's others, unless its class
    /// is lossy.
    pub(crate) fn step(&self, to: PortId, class: Class, load: Load) -> Step {
        let port = self.port(to);
        if port.egress.stalled {
            return Step::Refused(Refusal::STALLED);
        }
        let lossy = self.settings.classes.lossy(class);
        let side = &port.egress.classes[class];
        let places = &port.places[usize::from(lossy.is_some())];
        if side.waiting.first == VoqId::NONE && side.permits(places, load) {
            Step::Switched
        } else if let Some(lossy) = lossy {
            Step::Refused(Refusal::full(lossy))
        } else {
            Step::Waits
        }
    }

    /// The part of a flow that a sender's frames are in.
    pub(crate) fn part(&self, from: PortId, to: PortId, flow: Flow) -> FlowPart {
        FlowPart { flow, sender: self.port(to).egress.sharer(&self.port(from).ingress).port }
    }

    /// The same of a frame for a flow: it waits there. In a lossy class the flow, or a sender's
    /// part of it, holds no more than its egress's queue might.
    pub(crate) fn step_in_flow(
        &self,
        to: PortId,
        part: FlowPart,
        class: Class,
        load: Load,
    ) -> Step {
        let Port { config, egress, .. } = self.port(to);
        match self.settings.classes.lossy(class) {
            _ if egress.stalled => Step::Refused(Refusal::STALLED),
            Some(lossy) if !permits(&config.egress, egress.flows.load(part), load) => {
                Step::Refused(Refusal::full(lossy))
            }
            _ => Step::Waits,
        }
    }

    /// Puts frames that have permits into their egress's queue.
    pub(crate) fn switch(
        &mut self,
        now: Instant,
        to: PortId,
        class: Class,
        cells: Queue,
        frames: u32,
        load: Load,
    ) {
        let egress = &mut self.ports[to].egress;
        egress.begin_work(now);
        egress.ready |= 1 << class.pcp();
        self.pending.insert(to);
        let side = &mut egress.classes[class];
        side.account.accept(frames);
        side.load.add(load);
        self.cells.append(&mut side.queue, cells);
    }

    /// Has frames that found no permit wait behind their ingress's others.
    pub(crate) fn hold_back(
        &mut self,
        from: PortId,
        to: PortId,
        class: Class,
        cells: Queue,
        frames: u32,
    ) {
        self.port_mut(to).egress.classes[class].account.accept(frames);
        let Port { config, ingress, .. } = &mut self.ports[from];
        let (id, is_new) = self.voqs.find_or_insert(from, to, class, config.quota.get());
        let voq = &mut self.voqs[id];
        self.cells.append(&mut voq.queue, cells);
        let before = voq.frames;
        voq.frames += frames;
        ingress.at_quota += u32::from(before < voq.quota && voq.frames >= voq.quota);
        if is_new {
            let load = self.cells.label(self.voqs[id].first()).load();
            let kind = usize::from(self.settings.classes.lossy(class).is_some());
            let Port { egress, places, .. } = &mut self.ports[to];
            let side = &mut egress.classes[class];
            // Who is first may wait for more room than this one needs, and is not to wait for ever.
            let may_pass = !side.permits(&places[kind], load);
            egress.rounds[class].join(&mut side.waiting, &mut self.voqs, id, may_pass);
        }
    }

    /// Pulls into (`to`, `class`) from everybody who waits for it, while there are permits: in
    /// turn, as the round has it.
    pub(crate) fn pull(&mut self, now: Instant, to: PortId, class: Class) {
        let kind = usize::from(self.settings.classes.lossy(class).is_some());
        loop {
            let Self { ports, voqs, cells, pending, .. } = self;
            let Port { egress, places, .. } = &mut ports[to];
            let side = &mut egress.classes[class];
            let (first, alone) = (side.waiting.first, side.waiting.first == side.waiting.last);
            if first == VoqId::NONE {
                return;
            }
            let voq = &mut voqs[first];
            let label = cells.label(voq.first());
            if !side.permits(&places[kind], label.load()) {
                return;
            }
            if !alone && voq.deficit < label.bytes {
                egress.rounds[class].rotate(&mut side.waiting, voqs);
                continue;
            }
            let node = voq.take(cells);
            side.load.add(label.load());
            cells.push(&mut side.queue, node);
            egress.ready |= 1 << class.pcp();
            pending.insert(to);
            self.took_waiting(now, to, class, first);
        }
    }

    /// Takes the first frame of the first ingress that waits for (`to`, `class`).
    pub(crate) fn pop_waiting(&mut self, now: Instant, to: PortId, class: Class) -> Option<Node> {
        let first = self.port(to).egress.classes[class].waiting.first;
        if first == VoqId::NONE {
            return None;
        }
        let node = self.voqs[first].take(&self.cells);
        self.took_waiting(now, to, class, first);
        Some(node)
    }

    /// A frame was taken from the first VOQ of the round of (`to`, `class`). If it was the last,
    /// the VOQ is gone, and its turn over.
    #[inline]
    fn took_waiting(&mut self, now: Instant, to: PortId, class: Class, first: VoqId) {
        let Self { ports, voqs, .. } = self;
        let voq = &voqs[first];
        if voq.frames + 1 == voq.quota {
            let Port { config, ingress, .. } = &mut ports[voq.ingress()];
            ingress.at_quota -= 1;
            ingress.resume(now, config);
        }
        if voq.queue.is_empty() {
            let Egress { classes, rounds, .. } = &mut ports[to].egress;
            rounds[class].leave(&mut classes[class].waiting, voqs);
            voqs.remove(first);
        }
    }

    /// Takes out all that an ingress has waiting for (`to`, `class`), wherever it stands in the
    /// round.
    pub(crate) fn leave_waiting(&mut self, from: PortId, to: PortId, class: Class) -> Queue {
        let Self { ports, voqs, .. } = self;
        let Some(id) = voqs.find(from, to, class) else { return Queue::EMPTY };
        let Egress { classes, rounds, .. } = &mut ports[to].egress;
        rounds[class].withdraw(&mut classes[class].waiting, voqs, id);
        let gone = voqs.remove(id);
        ports[from].ingress.at_quota -= u32::from(gone.frames >= gone.quota);
        gone.queue
    }
}

impl Voq {
    /// The first frame of one that waits.
    #[inline]
    pub(crate) fn first(&self) -> Node {
        self.queue.head().expect("who waits has a frame")
    }

    /// Takes out the first frame.
    #[inline]
    fn take<F: Copy>(&mut self, cells: &Cells<F>) -> Node {
        let node = self.first();
        self.deficit = self.deficit.saturating_sub(cells.label(node).bytes);
        cells.pop(&mut self.queue);
        self.frames -= 1;
        node
    }
}

/// Whether there is a place for a frame where so much is held. An empty queue takes any one.
#[inline]
fn permits(limits: &Limits, held: Load, load: Load) -> bool {
    let Load { frames, bytes } = left(limits, held);
    load.frames <= frames && load.bytes <= bytes || held.frames == 0
}

/// What there is room for besides `load`.
#[inline]
pub(crate) fn left(limits: &Limits, load: Load) -> Load {
    Load {
        frames: limits.frames.saturating_sub(load.frames),
        bytes: limits.bytes.0.saturating_sub(load.bytes),
    }
}

impl EgressClass {
    /// Whether there is a place for a frame.
    #[inline]
    pub(crate) fn permits(&self, limits: &Limits, load: Load) -> bool {
        permits(limits, self.load, load)
    }
}
