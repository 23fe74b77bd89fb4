//! The flows of an egress: frames with a queue of their own, because they share a fate that others
//! do not share.
//!
//! There are two kinds. A flow is *set aside* when its frames cannot be delivered now
//! ([`Head::park`](crate::Head::park)), and its owner asks for it by name. A flow that is *offered*
//! ([`Destination::Flow`](crate::Destination::Flow)) is as good as a receiver of its own, as a port
//! of a far host: it takes turns with the others of its class, and none when it is blocked.
//!
//! ```text
//!   offer ─▶ ready ──head──▶ (block) ──▶ blocked ──unblock──▶ ready
//!    park ─▶ aside ──parked_head──▶
//! ```
//!
//! Either exists only while it holds a frame.
//!
//! A sender that has [turns of its own](crate::Switch::set_port_terms) has a *part* of each flow
//! that it offers frames in, with a queue and turns of its own: others' frames of the flow are
//! neither before nor behind it. What a flow waits for, its parts wait for together: all of them
//! are blocked, or none.
//!
//! Turns are by self-clocked fair queueing (Golestani, INFOCOM 1994): fair in bytes however long
//! frames are, and a choice costs the same for a large segment as for a short frame. The first
//! frame of each flow has a tag: its length, added to the tag of the flow's frame before, or to the
//! class's virtual time when the flow came. The least tag is next, and is the virtual time once its
//! frame has left.

use alloc::boxed::Box;
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;
use core::ops::{Bound, RangeBounds};

use units::{Class, ClassMap, Instant};

use crate::account::Load;
use crate::cells::{Cells, Node, Queue};
use crate::id::PortId;
use crate::link::Sharer;

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

/// What an ingress, or a sender in a flow, may send in its turn, in bytes: one full frame, so that
/// turns are short.
pub(crate) const QUANTUM: u32 = 1514;

/// A flow; or what is in it of one sender that has turns of its own.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub(crate) struct FlowPart {
    pub flow: Flow,
    /// [`PortId::NONE`], which is the last, if it is of all senders that have none.
    pub sender: PortId,
}

impl FlowPart {
    /// What is in a flow of those that have no turns of their own.
    #[inline]
    pub(crate) const fn of(flow: Flow) -> Self {
        Self { flow, sender: PortId::NONE }
    }

    /// The first of a flow.
    const fn first(flow: Flow) -> Self {
        Self { flow, sender: PortId(0) }
    }
}

/// The flows of one egress.
#[derive(Debug, Default)]
pub(crate) struct Flows {
    queues: BTreeMap<FlowPart, FlowQueue>,
    /// How many of these are of one sender that has turns of its own.
    apart: usize,
    /// The turns of those that are ready, by sharer; none before one of its was offered.
    turns: AllTurns,
    /// Flows whose sockets took nothing for too long, nor since.
    stalled: Option<Box<Stalled>>,
    /// Flows that take no turns, whether they have frames or not.
    held: BTreeSet<Flow>,
}

/// A memory of flows, and what their sockets had no room for: those that were noted last, at
/// least [`REMEMBERED`] of them and at most twice
/// as many, so that it is bounded whoever opens however many sockets.
#[derive(Debug, Default)]
struct Stalled {
    newer: BTreeMap<Flow, Full>,
    older: BTreeMap<Flow, Full>,
}

/// A socket that had no room for a frame.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Full {
    /// How often it had been read.
    pub reads: u32,
    /// How long the frame was, in bytes.
    pub bytes: u32,
}

/// How many stalled flows an egress remembers for certain.
const REMEMBERED: usize = 1024;

/// The turns of all ready flows.
#[derive(Debug, Default)]
struct AllTurns {
    owners: Vec<Option<Box<Owned>>>,
    /// By number, of ports that have turns of their own.
    ports: Vec<Option<Box<Owned>>>,
    /// How many flows are ready in each class.
    ready: ClassMap<u32>,
}

