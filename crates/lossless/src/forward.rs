//! From a sender to an egress: classification, and the forwarder of Algorithm 1 in both directions.

use units::{Class, Instant};
use wire::ethernet;

use crate::account::Refusal;
use crate::cells::{Cell, Node};
use crate::port::{NOBODY, PortId, Route, Voq};
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

/// Where a frame is to go.
enum Target {
    One(PortId),
    All,
    Nowhere(Refusal),
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
        let port = self.ports[from.index()].as_mut().expect("the port is attached");
        let class = header.tag.map_or(port.config.class, |tag| self.settings.priorities[tag.class]);
        let vlan = header.tag.map_or(0, |tag| tag.vlan);

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

        self.learn(now, from, Key::new(header.source, vlan), header.source.is_multicast());
        let target = self.route(from, &header, vlan);
        let lossy = self.settings.classes.lossy(class);
        let node = self.cells.insert(Cell::new(arrival.frame, from.0, class, frames, bytes));
        let released = match target {
            Target::One(egress) => {
                self.port_mut(egress).egress.accounts[class].accept();
                self.place(now, egress, node, lossy)
            }
            Target::All => self.flood(now, from, node, lossy),
            Target::Nowhere(refusal) => self.refuse_at_once(node, refusal),
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

    /// Remembers that `key` is at `from`, unless that was noted not long ago.
    #[inline]
    fn learn(&mut self, now: Instant, from: PortId, key: Key, is_group: bool) {
        let generation = self.table.generation();
        let refresh = self.table.refresh();
        let source = &mut self.port_mut(from).ingress.source;
        let fresh =
            source.key == Some(key) && source.generation == generation && now.since(source.learned) < refresh;
        if fresh || is_group {
            return;
        }
        self.table.learn(now, key, from.0);
        let generation = self.table.generation();
        self.port_mut(from).ingress.source = crate::port::Source { key: Some(key), generation, learned: now };
    }

    #[inline]
    fn route(&mut self, from: PortId, header: &ethernet::Peek, vlan: u16) -> Target {
        let key = Key::new(header.destination, vlan);
        let generation = self.table.generation();
        let route = self.port(from).ingress.route;
        let egress = if route.key == Some(key) && route.generation == generation {
            route.egress
        } else {
            if is_link_local(header.destination) {
                return Target::Nowhere(Refusal::LINK_LOCAL);
            }
            let known = if header.destination.is_multicast() { None } else { self.table.find(key) };
            let egress = known.unwrap_or(NOBODY);
            self.port_mut(from).ingress.route = Route { key: Some(key), generation, egress };
            egress
        };
        match egress {
            NOBODY => Target::All,
            egress if egress == from.0 => Target::Nowhere(Refusal::SAME_PORT),
            egress => Target::One(PortId(egress)),
        }
    }

    /// A copy to every other port. Each waits for its own egress: a slow one holds back nobody's later frames until
    /// the sender's share, or its quota there, is used up.
    fn flood(
        &mut self,
        now: Instant,
        from: PortId,
        node: Node,
        lossy: Option<LossyClass>,
    ) -> Option<Released<F>> {
        let class = self.cells.get(node).class;
        let mut egresses = self.attached().filter(move |port| *port != from).peekable();
        if egresses.peek().is_none() {
            return self.refuse_at_once(node, Refusal::NO_EGRESS);
        }
        let mut released = None;
        while let Some(egress) = egresses.next() {
            // The frame's own node goes to the last, so that no copy finishes the frame while others are to come.
            let place = if egresses.peek().is_some() { self.cells.copy(node) } else { node };
            self.port_mut(egress).egress.accounts[class].accept();
            released = self.place(now, egress, place, lossy);
        }
        released
    }

    /// Pushes a frame towards its egress: into its queue if there is a permit, behind its ingress's others if not.
    #[inline]
    fn place(
        &mut self,
        now: Instant,
        to: PortId,
        node: Node,
        lossy: Option<LossyClass>,
    ) -> Option<Released<F>> {
        let cell = self.cells.get(node);
        let (class, from) = (cell.class, PortId(cell.ingress));
        let (frames, bytes) = (cell.frames, cell.bytes);
        let port = self.ports[to.index()].as_mut().expect("the table names attached ports");
        let idle = port.egress.ready == 0;
        let side = &mut port.egress.classes[class];
        if side.waiting == NOBODY && side.permits(&port.config.egress, frames, bytes) {
            if idle {
                port.egress.progress = now;
            }
            side.load.add(frames, bytes);
            self.cells.push(&mut side.queue, node);
            port.egress.ready |= 1 << class.pcp();
            return None;
        }
        if port.egress.stalled {
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
fn is_link_local(mac: units::Mac) -> bool {
    mac.as_u64() >> 4 == 0x0180_c200_0000 >> 4
}
