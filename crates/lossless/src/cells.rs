//! Where the frames that the switch holds are written down.
//!
//! A cell is one frame's place in one queue. A flooded frame has a further cell, a copy, for each
//! further egress. Free ones are reused, last in first out, so a busy switch stays in the same few
//! cache lines. How many there can be is bounded by the ports' ingress limits.
//!
//! ```text
//!    free ──▶ 4 ──▶ 7 ──▶ 2 ──▶ 5 …          taking 4, 7 and 2 and making them a queue writes no link,
//!             └── queue ──┘                  and neither does giving back what left a queue in its order
//! ```

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec;
use alloc::vec::Vec;

use units::Class;

use crate::account::Load;

const NONE: u32 = u32::MAX;

/// A cell's number.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Node(u32);

/// A first-in, first-out queue, linked through its cells. Its last one leads nowhere.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Queue {
    head: u32,
    tail: u32,
}

impl Queue {
    pub(crate) const EMPTY: Self = Self { head: NONE, tail: NONE };

    /// One cell that is in no queue, wherever it leads: to be appended, or forgotten.
    #[inline]
    pub(crate) fn of(Node(index): Node) -> Self {
        Self { head: index, tail: index }
    }

    #[inline]
    pub(crate) fn head(&self) -> Option<Node> {
        (self.head != NONE).then_some(Node(self.head))
    }

    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.head == NONE
    }

    /// Takes out the first, which goes on leading to `next`.
    #[inline(always)]
    pub(crate) fn advance(&mut self, Node(next): Node) {
        self.head = next;
    }

    /// Takes in the cell that the last one leads to.
    #[inline]
    pub(crate) fn extend(&mut self, Node(index): Node) {
        self.tail = index;
    }
}

/// What many frames have in common, in one number that is quick to compare: ingress, class, how
/// many frames on a wire each stands for, and its fate so far.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Stamp(u64);

impl Stamp {
    /// No cell's.
    pub(crate) const NONE: Self = Self(u64::MAX);
    /// An egress has taken the frame; others have not.
    const DELIVERED: u64 = 1 << 35;
    /// The cell's frame was offered to a flow: the flow's group is in the cell.
    const OFFERED: u64 = 1 << 36;
    /// The cell is a copy for a bystander.
    const SPARE: u64 = 1 << 37;
    /// In the highest 26 bits the egresses and flows that have yet to be done with the frame: 1 but
    /// for a flooded one, and 0 in its further cells. There are 2^24 far hosts at the most.
    const COPY: u64 = 1 << 38;
    const MOST_COPIES: u64 = u64::MAX / Self::COPY;

    /// A frame of its own, for one egress.
    #[inline]
    pub(crate) fn new(ingress: u16, class: Class, frames: u16) -> Self {
        Self(
            Self::COPY
                | u64::from(class.pcp()) << 32
                | u64::from(frames) << 16
                | u64::from(ingress),
        )
    }

    #[inline]
    pub(crate) fn ingress(self) -> u16 {
        self.0 as u16
    }

    #[inline]
    pub(crate) fn class(self) -> Class {
        Class::from_low_bits((self.0 >> 32) as u8)
    }

    /// Frames on a wire.
    #[inline]
    pub(crate) fn frames(self) -> u16 {
        (self.0 >> 16) as u16
    }

    /// Whether one egress wants the frame, no other ever did, and it is no bystander's.
    #[inline]
    pub(crate) fn is_alone(self) -> bool {
        let others = !(Self::COPY - 1) | Self::DELIVERED | Self::SPARE;
        self.0 & others == Self::COPY
    }

    /// Whether the cell is a copy for a bystander.
    #[inline]
    pub(crate) fn is_spare(self) -> bool {
        self.0 & Self::SPARE != 0
    }

    #[inline]
    fn copies(self) -> u64 {
        self.0 / Self::COPY
    }

    #[inline]
    fn is_delivered(self) -> bool {
        self.0 & Self::DELIVERED != 0
    }

    #[inline]
    fn is_offered(self) -> bool {
        self.0 & Self::OFFERED != 0
    }
}

/// All that a queue needs to know of a frame.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Label {
    pub stamp: Stamp,
    /// Bytes on a wire.
    pub bytes: u32,
}

impl Label {
    #[inline]
    pub(crate) fn load(&self) -> Load {
        Load { frames: self.stamp.frames().into(), bytes: self.bytes.into() }
    }
}

/// Half a cache line, for a handle of up to eight bytes: looking at a frame touches one line.
#[derive(Debug)]
#[repr(align(32))]
struct Cell<F> {
    stamp: Stamp,
    /// Bytes on a wire.
    bytes: u32,
    /// The group of the flow that the frame was offered to, if its stamp says that it was.
    group: u32,
    /// The sender's handle.
    frame: F,
    /// Who comes behind it in its queue, or in the list of free ones.
    next: u32,
    /// Of a further cell of a flooded frame: the first one. Of the first: how many of the frame's
    /// cells are for bystanders.
    kin: u32,
}