/// The turns of one sharer's ready flows.
#[derive(Debug, Default)]
struct Owned {
    /// The classes that have one, one bit each.
    ready: u8,
    classes: ClassMap<Turns>,
}

/// The turns of one class's ready flows of a sharer.
#[derive(Debug, Default)]
struct Turns {
    /// By tag, and those of the same tag by number.
    ready: BTreeSet<(u64, Flow)>,
    /// The tag of the frame that left last, in bytes: 2^64 will never be sent.
    virtual_time: u64,
}

/// One flow's frames, by deficit round robin among senders: nobody waits behind all that another
/// had put there before.
#[derive(Debug)]
pub(crate) struct FlowQueue {
    /// By ingress; none is empty.
    lanes: BTreeMap<PortId, Lane>,
    /// What is in them.
    load: Load,
    /// Whose turn it is: its first frame is the flow's next.
    turn: PortId,
    /// When a frame of the flow was last taken; before the first, when it was set aside, or first
    /// blocked.
    pub progress: Instant,
    /// No frame was taken since the flow was blocked.
    is_stuck: bool,
    /// Of a flow that is set aside: how often its socket was read when it was last asked, and full;
    /// `None` if nobody knows.
    reads: Option<u32>,
    /// The socket has room for the first frame, which waits for the port.
    has_room: bool,
    pub state: State,
    class: Class,
    /// Whose turns are its.
    pub sharer: Sharer,
    /// The first frame's, in its class's virtual time; without meaning in a flow that is set aside.
    tag: u64,
}

/// Whether a flow takes turns.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum State {
    /// No: its owner asks for it by name.
    Aside,
    /// Yes: it is among its class's turns.
    Ready,
    /// Not before it is unblocked.
    Blocked,
}

/// What one sender has in a flow.
#[derive(Debug)]
pub(crate) struct Lane {
    pub queue: Queue,
    pub frames: u32,
    /// How many of them are copies for bystanders, which press no sender.
    pub spares: u32,
    /// Bytes that it may still send before the next one's turn.
    deficit: u32,
    /// The last of those at its front that were put back.
    back: Option<Node>,
}

impl Flows {
    pub(crate) fn is_empty(&self) -> bool {
        self.queues.is_empty()
    }

    /// Whether there is nothing to know of any flow.
    #[inline]
    pub(crate) fn are_unknown(&self) -> bool {
        self.queues.is_empty() && self.stalled.is_none()
    }

    pub(crate) fn len(&self) -> usize {
        self.queues.len()
    }

    /// The flow's socket was asked, and has room for a frame of so many bytes: the flow's first, or
    /// one that comes behind it. A short one may find room where nothing is read.
    pub(crate) fn note_room(&mut self, flow: Flow, bytes: u32, is_first: bool) {
        if let Some(queue) = self.queues.get_mut(&FlowPart::of(flow)) {
            queue.has_room |= is_first;
        }
        self.review_stalled(flow, |full| (bytes < full.bytes).then_some(full));
    }

    /// The flow's socket was asked, and has no room for a frame of so many bytes; how often it was
    /// read so far, if that is known.
    pub(crate) fn note_full(&mut self, now: Instant, flow: Flow, bytes: u32, reads: Option<u32>) {
        if let Some(queue) = self.queues.get_mut(&FlowPart::of(flow)) {
            if queue.reads.zip(reads).is_some_and(|(before, now)| before != now) {
                queue.progress = now;
            }
            (queue.reads, queue.has_room) = (reads, false);
        }
        self.review_stalled(flow, |full| {
            let bytes = bytes.min(full.bytes);
            (Some(full.reads) == reads).then_some(Full { bytes, ..full })
        });
    }

    /// Has the memory of a stalled flow be what it is now; it is not stalled any more if nothing.
    fn review_stalled(&mut self, flow: Flow, now: impl Fn(Full) -> Option<Full>) {
        let Some(stalled) = &mut self.stalled else { return };
        for part in [&mut stalled.newer, &mut stalled.older] {
            let Some(full) = part.get_mut(&flow) else { continue };
            match now(*full) {
                Some(now) => *full = now,
                None => drop(part.remove(&flow)),
            }
        }
        if stalled.newer.is_empty() && stalled.older.is_empty() {
            self.stalled = None;
        }
    }

