//! Whether large datagrams, which a network card cuts, reach the peer.
//!
//! A large datagram is lost with any of its packets, and some fabrics drop all of them: a firewall,
//! or a host that does not forward. So a loss pauses large datagrams, for twice as long each time
//! until one arrives. Losses of datagrams sent before the pause began do not extend it. A datagram
//! that is overdue counts as lost; when a late one arrives, that pause ends.

use units::{Instant, Span};

/// The first pause.
const PAUSE: Span = Span::from_millis(1);

/// How often the pause doubles: up to a minute.
const MOST_DOUBLED: u32 = 16;

/// The state of large datagrams.
#[derive(Clone, Copy, Debug, Default)]
pub struct LargeBackoff {
    /// Losses since one arrived.
    lost: u32,
    /// The begin and the end of the last pause.
    pause: Option<(Instant, Instant)>,
    /// The pause began because one was overdue.
    is_silence: bool,
}

impl LargeBackoff {
    /// Whether one may be sent.
    pub fn may_go(&self, now: Instant) -> bool {
        self.pause.is_none_or(|(_, end)| end <= now)
    }

    /// One was received.
    pub fn came(&mut self) {
        self.lost = 0;
        if core::mem::take(&mut self.is_silence) {
            self.pause = None;
        }
    }

    /// One that was sent at `sent_at` is overdue.
    pub fn unheard(&mut self, now: Instant, sent_at: Instant) {
        self.is_silence |= self.begin(now, sent_at);
    }

    /// One that was sent at `sent_at` is lost.
    pub fn lost(&mut self, now: Instant, sent_at: Instant) {
        self.is_silence = false;
        self.begin(now, sent_at);
    }

    /// Begins a pause for a datagram sent at `sent_at`, unless that was sent before the last one
    /// began. Returns whether it does.
    fn begin(&mut self, now: Instant, sent_at: Instant) -> bool {
        if self.pause.is_some_and(|(begin, _)| sent_at <= begin) {
            return false;
        }
        let pause = Span::from_nanos(PAUSE.as_nanos() << self.lost.min(MOST_DOUBLED));
        self.pause = Some((now, now + pause));
        self.lost += 1;
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_more_are_lost_the_longer_none_is_sent() {
        let (mut large, mut now) = (LargeBackoff::default(), Instant::ZERO);
        let mut pause = |large: &mut LargeBackoff| {
            assert!(large.may_go(now));
            let begin = now;
            now += PAUSE;
            // Three were in flight.
            for _ in 0..3 {
                large.lost(now, begin);
            }
            assert!(!large.may_go(now));
            while !large.may_go(now) {
                now += PAUSE;
            }
            now.since(begin + PAUSE).as_nanos() / PAUSE.as_nanos()
        };
        assert_eq!([1, 2, 4, 8].map(|_| pause(&mut large)), [1, 2, 4, 8]);
        for _ in 0..30 {
            pause(&mut large);
        }
        assert_eq!(pause(&mut large), 1 << MOST_DOUBLED);
        large.came();
        assert_eq!([1, 2].map(|_| pause(&mut large)), [1, 2]);
    }

    #[test]
    fn who_was_late_ends_a_pause_for_silence_and_no_other() {
        let (mut large, now) = (LargeBackoff::default(), Instant::ZERO + PAUSE);
        large.unheard(now, Instant::ZERO);
        large.unheard(now, Instant::ZERO);
        assert!(!large.may_go(now));
        large.came();
        assert!(large.may_go(now));

        large.unheard(now, now);
        assert!(!large.may_go(now));
        large.lost(now, now);
        large.came();
        assert!(!large.may_go(now), "one of those that were underway was lost for sure");
    }
}
