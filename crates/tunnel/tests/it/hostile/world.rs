//! Two ends, the hosts behind them, and the fabric between.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::net::Ipv6Addr;
use std::num::NonZeroU16;

use proptest::prop_assert;
use proptest::test_runner::TestCaseError;
use tunnel::grants::{Downlink, Grants};
use tunnel::message::Message;
use tunnel::quota::{Claim, Quota};
use tunnel::{
    Admission, Answer, Arrival, Counters, Data, Epoch, Lane, Payload, Report, Session,
    SessionConfig, Stream,
};
use units::{Class, ClassSet, Instant, Rate, Rng, Span};

/// Bytes of each stream that may wait at its receiver.
pub const WINDOW: u32 = tunnel::MAX_FRAME_LEN;

/// More frames than there are.
pub const PLACES: u32 = 1 << 20;

/// How long the fabric is bad.
const BAD: Span = Span::from_secs(3);

/// By then, all of it at the latest is over. Probes come once a second, and there are a few of them
/// in a row.
const OVER: Span = Span::from_secs(60);

/// How much greater a receiver's label is once it has moved. Its class is the same.
pub const MOVED: u32 = 64;

const LEN: [u16; 4] = [60, 300, 1000, 1446];

/// What the fabric does, in thousandths.
#[derive(Clone, Copy, Debug)]
pub struct Fabric {
    pub lost: u32,
    pub repeated: u32,
    pub late: u32,
    pub marked: u32,
    /// How often somebody sends a packet again that he has seen at any time.
    pub replayed: u32,
    /// How often somebody sends a packet that he has made of one that he has seen lately.
    pub forged: u32,
    pub delay: Span,
    pub jitter: Span,
    /// How many packets are underway one way at most.
    pub grant: usize,
}

#[derive(Clone, Copy, Debug)]
enum Withdrawal {
    /// Every third frame's sender takes it back.
    Thirds,
    /// All are given up.
    All,
}

#[derive(Clone, Debug)]
enum Packet {
    Frame { data: Data, number: Option<u32>, marked: bool, report: Option<Report> },
    Word(Message),
}

/// A frame that goes out: its stream and its number in it.
type Frame = (u32, u32);

/// A frame that has come: whose place it has, if its stream is repaired, its number in its stream
/// and its length.
type Came = (Option<Stream>, u32, u32);

/// What waits for each receiver: from whom, and where in the stream it begins.
type Queues = BTreeMap<u32, VecDeque<(Epoch, u64, Came)>>;

/// What a stream's sender still has: numbers and lengths.
#[derive(Default)]
struct Ring {
    frames: VecDeque<(u32, NonZeroU16)>,
    /// The first that was not sent.
    next: usize,
    /// The label that its receiver has now.
    moved_to: Option<u32>,
    /// What has come back because the receiver was away. Nothing is sent before all else has ended.
    back: VecDeque<(u32, NonZeroU16)>,
    /// What is sent next is behind nothing that was given back.
    is_anew: bool,
}

struct Host {
    session: Session<Frame, Came>,
    /// How many times it has begun.
    begun: u32,
    /// By stream.
    rings: BTreeMap<u32, Ring>,
    queues: Queues,
    /// What each receiver has taken.
    consumed: BTreeMap<u32, Vec<u32>>,
    ready_at: BTreeMap<u32, Instant>,
    stalled: Option<u32>,
    /// Where frames lie until they are taken.
    places: Quota<Stream, u32>,
    /// Who waited for a place and was looked at last.
    looked_at: Option<Stream>,
    /// Grants credit for the link here, if streams share it.
    grants: Option<Grants<Stream>>,
}