const _: () = assert!(size_of::<Cell<u32>>() == 32 && size_of::<Cell<u64>>() == 32);

impl<F> Cell<F> {
    #[inline(always)]
    fn label(&self) -> Label {
        Label { stamp: self.stamp, bytes: self.bytes }
    }
}

#[derive(Debug)]
pub(crate) struct Cells<F> {
    cells: Vec<Cell<F>>,
    free: u32,
}

/// A frame in a queue.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Seen<F> {
    pub node: Node,
    pub label: Label,
    /// The sender's handle.
    pub frame: F,
    /// Who comes behind it, or nobody.
    pub next: Node,
}

/// A frame that every egress is done with.
pub(crate) struct Finished<F> {
    pub frame: F,
    /// Whether an egress has taken it.
    pub delivered: bool,
}

impl<F: Copy> Cells<F> {
    pub(crate) fn new() -> Self {
        Self { cells: Vec::new(), free: NONE }
    }

    /// Makes room for `frames` in all, so that holding them allocates nothing.
    pub(crate) fn reserve(&mut self, frames: usize) {
        if self.cells.capacity() < frames {
            // What nobody has written to yet is not copied, as it would be by growing.
            let mut cells = Vec::with_capacity(frames);
            cells.append(&mut self.cells);
            self.cells = cells;
        }
    }

    /// Writes a frame down. It is in no queue yet.
    pub(crate) fn insert(&mut self, frame: F, label: Label) -> Node {
        if self.free == NONE {
            assert!(self.cells.len() < NONE as usize, "four billion frames are held at once");
            self.free = self.cells.len() as u32;
            let Label { stamp, bytes } = label;
            self.cells.push(Cell { stamp, bytes, group: 0, frame, next: NONE, kin: NONE });
        }
        self.take(frame, label).expect("there is a free one")
    }

    /// Writes a frame down of which there will be copies.
    pub(crate) fn insert_for_many(&mut self, frame: F, label: Label) -> Node {
        let node = self.insert(frame, label);
        self.cells[node.0 as usize].kin = 0;
        node
    }

    /// Writes a frame down where the cell that was written last leads to, if it leads to a free
    /// one.
    #[inline(always)]
    pub(crate) fn take(&mut self, frame: F, label: Label) -> Option<Node> {
        let node = Node(self.free);
        let cell = self.cells.get_mut(node.0 as usize)?;
        self.free = cell.next;
        (cell.stamp, cell.bytes, cell.frame) = (label.stamp, label.bytes, frame);
        Some(node)
    }

    /// A further place for the frame of `node`, for another egress; one more copy of it is to come.
    pub(crate) fn copy(&mut self, node: Node) -> Node {
        let Cell { stamp, bytes, frame, .. } = &mut self.cells[node.0 as usize];
        assert!(stamp.copies() < Stamp::MOST_COPIES, "a frame is for more than 67 million");
        let copy = Label { stamp: Stamp(stamp.0 % Stamp::COPY), bytes: *bytes };
        stamp.0 += Stamp::COPY;
        let frame = *frame;
        let place = self.insert(frame, copy);
        self.cells[place.0 as usize].kin = node.0;
        place
    }

    /// The cell of `node`, of a frame for many, is for a bystander. Whether it is the frame's first
    /// such cell.
    pub(crate) fn set_spare(&mut self, node: Node) -> bool {
        self.cells[node.0 as usize].stamp.0 |= Stamp::SPARE;
        let spares = self.spares(node);
        *spares += 1;
        *spares == 1
    }

    /// The bystander is done with the cell of `node`, which is about to be
    /// [finished](Self::finish). Whether it was the frame's last such cell.
    pub(crate) fn end_spare(&mut self, node: Node) -> bool {
        self.cells[node.0 as usize].stamp.0 &= !Stamp::SPARE;
        let spares = self.spares(node);
        *spares -= 1;
        *spares == 0
    }

    /// How many cells for bystanders the frame of `node` has, which is for many.
    fn spares(&mut self, node: Node) -> &mut u32 {
        let cell = &self.cells[node.0 as usize];
        let first = if cell.stamp.copies() == 0 { cell.kin } else { node.0 };
        &mut self.cells[first as usize].kin
    }

    #[inline]
    pub(crate) fn label(&self, node: Node) -> Label {
        self.cells[node.0 as usize].label()
    }

    /// The frame of `node` is offered to a flow of this group.
    pub(crate) fn set_group(&mut self, node: Node, group: u32) {
        let cell = &mut self.cells[node.0 as usize];
        cell.stamp.0 |= Stamp::OFFERED;
        cell.group = group;
    }

    /// The group of the flow that the frame of `node` was offered to, if it was.
    #[inline]
    pub(crate) fn group(&self, node: Node) -> Option<u32> {
        let cell = &self.cells[node.0 as usize];
        cell.stamp.is_offered().then_some(cell.group)
    }

    /// The same, and it is offered to no flow any more.
    pub(crate) fn take_group(&mut self, node: Node) -> Option<u32> {
        let group = self.group(node);
        self.cells[node.0 as usize].stamp.0 &= !Stamp::OFFERED;
        group
    }

