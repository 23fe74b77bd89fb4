//! The physical network: transmitters, links, and switches that are input-buffered and
//! output-queued.
//!
//! ```text
//!         input p                        output o
//!  link ─▶ accounts by lane ──admit──▶ queue by lane ──choose──▶ transmitter ─▶ link
//!            │  XOFF, XON                 tail drop, marks            ▲ paused by the peer
//!            └─▶ PFC back to the sender
//! ```
//!
//! Frames are stored whole before they go on. A frame's memory is free again when its transmission
//! begins. A **lane** is a class that the scenario declares; lanes are numbered in the order of
//! their priorities.
//!
//! With [backpressure] the queue of a lane is several, one for each flow while there are enough,
//! and the transmitter's own has the frame that goes next.

mod backpressure;
mod deadlock;
mod filter;
mod flows;
mod pausing;
mod sampling;

use std::ops::Add;

use model::ClassKind;

use crate::clock::{Clock, Event, Maker};
use crate::events::EventList;
use crate::graph::Graph;
use crate::packet::{Handle, Packets, Queue};
use crate::scenario::{Buffer, Congestion, PFC_FRAME, Scenario, Scheduling};
use crate::time::{Pace, Time};
use backpressure::Backpressure;
pub(crate) use filter::{Filter, FlowId};
pub(crate) use flows::MOST_QUEUES;
pub(crate) use sampling::Sampled;
use sampling::Sampling;

/// The first of the bits of [`Port::news`] for filters.
const FILTERS: u16 = 1 << 8;

/// What the whole network has in common.
#[derive(Debug)]
struct Rules {
    buffer: Buffer,
    weighted: bool,
    lanes: Vec<Lane>,
    /// What a paused sender goes on sending, in bytes.
    response: u32,
    /// What a NIC queues, in bytes.
    nic_queue: u64,
    /// The longest frame.
    longest: u64,
}

/// A class, in the physical network.
#[derive(Clone, Copy, Debug)]
struct Lane {
    lossless: bool,
    weight: u32,
    /// Mark what finds so much waiting.
    mark_at: Option<u64>,
}

/// One end of a link: a cache line.
#[derive(Debug)]
#[repr(align(64))]
struct Port {
    /// The node that it belongs to.
    node: u32,
    peer: u32,
    pace: Pace,
    delay: Time,
    overhead: u32,
    /// When the transmitter has sent what it is sending.
    free_at: Time,
    /// Whether an event says so.
    awaited: bool,
    /// The lanes that have something to send, and those that the peer has paused, a bit each.
    ready: u8,
    paused: u8,
    /// The lanes of which the peer is to be told something: by PFC, and from [`FILTERS`] on by a
    /// filter.
    news: u16,
    /// Weighted scheduling: whose turn it is.
    turn: u8,
    /// Frames that it has sent.
    sent: u64,
}

/// One lane of one port: what is looked at for each frame, in a cache line.
#[derive(Debug, Default)]
#[repr(align(64))]
struct LanePort {
    /// What waits to be sent.
    queue: Queue,
    /// Bytes that came by this port and are still in its node.
    held: u64,
    /// Where the peer is paused, and how much may be held in all.
    xoff: u64,
    room: u64,
    /// Whether the peer was asked to pause.
    pausing: bool,
}

/// The rest of one lane of one port.
#[derive(Debug, Default)]
struct LaneRest {
    /// Weighted scheduling: bytes that may still be sent in this round.
    deficit: i64,
    /// How far below `xoff` the peer is let go.
    hysteresis: u64,
    /// When a pause is asked for again.
    renew_at: Time,
    /// Until when this port's own transmitter is paused, since when, and for how long before.
    paused_until: Time,
    paused_since: Time,
    paused_for: Time,
    lost: u64,
    marked: u64,
}

