//! From a sender to an egress: classification, and the forwarder of Algorithm 1 in both directions.

use units::{Class, ClassMap, Instant, Mac};
use wire::ethernet::{Peek, Tag};

use crate::cells::{Cells, Finished, Label, Node, Queue, Stamp};
use crate::heading::Heading;
use crate::port::{EgressClass, MAX_PORTS, Memory, NOBODY, Port, PortId, Voq};
use crate::switch::Released;
use crate::table::{self, Answer, MacTable};
use crate::{Limits, Load, Network, PortSet, Refusal, Switch};

/// A frame that a sender offers.
#[derive(Clone, Copy, Debug)]
pub struct Arrival<F> {
    /// The sender's handle.
    pub frame: F,
    /// Its Ethernet header.
    pub header: Peek,
    /// The network it belongs to: a local port's own, or that of a tunnel that ends at a trunk.
    pub network: Network,
    /// Bytes on a wire, from the Ethernet header on. A large segment counts what it stands for.
    pub bytes: u32,
    /// Frames on a wire; 1 unless it is a large segment.
    pub frames: u16,
}

/// The sender already has as much in the switch as it may: here is the handle back, and the frame stays where it is.
#[derive(Clone, Copy, Debug)]
pub struct Full<F>(pub F);

/// What one ingress may send in its turn, in bytes: one full frame, so that turns are short.
pub(crate) const QUANTUM: u32 = 1514;

/// What became of a frame that could have gone straight to its receiver.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Passed<F> {
    /// The receiver at this port has it.
    Through(PortId),
    /// It is held.
    Held,
    /// It was refused at once; here is its handle back.
    Refused(F),
}

/// A visit to a sender: takes frames over, one after the other. See [`Switch::arrivals`].
///
/// Frames with one heading go one way, and often those with another heading as well. So the first of a run finds the way and
/// how much room there is, the others follow, and what is the same for all is booked when the run ends: at the latest when the
/// visit is dropped.
#[derive(Debug)]
pub struct Arrivals<'a, F: Copy> {
    switch: &'a mut Switch<F>,
    now: Instant,
    from: PortId,
    run: Run,
}

/// Frames of one visit that go the same way and are in no queue yet, and how many more may follow.
#[derive(Debug)]
struct Run {
    /// The last one's; no frame's if there is no run.
    heading: Heading,
    /// What each counts as on a wire.
    each: u16,
    stamp: Stamp,
    to: PortId,
    /// Into the queue of their VOQ, not of their egress.
    waits: bool,
    cells: Queue,
    frames: u32,
    bytes: u64,
    /// What the sender may have held, and the egress has room for.
    most_frames: u32,
    most_bytes: u64,
}

impl Run {
    const NONE: Self = Self {
        heading: Heading::NONE,
        each: 0,
        stamp: Stamp::NONE,
        to: PortId(NOBODY),
        waits: false,
        cells: Queue::EMPTY,
        frames: 0,
        bytes: 0,
        most_frames: 0,
        most_bytes: 0,
    };
}

/// For whom a frame is.
pub(crate) enum Destination {
    Nobody(Refusal),
    One(PortId),
    Many(PortSet),
}

/// Where a frame goes that has a destination.
pub(crate) enum Way {
    Switched,
    Waits,
    Refused(Refusal),
}