    /// Remembers a flow as stalled.
    pub(crate) fn note_stalled(&mut self, flow: Flow, full: Full) {
        let Stalled { newer, older } = &mut **self.stalled.get_or_insert_default();
        if newer.len() == REMEMBERED {
            *older = core::mem::take(newer);
        }
        older.remove(&flow);
        newer.insert(flow, full);
    }

    pub(crate) fn is_stalled(&self, flow: Flow) -> bool {
        let is_in = |stalled: &Stalled| {
            stalled.newer.contains_key(&flow) || stalled.older.contains_key(&flow)
        };
        self.stalled.as_deref().is_some_and(is_in)
    }

    /// The flows that are remembered as stalled.
    pub(crate) fn stalled(&self) -> impl Iterator<Item = Flow> {
        let sets = self.stalled.iter().flat_map(|stalled| [&stalled.newer, &stalled.older]);
        sets.flat_map(BTreeMap::keys).copied()
    }

    /// Whether a flow has a frame.
    pub(crate) fn contains(&self, flow: Flow) -> bool {
        self.queues.contains_key(&FlowPart::of(flow))
            || self.apart > 0 && self.parts(flow).next().is_some()
    }

    pub(crate) fn get(&self, part: FlowPart) -> Option<&FlowQueue> {
        self.queues.get(&part)
    }

    /// The parts of a flow that have frames.
    pub(crate) fn parts(&self, flow: Flow) -> impl Iterator<Item = (FlowPart, &FlowQueue)> {
        let parts = self.queues.range(FlowPart::first(flow)..=FlowPart::of(flow));
        parts.map(|(part, queue)| (*part, queue))
    }

    /// How many frames of a sender are in a part of a flow.
    pub(crate) fn lane_frames(&self, part: FlowPart, sender: PortId) -> u32 {
        let lane = self.get(part).and_then(|queue| queue.lanes.get(&sender));
        lane.map_or(0, |lane| lane.frames)
    }

    /// What is in a part of a flow.
    pub(crate) fn load(&self, part: FlowPart) -> Load {
        self.get(part).map_or(Load::NONE, |queue| queue.load)
    }

    pub(crate) fn keys(&self) -> impl ExactSizeIterator<Item = FlowPart> {
        self.queues.keys().copied()
    }

    pub(crate) fn numbers(&self, of: impl RangeBounds<Flow>) -> impl Iterator<Item = Flow> {
        let begin = match of.start_bound() {
            Bound::Included(flow) => Bound::Included(FlowPart::first(*flow)),
            Bound::Excluded(flow) => Bound::Excluded(FlowPart::of(*flow)),
            Bound::Unbounded => Bound::Unbounded,
        };
        let end = match of.end_bound() {
            Bound::Included(flow) => Bound::Included(FlowPart::of(*flow)),
            Bound::Excluded(flow) => Bound::Excluded(FlowPart::first(*flow)),
            Bound::Unbounded => Bound::Unbounded,
        };
        self.queues.range((begin, end)).map(|(part, _)| part.flow)
    }