pub struct World {
    now: Instant,
    fabric: Fabric,
    rng: Rng,
    hosts: [Host; 2],
    streams: u32,
    classes: Classes,
    /// Bytes of each stream that may wait at its receiver.
    window: u32,
    /// Frames for which each end has memory.
    places: u32,
    slow: Option<Span>,
    /// When each packet arrives, in order of that and of sending.
    underway: BTreeMap<(Instant, u64), (usize, Packet)>,
    count: u64,
    /// What somebody has seen who replays it.
    seen: Vec<(usize, Packet)>,
    cut: Option<(Instant, Instant)>,
    restarts: Vec<(Instant, usize)>,
    /// How many of them have been.
    restarted: usize,
    /// When an end's senders take back every third frame that was sent, or it gives up all.
    withdrawal: Option<(Instant, usize, Withdrawal)>,
    /// Of what its receivers could take, how much they refuse, in thousandths.
    refuses: u32,
    /// What was refused, as its senders were told, by sender, stream and number.
    refused: BTreeSet<(usize, u32, u32)>,
    /// From when on receivers of these labels are known to their hosts, if they are not yet.
    known_at: BTreeMap<u32, Instant>,
    /// The receiver with this label has moved by then, at the second end: there it has another.
    moves: Option<(u32, Instant)>,
    /// When the receiver with this label, at the second end, is elsewhere.
    away: Vec<(u32, [Instant; 2])>,
    /// Frames that are behind nothing that was given back: their streams and where they begin.
    anew: BTreeSet<(u32, u32)>,
    /// What was taken back or given up, by sender, stream and number.
    withdrawn: BTreeSet<(usize, u32, u32)>,
    offered: [u32; 2],
    /// By stream: how many frames were sent again.
    pub retransmitted: BTreeMap<u32, u32>,
    /// How many reports were sent, and how many of them went with frames.
    pub reports: u32,
    pub ridden: u32,
    /// How many frames had a place only because others waited for them.
    pub awaited: u32,
}

/// What holds for which classes. Each stream has one of its own: that of its label.
#[derive(Clone, Copy, Debug)]
pub struct Classes {
    pub reliable: ClassSet,
    pub credit: ClassSet,
}

impl Classes {
    /// All are repaired, and have credit.
    pub const REPAIRED: Self = Self { reliable: ClassSet::ALL, credit: ClassSet::ALL };

    /// All have credit alone.
    pub const UNREPAIRED: Self = Self { reliable: ClassSet::NONE, credit: ClassSet::ALL };
}

fn config(Classes { reliable, credit }: Classes, stream_window: u32) -> SessionConfig {
    SessionConfig {
        is_granted: false,
        unsolicited: 3000,
        stream_window,
        max_in_flight: 200_000,
        max_frames: 300,
        max_streams: 8,
        datagram: 1500,
        reliable,
        credit,
    }
}

/// Streams are of three networks.
fn lane(label: u32) -> Lane {
    Lane((label % 3) as u16)
}

fn stream(label: u32) -> Stream {
    Stream { label, class: Class::from_low_bits(label as u8) }
}

/// Draws the incarnations of a host that has begun so many times.
fn incarnations(host: usize, begun: u32) -> Rng {
    Rng::new((host as u64 + 1) << 32 | u64::from(begun))
}

impl Host {
    fn new(host: usize, now: Instant, classes: Classes) -> Self {
        Self {
            session: Session::new(now, config(classes, WINDOW), incarnations(host, 1)),
            begun: 1,
            rings: BTreeMap::new(),
            queues: BTreeMap::new(),
            consumed: BTreeMap::new(),
            ready_at: BTreeMap::new(),
            stalled: None,
            places: Quota::new(PLACES),
            looked_at: None,
            grants: None,
        }
    }

    /// Has streams sent further, as far as the link lets them.
    fn grant(&mut self, now: Instant) {
        let Self { session, grants: Some(grants), .. } = self else { return };
        while let Some(grant) = grants.next(now) {
            session.grant(grant.stream, grant.limit);
        }
    }

    /// Has a stream go on that waits for memory, if there is some for it.
    fn memory_available(&mut self, stream: Stream) {
        if self.session.is_nacking(stream) && self.places.welcomes(stream, None) {
            self.session.memory_available(stream);
        }
    }

    /// A receiver has taken a frame: whoever waits for memory has its turn.
    fn free(&mut self, stream: Option<Stream>) {
        self.places.put(stream, group(stream));
        self.looked_at = self.session.next_nacking(self.looked_at);
        self.looked_at.into_iter().for_each(|stream| self.memory_available(stream));
    }
}

/// Each reliable stream is a group of its own, and all others are one.
fn group(stream: Option<Stream>) -> [u32; 2] {
    [stream.map_or(0, |stream| stream.label + 1); 2]
}

