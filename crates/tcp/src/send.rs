//! The sending half: what has been written, what is in flight, what may go next.
//!
//! ```text
//!        start         una                        next           edge        end
//!  ────────┴─────────────┴── scoreboard ────────────┴──────────────┴───────────┴──
//!            acknowledged          in flight           may be sent    written
//! ```
//!
//! Losses and their repair are in `recovery` and `rack`.

use units::Instant;

use crate::control::{Algorithm, Progress, Window};
use crate::rack::{Rack, TailProbe};
use crate::recovery::{Phase, Recovery, Undo};
use crate::rtt::{Rtt, told};
use crate::scoreboard::{Delivery, Scoreboard};
use crate::segment::{first, unwrap};
use crate::sent::Sent;
use crate::{Config, NEVER, Nagle};

/// Whether the application has more to say.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Fin {
    Open,
    Queued,
    Sent,
}

/// What an acknowledgement says.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ack<'a> {
    /// The position that is expected next; not below SND.UNA, nor above SND.NXT.
    pub number: u64,
    /// The position of the segment that says so.
    pub seq: u64,
    /// Bytes that may follow `number`.
    pub window: u64,
    /// What lies beyond gaps.
    pub blocks: &'a [(u32, u32)],
    /// The timestamp that is echoed.
    pub echo: Option<u32>,
    /// Whether a congestion mark is echoed.
    pub marked: bool,
    /// Whether that is all there is in the segment: no payload, SYN or FIN.
    pub bare: bool,
}

/// What is to leave.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Outgoing {
    pub seq: u64,
    pub len: u16,
    pub fin: bool,
    /// Whether it leaves for the first time.
    pub new: bool,
    /// Whether nothing is left behind it.
    pub last: bool,
}

/// What happened so far.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Counters {
    pub retransmitted: u32,
    pub timeouts: u32,
    pub recoveries: u32,
    pub probes: u32,
}

/// The sending half. There are many endpoints, and few of them in cache: what a segment looks at
/// that acknowledges nothing, while nothing is in flight, fills two lines, and full segments of
/// data, as long as nothing is amiss, look at three more; RACK, and controls that are not Reno, at
/// their own besides.
#[derive(Clone, Debug)]
#[repr(C, align(64))]
pub(crate) struct Sender {
    /// The first position that is not acknowledged, SND.UNA.
    pub una: u64,
    /// The next position to be sent, SND.NXT.
    pub next: u64,
    /// Up to where the application has written.
    end: u64,
    /// Up to where the other side takes what is sent, and by which of its segments it last said so
    /// (SND.WL1).
    edge: u64,
    edge_seq: u64,
    /// When to give up what is in flight, or, if nothing is, to probe a closed window.
    pub timeout_at: Instant,
    pub probe_at: Instant,
    pub reorder_at: Instant,
    fin: Fin,
    pub sack: bool,
    pub ecn: bool,
    /// Whether to tell that the window was reduced (CWR).
    pub reduced: bool,
    /// Whether to see what a closed window says.
    window_probe: bool,
    /// By how many bits the other side's windows are shifted.
    pub shift: u8,
    /// Payload in a full segment.
    pub mss: u16,
    pub rtt: Rtt,
    /// When data was last sent.
    pub sent_at: Instant,
    /// The largest window the other side ever offered.
    max_window: u64,
    /// The position of the stream's first byte.
    start: u64,
    pub scoreboard: Scoreboard,
    pub recovery: Recovery,
    pub window: Window,
    pub probe: TailProbe,
    pub algorithm: Algorithm,
    /// The end of the last segment that was not full.
    small_end: u64,
    pub rack: Rack,
    pub undo: Undo,
    pub counters: Counters,
}

// The first two lines; the bursts'; what is amiss behind how many are in flight; the window's, with
// the byte that tells the algorithm.
#[cfg(target_pointer_width = "64")]
const _: () = {
    use core::mem::offset_of;

    assert!(offset_of!(Sender, start) == 128);
    assert!(offset_of!(Sender, scoreboard.bursts) % 64 == 0);
    assert!(offset_of!(Sender, window) - offset_of!(Sender, scoreboard.bursts) == 128);
    assert!(offset_of!(Sender, algorithm) % 64 == 56);
};

