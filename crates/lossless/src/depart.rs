//! From an egress to its receiver.

use units::{Class, Instant};

use crate::cells::Node;
use crate::config::Scheduling;
use crate::port::{Egress, EgressClass, Parked, PortId};
use crate::switch::{End, Released};
use crate::{Limits, Refusal, Switch};

/// Frames for one egress that share a fate: as a rule those for one socket. The number is the caller's.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct Flow(pub u64);

/// The frame that is next to leave. Dropping it leaves the frame where it is.
#[derive(Debug)]
pub struct Head<'a, F> {
    switch: &'a mut Switch<F>,
    now: Instant,
    egress: PortId,
    class: Class,
    node: Node,
    /// The parked flow that it is the first of; `None` if it is the first of its class's queue.
    flow: Option<Flow>,
}

impl EgressClass {
    /// Whether there is a place for a frame. An empty queue takes any one.
    #[inline]
    pub(crate) fn permits(&self, limits: &Limits, frames: u16, bytes: u32) -> bool {
        let fits = self.load.frames + u32::from(frames) <= limits.frames
            && self.load.bytes + u64::from(bytes) <= limits.bytes;
        fits || self.load.frames == 0
    }
}

impl<F> Switch<F> {
    /// The frame that port `to`'s receiver is to take now, if there is one and its rate allows it.
    #[inline]
    pub fn head(&mut self, now: Instant, to: PortId) -> Option<Head<'_, F>> {
        let port = self.ports[to.index()].as_deref_mut().expect("the port is attached");
        let egress = &mut port.egress;
        if egress.ready == 0 || egress.must_wait(now) {
            return None;
        }
        let class = match port.config.scheduling {
            Scheduling::Strict => Class::from_low_bits(7 - egress.ready.leading_zeros() as u8),
            Scheduling::Weighted(weights) => self.next_weighted(to, &weights),
        };
        let node = self.port(to).egress.classes[class].queue.head().expect("a ready class has a frame");
        Some(Head { switch: self, now, egress: to, class, node, flow: None })
    }

    /// The first frame of a flow that was parked, if the egress's rate allows it.
    pub fn parked_head(&mut self, now: Instant, to: PortId, flow: Flow) -> Option<Head<'_, F>> {
        let egress = &self.port(to).egress;
        if egress.must_wait(now) {
            return None;
        }
        let node = egress.parked.get(&flow)?.queue.head()?;
        let class = self.cells.get(node).class;
        Some(Head { switch: self, now, egress: to, class, node, flow: Some(flow) })
    }

    /// The flows towards a port that have frames set aside, in the order of their numbers.
    pub fn parked_flows(&self, to: PortId) -> impl ExactSizeIterator<Item = Flow> {
        self.port(to).egress.parked.keys().copied()
    }

    /// Deficit round robin among classes. Whose turn it is stays put until it is served or spent, so asking twice
    /// gives the same answer.
    fn next_weighted(&mut self, to: PortId, weights: &units::ClassMap<u32>) -> Class {
        loop {
            let egress = &self.port(to).egress;
            let class = Class::from_low_bits(egress.turn);
            if let Some(node) = egress.classes[class].queue.head()
                && egress.deficits[class] >= i64::from(self.cells.get(node).bytes)
            {
                return class;
            }
            // The next one that has a frame gets its share, and its turn.
            let egress = &mut self.port_mut(to).egress;
            let next = Class::from_low_bits(egress.turn + 1);
            egress.turn = next.pcp();
            if egress.classes[next].queue.is_empty() {
                egress.deficits[next] = 0;
            } else {
                egress.deficits[next] += i64::from(weights[next].max(1)) * i64::from(ROUND);
            }
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

    /// The same books over queues that were just emptied.
    pub(crate) fn keeping(self, accounts: units::ClassMap<crate::Account>) -> Self {
        Self { accounts, ..self }
    }
}

impl<F> Head<'_, F> {
    /// The sender's handle.
    #[inline]
    pub fn frame(&self) -> &F {
        self.switch.cells.get(self.node).frame.as_ref().expect("a queued frame is held")
    }

    /// The port that sent it.
    #[inline]
    pub fn ingress(&self) -> PortId {
        PortId(self.switch.cells.get(self.node).ingress)
    }

    /// Its class.
    #[inline]
    pub fn class(&self) -> Class {
        self.class
    }

    /// Its bytes on a wire.
    #[inline]
    pub fn bytes(&self) -> u32 {
        self.switch.cells.get(self.node).bytes
    }

    /// Whether `flow` has frames set aside towards the same receiver: one of that flow must go behind them.
    #[inline]
    pub fn is_parked(&self, flow: Flow) -> bool {
        let parked = &self.switch.port(self.egress).egress.parked;
        !parked.is_empty() && parked.contains_key(&flow)
    }

    /// The receiver has it. Pulls the next frame that waited for this place; the handle comes back if no other egress
    /// still wants the frame.
    #[inline]
    pub fn delivered(self) -> Option<Released<F>> {
        let (now, to, class) = (self.now, self.egress, self.class);
        self.take(|switch, node| {
            let bytes = switch.cells.get(node).bytes;
            let port = switch.port_mut(to);
            let egress = &mut port.egress;
            egress.progress = now;
            egress.stalled = false;
            if port.config.scheduling != Scheduling::Strict {
                egress.deficits[class] -= i64::from(bytes);
            }
            if let Some(shaper) = &mut egress.shaper {
                shaper.take(now, bytes);
            }
            switch.finish(now, to, node, End::Delivered)
        })
    }

    /// The receiver will never take it.
    pub fn refuse(self, refusal: Refusal) -> Option<Released<F>> {
        let (now, to) = (self.now, self.egress);
        self.take(|switch, node| switch.finish(now, to, node, End::Refused(refusal)))
    }

    /// The frame's flow cannot be delivered now: sets it aside, behind others of its flow, so that other flows of the
    /// same queue pass. It stays held, and keeps using its sender's share.
    ///
    /// A frame that is parked already stays where it is.
    pub fn park(self, flow: Flow) {
        if self.flow.is_some() {
            return;
        }
        let (now, to) = (self.now, self.egress);
        self.take(|switch, node| {
            let parked = &mut switch.port_mut(to).egress.parked;
            let fresh = Parked { queue: crate::cells::Queue::EMPTY, progress: now };
            let mut queue = parked.entry(flow).or_insert(fresh).queue;
            switch.cells.push(&mut queue, node);
            if let Some(parked) = switch.port_mut(to).egress.parked.get_mut(&flow) {
                parked.queue = queue;
            }
        });
    }

    /// Takes the frame out of its queue, ends its stay there, and pulls the next into its place.
    #[inline]
    fn take<T>(self, end: impl FnOnce(&mut Switch<F>, Node) -> T) -> T {
        let Self { switch, now, egress: to, class, node, flow } = self;
        if let Some(flow) = flow {
            let mut queue = switch.port(to).egress.parked[&flow].queue;
            switch.cells.pop(&mut queue);
            let parked = &mut switch.port_mut(to).egress.parked;
            if queue.is_empty() {
                parked.remove(&flow);
            } else if let Some(parked) = parked.get_mut(&flow) {
                *parked = Parked { queue, progress: now };
            }
            return end(switch, node);
        }
        let cell = switch.cells.get(node);
        let (frames, bytes) = (cell.frames, cell.bytes);
        let egress = &mut switch.ports[to.index()].as_deref_mut().expect("the port is attached").egress;
        let side = &mut egress.classes[class];
        switch.cells.pop(&mut side.queue);
        side.load.remove(frames, bytes);
        if side.queue.is_empty() {
            egress.ready &= !(1 << class.pcp());
        }
        let waited = side.waiting != crate::port::NOBODY;
        let result = end(switch, node);
        if waited {
            switch.pull(to, class);
        }
        result
    }
}
