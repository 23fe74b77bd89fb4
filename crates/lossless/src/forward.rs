//! From a sender to an egress: classification, and the forwarder of Algorithm 1 in both directions.

use units::{Class, ClassMap, Instant, Mac};
use wire::ethernet::Peek;

use crate::cells::{Cells, Finished, Label, Node};
use crate::port::{EgressClass, Memory, NOBODY, Port, PortId, Voq};
use crate::switch::{End, Released, attached};
use crate::table::{Heading, Key, MacTable};
use crate::{Limits, Refusal, Switch};

/// A frame that a sender offers.
#[derive(Clone, Copy, Debug)]
pub struct Arrival<F> {
    /// The sender's handle.
    pub frame: F,
    /// Its Ethernet header.
    pub header: Peek,
    /// Bytes on a wire, from the Ethernet header on. A large segment counts what it stands for.
    pub bytes: u32,
    /// Frames on a wire; 1 unless it is a large segment.
    pub frames: u16,
}

/// The sender already has as much in the switch as it may: here is the handle back, and the frame stays where it is.
#[derive(Clone, Copy, Debug)]
pub struct Full<F>(pub F);

/// What one ingress may send in its turn, in bytes: one full frame, so that turns are short.
const QUANTUM: u32 = 1514;

impl<F> Switch<F> {
    /// Takes a frame over from the sender at `from`, and forwards it as far as there is room.
    ///
    /// `Ok(None)`: it is held. `Ok(Some(frame))`: it was refused at once, is in the books, and here is its handle
    /// back.
    ///
    /// # Errors
    ///
    /// [`Full`]: as many frames of the class are held as may be. The frame is not accepted, and not in the books. It
    /// cannot be if [`Switch::room`] is asked before.
    // A driver has one place that offers. There, the offer need not be put into memory for a call.
    #[inline(always)]
    pub fn offer(&mut self, now: Instant, from: PortId, arrival: Arrival<F>) -> Result<Option<F>, Full<F>> {
        let Arrival { frame, header, bytes, frames } = arrival;
        let heading = Heading::of(&header);
        let port = attached(&mut self.ports, from);
        if !port.ingress.memory.holds(now, self.table.generation(), heading) {
            port.consult(&mut self.table, &self.settings.priorities, now, from, heading);
        }
        let Port { config, ingress, .. } = port;
        let Memory { class, egress, .. } = ingress.memory;

        let side = &mut ingress.classes[class];
        if side.held.frames >= config.ingress.frames && side.held.frames > 0 {
            ingress.pause(now);
            return Err(Full(frame));
        }
        side.held.add(1, bytes);
        side.account.accept();
        side.account.bytes += u64::from(bytes);

        let label = Label { bytes, frames, ingress: from.0, class };
        let node = self.cells.insert(frame, label);
        let released = if egress == NOBODY || egress == from.0 {
            self.forward_special(now, from, node, header.destination, egress)
        } else {
            self.place(now, PortId(egress), node, label)
        };
        Ok(released.map(|released| released.frame))
    }

    /// Books what came in at `from` and is no Ethernet frame.
    pub fn malformed(&mut self, from: PortId) {
        let port = self.port_mut(from);
        let account = &mut port.ingress.classes[port.config.class].account;
        account.accept();
        account.refuse(Refusal::MALFORMED);
    }

    /// A frame to nobody, to everybody, or back to where it came from.
    #[cold]
    fn forward_special(
        &mut self,
        now: Instant,
        from: PortId,
        node: Node,
        destination: Mac,
        egress: u16,
    ) -> Option<Released<F>> {
        if egress == from.0 {
            self.refuse_at_once(node, Refusal::SAME_PORT)
        } else if is_link_local(destination) {
            self.refuse_at_once(node, Refusal::LINK_LOCAL)
        } else {
            self.flood(now, from, node)
        }
    }

    /// A copy to every other port. Each waits for its own egress: a slow one holds back nobody's later frames until
    /// the sender's share, or its quota there, is used up.
    #[inline(never)]
    fn flood(&mut self, now: Instant, from: PortId, node: Node) -> Option<Released<F>> {
        let label = self.cells.label(node);
        let mut egresses = self.attached().filter(move |port| *port != from).peekable();
        if egresses.peek().is_none() {
            return self.refuse_at_once(node, Refusal::NO_EGRESS);
        }
        let mut released = None;
        while let Some(to) = egresses.next() {
            // The frame's own node goes to the last, so that no copy finishes the frame while others are to come.
            let place = if egresses.peek().is_some() { self.cells.copy(node) } else { node };
            released = self.place(now, to, place, label);
        }
        released
    }

