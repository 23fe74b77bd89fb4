//! Credit for a downlink, in turn: what far hosts may send to this one together.
//!
//! Many hosts send to one, and none of them sees the link that they share: the last one, from the
//! fabric to the receiver. The receiver sees all of them, and tells each of their streams its
//! limit. So it grants credit as an uplink sends frames: a byte of credit is a byte on the downlink
//! a round trip later. Holders are networks, by their terms ([`shares`]); below a network its
//! streams take turns.
//!
//! ```text
//!   data, asks ─▶ stream: how much it may have outstanding ── too little ──▶ its network's ring
//!                                                                                │
//!   report ◀── limit ◀── turn: whose? ◀── the link's bucket and cap ◀────────────┘
//! ```
//!
//! - **A stream's width** is what it may have outstanding, granted and not received: twice what it
//!   was delivered in a round trip, half as much again as its fair part of the link takes for one,
//!   what its guarantee takes for one, or two datagrams, whichever is most; by guarantee alone,
//!   what that takes for a round trip and [`Downlink::latency`].
//! - **Uncontended**, each stream has its width at once, and only maxima bound it.
//! - **Contended** (more than nine tenths of the link arrive, something was marked, or more than
//!   [`FEW`] streams are active), credit is granted in pieces of what the link carries in 20 µs, no
//!   faster than the link, and only while less is outstanding than it carries in a round trip and
//!   100 µs, and two datagrams of a few streams. Guarantees wait for neither.
//! - **A stream that leaves its credit unused** for eight round trips is at rest: it has nothing to
//!   send, or its report was lost. Its credit does not keep others from theirs, and it gets no more
//!   until it uses some, or asks. Of one that uses a part, no more counts than it uses in one.
//! - **Limits never fall.** What is at rest may be sent at any time: streams that have rested since
//!   they were busy may send once what they then had.
//!
//! # Late threads
//!
//! A thread that stands still for *s* neither sends nor grants meanwhile: for the link not to idle,
//! s more of it has to be outstanding.
//!
//! - **The round trip** is the shortest lately, which has neither queues nor late threads in it. It
//!   rises to a longer time if less than nine tenths of the link arrived in that time, although
//!   somebody was denied credit when it began: then the link was idle for want of credit, and the
//!   time was no queue's. Times above the latency are no lateness, but senders with nothing to
//!   send. While credit is granted in turn, an eighth of what it rose by is forgotten in each 50 ms
//!   without another.
//! - **A guarantee** that pays for r bytes a second needs r · s outstanding when its sender stands
//!   still, r · 2 s when this end does (what it uses meanwhile is granted at its end), and a round
//!   trip's. It is granted more than that takes for a round trip only at its own rate: who sends
//!   all the time has nothing of it left in the fabric, and who is late finds it.
//! - **The fabric holds** at most what the link carries in the latency and 100 µs, as much of each
//!   guarantee as that pays for in twice the latency, and two datagrams of each stream that began
//!   unasked. Without late threads, it is a round trip and 100 µs of the link.
//! - **What was sent unasked** is owed: others wait until the link has carried it.
//!
//! What arrives without credit (reports, repairs, headers, hosts without a session) is charged to
//! the link as it arrives, so that what is granted fits beside it.

mod bucket;
mod credit;
mod inflow;
mod round_trip;
#[cfg(test)]
mod tests;

use alloc::collections::{BTreeMap, VecDeque};
use alloc::vec::Vec;

use shares::{Cost, Holder, Right, Settings, Shares, Terms, Turn};
use units::{Instant, Rate, Span};

use crate::config::MAX_FRAME_LEN;

use self::bucket::Bucket;
pub use self::credit::Progress;
use self::credit::{Credit, REVIEW, Width};
use self::inflow::Inflow;
use self::round_trip::{RoundTrip, Sample};

/// The part of the downlink that is granted, in hundredths. A little less than arrives, so that
/// what the fabric holds grows shorter.
const GRANTED: u64 = 98;

/// So many streams that are active at once are no contention by themselves.
pub const FEW: u32 = 4;

/// What may be outstanding beside a round trip's bytes: for hosts that are late.
const SLACK: Span = Span::from_micros(100);

/// Among so many streams of a network one is sought that gets more by weight.
const SOUGHT: usize = 8;

/// How long the link takes for one grant.
const PIECE: Span = Span::from_micros(20);