/// The physical network.
#[derive(Debug)]
pub(crate) struct Fabric {
    rules: Rules,
    /// By port: its node once more. Apart from the rest, for frames that arrive and memory that is
    /// booked: both look at nothing else of the port.
    nodes: Vec<u32>,
    ports: Vec<Port>,
    /// By port and lane.
    lanes: Vec<LanePort>,
    rest: Vec<LaneRest>,
    /// By port: how long a pause lasts that is not renewed.
    expiries: Vec<Time>,
    /// What of a shared memory is taken, by node.
    used: Vec<u64>,
    /// What a shared memory may hold besides headroom, by node.
    shared: Vec<u64>,
    hosts: u32,
    /// Where switches give notice of congestion.
    sampling: Option<Box<Sampling>>,
    /// Where switches pause flows.
    backpressure: Option<Box<Backpressure>>,
}

/// What becomes of a frame that a switch is offered.
enum Admission {
    Taken,
    Lost,
}

impl Fabric {
    pub(crate) fn new(scenario: &Scenario, graph: &Graph, lanes: &[String]) -> Self {
        let fabric = &scenario.fabric;
        let rules = Rules {
            buffer: fabric.buffer,
            weighted: fabric.scheduling == Scheduling::Weighted,
            lanes: lanes
                .iter()
                .map(|name| Lane {
                    lossless: scenario.physical_kind(name) == ClassKind::Lossless,
                    weight: scenario.classes[name].weight.max(1),
                    mark_at: scenario.mark_at(name).map(|bytes| bytes.0),
                })
                .collect(),
            response: u32::try_from(fabric.pfc.response.0).unwrap_or(u32::MAX),
            nic_queue: fabric.nic_queue.0,
            longest: scenario.longest_frame(),
        };
        let frame = rules.longest;
        let mut shared: Vec<u64> = vec![0; graph.ports.len()];
        if let Buffer::Shared { bytes, .. } = fabric.buffer {
            shared.fill(bytes.0);
        }
        let mut ports = Vec::with_capacity(graph.ends.len());
        let mut expiries = Vec::with_capacity(graph.ends.len());
        let mut by_lane = Vec::with_capacity(graph.ends.len() * lanes.len());
        let mut rest = Vec::with_capacity(graph.ends.len() * lanes.len());
        for end in &graph.ends {
            ports.push(Port {
                node: end.node,
                peer: end.peer,
                pace: Pace::of(end.link.rate),
                delay: end.link.delay.into(),
                overhead: u32::try_from(end.link.overhead.0).unwrap_or(u32::MAX),
                free_at: Time::ZERO,
                awaited: false,
                ready: 0,
                paused: 0,
                news: 0,
                turn: 0,
                sent: 0,
            });
            expiries.push(fabric.pfc.expiry(end.link).into());
            for lane in &rules.lanes {
                let is_host = end.node < graph.hosts;
                let headroom = fabric.pfc.headroom(end.link, frame);
                let room = match fabric.buffer {
                    _ if is_host => fabric.nic_queue.0,
                    Buffer::PrivateInput { bytes }
                    | Buffer::PerOutput { bytes }
                    | Buffer::Shared { bytes, .. } => bytes.0,
                };
                let mut it = LanePort { room, ..LanePort::default() };
                let mut hysteresis = 0;
                if lane.lossless {
                    let pfc = if is_host { fabric.pfc.of_nic() } else { fabric.pfc };
                    if let Some(thresholds) = pfc.thresholds(end.link, frame, it.room) {
                        (it.xoff, hysteresis) = (thresholds.xoff, thresholds.xoff - thresholds.xon);
                        it.room = thresholds.xoff + thresholds.headroom;
                    }
                    if !is_host && matches!(fabric.buffer, Buffer::Shared { .. }) {
                        let node = &mut shared[end.node as usize];
                        *node = node.saturating_sub(headroom);
                    }
                }
                by_lane.push(it);
                rest.push(LaneRest { hysteresis, ..LaneRest::default() });
            }
        }
        let used = vec![0; graph.ports.len()];
        let nodes = graph.ends.iter().map(|end| end.node).collect();
        let congestion = scenario.virtual_network.congestion;
        let controlled: Vec<bool> = lanes.iter().map(|name| scenario.is_controlled(name)).collect();
        let backpressure = (congestion == Congestion::Bfc)
            .then(|| Backpressure::new(scenario, graph, &controlled).into());
        let sampling = (congestion == Congestion::Qcn)
            .then(|| Sampling::new(by_lane.len(), controlled, scenario.run.seed).into());
        Self {
            rules,
            nodes,
            ports,
            lanes: by_lane,
            rest,
            expiries,
            used,
            shared,
            hosts: graph.hosts,
            sampling,
            backpressure,
        }
    }

