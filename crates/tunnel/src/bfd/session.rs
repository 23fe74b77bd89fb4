//! One end of a session.

use core::num::NonZeroU32;

use units::{Instant, Rng, Span};
use wire::bfd::{Diagnostic, Flags, Header, Packet, State};

use super::{Change, Config, Output, Refusal, Status};

/// While a session is not up, its packets are no closer together than this, in microseconds (RFC
/// 5880 §6.8.3).
const SLOW: u32 = 1_000_000;

/// Jitter is counted in parts of an interval, of which there are so many. Up to 255 of them, a
/// quarter, come off (§6.8.7).
const PARTS: u64 = 1024;

/// The parts that come off at least with a multiplier of 1, where no packet may be late: a tenth
/// (§6.8.7).
const LEAST_PARTS: u8 = 103;

/// How far we are with having the far end confirm new intervals (§6.5).
///
/// A final does not say which poll it answers. Where it takes longer than the interval, one to an
/// earlier poll may be taken for one to this, as with everybody.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Poll {
    /// It knows them.
    Done,
    /// It is to be asked.
    Wanted,
    /// It was asked.
    Asked,
    /// It was asked, of intervals that have changed since: its answer is to the old ones, and it
    /// has to be asked again.
    Outdated,
}

/// The far end, by its last packet.
#[derive(Clone, Copy, Debug)]
struct Remote {
    /// bfd.RemoteDiscr; 0: it is not heard.
    discriminator: u32,
    /// bfd.RemoteMinRxInterval, in microseconds; 0: it wants no periodic packets.
    required_min_rx: u32,
    /// Its desired interval, in microseconds.
    desired_min_tx: u32,
    multiplier: u8,
    /// bfd.RemoteSessionState.
    state: State,
    diagnostic: Diagnostic,
    /// bfd.RemoteDemandMode.
    demand: bool,
}

/// What is assumed of a far end that is not heard (§6.8.1).
const SILENT: Remote = Remote {
    discriminator: 0,
    required_min_rx: 1,
    desired_min_tx: SLOW,
    multiplier: 1,
    state: State::Down,
    diagnostic: Diagnostic::NONE,
    demand: false,
};

/// One end. It fits a cache line, as there are thousands of them.
///
/// Its owner calls [`handle`](Self::handle) for each packet that has come, [`poll`](Self::poll)
/// until there is no more, and again at the [`deadline`](Self::deadline). Packets that have come
/// are to be handled before time is: they may have waited while the owner was late.
#[derive(Clone, Debug)]
pub struct Session {
    config: Config,
    /// bfd.LocalDiscr.
    discriminator: NonZeroU32,
    remote: Remote,
    /// The desired interval that our packets go by, in microseconds: what the far end has
    /// confirmed, if that is shorter than what we say.
    used_desired: u32,
    /// The required interval that detection goes by, in microseconds: what the far end has
    /// confirmed, if that is longer.
    used_required: u32,
    /// When the last packet that was not an answer to a poll went.
    sent_at: Instant,
    heard_at: Instant,
    state: State,
    diagnostic: Diagnostic,
    poll: Poll,
    /// The parts that come off the interval after the last packet.
    jitter: u8,
    /// The far end has yet to be told how we are.
    has_news: bool,
    /// It has polled us.
    owes_final: bool,
}

impl Session {
    /// An end that has heard nothing, and is down. No other session of ours may have its
    /// discriminator.
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

    /// What we make of it.
    pub const fn state(&self) -> State {
        self.state
    }

    /// How it stands.
    pub const fn status(&self) -> Status {
        let Self {
            state, diagnostic, remote: Remote { diagnostic: remote_diagnostic, .. }, ..
        } = *self;
        Status { state, diagnostic, remote_diagnostic }
    }

    /// Our number of it.
    pub const fn discriminator(&self) -> NonZeroU32 {
        self.discriminator
    }

    /// How long the far end may be silent (§6.8.4); `None` if it is not heard.
    pub fn detection_time(&self) -> Option<Span> {
        let Remote { discriminator, desired_min_tx, multiplier, .. } = self.remote;
        let interval = u64::from(self.used_required.max(desired_min_tx));
        (discriminator != 0).then(|| Span::from_micros(interval * u64::from(multiplier)))
    }

    /// The time between two of our packets, before jitter comes off (§6.8.7).
    pub fn interval(&self) -> Span {
        Span::from_micros(self.used_desired.max(self.remote.required_min_rx).into())
    }

    /// Another configuration, of which the far end is told. What it has to know first, a longer
    /// interval of ours and a shorter detection time, counts once it has confirmed it (§6.8.3).
    pub fn configure(&mut self, config: Config) {
        if self.config != config {
            self.config = config;
            self.negotiate();
        }
    }

    /// Takes it down as an operator does, for the reason given; packets say so (§6.8.16).
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

    /// The way is known to have failed by other means, or our forwarding was reset: it is down for
    /// the reason given, and begins anew (§6.8.15).
    pub fn fail(&mut self, diagnostic: Diagnostic) -> Option<Change> {
        let before = self.status();
        if matches!(self.state, State::Init | State::Up) {
            self.enter(State::Down, diagnostic);
        }
        self.changed(before)
    }

    /// Tells the far end of the ways that are joined to this one, while this one stays as it is
    /// (§6.8.17).
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

    /// A packet from the far end has come (§6.8.6).
    ///
    /// # Errors
    ///
    /// It is not for this session, or authenticated: then it changes nothing.
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
            // Why it was down is worth telling as long as it is not up.
            (State::Down, State::Down) => self.enter(State::Init, self.diagnostic),
            (State::Down, State::Init) | (State::Init, State::Init | State::Up) => {
                self.enter(State::Up, Diagnostic::NONE);
            }
            _ => {}
        }
        self.owes_final |= flags.poll;
        Ok(self.changed(before))
    }

    /// What is to be done by `now`: call it until there is no more.
    pub fn poll(&mut self, now: Instant, rng: &mut Rng) -> Option<Output> {
        if self.detect_at().is_some_and(|at| at <= now) {
            let before = self.status();
            // What it wished for is forgotten with it: the next one behind this way may be another.
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

    /// When [`poll`](Self::poll) has something to do though nothing is heard; it may be past.
    /// `None`: not before something is.
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

    /// Whether demand mode is active at the far end (§6.6, §6.8.6): it wants no packets but in
    /// polls.
    fn is_spared(&self) -> bool {
        self.remote.demand && self.state == State::Up && self.remote.state == State::Up
    }

    fn least_jitter(&self) -> u8 {
        if self.config.multiplier.get() == 1 { LEAST_PARTS } else { 0 }
    }

    fn transmit(&mut self, now: Instant, rng: &mut Rng) -> Header {
        // An answer goes at once and leaves the periodic packets as they are; a packet is not both
        // poll and answer.
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

    /// What we say has changed: uses of it what may be used at once, and has the far end confirm
    /// the rest.
    fn negotiate(&mut self) {
        self.adopt();
        self.want_poll();
        // One that wants no periodic packets hears of it nevertheless.
        self.has_news |= self.remote.required_min_rx == 0;
    }

    /// While the session is up, a longer interval between our packets has to wait until the far end
    /// expects it, and a shorter detection time until it sends accordingly (§6.8.3).
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

    /// The far end has answered a poll.
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
