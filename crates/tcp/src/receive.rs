//! The receiving half: puts the stream together, opens the window, owes acknowledgements.
//!
//! ```text
//!        read          next                          edge
//!  ───────┴─────────────┴────────[ range ]──[ range ]──┴──────
//!   gone    in order      missing   out of order          not offered
//! ```

use alloc::vec::Vec;

use units::{Instant, Span};

use crate::rtt::Rtt;
use crate::segment::{SackBlocks, first};
use crate::{Config, NEVER};

/// So many acknowledgements that expect the same are sent at once: enough for the sender to believe
/// in a loss.
const TELLING: u8 = 3;
/// More than so many do not wait for each other (Linux's tcp_comp_sack_nr).
const MOST_HELD: u8 = 44;

/// A stretch of the stream: its first position and the one behind its last.
type Range = (u64, u64);

/// What is owed to the sender.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Owed {
    /// Nothing.
    Nothing,
    /// An acknowledgement by this time.
    By(Instant),
    /// One at once.
    Now,
}

/// How congestion marks are echoed.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Echo {
    /// They are not.
    Off,
    /// From the first mark until the sender says it has heard (RFC 3168 §6.1.3).
    Latched,
    /// Mark by mark (RFC 8257 §3.2).
    Exact,
}

/// The receiving half. What every segment looks at fills two cache lines: there are many endpoints,
/// and few of them in cache.
#[derive(Clone, Debug)]
#[repr(C, align(64))]
pub(crate) struct Receiver {
    /// The next position that is expected, RCV.NXT.
    pub next: u64,
    /// Up to where it was offered. It never moves back.
    edge: u64,
    /// Up to where the application has read.
    read: u64,
    /// Up to where it was acknowledged.
    acked: u64,
    /// The position of the stream's first byte.
    start: u64,
    /// Where the stream ends, once that is known.
    end: u64,
    /// The timestamp to echo, TS.Recent.
    pub stamp: u32,
    /// Payload in a full segment.
    pub mss: u16,
    /// How many acknowledgements are still sent at once.
    quick: u8,
    /// Whether the application answers what it receives, so that acknowledgements travel with its
    /// data.
    interactive: bool,
    /// By how many bits the windows it offers are shifted.
    pub shift: u8,
    pub sack: bool,
    pub echo: Echo,
    marked: bool,
    owed: Owed,
    heard_at: Instant,
    /// What lies beyond a gap, the most recent last.
    ranges: Vec<Range>,
    /// What arrived twice and is to be reported.
    duplicate: Option<(u32, u32)>,
    /// How many reports of what is out of order were sent at once since `next` was `reported_at`,
    /// and how many wait.
    reported: u8,
    held: u8,
    /// In which hour `stamp` was taken over, of all hours of the clock.
    stamp_hour: u16,
    reported_at: u64,
    /// An acknowledgement of what was there before the marks changed, and whether it says so.
    before: Option<(u64, bool)>,
}

impl Receiver {
    /// Nothing is known of the other side yet.
    pub(crate) fn new(config: &Config) -> Self {
        // RFC 7323 §2.3: as little as makes the window fit, 14 at most.
        let bits = u32::BITS - config.receive_buffer.leading_zeros();
        Self {
            start: 0,
            next: 0,
            edge: 0,
            read: 0,
            acked: 0,
            end: u64::MAX,
            ranges: Vec::new(),
            duplicate: None,
            owed: Owed::Nothing,
            before: None,
            heard_at: Instant::ZERO,
            reported_at: 0,
            reported: 0,
            held: 0,
            mss: config.mss,
            quick: config.quick_acks,
            interactive: false,
            shift: bits.saturating_sub(16).min(14) as u8,
            sack: config.sack,
            echo: Echo::Off,
            marked: false,
            stamp: 0,
            stamp_hour: 0,
        }
    }