/// What came waits for its receiver.
fn queue(queues: &mut Queues, places: &mut Quota<Stream, u32>, arrival: Arrival<Came>) {
    match arrival {
        Arrival::Deliver { stream, from, offset, frame } => {
            queues.entry(stream.label).or_default().push_back((from, offset, frame));
        }
        Arrival::Release((whose, ..)) => places.put(whose, group(whose)),
        Arrival::Gap { .. } => {}
    }
}

/// Whether a receiver refuses a frame, of which so many thousandths are: the same whenever it
/// comes.
fn is_refused(thousandths: u32, label: u32, number: u32) -> bool {
    Rng::new(u64::from(label) << 32 | u64::from(number)).below(1000) < thousandths.into()
}

/// The far receiver has a frame, or gives it back: its sender has its place back. What was refused.
fn end_of(
    rings: &mut BTreeMap<u32, Ring>,
    (label, number): Frame,
    answer: Option<Answer>,
) -> Option<Frame> {
    let ring = rings.get_mut(&label).unwrap();
    let frame = ring.frames.pop_front().unwrap();
    assert_eq!(frame.0, number, "they end in order");
    ring.next -= 1;
    match answer {
        None => None,
        Some(Answer::Moved { label: same, .. }) if same == label => {
            ring.back.push_back(frame);
            None
        }
        Some(Answer::Moved { label: new, .. }) => {
            ring.moved_to = Some(new);
            rings.entry(new).or_default().frames.push_back(frame);
            None
        }
        Some(answer) => {
            assert_eq!(answer, Answer::Refused(number as u16));
            Some((label, number))
        }
    }
}

impl World {
    pub fn new(seed: u64, fabric: Fabric, streams: u32, classes: Classes) -> Self {
        let now = Instant::ZERO + Span::from_micros(1);
        Self {
            now,
            fabric,
            rng: Rng::new(seed),
            hosts: [Host::new(0, now, classes), Host::new(1, now, classes)],
            streams,
            classes,
            window: WINDOW,
            places: PLACES,
            slow: None,
            underway: BTreeMap::new(),
            count: 0,
            seen: Vec::new(),
            cut: None,
            restarts: Vec::new(),
            restarted: 0,
            withdrawal: None,
            refuses: 0,
            refused: BTreeSet::new(),
            known_at: BTreeMap::new(),
            moves: None,
            away: Vec::new(),
            anew: BTreeSet::new(),
            withdrawn: BTreeSet::new(),
            offered: [0; 2],
            retransmitted: BTreeMap::new(),
            reports: 0,
            ridden: 0,
            awaited: 0,
        }
    }

    pub fn slow(&mut self, slow: Option<Span>) {
        self.slow = slow;
    }

    /// Each end grants its streams credit for a link of this rate.
    pub fn share(&mut self, rate: Rate) {
        for (number, host) in self.hosts.iter_mut().enumerate() {
            let config = SessionConfig { is_granted: true, ..config(self.classes, self.window) };
            host.session = Session::new(self.now, config, incarnations(number, 1));
            host.grants =
                Some(Grants::new(Downlink { rate, datagram: 1500, latency: Span::from_millis(5) }));
        }
    }

    /// So many bytes of each stream may wait at its receiver.
    pub fn widen(&mut self, window: u32) {
        self.window = window;
        for (number, host) in self.hosts.iter_mut().enumerate() {
            host.session =
                Session::new(self.now, config(self.classes, window), incarnations(number, 1));
        }
    }

    /// Each end has memory for so many frames.
    pub fn remember(&mut self, places: u32) {
        self.places = places;
        self.hosts.iter_mut().for_each(|host| host.places = Quota::new(places));
    }

    /// Of a thousand frames, receivers refuse so many.
    pub fn refuse(&mut self, thousandths: u32) {
        self.refuses = thousandths;
    }

    /// Hosts know receivers with this label only after so long.
    pub fn know_at(&mut self, label: u32, at: Span) {
        self.known_at.insert(label, self.now + at);
    }

    /// The second end's receiver with this label moves after so long.
    pub fn move_at(&mut self, label: u32, at: Span) {
        self.moves = Some((label, self.now + at));
    }

