//! What runs in machines below applications: TCP endpoints and UDP senders.

use std::collections::VecDeque;
use std::sync::Arc;

use tcp::{Config, Endpoint};
use units::hash;

use crate::clock::{Burst, Clock, Event, Maker};
use crate::events::EventList;
use crate::host::Hosts;
use crate::packet::{Handle, Load, Packet, Packets, Queue, Target};
use crate::time::Time;

/// What a workload wants to be told when a message has arrived, or a flow has.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(crate) struct Note {
    /// The workload.
    pub workload: u16,
    /// Which kind of message; the workload's own.
    pub step: u16,
    /// Of which query or flow; the workload's own.
    pub about: u32,
    /// Who sent it; the workload's own.
    pub from: u32,
    /// Whether some of it was lost, and will not arrive: datagrams only.
    pub lost: bool,
}

/// A message that has arrived, or of which some is lost and the rest has.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Heard {
    pub note: Note,
    /// The machine that it was for.
    pub at: u32,
    /// That machine's side of the connection that has brought it, if one has: good while that
    /// connection stays.
    pub end: Option<u32>,
}

/// One side of a connection. The other side's number differs in the lowest bit.
#[derive(Debug)]
#[repr(C)]
struct End {
    /// Where the first message ends that is on its way to this side; never if there is none.
    next_due: u64,
    /// When an event looks at its timers.
    timer_at: Time,
    machine: u32,
    to: Target,
    hash: u32,
    /// The other side's hash, by which a straggler of an earlier connection is told; none once this
    /// one is over.
    peer: Option<u32>,
    order: Order,
    lane: u8,
    /// Whether this side closes once the other has.
    closes: bool,
    /// None on the side that waits for a SYN.
    endpoint: Option<Endpoint>,
    /// Bytes that were written in all.
    written: u64,
    /// What is told of the first message: here, since there seldom is another.
    next_note: Note,
    /// Messages behind the first on their way to this side, each with the position of its end in
    /// the stream.
    due: VecDeque<(u64, Note)>,
}

/// A sender of datagrams.
#[derive(Debug)]
struct Sender {
    machine: u32,
    to: Target,
    hash: u32,
    lane: u8,
    /// Payload of each datagram.
    datagram: u16,
    /// From one datagram to the next.
    gap: Time,
    /// Bytes that are not sent yet; none for a stream without end.
    left: Option<u64>,
    /// When a stream without end stops.
    stop: Time,
    /// Bytes that neither have arrived nor are lost; of a stream without end, of all that can be
    /// counted.
    due: u64,
    /// Bytes that are lost.
    lost: u64,
    note: Note,
    order: Order,
}

/// How many frames were sent, and how many had been when the last one that came was sent. No way
/// through the network lets a frame pass another of its flow.
#[derive(Clone, Copy, Debug, Default)]
struct Order {
    sent: u32,
    heard: u32,
}

impl Order {
    /// The number of a frame that is sent now.
    #[inline]
    fn next(&mut self) -> u32 {
        self.sent = self.sent.wrapping_add(1);
        self.sent
    }

    /// Whether a frame that comes now was sent after all that came before it; some of those between
    /// may be lost.
    #[inline]
    fn holds(&mut self, number: u32) -> bool {
        number.wrapping_sub(std::mem::replace(&mut self.heard, number)).cast_signed() > 0
    }
}

/// How a flow of datagrams is to be sent.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pour {
    pub from: u32,
    pub to: u32,
    pub lane: u8,
    pub datagram: u16,
    pub gap: Time,
    /// Until `stop` if absent.
    pub bytes: Option<u64>,
    pub stop: Time,
    pub note: Note,
}

/// All endpoints and senders.
#[derive(Debug)]
pub(crate) struct Stack {
    config: Arc<Config>,
    /// What a frame has around a machine's packet.
    encapsulation: u32,
    ends: Vec<End>,
    /// Pairs that are closed: the numbers of their first sides.
    closed: Vec<u32>,
    senders: Vec<Sender>,
    done: Vec<u32>,
    opened: u32,
    pub tally: Tally,
}

/// What endpoints did that are gone.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Tally {
    pub segments: u64,
    pub retransmitted: u64,
    /// Of them, tail loss probes.
    pub probes: u64,
    pub timeouts: u64,
    pub datagrams: u64,
    /// Frames that came after one of their flow that was sent after them.
    pub late: u64,
}

