//! From an egress to its receiver.

use units::{Class, Instant};

use crate::account::{End, Load, Refusal};
use crate::cells::{Cells, Label, Node, Queue, Seen, Stamp};
use crate::config::Scheduling;
use crate::flows::{Flow, FlowPart, Popped, State};
use crate::id::PortId;
use crate::link::Sharer;
use crate::port::{Egress, Port};
use crate::switch::{Released, Switch};
use crate::voqs::VoqId;

/// A visit to a receiver: hands frames out, one after the other. See [`Switch::departures`].
///
/// Frames that the receiver takes one after the other are booked together when the next comes from
/// another sender, when their queue is empty, and at the latest when the visit is dropped.
#[derive(Debug)]
pub struct Departures<'a, F: Copy> {
    switch: &'a mut Switch<F>,
    now: Instant,
    to: PortId,
    /// Where the head lies.
    source: Source,
    /// What the run has left of the class's queue; empty if the next head is still to be chosen.
    queue: Queue,
    run: Run,
}

/// One of an egress's queues.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Source {
    Class(Class),
    Flow(FlowPart),
}

/// Frames of one sender that left the queue one after the other, and that no other egress wants.
#[derive(Debug)]
struct Run {
    /// Each one's; no frame's if there is no run.
    stamp: Stamp,
    cells: Queue,
    frames: u32,
    bytes: u64,
}

impl Run {
    const NONE: Self = Self { stamp: Stamp::NONE, cells: Queue::EMPTY, frames: 0, bytes: 0 };
}

/// The frame that is next to leave. Dropping it leaves the frame where it is.
#[derive(Debug)]
pub struct Head<'v, 'a, F: Copy> {
    visit: &'v mut Departures<'a, F>,
    seen: Seen<F>,
}

/// A flow that is set aside.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Aside {
    /// Its number.
    pub flow: Flow,
    /// How many frames it has.
    pub frames: u32,
    /// Since when it has taken nothing.
    pub since: Instant,
}

impl<F: Copy> Switch<F> {
    /// Begins a visit to the receiver at `to`.
    #[inline]
    pub fn departures(&mut self, now: Instant, to: PortId) -> Departures<'_, F> {
        let source = Source::Class(Class::default());
        Departures { switch: self, now, to, source, queue: Queue::EMPTY, run: Run::NONE }
    }

    /// Of these classes, a bit each, the receiver at `to` takes nothing until this is called again
    /// (802.1Qbb). A receiver that takes nothing of anything for the stall time is stalled all the
    /// same.
    ///
    /// # Panics
    ///
    /// If its egress is [shared](Self::share).
    pub fn pause_classes(&mut self, to: PortId, classes: u8) {
        let egress = &mut self.port_mut(to).egress;
        assert!(egress.link.is_none(), "where owners share, flows are blocked one by one");
        egress.paused = classes;
    }

    /// The flows towards a port that are set aside.
    pub fn aside(&self, to: PortId) -> impl Iterator<Item = Aside> {
        let egress = &self.port(to).egress;
        let aside = egress.flows.iter().filter(|(_, queue)| queue.state == State::Aside);
        aside.map(|(part, queue)| Aside {
            flow: part.flow,
            frames: queue.lanes().map(|(_, lane)| lane.frames).sum(),
            since: egress.idle_since(queue.progress),
        })
    }

    /// The flows towards a port that are [stalled](Head::is_stalled), and have no frames.
    pub fn stalled_flows(&self, to: PortId) -> impl Iterator<Item = Flow> {
        self.port(to).egress.flows.stalled()
    }

    /// The flows towards a port that have frames, set aside or offered, in the order of their
    /// numbers.
    pub fn flows(&self, to: PortId) -> impl ExactSizeIterator<Item = Flow> {
        self.port(to).egress.flows.keys().map(|part| part.flow)
    }

    /// Each of these once, beginning with the first whose number is not below this.
    pub fn flows_from(&self, to: PortId, first: Flow) -> impl Iterator<Item = Flow> {
        let flows = &self.port(to).egress.flows;
        flows.numbers(first..).chain(flows.numbers(..first))
    }
}

