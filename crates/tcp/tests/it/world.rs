//! Two endpoints, a channel between them that a test describes, and a clock that jumps to whatever
//! happens next.

#![allow(dead_code, reason = "each test uses a part of it")]

use std::collections::BTreeMap;

use tcp::{Config, Endpoint, Flags, Segment};
use units::{Instant, Span};

/// One of the two.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Side {
    Client,
    Server,
}

/// A segment that was sent.
#[derive(Clone, Copy, Debug)]
pub struct Departure {
    pub at: Instant,
    pub from: Side,
    pub segment: Segment,
    /// Which of its sender's segments with payload or FIN it is, from 1; 0 if it has neither.
    pub number: usize,
    pub dropped: bool,
}

/// How a segment passes: a delay for each copy that arrives, and whether it is marked.
pub type Passage = Vec<(Span, bool)>;

/// What the channel does with a segment.
pub type Channel = Box<dyn FnMut(&Departure) -> Passage>;

/// What a referee remembers of one side.
#[derive(Clone, Debug, Default)]
struct Watch {
    /// Its SYN's number.
    isn: u32,
    /// By how many bits the windows it is offered are shifted.
    shift: u8,
    /// Up to which offset of its stream it may send.
    edge: u64,
    /// How far it has sent.
    next: u64,
    numbered: usize,
    /// How many tail loss probes it has sent, which no window holds back.
    probes: u32,
    /// The stretches of the other side's stream that have arrived, by offset.
    heard: BTreeMap<u64, u64>,
}

impl Watch {
    /// The position in this side's stream that a number means: the offset of its byte.
    fn offset(&self, number: u32) -> u64 {
        let offset = number.wrapping_sub(self.isn.wrapping_add(1));
        self.next.wrapping_add_signed(i64::from(offset.wrapping_sub(self.next as u32) as i32))
    }

    /// Books what arrives; returns how much of the stream is there without a gap.
    fn hear(&mut self, start: u64, end: u64) -> u64 {
        let mut whole = (start, end);
        self.heard.retain(|&start, &mut end| {
            let apart = end < whole.0 || whole.1 < start;
            if !apart {
                whole = (whole.0.min(start), whole.1.max(end));
            }
            apart
        });
        self.heard.insert(whole.0, whole.1);
        self.heard.get(&0).copied().unwrap_or(0)
    }
}

pub struct World {
    pub now: Instant,
    pub client: Endpoint,
    pub server: Option<Endpoint>,
    server_config: Config,
    server_isn: u32,
    channel: Channel,
    flying: BTreeMap<(Instant, u64), (Side, Segment, bool)>,
    flown: u64,
    pub log: Vec<Departure>,
    watches: [Watch; 2],
    /// How often applications read, if they do not read at once.
    pub read_every: Option<Span>,
    read_at: Instant,
    most_payload: u16,
}

/// A link with this delay each way, on which what the client sends takes 10 µs and everything else
/// no time.
pub fn steady(delay: Span) -> Channel {
    choosy(delay, |_| true)
}

/// The same, but it drops the client's segments of these numbers, counted over all its
/// transmissions with payload or FIN.
pub fn dropping(delay: Span, numbers: &[usize]) -> Channel {
    let numbers = numbers.to_vec();
    choosy(delay, move |departure| {
        departure.from == Side::Server || !numbers.contains(&departure.number)
    })
}

/// The same, but it drops what `passes` does not hold of.
pub fn choosy(delay: Span, mut passes: impl FnMut(&Departure) -> bool + 'static) -> Channel {
    let mut busy = Instant::ZERO;
    Box::new(move |departure| {
        let mut ready = departure.at;
        if departure.from == Side::Client && departure.segment.len > 0 {
            busy = busy.max(departure.at) + Span::from_micros(10);
            ready = busy;
        }
        if passes(departure) { vec![(ready.since(departure.at) + delay, false)] } else { vec![] }
    })
}

pub const DELAY: Span = Span::from_millis(5);

impl World {
    pub fn new(config: &Config, channel: Channel) -> Self {
        Self::between(config, config, [1000, 5000], channel)
    }

    pub fn between(client: &Config, server: &Config, isns: [u32; 2], channel: Channel) -> Self {
        Self {
            now: Instant::from_nanos(1_000_000_000),
            client: Endpoint::connect(client, isns[0]),
            server: None,
            server_config: *server,
            server_isn: isns[1],
            channel,
            flying: BTreeMap::new(),
            flown: 0,
            log: Vec::new(),
            watches: [Watch::default(), Watch::default()],
            read_every: None,
            read_at: Instant::ZERO,
            most_payload: client.mss.min(server.mss),
        }
    }

