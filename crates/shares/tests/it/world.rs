//! A link, those who send on it, and referees who object to whatever breaks a promise.

use std::collections::VecDeque;

use shares::{Bits, Cost, Frames, Holder, Right, Settings, Shares, Terms};
use units::{Instant, Rate, Rng, Span};

/// The longest frame that is sent here.
pub const FRAME: u32 = 1514;

/// What a sender has to send, and when.
#[derive(Clone, Copy, Debug)]
pub enum Traffic {
    /// Always something.
    Greedy,
    /// A frame every so often.
    Steady(Span),
    /// Always something for so long, then nothing for so long.
    OnOff(Span, Span),
    /// A frame after a time that is random, so long on average.
    Random(Span),
}

/// How long frames are.
#[derive(Clone, Copy, Debug)]
pub enum Lengths {
    All(u32),
    /// Anything from 60 bytes to a full frame.
    Any,
}

/// A frame that was sent.
#[derive(Clone, Copy, Debug)]
pub struct Sent {
    /// When it came to be the sender's to send.
    pub came: Instant,
    /// When its turn was.
    pub begun: Instant,
    pub done: Instant,
    pub bytes: u32,
    pub right: Right,
}

pub struct Sender {
    pub holder: Holder,
    pub terms: Terms,
    pub traffic: Traffic,
    pub lengths: Lengths,
    /// When it begins, and from when on it sends nothing new.
    pub active: (Instant, Instant),
    queue: VecDeque<(Instant, u32)>,
    /// When its next frame comes, if that does not depend on what is sent.
    next: Instant,
    pub sent: Vec<Sent>,
    max: Reference,
    rng: Rng,
}

impl Sender {
    fn length(&mut self) -> u32 {
        match self.lengths {
            Lengths::All(bytes) => bytes,
            Lengths::Any => 60 + self.rng.below(u64::from(FRAME) - 59) as u32,
        }
    }

    /// Whether it always has something to send at `now`.
    fn is_greedy(&self, now: Instant) -> bool {
        let (begin, end) = self.active;
        let is_active = begin <= now && now < end;
        is_active
            && match self.traffic {
                Traffic::Greedy => true,
                Traffic::OnOff(on, off) => {
                    now.since(begin).as_nanos() % (on + off).as_nanos() < on.as_nanos()
                }
                Traffic::Steady(_) | Traffic::Random(_) => false,
            }
    }

    /// When something comes next, given that what comes at `now` has come.
    fn comes_next(&mut self, now: Instant) -> Instant {
        let (begin, end) = self.active;
        let gap = match self.traffic {
            Traffic::Greedy => Span::from_nanos(u64::MAX),
            Traffic::Steady(gap) => gap,
            Traffic::OnOff(on, off) => {
                let cycle = (on + off).as_nanos();
                Span::from_nanos(cycle - now.since(begin).as_nanos() % cycle)
            }
            Traffic::Random(mean) => Span::from_nanos(1 + self.rng.below(2 * mean.as_nanos())),
        };
        let next = now + gap;
        if next < end { next } else { Instant::from_nanos(u64::MAX) }
    }

    pub fn bytes(&self) -> u64 {
        self.sent.iter().map(|it| u64::from(it.bytes)).sum()
    }
}

/// A token bucket by the book: a level that rises and falls, in bits and billionths of them.
struct Reference {
    bits: Option<(Bits, i128)>,
    frames: Option<(Frames, i128)>,
    at: Instant,
}

const UNIT: i128 = 1_000_000_000;

impl Reference {
    fn new(terms: &Terms) -> Self {
        let bits = terms.max.bits.map(|it| (it, i128::from(it.burst) * 8 * UNIT));
        let frames = terms.max.frames.map(|it| (it, i128::from(it.burst) * UNIT));
        Self { bits, frames, at: Instant::ZERO }
    }

    fn rise(&mut self, now: Instant) {
        let ns = i128::from(now.since(self.at).as_nanos());
        self.at = now;
        if let Some((it, level)) = &mut self.bits {
            let full = i128::from(it.burst) * 8 * UNIT;
            *level = full.min(*level + ns * i128::from(it.rate.bits_per_sec()));
        }
        if let Some((it, level)) = &mut self.frames {
            *level =
                (i128::from(it.burst) * UNIT).min(*level + ns * i128::from(it.per_second.get()));
        }
    }

    /// By how much a frame is more than the buckets hold, in nanoseconds that it has to wait.
    fn excess_ns(&mut self, now: Instant, bytes: u32) -> i128 {
        self.rise(now);
        let wait = |missing: i128, rate: i128| (missing + rate - 1) / rate;
        // What is more than a bucket holds goes when it is full.
        let bits = self.bits.map_or(0, |(it, level)| {
            let bytes = i128::from(bytes.min(it.burst));
            wait(bytes * 8 * UNIT - level, it.rate.bits_per_sec().into())
        });
        let frames = self.frames.map_or(0, |(it, level)| {
            wait(i128::from(it.burst.min(1)) * UNIT - level, it.per_second.get().into())
        });
        bits.max(frames)
    }

