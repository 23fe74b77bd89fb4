//! From a sender to an egress: classification, and the forwarder of Algorithm 1 in both directions.

use units::{Class, Instant, Mac};
use wire::ethernet;

use crate::account::Refusal;
use crate::cells::{Cell, Node};
use crate::port::{Memory, NOBODY, PortId, Voq};
use crate::switch::{End, Released};
use crate::table::Key;
use crate::{LossyClass, Switch};

/// A frame that a sender offers.
#[derive(Clone, Copy, Debug)]
pub struct Arrival<F> {
    /// The sender's handle.
    pub frame: F,
    /// Its Ethernet header.
    pub header: ethernet::Peek,
    /// Bytes on a wire, from the Ethernet header on. A large segment counts what it stands for.
    pub bytes: u32,
    /// Frames on a wire; 1 unless it is a large segment.
    pub frames: u16,
}

/// The sender already has as much in the switch as it may: the frame stays where it is.
#[derive(Clone, Copy, Debug)]
pub struct Full<F>(pub Arrival<F>);

/// What one ingress may send in its turn, in bytes: one full frame, so that turns are short.
const QUANTUM: u32 = 1514;

/// One copy of a frame on its way.
#[derive(Clone, Copy)]
struct Way {
    from: PortId,
    to: PortId,
    class: Class,
    frames: u16,
    bytes: u32,
}

impl<F> Switch<F> {
    /// Takes a frame over from the sender at `from`, and forwards it as far as there is room.
    ///
    /// `Ok(None)`: it is held. `Ok(Some(frame))`: it was refused at once, is in the books, and here is its handle
    /// back.
    ///
    /// # Errors
    ///
    /// [`Full`] returns the offer: the class's share of the ingress is used up. Nothing happened, and nothing will
    /// if [`Switch::room`] is asked before.
    #[inline]
    pub fn offer(&mut self, now: Instant, from: PortId, arrival: Arrival<F>) -> Result<Option<F>, Full<F>> {
        let Arrival { header, bytes, frames, .. } = arrival;
        let port = self.ports[from.index()].as_deref_mut().expect("the port is attached");
        let (class, vlan) = match header.tag {
            None => (port.config.class, 0),
            Some(tag) => (self.settings.priorities[tag.class], tag.vlan),
        };

        let held = &mut port.ingress.held[class];
        let limits = &port.config.ingress;
        let fits = held.frames < limits.frames && held.bytes + u64::from(bytes) <= limits.bytes;
        if !fits && held.frames > 0 {
            port.ingress.pause(now);
            return Err(Full(arrival));
        }
        held.add(1, bytes);
        let account = &mut port.ingress.accounts[class];
        account.accept();
        account.bytes += u64::from(bytes);

        let (source, destination) = (Key::new(header.source, vlan), Key::new(header.destination, vlan));
        let memory = &port.ingress.memory;
        let current = memory.generation == self.table.generation();
        if !current || memory.source != source || now >= memory.refresh_at {
            self.learn(now, from, source, header.source);
        }
        let memory = &self.port(from).ingress.memory;
        let egress = match memory.destination == destination {
            true => memory.egress,
            false => self.look_up(from, destination, header.destination),
        };

        let lossy = self.settings.classes.lossy(class);
        let node = self.cells.insert(Cell::new(arrival.frame, from.0, class, frames, bytes));
        let released = if egress == NOBODY || egress == from.0 {
            self.forward_special(now, from, node, header.destination, egress)
        } else {
            let way = Way { from, to: PortId(egress), class, frames, bytes };
            self.place(now, way, node, lossy)
        };
        Ok(released.map(|released| released.frame))
    }

    /// Books what came in at `from` and is no Ethernet frame.
    pub fn malformed(&mut self, from: PortId) {
        let port = self.port_mut(from);
        let account = &mut port.ingress.accounts[port.config.class];
        account.accept();
        account.refuse(Refusal::MALFORMED);
    }

    /// Tells the table where `source` is, and forgets what the port knew of an older one.
    #[cold]
    fn learn(&mut self, now: Instant, from: PortId, source: Key, mac: Mac) {
        if !mac.is_multicast() {
            self.table.learn(now, source, from.0);
        }
        let (generation, refresh_at) = (self.table.generation(), now + self.table.refresh());
        let memory = &mut self.port_mut(from).ingress.memory;
        if memory.generation != generation {
            *memory = Memory::NOTHING;
        }
        (memory.generation, memory.source, memory.refresh_at) = (generation, source, refresh_at);
    }

    #[cold]
    fn look_up(&mut self, from: PortId, destination: Key, mac: Mac) -> u16 {
        let known = if mac.is_multicast() { None } else { self.table.find(destination) };
        let egress = known.unwrap_or(NOBODY);
        let memory = &mut self.port_mut(from).ingress.memory;
        (memory.destination, memory.egress) = (destination, egress);
        egress
    }

    /// A frame to nobody, to everybody, or back to where it came from.
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
    fn flood(&mut self, now: Instant, from: PortId, node: Node) -> Option<Released<F>> {
        let cell = self.cells.get(node);
        let (class, frames, bytes) = (cell.class, cell.frames, cell.bytes);
        let lossy = self.settings.classes.lossy(class);
        let mut egresses = self.attached().filter(move |port| *port != from).peekable();
        if egresses.peek().is_none() {
            return self.refuse_at_once(node, Refusal::NO_EGRESS);
        }
        let mut released = None;
        while let Some(to) = egresses.next() {
            // The frame's own node goes to the last, so that no copy finishes the frame while others are to come.
            let place = if egresses.peek().is_some() { self.cells.copy(node) } else { node };
            released = self.place(now, Way { from, to, class, frames, bytes }, place, lossy);
        }
        released
    }