impl<F: Copy> Switch<F> {
    /// A flow that was blocked takes turns again.
    pub fn unblock(&mut self, now: Instant, to: PortId, flow: Flow) {
        let Self { ports, cells, pending, .. } = self;
        let egress = &mut ports[to].egress;
        for part in egress.flows.parts_of(flow) {
            let Some((class, sharer)) = egress.flows.unblock(part) else { continue };
            egress.begin_work(now);
            egress.note_ready(class);
            egress.note_first(now, sharer, cells);
            pending.insert(to);
        }
    }

    /// Takes the first frame out of a flow.
    fn leave_flow(&mut self, now: Instant, to: PortId, part: FlowPart) {
        let Self { ports, cells, .. } = self;
        let egress = &mut ports[to].egress;
        let Popped { ingress, frames, is_spare, state, class, sharer } =
            egress.flows.pop(now, part, cells);
        if state != State::Aside {
            egress.note_ready(class);
            egress.note_left(now, sharer, cells);
        }
        let Port { config, ingress, .. } = &mut ports[ingress];
        if state == State::Aside {
            ingress.take_back(now, u32::from(!is_spare), config);
            return;
        }
        if frames == config.quota.get() {
            ingress.at_quota -= 1;
            ingress.resume(now, config);
        }
    }
}

/// What a weight of one may send in a round, in bytes.
const ROUND: u32 = 1514;

impl Egress {
    #[inline]
    fn must_wait(&self, now: Instant) -> bool {
        self.shaper.as_ref().is_some_and(|shaper| shaper.ready_at() > now)
    }

    #[inline]
    fn pauses(&self, class: Class) -> bool {
        self.paused & 1 << class.pcp() != 0
    }

    /// Whether a frame that comes now would be the next to be handed out, now.
    #[inline]
    pub(crate) fn is_free(&self, now: Instant, class: Class) -> bool {
        let nobody = self.is_idle() && self.classes[class].waiting.first == VoqId::NONE;
        nobody && !self.stalled && !self.closed && !self.pauses(class) && !self.must_wait(now)
    }

    /// The receiver took so many bytes.
    #[inline]
    pub(crate) fn progressed(&mut self, now: Instant, bytes: u64) {
        self.progress = now;
        self.stalled = false;
        if let Some(shaper) = &mut self.shaper {
            shaper.take(now, bytes);
        }
    }

    /// What is left of the queue of `class`, when so much has left it.
    #[inline]
    fn leave(&mut self, class: Class, queue: Queue, load: Load) {
        let side = &mut self.classes[class];
        side.queue = queue;
        side.load.remove(load);
        if queue.is_empty() {
            self.ready &= !(1 << class.pcp());
        }
    }

    /// There is something for the receiver from now on: if there was nothing, it had nothing to
    /// take before.
    #[inline]
    pub(crate) fn begin_work(&mut self, now: Instant) {
        if self.ready | self.ready_flows == 0 {
            self.progress = now;
        }
    }

    /// A class has ready flows, or has none any more.
    #[inline]
    pub(crate) fn note_ready(&mut self, class: Class) {
        let bit = 1 << class.pcp();
        if self.flows.is_ready(class) {
            self.ready_flows |= bit;
        } else {
            self.ready_flows &= !bit;
        }
    }

    /// Deficit round robin among classes. Whose turn it is stays put until it is served or spent,
    /// so asking twice gives the same answer.
    fn next_weighted<F: Copy>(&mut self, weights: &[u32; Class::COUNT], cells: &Cells<F>) -> Class {
        loop {
            let class = Class::from_low_bits(self.turn);
            if let Some(node) = self.classes[class].queue.head()
                && !self.pauses(class)
                && self.deficits[class] >= i64::from(cells.label(node).bytes)
            {
                return class;
            }
            // The next one that has a frame gets its share, and its turn.
            let next = Class::from_low_bits(self.turn + 1);
            self.turn = next.pcp();
            if self.classes[next].queue.is_empty() {
                self.deficits[next] = 0;
            } else if !self.pauses(next) {
                self.deficits[next] += i64::from(weights[next.index()].max(1)) * i64::from(ROUND);
            }
        }
    }
}