    pub(crate) fn range(
        &self,
        flows: core::ops::RangeInclusive<Flow>,
    ) -> impl Iterator<Item = FlowPart> {
        let parts = FlowPart::first(*flows.start())..=FlowPart::of(*flows.end());
        self.queues.range(parts).map(|(part, _)| *part)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (FlowPart, &FlowQueue)> + Clone {
        self.queues.iter().map(|(part, queue)| (*part, queue))
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
            .entry(FlowPart::of(flow))
            .or_insert_with(|| FlowQueue::new(now, ingress, class, Sharer::NOBODY, State::Aside));
        assert!(queue.state == State::Aside, "{flow:?} is offered, and cannot be set aside");
        queue.push(ingress, cells, node);
    }

    /// A flow takes no turns from now on, once what it has is blocked.
    pub(crate) fn hold(&mut self, flow: Flow) {
        self.held.insert(flow);
    }

    pub(crate) fn is_held(&self, flow: Flow) -> bool {
        self.held.contains(&flow)
    }

    /// A flow without frames may take turns again.
    pub(crate) fn let_go(&mut self, flow: Flow) {
        self.held.remove(&flow);
    }

    /// The same of many.
    pub(crate) fn let_go_all(&mut self, flows: core::ops::RangeInclusive<Flow>) {
        self.held.retain(|flow| !flows.contains(flow));
    }

    /// Puts a frame behind others of its flow and sender. How many frames its sender has there now,
    /// and whether this sharer has a ready flow more by that.
    pub(crate) fn offer<F: Copy>(
        &mut self,
        now: Instant,
        flow: Flow,
        sharer: Sharer,
        cells: &mut Cells<F>,
        node: Node,
    ) -> (u32, bool) {
        self.put(now, flow, sharer, cells, node, FlowQueue::push)
    }

    /// Puts a frame before others of its flow and sender, in a flow that is held, but behind those
    /// that were put there before. How many frames its sender has there now.
    pub(crate) fn put_back<F: Copy>(
        &mut self,
        now: Instant,
        flow: Flow,
        sharer: Sharer,
        cells: &mut Cells<F>,
        node: Node,
    ) -> u32 {
        self.put(now, flow, sharer, cells, node, FlowQueue::put_back).0
    }

    fn put<F: Copy>(
        &mut self,
        now: Instant,
        flow: Flow,
        sharer: Sharer,
        cells: &mut Cells<F>,
        node: Node,
        put: impl FnOnce(&mut FlowQueue, PortId, &mut Cells<F>, Node) -> u32,
    ) -> (u32, bool) {
        let stamp = cells.label(node).stamp;
        let (ingress, class) = (PortId(stamp.ingress()), stamp.class());
        let part = FlowPart { flow, sender: sharer.port };
        // Parts wait together.
        let state = match self.apart == 0 && part.sender == PortId::NONE {
            _ if self.held.contains(&flow) => State::Blocked,
            true => State::Ready,
            false => self.parts(flow).next().map_or(State::Ready, |(_, other)| other.state),
        };
        let mut is_new = false;
        let queue = self.queues.entry(part).or_insert_with(|| {
            is_new = true;
            FlowQueue::new(now, ingress, class, sharer, state)
        });
        assert!(queue.state != State::Aside, "{flow:?} is set aside, and cannot be offered");
        assert!(queue.class == class, "{flow:?} is of one class");
        let frames = put(queue, ingress, cells, node);
        if is_new {
            let bytes = u64::from(cells.label(node).bytes);
            self.apart += usize::from(part.sender != PortId::NONE);
            queue.tag = self.turns.virtual_time(sharer, class) + bytes;
            if state == State::Ready {
                self.turns.insert(queue, flow);
            }
        }
        (frames, is_new && state == State::Ready)
    }

    /// The part of a flow whose turn it is, of the highest class in which this sharer has a ready
    /// one, but for paused classes, one bit each; and its first frame.
    pub(crate) fn first(&self, sharer: Sharer, paused: u8) -> Option<(FlowPart, Node)> {
        let owned = self.turns.get(sharer)?;
        let class = (owned.ready & !paused).checked_ilog2()?;
        let (_, flow) = *owned.classes[Class::from_low_bits(class as u8)].ready.first()?;
        let part = FlowPart { flow, sender: sharer.port };
        let node = self.queues[&part].head().expect("a flow has a frame");
        Some((part, node))
    }

    /// Takes the first frame out of a part of a flow. From which sender's lane, how many frames
    /// that had before, and whether it was the part's last, of which nothing is left then.
    pub(crate) fn pop<F: Copy>(
        &mut self,
        now: Instant,
        part: FlowPart,
        cells: &Cells<F>,
    ) -> Popped {
        let Self { queues, turns, apart, .. } = self;
        let queue = queues.get_mut(&part).expect("who has a head has a flow");
        let (state, class, sharer, tag) = (queue.state, queue.class, queue.sharer, queue.tag);
        let (ingress, frames, is_spare) = queue.pop(cells);
        let next = queue.head().map(|node| cells.label(node).bytes);
        if let Some(bytes) = next {
            (queue.progress, queue.is_stuck, queue.has_room) = (now, false, false);
            // Tags grow, however short frames are: the next one's is another.
            queue.tag += u64::from(bytes.max(1));
        }
        if state == State::Ready {
            // The next one comes in before this one goes: a set of one keeps its memory.
            if next.is_some() {
                turns.insert(queue, part.flow);
            }
            turns.serve(sharer, class, (tag, part.flow));
        }
        if next.is_none() {
            queues.remove(&part);
            *apart -= usize::from(part.sender != PortId::NONE);
        }
        Popped { ingress, frames, is_spare, state, class, sharer }
    }

    /// Has what is offered of a sender be in parts of its own from now on, or among others' again.
    /// Frames stay in order, and what they wait for is the same.
    pub(crate) fn move_sender<F: Copy>(
        &mut self,
        now: Instant,
        sender: PortId,
        to: Sharer,
        cells: &Cells<F>,
    ) {
        let is_its = |(part, queue): &(FlowPart, &FlowQueue)| {
            let is_elsewhere = part.sender != to.port && queue.state != State::Aside;
            is_elsewhere && queue.lanes.contains_key(&sender)
        };
        let parts: Vec<_> = self.iter().filter(is_its).map(|(part, _)| part).collect();
        for part in parts {
            let queue = self.queues.get_mut(&part).expect("it was found just now");
            let (class, state, progress) = (queue.class, queue.state, queue.progress);
            let lane = queue.remove(sender, cells).expect("it was found just now");
            if queue.is_empty() {
                drop(self.remove(part));
            }
            let place = FlowPart { flow: part.flow, sender: to.port };
            let is_new = !self.queues.contains_key(&place);
            let new = || FlowQueue { progress, ..FlowQueue::new(now, sender, class, to, state) };
            let queue = self.queues.entry(place).or_insert_with(new);
            cells.iter(&lane.queue).for_each(|node| queue.load.add(cells.label(node).load()));
            let first = lane.queue.head().expect("no lane is empty");
            queue.lanes.insert(sender, Lane { deficit: 0, ..lane });
            if is_new {
                let bytes = u64::from(cells.label(first).bytes);
                self.apart += usize::from(place.sender != PortId::NONE);
                queue.tag = self.turns.virtual_time(to, class) + bytes;
                if state == State::Ready {
                    self.turns.insert(queue, part.flow);
                }
            }
        }
    }

    /// Forgets a part of a flow, and returns what it had.
    pub(crate) fn remove(&mut self, part: FlowPart) -> Option<FlowQueue> {
        let queue = self.queues.remove(&part)?;
        self.apart -= usize::from(part.sender != PortId::NONE);
        if queue.state == State::Ready {
            self.turns.remove(&queue, part.flow);
        }
        Some(queue)
    }

    /// Takes out everything from one sender. A flow keeps the tag of the frame that was its first.
    pub(crate) fn remove_sender<F: Copy>(
        &mut self,
        ingress: PortId,
        cells: &Cells<F>,
    ) -> alloc::vec::Vec<Queue> {
        let queues = self.queues.values_mut();
        let gone = queues.filter_map(|queue| Some(queue.remove(ingress, cells)?.queue)).collect();
        let empty: alloc::vec::Vec<_> =
            self.iter().filter(|(_, queue)| queue.is_empty()).map(|(part, _)| part).collect();
        empty.into_iter().for_each(|part| drop(self.remove(part)));
        gone
    }

    /// A ready part of a flow takes no turns from now on. It keeps its tag, and with it its claim.
    /// Whose turns it had, if it was ready.
    pub(crate) fn block(&mut self, now: Instant, part: FlowPart) -> Option<Sharer> {
        let queue = self.queues.get_mut(&part).filter(|queue| queue.state == State::Ready)?;
        queue.state = State::Blocked;
        // Who is blocked again and again, and sends nothing in between, is as stuck as before.
        if !queue.is_stuck {
            (queue.progress, queue.is_stuck) = (now, true);
        }
        self.turns.remove(queue, part.flow);
        Some(queue.sharer)
    }

    /// A blocked part of a flow takes turns again. Its class and whose turns it has, if it was
    /// blocked.
    ///
    /// If the turn of its first frame came while it was blocked, it is due now. It makes up for no
    /// more than this frame: what follows is tagged from now on.
    pub(crate) fn unblock(&mut self, part: FlowPart) -> Option<(Class, Sharer)> {
        if self.held.contains(&part.flow) {
            return None;
        }
        let queue = self.queues.get_mut(&part).filter(|queue| queue.state == State::Blocked)?;
        queue.state = State::Ready;
        queue.tag = queue.tag.max(self.turns.virtual_time(queue.sharer, queue.class));
        self.turns.insert(queue, part.flow);
        Some((queue.class, queue.sharer))
    }

    /// All parts that a flow may have, those of senders with turns of their own before that of all
    /// others.
    pub(crate) fn parts_of(&self, flow: Flow) -> impl Iterator<Item = FlowPart> + use<> {
        let apart: Vec<_> = match self.apart {
            0 => Vec::new(),
            _ => self.parts(flow).map(|(part, _)| part).collect(),
        };
        let others = FlowPart::of(flow);
        let apart = apart.into_iter().filter(move |part| *part != others);
        apart.chain(core::iter::once(others))
    }

    /// Whether a class has a ready flow.
    pub(crate) fn is_ready(&self, class: Class) -> bool {
        self.turns.ready[class] > 0
    }

    /// Whether each ready flow has its turn, nobody else has, and none is overdue.
    pub(crate) fn turns_are_of_the_ready(&self) -> bool {
        let mut ready = self.iter().filter(|(_, queue)| queue.state == State::Ready);
        let count = ready.clone().count();
        let has_turn = |(part, queue): (FlowPart, &FlowQueue)| {
            self.turns.get(queue.sharer).is_some_and(|owned| {
                let Turns { ready, virtual_time } = &owned.classes[queue.class];
                queue.tag >= *virtual_time && ready.contains(&(queue.tag, part.flow))
            })
        };
        let waits_with_others = |(part, queue): (FlowPart, &FlowQueue)| {
            self.parts(part.flow).all(|(_, other)| other.state == queue.state)
        };
        let apart = self.queues.keys().filter(|part| part.sender != PortId::NONE).count();
        ready.all(has_turn)
            && self.turns.are_counted(count)
            && self.apart == apart
            && (apart == 0 || self.iter().all(waits_with_others))
    }
}

impl AllTurns {
    fn of(&mut self, sharer: Sharer) -> &mut Owned {
        let (all, number) = match sharer.port {
            PortId::NONE => (&mut self.owners, usize::from(sharer.owner.0)),
            port => (&mut self.ports, port.index()),
        };
        if all.len() <= number {
            all.resize_with(number + 1, || None);
        }
        all[number].get_or_insert_default()
    }

