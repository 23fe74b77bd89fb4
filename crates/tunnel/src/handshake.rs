//! The state of a session's handshake, and the timer of its HELLOs.

use units::{Instant, Span};

use crate::Incarnation;

/// The interval between two HELLOs that are not answered: the first, and the longest. It doubles.
const INTERVALS: [Span; 2] = [Span::from_millis(10), Span::from_secs(1)];

/// The least interval between two HELLOs that answer, whatever is received.
const MIN_REPLY_INTERVAL: Span = Span::from_millis(1);

/// The state of a handshake; [`session`](crate::session) has the diagram.
#[derive(Clone, Copy, Debug)]
pub enum Handshake {
    /// No HELLO has named our incarnation: the peer is not known in it.
    Listening,
    /// The peer has received a HELLO of ours. Whether it has received one that names its own
    /// incarnation is not known: it would drop our frames.
    HalfOpen(Incarnation),
    /// Each end has named the other's incarnation, and knows that the other has: frames may be
    /// sent.
    Established(Incarnation),
}

impl Handshake {
    /// The peer's incarnation, if its HELLO has named ours.
    pub fn peer(self) -> Option<Incarnation> {
        match self {
            Self::Listening => None,
            Self::HalfOpen(peer) | Self::Established(peer) => Some(peer),
        }
    }

    /// The peer's incarnation, if the handshake is complete.
    pub fn established(self) -> Option<Incarnation> {
        match self {
            Self::Established(peer) => Some(peer),
            Self::Listening | Self::HalfOpen(_) => None,
        }
    }
}

/// The time of the next HELLO.
#[derive(Clone, Copy, Debug)]
pub struct HelloTimer {
    at: Option<Instant>,
    interval: Span,
    sent_at: Option<Instant>,
}

impl HelloTimer {
    /// A HELLO is due at once.
    pub fn new(now: Instant) -> Self {
        Self { at: Some(now), interval: INTERVALS[0], sent_at: None }
    }

    /// When the next HELLO is due.
    pub fn deadline(&self) -> Option<Instant> {
        self.at
    }

    /// Schedules a HELLO that answers a message.
    pub fn reply(&mut self, now: Instant) {
        let at = self.sent_at.map_or(now, |at| (at + MIN_REPLY_INTERVAL).max(now));
        self.at = Some(self.at.map_or(at, |sooner| sooner.min(at)));
    }

    /// Schedules a HELLO at once, and repeats it at the shortest interval.
    pub fn send_now(&mut self, now: Instant) {
        (self.at, self.interval) = (Some(now), INTERVALS[0]);
    }

    /// Repeats HELLOs at the shortest interval: there is somebody.
    pub fn restart(&mut self, now: Instant) {
        let at = now + INTERVALS[0];
        (self.at, self.interval) = (self.at.map(|sooner| sooner.min(at)), INTERVALS[0]);
    }

    /// Sends a scheduled HELLO at once: the last one may have been lost with a path that was cut.
    pub fn hurry(&mut self, now: Instant) {
        (self.at, self.interval) = (self.at.map(|at| at.min(now)), INTERVALS[0]);
    }

    /// Stops HELLOs: the peer knows our incarnation.
    pub fn stop(&mut self) {
        (self.at, self.interval) = (None, INTERVALS[0]);
    }

    /// Whether a HELLO is to be sent now. If so, the next one is scheduled, unless the handshake is
    /// complete.
    pub fn is_due(&mut self, now: Instant, is_established: bool) -> bool {
        if self.at.is_none_or(|at| at > now) {
            return false;
        }
        self.sent_at = Some(now);
        self.at = (!is_established).then(|| now + self.interval);
        self.interval = (self.interval + self.interval).min(INTERVALS[1]);
        true
    }
}

/// A HELLO that is owed to an incarnation that is not accepted. Anybody may have named it, so it is
/// answered once for each of its HELLOs, and nothing is kept of it.
#[derive(Clone, Copy, Debug, Default)]
pub struct Answer {
    to: Option<Incarnation>,
    sent_at: Option<Instant>,
}

impl Answer {
    /// Answers this incarnation, and no other before it.
    pub fn owe(&mut self, to: Incarnation) {
        self.to = Some(to);
    }

    /// Answers nobody.
    pub fn withdraw(&mut self) {
        self.to = None;
    }

    /// When the answer may be sent, if one is owed.
    pub fn deadline(&self) -> Option<Instant> {
        self.to.map(|_| self.sent_at.map_or(Instant::ZERO, |at| at + MIN_REPLY_INTERVAL))
    }

    /// The incarnation that is to be answered now.
    pub fn poll(&mut self, now: Instant) -> Option<Incarnation> {
        if self.deadline()? > now {
            return None;
        }
        self.sent_at = Some(now);
        self.to.take()
    }
}