/// A grant is no longer than what a large frame takes.
const LONGEST_PIECE: u64 = 64 << 10;

/// How often what comes without credit is measured.
const MEASURE: Span = Span::from_millis(1);

/// As much as the link carries in this time is made up for, if more was sent than it carries.
const MOST_OWED: Span = Span::from_millis(20);

/// Of the credit that was used, so much may be known before what used it has arrived, in bytes.
const MOST_AHEAD: i64 = 1 << 20;

/// A link that carries less was idle for a while, in hundredths of what is granted.
const BUSY: u64 = 90;

/// After so many round trips a stream that has not used its credit is at rest.
const REST: u64 = 8;
/// But not sooner than this.
const LEAST_REST: Span = Span::from_micros(500);

/// The narrowest width of a stream, in datagrams; so much may be sent unasked, too.
pub const LEAST: u32 = 2;

/// A downlink.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Downlink {
    /// The rate of its link.
    pub rate: Rate,
    /// The payload of a full datagram, in bytes.
    pub datagram: u32,
    /// By how much hosts' threads may be late together without harm to what is guaranteed, and so
    /// how long what is guaranteed may wait in the fabric.
    pub latency: Span,
}

/// A stream may be sent further.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Grant<K> {
    /// The stream.
    pub stream: K,
    /// Up to this offset. It is more than in the grant before.
    pub limit: u64,
}

/// What a network was granted.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Granted {
    /// Bytes, with what the link spends on headers.
    pub bytes: u64,
    /// The part of them that was granted within its guarantee.
    pub guaranteed_bytes: u64,
}

/// How the downlink is shared now.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Sharing {
    /// Whether credit is granted in turn.
    pub is_contended: bool,
    /// How often it began to be.
    pub contentions: u64,
    /// Credit that was granted and is likely to be used soon, in bytes.
    pub outstanding: u64,
    /// Streams that are active.
    pub active: u32,
    /// Streams at rest that have credit: they send less than they might, or nothing.
    pub resting: u32,
    /// How long it takes from a grant to what is sent by it.
    pub round_trip: Span,
}

/// Who is granted what of a downlink. A stream is known by its key `K`, a network by its number.
#[derive(Clone, Debug)]
pub struct Grants<K> {
    downlink: Downlink,
    shares: Shares,
    /// By the network's number.
    holders: Vec<Option<Holder>>,
    /// Whose streams are of a network that is not known yet.
    strangers: Holder,
    /// By holder.
    networks: Vec<Network<K>>,
    streams: BTreeMap<K, Credit>,
    /// When it is seen how much of its credit an active stream uses, in order.
    watched: VecDeque<(Instant, K)>,
    bucket: Bucket,
    /// What arrived and was not charged to the bucket yet, less the credit that it used.
    uncharged: i64,
    /// How much of that there was since it was measured, and the rate that it left last time.
    unasked: u64,
    measured_at: Instant,
    left: Rate,
    inflow: Inflow,
    round_trip: RoundTrip,
    /// All that has arrived, in bytes of the link.
    arrivals: u64,
    /// Whether something was heard since [`next`](Self::next) had no grant.
    is_heard: bool,
    /// When nobody was denied credit last, after something was heard.
    satisfied_at: Instant,
    /// The longest wait for what a grant sent, of those that ended since grants were chosen.
    waited: Option<Sample>,
    /// What the link carries of credit in a round trip and the time by which hosts may be late.
    pool: u64,
    /// Credit that is likely to be used soon: that of active streams, as far as they use theirs.
    outstanding: u64,
    /// Credit of all streams that was not used.
    all: u64,
    active: u32,
    /// The weights of networks with active streams.
    weights: u64,
    /// Networks all of whose streams have what they get by weight.
    patient: u32,
    was_contended: bool,
    contentions: u64,
}

/// A network at the downlink.
#[derive(Clone, Debug)]
struct Network<K> {
    terms: Terms,
    granted: Granted,
    /// Its streams that want credit, in turn; some of them do not any more.
    ring: VecDeque<K>,
    /// They all have as much as they get by weight.
    is_patient: bool,
    /// Its streams that are active.
    active: u32,
    /// What its datagrams took of the link beside their credit, and what was not charged to it.
    overhead: i64,
}

impl<K> Network<K> {
    fn new(terms: Terms) -> Self {
        let granted = Granted::default();
        Self { terms, granted, ring: VecDeque::new(), is_patient: false, active: 0, overhead: 0 }
    }

