//! Where the frames that the switch holds are written down.
//!
//! A cell is a frame; a node is its place in one queue. A frame to one egress is its own node; a flooded frame has a
//! further node for each further egress. Free ones are reused, last in first out, so a busy switch stays in the same
//! few cache lines. How many there can be is bounded by the ports' ingress limits.

use alloc::vec::Vec;

use units::Class;

const NONE: u32 = u32::MAX;
/// Marks a node that is not its cell's own.
const FURTHER: u32 = 1 << 31;

/// A place in a queue.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Node(u32);

/// A first-in, first-out queue, linked through its nodes.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Queue {
    head: u32,
    tail: u32,
}

impl Queue {
    pub(crate) const EMPTY: Self = Self { head: NONE, tail: NONE };

    #[inline]
    pub(crate) fn head(&self) -> Option<Node> {
        (self.head != NONE).then_some(Node(self.head))
    }

    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.head == NONE
    }
}

/// A frame that the switch holds.
#[derive(Debug)]
pub(crate) struct Cell<F> {
    /// The sender's handle; `None` once the cell is free.
    pub frame: Option<F>,
    /// Bytes on a wire.
    pub bytes: u32,
    /// Frames on a wire.
    pub frames: u16,
    /// Egresses that have yet to be done with it.
    pub copies: u16,
    pub ingress: u16,
    pub class: Class,
    /// Whether an egress has taken it.
    pub delivered: bool,
    next: u32,
}

impl<F> Cell<F> {
    pub(crate) fn new(frame: F, ingress: u16, class: Class, frames: u16, bytes: u32) -> Self {
        Self { frame: Some(frame), bytes, frames, copies: 1, ingress, class, delivered: false, next: NONE }
    }
}

#[derive(Debug)]
struct Further {
    cell: u32,
    next: u32,
}

#[derive(Debug)]
pub(crate) struct Cells<F> {
    cells: Vec<Cell<F>>,
    further: Vec<Further>,
    free_cell: u32,
    free_further: u32,
}

impl<F> Cells<F> {
    pub(crate) fn new() -> Self {
        Self { cells: Vec::new(), further: Vec::new(), free_cell: NONE, free_further: NONE }
    }

    /// Makes room for `frames` more, so that holding them allocates nothing.
    pub(crate) fn reserve(&mut self, frames: usize) {
        self.cells.reserve(frames);
    }

    /// Writes a frame down. Its node is in no queue yet.
    #[inline]
    pub(crate) fn insert(&mut self, cell: Cell<F>) -> Node {
        let index = self.free_cell;
        if index == NONE {
            assert!(self.cells.len() < FURTHER as usize, "two billion frames are held at once");
            self.cells.push(cell);
            return Node(self.cells.len() as u32 - 1);
        }
        let place = &mut self.cells[index as usize];
        self.free_cell = place.next;
        *place = cell;
        Node(index)
    }

    /// A further place for the frame of `node`, for another egress; one more copy of it is to come.
    pub(crate) fn copy(&mut self, node: Node) -> Node {
        let cell = self.cell_of(node);
        self.cells[cell as usize].copies += 1;
        let index = self.free_further;
        if index == NONE {
            self.further.push(Further { cell, next: NONE });
            return Node((self.further.len() as u32 - 1) | FURTHER);
        }
        let place = &mut self.further[index as usize];
        self.free_further = place.next;
        *place = Further { cell, next: NONE };
        Node(index | FURTHER)
    }

    #[inline]
    fn cell_of(&self, node: Node) -> u32 {
        if node.0 & FURTHER == 0 { node.0 } else { self.further[(node.0 & !FURTHER) as usize].cell }
    }

    #[inline]
    pub(crate) fn get(&self, node: Node) -> &Cell<F> {
        &self.cells[self.cell_of(node) as usize]
    }

    #[inline]
    fn next_mut(&mut self, node: Node) -> &mut u32 {
        if node.0 & FURTHER == 0 {
            &mut self.cells[node.0 as usize].next
        } else {
            &mut self.further[(node.0 & !FURTHER) as usize].next
        }
    }

    /// One egress is done with `node`, which is in no queue any more. `Some` if it was the frame's last, which is then
    /// forgotten here.
    #[inline]
    pub(crate) fn finish(&mut self, node: Node, delivered: bool) -> Option<F> {
        let index = self.cell_of(node);
        if node.0 & FURTHER != 0 {
            self.further[(node.0 & !FURTHER) as usize].next = self.free_further;
            self.free_further = node.0 & !FURTHER;
        }
        let cell = &mut self.cells[index as usize];
        cell.delivered |= delivered;
        cell.copies -= 1;
        if cell.copies > 0 {
            return None;
        }
        cell.next = self.free_cell;
        self.free_cell = index;
        cell.frame.take()
    }

    #[inline]
    pub(crate) fn push(&mut self, queue: &mut Queue, node: Node) {
        *self.next_mut(node) = NONE;
        if queue.head == NONE {
            queue.head = node.0;
        } else {
            *self.next_mut(Node(queue.tail)) = node.0;
        }
        queue.tail = node.0;
    }

    #[inline]
    pub(crate) fn pop(&mut self, queue: &mut Queue) -> Option<Node> {
        let node = queue.head()?;
        queue.head = *self.next_mut(node);
        if queue.head == NONE {
            queue.tail = NONE;
        }
        Some(node)
    }

    /// Takes every node out of `queue` of which `leaves` says so; the rest keep their order.
    pub(crate) fn extract(&mut self, queue: &mut Queue, mut leaves: impl FnMut(&Cell<F>) -> bool) -> Queue {
        let (mut kept, mut left) = (Queue::EMPTY, Queue::EMPTY);
        while let Some(node) = self.pop(queue) {
            let side = if leaves(self.get(node)) { &mut left } else { &mut kept };
            self.push(side, node);
        }
        *queue = kept;
        left
    }

    /// The nodes of `queue`, oldest first.
    pub(crate) fn iter(&self, queue: &Queue) -> impl Iterator<Item = Node> {
        let next = |node: &Node| match node.0 & FURTHER {
            0 => self.cells[node.0 as usize].next,
            _ => self.further[(node.0 & !FURTHER) as usize].next,
        };
        core::iter::successors(queue.head(), move |node| match next(node) {
            NONE => None,
            index => Some(Node(index)),
        })
    }

    /// Every frame that is held.
    pub(crate) fn held(&self) -> impl Iterator<Item = &Cell<F>> {
        self.cells.iter().filter(|cell| cell.frame.is_some())
    }
}