    /// The same receiver goes after so long, and is back after so long.
    pub fn leave_at(&mut self, label: u32, at: [Span; 2]) {
        self.away.push((label, at.map(|at| self.now + at)));
    }

    pub fn stall(&mut self, label: Option<u32>) {
        self.hosts.iter_mut().for_each(|host| host.stalled = label);
    }

    /// So many frames are there to be sent by one end, its streams in turn.
    pub fn offer(&mut self, from: usize, frames: u32) {
        self.offer_of(from, frames, &LEN);
    }

    /// The same, each as long as one of these.
    pub fn offer_of(&mut self, from: usize, frames: u32, lengths: &[u16]) {
        self.offered[from] = frames;
        for number in 0..frames {
            let len =
                NonZeroU16::new(lengths[self.rng.below(lengths.len() as u64) as usize]).unwrap();
            let ring = self.hosts[from].rings.entry(number % self.streams).or_default();
            ring.frames.push_back((number / self.streams, len));
        }
    }

    pub fn cut_at(&mut self, at: Span, long: Span) {
        self.cut = Some((self.now + at, self.now + at + long));
    }

    pub fn restart_at(&mut self, end: usize, at: Span) {
        self.restarts.push((self.now + at, end));
        self.restarts.sort();
    }

    pub fn withdraw_at(&mut self, end: usize, at: Span) {
        self.withdrawal = Some((self.now + at, end, Withdrawal::Thirds));
    }

    pub fn abandon_at(&mut self, end: usize, at: Span) {
        self.withdrawal = Some((self.now + at, end, Withdrawal::All));
    }

    fn withdraw(&mut self, end: usize, withdrawal: Withdrawal) {
        let Host { session, rings, .. } = &mut self.hosts[end];
        let mut taken_back = BTreeSet::new();
        match withdrawal {
            Withdrawal::Thirds => session.withdraw(|frame| {
                let is_third = frame.1.is_multiple_of(3);
                taken_back.extend(is_third.then_some(frame));
                is_third
            }),
            Withdrawal::All => session.abandon(None, |frame| assert!(taken_back.insert(frame))),
        }
        for (label, ring) in rings {
            let sent = ring.frames.drain(..ring.next);
            let (gone, kept): (Vec<_>, Vec<_>) =
                sent.partition(|(number, _)| taken_back.contains(&(*label, *number)));
            ring.next = kept.len();
            kept.into_iter().rev().for_each(|frame| ring.frames.push_front(frame));
            self.withdrawn.extend(gone.into_iter().map(|(number, _)| (end, *label, number)));
        }
    }

    fn is_bad(&self) -> bool {
        self.now < Instant::ZERO + BAD
    }

    fn chance(&mut self, thousandths: u32) -> bool {
        self.is_bad() && self.rng.below(1000) < thousandths.into()
    }

    fn carry(&mut self, to: usize, mut packet: Packet) {
        let is_cut = self.cut.is_some_and(|(from, until)| (from..until).contains(&self.now));
        let is_full = self.is_bad()
            && self.underway.values().filter(|(its, _)| *its == to).count() >= self.fabric.grant;
        let copies = 1 + u32::from(self.chance(self.fabric.repeated));
        for _ in 0..copies {
            if is_cut || is_full || self.chance(self.fabric.lost) {
                continue;
            }
            if let Packet::Frame { marked, .. } = &mut packet {
                *marked = false;
            }
            if self.chance(self.fabric.marked)
                && let Packet::Frame { marked, .. } = &mut packet
            {
                *marked = true;
            }
            let late = if self.chance(self.fabric.late) {
                Span::from_nanos(self.rng.below(self.fabric.jitter.as_nanos() + 1))
            } else {
                Span::ZERO
            };
            self.count += 1;
            self.underway
                .insert((self.now + self.fabric.delay + late, self.count), (to, packet.clone()));
        }
        self.replay(to, packet);
    }