    fn weight(&self) -> u64 {
        self.terms.weight.get().into()
    }
}

impl<K: Copy + Ord> Grants<K> {
    /// Nobody sends anything yet.
    pub fn new(downlink: Downlink) -> Self {
        let Downlink { rate, datagram, latency } = downlink;
        let bits = u128::from(rate.bits_per_sec()) * u128::from(GRANTED) / 100;
        let rate = u64::try_from(bits).ok().and_then(Rate::from_bits_per_sec).unwrap_or(rate);
        let downlink = Downlink { rate, datagram: datagram.max(1), latency };
        let piece = u32::try_from(piece(downlink)).unwrap_or(u32::MAX);
        let mut shares = Shares::new(Settings::of_link(rate, piece));
        let strangers = shares.add(Terms::default());
        let round_trip = RoundTrip::new();
        Self {
            downlink,
            shares,
            holders: Vec::new(),
            strangers,
            networks: [Network::new(Terms::default())].into(),
            streams: BTreeMap::new(),
            watched: VecDeque::new(),
            bucket: Bucket::new(rate),
            uncharged: 0,
            unasked: 0,
            measured_at: Instant::ZERO,
            left: rate,
            inflow: Inflow::new(rate, datagram),
            pool: rate.bytes_in(round_trip.estimate() + SLACK),
            round_trip,
            arrivals: 0,
            is_heard: false,
            satisfied_at: Instant::ZERO,
            waited: None,
            outstanding: 0,
            all: 0,
            active: 0,
            weights: 0,
            patient: 0,
            was_contended: false,
            contentions: 0,
        }
    }

    /// Datagrams have payloads of so many bytes, if that is more than was known.
    pub fn reach(&mut self, datagram: u32) {
        self.downlink.datagram = self.downlink.datagram.max(datagram);
    }

    /// What may be sent of a stream before it was granted anything, in bytes.
    pub fn unsolicited(&self) -> u32 {
        LEAST * self.downlink.datagram
    }

    /// Gives a network terms.
    pub fn set_terms(&mut self, now: Instant, network: u16, terms: Terms) {
        let holder = self.holder(network);
        self.shares.set(now, holder, terms);
        self.claim(holder);
        let known = &mut self.networks[holder.index()];
        if known.active > 0 {
            self.weights -= known.weight();
        }
        known.terms = terms;
        if known.active > 0 {
            self.weights += known.weight();
        }
    }

    /// A datagram has arrived that took so many bytes of the link, before whatever is said of what
    /// is in it.
    #[inline]
    pub fn arrived(&mut self, now: Instant, link_bytes: u32, is_marked: bool) {
        self.uncharged += i64::from(link_bytes);
        self.arrivals += u64::from(link_bytes);
        self.inflow.arrived(now, link_bytes, is_marked);
    }

    /// Data of a stream has arrived, of this network, in a datagram that took so many bytes of the
    /// link.
    pub fn received(
        &mut self,
        now: Instant,
        stream: K,
        network: u16,
        progress: Progress,
        link_bytes: u32,
    ) {
        let holder = self.holder(network);
        let received = progress.received.saturating_sub(link_bytes.into());
        self.learn(now, stream, Some(holder), Progress { received, ..progress });
        let (round, late) = (self.round_trip.estimate(), self.downlink.latency);
        let to = progress.received;
        let (mut used, mut sample) = (0, None);
        self.change(stream, |credit| {
            used = to.saturating_sub(credit.received);
            if used > 0 {
                sample = credit.advance(now, to, round, late);
            }
        });
        self.networks[holder.index()].overhead += i64::from(link_bytes) - used.cast_signed();
        self.uncharged = (self.uncharged - used.cast_signed()).max(-MOST_AHEAD);
        self.is_heard = true;
        if let Some(sample) = sample {
            if sample.was_short {
                self.round_trip.sample(now, now.since(sample.granted_at));
                self.set_pool();
            }
            let is_longest = |other: Sample| sample.granted_at < other.granted_at;
            if self.waited.is_none_or(is_longest) {
                self.waited = Some(sample);
            }
        }
        if used > 0 {
            self.awake(now, stream);
        }
        self.consider(now, stream);
    }

