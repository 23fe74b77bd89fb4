//! Where the frames that the switch holds are written down.
//!
//! A cell is one frame's place in one queue. The cell of a frame that goes to one egress holds its handle; a flooded
//! frame has a further cell, a copy, for each further egress. Free ones are reused, last in first out, so a busy switch
//! stays in the same few cache lines. How many there can be is bounded by the ports' ingress limits.

use alloc::vec::Vec;

use units::Class;

const NONE: u32 = u32::MAX;

/// A cell's number.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Node(u32);

/// A first-in, first-out queue, linked through its cells.
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

/// What a cell stands for.
#[derive(Debug)]
enum Content<F> {
    /// Nothing: it may be used.
    Free,
    /// The frame itself: the sender's handle.
    Frame(F),
    /// One more copy of the frame in another cell.
    CopyOf(u32),
}

/// All that a queue needs to know of a frame.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Label {
    /// Bytes on a wire.
    pub bytes: u32,
    /// Frames on a wire.
    pub frames: u16,
    /// The number of the port that it came from.
    pub ingress: u16,
    pub class: Class,
}

/// Half a cache line, for a handle of four bytes: looking at a frame touches one line.
#[derive(Debug)]
#[repr(align(32))]
struct Cell<F> {
    content: Content<F>,
    /// Who comes behind it in its queue, or in the list of free ones.
    next: u32,
    // The label, piece by piece: put together elsewhere and copied here, it would cost the processor a stall.
    bytes: u32,
    frames: u16,
    ingress: u16,
    class: Class,
    /// Of the frame itself: whether an egress has taken it.
    delivered: bool,
    /// Of the frame itself: the egresses that have yet to be done with it.
    copies: u16,
}

#[derive(Debug)]
pub(crate) struct Cells<F> {
    cells: Vec<Cell<F>>,
    free: u32,
}

/// A frame that every egress is done with.
pub(crate) struct Finished<F> {
    pub frame: F,
    /// Whether an egress has taken it.
    pub delivered: bool,
}

impl<F> Cell<F> {
    #[inline]
    fn label(&self) -> Label {
        Label { bytes: self.bytes, frames: self.frames, ingress: self.ingress, class: self.class }
    }
}

impl<F> Cells<F> {
    pub(crate) fn new() -> Self {
        Self { cells: Vec::new(), free: NONE }
    }

    /// Makes room for `frames` more, so that holding them allocates nothing.
    pub(crate) fn reserve(&mut self, frames: usize) {
        self.cells.reserve(frames);
    }

    /// Writes a frame down. It is in no queue yet.
    #[inline]
    pub(crate) fn insert(&mut self, frame: F, label: Label) -> Node {
        self.place(Content::Frame(frame), label, 1)
    }

    /// A further place for the frame of `node`, for another egress; one more copy of it is to come.
    pub(crate) fn copy(&mut self, node: Node) -> Node {
        self.cells[node.0 as usize].copies += 1;
        self.place(Content::CopyOf(node.0), self.label(node), 0)
    }

    #[inline(always)]
    fn place(&mut self, content: Content<F>, label: Label, copies: u16) -> Node {
        if self.free == NONE {
            self.grow();
        }
        let index = self.free;
        let cell = &mut self.cells[index as usize];
        self.free = cell.next;
        cell.content = content;
        cell.next = NONE;
        cell.bytes = label.bytes;
        cell.frames = label.frames;
        cell.ingress = label.ingress;
        cell.class = label.class;
        cell.delivered = false;
        cell.copies = copies;
        Node(index)
    }

    /// Makes a free cell.
    #[cold]
    fn grow(&mut self) {
        assert!(self.cells.len() < NONE as usize, "four billion frames are held at once");
        self.free = self.cells.len() as u32;
        self.cells.push(Cell {
            content: Content::Free,
            next: NONE,
            bytes: 0,
            frames: 0,
            ingress: 0,
            class: Class::default(),
            delivered: false,
            copies: 0,
        });
    }

    #[inline]
    pub(crate) fn label(&self, node: Node) -> Label {
        self.cells[node.0 as usize].label()
    }

    /// The sender's handle.
    #[inline]
    pub(crate) fn frame(&self, node: Node) -> &F {
        match &self.cells[node.0 as usize].content {
            Content::Frame(frame) => frame,
            content => self.frame_elsewhere(content),
        }
    }

    #[cold]
    fn frame_elsewhere(&self, content: &Content<F>) -> &F {
        let Content::CopyOf(original) = content else { unreachable!("a queued cell is not free") };
        let Content::Frame(frame) = &self.cells[*original as usize].content else {
            unreachable!("a frame stays as long as its copies");
        };
        frame
    }

    /// One egress is done with `node`, which is in no queue any more. `Some` if it was the frame's last, which is then
    /// forgotten here.
    #[inline]
    pub(crate) fn finish(&mut self, node: Node, delivered: bool) -> Option<Finished<F>> {
        let Node(index) = node;
        let cell = &mut self.cells[index as usize];
        if cell.copies != 1 {
            return self.finish_copy(node, delivered);
        }
        let delivered = delivered | cell.delivered;
        cell.next = core::mem::replace(&mut self.free, index);
        match core::mem::replace(&mut cell.content, Content::Free) {
            Content::Frame(frame) => Some(Finished { frame, delivered }),
            _ => unreachable!("a copy counts none"),
        }
    }

    /// One of several egresses is done with a flooded frame.
    #[cold]
    fn finish_copy(&mut self, node: Node, delivered: bool) -> Option<Finished<F>> {
        let Node(index) = node;
        let cell = &mut self.cells[index as usize];
        let original = match cell.content {
            Content::CopyOf(original) => {
                cell.content = Content::Free;
                cell.next = core::mem::replace(&mut self.free, index);
                original
            }
            _ => index,
        };
        let cell = &mut self.cells[original as usize];
        if cell.copies == 1 {
            return self.finish(Node(original), delivered);
        }
        cell.copies -= 1;
        cell.delivered |= delivered;
        None
    }

    /// Appends a cell that is in no queue.
    #[inline]
    pub(crate) fn push(&mut self, queue: &mut Queue, node: Node) {
        let Node(index) = node;
        match self.cells.get_mut(queue.tail as usize) {
            Some(last) => last.next = index,
            None => queue.head = index,
        }
        queue.tail = index;
    }

    #[inline]
    pub(crate) fn pop(&mut self, queue: &mut Queue) -> Option<Node> {
        let node = queue.head()?;
        self.pop_head(queue, node);
        Some(node)
    }

    /// Takes out the first of `queue`, which is `node`.
    #[inline]
    pub(crate) fn pop_head(&mut self, queue: &mut Queue, node: Node) {
        debug_assert_eq!(queue.head, node.0);
        queue.head = core::mem::replace(&mut self.cells[node.0 as usize].next, NONE);
        if queue.head == NONE {
            queue.tail = NONE;
        }
    }

    /// Takes every cell out of `queue` of which `leaves` says so; the rest keep their order.
    pub(crate) fn extract(&mut self, queue: &mut Queue, mut leaves: impl FnMut(Label) -> bool) -> Queue {
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
        core::iter::successors(queue.head(), |node| match self.cells[node.0 as usize].next {
            NONE => None,
            index => Some(Node(index)),
        })
    }

    /// Every frame that is held, once.
    pub(crate) fn held(&self) -> impl Iterator<Item = Label> {
        let held = |cell: &&Cell<F>| matches!(cell.content, Content::Frame(_));
        self.cells.iter().filter(held).map(Cell::label)
    }
}
