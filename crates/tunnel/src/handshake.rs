//! The state of a session's handshake, and the timer of its HELLOs.

use units::{ClassSet, Instant, Span};

use crate::Incarnation;

/// The interval between two HELLOs that are not answered: the first, and the longest. It doubles.
const INTERVALS: [Span; 2] = [Span::from_millis(10), Span::from_secs(1)];

/// The least interval between two HELLOs that answer, whatever is received.
const MIN_REPLY_INTERVAL: Span = Span::from_millis(1);

/// The peer, in an incarnation whose HELLO named ours.
#[derive(Clone, Copy, Debug)]
pub struct Peer {
    /// Its incarnation.
    pub incarnation: Incarnation,
    /// The classes that it retransmits.
    pub reliable: ClassSet,
}

/// The state of a handshake; [`session`](crate::session) has the diagram.
#[derive(Clone, Copy, Debug)]
pub enum Handshake {
    /// No HELLO has named our incarnation.
    Listening,
    /// The peer has received a HELLO of ours. Whether it has received one that names its own
    /// incarnation is not known: it would drop our frames.
    HalfOpen(Peer),
    /// Each end has named the other's incarnation, and knows that the other has: frames may be
    /// sent.
    Established(Peer),
}

impl Handshake {
    /// The peer, if its HELLO has named our incarnation.
    pub fn peer(self) -> Option<Peer> {
        match self {
            Self::Listening => None,
            Self::HalfOpen(peer) | Self::Established(peer) => Some(peer),
        }
    }

    /// The peer, if the handshake is complete.
    pub fn established(self) -> Option<Peer> {
        match self {
            Self::Established(peer) => Some(peer),
            Self::Listening | Self::HalfOpen(_) => None,
        }
    }

    /// The state after our end has begun a new incarnation, which the peer does not know.
    pub fn reopened(self) -> Self {
        self.peer().map_or(Self::Listening, Self::HalfOpen)
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

    /// Repeats HELLOs at the shortest interval from the next one on: they name another incarnation.
    pub fn restart(&mut self) {
        self.interval = INTERVALS[0];
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