    /// The sender of a stream asks for credit, or whether its data has arrived.
    pub fn asked(&mut self, now: Instant, stream: K, progress: Progress) {
        self.learn(now, stream, None, progress);
        let datagram = self.downlink.datagram;
        let mut used = 0;
        self.change(stream, |credit| {
            used = progress.received.saturating_sub(credit.received);
            credit.hear(now, progress.received, datagram);
        });
        self.is_heard = true;
        self.uncharged = (self.uncharged - used.cast_signed()).max(-MOST_AHEAD);
        self.awake(now, stream);
        self.consider(now, stream);
    }

    /// Forgets streams: their peer has another incarnation, or is gone.
    pub fn forget(&mut self, is_gone: impl Fn(&K) -> bool) {
        let gone: Vec<K> = self.streams.keys().filter(|stream| is_gone(stream)).copied().collect();
        for stream in gone {
            self.rest(stream);
            self.unqueue(stream);
            let credit = self.streams.remove(&stream).expect("it was listed");
            self.all -= credit.outstanding();
        }
        self.watched.retain(|(_, stream)| !is_gone(stream));
    }

    /// The next grant. The stream's owner has to tell its sender of it. To be called until there is
    /// none, after what has arrived was told.
    pub fn next(&mut self, now: Instant) -> Option<Grant<K>> {
        self.advance(now);
        self.learn_lateness(now);
        let is_contended = self.notice(now);
        // What is not looked for is not forgotten.
        if is_contended && self.round_trip.forget(now) {
            self.set_pool();
        }
        if !is_contended && self.patient > 0 {
            for number in 0..self.holders.len() {
                if let Some(holder) = self.holders[number] {
                    self.claim(holder);
                }
            }
        }
        loop {
            let Some(turn) = self.shares.next(now) else {
                if core::mem::take(&mut self.is_heard) {
                    self.satisfied_at = now;
                }
                return None;
            };
            // Whoever is within its guarantee does not wait for what others have not used.
            let is_held = !self.bucket.has_some() || self.is_full();
            if is_contended && is_held && turn.right() == Right::Weight {
                // Who owes waits for the fabric's queue to drain, and not for late threads.
                if self.bucket.owes(self.pool) {
                    self.satisfied_at = now;
                }
                self.is_heard = false;
                return None;
            }
            let holder = turn.holder();
            if is_contended && turn.right() == Right::Weight && !self.seek(holder) {
                continue;
            }
            let Some(stream) = self.networks[holder.index()].ring.pop_front() else {
                self.shares.rest(holder);
                continue;
            };
            let right = if is_contended { turn.right() } else { Right::Guarantee };
            let Some(gap) = self.wanted(self.credit(stream), is_contended, right) else {
                self.leave_ring(stream, holder);
                continue;
            };
            return Some(self.grant(now, turn, stream, gap, is_contended));
        }
    }

    /// When [`next`](Self::next) may have a grant although nothing arrives before; in the past if
    /// it may now.
    pub fn ready_at(&self, now: Instant) -> Option<Instant> {
        let turn = self.shares.ready_at()?;
        if !self.is_contended(now) || self.bucket.has_some() && !self.is_full() {
            return Some(turn);
        }
        let calm = if self.active > FEW { None } else { Some(self.inflow.calm_at()) };
        let rest = self.watched.front().map(|(at, _)| *at);
        let tokens = (!self.bucket.has_some()).then(|| self.bucket.ready_at());
        let earliest = [calm, rest, tokens].into_iter().flatten().min().map(|at| at.max(turn));
        [earliest, self.shares.due_at()].into_iter().flatten().min()
    }

    /// What a network was granted. `None` if it has no terms and nothing of it has arrived.
    pub fn granted(&self, network: u16) -> Option<Granted> {
        let holder = (*self.holders.get(usize::from(network))?)?;
        Some(self.networks[holder.index()].granted)
    }

    /// A network's number is about to mean another: what this one was granted is forgotten.
    pub fn forget_network(&mut self, network: u16) {
        if let Some(Some(holder)) = self.holders.get(usize::from(network)) {
            let network = &mut self.networks[holder.index()];
            (network.granted, network.overhead) = (Granted::default(), 0);
        }
    }

    /// How the downlink is shared.
    pub fn sharing(&self, now: Instant) -> Sharing {
        let rests = |credit: &&Credit| !credit.is_active && credit.outstanding() > 0;
        Sharing {
            is_contended: self.is_contended(now),
            contentions: self.contentions,
            outstanding: self.outstanding,
            active: self.active,
            resting: self.streams.values().filter(rests).count() as u32,
            round_trip: self.round_trip.estimate(),
        }
    }

