//! One side of a connection: opening, closing, and who gets to see what arrives (RFC 9293 §3.10).

use alloc::sync::Arc;

use units::{Instant, Span};

use crate::receive::{Echo, Receiver};
use crate::rtt::{StampClock, told};
use crate::segment::{SynOptions, unwrap};
use crate::send::{Ack, Outgoing, Sender};
use crate::{Config, Flags, NEVER, Segment, Timestamps};

/// Where a connection stands (RFC 9293 §3.3.2).
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum State {
    /// Its SYN is under way.
    SynSent,
    /// It has seen a SYN, and its own is under way.
    SynReceived,
    /// Both sides may send.
    Established,
    /// Closed by this side; what is left, and the FIN, is being sent.
    FinWait1,
    /// Closed by this side, and the other knows.
    FinWait2,
    /// Closed by the other side.
    CloseWait,
    /// Closed by both at once.
    Closing,
    /// Closed by the other side, then by this one.
    LastAck,
    /// Closed by both; late segments are still answered.
    TimeWait,
    /// Over.
    Closed,
}

/// What an endpoint has done and believes.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Stats {
    /// Segments sent, of any kind.
    pub sent: u64,
    /// Segments received, of any kind.
    pub received: u64,
    /// Segments that were sent again, handshakes and probes included.
    pub retransmitted: u32,
    /// Retransmission timeouts, handshakes included.
    pub timeouts: u32,
    /// Fast recoveries.
    pub fast_recoveries: u32,
    /// Tail loss probes.
    pub tail_probes: u32,
    /// Of them, those that sent a segment again, because there was nothing new to send.
    pub tail_copies: u32,
    /// Reductions that were taken back, because nothing had been lost.
    pub spurious: u32,
    /// The congestion window, in segments.
    pub cwnd: u32,
    /// The slow start threshold, in segments, once there is one.
    pub ssthresh: Option<u32>,
    /// Segments believed to be in the network.
    pub in_flight: u32,
    /// The smoothed round trip, once there is one.
    pub srtt: Option<Span>,
    /// The retransmission timeout, backed off or not.
    pub rto: Span,
}

/// One side of one connection.
#[derive(Clone, Debug)]
#[repr(C, align(64))]
pub struct Endpoint {
    config: Arc<Config>,
    clock: StampClock,
    sent: u64,
    received: u64,
    /// A reset to send: its number, and what it acknowledges.
    reset: Option<(u32, Option<u32>)>,
    state: State,
    /// Whether both sides send timestamps.
    stamped: bool,
    /// Whether a SYN is to be sent.
    syn_due: bool,
    /// How often it was.
    syns: u8,
    was_reset: bool,
    receive: Receiver,
    send: Sender,
}

impl Endpoint {
    /// Opens a connection, with this initial sequence number.
    pub fn connect(config: &Config, isn: u32) -> Self {
        Self::connect_shared(Arc::new(*config), isn)
    }

    /// The same, with a configuration that many endpoints share, so that it stays in cache.
    pub fn connect_shared(config: Arc<Config>, isn: u32) -> Self {
        Self::new(config, isn, State::SynSent)
    }

    /// Answers `syn`, with this initial sequence number.
    ///
    /// # Panics
    ///
    /// If it is no SYN, or acknowledges something: there is no connection to accept then
    /// ([`Segment::refusal`]).
    pub fn accept(config: &Config, isn: u32, syn: &Segment) -> Self {
        Self::accept_shared(Arc::new(*config), isn, syn)
    }

    /// The same, with a configuration that many endpoints share.
    ///
    /// # Panics
    ///
    /// As [`Endpoint::accept`] does.
    pub fn accept_shared(config: Arc<Config>, isn: u32, syn: &Segment) -> Self {
        let is_syn = syn.flags.contains(Flags::SYN) && !syn.flags.contains(Flags::ACK);
        assert!(is_syn, "a connection begins with a SYN: {syn:?}");
        let mut endpoint = Self::new(config, isn, State::SynReceived);
        endpoint.received = 1;
        endpoint.agree(syn);
        endpoint
    }

    fn new(config: Arc<Config>, isn: u32, state: State) -> Self {
        Self {
            state,
            stamped: config.timestamps.is_some(),
            syn_due: true,
            syns: 0,
            was_reset: false,
            reset: None,
            sent: 0,
            received: 0,
            clock: StampClock::default(),
            send: Sender::new(&config, isn),
            receive: Receiver::new(&config),
            config,
        }
    }

    /// The application has `bytes` more to send. Returns how many of them the send buffer takes.
    pub fn write(&mut self, bytes: u64) -> u64 {
        if self.state == State::Closed { 0 } else { self.send.write(&self.config, bytes) }
    }