    /// A connection that stands, at rest, with its log empty.
    pub fn established(config: &Config, channel: Channel) -> Self {
        let mut world = Self::new(config, channel);
        world.run_until(|world| world.flying.is_empty() && world.client.is_established());
        assert!(world.server().is_established());
        world.log.clear();
        world
    }

    pub fn server(&mut self) -> &mut Endpoint {
        self.server.as_mut().expect("the SYN has arrived")
    }

    pub fn set_channel(&mut self, channel: Channel) {
        self.channel = channel;
    }

    fn end(&mut self, side: Side) -> Option<&mut Endpoint> {
        match side {
            Side::Client => Some(&mut self.client),
            Side::Server => self.server.as_mut(),
        }
    }

    /// Sends what is to be sent.
    pub fn flush(&mut self) {
        for side in [Side::Client, Side::Server] {
            let now = self.now;
            while let Some(segment) = self.end(side).and_then(|end| end.poll_transmit(now)) {
                self.depart(side, segment);
            }
        }
    }

    fn depart(&mut self, from: Side, segment: Segment) {
        self.referee(from, &segment);
        let watch = &mut self.watches[from as usize];
        let counts = segment.len > 0 || segment.flags.contains(Flags::FIN);
        watch.numbered += usize::from(counts);
        let number = if counts { watch.numbered } else { 0 };
        let mut departure = Departure { at: self.now, from, segment, number, dropped: false };
        let passage = (self.channel)(&departure);
        departure.dropped = passage.is_empty();
        self.log.push(departure);
        let to = if from == Side::Client { Side::Server } else { Side::Client };
        for (delay, marked) in passage {
            self.flown += 1;
            self.flying.insert((self.now + delay, self.flown), (to, segment, marked));
        }
    }

    /// Nothing beyond the window, nothing too large, nothing beyond what may be in flight.
    fn referee(&mut self, from: Side, segment: &Segment) {
        let most_payload = self.most_payload;
        let stats = self.end(from).expect("it has sent something").stats();
        let watch = &mut self.watches[from as usize];
        if segment.flags.contains(Flags::SYN) {
            watch.isn = segment.seq;
            return;
        }
        if segment.flags.contains(Flags::RST) {
            return;
        }
        let sack = segment.sack.as_slice().len();
        assert!(sack == 0 || segment.len == 0);
        assert!(
            u32::from(segment.len) + segment.header_bytes() - 20 <= u32::from(most_payload).max(52)
        );
        if segment.sequence_len() == 0 {
            return;
        }
        let seq = watch.offset(segment.seq);
        let end = seq + u64::from(segment.sequence_len());
        assert!(
            end <= watch.edge,
            "{from:?} sends up to {end}, beyond the window's edge {}",
            watch.edge
        );
        if end > watch.next {
            assert_eq!(seq, watch.next, "new data begins where the last ended");
            watch.next = end;
            let probes = stats.tail_probes > watch.probes;
            assert!(stats.in_flight <= stats.cwnd || probes, "{stats:?}");
        }
        watch.probes = stats.tail_probes;
    }

    fn arrive(&mut self, to: Side, segment: Segment, marked: bool) {
        let now = self.now;
        let from = if to == Side::Client { Side::Server } else { Side::Client };
        let heard = self.watches[from as usize].offset(segment.seq);
        let watch = &mut self.watches[to as usize];
        let is_syn = segment.flags.contains(Flags::SYN);
        if let Some(options) = segment.syn {
            watch.shift = options.window_scale.unwrap_or(0);
        }
        if segment.flags.contains(Flags::ACK) && !segment.flags.contains(Flags::RST) {
            let acked = watch.offset(segment.ack);
            let shift = if is_syn { 0 } else { watch.shift };
            watch.edge = watch.edge.max(acked + (u64::from(segment.window) << shift));
        }
        match (to, &mut self.server) {
            (Side::Client, _) => self.client.handle(now, &segment, marked),
            (Side::Server, Some(server)) => server.handle(now, &segment, marked),
            (Side::Server, empty) => {
                if is_syn {
                    *empty = Some(Endpoint::accept(&self.server_config, self.server_isn, &segment));
                }
            }
        }
        self.judge(to, heard, heard + u64::from(segment.len));
    }

