//! Losses told by time: RACK and tail loss probes (RFC 8985).
//!
//! A segment is lost when another that was sent later has arrived, and more time has passed than
//! reordering explains. And when the end of a flight is lost there is nothing later: a probe, sent
//! long before the timeout, brings news.

mod detect;

use units::{Instant, Span};

use crate::scoreboard::Delivery;

/// Recoveries for which a widened reordering window stays wide (§6.2, step 4).
const PERSISTENCE: u8 = 16;

/// What is known of the segment that was sent last of those that have arrived.
#[derive(Clone, Debug)]
pub(crate) struct Rack {
    sent_at: Instant,
    end: u64,
    /// How long it took.
    round_trip: Span,
    /// The highest end that has arrived.
    forward: u64,
    /// No second duplicate counts before this is acknowledged.
    round: u64,
    /// Whether segments were ever seen to overtake each other.
    reordering: bool,
    /// The reordering window, in quarters of the shortest round trip.
    quarters: u8,
    persistence: u8,
}

impl Default for Rack {
    fn default() -> Self {
        Self {
            sent_at: Instant::ZERO,
            end: 0,
            round_trip: Span::ZERO,
            forward: 0,
            round: 0,
            reordering: false,
            quarters: 1,
            persistence: 0,
        }
    }
}

impl Rack {
    /// §6.2, steps 1 to 3.
    #[inline]
    pub(crate) fn update(&mut self, now: Instant, news: &Delivery) {
        if news.latest > self.sent_at || news.latest == self.sent_at && news.latest_end > self.end {
            self.sent_at = news.latest;
            self.end = news.latest_end;
            self.round_trip = now.since(self.sent_at);
        }
        if news.lowest_end < self.forward {
            self.reordering = true;
        }
        self.forward = self.forward.max(news.highest_end);
    }

    /// A segment was sent again for nothing: more patience (§6.2, step 4). As in Linux, only where
    /// segments were seen to overtake each other.
    pub(crate) fn on_duplicate(&mut self, una: u64, next: u64) {
        if self.reordering && una >= self.round {
            self.round = next;
            self.quarters = self.quarters.saturating_add(1);
            self.persistence = PERSISTENCE;
        }
    }

    /// What seemed lost had been overtaken.
    pub(crate) fn on_overtaken(&mut self) {
        self.reordering = true;
    }

    /// A recovery went by; after some of them patience is as it was.
    pub(crate) fn on_recovered(&mut self) {
        self.persistence = self.persistence.saturating_sub(1);
        if self.persistence == 0 {
            self.quarters = 1;
        }
    }
}

/// A tail loss probe (§7).
#[derive(Clone, Debug, Default)]
pub(crate) struct TailProbe {
    /// SND.NXT when it was sent; zero if none is out.
    end: u64,
    /// Whether it was a copy.
    copy: bool,
    /// Whether one is to be sent.
    pub due: bool,
    /// How many were copies so far.
    pub copies: u32,
}

impl TailProbe {
    /// Whether what ends here is the copy that was sent: a timer's doing, not RACK's.
    pub(crate) fn is_copy_until(&self, end: u64) -> bool {
        self.copy && self.end == end
    }

    pub(crate) fn forget(&mut self) {
        *self = Self { copies: self.copies, ..Self::default() };
    }
}
