//! Losses told by time: RACK and tail loss probes (RFC 8985).
//!
//! A segment is lost when another that was sent later has arrived, and more time has passed than reordering explains. And
//! when the end of a flight is lost there is nothing later: a probe, sent long before the timeout, brings news.

use units::{Instant, Span};

use crate::recovery::Phase;
use crate::scoreboard::Delivery;
use crate::send::{Outgoing, Sender};
use crate::{Config, NEVER};

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

    /// A segment was sent again for nothing: more patience (§6.2, step 4). As in Linux, only where segments were seen to
    /// overtake each other.
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
}

impl TailProbe {
    /// Whether what ends here is the copy that was sent: a timer's doing, not RACK's.
    pub(crate) fn is_copy_until(&self, end: u64) -> bool {
        self.copy && self.end == end
    }

    pub(crate) fn forget(&mut self) {
        *self = Self::default();
    }
}

impl Sender {
    /// How long a segment may be out when a later one has arrived.
    pub(crate) fn patience(&self) -> Span {
        let is_repairing = matches!(self.recovery.phase, Phase::Recovery | Phase::Loss);
        let window = if !self.rack.reordering && (is_repairing || self.scoreboard.sacked() >= 3) {
            0
        } else {
            let quarters = u64::from(self.rack.quarters);
            (self.rtt.min().as_nanos() / 4).saturating_mul(quarters).min(self.rtt.smoothed().as_nanos())
        };
        self.rack.round_trip + Span::from_nanos(window)
    }

    /// Gives up what is overdue, and sets the timer for what will be (§6.2, step 5). Returns how many were given up.
    pub(crate) fn detect_by_time(&mut self, config: &Config, now: Instant) -> u32 {
        let latest = (self.rack.sent_at, self.rack.end);
        let (newly_lost, wake) = self.scoreboard.mark_by_time(latest, self.patience(), now);
        self.reorder_at = wake.map_or(NEVER, |wake| wake + config.timer_slack);
        newly_lost
    }

    /// §6.3
    pub(crate) fn on_reorder_timer(&mut self, config: &Config, now: Instant) {
        let newly_lost = self.detect_by_time(config, now);
        if newly_lost == 0 {
            return;
        }
        if matches!(self.recovery.phase, Phase::Open | Phase::Cwr) {
            self.enter_recovery(config);
            // As Linux does: the timer stands for one delivery, so that something may be sent.
            self.reduce(config, 1, newly_lost, false);
        }
    }

    /// Sets the timer for a probe (§7.2).
    #[inline]
    pub(crate) fn arm_probe(&mut self, config: &Config, now: Instant) {
        let is_calm = matches!(self.recovery.phase, Phase::Open | Phase::Cwr)
            && self.scoreboard.in_flight() == self.scoreboard.len();
        if !(config.rack_tlp && self.sack && is_calm && self.probe.end == 0) {
            self.probe_at = NEVER;
            return;
        }
        let smoothed = self.rtt.smoothed().as_nanos();
        let wait = if smoothed == 0 {
            config.rto.initial
        } else if self.scoreboard.len() == 1 {
            // Its acknowledgement may be delayed; Linux allows the minimum timeout for it.
            Span::from_nanos(2 * smoothed) + config.rto.min
        } else {
            Span::from_nanos(2 * smoothed) + config.timer_slack
        };
        self.probe_at = (now + wait).min(self.timeout_at);
    }

    pub(crate) fn on_probe_timer(&mut self, config: &Config, now: Instant) {
        self.probe.due = !self.scoreboard.is_empty();
        self.timeout_at = now + self.rtt.timeout(&config.rto);
    }

    /// Sends something new, if there is any, or else the last segment again (§7.3).
    pub(crate) fn send_tail_probe(&mut self, config: &Config, now: Instant) -> Outgoing {
        self.counters.probes += 1;
        let probe = if let Some((len, fin)) = self.sendable(config) {
            self.probe.copy = false;
            self.send_new(config, now, len, fin)
        } else {
            self.probe.copy = true;
            let last = self.scoreboard.len() as usize - 1;
            self.send_again(config, now, last)
        };
        self.probe.end = self.next;
        self.probe_at = NEVER;
        probe
    }

    /// What has become of the probe (§7.4)?
    #[inline]
    pub(crate) fn settle_probe(&mut self, advanced: bool, duplicate: Option<(u64, u64)>, news: &Delivery) {
        let end = self.probe.end;
        if end == 0 || self.una < end {
            return;
        }
        let is_double = duplicate.is_some_and(|block| block.1 == end);
        let is_repeated = !advanced && news.segments == 0;
        if !self.probe.copy || is_double || is_repeated {
            self.probe.forget();
        } else if self.una > end {
            // One of the two was lost, and the other repaired it: congestion all the same.
            self.probe.forget();
            if self.recovery.phase == Phase::Open {
                self.window.threshold = self.algorithm.on_loss(&self.window);
                self.window.size = self.window.threshold;
                self.reduced = true;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Profile;

    #[test]
    fn patience_is_a_quarter_of_the_shortest_round_trip_and_grows_with_duplicates() {
        let config = Profile::Linux.config();
        let mut sender = Sender::new(&config, 1);
        sender.rtt.sample(&config.rto, Span::from_millis(8));
        sender.rack.round_trip = Span::from_millis(10);
        let patience = |sender: &Sender| sender.patience().as_nanos() / 1_000_000;
        assert_eq!(patience(&sender), 12);
        // Where nothing was ever overtaken, a recovery has none.
        sender.recovery.phase = Phase::Recovery;
        assert_eq!(patience(&sender), 10);
        sender.rack.on_duplicate(0, 100);
        assert_eq!(patience(&sender), 10);
        sender.rack.on_overtaken();
        assert_eq!(patience(&sender), 12);
        // Once a round.
        sender.rack.on_duplicate(0, 100);
        sender.rack.on_duplicate(50, 100);
        assert_eq!(patience(&sender), 14);
        // No more than the smoothed round trip.
        for round in 1..9 {
            sender.rack.on_duplicate(100 * round, 100 * (round + 1));
        }
        assert_eq!(patience(&sender), 18);
        for _ in 0..PERSISTENCE {
            sender.rack.on_recovered();
        }
        assert_eq!(patience(&sender), 12);
    }
}