    /// Pushes a frame towards its egress: into its queue if there is a permit.
    #[inline(always)]
    fn place(&mut self, now: Instant, to: PortId, node: Node, label: Label) -> Option<Released<F>> {
        let Label { bytes, frames, class, .. } = label;
        let Port { config, egress, .. } = attached(&mut self.ports, to);
        let side = &mut egress.classes[class];
        side.account.accept();
        if side.waiting != NOBODY || !side.permits(&config.egress, frames, bytes) {
            return self.hold_back(now, to, node);
        }
        side.load.add(frames, bytes);
        let first = side.queue.is_empty();
        self.cells.push(&mut side.queue, node);
        if first {
            if egress.ready == 0 {
                egress.progress = now;
            }
            egress.ready |= 1 << class.pcp();
        }
        None
    }

    /// What becomes of a frame that finds no permit: it waits behind its ingress's others, unless the receiver is
    /// stalled or its class lossy.
    #[inline(never)]
    fn hold_back(&mut self, now: Instant, to: PortId, node: Node) -> Option<Released<F>> {
        let Label { ingress: from, class, .. } = self.cells.label(node);
        if self.port(to).egress.stalled {
            return self.finish(now, to, node, End::Refused(Refusal::STALLED));
        }
        if let Some(lossy) = self.settings.classes.lossy(class) {
            return self.finish(now, to, node, End::Refused(Refusal::full(lossy)));
        }
        let Port { config, ingress, .. } = attached(&mut self.ports, PortId(from));
        let voq = &mut ingress.voqs[to.index()][class];
        let first = voq.queue.is_empty();
        self.cells.push(&mut voq.queue, node);
        voq.frames += 1;
        if voq.frames == config.quota {
            ingress.at_quota += 1;
        }
        if first {
            self.join(PortId(from), to, class);
        }
        None
    }

    /// Puts `from` at the end of the round of those that wait for (`to`, `class`).
    fn join(&mut self, from: PortId, to: PortId, class: Class) {
        let side = &mut self.port_mut(to).egress.classes[class];
        let last = core::mem::replace(&mut side.last_waiting, from.0);
        if last == NOBODY {
            side.waiting = from.0;
        } else {
            self.voq(PortId(last), to, class).next = from.0;
        }
    }

    /// Takes the first of the round out of it.
    fn leave(&mut self, to: PortId, class: Class) -> Option<PortId> {
        let first = self.port(to).egress.classes[class].waiting;
        if first == NOBODY {
            return None;
        }
        let next = core::mem::replace(&mut self.voq(PortId(first), to, class).next, NOBODY);
        self.port_mut(to).egress.classes[class].shift(next);
        Some(PortId(first))
    }

    fn voq(&mut self, from: PortId, to: PortId, class: Class) -> &mut Voq {
        &mut self.port_mut(from).ingress.voqs[to.index()][class]
    }

    /// Pulls into (`to`, `class`) from everybody who waits for it, while there are permits: deficit round robin in
    /// bytes (Shreedhar and Varghese, SIGCOMM 1995).
    pub(crate) fn pull(&mut self, to: PortId, class: Class) {
        loop {
            let Port { config, egress, .. } = attached(&mut self.ports, to);
            let (limits, side) = (config.egress, &egress.classes[class]);
            let (first, alone) = (side.waiting, side.waiting == side.last_waiting);
            if first == NOBODY || !side.permits(&limits, 1, 0) {
                return;
            }
            let Ok([Some(receiver), Some(sender)]) =
                self.ports.get_disjoint_mut([to.index(), usize::from(first)])
            else {
                unreachable!("who waits is attached, and waits for another port");
            };
            let side = &mut receiver.egress.classes[class];
            let voq = &mut sender.ingress.voqs[to.index()][class];
            let Label { frames, bytes, .. } = self.cells.label(voq.first());
            if !side.permits(&limits, frames, bytes) {
                return;
            }
            if !alone && voq.deficit < bytes {
                voq.deficit += QUANTUM;
                self.leave(to, class);
                self.join(PortId(first), to, class);
                continue;
            }
            let (node, last) = sender.take_waiting(&mut self.cells, to, class);
            side.load.add(frames, bytes);
            self.cells.push(&mut side.queue, node);
            receiver.egress.ready |= 1 << class.pcp();
            if last {
                self.leave(to, class);
            }
        }
    }