impl Sender {
    pub(crate) fn new(config: &Config, isn: u32) -> Self {
        let first = first(isn);
        Self {
            una: first,
            next: first,
            end: first + 1,
            start: first + 1,
            edge: 0,
            edge_seq: 0,
            max_window: 0,
            small_end: 0,
            scoreboard: Scoreboard::default(),
            window: Window::new(u32::from(config.initial_window).max(1)),
            rtt: Rtt::new(&config.rto),
            algorithm: Algorithm::new(config.control, config.hystart),
            recovery: Recovery::new(first),
            undo: Undo::default(),
            rack: Rack::default(),
            probe: TailProbe::default(),
            sent_at: Instant::ZERO,
            timeout_at: NEVER,
            probe_at: NEVER,
            reorder_at: NEVER,
            counters: Counters::default(),
            mss: config.mss,
            shift: 0,
            fin: Fin::Open,
            sack: config.sack,
            ecn: false,
            reduced: false,
            window_probe: false,
        }
    }

    /// The SYN is acknowledged: the stream may begin.
    pub(crate) fn open(&mut self, seq: u64, window: u64) {
        self.una = self.start;
        self.next = self.start;
        self.edge = self.una + window;
        self.edge_seq = seq;
        self.max_window = window;
        self.timeout_at = NEVER;
    }

    /// The application has so many bytes more; returns how many of them there is room for.
    pub(crate) fn write(&mut self, config: &Config, bytes: u64) -> u64 {
        if self.fin != Fin::Open {
            return 0;
        }
        let held = self.end - self.una.max(self.start);
        let taken = bytes.min(config.send_buffer.saturating_sub(held));
        self.end += taken;
        taken
    }

    /// The application has nothing more.
    pub(crate) fn close(&mut self) {
        if self.fin == Fin::Open {
            self.fin = Fin::Queued;
        }
    }

    /// Whether the application has nothing more.
    pub(crate) fn is_closing(&self) -> bool {
        self.fin != Fin::Open
    }

    /// Bytes that are acknowledged.
    pub(crate) fn acknowledged(&self) -> u64 {
        self.una.clamp(self.start, self.end) - self.start
    }

    /// Bytes that are written and not acknowledged.
    pub(crate) fn unacknowledged(&self) -> u64 {
        self.end - self.una.clamp(self.start, self.end)
    }

    /// Whether everything is acknowledged, and the end.
    #[inline]
    pub(crate) fn is_finished(&self) -> bool {
        self.fin == Fin::Sent && self.una == self.next
    }

    /// Whether nothing is in flight: the scoreboard covers what lies between. Those who only listen
    /// do not look at it.
    #[inline]
    pub(crate) fn is_quiet(&self) -> bool {
        let is_quiet = self.una == self.next;
        debug_assert_eq!(is_quiet, self.scoreboard.is_empty());
        is_quiet
    }

    /// Segments believed to be in the network (RFC 6675 §4, SetPipe). Without SACK every duplicate
    /// acknowledgement stands for one that has left it (RFC 6582).
    #[inline]
    pub(crate) fn pipe(&self) -> u32 {
        self.scoreboard.in_flight().saturating_sub(self.recovery.duplicates)
    }

    /// The time to act.
    #[inline]
    pub(crate) fn deadline(&self) -> Instant {
        self.timeout_at.min(self.probe_at).min(self.reorder_at)
    }

    /// The time has come.
    pub(crate) fn on_deadline(&mut self, config: &Config, now: Instant) {
        if self.reorder_at <= now {
            self.reorder_at = NEVER;
            self.on_reorder_timer(config, now);
        }
        if self.probe_at <= now {
            self.probe_at = NEVER;
            self.on_probe_timer(config, now);
        }
        if self.timeout_at <= now {
            if self.is_quiet() {
                // RFC 9293 §3.8.6.1
                self.window_probe = true;
                self.rtt.back_off();
                self.timeout_at = now + self.rtt.timeout(&config.rto);
            } else {
                self.on_timeout(config, now);
            }
        }
    }