impl<F: Copy> Switch<F> {
    /// Begins a visit to the sender at `from`.
    #[inline]
    pub fn arrivals(&mut self, now: Instant, from: PortId) -> Arrivals<'_, F> {
        Arrivals { switch: self, now, from, run: Run::NONE }
    }

    /// Takes a frame over from the sender at `from`, as [`Arrivals::offer`] does, and hands it straight to its receiver if
    /// neither has anything in the switch, and `takes` says of the receiver's port that it has room now. The books are the
    /// same as if the receiver had been visited.
    ///
    /// # Errors
    ///
    /// [`Full`] if there is no room in the frame's class: it stays where it is.
    #[inline]
    pub fn pass(
        &mut self,
        now: Instant,
        from: PortId,
        arrival: Arrival<F>,
        takes: impl FnOnce(PortId) -> bool,
    ) -> Result<Passed<F>, Full<F>> {
        let Self { ports, table, settings, .. } = self;
        let port = &mut ports[from];
        port.heed(table, &settings.priorities, now, from, Heading::of(&arrival.header, arrival.network));
        let Memory { class, egress: to, .. } = port.ingress.memory;
        if let Some([sender, receiver]) = ports.pair_mut([from, PortId(to)])
            && sender.ingress.holds_none(class)
            && receiver.egress.is_free(now, class)
            && takes(PortId(to))
        {
            sender.ingress.classes[class].account.pass(arrival.bytes);
            receiver.egress.classes[class].account.pass(arrival.bytes);
            receiver.egress.progressed(now, arrival.bytes.into());
            return Ok(Passed::Through(PortId(to)));
        }
        if self.room_in(now, from, class) == 0 {
            return Err(Full(arrival.frame));
        }
        let back = self.arrivals(now, from).offer(arrival)?;
        Ok(back.map_or(Passed::Held, Passed::Refused))
    }

    /// A frame to nobody, to everybody, or back to where it came from.
    #[cold]
    fn forward_special(
        &mut self,
        now: Instant,
        from: PortId,
        node: Node,
        heading: Heading,
        egress: u16,
    ) -> Option<Released<F>> {
        match self.destination(from, heading, egress) {
            Destination::Nobody(refusal) => self.refuse_at_once(node, refusal),
            Destination::Many(audience) => self.flood(now, from, node, audience),
            Destination::One(_) => unreachable!("a frame for one other port takes the ordinary way"),
        }
    }

    /// For whom a frame is that came by `from`, when the table has [said](Answer::egress) so.
    pub(crate) fn destination(&self, from: PortId, heading: Heading, egress: u16) -> Destination {
        match egress {
            table::NOT_MEMBER => Destination::Nobody(Refusal::NOT_MEMBER),
            table::SPLIT_HORIZON => Destination::Nobody(Refusal::SPLIT_HORIZON),
            table::EVERYBODY if is_link_local(heading.destination()) => {
                Destination::Nobody(Refusal::LINK_LOCAL)
            }
            table::EVERYBODY => {
                let mut audience = self.table.audience(heading, from);
                for port in audience.iter().filter(|port| self.port(*port).egress.closed) {
                    audience.remove(port);
                }
                match audience.is_empty() {
                    true => Destination::Nobody(Refusal::NO_EGRESS),
                    false => Destination::Many(audience),
                }
            }
            _ if egress == from.0 => Destination::Nobody(Refusal::SAME_PORT),
            _ => Destination::One(PortId(egress)),
        }
    }

    /// A copy to everybody who is to have it. Each waits for its own egress: a slow one holds back nobody's
    /// later frames until the sender's share, or its quota there, is used up.
    fn flood(&mut self, now: Instant, from: PortId, node: Node, audience: PortSet) -> Option<Released<F>> {
        let label = self.cells.label(node);
        let mut released = None;
        let mut receivers = audience.iter().peekable();
        while let Some(to) = receivers.next() {
            // The frame's own node goes to the last, so that no copy finishes the frame while others are to come.
            let place = if receivers.peek().is_none() { node } else { self.cells.copy(node) };
            let (cells, class) = (Queue::of(place), label.stamp.class());
            match self.way(to, class, label.load()) {
                Way::Switched => self.switch(now, to, class, cells, 1, label.load()),
                Way::Waits => self.hold_back(from, to, class, cells, 1),
                Way::Refused(refusal) => {
                    self.port_mut(to).egress.classes[class].account.accept(1);
                    released = self.refuse(now, to, place, refusal);
                }
            }
        }
        released
    }

    /// Where a frame goes that its receiver will take, unless it is stalled: on into its egress's queue if there is a
    /// permit. If not, it waits behind its ingress's others, unless its class is lossy.
    pub(crate) fn way(&self, to: PortId, class: Class, load: Load) -> Way {
        let port = self.port(to);
        if port.egress.refuses() {
            Way::Refused(Refusal::STALLED)
        } else if port.egress.classes[class].waiting == NOBODY && port.permits(class, load) {
            Way::Switched
        } else if let Some(lossy) = self.settings.classes.lossy(class) {
            Way::Refused(Refusal::full(lossy))
        } else {
            Way::Waits
        }
    }

    /// Puts frames that have permits into their egress's queue.
    fn switch(&mut self, now: Instant, to: PortId, class: Class, cells: Queue, frames: u32, load: Load) {
        let egress = &mut self.ports[to].egress;
        if egress.ready == 0 {
            egress.progress = now;
        }
        egress.ready |= 1 << class.pcp();
        self.pending.insert(to);
        let side = &mut egress.classes[class];
        side.account.accept(frames);
        side.load.add(load);
        self.cells.append(&mut side.queue, cells);
    }

    /// Has frames that found no permit wait behind their ingress's others.
    fn hold_back(&mut self, from: PortId, to: PortId, class: Class, cells: Queue, frames: u32) {
        self.port_mut(to).egress.classes[class].account.accept(frames);
        let Port { config, ingress, .. } = &mut self.ports[from];
        let voq = &mut ingress.voqs[to.index()][class];
        let first = voq.queue.is_empty();
        self.cells.append(&mut voq.queue, cells);
        let (before, quota) = (voq.frames, config.quota.get());
        voq.frames += frames;
        ingress.at_quota += u16::from(before < quota && voq.frames >= quota);
        if first {
            self.join_round(from, to, class);
        }
    }

    /// Puts `from` at the end of the round of those that wait for (`to`, `class`).
    fn join_round(&mut self, from: PortId, to: PortId, class: Class) {
        let side = &mut self.port_mut(to).egress.classes[class];
        let last = core::mem::replace(&mut side.last_waiting, from.0);
        if last == NOBODY {
            side.waiting = from.0;
        } else {
            self.voq(PortId(last), to, class).next = from.0;
        }
    }

    /// Takes the first of the round out of it.
    fn leave_round(&mut self, to: PortId, class: Class) -> Option<PortId> {
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
    pub(crate) fn pull(&mut self, now: Instant, to: PortId, class: Class) {
        loop {
            let Port { config, egress, .. } = &mut self.ports[to];
            let (limits, side) = (config.egress, &egress.classes[class]);
            let (first, alone) = (side.waiting, side.waiting == side.last_waiting);
            if first == NOBODY || !side.permits(&limits, Load { frames: 1, bytes: 0 }) {
                return;
            }
            let Some([receiver, sender]) = self.ports.pair_mut([to, PortId(first)]) else {
                unreachable!("who waits is attached, and waits for another port");
            };
            let side = &mut receiver.egress.classes[class];
            let voq = &mut sender.ingress.voqs[to.index()][class];
            let label = self.cells.label(voq.first());
            if !side.permits(&limits, label.load()) {
                return;
            }
            if !alone && voq.deficit < label.bytes {
                voq.deficit += QUANTUM;
                self.leave_round(to, class);
                self.join_round(PortId(first), to, class);
                continue;
            }
            let (node, last) = sender.take_waiting(&mut self.cells, now, to, class);
            side.load.add(label.load());
            self.cells.push(&mut side.queue, node);
            receiver.egress.ready |= 1 << class.pcp();
            self.pending.insert(to);
            if last {
                self.leave_round(to, class);
            }
        }
    }

    /// Takes the first frame of the first ingress that waits for (`to`, `class`).
    pub(crate) fn pop_waiting(&mut self, now: Instant, to: PortId, class: Class) -> Option<Node> {
        let first = self.port(to).egress.classes[class].waiting;
        if first == NOBODY {
            return None;
        }
        let sender = &mut self.ports[PortId(first)];
        let (node, last) = sender.take_waiting(&mut self.cells, now, to, class);
        if last {
            self.leave_round(to, class);
        }
        Some(node)
    }

    /// Takes `from` out of the round of (`to`, `class`), wherever it stands in it.
    pub(crate) fn leave_waiting(&mut self, from: PortId, to: PortId, class: Class) {
        let mut others = alloc::vec::Vec::new();
        while let Some(port) = self.leave_round(to, class) {
            others.push(port);
        }
        for port in others.into_iter().filter(|port| *port != from) {
            self.join_round(port, to, class);
        }
    }

    /// Refuses a frame that no egress has heard of.
    fn refuse_at_once(&mut self, node: Node, refusal: Refusal) -> Option<Released<F>> {
        let Label { stamp, bytes, .. } = self.cells.label(node);
        self.note_refusal(node, None, refusal);
        let Finished { frame, .. } = self.cells.finish(node, false)?;
        let port = PortId(stamp.ingress());
        self.port_mut(port).ingress.classes[stamp.class()].refuse(refusal, bytes);
        Some(Released { port, frame })
    }
}