    fn take(&mut self, now: Instant, bytes: u32) {
        self.rise(now);
        if let Some((_, level)) = &mut self.bits {
            *level -= i128::from(bytes) * 8 * UNIT;
        }
        if let Some((_, level)) = &mut self.frames {
            *level -= UNIT;
        }
    }
}

pub struct World {
    pub shares: Shares,
    pub settings: Settings,
    pub rate: Rate,
    pub now: Instant,
    pub senders: Vec<Sender>,
    /// How long the link had nothing to send.
    pub idle: Span,
}

impl World {
    pub fn new(settings: Settings, rate: Rate) -> Self {
        let start = Instant::from_nanos(1_000_000_007);
        let shares = Shares::new(settings);
        Self { shares, settings, rate, now: start, senders: Vec::new(), idle: Span::ZERO }
    }

    /// A link with turns of one frame.
    pub fn gigabit() -> Self {
        let rate = Rate::from_gbit(1);
        Self::new(Settings::of_link(rate, FRAME), rate)
    }

    /// One more sender, which begins now. Its place.
    pub fn add(&mut self, terms: Terms, traffic: Traffic, lengths: Lengths) -> usize {
        let place = self.senders.len();
        self.senders.push(Sender {
            holder: self.shares.add(terms),
            terms,
            traffic,
            lengths,
            active: (self.now, Instant::from_nanos(u64::MAX)),
            queue: VecDeque::new(),
            next: self.now,
            sent: Vec::new(),
            max: Reference::new(&terms),
            rng: Rng::new(place as u64),
        });
        place
    }

    /// The promise of the terms that there are.
    pub fn lateness(&self) -> Span {
        let terms: Vec<_> = self.senders.iter().map(|it| it.terms).collect();
        self.settings.lateness(self.rate, FRAME, &terms).expect("the link can keep all guarantees")
    }

    /// Frames that come until then come.
    fn arrive(&mut self, until: Instant) {
        loop {
            let next = self.senders.iter().enumerate().min_by_key(|(_, it)| it.next);
            let Some((place, at)) = next.map(|(place, it)| (place, it.next)) else { return };
            if at > until {
                return;
            }
            let sender = &mut self.senders[place];
            sender.next = sender.comes_next(at);
            let length = sender.length();
            // Who is greedy has one frame waiting, which it may have already.
            if !sender.is_greedy(at) || sender.queue.is_empty() {
                sender.queue.push_back((at, length));
            }
            let (_, head) = sender.queue[0];
            self.shares.wake(at, sender.holder, Cost::frame(head));
        }
    }

    /// Lets `span` pass.
    pub fn run(&mut self, span: Span) {
        let end = self.now + span;
        while self.now < end {
            self.arrive(self.now);
            let Some(turn) = self.shares.next(self.now) else {
                self.nobody_could_go();
                let next = self.senders.iter().map(|it| it.next).min().into_iter();
                let next = next.chain(self.shares.ready_at()).min();
                let until = next.map_or(end, |next| next.max(self.now + Span::from_nanos(1)));
                let until = until.min(end);
                self.idle += until.since(self.now);
                self.now = until;
                continue;
            };
            let place = self.senders.iter().position(|it| it.holder == turn.holder()).unwrap();
            let (begun, mut cost) = (self.now, Cost::default());
            let mut now = self.now;
            // The first, and further ones while they fit.
            loop {
                let sender = &mut self.senders[place];
                let Some(&(came, bytes)) = sender.queue.front() else { break };
                let sum = Cost { bytes: cost.bytes + bytes, frames: cost.frames + 1 };
                let fits = sum.bytes <= turn.most().bytes && sum.frames <= turn.most().frames;
                if cost.frames > 0 && !fits {
                    break;
                }
                assert!(fits, "a turn is for the first frame at least");
                let excess = sender.max.excess_ns(begun, bytes);
                assert!(excess <= 1, "{place} goes {excess} ns before its maximum allows it");
                sender.max.take(begun, bytes);
                sender.queue.pop_front();
                cost = sum;
                let done = now + self.rate.time_for(bytes.into());
                sender.sent.push(Sent { came, begun, done, bytes, right: turn.right() });
                now = done;
                if sender.queue.is_empty() && sender.is_greedy(begun) {
                    let length = sender.length();
                    sender.queue.push_back((begun, length));
                }
            }
            let head = self.senders[place].queue.front().map(|&(_, bytes)| Cost::frame(bytes));
            self.shares.took(begun, turn, cost, head);
            // What comes meanwhile comes before the next turn.
            self.arrive(now);
            self.now = now;
        }
    }

    /// The link idles: so everybody who waits is held back by its maximum, and not longer than a
    /// slot of the calendar.
    fn nobody_could_go(&mut self) {
        let slot = self.settings.resolution.as_nanos();
        for (place, sender) in self.senders.iter_mut().enumerate() {
            if let Some(&(_, bytes)) = sender.queue.front() {
                let excess = sender.max.excess_ns(self.now, bytes);
                assert!(excess > -i128::from(slot), "{place} waits, {excess} ns, and nobody goes");
            }
        }
    }
}