impl<'a, F: Copy> Departures<'a, F> {
    /// The frame that the receiver is to take now, if there is one and its rate allows it.
    #[inline(always)]
    pub fn head(&mut self) -> Option<Head<'_, 'a, F>> {
        let node = match self.queue.head() {
            Some(node) => node,
            None => self.choose()?,
        };
        Some(self.at(node))
    }

    /// The next frame of a flow that was parked, if the egress's rate allows it: its senders take
    /// turns.
    pub fn parked_head(&mut self, flow: Flow) -> Option<Head<'_, 'a, F>> {
        self.settle();
        let egress = &self.switch.port(self.to).egress;
        if egress.must_wait(self.now) {
            return None;
        }
        let node = egress.flows.get(FlowPart::of(flow))?.head()?;
        if egress.pauses(self.switch.cells.label(node).stamp.class()) {
            return None;
        }
        self.source = Source::Flow(FlowPart::of(flow));
        Some(self.at(node))
    }

    /// The next frame of those that were offered in flows, if the egress's rate allows it: of the
    /// highest class that has a ready flow and is not paused, of the flow whose turn it is.
    pub fn flow_head(&mut self) -> Option<Head<'_, 'a, F>> {
        self.settle();
        let Self { switch, now, to, .. } = self;
        let egress = &mut switch.ports[*to].egress;
        let ready = egress.ready_flows & !egress.paused;
        if ready == 0 || egress.must_wait(*now) {
            return None;
        }
        let sharer = match &mut egress.link {
            Some(link) => link.next(*now)?,
            None => Sharer::NOBODY,
        };
        let (part, node) = egress.flows.first(sharer, egress.paused)?;
        self.source = Source::Flow(part);
        Some(self.at(node))
    }

    #[inline(always)]
    fn at(&mut self, node: Node) -> Head<'_, 'a, F> {
        let seen = self.switch.cells.look(node);
        Head { visit: self, seen }
    }

    /// Chooses a class, and returns the first of its queue.
    #[inline(never)]
    fn choose(&mut self) -> Option<Node> {
        self.settle();
        let Self { switch, now, to, .. } = self;
        let Port { config, egress, .. } = &mut switch.ports[*to];
        let ready = egress.ready & !egress.paused;
        if ready == 0 || egress.must_wait(*now) {
            return None;
        }
        let class = match &config.scheduling {
            Scheduling::Strict => Class::from_low_bits(7 - ready.leading_zeros() as u8),
            Scheduling::Weighted(weights) => egress.next_weighted(weights, &switch.cells),
        };
        self.queue = egress.classes[class].queue;
        self.source = Source::Class(class);
        self.queue.head()
    }

    /// The receiver took a frame that does not follow the one before.
    #[inline(never)]
    fn begin(&mut self, node: Node) -> Option<F> {
        self.settle();
        let Seen { label, frame, next, .. } = self.switch.cells.look(node);
        let Label { stamp, bytes, .. } = label;
        let Port { config, egress, .. } = &mut self.switch.ports[self.to];
        let ordinary =
            config.scheduling == Scheduling::Strict && egress.shaper.is_none() && stamp.is_alone();
        if let Source::Class(class) = self.source
            && ordinary
        {
            self.queue = egress.classes[class].queue;
            self.queue.advance(next);
            self.run = Run { stamp, cells: Queue::of(node), frames: 1, bytes: bytes.into() };
            return Some(frame);
        }
        self.charge(label);
        self.leave(node, |switch, now, to| switch.finish(now, to, node, End::Delivered))
            .map(|released| released.frame)
    }

    /// The receiver took the head's bytes, or has them underway.
    fn charge(&mut self, label: Label) {
        let bytes = label.bytes;
        let Port { config, egress, .. } = &mut self.switch.ports[self.to];
        // A flow that was set aside is served out of turn.
        if let (Source::Class(class), Scheduling::Weighted(_)) = (self.source, config.scheduling) {
            egress.deficits[class] -= i64::from(bytes);
        }
        if let (Source::Flow(_), Some(link)) = (self.source, &mut egress.link) {
            link.take(label.load());
        }
        egress.progressed(self.now, bytes.into());
    }