    /// Whether credit is granted in turn.
    fn is_contended(&self, now: Instant) -> bool {
        self.active > FEW || self.inflow.is_contended(now)
    }

    /// The same; counts how often it begins.
    fn notice(&mut self, now: Instant) -> bool {
        let is_contended = self.is_contended(now);
        self.contentions += u64::from(is_contended && !self.was_contended);
        self.was_contended = is_contended;
        is_contended
    }

    /// Whether as much is outstanding as may be: what the link carries in a round, and what a few
    /// streams may have whatever that is. At low rates, it is less than a datagram.
    fn is_full(&self) -> bool {
        self.outstanding >= self.most()
    }

    fn most(&self) -> u64 {
        self.pool + u64::from(self.active.min(FEW)) * u64::from(self.unsolicited())
    }

    fn set_pool(&mut self) {
        self.pool = self.left.bytes_in(self.round());
    }

    fn round(&self) -> Span {
        self.round_trip.estimate() + SLACK
    }

    /// Grants a stream credit, in its network's turn.
    fn grant(
        &mut self,
        now: Instant,
        turn: Turn,
        stream: K,
        gap: u64,
        is_contended: bool,
    ) -> Grant<K> {
        let datagram = u64::from(self.downlink.datagram);
        let most = u64::from(turn.most().bytes).max(datagram).min(piece(self.downlink));
        let (bytes, holder, right) = (gap.min(most), turn.holder(), turn.right());
        let arrivals = self.arrivals;
        self.change(stream, |credit| credit.grant(now, bytes, arrivals));
        self.awake(now, stream);
        self.bucket.take(bytes);
        let credit = self.credit(stream);
        let limit = credit.limit;
        if self.wanted(credit, is_contended, Right::Guarantee).is_some() {
            self.networks[holder.index()].ring.push_back(stream);
        } else {
            self.credit_mut(stream).is_queued = false;
        }
        let network = &mut self.networks[holder.index()];
        let overhead = network.overhead.max(0);
        network.overhead -= overhead;
        let all = bytes.saturating_add(overhead as u64);
        network.granted.bytes += all;
        if right == Right::Guarantee {
            network.granted.guaranteed_bytes += all;
        }
        let cost = Cost {
            bytes: u32::try_from(all).unwrap_or(u32::MAX),
            frames: bytes.div_ceil(datagram) as u32,
        };
        let next = (!network.ring.is_empty()).then(|| self.head());
        self.shares.took(now, turn, cost, next);
        Grant { stream, limit }
    }

    /// What a grant takes at least, as far as can be told before.
    fn head(&self) -> Cost {
        Cost::frame(self.downlink.datagram)
    }

    /// How much more a stream is to have, if it is enough for a grant. Contended, it is as soon as
    /// half a datagram is: so whoever sends within its part always has credit. Otherwise less
    /// often, which takes fewer reports, unless it may be unable to go on.
    fn wanted(&self, credit: &Credit, is_contended: bool, right: Right) -> Option<u64> {
        let (width, has) = (self.width(credit, is_contended, right), credit.outstanding());
        let datagram = u64::from(self.downlink.datagram);
        let least = match is_contended || credit.is_short() {
            true => datagram.div_ceil(2),
            false => (width / 4).max(datagram),
        };
        width.checked_sub(has).filter(|gap| *gap >= least)
    }

    /// What a stream may have outstanding when it is granted more by this right.
    fn width(&self, credit: &Credit, is_contended: bool, right: Right) -> u64 {
        let network = &self.networks[credit.network.index()];
        let streams = u64::from(network.active.max(1));
        let (pool, datagram) = (self.pool, u64::from(self.downlink.datagram));
        // Of what is not guaranteed, unless too much is outstanding already of those at rest.
        let weights = (self.weights + if network.active > 0 { 0 } else { network.weight() }).max(1);
        let by_weight = match self.all < 2 * pool {
            true => pool.saturating_mul(network.weight()) / weights,
            false => 0,
        };
        // By weight only as much as is used in a round: what is granted besides while others send
        // would stand in the fabric. By guarantee what a host that is late may send then.
        let late = match right {
            Right::Guarantee => self.round_trip.estimate() + self.downlink.latency,
            Right::Weight => self.round(),
        };
        let guaranteed = network.terms.min.bits.map_or(0, |min| min.rate.bytes_in(late));
        credit.width(Width {
            fair: by_weight * 3 / 2 / streams,
            guaranteed: guaranteed / streams,
            least: u64::from(LEAST) * datagram,
            // A little more than all may have, so that one stream alone meets that bound, too.
            most: if is_contended { self.most() + datagram } else { u64::MAX },
        })
    }