    /// The application has read `bytes`; not needed if it reads at once ([`Config::auto_read`]).
    pub fn read(&mut self, bytes: u64) {
        self.receive.consume(&self.config, bytes);
    }

    /// The application has nothing more to send. What it wrote is sent first.
    pub fn close(&mut self) {
        self.send.close();
        match self.state {
            State::Established => self.state = State::FinWait1,
            State::CloseWait => self.state = State::LastAck,
            _ => {}
        }
    }

    /// Gives the connection up, and tells the other side.
    pub fn abort(&mut self) {
        if !matches!(self.state, State::SynSent | State::Closed) {
            self.reset = Some((self.send.next as u32, None));
        }
        self.shut(true);
    }

    /// A segment has arrived; `congestion_experienced` if its IP header was marked so (RFC 3168
    /// §5).
    #[inline]
    pub fn handle(&mut self, now: Instant, segment: &Segment, congestion_experienced: bool) {
        self.received += 1;
        match self.state {
            State::SynSent => self.handle_syn_sent(now, segment),
            State::Closed => self.refuse(segment),
            _ => self.handle_synchronized(now, segment, congestion_experienced),
        }
    }

    /// §3.10.7.3
    fn handle_syn_sent(&mut self, now: Instant, segment: &Segment) {
        let flags = segment.flags;
        let acks = flags.contains(Flags::ACK);
        if acks && unwrap(self.send.next, segment.ack) != self.send.next {
            self.refuse(segment);
        } else if flags.contains(Flags::RST) {
            if acks {
                self.shut(true);
            }
        } else if flags.contains(Flags::SYN) {
            self.agree(segment);
            if acks {
                self.establish(now, segment);
            } else {
                // Both have opened at once.
                self.state = State::SynReceived;
                self.syn_due = true;
            }
        }
    }

    /// §3.10.7.4
    #[inline]
    fn handle_synchronized(
        &mut self,
        now: Instant,
        segment: &Segment,
        congestion_experienced: bool,
    ) {
        let flags = segment.flags;
        let seq = unwrap(self.receive.next, segment.seq);
        let is_plain = flags.0 & (Flags::SYN | Flags::RST | Flags::ACK).0 == Flags::ACK.0;
        if self.is_outdated(now, segment) {
            // RFC 7323 §5.3. One that carries nothing was overtaken, and has no news.
            if segment.sequence_len() > 0 && !flags.contains(Flags::RST) {
                self.receive.repeated(&self.config, seq, segment.sequence_len());
            }
            return;
        }
        if !is_plain && !self.handle_odd(now, segment, seq) {
            return;
        }
        if !self.receive.is_acceptable(seq, segment.sequence_len()) {
            self.receive.repeated(&self.config, seq, segment.sequence_len());
            return;
        }
        if let Some(stamps) = segment.timestamps
            && seq <= self.receive.acked()
        {
            // RFC 7323 §4.3
            self.receive.take_stamp(now, stamps.value);
        }
        if self.state == State::SynReceived && !self.handle_opening_ack(now, segment) {
            return;
        }
        if !self.handle_ack(now, segment, seq) {
            return;
        }
        self.handle_payload(now, segment, seq, congestion_experienced);
    }

    /// Whether a segment is older than what was seen (PAWS, RFC 7323 §5).
    #[inline]
    fn is_outdated(&self, now: Instant, segment: &Segment) -> bool {
        let is_before =
            |stamps: Timestamps| (stamps.value.wrapping_sub(self.receive.stamp) as i32) < 0;
        self.stamped && segment.timestamps.is_some_and(is_before) && self.receive.stamp_holds(now)
    }

    /// SYN, RST, and segments without ACK. Whether there is more to see in it.
    fn handle_odd(&mut self, now: Instant, segment: &Segment, seq: u64) -> bool {
        let flags = segment.flags;
        if flags.contains(Flags::RST) {
            // RFC 5961 §3: exactly the next number, or somebody may be guessing. RFC 1337:
            // TIME-WAIT ends by itself.
            match self.state {
                State::TimeWait => {}
                _ if seq == self.receive.next => self.shut(true),
                _ if self.receive.is_in_window(seq) => self.receive.owe(),
                _ => {}
            }
            return false;
        }
        if flags.contains(Flags::SYN) {
            if self.state != State::SynReceived || seq + 1 != self.receive.next {
                // RFC 5961 §4
                self.receive.owe();
                return false;
            }
            // The other side has not seen our SYN, or both have opened at once.
            if !flags.contains(Flags::ACK) {
                self.syn_due = true;
                return false;
            }
            self.handle_opening_ack(now, segment);
            return false;
        }
        flags.contains(Flags::ACK)
    }