    #[inline]
    fn place(&self, port: u32, lane: u8) -> usize {
        port as usize * self.rules.lanes.len() + usize::from(lane)
    }

    /// The node that a port belongs to.
    #[inline]
    pub(crate) fn node(&self, port: u32) -> u32 {
        self.ports[port as usize].node
    }

    /// The same, for who does not look at the port.
    #[inline]
    pub(crate) fn node_at(&self, port: u32) -> u32 {
        self.nodes[port as usize]
    }

    /// Whether the queue of a host's NIC has room for a frame.
    #[inline]
    pub(crate) fn can_queue(&self, port: u32, lane: u8, bytes: u32) -> bool {
        self.lanes[self.place(port, lane)].queue.bytes + u64::from(bytes) <= self.rules.nic_queue
    }

    /// Bytes that wait to be sent.
    pub(crate) fn queued(&self, port: u32, lane: u8) -> u64 {
        self.lanes[self.place(port, lane)].queue.bytes
    }

    /// Tells of every port and lane what waits there to be sent, and whether the peer has paused
    /// it.
    pub(crate) fn look(&self, mut see: impl FnMut(u32, u8, u64, bool)) {
        for (port, it) in (0..).zip(&self.ports) {
            for lane in 0..self.rules.lanes.len() as u8 {
                let bytes = self.waiting_at(self.place(port, lane));
                see(port, lane, bytes, it.paused & 1 << lane != 0);
            }
        }
    }

    /// A frame has come into a switch by `port`.
    // The engine has one place where frames do.
    #[inline(always)]
    pub(crate) fn switch<L: EventList<Event>>(
        &mut self,
        clock: &mut Clock<L>,
        packets: &mut Packets,
        graph: &Graph,
        port: u32,
        handle: Handle,
    ) {
        let node = self.node_at(port);
        let packet = &mut packets[handle];
        packet.input = port;
        let output = graph.route(node, packet.host, packet.hash);
        let (lane, bytes, hash) = (packet.lane, packet.bytes, packet.hash);
        if self.is_free(clock.now(), output, lane) && self.is_clear(output, lane, hash) {
            self.launch(clock, output, handle, bytes);
            return;
        }
        match self.admit(clock, node, port, output, lane, u64::from(bytes)) {
            Admission::Taken => {
                let place = self.place(output, lane);
                let waiting = self.waiting_at(place);
                let packet = &mut packets[handle];
                if packet.ecn_capable
                    && self.rules.lanes[usize::from(lane)].mark_at.is_some_and(|at| waiting >= at)
                {
                    packet.marked = true;
                    self.rest[place].marked += 1;
                }
                self.enqueue(clock, packets, output, handle);
                if let Some(sampling) = &mut self.sampling
                    && sampling.lanes[usize::from(lane)]
                {
                    sampling.see(place, handle, bytes, waiting + u64::from(bytes));
                }
            }
            Admission::Lost => packets.lose(handle),
        }
    }

    /// The frame that the last switch has sampled, whose sender is to be told of congestion.
    #[inline]
    pub(crate) fn take_sampled(&mut self) -> Option<Sampled> {
        self.sampling.as_mut()?.sampled.take()
    }