    /// Takes a timestamp over, which is to be echoed.
    #[inline]
    pub(crate) fn take_stamp(&mut self, now: Instant, value: u32) {
        self.stamp = value;
        self.stamp_hour = hour(now);
    }

    /// Whether the timestamp still tells what is older. The other side's clock has gone half round
    /// in 24.8 days, if it ticks every millisecond (RFC 7323 §5.5).
    pub(crate) fn stamp_holds(&self, now: Instant) -> bool {
        hour(now).wrapping_sub(self.stamp_hour) <= 24 * 24
    }

    /// The other side's SYN has this number.
    pub(crate) fn open(&mut self, syn: u32) {
        self.start = first(syn) + 1;
        self.next = self.start;
        self.read = self.start;
        self.edge = self.start;
        // The SYN itself is not.
        self.acked = self.start - 1;
        self.owed = Owed::Now;
    }

    /// Bytes that arrived in order.
    pub(crate) fn delivered(&self) -> u64 {
        self.next.min(self.end) - self.start
    }

    /// Whether everything has arrived, and the end.
    #[inline]
    pub(crate) fn is_finished(&self) -> bool {
        self.next > self.end
    }

    /// Whether a segment may be looked at (RFC 9293 §3.10.7.4): it lies in the window, or repeats
    /// what was not acknowledged yet, as those do that were overtaken.
    #[inline]
    pub(crate) fn is_acceptable(&self, seq: u64, len: u32) -> bool {
        seq + u64::from(len) >= self.acked && seq <= self.edge.max(self.next)
    }

    /// Whether `seq` lies in the window.
    pub(crate) fn is_in_window(&self, seq: u64) -> bool {
        self.next <= seq && seq <= self.edge.max(self.next)
    }

    /// Takes in payload, and the end of the stream behind it.
    #[inline]
    pub(crate) fn take(
        &mut self,
        config: &Config,
        now: Instant,
        rtt: &Rtt,
        seq: u64,
        len: u16,
        fin: bool,
    ) {
        let end = seq + u64::from(len);
        let mut kept = end.min(self.edge);
        if fin && kept == end {
            self.end = end;
            kept += 1;
        }
        if now.since(self.heard_at) > rtt.timeout(&config.rto) {
            self.quick = config.quick_acks;
        }
        self.heard_at = now;
        if seq == self.next && kept > seq && self.ranges.is_empty() {
            self.next = kept;
            self.delay_ack(config, now);
        } else {
            self.place(config, now, rtt.smoothed(), seq, kept);
        }
        if self.is_finished() {
            self.owed = Owed::Now;
        }
        if config.auto_read {
            self.read = self.next.min(self.end);
        }
    }

    /// Payload that is not simply the next.
    fn place(&mut self, config: &Config, now: Instant, round_trip: Span, seq: u64, end: u64) {
        let owed = self.owed;
        // RFC 5681 §4.2: out of order, filling a gap and twice are all told at once.
        self.owed = Owed::Now;
        if end <= seq {
            return;
        }
        self.interactive = false;
        self.note_repeated(config, seq, end);
        if end <= self.next {
            return;
        }
        let mut whole = (seq.max(self.next), end);
        self.ranges.retain(|&(start, end)| {
            let apart = end < whole.0 || whole.1 < start;
            if !apart {
                let twice = (start.max(whole.0), end.min(whole.1));
                if twice.0 < twice.1 && self.duplicate.is_none() {
                    self.duplicate = Some((twice.0 as u32, twice.1 as u32));
                }
                whole = (start.min(whole.0), end.max(whole.1));
            }
            apart
        });
        if whole.0 <= self.next {
            self.next = whole.1;
        } else {
            self.ranges.push(whole);
        }
        if self.ranges.is_empty() {
            // In Linux the buffer grows by what was waiting for this, and while it grows nothing is
            // delayed.
            self.quick = config.quick_acks;
        } else if self.duplicate.is_none() && self.may_hold(config) {
            self.owed = match owed {
                Owed::Nothing => Owed::By(
                    now + config.sack_delay.min(Span::from_nanos(round_trip.as_nanos() / 20)),
                ),
                owed => owed,
            };
        }
    }