/// IPv4's header without options, and UDP's.
const IP: u32 = 20;
const UDP: u32 = 8;

impl Stack {
    pub(crate) fn new(config: Config, encapsulation: u32) -> Self {
        Self {
            config: Arc::new(config),
            encapsulation,
            ends: Vec::new(),
            closed: Vec::new(),
            senders: Vec::new(),
            done: Vec::new(),
            opened: 0,
            tally: Tally::default(),
        }
    }

    /// Makes a connection between two machines: the number of the side at `from`. It opens when
    /// something is written.
    pub(crate) fn open(&mut self, hosts: &Hosts, from: u32, to: u32, lane: u8) -> u32 {
        self.opened += 1;
        let there = hash::murmur32(self.opened);
        let endpoint = Endpoint::connect_shared(self.config.clone(), there);
        let back = hash::murmur32(there);
        let side =
            |[machine, to]: [u32; 2], [hash, peer]: [u32; 2], endpoint: Option<Endpoint>| End {
                endpoint,
                machine,
                to: hosts.target(to),
                hash,
                peer: Some(peer),
                order: Order::default(),
                lane,
                timer_at: Time::NEVER,
                written: 0,
                next_due: u64::MAX,
                next_note: Note::default(),
                due: VecDeque::new(),
                closes: false,
            };
        let pair = [
            side([from, to], [there, back], Some(endpoint)),
            side([to, from], [back, there], None),
        ];
        match self.closed.pop() {
            Some(first) => {
                for (place, end) in (first as usize..).zip(pair) {
                    self.ends[place] = end;
                }
                first
            }
            None => {
                self.ends.extend(pair);
                self.ends.len() as u32 - 2
            }
        }
    }

    /// Makes a connection that was opened long ago, a round trip before `now`, and has been silent
    /// since. At the very beginning its ends live a round trip ahead, or they would have learned
    /// that there is none.
    pub(crate) fn open_before(
        &mut self,
        hosts: &Hosts,
        now: Time,
        round_trip: Time,
        pair: [u32; 2],
        lane: u8,
    ) -> u32 {
        let [from, to] = pair;
        let first = self.open(hosts, from, to, lane) as usize;
        let now = now.max(round_trip);
        let began = now - round_trip;
        let halfway = began + Time::from_picos(round_trip.as_picos() / 2);
        let [began, halfway, now] = [began, halfway, now].map(Time::instant);
        let isn = self.ends[first + 1].hash;
        let client = self.ends[first].endpoint.as_mut().expect("its SYN is due");
        let syn = opening(client, began).expect("its SYN is due");
        let mut server = Endpoint::accept_shared(self.config.clone(), isn, &syn);
        while let Some(segment) = opening(&mut server, halfway) {
            client.handle(now, &segment, false);
        }
        while let Some(segment) = opening(client, now) {
            server.handle(now, &segment, false);
        }
        self.ends[first + 1].endpoint = Some(server);
        first as u32
    }

    /// Writes a message into a connection; who hears of its arrival, and in which words, is in
    /// `note`.
    pub(crate) fn write<L: EventList<Event>>(
        &mut self,
        clock: &mut Clock<L>,
        packets: &mut Packets,
        hosts: &Hosts,
        number: u32,
        bytes: u64,
        note: Note,
    ) {
        let position = self.ends[number as usize].written + bytes;
        self.ends[number as usize ^ 1].expect(position, note);
        self.fill(clock, packets, hosts, number, position);
    }

    /// Writes into a connection until so many bytes were written in all. Nobody hears of their
    /// arrival.
    pub(crate) fn fill<L: EventList<Event>>(
        &mut self,
        clock: &mut Clock<L>,
        packets: &mut Packets,
        hosts: &Hosts,
        number: u32,
        position: u64,
    ) {
        let end = &mut self.ends[number as usize];
        if let (Some(endpoint), Some(bytes)) =
            (&mut end.endpoint, position.checked_sub(end.written))
        {
            endpoint.write(bytes);
            end.written = position;
            self.go_on(clock, packets, hosts, number);
        }
    }

    /// Payload that a connection has brought to its other side.
    pub(crate) fn arrived(&self, number: u32) -> u64 {
        self.ends[number as usize ^ 1].endpoint.as_ref().map_or(0, Endpoint::delivered)
    }