    fn get(&self, sharer: Sharer) -> Option<&Owned> {
        let owned = match sharer.port {
            PortId::NONE => self.owners.get(usize::from(sharer.owner.0)),
            port => self.ports.get(port.index()),
        };
        owned?.as_deref()
    }

    fn virtual_time(&mut self, sharer: Sharer, class: Class) -> u64 {
        self.of(sharer).classes[class].virtual_time
    }

    /// A flow takes turns.
    fn insert(&mut self, queue: &FlowQueue, flow: Flow) {
        let owned = self.of(queue.sharer);
        owned.ready |= 1 << queue.class.pcp();
        owned.classes[queue.class].ready.insert((queue.tag, flow));
        self.ready[queue.class] += 1;
    }

    /// A flow takes no more turns.
    fn remove(&mut self, queue: &FlowQueue, flow: Flow) {
        self.of(queue.sharer).classes[queue.class].ready.remove(&(queue.tag, flow));
        self.note_gone(queue.sharer, queue.class);
    }

    /// The flow has had the turn with this tag; if another's was before, it was asked for by name.
    fn serve(&mut self, sharer: Sharer, class: Class, turn: (u64, Flow)) {
        let Turns { ready, virtual_time } = &mut self.of(sharer).classes[class];
        if ready.first() == Some(&turn) {
            ready.pop_first();
            *virtual_time = turn.0;
        } else {
            ready.remove(&turn);
        }
        self.note_gone(sharer, class);
    }

