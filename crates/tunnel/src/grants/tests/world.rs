//! A fabric with one downlink, in steps of a microsecond: senders with links as fast as the
//! receiver's, a queue that is first come, first served, and delays.

use alloc::collections::VecDeque;
use alloc::vec::Vec;

use units::{Instant, Rate, Rng, Span};

use crate::grants::{Downlink, Grants, Progress};

pub const DATAGRAM: u32 = 1400;
/// What the link spends on a datagram besides.
pub const AROUND: u32 = 100;
/// Without queues.
pub const ROUND_TRIP: Span = Span::from_micros(100);
/// How late threads may be.
pub const LATENCY: Span = Span::from_millis(5);
const STEP: Span = Span::from_micros(1);

#[derive(Clone, Copy, Debug)]
pub struct Setting {
    /// Of a hundred.
    pub lost_reports: u64,
    /// What comes without credit, in Mb/s.
    pub unasked: Option<u64>,
    /// The rate of all links, in Mb/s.
    pub mbit: u64,
    /// How late reports may be: hosts have other things to do.
    pub late: Span,
    /// For how long threads of all hosts stand still, each for itself, after they ran for four
    /// times as long in the mean.
    pub stalls: Span,
    pub seed: u64,
}

impl Default for Setting {
    fn default() -> Self {
        let (late, stalls) = (Span::ZERO, Span::ZERO);
        Self { lost_reports: 0, unasked: None, mbit: 1000, late, stalls, seed: 1 }
    }
}

/// What a sender has to send.
#[derive(Clone, Copy, Debug)]
pub enum Demand {
    /// Always more.
    Greedy,
    /// So much of the link.
    Mbit(u64),
    /// All it can for so long, nothing for as long.
    OnOff(Span),
    /// So many bytes.
    Bytes(u64),
}

/// A thread that does not always run.
#[derive(Clone, Copy, Debug)]
struct Thread {
    stops_at: Instant,
    runs_at: Instant,
}

impl Thread {
    fn new(now: Instant) -> Self {
        Self { stops_at: now, runs_at: now }
    }

    /// Whether it runs now.
    fn runs(&mut self, now: Instant, stalls: Span, rng: &mut Rng) -> bool {
        if stalls == Span::ZERO {
            return true;
        }
        if now >= self.runs_at && now >= self.stops_at {
            let runs = Span::from_nanos(rng.below(8 * stalls.as_nanos()) + 1000);
            self.stops_at = now + runs;
            self.runs_at = self.stops_at + stalls;
        }
        now < self.stops_at
    }
}

#[derive(Clone, Debug)]
pub struct Sender {
    network: u16,
    demand: Demand,
    frame: u64,
    thread: Thread,
    began: Instant,
    sent: u64,
    limit: u64,
    free_at: Instant,
    /// Since when the next frame waits for credit.
    waits: Option<Instant>,
    ask_at: Option<Instant>,
    ask_after: Span,
    /// Its bytes without and with what the link spends besides.
    pub delivered: u64,
    pub on_link: u64,
    pub longest_wait: Span,
}

pub struct World {
    pub grants: Grants<usize>,
    pub now: Instant,
    pub senders: Vec<Sender>,
    setting: Setting,
    rng: Rng,
    /// On their way to the queue: when they are there, whose, how far, and bytes on the link.
    flying: VecDeque<(Instant, Option<usize>, u64, u64)>,
    queue: VecDeque<(Option<usize>, u64, u64)>,
    /// What is sent, and when it has arrived.
    serving: Option<(Instant, Option<usize>, u64, u64)>,
    pub queued: u64,
    pub most_queued: u64,
    reports: VecDeque<(Instant, usize, u64)>,
    asks: VecDeque<(Instant, usize, u64)>,
    thread: Thread,
    /// What has arrived while the receiver's thread stood still.
    inbox: Vec<(Option<usize>, u64, u64)>,
    /// What the receiver knows: how far each stream was received, and may be sent.
    streams: Vec<Progress>,
    unasked_at: Instant,
    unasked_bytes: u64,
}