    /// Books the run, and pulls as many into its place.
    fn settle(&mut self) {
        let Self { switch, now, to, queue, run, .. } = self;
        let queue = core::mem::replace(queue, Queue::EMPTY);
        if run.frames == 0 {
            return;
        }
        let Run { stamp, cells, frames, bytes } = core::mem::replace(run, Run::NONE);
        let class = stamp.class();
        let egress = &mut switch.ports[*to].egress;
        egress.leave(class, queue, Load::of(frames, stamp.frames(), bytes));
        egress.progressed(*now, bytes);
        let account = &mut egress.classes[class].account;
        account.deliver(frames);
        account.bytes += bytes;
        switch.cells.forget(cells);
        let Port { config, ingress, .. } = &mut switch.ports[PortId(stamp.ingress())];
        ingress.classes[class].deliver(frames, bytes);
        ingress.resume(*now, config);
        switch.pull(*now, *to, class);
    }

    /// Takes the head out of its queue, has its stay there ended, and pulls the next into its
    /// place.
    fn leave<T>(
        &mut self,
        node: Node,
        end: impl FnOnce(&mut Switch<F>, Instant, PortId) -> T,
    ) -> T {
        self.settle();
        let Self { switch, now, to, source, .. } = self;
        let egress = &mut switch.ports[*to].egress;
        let label = switch.cells.label(node);
        let class = label.stamp.class();
        match *source {
            Source::Class(_) => {
                let mut queue = egress.classes[class].queue;
                switch.cells.pop(&mut queue);
                egress.leave(class, queue, label.load());
            }
            Source::Flow(part) => switch.leave_flow(*now, *to, part),
        }
        let result = end(switch, *now, *to);
        switch.pull(*now, *to, class);
        result
    }
}

impl<F: Copy> Drop for Departures<'_, F> {
    #[inline]
    fn drop(&mut self) {
        self.settle();
        self.switch.rest(self.to);
    }
}

impl<F: Copy> Head<'_, '_, F> {
    /// The sender's handle.
    #[inline]
    pub fn frame(&self) -> F {
        self.seen.frame
    }

    /// The port that sent it.
    #[inline]
    pub fn ingress(&self) -> PortId {
        PortId(self.seen.label.stamp.ingress())
    }

    /// Its class.
    #[inline]
    pub fn class(&self) -> Class {
        self.seen.label.stamp.class()
    }

    /// Its bytes on a wire.
    #[inline]
    pub fn bytes(&self) -> u32 {
        self.seen.label.bytes
    }

    /// Whether `flow` has frames set aside towards the same receiver: one of that flow must go
    /// behind them.
    #[inline]
    pub fn is_parked(&self, flow: Flow) -> bool {
        let flows = &self.visit.switch.port(self.visit.to).egress.flows;
        !flows.is_empty() && flows.contains(flow)
    }

    /// Whether `flow` is stalled: its socket took nothing for [too
    /// long](crate::Settings::socket_stall_after), nor since. What is for it is to be refused as
    /// [`Refusal::SOCKET_STALLED`]: no new wait begins.
    pub fn is_stalled(&self, flow: Flow) -> bool {
        self.visit.switch.port(self.visit.to).egress.flows.is_stalled(flow)
    }

    /// The socket of `flow`, the head's, was asked and has room: it is not stalled any more, unless
    /// it was so for a longer frame. If the head is set aside, it waits for the port alone.
    #[inline]
    pub fn note_room(&mut self, flow: Flow) {
        let is_first = self.visit.source == Source::Flow(FlowPart::of(flow));
        let bytes = self.bytes();
        let flows = &mut self.visit.switch.port_mut(self.visit.to).egress.flows;
        if !flows.are_unknown() {
            flows.note_room(flow, bytes, is_first);
        }
    }

    /// The socket of `flow`, the head's, was asked and has no room. How often it was read so far,
    /// if that is known: if it was since it was asked last, it has taken something, and is not
    /// stalled any more. What is not known to be a socket is judged as a port is.
    pub fn note_full(&mut self, flow: Flow, reads: Option<u32>) {
        let (now, bytes) = (self.visit.now, self.bytes());
        let flows = &mut self.visit.switch.port_mut(self.visit.to).egress.flows;
        if !flows.are_unknown() {
            flows.note_full(now, flow, bytes, reads);
        }
    }