    /// The acknowledgement of our SYN; whether it is.
    fn handle_opening_ack(&mut self, now: Instant, segment: &Segment) -> bool {
        if self.syns == 0 || unwrap(self.send.next, segment.ack) != self.send.next {
            self.refuse(segment);
            return false;
        }
        self.establish(now, segment);
        true
    }

    /// Looks at the acknowledgement; whether the rest of the segment may be looked at too.
    #[inline]
    fn handle_ack(&mut self, now: Instant, segment: &Segment, seq: u64) -> bool {
        if self.state == State::TimeWait {
            return true;
        }
        let number = unwrap(self.send.una, segment.ack);
        if number > self.send.next {
            // Of something that was never sent.
            self.receive.owe();
            return false;
        }
        if number < self.send.una {
            // It was overtaken.
            return true;
        }
        let ack = Ack {
            number,
            seq,
            window: u64::from(segment.window) << self.send.shift,
            blocks: if self.send.sack { segment.sack.as_slice() } else { &[] },
            echo: if self.stamped { segment.timestamps.map(|stamps| stamps.echo) } else { None },
            marked: segment.flags.contains(Flags::ECE),
            bare: segment.sequence_len() == 0,
        };
        self.send.on_ack(&self.config, now, &ack);
        if self.send.is_finished() {
            match self.state {
                State::FinWait1 => self.state = State::FinWait2,
                State::Closing => self.wait(now),
                State::LastAck => self.shut(false),
                _ => {}
            }
        }
        true
    }

    /// Takes in payload and FIN.
    #[inline]
    fn handle_payload(
        &mut self,
        now: Instant,
        segment: &Segment,
        seq: u64,
        congestion_experienced: bool,
    ) {
        let fin = segment.flags.contains(Flags::FIN);
        if segment.len == 0 && !fin {
            return;
        }
        if self.receive.is_finished() {
            // Again: our acknowledgement was lost.
            self.receive.repeated(&self.config, seq, segment.sequence_len());
            if self.state == State::TimeWait {
                self.wait(now);
            }
            return;
        }
        self.receive.observe(congestion_experienced, segment.flags.contains(Flags::CWR));
        self.receive.take(&self.config, now, &self.send.rtt, seq, segment.len, fin);
        if self.receive.is_finished() {
            match self.state {
                State::Established => self.state = State::CloseWait,
                State::FinWait1 => self.state = State::Closing,
                State::FinWait2 => self.wait(now),
                _ => {}
            }
        }
    }

    /// Takes over what the other side's SYN says.
    fn agree(&mut self, syn: &Segment) {
        self.receive.open(syn.seq);
        // RFC 9293 §3.7.1: 536 if it says nothing.
        let options =
            syn.syn.unwrap_or(SynOptions { mss: 536, window_scale: None, sack_permitted: false });
        self.stamped &= syn.timestamps.is_some();
        if let Some(stamps) = syn.timestamps {
            self.receive.stamp = stamps.value;
        }
        // RFC 6691 §2: options take their room from the payload.
        let overhead = if self.stamped { 12 } else { 0 };
        self.send.mss = self.config.mss.min(options.mss).max(64) - overhead;
        self.receive.mss = self.send.mss;
        match options.window_scale {
            Some(shift) => self.send.shift = shift.min(14),
            None => self.receive.shift = 0,
        }
        let sack = self.config.sack && options.sack_permitted;
        self.send.sack = sack;
        self.receive.sack = sack;
        // RFC 3168 §6.1.1: a SYN sets both bits, its answer one.
        let wanted =
            if syn.flags.contains(Flags::ACK) { Flags::ECE } else { Flags::ECE | Flags::CWR };
        let said = Flags(syn.flags.0 & (Flags::ECE | Flags::CWR).0);
        if self.wants_ecn() && said == wanted {
            self.send.ecn = true;
            let exact = self.send.algorithm.needs_ecn();
            self.receive.echo = if exact { Echo::Exact } else { Echo::Latched };
        }
    }

    fn wants_ecn(&self) -> bool {
        self.config.ecn || self.send.algorithm.needs_ecn()
    }