impl<F: Copy> Arrivals<'_, F> {
    /// Takes a frame over from the sender, and forwards it as far as there is room.
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
    pub fn offer(&mut self, arrival: Arrival<F>) -> Result<Option<F>, Full<F>> {
        let Arrival { frame, header, network, bytes, frames } = arrival;
        let heading = Heading::of(&header, network);
        if heading == self.run.heading && frames == self.run.each && self.follow(frame, bytes) {
            return Ok(None);
        }
        self.begin(heading, frame, bytes, frames)
    }

    /// Takes a frame into the run, which goes its way, if there is room. Whether there is.
    #[inline(always)]
    fn follow(&mut self, frame: F, bytes: u32) -> bool {
        let Self { switch, run, .. } = self;
        let label = Label { stamp: run.stamp, bytes };
        let all_bytes = run.bytes + u64::from(bytes);
        if run.frames < run.most_frames
            && all_bytes <= run.most_bytes
            && let Some(node) = switch.cells.take(frame, label)
        {
            run.cells.extend(node);
            run.frames += 1;
            run.bytes = all_bytes;
            return true;
        }
        false
    }

    /// Books what came in and is no Ethernet frame.
    pub fn malformed(&mut self) {
        let port = self.switch.port_mut(self.from);
        let account = &mut port.ingress.classes[port.config.class].account;
        account.accept(1);
        account.refuse(Refusal::MALFORMED);
    }

    /// Takes a frame over that does not follow the one before.
    #[inline(never)]
    fn begin(&mut self, heading: Heading, frame: F, bytes: u32, frames: u16) -> Result<Option<F>, Full<F>> {
        let Self { switch, now, from, run } = self;
        let (now, from) = (*now, *from);
        let port = &mut switch.ports[from];
        port.heed(&mut switch.table, &switch.settings.priorities, now, from, heading);
        let Memory { class, egress: to, .. } = port.ingress.memory;
        let stamp = Stamp::new(from.0, class, frames);
        if PortId(to) == run.to && stamp == run.stamp {
            run.heading = heading;
            if self.follow(frame, bytes) {
                return Ok(None);
            }
        }
        self.settle();
        let Self { switch, .. } = self;
        let Port { config, ingress, .. } = &mut switch.ports[from];
        let side = &mut ingress.classes[class];
        let most = config.ingress.frames.max(1).saturating_sub(side.held.frames);
        if most == 0 {
            ingress.pause(now);
            return Err(Full(frame));
        }
        let label = Label { stamp, bytes };
        let node = switch.cells.insert(frame, label);
        if usize::from(to) >= MAX_PORTS || to == from.0 {
            side.accept(1, bytes.into());
            let released = switch.forward_special(now, from, node, heading, to);
            return Ok(released.map(|released| released.frame));
        }
        let to = PortId(to);
        let way = switch.way(to, class, label.load());
        if let Way::Refused(refusal) = way {
            switch.port_mut(from).ingress.classes[class].accept(1, bytes.into());
            switch.port_mut(to).egress.classes[class].account.accept(1);
            let released = switch.refuse(now, to, node, refusal);
            return Ok(released.map(|released| released.frame));
        }
        let Port { config, egress, .. } = switch.port(to);
        let waits = matches!(way, Way::Waits);
        let permits = if waits { Load::ANY } else { config.egress.left(egress.classes[class].load) };
        let permitted = permits.frames.checked_div(frames.into()).unwrap_or(most);
        self.run = Run {
            heading,
            each: frames,
            stamp: label.stamp,
            to,
            waits,
            cells: Queue::of(node),
            frames: 1,
            bytes: bytes.into(),
            most_frames: most.min(permitted),
            most_bytes: permits.bytes,
        };
        Ok(None)
    }

    /// Books the run, and puts its frames where they go.
    fn settle(&mut self) {
        let Self { switch, now, from, run } = self;
        if run.frames == 0 {
            return;
        }
        let Run { stamp, to, waits, cells, frames, bytes, .. } = core::mem::replace(run, Run::NONE);
        let class = stamp.class();
        switch.port_mut(*from).ingress.classes[class].accept(frames, bytes);
        if waits {
            switch.hold_back(*from, to, class, cells, frames);
        } else {
            switch.switch(*now, to, class, cells, frames, Load::of(frames, stamp.frames(), bytes));
        }
    }
}

