//! One end of a BFD session.

use core::num::NonZeroU32;

use units::{Instant, Rng, Span};
use wire::bfd::{Diagnostic, Flags, Header, Packet, State};

use super::{Change, Config, Output, Refusal, Status};

/// The minimum transmit interval while a session is not up, in microseconds (RFC 5880 §6.8.3).
const SLOW: u32 = 1_000_000;

/// Jitter is counted in 1024ths of an interval. It shortens an interval by up to 255 of them, a
/// quarter (§6.8.7).
const PARTS: u64 = 1024;

/// The least jitter with a multiplier of 1, when a single late packet would expire the detection
/// time: a tenth (§6.8.7).
const LEAST_PARTS: u8 = 103;

/// The poll sequence by which the far end confirms new intervals (§6.5).
///
/// A Final does not say which Poll it answers. If the round trip is longer than the interval, a
/// late Final to an earlier Poll is taken for the answer to this one. The protocol cannot tell them
/// apart.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Poll {
    /// The far end has confirmed the current intervals.
    Done,
    /// The next packet is to carry a Poll.
    Wanted,
    /// A Poll was sent.
    Asked,
    /// A Poll was sent, and the intervals have changed since. The Final will confirm the old ones,
    /// so another Poll must follow.
    Outdated,
}

/// The state of the far end in its last packet.
#[derive(Clone, Copy, Debug)]
struct Remote {
    /// bfd.RemoteDiscr; 0 if nothing was received within the detection time.
    discriminator: u32,
    /// bfd.RemoteMinRxInterval, in microseconds; 0 if it wants no periodic packets.
    required_min_rx: u32,
    /// Its desired minimum transmit interval, in microseconds.
    desired_min_tx: u32,
    multiplier: u8,
    /// bfd.RemoteSessionState.
    state: State,
    diagnostic: Diagnostic,
    /// bfd.RemoteDemandMode.
    demand: bool,
}

/// The assumed state of a far end from which nothing was received (§6.8.1).
const SILENT: Remote = Remote {
    discriminator: 0,
    required_min_rx: 1,
    desired_min_tx: SLOW,
    multiplier: 1,
    state: State::Down,
    diagnostic: Diagnostic::NONE,
    demand: false,
};

/// One end of a session. It fits a cache line, because there may be thousands.
///
/// Its owner calls [`handle`](Self::handle) for each received packet, then [`poll`](Self::poll)
/// until that returns `None`, and again at the [`deadline`](Self::deadline). Packets come first:
/// they may have waited while the owner was late, and must not let the detection time expire.
#[derive(Clone, Debug)]
pub struct Session {
    config: Config,
    /// bfd.LocalDiscr.
    discriminator: NonZeroU32,
    remote: Remote,
    /// The transmit interval in use, in microseconds: the one that the far end has confirmed, until
    /// it confirms a longer one.
    used_desired: u32,
    /// The receive interval that the detection time uses, in microseconds: the one that the far end
    /// has confirmed, until it confirms a shorter one.
    used_required: u32,
    /// When the last packet was sent, Finals excluded.
    sent_at: Instant,
    heard_at: Instant,
    state: State,
    diagnostic: Diagnostic,
    poll: Poll,
    /// The jitter of the current interval, in 1024ths.
    jitter: u8,
    /// A change is to be sent at once.
    has_news: bool,
    /// A Poll is to be answered.
    owes_final: bool,
}

impl Session {
    /// An end that has received nothing and is down. Its discriminator must be unique among our
    /// sessions.
    pub const fn new(config: Config, discriminator: NonZeroU32) -> Self {
        let desired = config.desired_min_tx.get();
        Self {
            config,
            discriminator,
            remote: SILENT,
            used_desired: if desired > SLOW { desired } else { SLOW },
            used_required: config.required_min_rx.get(),
            sent_at: Instant::ZERO,
            heard_at: Instant::ZERO,
            state: State::Down,
            diagnostic: Diagnostic::NONE,
            poll: Poll::Done,
            jitter: 0,
            has_news: true,
            owes_final: false,
        }
    }

    /// Our state.
    pub const fn state(&self) -> State {
        self.state
    }

    /// The status.
    pub const fn status(&self) -> Status {
        let Self {
            state, diagnostic, remote: Remote { diagnostic: remote_diagnostic, .. }, ..
        } = *self;
        Status { state, diagnostic, remote_diagnostic }
    }

    /// Our discriminator.
    pub const fn discriminator(&self) -> NonZeroU32 {
        self.discriminator
    }