    /// Nothing more will be written into a connection by either side.
    pub(crate) fn close<L: EventList<Event>>(
        &mut self,
        clock: &mut Clock<L>,
        packets: &mut Packets,
        hosts: &Hosts,
        number: u32,
    ) {
        self.ends[number as usize ^ 1].closes = true;
        if let Some(endpoint) = &mut self.ends[number as usize].endpoint {
            endpoint.close();
        }
        self.go_on(clock, packets, hosts, number);
    }

    /// A segment has come. What has arrived with it is told to `heard`.
    // The engine has one place where segments do.
    #[inline(always)]
    pub(crate) fn receive<L: EventList<Event>>(
        &mut self,
        clock: &mut Clock<L>,
        packets: &mut Packets,
        hosts: &Hosts,
        handle: Handle,
        heard: &mut Vec<Heard>,
    ) {
        let Packet { load, marked, hash, order, .. } = &packets[handle];
        match load {
            Load::Segment { end, segment } => {
                let number = *end;
                let end = &mut self.ends[number as usize];
                if end.peer != Some(*hash) {
                    // A straggler.
                    packets.remove(handle);
                    return;
                }
                if !end.order.holds(*order) {
                    self.tally.late += 1;
                }
                let endpoint = match &mut end.endpoint {
                    Some(endpoint) => {
                        endpoint.handle(clock.instant(), segment, *marked);
                        Some(endpoint)
                    }
                    None if segment.flags.contains(tcp::Flags::SYN) => {
                        let endpoint =
                            Endpoint::accept_shared(self.config.clone(), end.hash, segment);
                        Some(end.endpoint.insert(endpoint))
                    }
                    None => None,
                };
                packets.remove(handle);
                let Some(endpoint) = endpoint else { return };
                let delivered = endpoint.delivered();
                if end.closes && endpoint.peer_closed() && endpoint.state() == tcp::State::CloseWait
                {
                    endpoint.close();
                }
                if end.next_due <= delivered {
                    end.hear(number, delivered, heard);
                }
                self.go_on(clock, packets, hosts, number);
            }
            &Load::Datagram { flow, bytes } => {
                if !self.senders[flow as usize].order.holds(*order) {
                    self.tally.late += 1;
                }
                packets.remove(handle);
                heard.extend(self.settle(hosts, flow, bytes));
            }
            Load::Report { .. } | Load::Ask { .. } | Load::Notice { .. } => {
                unreachable!("a report goes no further than its host")
            }
        }
    }

    /// A datagram is lost. The machine that it was for is told, if it was the last of its flow.
    pub(crate) fn lose(&mut self, hosts: &Hosts, flow: u32, bytes: u16) -> Option<Heard> {
        let sender = &mut self.senders[flow as usize];
        sender.note.lost = true;
        sender.lost += u64::from(bytes);
        self.settle(hosts, flow, bytes)
    }

    /// A datagram is on its way no more. What is to be told, if it was the last of its flow.
    fn settle(&mut self, hosts: &Hosts, flow: u32, bytes: u16) -> Option<Heard> {
        let sender = &mut self.senders[flow as usize];
        sender.due -= u64::from(bytes);
        if sender.due > 0 {
            return None;
        }
        self.done.push(flow);
        Some(Heard { note: sender.note, at: hosts.machine(sender.to), end: None })
    }

    /// A timer of an endpoint has run out.
    pub(crate) fn timer<L: EventList<Event>>(
        &mut self,
        clock: &mut Clock<L>,
        packets: &mut Packets,
        hosts: &Hosts,
        number: u32,
    ) {
        let end = &mut self.ends[number as usize];
        if end.timer_at != clock.now() {
            return;
        }
        end.timer_at = Time::NEVER;
        if let Some(endpoint) = &mut end.endpoint {
            let now = clock.instant();
            if endpoint.next_deadline().is_some_and(|due| due <= now) {
                endpoint.handle_deadline(now);
            }
            self.go_on(clock, packets, hosts, number);
        }
    }