    /// A turn of a sharer is gone.
    fn note_gone(&mut self, sharer: Sharer, class: Class) {
        let owned = self.of(sharer);
        if owned.classes[class].ready.is_empty() {
            owned.ready &= !(1 << class.pcp());
        }
        self.ready[class] -= 1;
    }

    /// Whether there are so many turns, as each sharer and each class has it.
    fn are_counted(&self, count: usize) -> bool {
        let all = self.owners.iter().chain(&self.ports).flatten();
        let of_class = |class: Class| -> usize {
            all.clone().map(|owned| owned.classes[class].ready.len()).sum()
        };
        let bits = |owned: &Owned| {
            let has = |class: &Class| !owned.classes[*class].ready.is_empty();
            Class::all().filter(has).fold(0, |bits, class| bits | 1 << class.pcp()) == owned.ready
        };
        Class::all().all(|class| of_class(class) == self.ready[class] as usize)
            && Class::all().map(of_class).sum::<usize>() == count
            && all.clone().all(|owned| bits(owned))
    }
}

/// What [`Flows::pop`] has to tell.
pub(crate) struct Popped {
    pub ingress: PortId,
    /// Of its sender in the flow, this one with them.
    pub frames: u32,
    /// It was a copy for a bystander.
    pub is_spare: bool,
    pub state: State,
    pub class: Class,
    pub sharer: Sharer,
}

impl FlowQueue {
    /// A flow without frames yet; the first is to come from `ingress`.
    fn new(now: Instant, ingress: PortId, class: Class, sharer: Sharer, state: State) -> Self {
        Self {
            lanes: BTreeMap::new(),
            load: Load::NONE,
            turn: ingress,
            progress: now,
            is_stuck: false,
            reads: None,
            has_room: false,
            state,
            class,
            sharer,
            tag: 0,
        }
    }