    /// Pushes a frame towards its egress: into its queue if there is a permit, behind its ingress's others if not.
    #[inline]
    fn place(
        &mut self,
        now: Instant,
        way: Way,
        node: Node,
        lossy: Option<LossyClass>,
    ) -> Option<Released<F>> {
        let Way { from, to, class, frames, bytes } = way;
        let port = self.ports[to.index()].as_deref_mut().expect("the table names attached ports");
        let egress = &mut port.egress;
        egress.accounts[class].accept();
        let side = &mut egress.classes[class];
        if side.waiting == NOBODY && side.permits(&port.config.egress, frames, bytes) {
            if egress.ready == 0 {
                egress.progress = now;
            }
            egress.ready |= 1 << class.pcp();
            side.load.add(frames, bytes);
            self.cells.push(&mut side.queue, node);
            return None;
        }
        if egress.stalled {
            return self.finish(now, to, node, End::Refused(Refusal::STALLED));
        }
        match lossy {
            Some(lossy) => self.finish(now, to, node, End::Refused(Refusal::full(lossy))),
            None => {
                self.wait(from, to, class, node);
                None
            }
        }
    }

    fn wait(&mut self, from: PortId, to: PortId, class: Class, node: Node) {
        let port = self.port_mut(from);
        let quota = port.config.quota;
        let voq = &mut port.ingress.voqs[to.index()][class];
        let first = voq.queue.is_empty();
        let mut queue = voq.queue;
        voq.frames += 1;
        if voq.frames == quota {
            port.ingress.at_quota += 1;
        }
        self.cells.push(&mut queue, node);
        self.voq(from, to, class).queue = queue;
        if first {
            self.join(from, to, class);
        }
    }

    /// Puts `from` at the end of the round of those that wait for (`to`, `class`).
    fn join(&mut self, from: PortId, to: PortId, class: Class) {
        self.voq(from, to, class).next = NOBODY;
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
        let side = &mut self.port_mut(to).egress.classes[class];
        side.waiting = next;
        if next == NOBODY {
            side.last_waiting = NOBODY;
        }
        Some(PortId(first))
    }

    #[inline]
    fn voq(&mut self, from: PortId, to: PortId, class: Class) -> &mut Voq {
        &mut self.port_mut(from).ingress.voqs[to.index()][class]
    }

    /// Pulls into (`to`, `class`) from everybody who waits for it, while there are permits: deficit round robin in
    /// bytes (Shreedhar and Varghese, SIGCOMM 1995).
    pub(crate) fn pull(&mut self, to: PortId, class: Class) {
        loop {
            let port = self.port(to);
            let side = &port.egress.classes[class];
            if side.waiting == NOBODY {
                return;
            }
            let (first, alone) = (PortId(side.waiting), side.waiting == side.last_waiting);
            let voq = &self.port(first).ingress.voqs[to.index()][class];
            let node = voq.queue.head().expect("who waits has a frame");
            let cell = self.cells.get(node);
            let (frames, bytes) = (cell.frames, cell.bytes);
            if !side.permits(&port.config.egress, frames, bytes) {
                return;
            }
            if !alone && voq.deficit < bytes {
                self.voq(first, to, class).deficit += QUANTUM;
                self.leave(to, class);
                self.join(first, to, class);
                continue;
            }
            self.take_waiting(first, to, class);
            let side = &mut self.port_mut(to).egress.classes[class];
            side.load.add(frames, bytes);
            let mut queue = side.queue;
            self.cells.push(&mut queue, node);
            let egress = &mut self.port_mut(to).egress;
            egress.classes[class].queue = queue;
            egress.ready |= 1 << class.pcp();
        }
    }

    /// Takes the first frame of the first ingress that waits for (`to`, `class`).
    pub(crate) fn pop_waiting(&mut self, to: PortId, class: Class) -> Option<Node> {
        let first = self.port(to).egress.classes[class].waiting;
        (first != NOBODY).then(|| self.take_waiting(PortId(first), to, class))
    }

    /// Takes the first frame of `from`, which is first in the round, and ends its turn if it was its last.
    fn take_waiting(&mut self, from: PortId, to: PortId, class: Class) -> Node {
        let mut queue = self.voq(from, to, class).queue;
        let node = self.cells.pop(&mut queue).expect("who waits has a frame");
        let bytes = self.cells.get(node).bytes;
        let port = self.port_mut(from);
        let quota = port.config.quota;
        let voq = &mut port.ingress.voqs[to.index()][class];
        voq.queue = queue;
        voq.deficit = voq.deficit.saturating_sub(bytes);
        if voq.frames == quota {
            port.ingress.at_quota -= 1;
        }
        voq.frames -= 1;
        if queue.is_empty() {
            voq.deficit = 0;
            self.leave(to, class);
        }
        node
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
        let cell = self.cells.get(node);
        let (class, bytes, from) = (cell.class, cell.bytes, PortId(cell.ingress));
        let frame = self.cells.finish(node, false)?;
        let ingress = &mut self.port_mut(from).ingress;
        ingress.accounts[class].refuse(refusal);
        ingress.held[class].remove(1, bytes);
        Some(Released { port: from, frame })
    }
}

/// Whether a bridge keeps frames for this address to itself: 01-80-C2-00-00-00 to -0F (802.1Q table 8-1).
#[inline]
fn is_link_local(mac: Mac) -> bool {
    mac.as_u64() >> 4 == 0x0180_c200_0000 >> 4
}