impl World {
    pub fn new(setting: Setting) -> Self {
        let rate = Rate::from_bits_per_sec(setting.mbit * 1_000_000).unwrap();
        Self {
            grants: Grants::new(Downlink { rate, datagram: DATAGRAM, latency: LATENCY }),
            now: Instant::ZERO + Span::from_millis(1),
            senders: Vec::new(),
            setting,
            rng: Rng::new(setting.seed),
            flying: VecDeque::new(),
            queue: VecDeque::new(),
            serving: None,
            queued: 0,
            most_queued: 0,
            reports: VecDeque::new(),
            asks: VecDeque::new(),
            thread: Thread::new(Instant::ZERO + Span::from_millis(1)),
            inbox: Vec::new(),
            streams: Vec::new(),
            unasked_at: Instant::ZERO,
            unasked_bytes: 0,
        }
    }

    pub fn add(&mut self, network: u16, demand: Demand) {
        self.add_with(network, demand, DATAGRAM.into());
    }

    pub fn add_with(&mut self, network: u16, demand: Demand, frame: u64) {
        let limit = self.grants.unsolicited().into();
        self.streams.push(Progress { received: 0, limit });
        self.senders.push(Sender {
            network,
            demand,
            frame,
            thread: Thread::new(self.now),
            began: self.now,
            sent: 0,
            limit,
            free_at: self.now,
            waits: None,
            ask_at: None,
            ask_after: Span::from_millis(1),
            delivered: 0,
            on_link: 0,
            longest_wait: Span::ZERO,
        });
    }

    /// The bytes of a network that have arrived, as the link counts them.
    pub fn delivered(&self, network: u16) -> u64 {
        let senders = self.senders.iter().filter(|sender| sender.network == network);
        senders.map(|sender| sender.on_link).sum()
    }

    /// All of them.
    pub fn delivered_bytes(&self) -> u64 {
        self.senders.iter().map(|sender| sender.on_link).sum::<u64>() + self.unasked_bytes
    }

    pub fn run(&mut self, time: Span) {
        let end = self.now + time;
        while self.now < end {
            self.step();
            self.now += STEP;
        }
    }

    fn step(&mut self) {
        let Self { now, senders, .. } = self;
        let now = *now;
        while let Some((_, who, limit)) = self.reports.pop_front_if(|(at, ..)| *at <= now) {
            let sender = &mut senders[who];
            if limit > sender.limit {
                (sender.limit, sender.ask_after) = (limit, Span::from_millis(1));
                sender.ask_at = sender.ask_at.map(|at| at.min(now + sender.ask_after));
            }
        }
        self.send();
        while let Some((_, who, to, bytes)) = self.flying.pop_front_if(|(at, ..)| *at <= now) {
            self.queue.push_back((who, to, bytes));
            self.queued += bytes;
        }
        self.most_queued = self.most_queued.max(self.queued);
        self.carry();
        if !self.thread.runs(now, self.setting.stalls, &mut self.rng) {
            return;
        }
        let mut inbox = core::mem::take(&mut self.inbox);
        if !inbox.is_empty() {
            inbox.drain(..).for_each(|(who, to, bytes)| self.receive(who, to, bytes));
            self.grant();
        }
        self.inbox = inbox;
        while let Some((_, who, sent)) = self.asks.pop_front_if(|(at, ..)| *at <= now) {
            let progress = &mut self.streams[who];
            progress.received = progress.received.max(sent);
            self.grants.asked(now, who, *progress);
            self.tell(who);
        }
        if self.grants.ready_at(now).is_some_and(|at| at <= now) {
            self.grant();
        }
    }