impl<F: Copy> Drop for Arrivals<'_, F> {
    #[inline]
    fn drop(&mut self) {
        self.settle();
    }
}

impl Port {
    /// Has what the table says of this heading in the sender's memory.
    #[inline]
    fn heed(
        &mut self,
        table: &mut MacTable,
        priorities: &ClassMap<Class>,
        now: Instant,
        id: PortId,
        heading: Heading,
    ) {
        if !self.ingress.memory.holds(now, table.generation(), heading) {
            self.consult(table, priorities, now, id, heading);
        }
    }

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
        let (class, vlan) = self.class_and_vlan(priorities, heading.tag());
        let Answer { egress, refresh_at } = table.ask(now, heading, vlan, id.0);
        // Asked afterwards: the table may have learned.
        let generation = table.generation();
        self.ingress.memory = Memory { heading, generation, refresh_at, class, egress };
    }

    /// The class and VLAN of a frame from this sender with this tag.
    #[inline]
    pub(crate) fn class_and_vlan(&self, priorities: &ClassMap<Class>, tag: Option<Tag>) -> (Class, u16) {
        match tag {
            None => (self.config.class, 0),
            Some(tag) => (priorities[tag.class], tag.vlan),
        }
    }

    /// Takes the sender's first frame that waits for (`to`, `class`). Whether it was the last: then its turn ends.
    #[inline]
    fn take_waiting<F: Copy>(
        &mut self,
        cells: &mut Cells<F>,
        now: Instant,
        to: PortId,
        class: Class,
    ) -> (Node, bool) {
        let voq = &mut self.ingress.voqs[to.index()][class];
        let node = voq.first();
        voq.deficit = voq.deficit.saturating_sub(cells.label(node).bytes);
        cells.pop(&mut voq.queue);
        let was_at_quota = voq.frames == self.config.quota.get();
        voq.frames -= 1;
        let last = voq.queue.is_empty();
        if last {
            voq.deficit = 0;
        }
        if was_at_quota {
            self.ingress.at_quota -= 1;
            self.ingress.resume(now, &self.config);
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

impl Limits {
    /// What there is room for besides `load`.
    #[inline]
    fn left(&self, load: Load) -> Load {
        Load { frames: self.frames.saturating_sub(load.frames), bytes: self.bytes.saturating_sub(load.bytes) }
    }
}

impl EgressClass {
    /// Whether there is a place for a frame. An empty queue takes any one.
    #[inline]
    pub(crate) fn permits(&self, limits: &Limits, load: Load) -> bool {
        let Load { frames, bytes } = limits.left(self.load);
        load.frames <= frames && load.bytes <= bytes || self.load.frames == 0
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