    /// Sends what an endpoint has to send now, and sees to its timers.
    #[inline]
    fn go_on<L: EventList<Event>>(
        &mut self,
        clock: &mut Clock<L>,
        packets: &mut Packets,
        hosts: &Hosts,
        number: u32,
    ) {
        let end = &mut self.ends[number as usize];
        let Some(endpoint) = &mut end.endpoint else { return };
        let now = clock.instant();
        let mut burst = Queue::default();
        while let Some(segment) = endpoint.poll_transmit(now) {
            let bytes = IP + segment.header_bytes() + u32::from(segment.len) + self.encapsulation;
            let load = Load::Segment { end: number ^ 1, segment };
            let packet = Packet::new(bytes, end.to, end.hash, end.lane, segment.ecn_capable, load);
            let handle = packets.insert(packet.numbered(end.order.next()));
            burst.push(packets, handle);
        }
        if let Some(burst) = Burst::of(&burst) {
            hosts.emit(clock, end.machine, burst);
        }
        match endpoint.next_deadline() {
            Some(due) if endpoint.state() != tcp::State::TimeWait => {
                let due = Time::from(due).max(clock.now());
                if due < end.timer_at {
                    end.timer_at = due;
                    clock.at(due, Maker(hosts.host_of(end.machine)), Event::Timer { end: number });
                }
            }
            _ if is_over(endpoint) => self.bury(number),
            _ => {}
        }
    }

    /// A side is over; when both are, their places are free.
    #[cold]
    fn bury(&mut self, number: u32) {
        let first = (number & !1) as usize;
        let pair = &mut self.ends[first..first + 2];
        if !pair.iter().all(|end| end.endpoint.as_ref().is_some_and(is_over)) {
            return;
        }
        for end in pair {
            if let Some(endpoint) = end.endpoint.take() {
                self.tally.add(&endpoint.stats());
            }
            end.peer = None;
        }
        self.closed.push(first as u32);
    }

    /// Begins a flow of datagrams: its number.
    pub(crate) fn pour<L: EventList<Event>>(
        &mut self,
        clock: &mut Clock<L>,
        hosts: &Hosts,
        pour: Pour,
    ) -> u32 {
        let from = pour.from;
        let due = pour.bytes.unwrap_or(u64::MAX);
        let flow = self.add(hosts, pour, due);
        clock.at(clock.now(), Maker(hosts.host_of(from)), Event::Pace { flow });
        flow
    }

    /// Begins a flow of datagrams that has no end, and sends what it is [fed](Self::feed): its
    /// number.
    pub(crate) fn open_source(&mut self, hosts: &Hosts, pour: Pour) -> u32 {
        self.add(hosts, Pour { bytes: Some(0), ..pour }, u64::MAX)
    }

    /// Has a flow one more datagram to send.
    pub(crate) fn feed<L: EventList<Event>>(
        &mut self,
        clock: &mut Clock<L>,
        hosts: &Hosts,
        flow: u32,
    ) {
        let Sender { machine, datagram, left, .. } = &mut self.senders[flow as usize];
        let left = left.as_mut().expect("a source sends what it is fed");
        let is_idle = *left == 0;
        *left += u64::from(*datagram);
        if is_idle {
            clock.at(clock.now(), Maker(hosts.host_of(*machine)), Event::Pace { flow });
        }
    }

    /// Payload that a flow was fed and has not sent.
    pub(crate) fn queued(&self, flow: u32) -> u64 {
        self.senders[flow as usize].left.unwrap_or(0)
    }

    /// Gives a flow of datagrams a place, with so many bytes that are to arrive.
    fn add(&mut self, hosts: &Hosts, pour: Pour, due: u64) -> u32 {
        self.opened += 1;
        let Pour { from, to, lane, datagram, gap, bytes, stop, note } = pour;
        let sender = Sender {
            machine: from,
            to: hosts.target(to),
            hash: hash::murmur32(self.opened),
            lane,
            datagram,
            gap,
            left: bytes,
            stop,
            due,
            lost: 0,
            note,
            order: Order::default(),
        };
        match self.done.pop() {
            Some(flow) => {
                self.senders[flow as usize] = sender;
                flow
            }
            None => {
                self.senders.push(sender);
                self.senders.len() as u32 - 1
            }
        }
    }

    /// Payload that a flow of datagrams without end has brought.
    pub(crate) fn poured(&self, flow: u32) -> u64 {
        let Sender { due, lost, .. } = self.senders[flow as usize];
        u64::MAX - due - lost
    }