    /// Whether a report of what is out of order may wait for the next, as it may in Linux: the
    /// sender knows of the gap, and each of many reports would say nearly the same.
    fn may_hold(&mut self, config: &Config) -> bool {
        let is_late = self.is_quick() || self.next - self.acked > u64::from(self.mss);
        if !self.sack || config.sack_delay == Span::ZERO || is_late || self.held >= MOST_HELD {
            return false;
        }
        if self.reported_at != self.next {
            self.reported_at = self.next;
            self.reported = 0;
        }
        if self.reported < TELLING {
            self.reported += 1;
            return false;
        }
        self.held += 1;
        true
    }

    /// A segment has come that says nothing new; an acknowledgement is owed, and tells what came
    /// twice (RFC 2883 §4.1).
    pub(crate) fn repeated(&mut self, config: &Config, seq: u64, len: u32) {
        self.owed = Owed::Now;
        self.note_repeated(config, seq, seq + u64::from(len));
    }

    fn note_repeated(&mut self, config: &Config, seq: u64, end: u64) {
        let end = end.min(self.next);
        if seq < end {
            self.quick = config.quick_acks;
            self.duplicate = Some((seq as u32, end as u32));
        }
    }

    #[inline]
    fn delay_ack(&mut self, config: &Config, now: Instant) {
        // RFC 9293 §3.8.6.3: at least for every second full segment.
        if self.is_quick() || self.next - self.acked > u64::from(self.mss) {
            self.owed = Owed::Now;
        } else if self.owed == Owed::Nothing {
            self.owed = Owed::By(now + config.delayed_ack);
        }
    }

    fn is_quick(&self) -> bool {
        self.quick > 0 && !self.interactive
    }

    /// Data is sent. Soon after some was received, it is taken for an answer.
    #[inline]
    pub(crate) fn answered(&mut self, config: &Config, now: Instant) {
        if self.next > self.start && now.since(self.heard_at) < config.delayed_ack {
            self.interactive = true;
        }
    }

    /// A segment with payload came with this mark, and CWR if its sender has reduced its window. To
    /// be told before the payload.
    #[inline]
    pub(crate) fn observe(&mut self, marked: bool, reduced: bool) {
        match self.echo {
            Echo::Off => {}
            Echo::Latched => self.marked = marked || self.marked && !reduced,
            Echo::Exact if marked != self.marked => {
                // What waits was received under the old mark, and has to say so.
                if matches!(self.owed, Owed::By(_)) {
                    self.before = Some((self.next, self.marked));
                }
                self.marked = marked;
                self.owed = Owed::Now;
            }
            Echo::Exact => {}
        }
    }

    /// Whether an acknowledgement says that congestion was marked.
    #[inline]
    pub(crate) fn echoes(&self) -> bool {
        self.marked
    }

    /// The application has read `bytes`.
    pub(crate) fn consume(&mut self, config: &Config, bytes: u64) {
        self.read = (self.read + bytes).min(self.next.min(self.end));
        // As Linux does: when the window that is left has doubled, and by no less than a segment
        // would fill (RFC 9293 §3.8.6.2.2).
        let left = self.edge.saturating_sub(self.next);
        let edge = self.best_edge(config);
        if !self.is_finished() && edge > self.edge && edge - self.next >= 2 * left {
            self.owed = Owed::Now;
        }
    }

    /// Bytes that arrived in order and wait for the application.
    pub(crate) fn unread(&self) -> u64 {
        self.next.min(self.end) - self.read
    }