    /// The detection time (§6.8.4); `None` if nothing is received from the far end.
    pub fn detection_time(&self) -> Option<Span> {
        let Remote { discriminator, desired_min_tx, multiplier, .. } = self.remote;
        let interval = u64::from(self.used_required.max(desired_min_tx));
        (discriminator != 0).then(|| Span::from_micros(interval * u64::from(multiplier)))
    }

    /// The interval between our packets, without jitter (§6.8.7).
    pub fn interval(&self) -> Span {
        Span::from_micros(self.used_desired.max(self.remote.required_min_rx).into())
    }

    /// Changes the configuration and starts a poll sequence. A longer transmit interval and a
    /// shorter detection time take effect once the far end has confirmed them (§6.8.3).
    pub fn configure(&mut self, config: Config) {
        if self.config != config {
            self.config = config;
            self.negotiate();
        }
    }

    /// Takes the session down administratively, and tells the far end the reason (§6.8.16).
    pub fn hold_down(&mut self, diagnostic: Diagnostic) -> Option<Change> {
        let before = self.status();
        self.enter(State::AdminDown, diagnostic);
        self.changed(before)
    }

    /// Ends [`hold_down`](Self::hold_down).
    pub fn release(&mut self) -> Option<Change> {
        let before = self.status();
        if self.state == State::AdminDown {
            self.enter(State::Down, self.diagnostic);
        }
        self.changed(before)
    }

    /// Takes the session down because the path is known to have failed, or our forwarding was
    /// reset. The session then comes up again as usual (§6.8.15).
    pub fn fail(&mut self, diagnostic: Diagnostic) -> Option<Change> {
        let before = self.status();
        if matches!(self.state, State::Init | State::Up) {
            self.enter(State::Down, diagnostic);
        }
        self.changed(before)
    }

    /// Sends the far end a diagnostic about paths that are concatenated with this one. Does not
    /// change the state (§6.8.17).
    pub fn tell(&mut self, diagnostic: Diagnostic) -> Option<Change> {
        let before = self.status();
        self.diagnostic = diagnostic;
        let changed = self.changed(before);
        if changed.is_some() {
            self.has_news = true;
            if self.is_spared() {
                self.want_poll();
            }
        }
        changed
    }

    /// Handles a received packet (§6.8.6).
    ///
    /// # Errors
    ///
    /// The packet is for another session, or authenticated. The session is unchanged.
    pub fn handle(&mut self, now: Instant, packet: &Packet<'_>) -> Result<Option<Change>, Refusal> {
        let header = packet.header;
        let ours = header.your_discriminator.get();
        if ours != 0 && ours != self.discriminator.get() {
            return Err(Refusal::UnknownSession);
        }
        if packet.authentication.is_some() {
            return Err(Refusal::Authenticated);
        }
        let before = self.status();
        let flags = header.flags();
        self.heard_at = now;
        self.remote = Remote {
            discriminator: header.my_discriminator.get(),
            required_min_rx: header.required_min_rx.get(),
            desired_min_tx: header.desired_min_tx.get(),
            multiplier: header.detect_multiplier,
            state: header.state(),
            diagnostic: header.diagnostic(),
            demand: flags.demand,
        };
        if flags.is_final {
            self.confirmed();
        }
        if self.state == State::AdminDown {
            return Ok(self.changed(before));
        }
        match (self.state, self.remote.state) {
            (State::Init | State::Up, State::AdminDown) | (State::Up, State::Down) => {
                self.enter(State::Down, Diagnostic::NEIGHBOR_SIGNALED_DOWN);
            }
            // Keep the diagnostic until the session is up.
            (State::Down, State::Down) => self.enter(State::Init, self.diagnostic),
            (State::Down, State::Init) | (State::Init, State::Init | State::Up) => {
                self.enter(State::Up, Diagnostic::NONE);
            }
            _ => {}
        }
        self.owes_final |= flags.poll;
        Ok(self.changed(before))
    }

    /// Runs the timers that have expired by `now`. To be called until it returns `None`.
    pub fn poll(&mut self, now: Instant, rng: &mut Rng) -> Option<Output> {
        if self.detect_at().is_some_and(|at| at <= now) {
            let before = self.status();
            // Forget its intervals, too: the next host on this path may be another.
            self.remote = Remote { diagnostic: self.remote.diagnostic, ..SILENT };
            if matches!(self.state, State::Init | State::Up) {
                self.enter(State::Down, Diagnostic::DETECTION_TIME_EXPIRED);
            }
            if let Some(change) = self.changed(before) {
                return Some(Output::Changed(change));
            }
        }
        let is_due = self.transmit_at().is_some_and(|at| at <= now);
        is_due.then(|| Output::Send(self.transmit(now, rng)))
    }

