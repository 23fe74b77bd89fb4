//! From a sender to an egress: the forwarder of Algorithm 1 in both directions.

use alloc::vec::Vec;

use units::{Class, Instant};

use crate::account::{Load, Reason, Refusal};
use crate::cells::{Cells, Label, Node, Queue, Stamp};
use crate::config::Limits;
use crate::flows::{Flow, QUANTUM};
use crate::id::PortId;
use crate::port::{EgressClass, Port};
use crate::set::PortSet;
use crate::switch::{Offered, Switch};
use crate::voqs::{Voq, VoqId, Voqs};

/// For whom a frame is, as its sender's owner has decided.
#[derive(Clone, Copy, Debug)]
pub enum Destination<'a> {
    /// One receiver.
    One(PortId),
    /// One of many receivers behind a port, as a port of a far host: its frames have a queue of
    /// their own. Those of a lossy class are refused beyond the port's [egress
    /// limits](crate::PortConfig::egress).
    Flow(PortId, Flow),
    /// A copy for each of these.
    Many(&'a Audience),
}

/// For whom a frame is that is for many: a copy goes to each, but to the port that the frame comes
/// by, and those that are [closed](Switch::close).
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Audience {
    /// Receivers at ports.
    pub ports: PortSet,
    /// One each of many behind a port.
    pub flows: Vec<(PortId, Flow)>,
}

/// What a frame counts as.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Size {
    /// Bytes on a wire, from the Ethernet header on. A large segment counts what it stands for.
    pub bytes: u32,
    /// Frames on a wire; 1 unless it is a large segment.
    pub frames: u16,
}

/// A visit to a sender: takes frames over, one after the other. See [`Switch::arrivals`].
///
/// Frames for one receiver in one class follow each other. So the first of a run finds out how much
/// room there is, the others follow, and what is the same for all is booked when the run ends: at
/// the latest when the visit is dropped.
#[derive(Debug)]
pub struct Arrivals<'a, F: Copy> {
    switch: &'a mut Switch<F>,
    now: Instant,
    from: PortId,
    run: Run,
}

/// Frames of one visit for one receiver in one class that are in no queue yet, and how many more
/// may follow.
#[derive(Debug)]
struct Run {
    /// Class, and what each counts as on a wire; no frame's if there is no run.
    stamp: Stamp,
    to: PortId,
    /// What the frame that was offered last counts as, if it is in the run; 0 if it is not.
    repeats: u16,
    /// Into the queue of their VOQ, not of their egress.
    waits: bool,
    cells: Queue,
    frames: u32,
    bytes: u64,
    /// What the sender may have held, and the egress has room for.
    most_frames: u32,
    most_bytes: u64,
}

impl Run {
    const NONE: Self = Self {
        stamp: Stamp::NONE,
        to: PortId::NONE,
        repeats: 0,
        waits: false,
        cells: Queue::EMPTY,
        frames: 0,
        bytes: 0,
        most_frames: 0,
        most_bytes: 0,
    };
}

/// Where a frame goes that has a destination.
pub(crate) enum Step {
    /// Into its egress's queue.
    Switched,
    /// Into the VOQ of its ingress, egress and class, or into its flow.
    Waits,
    Refused(Refusal),
}