    /// Finds memory for a frame, and pauses its sender if memory runs short.
    #[inline]
    fn admit<L: EventList<Event>>(
        &mut self,
        clock: &mut Clock<L>,
        node: u32,
        input: u32,
        output: u32,
        lane: u8,
        bytes: u64,
    ) -> Admission {
        let [came, goes] = [self.place(input, lane), self.place(output, lane)];
        let lossless = self.rules.lanes[usize::from(lane)].lossless;
        let is_full = match self.rules.buffer {
            Buffer::Shared { bytes: all, .. } if lossless => {
                self.used[node as usize] + bytes > all.0
            }
            _ if lossless => self.lanes[came].held + bytes > self.lanes[came].room,
            Buffer::PrivateInput { .. } => self.lanes[came].held + bytes > self.lanes[came].room,
            Buffer::PerOutput { .. } => {
                self.lanes[goes].queue.bytes + bytes > self.lanes[goes].room
            }
            Buffer::Shared { alpha, .. } => {
                self.lanes[goes].queue.bytes + bytes > self.share(node, alpha)
                    || self.free(node) < bytes
            }
        };
        if is_full {
            let at =
                if matches!(self.rules.buffer, Buffer::PrivateInput { .. }) { came } else { goes };
            self.rest[at].lost += 1;
            return Admission::Lost;
        }
        self.used[node as usize] += bytes;
        self.hold(clock, input, lane, bytes);
        Admission::Taken
    }

    /// Free bytes of a node's shared memory.
    fn free(&self, node: u32) -> u64 {
        self.shared[node as usize].saturating_sub(self.used[node as usize])
    }

    /// What one queue may take of a node's shared memory.
    fn share(&self, node: u32, alpha: f64) -> u64 {
        (self.free(node) as f64 * alpha) as u64
    }

    /// Books memory to an input, and pauses the sender at its threshold.
    #[inline]
    pub(crate) fn hold<L: EventList<Event>>(
        &mut self,
        clock: &mut Clock<L>,
        input: u32,
        lane: u8,
        bytes: u64,
    ) {
        let place = self.place(input, lane);
        let it = &mut self.lanes[place];
        it.held += bytes;
        if !self.rules.lanes[usize::from(lane)].lossless || it.pausing {
            return;
        }
        let xoff = self.xoff(input, place);
        // Frames are booked whole: the one that would cross the threshold is not there yet.
        if self.lanes[place].held + self.rules.longest > xoff {
            self.lanes[place].pausing = true;
            self.tell(clock, input, lane);
        }
    }

    /// Where an input pauses its sender now.
    #[inline]
    fn xoff(&self, input: u32, place: usize) -> u64 {
        let own = self.lanes[place].xoff;
        let Buffer::Shared { alpha, .. } = self.rules.buffer else { return own };
        let node = self.node_at(input);
        if node < self.hosts { own } else { self.share(node, alpha).min(own) }
    }

    /// Memory of an input is free again.
    #[inline]
    pub(crate) fn release<L: EventList<Event>>(
        &mut self,
        clock: &mut Clock<L>,
        input: u32,
        lane: u8,
        bytes: u64,
    ) {
        let place = self.place(input, lane);
        let it = &mut self.lanes[place];
        it.held -= bytes;
        if it.pausing && self.lanes[place].held <= self.xon(input, place) {
            self.lanes[place].pausing = false;
            self.tell(clock, input, lane);
        }
    }

    /// Where an input lets its sender go on.
    fn xon(&self, input: u32, place: usize) -> u64 {
        self.xoff(input, place).saturating_sub(self.rest[place].hysteresis)
    }

    /// Whether an input of a host may hold so much more.
    #[inline]
    pub(crate) fn has_room(&self, input: u32, lane: u8, bytes: u64) -> bool {
        let it = &self.lanes[self.place(input, lane)];
        it.held + bytes <= it.room
    }