    /// Somebody sees a packet, and may send it again, or one that he saw earlier.
    fn replay(&mut self, to: usize, packet: Packet) {
        if self.fabric.replayed + self.fabric.forged == 0 {
            return;
        }
        self.seen.push((to, packet));
        if self.chance(self.fabric.forged) {
            let lately = self.seen.len().min(50);
            let at = self.seen.len() - 1 - self.rng.below(lately as u64) as usize;
            let (to, mut packet) = self.seen[at].clone();
            self.forge(&mut packet);
            self.count += 1;
            self.underway.insert((self.now + self.fabric.delay, self.count), (to, packet));
        }
        if self.chance(self.fabric.replayed) {
            let at = self.rng.below(self.seen.len() as u64) as usize;
            self.count += 1;
            self.underway.insert((self.now + self.fabric.delay, self.count), self.seen[at].clone());
        }
    }

    /// Somebody makes another packet of one.
    fn forge(&mut self, packet: &mut Packet) {
        let mut change = |number: &mut u32, most: u64| {
            *number =
                number.wrapping_add(self.rng.below(2 * most) as u32).wrapping_sub(most as u32);
        };
        match packet {
            Packet::Frame { data, .. } => {
                let mut len = data.len.get().into();
                change(&mut len, 1000);
                data.len = NonZeroU16::new(len as u16 % 1500).unwrap_or(data.len);
                change(&mut data.number, 1 << 15);
                change(&mut data.offset, 3000);
            }
            Packet::Word(Message::Report(report)) => {
                report.came.iter_mut().for_each(|[_, last]| change(last, 100));
                for grant in &mut report.grants {
                    change(&mut grant.consumed, 3000);
                    change(&mut grant.limit, 1 << 20);
                }
                report.nacks.iter_mut().for_each(|nack| change(&mut nack.from, 3000));
                report.window_probes.iter_mut().for_each(|probe| change(&mut probe.sent, 3000));
            }
            Packet::Word(_) => {}
        }
    }

    /// Whoever can do something does it. Whether there is a report that waits for a frame to go
    /// with.
    fn act(&mut self, end: usize) -> bool {
        let now = self.now;
        self.take(end);
        self.hosts[end].grant(now);
        loop {
            let Host { session, queues, places, grants, .. } = &mut self.hosts[end];
            let epoch = session.epoch();
            session.handle_timeout(now, |arrival| queue(queues, places, arrival));
            if let Some(grants) = grants.as_mut().filter(|_| session.epoch() != epoch) {
                grants.forget(|_| true);
            }
            let Some((frame, data)) = session.retransmit(now) else { break };
            *self.retransmitted.entry(data.stream.label).or_default() += 1;
            let number = frame.map(|(_, number)| number);
            self.carry(1 - end, Packet::Frame { data, number, marked: false, report: None });
        }
        let labels: Vec<_> = self.hosts[end].rings.keys().copied().collect();
        for label in labels {
            while let Some(packet) = self.send_one(end, label) {
                self.carry(1 - end, packet);
            }
        }
        let waits = self.rng.below(2) == 0 && self.hosts[end].session.may_piggyback();
        let poll = if waits { Session::poll_urgent } else { Session::poll_transmit };
        while let Some(message) = poll(&mut self.hosts[end].session, now) {
            self.reports += u32::from(matches!(message, Message::Report(_)));
            self.carry(1 - end, Packet::Word(message));
        }
        waits
    }

    fn send_one(&mut self, end: usize, label: u32) -> Option<Packet> {
        let Host { session, rings, .. } = &mut self.hosts[end];
        // What a receiver gets under its new label comes behind all that it may get under the old.
        if let Some(old) = label.checked_sub(MOVED).and_then(|old| rings.get_mut(&old)) {
            if old.next > 0 {
                return None;
            }
            let rest = std::mem::take(&mut old.frames);
            rings.get_mut(&label)?.frames.extend(rest);
        }
        let ring = rings.get_mut(&label).filter(|ring| ring.moved_to.is_none())?;
        if !ring.back.is_empty() {
            if ring.next > 0 {
                return None;
            }
            ring.back.append(&mut ring.frames);
            ring.frames = std::mem::take(&mut ring.back);
            ring.is_anew = true;
        }
        let (number, len) = *ring.frames.get(ring.next)?;
        if session.admit(lane(label), stream(label), len, false) != Admission::Go {
            return None;
        }
        let kept = session.outstanding();
        let data = session.send(self.now, stream(label), len, (label, number));
        if std::mem::take(&mut ring.is_anew) {
            self.anew.insert((label, data.offset));
        }
        let is_reliable = self.classes.reliable.contains(stream(label).class);
        assert_eq!(session.outstanding() - kept, usize::from(is_reliable));
        if is_reliable {
            ring.next += 1;
        } else {
            ring.frames.pop_front();
        }
        let report =
            if self.rng.below(2) == 0 { session.piggyback(stream(label).class) } else { None };
        self.ridden += u32::from(report.is_some());
        self.reports += u32::from(report.is_some());
        Some(Packet::Frame { data, number: Some(number), marked: false, report })
    }