    /// Lets each sender send what it may.
    fn send(&mut self) {
        let half = Span::from_nanos(ROUND_TRIP.as_nanos() / 2);
        let Self { now, senders, flying, asks, setting, rng, .. } = self;
        let now = *now;
        for (number, sender) in senders.iter_mut().enumerate() {
            let runs = sender.thread.runs(now, setting.stalls, rng);
            if !runs || sender.free_at > now || !sender.has_more(now) {
                continue;
            }
            if sender.sent + sender.frame > sender.limit {
                sender.waits.get_or_insert(now);
                let at = *sender.ask_at.get_or_insert(now + sender.ask_after);
                if at <= now {
                    asks.push_back((now + half, number, sender.sent));
                    let later = 2 * sender.ask_after.as_nanos();
                    sender.ask_after = Span::from_nanos(later).min(Span::from_millis(50));
                    sender.ask_at = Some(now + sender.ask_after);
                }
                continue;
            }
            if let Some(since) = sender.waits.take() {
                sender.longest_wait = sender.longest_wait.max(now.since(since));
            }
            sender.ask_at = None;
            sender.sent += sender.frame;
            let bytes = sender.frame + u64::from(AROUND);
            let takes = Span::from_nanos(bytes * 8000 / setting.mbit);
            sender.free_at = now + takes;
            flying.push_back((now + half, Some(number), sender.sent, bytes));
        }
        let bytes = u64::from(DATAGRAM + AROUND);
        while let Some(mbit) = self.setting.unasked
            && self.unasked_at <= now
        {
            let gap = Span::from_nanos(bytes * 8000 / mbit);
            self.unasked_at = self.unasked_at.max(now) + gap;
            flying.push_back((now + half, None, 0, bytes));
        }
    }

    /// The link takes what is next, and the receiver what it has carried.
    fn carry(&mut self) {
        let now = self.now;
        loop {
            match self.serving {
                Some((at, ..)) if at > now => return,
                Some((at, who, to, bytes)) => {
                    self.queued -= bytes;
                    self.serving = None;
                    self.inbox.push((who, to, bytes));
                    self.serve(at);
                }
                None => self.serve(now),
            }
            if self.serving.is_none() {
                return;
            }
        }
    }

    fn serve(&mut self, from: Instant) {
        if let Some((who, to, bytes)) = self.queue.pop_front() {
            let takes = Span::from_nanos(bytes * 8000 / self.setting.mbit);
            self.serving = Some((from + takes, who, to, bytes));
        }
    }

    fn receive(&mut self, who: Option<usize>, to: u64, bytes: u64) {
        self.grants.arrived(self.now, bytes as u32, false);
        let Some(who) = who else {
            self.unasked_bytes += bytes;
            return;
        };
        let sender = &mut self.senders[who];
        sender.delivered += bytes - u64::from(AROUND);
        sender.on_link += bytes;
        let progress = &mut self.streams[who];
        assert!(to <= progress.limit, "a sender keeps to its limit");
        progress.received = progress.received.max(to);
        self.grants.received(self.now, who, sender.network, *progress, bytes as u32);
    }

    fn grant(&mut self) {
        while let Some(grant) = self.grants.next(self.now) {
            let progress = &mut self.streams[grant.stream];
            assert!(grant.limit > progress.limit, "limits rise");
            progress.limit = grant.limit;
            self.tell(grant.stream);
        }
        self.grants.check();
    }

    fn tell(&mut self, who: usize) {
        if self.rng.next_u64() % 100 >= self.setting.lost_reports {
            let half = Span::from_nanos(ROUND_TRIP.as_nanos() / 2);
            let late = Span::from_nanos(self.rng.below(self.setting.late.as_nanos() + 1));
            let at = self.reports.back().map_or(Instant::ZERO, |(at, ..)| *at);
            let at = at.max(self.now + half + late);
            self.reports.push_back((at, who, self.streams[who].limit));
        }
    }
}

impl Sender {
    fn has_more(&self, now: Instant) -> bool {
        let time = now.since(self.began);
        let on_link = self.sent / self.frame * (self.frame + u64::from(AROUND));
        match self.demand {
            Demand::Greedy => true,
            Demand::Mbit(mbit) => on_link * 8000 <= mbit * time.as_nanos(),
            Demand::OnOff(half) => (time.as_nanos() / half.as_nanos()).is_multiple_of(2),
            Demand::Bytes(bytes) => self.sent < bytes,
        }
    }
}