    #[inline(always)]
    pub(crate) fn look(&self, node: Node) -> Seen<F> {
        let cell = &self.cells[node.0 as usize];
        Seen { node, label: cell.label(), frame: cell.frame, next: Node(cell.next) }
    }

    /// One egress is done with `node`, which is in no queue any more. `Some` if it was the frame's
    /// last, which is then forgotten here.
    pub(crate) fn finish(&mut self, node: Node, delivered: bool) -> Option<Finished<F>> {
        let Node(mut original) = node;
        let cell = &self.cells[original as usize];
        if cell.stamp.copies() == 0 {
            original = cell.kin;
            self.forget(Queue::of(node));
        }
        let Cell { stamp, frame, .. } = &mut self.cells[original as usize];
        let delivered = delivered | stamp.is_delivered();
        if stamp.copies() > 1 {
            stamp.0 -= Stamp::COPY;
            stamp.0 |= if delivered { Stamp::DELIVERED } else { 0 };
            return None;
        }
        let frame = *frame;
        self.forget(Queue::of(Node(original)));
        Some(Finished { frame, delivered })
    }

    /// Every egress is done with these, which lead to one another in their order: they are free.
    #[inline]
    pub(crate) fn forget(&mut self, gone: Queue) {
        self.cells[gone.tail as usize].next = core::mem::replace(&mut self.free, gone.head);
    }

    /// Appends a cell that is in no queue.
    #[inline]
    pub(crate) fn push(&mut self, queue: &mut Queue, node: Node) {
        self.append(queue, Queue::of(node));
    }

    /// Appends cells that are in no queue and lead to one another.
    #[inline]
    pub(crate) fn append(&mut self, queue: &mut Queue, more: Queue) {
        if queue.is_empty() {
            queue.head = more.head;
        } else {
            self.cells[queue.tail as usize].next = more.head;
        }
        self.cells[more.tail as usize].next = NONE;
        queue.tail = more.tail;
    }

    /// Puts a cell that is in no queue behind one of `queue`, or before all.
    pub(crate) fn insert_behind(&mut self, queue: &mut Queue, behind: Option<Node>, node: Node) {
        let Some(Node(behind)) = behind.filter(|Node(behind)| *behind != queue.tail) else {
            if queue.is_empty() || behind.is_some() {
                return self.push(queue, node);
            }
            self.cells[node.0 as usize].next = core::mem::replace(&mut queue.head, node.0);
            return;
        };
        let next = core::mem::replace(&mut self.cells[behind as usize].next, node.0);
        self.cells[node.0 as usize].next = next;
    }

    /// Takes out the first of `queue`.
    #[inline]
    pub(crate) fn pop(&self, queue: &mut Queue) -> Option<Node> {
        let node = queue.head()?;
        queue.advance(Node(self.cells[node.0 as usize].next));
        Some(node)
    }

    /// Takes every cell out of `queue` of which `leaves` says so; the rest keep their order.
    pub(crate) fn extract(
        &mut self,
        queue: &mut Queue,
        mut leaves: impl FnMut(Label) -> bool,
    ) -> Queue {
        let (mut kept, mut left) = (Queue::EMPTY, Queue::EMPTY);
        while let Some(node) = self.pop(queue) {
            let side = if leaves(self.label(node)) { &mut left } else { &mut kept };
            self.push(side, node);
        }
        *queue = kept;
        left
    }

    /// The cells of `queue`, oldest first.
    pub(crate) fn iter(&self, queue: &Queue) -> impl Iterator<Item = Node> {
        let mut rest = *queue;
        core::iter::from_fn(move || self.pop(&mut rest))
    }

    /// Every frame that is held, once.
    pub(crate) fn held(&self) -> Vec<Label> {
        let cells = self.used().filter(|(_, cell)| cell.stamp.copies() > 0);
        cells.map(|(_, cell)| cell.label()).collect()
    }

    /// What the frames of each sender that have cells for bystanders weigh together.
    pub(crate) fn held_for_bystanders(&self, weight: impl Fn(u32) -> u32) -> BTreeMap<u16, u32> {
        let spare = self.used().filter(|(_, cell)| cell.stamp.is_spare());
        let first = |(number, cell): (u32, &Cell<F>)| {
            let first = if cell.stamp.copies() == 0 { cell.kin } else { number };
            (first, cell.stamp.ingress(), weight(cell.bytes))
        };
        let frames: BTreeSet<_> = spare.map(first).collect();
        let mut held = BTreeMap::new();
        for (_, ingress, weight) in frames {
            *held.entry(ingress).or_default() += weight;
        }
        held
    }

    /// The cells that are not free, with their numbers.
    fn used(&self) -> impl Iterator<Item = (u32, &Cell<F>)> {
        let mut free = vec![false; self.cells.len()];
        let mut next = self.free;
        while let Some(cell) = self.cells.get(next as usize) {
            free[next as usize] = true;
            next = cell.next;
        }
        (0..).zip(&self.cells).zip(free).filter(|(_, free)| !free).map(|(cell, _)| cell)
    }
}