    /// Nothing is delivered that has not arrived, nor acknowledged that was not delivered.
    fn judge(&mut self, to: Side, start: u64, end: u64) {
        if start < end {
            let whole = self.watches[to as usize].hear(start, end);
            let delivered = self.end(to).expect("it has received something").delivered();
            assert!(delivered <= whole, "{to:?} delivers {delivered} of {whole} bytes");
        }
        if let Some(server) = &self.server {
            assert!(self.client.acknowledged() <= server.delivered());
            assert!(server.acknowledged() <= self.client.delivered());
        }
    }

    /// Lets the next thing happen; `false` if nothing will.
    pub fn step(&mut self) -> bool {
        self.flush();
        let arrival = self.flying.keys().next().map(|(at, _)| *at);
        let deadlines = [Some(&self.client), self.server.as_ref()];
        let deadline = deadlines.into_iter().flatten().filter_map(Endpoint::next_deadline).min();
        let waiting =
            self.client.unread() > 0 || self.server.as_ref().is_some_and(|end| end.unread() > 0);
        let reading = self.read_every.filter(|_| waiting).map(|_| self.read_at.max(self.now));
        let Some(next) = [arrival, deadline, reading].into_iter().flatten().min() else {
            return false;
        };
        self.now = self.now.max(next);
        let now = self.now;
        if reading == Some(next) {
            for side in [Side::Client, Side::Server] {
                if let Some(end) = self.end(side) {
                    end.read(u64::MAX / 2);
                }
            }
            self.read_at = now + self.read_every.expect("it was time to read");
        } else if arrival == Some(next) {
            let ((_, _), (to, segment, marked)) =
                self.flying.pop_first().expect("there is an arrival");
            self.arrive(to, segment, marked);
        } else {
            for side in [Side::Client, Side::Server] {
                if let Some(end) = self.end(side) {
                    end.handle_deadline(now);
                }
            }
        }
        self.flush();
        true
    }

    /// Runs until `done`. Fails if that takes too long.
    pub fn run_until(&mut self, mut done: impl FnMut(&mut Self) -> bool) {
        self.flush();
        for _ in 0..2_000_000 {
            if done(self) {
                return;
            }
            if !self.step() {
                break;
            }
        }
        if done(self) {
            return;
        }
        let states = (self.client.state(), self.server.as_ref().map(Endpoint::state));
        panic!("it does not end: {states:?}, {:?}", self.client.stats());
    }

    /// Runs until everything that was written is acknowledged.
    pub fn settle(&mut self) {
        self.run_until(|world| {
            let server = world.server.as_ref().map_or(0, Endpoint::unacknowledged);
            world.client.unacknowledged() == 0 && server == 0 && world.flying.is_empty()
        });
    }

    /// Runs for so long, or until nothing happens any more.
    pub fn run_for(&mut self, span: Span) {
        let end = self.now + span;
        loop {
            self.flush();
            let arrival = self.flying.keys().next().map(|(at, _)| *at);
            let deadlines = [Some(&self.client), self.server.as_ref()];
            let deadline =
                deadlines.into_iter().flatten().filter_map(Endpoint::next_deadline).min();
            let next = [arrival, deadline].into_iter().flatten().min();
            if next.is_none_or(|next| next > end) {
                self.now = end;
                return;
            }
            self.step();
        }
    }

    /// What one side has sent.
    pub fn sent_by(&self, side: Side) -> impl Iterator<Item = &Departure> {
        self.log.iter().filter(move |departure| departure.from == side)
    }

    /// The client's segments with payload as `<ms since `start`>:<number of its thousand bytes>`,
    /// `+` behind those that are sent again and `!` behind those that are dropped.
    pub fn data(&self, start: Instant) -> String {
        let isn = self.watches[Side::Client as usize].isn;
        let mut highest = None;
        let mut words = Vec::new();
        for departure in &self.log {
            let segment = &departure.segment;
            let counts = segment.len > 0 || segment.flags.contains(Flags::FIN);
            if departure.from != Side::Client || !counts {
                continue;
            }
            let number = segment.seq.wrapping_sub(isn.wrapping_add(1)) / 1000;
            let again = highest.is_some_and(|highest| number <= highest);
            highest = highest.max(Some(number));
            let ms = departure.at.since(start).as_nanos() / 1_000_000;
            let (again, dropped) =
                (if again { "+" } else { "" }, if departure.dropped { "!" } else { "" });
            words.push(format!("{ms}:{number}{again}{dropped}"));
        }
        words.join(" ")
    }
}
