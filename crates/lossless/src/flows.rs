//! The flows of an egress: frames with a queue of their own, because they share a fate that others
//! do not share.
//!
//! There are two kinds. A flow is *set aside* when its frames cannot be delivered now
//! ([`Head::park`](crate::Head::park)), and its owner asks for it by name. A flow that is *offered*
//! ([`Destination::Flow`](crate::Destination::Flow)) is as good as a receiver of its own, as a port
//! of a far host: it takes turns with the others of its class by deficit round robin, and none when
//! it is blocked.
//!
//! ```text
//!   offer ─▶ ready ──head──▶ (block) ──▶ blocked ──unblock──▶ ready
//!    park ─▶ aside ──parked_head──▶
//! ```
//!
//! Either exists only while it holds a frame.

use alloc::boxed::Box;
use alloc::collections::{BTreeMap, VecDeque};
use core::ops::Bound;

use units::{Class, ClassMap, Instant};

use crate::cells::{Cells, Node, Queue};
use crate::id::PortId;

/// Frames for one egress that share a fate: as a rule those for one socket, or for one port of a
/// far host. The number is the caller's.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct Flow(pub u64);

impl Flow {
    /// The upper 24 bits of its number. Of the flows that are offered, those of one group share an
    /// [account](crate::Switch::group_account): as a rule those to one far host.
    #[inline]
    pub const fn group(self) -> u32 {
        (self.0 >> 40) as u32
    }
}

/// What an ingress, a sender or a flow may send in its turn, in bytes: one full frame, so that
/// turns are short.
pub(crate) const QUANTUM: u32 = 1514;

/// The flows of one egress.
#[derive(Debug, Default)]
pub(crate) struct Flows {
    queues: BTreeMap<Flow, FlowQueue>,
    /// Those that are ready, in the order of their turns; none before one was offered.
    rings: Option<Box<ClassMap<VecDeque<Flow>>>>,
}

/// One flow's frames, by deficit round robin among senders: nobody waits behind all that another
/// had put there before.
#[derive(Debug)]
pub(crate) struct FlowQueue {
    /// By ingress; none is empty.
    lanes: BTreeMap<PortId, Lane>,
    /// Whose turn it is: its first frame is the flow's next.
    turn: PortId,
    /// When a frame of the flow was last taken; before the first, when it was set aside, or first
    /// blocked.
    pub progress: Instant,
    /// No frame was taken since the flow was blocked.
    is_stuck: bool,
    pub state: State,
    class: Class,
    /// Bytes that a ready flow may still send before the next one's turn.
    deficit: u32,
}

/// Whether a flow takes turns.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum State {
    /// No: its owner asks for it by name.
    Aside,
    /// Yes: it is in its class's ring.
    Ready,
    /// Not before it is unblocked.
    Blocked,
}

/// What one sender has in a flow.
#[derive(Debug)]
pub(crate) struct Lane {
    pub queue: Queue,
    pub frames: u32,
    /// Bytes that it may still send before the next one's turn.
    deficit: u32,
}

impl Flows {
    pub(crate) fn is_empty(&self) -> bool {
        self.queues.is_empty()
    }

    pub(crate) fn len(&self) -> usize {
        self.queues.len()
    }

    pub(crate) fn contains(&self, flow: Flow) -> bool {
        self.queues.contains_key(&flow)
    }

    pub(crate) fn get(&self, flow: Flow) -> Option<&FlowQueue> {
        self.queues.get(&flow)
    }

    pub(crate) fn keys(&self) -> impl ExactSizeIterator<Item = Flow> {
        self.queues.keys().copied()
    }