    /// Puts a stream into its network's ring if it may have more credit.
    fn consider(&mut self, now: Instant, stream: K) {
        let is_contended = self.is_contended(now);
        let credit = self.credit(stream);
        let holder = credit.network;
        if credit.is_queued {
            let is_patient = self.networks[holder.index()].is_patient;
            if is_patient && self.wanted(credit, is_contended, Right::Weight).is_some() {
                self.claim(holder);
            }
            return;
        }
        if self.wanted(credit, is_contended, Right::Guarantee).is_none() {
            return;
        }
        self.credit_mut(stream).is_queued = true;
        let network = &mut self.networks[holder.index()];
        network.ring.push_back(stream);
        if network.ring.len() == 1 {
            let head = self.head();
            self.shares.wake(now, holder, head);
        }
        self.claim(holder);
    }

    /// Puts a stream that gets more by weight first in its network's ring. If none of the first is
    /// such a one, the network has no turns by weight until one of them may be.
    fn seek(&mut self, holder: Holder) -> bool {
        for _ in 0..self.networks[holder.index()].ring.len().min(SOUGHT) {
            let stream = self.networks[holder.index()].ring[0];
            let credit = self.credit(stream);
            let by = |right| self.wanted(credit, true, right).is_some();
            if by(Right::Weight) || !by(Right::Guarantee) {
                return true;
            }
            self.networks[holder.index()].ring.rotate_left(1);
        }
        let network = &mut self.networks[holder.index()];
        if network.ring.is_empty() {
            return true;
        }
        self.patient += u32::from(!core::mem::replace(&mut network.is_patient, true));
        self.shares.renounce(holder);
        false
    }

    /// A network has turns by weight again, if it has some.
    fn claim(&mut self, holder: Holder) {
        let is_patient = &mut self.networks[holder.index()].is_patient;
        if core::mem::take(is_patient) {
            self.patient -= 1;
            self.shares.claim(holder);
        }
    }

    /// A stream that was taken from its ring leaves it.
    fn leave_ring(&mut self, stream: K, holder: Holder) {
        self.credit_mut(stream).is_queued = false;
        if self.networks[holder.index()].ring.is_empty() {
            self.shares.rest(holder);
        }
    }

    /// A stream leaves its ring, if it is in it.
    fn unqueue(&mut self, stream: K) {
        let credit = self.credit_mut(stream);
        let holder = credit.network;
        if !core::mem::take(&mut credit.is_queued) {
            return;
        }
        let network = &mut self.networks[holder.index()];
        network.ring.retain(|it| *it != stream);
        if network.ring.is_empty() {
            self.shares.rest(holder);
        }
    }

    /// Learns of a stream, or of its network.
    fn learn(&mut self, now: Instant, stream: K, holder: Option<Holder>, progress: Progress) {
        match self.streams.get(&stream).map(|credit| credit.network) {
            None => {
                let credit = Credit::new(now, holder.unwrap_or(self.strangers), progress);
                self.all += credit.outstanding();
                // What it may send unasked is on its way, as a rule.
                self.bucket.take(credit.outstanding());
                self.streams.insert(stream, credit);
            }
            Some(known) if holder.is_none_or(|holder| holder == known) => {}
            Some(known) => {
                self.rest(stream);
                self.unqueue(stream);
                self.credit_mut(stream).network = holder.unwrap_or(known);
            }
        }
    }

    fn credit(&self, stream: K) -> &Credit {
        &self.streams[&stream]
    }

    fn credit_mut(&mut self, stream: K) -> &mut Credit {
        self.streams.get_mut(&stream).expect("the stream is known")
    }

    /// Changes what a stream has outstanding, and the sums with it.
    fn change(&mut self, stream: K, change: impl FnOnce(&mut Credit)) {
        let Self { streams, outstanding, all, .. } = self;
        let credit = streams.get_mut(&stream).expect("the stream is known");
        *outstanding -= credit.counted();
        *all -= credit.outstanding();
        change(credit);
        *outstanding += credit.counted();
        *all += credit.outstanding();
    }