    fn is_empty(&self) -> bool {
        self.lanes.is_empty()
    }

    /// The frame that is next.
    pub(crate) fn head(&self) -> Option<Node> {
        self.lanes.get(&self.turn)?.queue.head()
    }

    /// How often the socket that the flow waits for had been read; `None` if it waits for the port,
    /// or nobody knows.
    pub(crate) fn waits_for_reads(&self) -> Option<u32> {
        self.reads.filter(|_| !self.has_room)
    }

    pub(crate) fn lanes(&self) -> impl Iterator<Item = (PortId, &Lane)> {
        self.lanes.iter().map(|(ingress, lane)| (*ingress, lane))
    }

    pub(crate) fn queues(&self) -> impl Iterator<Item = &Queue> {
        self.lanes.values().map(|lane| &lane.queue)
    }

    /// Puts a frame behind others of its sender. How many that has here now.
    fn push<F: Copy>(&mut self, ingress: PortId, cells: &mut Cells<F>, node: Node) -> u32 {
        let lane = self.lanes.entry(ingress).or_insert(Lane::EMPTY);
        cells.push(&mut lane.queue, node);
        self.note_put(ingress, cells, node)
    }

    /// Puts a frame before others of its sender, behind those that were put there before. How many
    /// that has here now.
    fn put_back<F: Copy>(&mut self, ingress: PortId, cells: &mut Cells<F>, node: Node) -> u32 {
        let lane = self.lanes.entry(ingress).or_insert(Lane::EMPTY);
        cells.insert_behind(&mut lane.queue, lane.back, node);
        lane.back = Some(node);
        self.note_put(ingress, cells, node)
    }