    pub(crate) fn range(
        &self,
        flows: impl core::ops::RangeBounds<Flow>,
    ) -> impl Iterator<Item = Flow> {
        self.queues.range(flows).map(|(flow, _)| *flow)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (Flow, &FlowQueue)> {
        self.queues.iter().map(|(flow, queue)| (*flow, queue))
    }

    /// Sets a frame aside behind others of its flow and sender.
    pub(crate) fn park<F: Copy>(
        &mut self,
        now: Instant,
        flow: Flow,
        cells: &mut Cells<F>,
        node: Node,
    ) {
        let stamp = cells.label(node).stamp;
        let (ingress, class) = (PortId(stamp.ingress()), stamp.class());
        let queue = self
            .queues
            .entry(flow)
            .or_insert_with(|| FlowQueue::new(now, ingress, class, State::Aside));
        assert!(queue.state == State::Aside, "{flow:?} is offered, and cannot be set aside");
        queue.push(ingress, cells, node);
    }

    /// Puts a frame behind others of its flow and sender. How many frames its sender has there now,
    /// and whether the flow is new, and ready by that.
    pub(crate) fn offer<F: Copy>(
        &mut self,
        now: Instant,
        flow: Flow,
        cells: &mut Cells<F>,
        node: Node,
    ) -> (u32, bool) {
        let stamp = cells.label(node).stamp;
        let (ingress, class) = (PortId(stamp.ingress()), stamp.class());
        let mut is_new = false;
        let queue = self.queues.entry(flow).or_insert_with(|| {
            is_new = true;
            FlowQueue::new(now, ingress, class, State::Ready)
        });
        assert!(queue.state != State::Aside, "{flow:?} is set aside, and cannot be offered");
        assert!(queue.class == class, "{flow:?} is of one class");
        let frames = queue.push(ingress, cells, node);
        if is_new {
            self.rings.get_or_insert_default()[class].push_back(flow);
        }
        (frames, is_new)
    }

    /// The first frame of the flow whose turn it is in a class that has a ready one, and the flow.
    pub(crate) fn choose<F: Copy>(
        &mut self,
        class: Class,
        cells: &Cells<F>,
    ) -> Option<(Flow, Node)> {
        let Self { queues, rings } = self;
        let ring = &mut rings.as_mut()?[class];
        loop {
            let flow = *ring.front()?;
            let queue = queues.get_mut(&flow).expect("a ready flow has a frame");
            let node = queue.head().expect("a flow has a frame");
            if ring.len() == 1 || queue.deficit >= cells.label(node).bytes {
                return Some((flow, node));
            }
            queue.deficit += QUANTUM;
            ring.rotate_left(1);
        }
    }

    /// Takes the first frame out of a flow. From which sender's lane, how many frames that had
    /// before, and whether it was the flow's last, of which nothing is left then.
    pub(crate) fn pop<F: Copy>(&mut self, now: Instant, flow: Flow, cells: &Cells<F>) -> Popped {
        let queue = self.queues.get_mut(&flow).expect("who has a head has a flow");
        let (state, class) = (queue.state, queue.class);
        let (ingress, frames) = queue.pop(cells);
        if queue.is_empty() {
            self.remove(flow);
        } else {
            (queue.progress, queue.is_stuck) = (now, false);
        }
        Popped { ingress, frames, state, class }
    }

    /// Forgets a flow, and returns what it had.
    pub(crate) fn remove(&mut self, flow: Flow) -> Option<FlowQueue> {
        let queue = self.queues.remove(&flow)?;
        if queue.state == State::Ready {
            self.leave_ring(flow, queue.class);
        }
        Some(queue)
    }

    /// Takes out everything from one sender.
    pub(crate) fn remove_sender<F: Copy>(
        &mut self,
        ingress: PortId,
        cells: &Cells<F>,
    ) -> alloc::vec::Vec<Queue> {
        let queues = self.queues.values_mut();
        let gone = queues.filter_map(|queue| Some(queue.remove(ingress, cells)?.queue)).collect();
        let empty: alloc::vec::Vec<_> =
            self.iter().filter(|(_, queue)| queue.is_empty()).map(|(flow, _)| flow).collect();
        empty.into_iter().for_each(|flow| drop(self.remove(flow)));
        gone
    }

    /// A ready flow takes no turns from now on.
    pub(crate) fn block(&mut self, now: Instant, flow: Flow) {
        let Some(queue) = self.queues.get_mut(&flow).filter(|queue| queue.state == State::Ready)
        else {
            return;
        };
        (queue.state, queue.deficit) = (State::Blocked, 0);
        // Who is blocked again and again, and sends nothing in between, is as stuck as before.
        if !queue.is_stuck {
            (queue.progress, queue.is_stuck) = (now, true);
        }
        let class = queue.class;
        self.leave_ring(flow, class);
    }

    /// A blocked flow takes turns again. Its class, if it was blocked.
    pub(crate) fn unblock(&mut self, flow: Flow) -> Option<Class> {
        let queue = self.queues.get_mut(&flow).filter(|queue| queue.state == State::Blocked)?;
        queue.state = State::Ready;
        let class = queue.class;
        self.rings.as_mut().expect("it was in a ring before")[class].push_back(flow);
        Some(class)
    }

    /// Whether a class has a ready flow.
    pub(crate) fn is_ready(&self, class: Class) -> bool {
        self.rings.as_ref().is_some_and(|rings| !rings[class].is_empty())
    }

    /// Whether each ready flow has its turn, and nobody else has.
    pub(crate) fn rings_hold_the_ready(&self) -> bool {
        let in_rings = self.rings.iter().flat_map(|rings| rings.iter());
        let mut all: alloc::vec::Vec<_> = in_rings
            .flat_map(|(class, ring)| ring.iter().map(move |flow| (*flow, class)))
            .collect();
        all.sort_unstable_by_key(|(flow, _)| *flow);
        let ready = self.iter().filter(|(_, queue)| queue.state == State::Ready);
        ready.map(|(flow, queue)| (flow, queue.class)).eq(all)
    }

    fn leave_ring(&mut self, flow: Flow, class: Class) {
        let ring = &mut self.rings.as_mut().expect("a ready flow is in a ring")[class];
        if ring.front() == Some(&flow) {
            ring.pop_front();
        } else {
            ring.retain(|it| *it != flow);
        }
    }
}

/// What [`Flows::pop`] has to tell.
pub(crate) struct Popped {
    pub ingress: PortId,
    /// Of its sender in the flow, this one with them.
    pub frames: u32,
    pub state: State,
    pub class: Class,
}

impl FlowQueue {
    /// A flow without frames yet; the first is to come from `ingress`.
    fn new(now: Instant, ingress: PortId, class: Class, state: State) -> Self {
        Self {
            lanes: BTreeMap::new(),
            turn: ingress,
            progress: now,
            is_stuck: false,
            state,
            class,
            deficit: 0,
        }
    }