    /// Our SYN is acknowledged, and theirs is here.
    fn establish(&mut self, now: Instant, segment: &Segment) {
        let rto = &self.config.rto;
        match (segment.timestamps, self.config.timestamps) {
            _ if self.syns == 1 => self.send.rtt.sample(rto, now.since(self.send.sent_at)),
            (Some(stamps), Some(tick)) if self.stamped => {
                self.send.rtt.sample(rto, told(now, tick, stamps.echo));
            }
            _ => self.send.rtt.assume_slow(rto),
        }
        if self.syns > 2 {
            // RFC 6928 §2: a SYN that was lost more than once.
            self.send.window.size = 1;
        }
        let is_syn = segment.flags.contains(Flags::SYN);
        let shift = if is_syn { 0 } else { self.send.shift };
        let seq = unwrap(self.receive.next, segment.seq);
        self.send.open(seq, u64::from(segment.window) << shift);
        self.syn_due = false;
        self.state = State::Established;
        if self.send.is_closing() {
            self.state = State::FinWait1;
        }
    }

    fn wait(&mut self, now: Instant) {
        self.state = State::TimeWait;
        self.send.timeout_at = now + self.config.time_wait;
    }

    fn shut(&mut self, reset: bool) {
        self.was_reset = reset;
        self.state = State::Closed;
        self.syn_due = false;
        self.send.timeout_at = NEVER;
        self.send.probe_at = NEVER;
        self.send.reorder_at = NEVER;
        self.receive.settle();
    }

    fn refuse(&mut self, segment: &Segment) {
        if let Some(refusal) = segment.refusal() {
            let ack = refusal.flags.contains(Flags::ACK).then_some(refusal.ack);
            self.reset = Some((refusal.seq, ack));
        }
    }

    /// The next segment to send, if there is one now. Call it until there is none.
    // With all that it calls for an ordinary segment: handing one over in memory costs a simulation
    // 2 to 5 % of its speed.
    #[inline(always)]
    pub fn poll_transmit(&mut self, now: Instant) -> Option<Segment> {
        if let Some((seq, ack)) = self.reset.take() {
            return Some(self.reset_segment(seq, ack));
        }
        match self.state {
            State::SynSent | State::SynReceived => return self.poll_syn(now),
            State::Closed => return None,
            _ => {}
        }
        if let Some((next, marked)) = self.receive.take_before() {
            let mut ack = self.acknowledgement(now);
            ack.ack = next as u32;
            ack.flags = if marked { Flags::ACK | Flags::ECE } else { Flags::ACK };
            return Some(ack);
        }
        if self.receive.is_report_due() {
            return Some(self.report(now));
        }
        if let Some(outgoing) = self.send.poll(&self.config, now) {
            return Some(self.data(now, outgoing));
        }
        if !self.receive.is_due(now) {
            return None;
        }
        self.receive.note_waited();
        Some(self.report(now))
    }

    /// When to call [`Endpoint::handle_deadline`], if nothing happens before.
    #[inline]
    pub fn next_deadline(&self) -> Option<Instant> {
        let deadline = self.send.deadline().min(self.receive.deadline());
        if deadline == NEVER { None } else { Some(deadline) }
    }

    /// The time has come, or passed, or not yet: then nothing happens.
    pub fn handle_deadline(&mut self, now: Instant) {
        match self.state {
            State::Closed => {}
            _ if self.send.deadline() > now => {}
            State::SynSent | State::SynReceived => {
                self.send.counters.timeouts += 1;
                self.send.rtt.back_off();
                self.send.timeout_at = NEVER;
                self.syn_due = true;
            }
            State::TimeWait => self.shut(false),
            _ => self.send.on_deadline(&self.config, now),
        }
    }

    #[cold]
    fn poll_syn(&mut self, now: Instant) -> Option<Segment> {
        if !self.syn_due {
            return None;
        }
        self.syn_due = false;
        let answers = self.state == State::SynReceived;
        let first = self.send.una;
        self.send.next = first + 1;
        self.send.sent_at = now;
        self.send.timeout_at = now + self.send.rtt.timeout(&self.config.rto);
        self.send.counters.retransmitted += u32::from(self.syns > 0);
        self.syns = self.syns.saturating_add(1);
        let mut syn = Segment { seq: first as u32, flags: Flags::SYN, ..self.blank(now) };
        // An answer offers only what was asked for.
        let scales = !answers || self.receive.shift > 0 || self.send.shift > 0;
        syn.syn = Some(SynOptions {
            mss: self.config.mss,
            window_scale: scales.then_some(self.receive.shift),
            sack_permitted: self.send.sack,
        });
        syn.window = self.receive.offer(&self.config, 0);
        if answers {
            syn.flags |= Flags::ACK;
            if self.send.ecn {
                syn.flags |= Flags::ECE;
            }
            self.receive.told();
        } else if self.wants_ecn() {
            syn.flags |= Flags::ECE | Flags::CWR;
        }
        self.sent += 1;
        Some(syn)
    }