    /// An acknowledgement has come.
    #[inline]
    pub(crate) fn on_ack(&mut self, config: &Config, now: Instant, ack: &Ack<'_>) {
        let advanced = ack.number > self.una;
        let moved = self.update_window(ack);
        if !advanced && ack.blocks.is_empty() && self.is_quiet() {
            // The other side talks and we listen. If its window is closed, the next probe waits
            // from now on.
            self.timeout_at = NEVER;
            return;
        }
        let mut news = Delivery::new(now, self.rtt.min(), ack.echo.zip(config.timestamps));
        let duplicate = if ack.blocks.is_empty() { None } else { self.on_sack(ack, &mut news) };
        if advanced {
            self.una = ack.number;
            self.scoreboard.acknowledge(ack.number, &mut news);
            self.recovery.retries = 0;
        }
        if !self.sack {
            self.count_duplicates(ack, advanced, moved, &mut news);
        }
        self.sample(config, now, ack, advanced, &news);

        let progress = Progress {
            now,
            delivered: news.segments,
            round_trip: (news.latest_end > 0).then(|| now.since(news.latest)),
            smoothed: self.rtt.smoothed(),
            shortest: self.rtt.min(),
            mss: self.mss,
            una: self.una,
            next: self.next,
            marked: ack.marked && self.ecn,
        };
        self.algorithm.observe(&mut self.window, &progress);
        let newly_lost = self.repair(config, now, ack, advanced, duplicate, &news);
        if self.recovery.phase.is_reducing() {
            self.reduce(config, progress.delivered, newly_lost, advanced);
        } else if advanced {
            self.algorithm.grow(&mut self.window, &progress);
        }

        if self.is_quiet() {
            self.timeout_at = NEVER;
            self.probe_at = NEVER;
            self.probe.due = false;
            self.reorder_at = NEVER;
        } else if advanced {
            // RFC 6298 §5.3
            self.timeout_at = now + self.rtt.timeout(&config.rto);
            self.arm_probe(config, now);
        }
    }

    /// Takes over the window that is offered, unless a later segment has offered another (RFC 9293
    /// §3.10.7.4); whether it differs.
    #[inline]
    fn update_window(&mut self, ack: &Ack<'_>) -> bool {
        let edge = ack.number + ack.window;
        let newer = ack.number > self.una || ack.seq > self.edge_seq;
        if !newer && (ack.seq < self.edge_seq || edge <= self.edge) {
            return false;
        }
        if edge > self.edge && self.is_quiet() {
            // It was closed, and opens: nobody was slow.
            self.rtt.forgive();
        }
        let moved = edge != self.edge;
        self.edge = edge;
        self.edge_seq = ack.seq;
        self.max_window = self.max_window.max(ack.window);
        moved
    }

    /// Reads the selective acknowledgements. Returns what arrived twice, if that is reported (RFC
    /// 2883 §4).
    fn on_sack(&mut self, ack: &Ack<'_>, news: &mut Delivery) -> Option<(u64, u64)> {
        let unwrapped = |block: &(u32, u32)| (unwrap(self.una, block.0), unwrap(self.una, block.1));
        let mut blocks = ack.blocks;
        let mut duplicate = None;
        if let Some(first) = blocks.first().map(unwrapped) {
            let second = blocks.get(1).map(unwrapped);
            let within = second.is_some_and(|second| second.0 <= first.0 && first.1 <= second.1);
            if first.1 <= ack.number || within {
                duplicate = Some(first);
                blocks = &blocks[1..];
            }
        }
        for block in blocks {
            let (start, end) = unwrapped(block);
            if self.una <= start && start < end && end <= self.next {
                self.scoreboard.sack(start, end, news);
            }
        }
        duplicate
    }

    /// Takes a round trip from an acknowledgement, if it is sure of which transmission (RFC 6298
    /// §3).
    #[inline]
    fn sample(
        &mut self,
        config: &Config,
        now: Instant,
        ack: &Ack<'_>,
        advanced: bool,
        news: &Delivery,
    ) {
        if news.oldest != NEVER && !news.ambiguous {
            self.rtt.sample(&config.rto, now.since(news.oldest));
        } else if let (Some(echo), Some(tick)) = (ack.echo, config.timestamps)
            && advanced
            && news.segments > 0
        {
            self.rtt.sample(&config.rto, told(now, tick, echo));
        }
    }

    /// The next segment, if one may leave now.
    #[inline]
    pub(crate) fn poll(&mut self, config: &Config, now: Instant) -> Option<Outgoing> {
        let has_new = self.unsent() > 0 || self.fin == Fin::Queued;
        if !has_new && (self.is_quiet() || !self.may_repeat()) {
            return None;
        }
        let in_flight = self.pipe();
        let room = in_flight < self.window.size;
        if self.probe.due {
            self.probe.due = false;
            return Some(self.send_tail_probe(config, now));
        }
        if (room || self.recovery.force)
            && let Some(index) = self.scoreboard.first_lost()
        {
            self.recovery.force = false;
            return Some(self.send_again(config, now, index));
        }
        if room {
            if let Some((len, fin)) = self.sendable(config) {
                return Some(self.send_new(config, now, len, fin));
            }
            if self.recovery.phase == Phase::Recovery
                && let Some(index) = self.doubtful(config)
            {
                return Some(self.send_again(config, now, index));
            }
        }
        if self.is_quiet() { self.poll_window(config, now) } else { None }
    }