    /// Receivers take what waits for them.
    fn take(&mut self, end: usize) {
        let Host { session, queues, consumed, ready_at, stalled, .. } = &mut self.hosts[end];
        let mut freed = Vec::new();
        for (label, queue) in queues.iter_mut().filter(|(label, _)| Some(**label) != *stalled) {
            let ready = ready_at.entry(*label).or_default();
            while *ready <= self.now
                && let Some((from, offset, (whose, number, _))) = queue.pop_front()
            {
                freed.push(whose);
                let has_moved =
                    self.moves.is_some_and(|(it, at)| (end, it) == (1, *label) && at <= self.now);
                let is_anew = self.anew.contains(&(*label, offset as u32));
                let is_away = |(it, [from, until]): &(u32, [Instant; 2])| {
                    it == label && (*from..*until).contains(&self.now)
                };
                let is_away = end == 1 && self.away.iter().any(is_away);
                let behind = session.behind_moved(stream(*label), from, is_anew);
                let host = Ipv6Addr::UNSPECIFIED.into();
                let away = is_away.then_some(Answer::Moved { host, label: *label });
                if let Some(answer) = behind.or(away) {
                    session.give_back(stream(*label), from, offset, answer);
                    continue;
                }
                if has_moved {
                    let host = [192, 0, 2, 9].into();
                    let answer = Answer::Moved { host, label: *label + MOVED };
                    session.give_back(stream(*label), from, offset, answer);
                    continue;
                }
                if whose.is_some() && is_refused(self.refuses, *label, number) {
                    let answer = Answer::Refused(number as u16);
                    session.give_back(stream(*label), from, offset, answer);
                    continue;
                }
                consumed.entry(*label).or_default().push(number);
                session.consumed(stream(*label), from, offset);
                if let Some(slow) = self.slow {
                    *ready = self.now + slow;
                }
            }
        }
        freed.into_iter().for_each(|whose| self.hosts[end].free(whose));
    }

    fn arrive(&mut self, end: usize, packet: Packet) {
        let now = self.now;
        let Host { session, queues, rings, places, .. } = &mut self.hosts[end];
        let epoch = session.epoch();
        let probes = match &packet {
            Packet::Frame { report: Some(report), .. } | Packet::Word(Message::Report(report)) => {
                report.window_probes.clone()
            }
            _ => Vec::new(),
        };
        let came = match &packet {
            Packet::Frame { data, .. } => Some((data.stream, data.len)),
            Packet::Word(_) => None,
        };
        match packet {
            Packet::Frame { data, number, marked, report } => {
                if let Some(report) = report {
                    session.handle_report(now, &report, |frame, answer| {
                        let refused = end_of(rings, frame, answer);
                        self.refused.extend(refused.map(|(label, number)| (end, label, number)));
                    });
                }
                let claim = session.claim(&data);
                let is_favoured =
                    !places.has_for(Claim::Reliable(data.stream), group(Some(data.stream)));
                let brought = match number {
                    None => Payload::Placeholder,
                    Some(_) if self.known_at.contains_key(&data.stream.label) => Payload::NotYet,
                    Some(number) if places.has_for(claim, group(claim.whose())) => {
                        places.take(claim, group(claim.whose()));
                        self.awaited += u32::from(is_favoured && claim.whose().is_some());
                        Payload::Frame((claim.whose(), number, data.len.get().into()))
                    }
                    Some(_) => Payload::NoMemory,
                };
                session.handle_data(now, &data, marked, brought, |arrival| {
                    queue(queues, places, arrival)
                });
            }
            Packet::Word(Message::Hello(hello)) => {
                session.handle_hello(now, &hello, |(whose, ..)| places.put(whose, group(whose)));
            }
            Packet::Word(Message::Report(report)) => {
                session.handle_report(now, &report, |frame, answer| {
                    let refused = end_of(rings, frame, answer);
                    self.refused.extend(refused.map(|(label, number)| (end, label, number)));
                });
                report
                    .window_probes
                    .iter()
                    .for_each(|ask| self.hosts[end].memory_available(ask.stream));
            }
            Packet::Word(Message::Data(..)) => unreachable!("it comes with a frame"),
        }
        let Host { session, grants: Some(grants), .. } = &mut self.hosts[end] else { return };
        if session.epoch() != epoch {
            grants.forget(|_| true);
        }
        if let Some((stream, len)) = came {
            grants.arrived(now, u32::from(len.get()) + 80, false);
            if let Some(progress) = session.progress(stream) {
                let network = (stream.label % 2) as u16;
                grants.received(now, stream, network, progress, u32::from(len.get()) + 80);
            }
        }
        for ask in probes {
            if let Some(progress) = session.progress(ask.stream) {
                grants.asked(now, ask.stream, progress);
            }
        }
    }

