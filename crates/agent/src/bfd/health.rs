//! The state that BFD's thread publishes: a word for each path, and counters.

use std::sync::atomic::{AtomicU64, Ordering};

use tunnel::bfd::Status;
use units::{Instant, Span};
use wire::bfd::{Diagnostic, State};

/// The health of a path.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Health {
    /// The session's state and both ends' diagnostics.
    pub status: Status,
    /// The time of the last change of state, in microseconds of the monotonic clock.
    pub since: Instant,
}

impl Health {
    /// Whether the session is up.
    pub fn is_up(&self) -> bool {
        self.status.state == State::Up
    }
}

/// A path's health in one atomic word, with one writer and many readers.
///
/// ```text
///   63                                   12 11 10 9      5 4       0
///   ┌──────────────────────────────────────┬─────┬────────┬─────────┐
///   │ since when, µs after the boot        │state│ why    │ why far │
///   └──────────────────────────────────────┴─────┴────────┴─────────┘
/// ```
#[derive(Debug)]
pub(super) struct Watch(AtomicU64);

const DOWN: Status = Status {
    state: State::Down,
    diagnostic: Diagnostic::NONE,
    remote_diagnostic: Diagnostic::NONE,
};

impl Watch {
    /// A path from which nothing was received yet.
    pub(super) fn new(since: Instant) -> Self {
        Self(AtomicU64::new(pack(Health { status: DOWN, since })))
    }

    pub(super) fn get(&self) -> Health {
        unpack(self.0.load(Ordering::Relaxed))
    }

    pub(super) fn set(&self, health: Health) {
        self.0.store(pack(health), Ordering::Relaxed);
    }
}

fn pack(health: Health) -> u64 {
    let Health { status: Status { state, diagnostic, remote_diagnostic }, since } = health;
    (since.as_nanos() / 1_000) << 12
        | (state as u64) << 10
        | u64::from(diagnostic.number()) << 5
        | u64::from(remote_diagnostic.number())
}

fn unpack(word: u64) -> Health {
    let state = match word >> 10 & 3 {
        0 => State::AdminDown,
        1 => State::Down,
        2 => State::Init,
        _ => State::Up,
    };
    let [diagnostic, remote_diagnostic] =
        [word >> 5, word].map(|bits| Diagnostic::from_low_bits(bits as u8));
    let since = Instant::ZERO + Span::from_micros(word >> 12);
    Health { status: Status { state, diagnostic, remote_diagnostic }, since }
}

/// Counts of packets. Each received packet is counted in `taken` or in one of the refusals.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Counts {
    /// Packets that the kernel accepted for sending.
    pub sent: u64,
    /// Packets that it refused, for want of a route or of room.
    pub unsent: u64,
    /// Packets that sessions accepted.
    pub taken: u64,
    /// Refused: their TTL was below 255, so no neighbour sent them (RFC 5881 §5).
    pub distant: u64,
    /// Refused: invalid by RFC 5880 §6.8.6.
    pub malformed: u64,
    /// Refused: their session does not exist.
    pub unknown: u64,
    /// Refused: authenticated, and no key is declared here.
    pub authenticated: u64,
    /// Refused: without a digest by a key that is declared here.
    pub unauthenticated: u64,
    /// Refused: its sequence number is not later than those before.
    pub replayed: u64,
    /// The thread's processor time, including the kernel's work of sending and receiving.
    pub busy: Span,
}

impl Counts {
    /// Packets that were refused, for any reason.
    pub const fn refused(&self) -> u64 {
        let other = self.authenticated + self.unauthenticated + self.replayed;
        self.distant + self.malformed + self.unknown + other
    }
}

/// [`Counts`] as atomics, with one writer and many readers.
#[derive(Debug, Default)]
pub(super) struct Counters {
    pub(super) sent: Counter,
    pub(super) unsent: Counter,
    pub(super) taken: Counter,
    pub(super) distant: Counter,
    pub(super) malformed: Counter,
    pub(super) unknown: Counter,
    pub(super) authenticated: Counter,
    pub(super) unauthenticated: Counter,
    pub(super) replayed: Counter,
    pub(super) busy_ns: Counter,
}

#[derive(Debug, Default)]
pub(super) struct Counter(AtomicU64);

impl Counter {
    /// Only the thread writes.
    pub(super) fn add(&self, count: u64) {
        self.set(self.get() + count);
    }

    pub(super) fn set(&self, value: u64) {
        self.0.store(value, Ordering::Relaxed);
    }

    fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

impl Counters {
    pub(super) fn get(&self) -> Counts {
        Counts {
            sent: self.sent.get(),
            unsent: self.unsent.get(),
            taken: self.taken.get(),
            distant: self.distant.get(),
            malformed: self.malformed.get(),
            unknown: self.unknown.get(),
            authenticated: self.authenticated.get(),
            unauthenticated: self.unauthenticated.get(),
            replayed: self.replayed.get(),
            busy: Span::from_nanos(self.busy_ns.get()),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn a_word_contains_what_was_stored(word: u64) {
            let health = unpack(word);
            prop_assert_eq!(pack(health), word);
            let watch = Watch::new(Instant::ZERO);
            prop_assert_eq!(watch.get().status, DOWN);
            watch.set(health);
            prop_assert_eq!(watch.get(), health);
        }
    }
}
