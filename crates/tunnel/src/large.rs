//! Whether large datagrams, which a card cuts into what the fabric carries, come to the far end.
//!
//! One is lost with each of its pieces, and some fabrics let none pass: a firewall on the way, or a host that forwards nothing. So none
//! is sent for a while after one was lost, and for twice as long each time until one comes. Those that were underway then are
//! lost by the same event, if they are.

use units::{Instant, Span};

/// For how long none is sent at first.
const PAUSE: Span = Span::from_millis(1);

/// How often that is doubled: it is a minute then.
const MOST_DOUBLED: u32 = 16;

/// What became of the last ones.
#[derive(Clone, Copy, Debug, Default)]
pub struct Large {
    /// How many were lost since one came.
    lost: u32,
    /// When the last pause began, and when it ends.
    pause: Option<(Instant, Instant)>,
    /// It began as nothing was heard of the packet of this number.
    unheard: Option<u64>,
}

impl Large {
    /// Whether one may be sent.
    pub fn may_go(&self, now: Instant) -> bool {
        self.pause.is_none_or(|(_, end)| end <= now)
    }

    /// The packet of this number has come, which was one.
    pub fn came(&mut self, number: u64) {
        self.lost = 0;
        // It was late, and not lost.
        if self.unheard.take_if(|unheard| *unheard == number).is_some() {
            self.pause = None;
        }
    }

    /// The packet of this number is one, was sent then, and nothing is heard of it. As long as that is so it counts as lost.
    pub fn unheard(&mut self, now: Instant, sent_at: Instant, number: u64) {
        if self.lost(now, sent_at) {
            self.unheard = Some(number);
        }
    }

    /// One that was sent then is lost. Whether others are to pause for it.
    pub fn lost(&mut self, now: Instant, sent_at: Instant) -> bool {
        if self.pause.is_some_and(|(begin, _)| sent_at <= begin) {
            return false;
        }
        self.unheard = None;
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
        let (mut large, mut now) = (Large::default(), Instant::ZERO);
        let mut pause = |large: &mut Large| {
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
        large.came(9);
        assert_eq!([1, 2].map(|_| pause(&mut large)), [1, 2]);
    }

    #[test]
    fn who_was_late_ends_the_pause_and_others_do_not() {
        let (mut large, now) = (Large::default(), Instant::ZERO + PAUSE);
        large.unheard(now, Instant::ZERO, 5);
        large.unheard(now, Instant::ZERO, 6);
        [4, 6, 7].into_iter().for_each(|number| large.came(number));
        assert!(!large.may_go(now), "the one that is not heard of may be lost");
        large.came(5);
        assert!(large.may_go(now));

        large.unheard(now, now, 8);
        assert!(!large.may_go(now));
        let later = now + PAUSE;
        assert!(large.lost(later, later), "another one is lost for sure");
        large.came(8);
        assert!(!large.may_go(later));
    }
}