    /// A flow's next datagram is due. It waits where a socket would block.
    pub(crate) fn pace<L: EventList<Event>>(
        &mut self,
        clock: &mut Clock<L>,
        packets: &mut Packets,
        hosts: &mut Hosts,
        flow: u32,
    ) {
        let Sender {
            machine,
            to,
            hash,
            lane,
            datagram,
            gap,
            stop,
            ref mut left,
            ref mut order,
            ..
        } = self.senders[flow as usize];
        if left.is_none() && clock.now() > stop {
            return;
        }
        if hosts.would_block(machine, to.host, lane, hash) {
            hosts.wait(machine, to.host, lane, hash, flow);
            return;
        }
        let (maker, turn) = (Maker(hosts.host_of(machine)), hosts.turn(machine));
        if turn > clock.now() {
            clock.at(turn, maker, Event::Pace { flow });
            return;
        }
        let bytes = left.map_or(datagram, |left| left.min(u64::from(datagram)) as u16);
        let load = Load::Datagram { flow, bytes };
        let length = IP + UDP + u32::from(bytes) + self.encapsulation;
        let packet = Packet::new(length, to, hash, lane, false, load);
        let handle = packets.insert(packet.numbered(order.next()));
        hosts.emit(clock, machine, Burst(handle));
        self.tally.datagrams += 1;
        if let Some(left) = left {
            *left -= u64::from(bytes);
        }
        if *left != Some(0) {
            clock.at(clock.now() + gap, maker, Event::Pace { flow });
        }
    }

    /// How many sides there are places for.
    #[cfg(test)]
    pub(crate) fn places(&self) -> usize {
        self.ends.len()
    }

    /// The machine that has sent what is under way.
    pub(crate) fn sender(&self, load: &Load) -> u32 {
        match load {
            Load::Segment { end, .. } => self.ends[*end as usize ^ 1].machine,
            Load::Datagram { flow, .. } => self.senders[*flow as usize].machine,
            Load::Report { from, .. } | Load::Ask { from, .. } | Load::Notice { from, .. } => *from,
        }
    }

    /// What all endpoints did, those that are gone included.
    pub(crate) fn total(&self) -> Tally {
        let mut total = self.tally;
        for endpoint in self.ends.iter().filter_map(|end| end.endpoint.as_ref()) {
            total.add(&endpoint.stats());
        }
        total
    }
}

impl End {
    /// A message is on its way to this side, which ends so far into the stream: behind all others.
    fn expect(&mut self, position: u64, note: Note) {
        if self.next_due == u64::MAX {
            (self.next_due, self.next_note) = (position, note);
        } else {
            debug_assert!(self.due.back().map_or(self.next_due, |(last, _)| *last) <= position);
            self.due.push_back((position, note));
        }
    }

    /// Tells of the messages that have arrived with so much of the stream at this side, which has
    /// this number.
    fn hear(&mut self, number: u32, delivered: u64, heard: &mut Vec<Heard>) {
        while self.next_due <= delivered {
            heard.push(Heard { note: self.next_note, at: self.machine, end: Some(number) });
            (self.next_due, self.next_note) =
                self.due.pop_front().unwrap_or((u64::MAX, self.next_note));
        }
    }
}

impl Tally {
    fn add(&mut self, stats: &tcp::Stats) {
        self.segments += stats.sent;
        self.retransmitted += u64::from(stats.retransmitted);
        self.probes += u64::from(stats.tail_copies);
        self.timeouts += u64::from(stats.timeouts);
    }
}

/// The next segment of a handshake: away from those that there are many of.
#[inline(never)]
fn opening(endpoint: &mut Endpoint, now: units::Instant) -> Option<tcp::Segment> {
    endpoint.poll_transmit(now)
}

/// Whether a side is closed, as far as it knows itself. It need not wait for stragglers: they are
/// told by their hash.
fn is_over(endpoint: &Endpoint) -> bool {
    matches!(endpoint.state(), tcp::State::Closed | tcp::State::TimeWait)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[cfg(target_pointer_width = "64")]
    fn sides_use_all_of_a_cache() {
        let lines = size_of::<End>() / 64;
        assert!(
            lines % 2 == 1,
            "with {lines} lines, half of a cache's sets or more would stay empty: add or save one"
        );
    }
}
