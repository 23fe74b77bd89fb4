//! Whether large datagrams, which a card cuts into what the fabric carries, come to the far end.
//!
//! One is lost with each of its pieces, and some fabrics let none pass: a firewall on the way, or a host that forwards nothing. So none
//! is sent for a while after one was lost, and for twice as long each time until one comes. Those that were underway then are
//! lost by the same event, if they are. If nothing is heard of one, it counts as lost until any comes: then they were late.

use units::{Instant, Span};

/// For how long none is sent at first.
const PAUSE: Span = Span::from_millis(1);

/// How often that is doubled: it is a minute then.
const MOST_DOUBLED: u32 = 16;

/// What became of the last ones.
#[derive(Clone, Copy, Debug, Default)]
pub struct LargeBackoff {
    /// How many were lost since one came.
    lost: u32,
    /// When the last pause began, and when it ends.
    pause: Option<(Instant, Instant)>,
    /// It began as nothing was heard of one.
    is_silence: bool,
}

impl LargeBackoff {
    /// Whether one may be sent.
    pub fn may_go(&self, now: Instant) -> bool {
        self.pause.is_none_or(|(_, end)| end <= now)
    }

    /// One has come.
    pub fn came(&mut self) {
        self.lost = 0;
        if core::mem::take(&mut self.is_silence) {
            self.pause = None;
        }
    }

    /// Nothing is heard of one that was sent then.
    pub fn unheard(&mut self, now: Instant, sent_at: Instant) {
        self.is_silence |= self.begin(now, sent_at);
    }

    /// One that was sent then is lost.
    pub fn lost(&mut self, now: Instant, sent_at: Instant) {
        self.is_silence = false;
        self.begin(now, sent_at);
    }

    /// Begins a pause for one that was sent then, unless that is what the last one was for. Whether it does.
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
            // Three were underway.
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