    /// How far the window could reach, moved by no less than silly window avoidance asks for (RFC
    /// 9293 §3.8.6.2.2).
    #[inline]
    fn best_edge(&self, config: &Config) -> u64 {
        // As much as the largest shift can offer (RFC 7323 §2.3).
        let buffer = config.receive_buffer.min(1 << 30);
        let edge = self.read + u64::from(buffer);
        if edge >= self.edge + u64::from(self.mss).min(u64::from(buffer / 2)) {
            edge
        } else {
            self.edge
        }
    }

    /// The window to offer now, shifted unless it is a SYN's.
    #[inline]
    pub(crate) fn offer(&mut self, config: &Config, shift: u8) -> u16 {
        self.edge = self.best_edge(config);
        let window = (self.edge.saturating_sub(self.next) >> shift).min(u64::from(u16::MAX));
        // What does not fit the field is not offered.
        self.edge = self.edge.min(self.next + (window << shift) + (1 << shift) - 1);
        window as u16
    }

    /// An acknowledgement goes out with a segment.
    #[inline]
    pub(crate) fn told(&mut self) {
        if self.is_quick() && self.owed != Owed::Nothing {
            self.quick -= 1;
        }
        self.owed = Owed::Nothing;
        self.held = 0;
        self.acked = self.next;
    }

    /// Up to where it was acknowledged, Last.ACK.sent.
    #[inline]
    pub(crate) fn acked(&self) -> u64 {
        self.acked
    }

    /// Nothing is owed any more.
    pub(crate) fn settle(&mut self) {
        self.owed = Owed::Nothing;
        self.before = None;
    }

    /// Asks for an acknowledgement at once.
    pub(crate) fn owe(&mut self) {
        self.owed = Owed::Now;
    }

    /// Whether an acknowledgement is due.
    #[inline]
    pub(crate) fn is_due(&self, now: Instant) -> bool {
        match self.owed {
            Owed::Nothing => false,
            Owed::By(at) => at <= now,
            Owed::Now => true,
        }
    }

    /// Whether one is due that says more than where the stream stands. Such a one travels alone, so
    /// that segments with payload keep their size.
    #[inline]
    pub(crate) fn is_report_due(&self) -> bool {
        self.owed == Owed::Now && self.has_blocks()
    }

    /// The acknowledgement of what was there before marks changed.
    #[inline]
    pub(crate) fn take_before(&mut self) -> Option<(u64, bool)> {
        if self.echo == Echo::Exact { self.before.take() } else { None }
    }

    /// No answer carried the acknowledgement that waited for one: those that follow wait for none
    /// (Linux's leaving of its ping-pong mode).
    pub(crate) fn note_waited(&mut self) {
        if matches!(self.owed, Owed::By(_)) {
            self.interactive = false;
        }
    }

    /// When an acknowledgement is due.
    #[inline]
    pub(crate) fn deadline(&self) -> Instant {
        match self.owed {
            Owed::By(at) => at,
            Owed::Nothing | Owed::Now => NEVER,
        }
    }

    /// What lies beyond gaps, the most recent first (RFC 2018 §4), after what came twice (RFC 2883
    /// §4).
    #[inline]
    pub(crate) fn sack_blocks(&mut self) -> SackBlocks {
        if self.has_blocks() { self.collect_blocks() } else { SackBlocks::default() }
    }

    /// Whether there is more to say than where the stream stands.
    #[inline]
    fn has_blocks(&self) -> bool {
        self.sack && (!self.ranges.is_empty() || self.duplicate.is_some())
    }

    #[inline(never)]
    fn collect_blocks(&mut self) -> SackBlocks {
        let mut blocks = SackBlocks::default();
        let ranges = self.ranges.iter().rev().map(|&(start, end)| (start as u32, end as u32));
        for (start, end) in self.duplicate.take().into_iter().chain(ranges) {
            if !blocks.push(start, end) {
                break;
            }
        }
        blocks
    }
}

/// The hour that a time lies in, of all hours of the clock; they begin anew after seven years.
#[inline]
const fn hour(now: Instant) -> u16 {
    (now.as_nanos() / 3_600_000_000_000) as u16
}