    /// Whether it is a copy for a [bystander](crate::Audience::bystanders): nobody waits until it
    /// has left.
    #[inline]
    pub fn is_spare(&self) -> bool {
        self.seen.label.stamp.is_spare()
    }

    /// The receiver has it. The handle comes back if no other egress still wants the frame, and the
    /// next that waited for its place is pulled before the next head.
    #[inline(always)]
    pub fn delivered(self) -> Option<F> {
        let Self { visit, seen: Seen { node, label, frame, next } } = self;
        if label.stamp != visit.run.stamp {
            return visit.begin(node);
        }
        visit.queue.advance(next);
        visit.run.cells.extend(node);
        visit.run.frames += 1;
        visit.run.bytes += u64::from(label.bytes);
        Some(frame)
    }

    /// The receiver will never take it. The frame comes back if no other egress still wants it.
    pub fn refuse(self, refusal: Refusal) -> Option<Released<F>> {
        let Self { visit, seen: Seen { node, .. } } = self;
        if matches!(visit.source, Source::Flow(_)) || refusal == Refusal::SOCKET_STALLED {
            // Of many receivers behind a port one does not take it; the others are as they were.
            visit.switch.ports[visit.to].egress.progress = visit.now;
        }
        visit.leave(node, |switch, now, to| switch.finish(now, to, node, End::Refused(refusal)))
    }

    /// The frame's flow cannot be delivered now: sets it aside, behind others of its flow and
    /// sender, so that other flows of the same queue pass. It stays held, and keeps using its
    /// sender's share.
    ///
    /// A frame that is parked already stays where it is.
    pub fn park(self, flow: Flow) {
        let Self { visit, seen: Seen { node, .. } } = self;
        if matches!(visit.source, Source::Flow(_)) {
            return;
        }
        visit.leave(node, |switch, now, to| {
            switch.ports[to].egress.flows.park(now, flow, &mut switch.cells, node);
            let stamp = switch.cells.label(node).stamp;
            if !stamp.is_spare() {
                let Port { config, ingress, .. } = switch.port_mut(PortId(stamp.ingress()));
                ingress.set_aside(config);
            }
        });
    }

    /// The flow of a [flow's head](Departures::flow_head).
    pub fn flow(&self) -> Option<Flow> {
        match self.visit.source {
            Source::Class(_) => None,
            Source::Flow(part) => Some(part.flow),
        }
    }

    /// The head's flow can send nothing now: it takes no turns before it is
    /// [unblocked](Switch::unblock), and others of its class pass. What is blocked for the stall
    /// time is refused.
    pub fn block(self) {
        if let Source::Flow(part) = self.visit.source {
            let Departures { switch: Switch { ports, cells, .. }, now, to, .. } = self.visit;
            let egress = &mut ports[*to].egress;
            for part in egress.flows.parts_of(part.flow) {
                let sharer = egress.flows.block(*now, part);
                egress.note_ready(self.seen.label.stamp.class());
                sharer.iter().for_each(|sharer| egress.note_first(*now, *sharer, cells));
            }
        }
    }

    /// The receiver is far away, and has it underway: it stays held, and keeps using its sender's
    /// share, until it is known to have [arrived](Switch::arrived). Those of one flow arrive in the
    /// order in which they leave. No verdict is passed on them: whether the far receiver is there
    /// is for its owner to [say](Switch::abandon_flows). What was offered in a flow leaves under a
    /// number of the same [group](Flow::group).
    pub fn depart(self, flow: Flow) {
        let Self { visit, seen: Seen { node, label, .. } } = self;
        let group = visit.switch.cells.group(node);
        assert!(
            group.is_none_or(|group| group == flow.group()),
            "{flow:?} is of another group than {group:?}, to which the frame was offered"
        );
        visit.settle();
        visit.charge(label);
        visit.leave(node, |switch, _, to| {
            let away = &mut switch.ports[to].egress.away;
            switch.cells.push(away.entry(flow).or_insert(Queue::EMPTY), node);
        });
    }
}
