//! Frames of one flow that were set aside: a queue for each sender, served in turns.

use alloc::collections::BTreeMap;
use core::ops::Bound;

use units::Instant;

use crate::PortId;
use crate::cells::{Cells, Node, Queue};
use crate::forward::QUANTUM;

/// One flow's frames that were set aside because it cannot be delivered now, by deficit round robin among senders:
/// nobody waits behind all that another had set aside before.
#[derive(Debug)]
pub(crate) struct Parked {
    /// By ingress; none is empty.
    lanes: BTreeMap<PortId, Lane>,
    /// Whose turn it is: its first frame is the flow's next.
    turn: PortId,
    /// When the flow last took a frame, or was set aside.
    pub progress: Instant,
}

/// What one sender has there.
#[derive(Debug)]
struct Lane {
    queue: Queue,
    /// Bytes that it may still send before the next one's turn.
    deficit: u32,
}

impl Parked {
    /// A flow of which nothing is set aside yet; the first frame is to come from `ingress`.
    pub(crate) fn new(now: Instant, ingress: PortId) -> Self {
        Self { lanes: BTreeMap::new(), turn: ingress, progress: now }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.lanes.is_empty()
    }

    /// The frame that is next.
    pub(crate) fn head(&self) -> Option<Node> {
        self.lanes.get(&self.turn)?.queue.head()
    }

    pub(crate) fn queues(&self) -> impl Iterator<Item = &Queue> {
        self.lanes.values().map(|lane| &lane.queue)
    }

    /// Sets a frame aside behind others of its sender.
    pub(crate) fn push<F: Copy>(&mut self, cells: &mut Cells<F>, node: Node) {
        let ingress = PortId(cells.label(node).stamp.ingress());
        let lane = self.lanes.entry(ingress).or_insert(Lane { queue: Queue::EMPTY, deficit: 0 });
        cells.push(&mut lane.queue, node);
    }

    /// Takes out the frame that is next.
    pub(crate) fn pop<F: Copy>(&mut self, cells: &Cells<F>) -> Option<Node> {
        let lane = self.lanes.get_mut(&self.turn)?;
        let node = cells.pop(&mut lane.queue)?;
        lane.deficit = lane.deficit.saturating_sub(cells.label(node).bytes);
        match lane.queue.head() {
            None => drop(self.remove(self.turn, cells)),
            Some(next) if lane.deficit < cells.label(next).bytes => self.pass_on(cells),
            Some(_) => {}
        }
        Some(node)
    }

    /// Takes out everything from one sender.
    pub(crate) fn remove<F: Copy>(&mut self, ingress: PortId, cells: &Cells<F>) -> Queue {
        let queue = self.lanes.remove(&ingress).map_or(Queue::EMPTY, |lane| lane.queue);
        if ingress == self.turn {
            self.pass_on(cells);
        }
        queue
    }

    /// The turn goes to the next one whose share covers its first frame; who is passed over saves it up.
    fn pass_on<F: Copy>(&mut self, cells: &Cells<F>) {
        loop {
            let later = self.lanes.range((Bound::Excluded(self.turn), Bound::Unbounded)).next();
            let Some((next, _)) = later.or_else(|| self.lanes.first_key_value()) else { return };
            self.turn = *next;
            let lane = self.lanes.get_mut(&self.turn).expect("it was found just now");
            lane.deficit += QUANTUM;
            if lane.queue.head().is_some_and(|first| lane.deficit >= cells.label(first).bytes) {
                return;
            }
        }
    }
}