    fn note_put<F: Copy>(&mut self, ingress: PortId, cells: &Cells<F>, node: Node) -> u32 {
        let lane = self.lanes.get_mut(&ingress).expect("a frame was put there");
        let label = cells.label(node);
        self.load.add(label.load());
        lane.frames += 1;
        lane.spares += u32::from(label.stamp.is_spare());
        lane.frames
    }

    /// Takes out the frame that is next. Its sender, how many frames that had, and whether this one
    /// was a copy for a bystander.
    fn pop<F: Copy>(&mut self, cells: &Cells<F>) -> (PortId, u32, bool) {
        let ingress = self.turn;
        let lane = self.lanes.get_mut(&ingress).expect("whose turn it is has a frame");
        let node = cells.pop(&mut lane.queue).expect("no lane is empty");
        let label = cells.label(node);
        self.load.remove(label.load());
        let frames = lane.frames;
        lane.frames -= 1;
        let is_spare = label.stamp.is_spare();
        lane.spares -= u32::from(is_spare);
        lane.deficit = lane.deficit.saturating_sub(label.bytes);
        match lane.queue.head() {
            None => drop(self.remove(ingress, cells)),
            Some(next) if lane.deficit < cells.label(next).bytes => self.pass_on(cells),
            Some(_) => {}
        }
        (ingress, frames, is_spare)
    }

    /// Takes out everything from one sender.
    fn remove<F: Copy>(&mut self, ingress: PortId, cells: &Cells<F>) -> Option<Lane> {
        let lane = self.lanes.remove(&ingress)?;
        cells.iter(&lane.queue).for_each(|node| self.load.remove(cells.label(node).load()));
        if ingress == self.turn {
            self.pass_on(cells);
        }
        Some(lane)
    }

    /// The turn goes to the next one whose share covers its first frame; who is passed over saves
    /// it up.
    fn pass_on<F: Copy>(&mut self, cells: &Cells<F>) {
        let mut passed = 0;
        loop {
            let later = self.lanes.range((Bound::Excluded(self.turn), Bound::Unbounded)).next();
            let Some((next, _)) = later.or_else(|| self.lanes.first_key_value()) else { return };
            self.turn = *next;
            let lane = self.lanes.get_mut(&self.turn).expect("it was found just now");
            lane.deficit += QUANTUM;
            if lane.lacks(cells) == 0 {
                return;
            }
            passed += 1;
            if passed == self.lanes.len() {
                self.skip_rounds(cells);
            }
        }
    }

    /// Each saves up what it would in the rounds in which nobody's share suffices yet, however long
    /// first frames are.
    fn skip_rounds<F: Copy>(&mut self, cells: &Cells<F>) {
        let rounds = self.lanes.values().map(|lane| lane.lacks(cells).div_ceil(QUANTUM)).min();
        let saved = rounds.map_or(0, |rounds| (rounds - 1) * QUANTUM);
        self.lanes.values_mut().for_each(|lane| lane.deficit += saved);
    }
}

impl Lane {
    const EMPTY: Self = Self { queue: Queue::EMPTY, frames: 0, spares: 0, deficit: 0, back: None };

    /// How many bytes its share lacks for its first frame.
    fn lacks<F: Copy>(&self, cells: &Cells<F>) -> u32 {
        let first = self.queue.head().expect("no lane is empty");
        cells.label(first).bytes.saturating_sub(self.deficit)
    }
}
