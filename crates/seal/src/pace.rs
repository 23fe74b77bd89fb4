//! How often a host does Diffie-Hellman.

use std::num::NonZeroU32;

use units::{Gcra, Instant};

/// Hands out turns for Diffie-Hellman. All channels of a host share one, so that thousands of peers
/// that begin at once do not keep the thread from everything else.
#[derive(Clone, Debug)]
pub struct Pace(Gcra);

impl Pace {
    /// So many handshakes a second, and so many at once.
    pub fn new(per_second: NonZeroU32, at_once: u32) -> Self {
        Self(Gcra::per_second(per_second, at_once))
    }

    /// The next turn, for whoever asks: now or later. It is the asker's, whether it is used or not.
    pub fn turn(&mut self, now: Instant) -> Instant {
        let turn = self.0.ready_for(1).max(now);
        self.0.take(now, 1);
        turn
    }
}

impl Default for Pace {
    /// A thousand a second, 4 at once: a twentieth of a thread, for a fifth of a millisecond.
    fn default() -> Self {
        Self::new(NonZeroU32::new(1_000).expect("it is not 0"), 4)
    }
}

#[cfg(test)]
mod tests {
    use units::Span;

    use super::*;

    #[test]
    fn turns_are_handed_out_in_order_and_no_faster_than_the_pace() {
        let mut pace = Pace::default();
        let now = Instant::from_nanos(1_000_000_000);
        let turns: Vec<_> = (0..4_096).map(|_| pace.turn(now)).collect();
        assert!(turns.is_sorted() && turns[..4] == [now; 4]);
        assert_eq!(turns[4_095].since(now), Span::from_millis(4_092));
        let later = now + Span::from_secs(10);
        assert_eq!(pace.turn(later), later);
    }
}