    /// An end forgets everything but what its senders still have, and what its receivers have
    /// taken.
    fn restart(&mut self, end: usize) {
        let (now, config) = (self.now, config(self.classes, self.window));
        self.restarted += 1;
        let host = &mut self.hosts[end];
        let config = SessionConfig { is_granted: host.grants.is_some(), ..config };
        if let Some(grants) = &mut host.grants {
            grants.forget(|_| true);
        }
        host.begun += 1;
        host.session = Session::new(now, config, incarnations(end, host.begun));
        host.rings.values_mut().for_each(|ring| ring.next = 0);
        host.queues.clear();
        host.places = Quota::new(self.places);
    }

    fn step(&mut self, until: Instant) -> bool {
        let waits = (0..2).fold(false, |waits, end| self.act(end) | waits);
        let ready = self.hosts.iter().flat_map(|host| {
            let waiting = host
                .queues
                .iter()
                .filter(|(label, queue)| Some(**label) != host.stalled && !queue.is_empty());
            waiting.map(|(label, _)| host.ready_at.get(label).copied().unwrap_or_default())
        });
        let due = self.hosts.iter().filter_map(|host| host.session.deadline()).chain(ready);
        let due = due
            .chain(self.restarts.first().map(|(at, _)| *at))
            .chain(self.known_at.values().copied())
            .chain(self.withdrawal.map(|(at, ..)| at));
        let granted = self.hosts.iter().filter_map(|host| host.grants.as_ref()?.ready_at(self.now));
        let due = due.chain(granted);
        let due = due.chain(waits.then(|| self.now + Span::from_micros(20)));
        let next = due.chain(self.underway.keys().next().map(|(at, _)| *at)).min();
        let Some(next) = next.filter(|next| *next <= until) else { return false };
        // Whatever is late is due now, and time goes on.
        self.now = next.max(self.now + Span::from_nanos(1));
        while let Some((at, end)) = self.restarts.first().copied()
            && at <= self.now
        {
            self.restarts.remove(0);
            self.restart(end);
        }
        let unknown = self.known_at.len();
        self.known_at.retain(|_, at| *at > self.now);
        if self.known_at.len() < unknown {
            self.hosts.iter_mut().for_each(|host| host.session.look_again());
        }
        if let Some((_, end, withdrawal)) = self.withdrawal.take_if(|(at, ..)| *at <= self.now) {
            self.withdraw(end, withdrawal);
        }
        while let Some(entry) = self.underway.first_entry()
            && entry.key().0 <= self.now
        {
            let (end, packet) = entry.remove();
            self.arrive(end, packet);
        }
        true
    }

    pub fn run_for(&mut self, long: Span) {
        let until = self.now + long;
        while self.step(until) {}
    }

    fn is_done(&self) -> bool {
        self.restarts.is_empty()
            && self.hosts.iter().all(|host| {
                host.rings.values().all(|ring| ring.frames.is_empty() && ring.back.is_empty())
                    && host.queues.values().all(VecDeque::is_empty)
            })
    }