    fn is_empty(&self) -> bool {
        self.lanes.is_empty()
    }

    /// The frame that is next.
    pub(crate) fn head(&self) -> Option<Node> {
        self.lanes.get(&self.turn)?.queue.head()
    }

    pub(crate) fn lanes(&self) -> impl Iterator<Item = (PortId, &Lane)> {
        self.lanes.iter().map(|(ingress, lane)| (*ingress, lane))
    }

    pub(crate) fn queues(&self) -> impl Iterator<Item = &Queue> {
        self.lanes.values().map(|lane| &lane.queue)
    }

    /// Puts a frame behind others of its sender. How many that has here now.
    fn push<F: Copy>(&mut self, ingress: PortId, cells: &mut Cells<F>, node: Node) -> u32 {
        let lane = self.lanes.entry(ingress).or_insert(Lane {
            queue: Queue::EMPTY,
            frames: 0,
            deficit: 0,
        });
        cells.push(&mut lane.queue, node);
        lane.frames += 1;
        lane.frames
    }

    /// Takes out the frame that is next. Its sender, and how many frames that had.
    fn pop<F: Copy>(&mut self, cells: &Cells<F>) -> (PortId, u32) {
        let ingress = self.turn;
        let lane = self.lanes.get_mut(&ingress).expect("whose turn it is has a frame");
        let node = cells.pop(&mut lane.queue).expect("no lane is empty");
        let bytes = cells.label(node).bytes;
        let frames = lane.frames;
        lane.frames -= 1;
        lane.deficit = lane.deficit.saturating_sub(bytes);
        self.deficit = self.deficit.saturating_sub(bytes);
        match lane.queue.head() {
            None => drop(self.remove(ingress, cells)),
            Some(next) if lane.deficit < cells.label(next).bytes => self.pass_on(cells),
            Some(_) => {}
        }
        (ingress, frames)
    }

    /// Takes out everything from one sender.
    fn remove<F: Copy>(&mut self, ingress: PortId, cells: &Cells<F>) -> Option<Lane> {
        let lane = self.lanes.remove(&ingress);
        if ingress == self.turn {
            self.pass_on(cells);
        }
        lane
    }

    /// The turn goes to the next one whose share covers its first frame; who is passed over saves
    /// it up.
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