    /// Whether something that is in flight may have to be sent again now.
    #[inline]
    fn may_repeat(&self) -> bool {
        self.scoreboard.lost() > 0 || self.probe.due || self.recovery.phase == Phase::Recovery
    }

    /// With nothing in flight, what waits can only wait for the other side's window.
    #[inline]
    fn poll_window(&mut self, config: &Config, now: Instant) -> Option<Outgoing> {
        let unsent = self.unsent();
        if unsent == 0 && self.fin != Fin::Queued {
            return None;
        }
        if !self.window_probe {
            if self.timeout_at == NEVER {
                self.timeout_at = now + self.rtt.timeout(&config.rto);
            }
            return None;
        }
        self.window_probe = false;
        let room = self.edge.saturating_sub(self.next);
        let len = unsent.min(u64::from(self.mss)).min(room) as u16;
        if len > 0 {
            // RFC 9293 §3.8.6.2.1, the override timeout: a sliver is better than nothing.
            return Some(self.send_new(config, now, len, false));
        }
        // As Linux probes: a number that was acknowledged already has to be answered, and takes no
        // room.
        Some(Outgoing { seq: self.una - 1, len: 0, fin: false, new: false, last: false })
    }

    /// Bytes that were never sent.
    #[inline]
    fn unsent(&self) -> u64 {
        self.end.saturating_sub(self.next)
    }

    /// How many bytes make up the next new segment, and whether the stream's end is in it; if it
    /// may be sent as far as the other side's window, silly windows (RFC 9293 §3.8.6.2.1) and Nagle
    /// are concerned.
    #[inline]
    pub(crate) fn sendable(&self, config: &Config) -> Option<(u16, bool)> {
        let unsent = self.unsent();
        let closing = self.fin == Fin::Queued;
        if unsent == 0 && !closing {
            return None;
        }
        let room = self.edge.saturating_sub(self.next);
        let mss = u64::from(self.mss);
        let len = unsent.min(mss).min(room);
        let fin = closing && len == unsent && room > len;
        let may = if len == mss || fin {
            true
        } else if len < unsent || len == 0 {
            len > 0 && len >= self.max_window / 2
        } else {
            match config.nagle {
                Nagle::Off => true,
                Nagle::Classic => self.is_quiet(),
                Nagle::Minshall => self.small_end <= self.una,
            }
        };
        may.then_some((len as u16, fin))
    }

    /// A segment leaves for the first time.
    #[inline]
    pub(crate) fn send_new(
        &mut self,
        config: &Config,
        now: Instant,
        len: u16,
        fin: bool,
    ) -> Outgoing {
        if self.is_quiet() {
            self.start_flight(config, now);
        }
        let seq = self.next;
        self.scoreboard.push(Sent::new(seq, now, len, fin));
        self.next = seq + u64::from(len) + u64::from(fin);
        if fin {
            self.fin = Fin::Sent;
        }
        if len < self.mss {
            self.small_end = self.next;
        }
        self.sent_at = now;
        self.recovery.note_sent();
        self.window.note_use(now, self.una, self.next, self.scoreboard.len(), self.pipe());
        if config.slow_start_after_idle && self.recovery.phase == Phase::Open {
            self.window.decay(now, self.rtt.timeout(&config.rto), u32::from(config.initial_window));
        }
        self.arm_probe(config, now);
        Outgoing { seq, len, fin, new: true, last: self.unsent() == 0 }
    }

    /// Nothing is in flight, and something is about to be.
    fn start_flight(&mut self, config: &Config, now: Instant) {
        if self.recovery.phase == Phase::Cwr {
            self.finish();
        }
        let (pause, timeout) = (now.since(self.sent_at), self.rtt.timeout(&config.rto));
        if config.slow_start_after_idle && pause > timeout {
            self.window.restart(now, pause, timeout, u32::from(config.initial_window));
        }
        self.algorithm.on_start(now, self.sent_at, self.next);
        self.timeout_at = now + timeout;
    }

    /// A segment leaves once more.
    pub(crate) fn send_again(&mut self, config: &Config, now: Instant, index: usize) -> Outgoing {
        let sent = self.scoreboard.resend(index, now);
        self.counters.retransmitted += 1;
        self.sent_at = now;
        self.recovery.note_sent();
        self.undo.note_resent(config, now);
        if index == 0 {
            // As Linux and FreeBSD do: its acknowledgement gets its own time.
            self.timeout_at = now + self.rtt.timeout(&config.rto);
        }
        let last = sent.end() >= self.end;
        Outgoing { seq: sent.seq, len: sent.len, fin: sent.fin, new: false, last }
    }
}