    /// The time of the next timer, which may have passed. `None` if no timer is set until a packet
    /// arrives.
    pub fn deadline(&self) -> Option<Instant> {
        match (self.transmit_at(), self.detect_at()) {
            (Some(transmit), Some(detect)) => Some(transmit.min(detect)),
            (transmit, detect) => transmit.or(detect),
        }
    }

    fn detect_at(&self) -> Option<Instant> {
        self.detection_time().map(|time| self.heard_at + time)
    }

    /// §6.8.7.
    fn transmit_at(&self) -> Option<Instant> {
        if self.config.is_passive && self.remote.discriminator == 0 {
            return None;
        }
        if self.has_news || self.owes_final {
            return Some(Instant::ZERO);
        }
        let is_periodic =
            self.remote.required_min_rx > 0 && (self.poll != Poll::Done || !self.is_spared());
        is_periodic.then(|| {
            let interval = self.interval().as_nanos();
            let off = interval / PARTS * u64::from(self.jitter.max(self.least_jitter()));
            self.sent_at + Span::from_nanos(interval - off)
        })
    }

    /// Whether demand mode is active at the far end (§6.6, §6.8.6), so that we send it nothing but
    /// poll sequences.
    fn is_spared(&self) -> bool {
        self.remote.demand && self.state == State::Up && self.remote.state == State::Up
    }

    fn least_jitter(&self) -> u8 {
        if self.config.multiplier.get() == 1 { LEAST_PARTS } else { 0 }
    }

    fn transmit(&mut self, now: Instant, rng: &mut Rng) -> Header {
        // A Final is sent at once and does not delay periodic packets. A packet never has both P
        // and F set.
        let is_final = core::mem::take(&mut self.owes_final);
        let flags =
            Flags { poll: !is_final && self.poll != Poll::Done, is_final, ..Flags::default() };
        self.has_news = false;
        if !is_final {
            let least = self.least_jitter();
            self.sent_at = now;
            self.jitter = least + rng.below(256 - u64::from(least)) as u8;
            if self.poll == Poll::Wanted {
                self.poll = Poll::Asked;
            }
        }
        let mut header = Header::new(self.state, self.diagnostic, flags, self.discriminator.get());
        header.detect_multiplier = self.config.multiplier.get();
        header.your_discriminator.set(self.remote.discriminator);
        header.desired_min_tx.set(self.desired());
        header.required_min_rx.set(self.config.required_min_rx.get());
        header
    }

    fn changed(&self, from: Status) -> Option<Change> {
        let to = self.status();
        (from != to).then_some(Change { from, to })
    }

    fn enter(&mut self, state: State, diagnostic: Diagnostic) {
        let desired = self.desired();
        (self.state, self.diagnostic) = (state, diagnostic);
        self.has_news = true;
        if self.desired() == desired { self.adopt() } else { self.negotiate() }
    }

    /// bfd.DesiredMinTxInterval, in microseconds.
    fn desired(&self) -> u32 {
        let desired = self.config.desired_min_tx.get();
        if self.state == State::Up { desired } else { desired.max(SLOW) }
    }

    /// Applies changed intervals as far as possible at once, and starts a poll sequence for the
    /// rest.
    fn negotiate(&mut self) {
        self.adopt();
        self.want_poll();
        // A far end that wants no periodic packets is to receive the change nevertheless.
        self.has_news |= self.remote.required_min_rx == 0;
    }

    /// Applies the intervals that need no confirmation. While the session is up, a longer transmit
    /// interval must wait until the far end expects it, and a shorter detection time until the far
    /// end sends more often (§6.8.3).
    fn adopt(&mut self) {
        let (desired, required) = (self.desired(), self.config.required_min_rx.get());
        if self.state == State::Up {
            self.used_desired = self.used_desired.min(desired);
            self.used_required = self.used_required.max(required);
        } else {
            (self.used_desired, self.used_required) = (desired, required);
        }
    }

    fn want_poll(&mut self) {
        self.poll = match self.poll {
            Poll::Done | Poll::Wanted => Poll::Wanted,
            Poll::Asked | Poll::Outdated => Poll::Outdated,
        };
    }

    /// Handles a Final.
    fn confirmed(&mut self) {
        self.poll = match self.poll {
            Poll::Asked => {
                (self.used_desired, self.used_required) =
                    (self.desired(), self.config.required_min_rx.get());
                Poll::Done
            }
            Poll::Outdated => Poll::Wanted,
            unasked => unasked,
        };
    }
}

#[cfg(test)]
mod tests;