    /// A segment with payload or FIN, or a probe of the window.
    #[inline(always)]
    fn data(&mut self, now: Instant, outgoing: Outgoing) -> Segment {
        let mut segment = self.acknowledgement(now);
        segment.seq = outgoing.seq as u32;
        segment.len = outgoing.len;
        if outgoing.last && outgoing.len > 0 {
            segment.flags |= Flags::PSH;
        }
        if outgoing.fin {
            segment.flags |= Flags::FIN;
        }
        if self.send.ecn {
            // RFC 3168 §6.1.5: not on what is sent again. RFC 8257 §3 wants it everywhere, and
            // `acknowledgement` has it.
            segment.ecn_capable |= outgoing.new;
            if outgoing.new && self.send.reduced {
                self.send.reduced = false;
                segment.flags |= Flags::CWR;
            }
        }
        self.receive.answered(&self.config, now);
        self.receive.told();
        segment
    }

    /// An acknowledgement with all there is to say.
    #[inline(always)]
    fn report(&mut self, now: Instant) -> Segment {
        let sack = self.receive.sack_blocks();
        let segment = Segment { sack, ..self.acknowledgement(now) };
        self.receive.told();
        segment
    }

    /// A segment without payload that acknowledges.
    #[inline(always)]
    fn acknowledgement(&mut self, now: Instant) -> Segment {
        self.sent += 1;
        let window = self.receive.offer(&self.config, self.receive.shift);
        let flags = if self.receive.echoes() { Flags::ACK | Flags::ECE } else { Flags::ACK };
        let ecn_capable = self.send.ecn && self.send.algorithm.needs_ecn();
        let seq = self.send.next as u32;
        Segment { seq, window, flags, ecn_capable, ..self.blank(now) }
    }

    #[inline(always)]
    fn blank(&mut self, now: Instant) -> Segment {
        let timestamps = match self.config.timestamps {
            Some(tick) if self.stamped => {
                Some(Timestamps { value: self.clock.read(now, tick), echo: self.receive.stamp })
            }
            _ => None,
        };
        Segment { ack: self.receive.next as u32, timestamps, ..Segment::BLANK }
    }

    fn reset_segment(&mut self, seq: u32, ack: Option<u32>) -> Segment {
        self.sent += 1;
        let flags = if ack.is_some() { Flags::RST | Flags::ACK } else { Flags::RST };
        Segment { seq, ack: ack.unwrap_or(0), flags, ..Segment::BLANK }
    }

    /// Where the connection stands.
    pub fn state(&self) -> State {
        self.state
    }

    /// Whether the handshake is done and nobody has closed.
    pub fn is_established(&self) -> bool {
        self.state == State::Established
    }

    /// Whether the connection is over.
    pub fn is_closed(&self) -> bool {
        self.state == State::Closed
    }

    /// Whether it ended before its time.
    pub fn was_reset(&self) -> bool {
        self.was_reset
    }

    /// Whether all that the other side had to say has arrived.
    pub fn peer_closed(&self) -> bool {
        self.receive.is_finished()
    }

    /// Bytes that have arrived in order since the beginning.
    #[inline]
    pub fn delivered(&self) -> u64 {
        self.receive.delivered()
    }

    /// Bytes that have arrived in order and were not read.
    pub fn unread(&self) -> u64 {
        self.receive.unread()
    }

    /// Bytes that the other side has acknowledged since the beginning.
    #[inline]
    pub fn acknowledged(&self) -> u64 {
        self.send.acknowledged()
    }

    /// Bytes that were written and are not acknowledged.
    pub fn unacknowledged(&self) -> u64 {
        self.send.unacknowledged()
    }

    /// What it has done and believes.
    pub fn stats(&self) -> Stats {
        let counters = &self.send.counters;
        let smoothed = self.send.rtt.smoothed();
        let threshold = self.send.window.threshold;
        Stats {
            sent: self.sent,
            received: self.received,
            retransmitted: counters.retransmitted,
            timeouts: counters.timeouts,
            fast_recoveries: counters.recoveries,
            tail_probes: counters.probes,
            tail_copies: self.send.probe.copies,
            spurious: self.send.undo.done,
            cwnd: self.send.window.size,
            ssthresh: (threshold != crate::control::UNKNOWN).then_some(threshold),
            in_flight: self.send.pipe(),
            srtt: (smoothed > Span::ZERO).then_some(smoothed),
            rto: self.send.rtt.timeout(&self.config.rto),
        }
    }
}