    /// Until all is delivered and its senders know.
    pub fn run(&mut self) -> Result<(), TestCaseError> {
        let until = Instant::ZERO + OVER;
        let mut steps = 0_u64;
        while !self.is_done() || !self.underway.is_empty() {
            steps += 1;
            if !self.step(until) && !self.is_done() || steps > 2_000_000 {
                let left =
                    |host: &Host| host.rings.values().map(|ring| ring.frames.len()).sum::<usize>();
                return Err(TestCaseError::fail(format!(
                    "it stands still at {:?} after {steps} steps: {:?} frames are not known to be consumed, {:?}",
                    self.now,
                    self.hosts.each_ref().map(left),
                    self.hosts.each_ref().map(|host| host.session.counters()),
                )));
            }
        }
        Ok(())
    }

    /// The last frame that a receiver has taken.
    pub fn last_taken(&self, end: usize, label: u32) -> Option<u32> {
        self.hosts[end].consumed.get(&label)?.last().copied()
    }

    /// How an end's session has fared.
    pub fn counters(&self, end: usize) -> Counters {
        self.hosts[end].session.counters()
    }

    /// Bytes that wait for a receiver.
    pub fn waiting(&self, end: usize, label: u32) -> u32 {
        self.hosts[end]
            .queues
            .get(&label)
            .map_or(0, |queue| queue.iter().map(|(.., (_, _, len))| len).sum())
    }

    /// Every frame was taken, in order, and once; or, for each time that an end began anew, again
    /// from some frame on.
    pub fn check(&self) -> Result<(), TestCaseError> {
        self.check_streams(|_| true)
    }

    /// The same of streams of repaired classes; what was taken of others was taken in order, and
    /// once.
    pub fn check_repaired(&self) -> Result<(), TestCaseError> {
        let is_reliable = |label| self.classes.reliable.contains(stream(label).class);
        self.check_streams(is_reliable)?;
        self.check_order(|label| !is_reliable(label))
    }

    fn check_streams(&self, is_checked: impl Fn(u32) -> bool) -> Result<(), TestCaseError> {
        for end in 0..2 {
            for label in (0..self.streams).filter(|label| is_checked(*label)) {
                let sent = (self.offered[1 - end] + self.streams - 1 - label) / self.streams;
                let of = |label| self.hosts[end].consumed.get(&label).into_iter().flatten();
                let consumed: Vec<_> = of(label).chain(of(label + MOVED)).copied().collect();
                if self.restarted == 0 {
                    let both = |number: &u32| self.refused.contains(&(1 - end, label, *number));
                    prop_assert!(!consumed.iter().any(both), "taken, and refused: {consumed:?}");
                }
                let (mut next, mut steps_back) = (0, 0);
                // What was taken back may have come before that.
                let pass = |next: &mut u32, until: u32| {
                    let is_its_senders = |next| {
                        let frames = [&self.withdrawn, &self.refused];
                        let is_in = |it: &BTreeSet<_>| {
                            [label, label + MOVED]
                                .iter()
                                .any(|it_is| it.contains(&(1 - end, *it_is, next)))
                        };
                        frames.into_iter().any(is_in)
                    };
                    while *next < until && is_its_senders(*next) {
                        *next += 1;
                    }
                };
                for &number in &consumed {
                    pass(&mut next, number);
                    steps_back += usize::from(number < next);
                    if number > next || steps_back > self.restarted {
                        return Err(TestCaseError::fail(format!(
                            "{number} came, not {next}, after {} restarts: {consumed:?}",
                            self.restarted
                        )));
                    }
                    next = number + 1;
                }
                pass(&mut next, sent);
                if next != sent {
                    return Err(TestCaseError::fail(format!(
                        "{next} of {sent} frames came on {label}"
                    )));
                }
            }
        }
        Ok(())
    }

    /// What was taken of these streams was taken in order, and once.
    fn check_order(&self, is_checked: impl Fn(u32) -> bool) -> Result<(), TestCaseError> {
        let consumed = self.hosts.iter().flat_map(|host| &host.consumed);
        for (_, consumed) in consumed.filter(|(label, _)| is_checked(**label)) {
            if !consumed.is_sorted_by(|a, b| a < b) {
                return Err(TestCaseError::fail(format!("out of order: {consumed:?}")));
            }
        }
        Ok(())
    }
}