    /// A frame is lost for want of memory at this port.
    pub(crate) fn lose(&mut self, port: u32, lane: u8) {
        let place = self.place(port, lane);
        self.rest[place].lost += 1;
    }

    /// Has the peer told by PFC whether a lane of its is to pause.
    fn tell<L: EventList<Event>>(&mut self, clock: &mut Clock<L>, port: u32, lane: u8) {
        let place = self.place(port, lane);
        let it = &mut self.ports[port as usize];
        it.news |= 1 << lane;
        if self.lanes[place].pausing {
            // Twice as often as it must be: a frame may have to wait for the transmitter.
            let renew_at =
                clock.now() + Time::from_picos(self.expiries[port as usize].as_picos() / 2);
            self.rest[place].renew_at = renew_at;
            clock.at(renew_at, Maker(self.node(port)), Event::Renew { port, lane });
        }
        self.wake(clock, port);
    }

    /// A pause runs out soon: it is asked for again, if it is still needed.
    pub(crate) fn renew<L: EventList<Event>>(&mut self, clock: &mut Clock<L>, port: u32, lane: u8) {
        let place = self.place(port, lane);
        if self.lanes[place].pausing && self.rest[place].renew_at == clock.now() {
            self.tell(clock, port, lane);
        }
    }

    /// Sends a frame by a host's NIC: at once if nothing is before it.
    #[inline]
    pub(crate) fn send<L: EventList<Event>>(
        &mut self,
        clock: &mut Clock<L>,
        packets: &mut Packets,
        nic: u32,
        handle: Handle,
    ) {
        let packet = &packets[handle];
        if self.is_free(clock.now(), nic, packet.lane) {
            self.launch(clock, nic, handle, packet.bytes);
        } else {
            self.enqueue(clock, packets, nic, handle);
        }
    }

    /// Puts a frame into the queue of an output that is not free.
    #[inline]
    fn enqueue<L: EventList<Event>>(
        &mut self,
        clock: &mut Clock<L>,
        packets: &mut Packets,
        port: u32,
        handle: Handle,
    ) {
        let lane = packets[handle].lane;
        if self.backpressure.is_some() && self.enqueue_by_flow(clock, packets, port, lane, handle) {
            return;
        }
        let place = self.place(port, lane);
        self.lanes[place].queue.push(packets, handle);
        self.ports[port as usize].ready |= 1 << lane;
        self.start(clock, packets, port);
    }

    /// Whether a frame of this lane that a switch gets now can leave by this port at once: it needs
    /// no memory then.
    #[inline]
    fn is_free(&self, now: Time, port: u32, lane: u8) -> bool {
        let it = &self.ports[port as usize];
        !it.awaited
            && it.free_at <= now
            && it.paused & 1 << lane == 0
            && it.ready & !it.paused == 0
            && it.news == 0
    }

    /// Begins to send a frame of a lane.
    #[inline]
    fn launch<L: EventList<Event>>(
        &mut self,
        clock: &mut Clock<L>,
        port: u32,
        handle: Handle,
        bytes: u32,
    ) {
        let it = &mut self.ports[port as usize];
        it.sent += 1;
        it.free_at = clock.now() + it.pace.time_for(bytes + it.overhead);
        clock.at(
            it.free_at + it.delay,
            Maker(it.node),
            Event::Arrive { port: it.peer, packet: handle },
        );
    }

    /// Sees to it that the transmitter goes on as soon as it can, if it has something to send.
    #[inline]
    fn wake<L: EventList<Event>>(&mut self, clock: &mut Clock<L>, port: u32) {
        let it = &mut self.ports[port as usize];
        if !it.awaited && (it.ready & !it.paused != 0 || it.news != 0) {
            it.awaited = true;
            clock.at(it.free_at, Maker(it.node), Event::Ready { port });
        }
    }