    /// Takes the first frame of the first ingress that waits for (`to`, `class`).
    pub(crate) fn pop_waiting(&mut self, to: PortId, class: Class) -> Option<Node> {
        let first = self.port(to).egress.classes[class].waiting;
        if first == NOBODY {
            return None;
        }
        let sender = attached(&mut self.ports, PortId(first));
        let (node, last) = sender.take_waiting(&mut self.cells, to, class);
        if last {
            self.leave(to, class);
        }
        Some(node)
    }

    /// Takes `from` out of the round of (`to`, `class`), wherever it stands in it.
    pub(crate) fn leave_waiting(&mut self, from: PortId, to: PortId, class: Class) {
        let mut others = alloc::vec::Vec::new();
        while let Some(port) = self.leave(to, class) {
            others.push(port);
        }
        for port in others.into_iter().filter(|port| *port != from) {
            self.join(port, to, class);
        }
    }

    /// Refuses a frame that no egress has heard of.
    fn refuse_at_once(&mut self, node: Node, refusal: Refusal) -> Option<Released<F>> {
        let Label { class, bytes, ingress, .. } = self.cells.label(node);
        let Finished { frame, .. } = self.cells.finish(node, false)?;
        let side = &mut self.port_mut(PortId(ingress)).ingress.classes[class];
        side.account.refuse(refusal);
        side.held.remove(1, bytes);
        Some(Released { port: PortId(ingress), frame })
    }
}

impl Port {
    /// Asks the table where a frame goes, tells it where the frame came from if that is news, and remembers the
    /// answer.
    #[inline(never)]
    fn consult(
        &mut self,
        table: &mut MacTable,
        priorities: &ClassMap<Class>,
        now: Instant,
        id: PortId,
        heading: Heading,
    ) {
        let (class, vlan) = match heading.tag() {
            None => (self.config.class, 0),
            Some(tag) => (priorities[tag.class], tag.vlan),
        };
        let (from, to) = (heading.source(), heading.destination());
        let source = Key::new(from, vlan);
        let memory = &mut self.ingress.memory;
        let current = memory.generation == table.generation() && now < memory.refresh_at;
        if !current || memory.source != source {
            if !from.is_multicast() {
                table.learn(now, source, id.0);
            }
            (memory.source, memory.refresh_at) = (source, now + table.refresh());
        }
        let known = if to.is_multicast() { None } else { table.find(Key::new(to, vlan)) };
        memory.generation = table.generation();
        (memory.heading, memory.class, memory.egress) = (heading, class, known.unwrap_or(NOBODY));
    }

    /// Takes the sender's first frame that waits for (`to`, `class`). Whether it was the last: then its turn ends.
    #[inline]
    fn take_waiting<F>(&mut self, cells: &mut Cells<F>, to: PortId, class: Class) -> (Node, bool) {
        let voq = &mut self.ingress.voqs[to.index()][class];
        let node = voq.first();
        voq.deficit = voq.deficit.saturating_sub(cells.label(node).bytes);
        cells.pop(&mut voq.queue);
        if voq.frames == self.config.quota {
            self.ingress.at_quota -= 1;
        }
        voq.frames -= 1;
        let last = voq.queue.is_empty();
        if last {
            voq.deficit = 0;
        }
        (node, last)
    }
}

impl Memory {
    /// Whether it is of frames like this one, and still true.
    #[inline]
    fn holds(&self, now: Instant, generation: u64, heading: Heading) -> bool {
        self.heading == heading && self.generation == generation && now < self.refresh_at
    }
}

impl Voq {
    /// The first frame of one that waits.
    #[inline]
    fn first(&self) -> Node {
        self.queue.head().expect("who waits has a frame")
    }
}

impl EgressClass {
    /// Whether there is a place for a frame. An empty queue takes any one.
    #[inline]
    fn permits(&self, limits: &Limits, frames: u16, bytes: u32) -> bool {
        let fits = self.load.frames + u32::from(frames) <= limits.frames
            && self.load.bytes + u64::from(bytes) <= limits.bytes;
        fits || self.load.frames == 0
    }

    /// Who was first in the round has left it, and `next` is first now.
    fn shift(&mut self, next: u16) {
        self.waiting = next;
        if next == NOBODY {
            self.last_waiting = NOBODY;
        }
    }
}

/// Whether a bridge keeps frames for this address to itself: 01-80-C2-00-00-00 to -0F (802.1Q table 8-1).
#[inline]
fn is_link_local(mac: Mac) -> bool {
    mac.as_u64() >> 4 == 0x0180_c200_0000 >> 4
}
