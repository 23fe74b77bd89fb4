//! From an egress to its receiver.

use alloc::collections::btree_map::Entry;

use units::{Class, ClassMap, Instant};

use crate::cells::{Cells, Label, Node, Queue};
use crate::config::Scheduling;
use crate::port::{Egress, NOBODY, Parked, Port, PortId};
use crate::switch::{End, Released, attached};
use crate::{PortConfig, Refusal, Switch};

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

impl<F> Switch<F> {
    /// The frame that port `to`'s receiver is to take now, if there is one and its rate allows it.
    #[inline]
    pub fn head(&mut self, now: Instant, to: PortId) -> Option<Head<'_, F>> {
        let Port { config, egress, .. } = attached(&mut self.ports, to);
        if egress.ready == 0 || egress.must_wait(now) {
            return None;
        }
        let class = match &config.scheduling {
            Scheduling::Strict => Class::from_low_bits(7 - egress.ready.leading_zeros() as u8),
            Scheduling::Weighted(weights) => egress.next_weighted(weights, &self.cells),
        };
        let node = egress.classes[class].queue.head().expect("a ready class has a frame");
        Some(Head { switch: self, now, egress: to, class, node, flow: None })
    }

    /// The first frame of a flow that was parked, if the egress's rate allows it.
    pub fn parked_head(&mut self, now: Instant, to: PortId, flow: Flow) -> Option<Head<'_, F>> {
        let egress = &self.port(to).egress;
        if egress.must_wait(now) {
            return None;
        }
        let node = egress.parked.get(&flow)?.queue.head()?;
        let class = self.cells.label(node).class;
        Some(Head { switch: self, now, egress: to, class, node, flow: Some(flow) })
    }

    /// The flows towards a port that have frames set aside, in the order of their numbers.
    pub fn parked_flows(&self, to: PortId) -> impl ExactSizeIterator<Item = Flow> {
        self.port(to).egress.parked.keys().copied()
    }
}

/// What a weight of one may send in a round, in bytes.
const ROUND: u32 = 1514;

impl Egress {
    #[inline]
    fn must_wait(&self, now: Instant) -> bool {
        self.shaper.as_ref().is_some_and(|shaper| shaper.ready_at() > now)
    }

    /// Takes `node`, the first of `class`, out of its queue. Whether somebody waits for its place.
    #[inline]
    fn leave<F>(&mut self, cells: &mut Cells<F>, class: Class, node: Node, label: Label) -> bool {
        let side = &mut self.classes[class];
        cells.pop_head(&mut side.queue, node);
        side.load.remove(label.frames, label.bytes);
        if side.queue.is_empty() {
            self.ready &= !(1 << class.pcp());
        }
        side.waiting != NOBODY
    }

    /// Takes the first frame out of a flow that was parked.
    #[cold]
    fn leave_parked<F>(&mut self, cells: &mut Cells<F>, now: Instant, flow: Flow) {
        let Entry::Occupied(mut parked) = self.parked.entry(flow) else {
            unreachable!("a parked head has a flow");
        };
        cells.pop(&mut parked.get_mut().queue);
        if parked.get().queue.is_empty() {
            parked.remove();
        } else {
            parked.get_mut().progress = now;
        }
    }

    /// Deficit round robin among classes. Whose turn it is stays put until it is served or spent, so asking twice
    /// gives the same answer.
    fn next_weighted<F>(&mut self, weights: &ClassMap<u32>, cells: &Cells<F>) -> Class {
        loop {
            let class = Class::from_low_bits(self.turn);
            if let Some(node) = self.classes[class].queue.head()
                && self.deficits[class] >= i64::from(cells.label(node).bytes)
            {
                return class;
            }
            // The next one that has a frame gets its share, and its turn.
            let next = Class::from_low_bits(self.turn + 1);
            self.turn = next.pcp();
            if self.classes[next].queue.is_empty() {
                self.deficits[next] = 0;
            } else {
                self.deficits[next] += i64::from(weights[next].max(1)) * i64::from(ROUND);
            }
        }
    }
}

impl<F> Head<'_, F> {
    /// The sender's handle.
    #[inline]
    pub fn frame(&self) -> &F {
        self.switch.cells.frame(self.node)
    }

    /// The port that sent it.
    #[inline]
    pub fn ingress(&self) -> PortId {
        PortId(self.switch.cells.label(self.node).ingress)
    }

    /// Its class.
    #[inline]
    pub fn class(&self) -> Class {
        self.class
    }

    /// Its bytes on a wire.
    #[inline]
    pub fn bytes(&self) -> u32 {
        self.switch.cells.label(self.node).bytes
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
        let Self { now, class, .. } = self;
        let book = |config: &PortConfig, egress: &mut Egress, bytes| {
            egress.progress = now;
            egress.stalled = false;
            if config.scheduling != Scheduling::Strict {
                egress.deficits[class] -= i64::from(bytes);
            }
            if let Some(shaper) = &mut egress.shaper {
                shaper.take(now, bytes);
            }
            egress.classes[class].account.end(End::Delivered, bytes);
        };
        self.leave(book, |switch, node, label| switch.retire(now, node, label, End::Delivered))
    }

    /// The receiver will never take it.
    pub fn refuse(self, refusal: Refusal) -> Option<Released<F>> {
        let (now, to) = (self.now, self.egress);
        self.leave(|_, _, _| (), |switch, node, _| switch.finish(now, to, node, End::Refused(refusal)))
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
        self.leave(
            |_, _, _| (),
            |switch, node, _| {
                let parked = &mut attached(&mut switch.ports, to).egress.parked;
                let parked = parked.entry(flow).or_insert(Parked { queue: Queue::EMPTY, progress: now });
                switch.cells.push(&mut parked.queue, node);
            },
        );
    }

    /// Takes the frame out of its queue, has its egress booked and its stay there ended, and pulls the next into its
    /// place.
    #[inline(always)]
    fn leave<T>(
        self,
        book: impl FnOnce(&PortConfig, &mut Egress, u32),
        end: impl FnOnce(&mut Switch<F>, Node, Label) -> T,
    ) -> T {
        let Self { switch, now, egress: to, class, node, flow } = self;
        let Port { config, egress, .. } = attached(&mut switch.ports, to);
        let label = switch.cells.label(node);
        let waited = match flow {
            None => egress.leave(&mut switch.cells, class, node, label),
            Some(flow) => {
                egress.leave_parked(&mut switch.cells, now, flow);
                false
            }
        };
        book(config, egress, label.bytes);
        let result = end(switch, node, label);
        if waited {
            switch.pull(to, class);
        }
        result
    }
}