    /// Sends the next frame, if the transmitter is free.
    #[inline]
    fn start<L: EventList<Event>>(
        &mut self,
        clock: &mut Clock<L>,
        packets: &mut Packets,
        port: u32,
    ) {
        let it = &self.ports[port as usize];
        if it.awaited {
            return;
        }
        if it.free_at <= clock.now() {
            self.transmit(clock, packets, port);
        }
        self.wake(clock, port);
    }

    /// The transmitter is free.
    #[inline]
    pub(crate) fn ready<L: EventList<Event>>(
        &mut self,
        clock: &mut Clock<L>,
        packets: &mut Packets,
        port: u32,
    ) {
        self.ports[port as usize].awaited = false;
        self.transmit(clock, packets, port);
        self.wake(clock, port);
    }

    /// Sends what is next: PFC before everything else, then a frame of a lane that is not paused.
    #[inline]
    fn transmit<L: EventList<Event>>(
        &mut self,
        clock: &mut Clock<L>,
        packets: &mut Packets,
        port: u32,
    ) {
        let it = &mut self.ports[port as usize];
        if it.news != 0 {
            self.transmit_news(clock, port);
            return;
        }
        let ready = it.ready & !it.paused;
        if ready == 0 {
            return;
        }
        if self.backpressure.is_some() {
            self.stage(clock, packets, port, ready);
        }
        let lane = if self.rules.weighted {
            self.next_weighted(packets, port, ready)
        } else {
            7 - ready.leading_zeros() as u8
        };
        let place = self.place(port, lane);
        let out = &mut self.lanes[place];
        let handle = out.queue.pop(packets).expect("a lane that is ready has a frame");
        let next = out.queue.head();
        let packet = &packets[handle];
        let (bytes, input) = (packet.bytes, packet.input);
        match next {
            // Who is next may have waited for long.
            Some(next) => prefetch::to_read(&raw const packets[next]),
            None => self.ports[port as usize].ready &= !(1 << lane),
        }
        let node = self.node(port);
        self.launch(clock, port, handle, bytes);
        if node >= self.hosts {
            self.used[node as usize] -= u64::from(bytes);
            self.release(clock, input, lane, u64::from(bytes));
        }
        if self.backpressure.is_some() {
            self.note_ready(port, lane);
        }
    }

    #[cold]
    fn transmit_news<L: EventList<Event>>(&mut self, clock: &mut Clock<L>, port: u32) {
        let news = &mut self.ports[port as usize].news;
        let lanes = (*news % FILTERS) as u8;
        if lanes == 0 {
            let lane = (*news / FILTERS).trailing_zeros() as u8;
            self.transmit_filter(clock, port, lane);
            return;
        }
        *news -= u16::from(lanes);
        let paused = (0..self.rules.lanes.len() as u8)
            .filter(|&lane| self.lanes[self.place(port, lane)].pausing)
            .fold(0, |bits, lane| bits | 1 << lane);
        let it = &mut self.ports[port as usize];
        it.free_at = clock.now() + it.pace.time_for(PFC_FRAME + it.overhead);
        let obeyed = it.free_at + it.delay + it.pace.time_for(self.rules.response);
        clock.at(obeyed, Maker(it.node), Event::Obey { port: it.peer, lanes, paused });
    }

    /// Deficit round robin among lanes that may send: 1,500 bytes a round for each unit of weight.
    fn next_weighted(&mut self, packets: &Packets, port: u32, ready: u8) -> u8 {
        let count = self.rules.lanes.len() as u8;
        loop {
            let lane = self.ports[port as usize].turn;
            let place = self.place(port, lane);
            let (queue, it) = (&self.lanes[place].queue, &mut self.rest[place]);
            if ready & 1 << lane != 0
                && let Some(head) = queue.head()
                && it.deficit >= i64::from(packets[head].bytes)
            {
                it.deficit -= i64::from(packets[head].bytes);
                return lane;
            }
            if queue.is_empty() {
                it.deficit = 0;
            }
            let next = (lane + 1) % count;
            self.ports[port as usize].turn = next;
            if ready & 1 << next != 0 {
                let place = self.place(port, next);
                self.rest[place].deficit +=
                    i64::from(self.rules.lanes[usize::from(next)].weight) * 1500;
            }
        }
    }