    /// A stream is active from now on.
    fn awake(&mut self, now: Instant, stream: K) {
        let at = now + self.review();
        let Self { streams, networks, .. } = self;
        let credit = streams.get_mut(&stream).expect("the stream is known");
        if core::mem::replace(&mut credit.is_active, true) {
            return;
        }
        self.outstanding += credit.counted();
        let network = &mut networks[credit.network.index()];
        network.active += 1;
        if network.active == 1 {
            self.weights += network.weight();
        }
        self.active += 1;
        if !core::mem::replace(&mut credit.is_watched, true) {
            self.watched.push_back((at, stream));
        }
    }

    /// A stream is at rest from now on.
    fn rest(&mut self, stream: K) {
        let Self { streams, networks, .. } = self;
        let credit = streams.get_mut(&stream).expect("the stream is known");
        self.outstanding -= credit.counted();
        if !core::mem::take(&mut credit.is_active) {
            return;
        }
        credit.sample = None;
        let network = &mut networks[credit.network.index()];
        network.active -= 1;
        if network.active == 0 {
            self.weights -= network.weight();
        }
        self.active -= 1;
    }

    fn review(&self) -> Span {
        Span::from_nanos(self.round().as_nanos().saturating_mul(REVIEW))
    }

    /// How long a stream may leave its credit unused.
    fn patience(&self) -> Span {
        let rounds = self.round_trip.estimate().as_nanos().saturating_mul(REST);
        Span::from_nanos(rounds).max(LEAST_REST)
    }

    /// Learns how late threads are from what was waited for while the link was idle.
    fn learn_lateness(&mut self, now: Instant) {
        let Some(Sample { granted_at, arrivals, .. }) = self.waited.take() else { return };
        let (time, rate) = (now.since(granted_at), self.downlink.rate);
        if granted_at <= self.satisfied_at || time > self.downlink.latency {
            return;
        }
        let carried = self.arrivals - arrivals + u64::from(self.unsolicited());
        if carried < rate.bytes_in(time) / 100 * BUSY {
            self.round_trip.rise(now, time);
            self.set_pool();
        }
    }

    /// It is `now`: the bucket has filled, and some streams have come to rest.
    fn advance(&mut self, now: Instant) {
        let most = self.pool.max(self.unsolicited().into());
        self.bucket.fill(now, most, self.downlink.rate.bytes_in(MOST_OWED));
        if self.uncharged > 0 {
            let unasked = self.uncharged.unsigned_abs();
            self.bucket.take(unasked);
            self.unasked += unasked;
            self.uncharged = 0;
        }
        if now >= self.measured_at + MEASURE {
            let time = now.since(self.measured_at);
            let rate = self.downlink.rate;
            let all = rate.bytes_in(time).max(1);
            let left = all.saturating_sub(self.unasked).max(all / 16);
            let bits = u128::from(rate.bits_per_sec()) * u128::from(left) / u128::from(all);
            let left = u64::try_from(bits).ok().and_then(Rate::from_bits_per_sec);
            (self.left, self.unasked, self.measured_at) = (left.unwrap_or(rate), 0, now);
            self.set_pool();
        }
        let (patience, next) = (self.patience(), now + self.review());
        for _ in 0..self.watched.len() {
            let Some((_, stream)) = self.watched.pop_front_if(|(at, _)| *at <= now) else { break };
            let credit = self.credit_mut(stream);
            // Who waits for its turn has left nothing unused.
            let waits = credit.is_queued && credit.is_short();
            if credit.is_active && (waits || credit.used_at + patience > now) {
                self.watched.push_back((next, stream));
                self.change(stream, Credit::review);
                continue;
            }
            credit.is_watched = false;
            self.rest(stream);
        }
    }

    fn holder(&mut self, network: u16) -> Holder {
        let number = usize::from(network);
        if self.holders.len() <= number {
            self.holders.resize(number + 1, None);
        }
        *self.holders[number].get_or_insert_with(|| {
            let holder = self.shares.add(Terms::default());
            debug_assert_eq!(holder.index(), self.networks.len(), "nobody leaves");
            self.networks.push(Network::new(Terms::default()));
            holder
        })
    }
}

/// How much is granted in one turn.
fn piece(Downlink { rate, datagram, .. }: Downlink) -> u64 {
    rate.bytes_in(PIECE).min(LONGEST_PIECE).max(datagram.into())
}

const _: () = assert!(MAX_FRAME_LEN as u64 >= LONGEST_PIECE, "a frame takes a few pieces");