impl<F: Copy> Switch<F> {
    /// Begins a visit to the sender at `from`.
    #[inline]
    pub fn arrivals(&mut self, now: Instant, from: PortId) -> Arrivals<'_, F> {
        Arrivals { switch: self, now, from, run: Run::NONE }
    }

    /// Takes over one frame from the sender at `from`, as [`Arrivals::offer`] does, and hands it
    /// straight to its receiver if neither has anything in the switch, and `takes` says that the
    /// receiver has room now. The books are the same as if the receiver had been visited.
    #[inline]
    #[expect(
        clippy::too_many_arguments,
        reason = "a simulator calls it for each frame, and keeps none of these together"
    )]
    pub fn pass(
        &mut self,
        now: Instant,
        from: PortId,
        to: PortId,
        class: Class,
        frame: F,
        size: Size,
        takes: impl FnOnce() -> bool,
    ) -> Offered<F> {
        if let Some([sender, receiver]) = self.ports.pair_mut([from, to])
            && sender.ingress.holds_none(class)
            && receiver.egress.is_free(now, class)
            && takes()
        {
            sender.ingress.classes[class].account.pass(size.bytes);
            receiver.egress.classes[class].account.pass(size.bytes);
            receiver.egress.progressed(now, size.bytes.into());
            return Offered::Through(to);
        }
        if self.room_in(now, from, class) == 0 {
            return Offered::Full(frame);
        }
        self.arrivals(now, from).offer(Destination::One(to), class, frame, size)
    }

    /// A copy to everybody who is to have it. Each waits for its own egress: a slow one holds back
    /// nobody's later frames until the sender's share, or its quota there, is used up.
    #[cold]
    fn flood(
        &mut self,
        now: Instant,
        from: PortId,
        audience: &Audience,
        frame: F,
        label: Label,
    ) -> Offered<F> {
        let class = label.stamp.class();
        let is_open = |port: &PortId| *port != from && !self.port(*port).egress.closed;
        let ports = audience.ports.iter().map(|port| (port, None));
        let flows = audience.flows.iter().map(|(port, flow)| (*port, Some(*flow)));
        let receivers: Vec<_> = ports.chain(flows).filter(|(port, _)| is_open(port)).collect();
        let Some(((last, last_flow), others)) = receivers.split_last() else {
            return self.refuse_at_once(from, class, label.bytes, frame, Refusal::NO_EGRESS);
        };
        self.ports[from].ingress.classes[class].accept(1, label.bytes.into());
        let node = self.cells.insert(frame, label);
        for (to, flow) in others {
            let copy = self.cells.copy(node);
            self.place(now, from, *to, *flow, copy);
        }
        // The frame's own node goes to the last, so that no copy finishes the frame while others
        // are to come.
        match self.place(now, from, *last, *last_flow, node) {
            None => Offered::Held,
            Some((frame, reason)) => Offered::Refused(frame, reason),
        }
    }

    /// Puts a frame that lies in no queue where it goes. Its handle and why, if it is refused and
    /// no other egress wants it.
    fn place(
        &mut self,
        now: Instant,
        from: PortId,
        to: PortId,
        flow: Option<Flow>,
        node: Node,
    ) -> Option<(F, Reason)> {
        let label = self.cells.label(node);
        let class = label.stamp.class();
        let step = match flow {
            None => self.step(to, class, label.load()),
            Some(flow) => {
                let group = flow.group();
                self.cells.set_group(node, group);
                self.port_mut(to).egress.groups.account(group).accept(1);
                self.step_in_flow(to, flow, class, label.load())
            }
        };
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
        let egress = &mut ports[to].egress;
        egress.begin_work(now);
        egress.classes[class].account.accept(1);
        let (frames, is_new) = egress.flows.offer(now, flow, cells, node);
        if is_new {
            egress.ready_flows |= 1 << class.pcp();
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
        if port.egress.refuses() {
            Step::Refused(Refusal::STALLED)
        } else if port.egress.classes[class].waiting == VoqId::NONE && port.permits(class, load) {
            Step::Switched
        } else if let Some(lossy) = self.settings.classes.lossy(class) {
            Step::Refused(Refusal::full(lossy))
        } else {
            Step::Waits
        }
    }

    /// The same of a frame for a flow: it waits there. In a lossy class the flow holds no more than
    /// its egress's queue might.
    pub(crate) fn step_in_flow(&self, to: PortId, flow: Flow, class: Class, load: Load) -> Step {
        let Port { config, egress, .. } = self.port(to);
        match self.settings.classes.lossy(class) {
            _ if egress.refuses() => Step::Refused(Refusal::STALLED),
            Some(lossy) if !permits(&config.egress, egress.flows.load(flow), load) => {
                Step::Refused(Refusal::full(lossy))
            }
            _ => Step::Waits,
        }
    }

    /// Puts frames that have permits into their egress's queue.
    fn switch(
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
    fn hold_back(&mut self, from: PortId, to: PortId, class: Class, cells: Queue, frames: u32) {
        self.port_mut(to).egress.classes[class].account.accept(frames);
        let Port { config, ingress, .. } = &mut self.ports[from];
        let (id, is_new) = self.voqs.find_or_insert(from, to, class, config.quota.get());
        let voq = &mut self.voqs[id];
        self.cells.append(&mut voq.queue, cells);
        let before = voq.frames;
        voq.frames += frames;
        ingress.at_quota += u32::from(before < voq.quota && voq.frames >= voq.quota);
        if is_new {
            self.ports[to].egress.classes[class].join_round(&mut self.voqs, id);
        }
    }

    /// Pulls into (`to`, `class`) from everybody who waits for it, while there are permits: deficit
    /// round robin in bytes (Shreedhar and Varghese, SIGCOMM 1995).
    pub(crate) fn pull(&mut self, now: Instant, to: PortId, class: Class) {
        loop {
            let Self { ports, voqs, cells, pending, .. } = self;
            let Port { config, egress, .. } = &mut ports[to];
            let side = &mut egress.classes[class];
            let (first, alone) = (side.waiting, side.waiting == side.last_waiting);
            if first == VoqId::NONE || !side.permits(&config.egress, Load { frames: 1, bytes: 0 }) {
                return;
            }
            let voq = &mut voqs[first];
            let label = cells.label(voq.first());
            if !side.permits(&config.egress, label.load()) {
                return;
            }
            if !alone && voq.deficit < label.bytes {
                voq.deficit += QUANTUM;
                side.leave_round(voqs);
                side.join_round(voqs, first);
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
        let first = self.port(to).egress.classes[class].waiting;
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
            ports[to].egress.classes[class].leave_round(voqs);
            voqs.remove(first);
        }
    }

    /// Takes out all that an ingress has waiting for (`to`, `class`), wherever it stands in the
    /// round.
    pub(crate) fn leave_waiting(&mut self, from: PortId, to: PortId, class: Class) -> Queue {
        let Self { ports, voqs, .. } = self;
        let Some(id) = voqs.find(from, to, class) else { return Queue::EMPTY };
        let side = &mut ports[to].egress.classes[class];
        let mut others = Vec::new();
        while let Some(other) = side.leave_round(voqs) {
            others.push(other);
        }
        for other in others.into_iter().filter(|other| *other != id) {
            side.join_round(voqs, other);
        }
        let gone = voqs.remove(id);
        ports[from].ingress.at_quota -= u32::from(gone.frames >= gone.quota);
        gone.queue
    }
}

impl<F: Copy> Arrivals<'_, F> {
    /// Takes a frame over from the sender, and forwards it as far as there is room. It cannot be
    /// [full](Offered::Full) if [`Switch::room`] is asked before.
    // A driver has one place that offers. There, the offer need not be put into memory for a call.
    #[inline(always)]
    pub fn offer(&mut self, to: Destination<'_>, class: Class, frame: F, size: Size) -> Offered<F> {
        let stamp = Stamp::new(self.from.0, class, size.frames);
        if let Destination::One(to) = to
            && to == self.run.to
            && stamp == self.run.stamp
            && self.follow(frame, size.bytes)
        {
            self.run.repeats = size.frames;
            return Offered::Held;
        }
        self.begin(to, stamp, frame, size.bytes)
    }

    /// Takes over a frame that goes where the one before went, in the same class. Whether it did;
    /// if not, it is to be [offered](Self::offer). This is what most frames of a busy sender cost.
    #[inline(always)]
    pub fn repeat(&mut self, frame: F, size: Size) -> bool {
        size.frames == self.run.repeats && self.follow(frame, size.bytes)
    }

    /// Takes a frame into the run, which goes its way, if there is room. Whether there is.
    #[inline(always)]
    fn follow(&mut self, frame: F, bytes: u32) -> bool {
        let Self { switch, run, .. } = self;
        let label = Label { stamp: run.stamp, bytes };
        let all_bytes = run.bytes + u64::from(bytes);
        if run.frames < run.most_frames
            && all_bytes <= run.most_bytes
            && let Some(node) = switch.cells.take(frame, label)
        {
            run.cells.extend(node);
            run.frames += 1;
            run.bytes = all_bytes;
            return true;
        }
        false
    }

    /// Books a frame that its sender's owner refuses: it is accepted and refused in one, and its
    /// memory its sender's again.
    #[cold]
    pub fn refuse(&mut self, class: Class, bytes: u32, refusal: Refusal) {
        self.run.repeats = 0;
        let ingress = &mut self.switch.port_mut(self.from).ingress;
        ingress.classes[class].account.turn_away(bytes, refusal);
    }

    /// Takes a frame over that does not follow the one before.
    #[inline(never)]
    fn begin(&mut self, to: Destination<'_>, stamp: Stamp, frame: F, bytes: u32) -> Offered<F> {
        self.settle();
        let Self { switch, now, from, .. } = self;
        let (now, from, class) = (*now, *from, stamp.class());
        let Port { config, ingress, .. } = &mut switch.ports[from];
        let most = config.ingress.frames.max(1).saturating_sub(ingress.classes[class].held.frames);
        if most == 0 {
            ingress.pause(now);
            return Offered::Full(frame);
        }
        let label = Label { stamp, bytes };
        let to = match to {
            Destination::One(to) if to != from => to,
            Destination::One(_) => {
                return switch.refuse_at_once(from, class, bytes, frame, Refusal::SAME_PORT);
            }
            Destination::Flow(to, flow) => {
                ingress.classes[class].accept(1, bytes.into());
                let node = switch.cells.insert(frame, label);
                return match switch.place(now, from, to, Some(flow), node) {
                    None => Offered::Held,
                    Some((frame, reason)) => Offered::Refused(frame, reason),
                };
            }
            Destination::Many(audience) => return switch.flood(now, from, audience, frame, label),
        };
        let node = switch.cells.insert(frame, label);
        let step = switch.step(to, class, label.load());
        if let Step::Refused(refusal) = step {
            switch.port_mut(from).ingress.classes[class].accept(1, bytes.into());
            switch.port_mut(to).egress.classes[class].account.accept(1);
            return match switch.refuse(now, to, node, refusal) {
                Some(released) => Offered::Refused(released.frame, refusal.reason()),
                None => unreachable!("no other egress wants the frame"),
            };
        }
        let Port { config, egress, .. } = switch.port(to);
        let waits = matches!(step, Step::Waits);
        let permits =
            if waits { Load::ANY } else { left(&config.egress, egress.classes[class].load) };
        let permitted = permits.frames.checked_div(stamp.frames().into()).unwrap_or(most);
        self.run = Run {
            stamp,
            to,
            repeats: stamp.frames(),
            waits,
            cells: Queue::of(node),
            frames: 1,
            bytes: bytes.into(),
            most_frames: most.min(permitted),
            most_bytes: permits.bytes,
        };
        Offered::Held
    }

    /// Books the run, and puts its frames where they go.
    fn settle(&mut self) {
        let Self { switch, now, from, run } = self;
        if run.frames == 0 {
            return;
        }
        let Run { stamp, to, waits, cells, frames, bytes, .. } = core::mem::replace(run, Run::NONE);
        let class = stamp.class();
        switch.port_mut(*from).ingress.classes[class].accept(frames, bytes);
        if waits {
            switch.hold_back(*from, to, class, cells, frames);
        } else {
            switch.switch(*now, to, class, cells, frames, Load::of(frames, stamp.frames(), bytes));
        }
    }
}

impl<F: Copy> Drop for Arrivals<'_, F> {
    #[inline]
    fn drop(&mut self) {
        self.settle();
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
fn left(limits: &Limits, load: Load) -> Load {
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

    /// Puts a VOQ at the end of the round of those that wait for room here.
    #[inline]
    fn join_round(&mut self, voqs: &mut Voqs, id: VoqId) {
        voqs[id].next = VoqId::NONE;
        let last = core::mem::replace(&mut self.last_waiting, id);
        if last == VoqId::NONE {
            self.waiting = id;
        } else {
            voqs[last].next = id;
        }
    }

    /// Takes the first of the round out of it.
    #[inline]
    fn leave_round(&mut self, voqs: &Voqs) -> Option<VoqId> {
        let first = self.waiting;
        if first == VoqId::NONE {
            return None;
        }
        self.waiting = voqs[first].next;
        if self.waiting == VoqId::NONE {
            self.last_waiting = VoqId::NONE;
        }
        Some(first)
    }
}