    /// What a PFC frame says takes effect.
    pub(crate) fn obey<L: EventList<Event>>(
        &mut self,
        clock: &mut Clock<L>,
        packets: &mut Packets,
        port: u32,
        lanes: u8,
        paused: u8,
    ) {
        let now = clock.now();
        for lane in (0..self.rules.lanes.len() as u8).filter(|lane| lanes & 1 << lane != 0) {
            let place = self.place(port, lane);
            let (it, out) = (&mut self.ports[port as usize], &mut self.rest[place]);
            if paused & 1 << lane != 0 {
                if it.paused & 1 << lane == 0 {
                    it.paused |= 1 << lane;
                    out.paused_since = now;
                }
                out.paused_until = now + self.expiries[port as usize];
                clock.at(out.paused_until, Maker(it.node), Event::Expire { port, lane });
            } else {
                self.resume(now, port, lane);
            }
        }
        self.start(clock, packets, port);
    }

    /// A pause runs out, unless it was renewed.
    pub(crate) fn expire<L: EventList<Event>>(
        &mut self,
        clock: &mut Clock<L>,
        packets: &mut Packets,
        port: u32,
        lane: u8,
    ) {
        if self.rest[self.place(port, lane)].paused_until <= clock.now() {
            self.resume(clock.now(), port, lane);
            self.start(clock, packets, port);
        }
    }

    fn resume(&mut self, now: Time, port: u32, lane: u8) {
        let place = self.place(port, lane);
        let (it, out) = (&mut self.ports[port as usize], &mut self.rest[place]);
        if it.paused & 1 << lane != 0 {
            it.paused &= !(1 << lane);
            out.paused_for += now - out.paused_since;
        }
    }

    fn rest_of(&self, lane: u8) -> impl Iterator<Item = &LaneRest> {
        self.rest.iter().skip(usize::from(lane)).step_by(self.rules.lanes.len())
    }

    /// Frames lost in a lane, at switches and at NICs.
    pub(crate) fn lost(&self, lane: u8) -> u64 {
        self.rest_of(lane).map(|it| it.lost).sum()
    }

    /// Frames marked in a lane.
    pub(crate) fn marked(&self, lane: u8) -> u64 {
        self.rest_of(lane).map(|it| it.marked).sum()
    }

    /// How long transmitters were paused in a lane until `now`, all together.
    pub(crate) fn paused(&self, lane: u8, now: Time) -> Time {
        let since = |(port, it): (&Port, &LaneRest)| match port.paused & 1 << lane {
            0 => it.paused_for,
            _ => it.paused_for + (now - it.paused_since),
        };
        self.ports.iter().zip(self.rest_of(lane)).map(since).fold(Time::ZERO, Time::add)
    }

    /// Whether a lane promises that nothing is lost in the physical network.
    pub(crate) fn is_lossless(&self, lane: u8) -> bool {
        self.rules.lanes[usize::from(lane)].lossless
    }

    /// Whether any lane does.
    pub(crate) fn has_pauses(&self) -> bool {
        self.rules.lanes.iter().any(|lane| lane.lossless)
    }

    /// Frames that wait to be sent.
    pub(crate) fn held(&self, packets: &Packets) -> u64 {
        let by_flow = self.backpressure.as_ref().map_or(0, |it| it.held(packets));
        self.lanes.iter().map(|it| it.queue.len(packets)).sum::<u64>() + by_flow
    }

    /// Frames that all ports have sent.
    pub(crate) fn sent(&self) -> u64 {
        self.ports.iter().map(|port| port.sent).sum()
    }
}
