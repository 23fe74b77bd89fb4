//! The sender's part: what is overdue, and when to probe.

use units::{Instant, Span};

use crate::recovery::Phase;
use crate::scoreboard::Delivery;
use crate::send::{Outgoing, Sender};
use crate::{Config, NEVER};

impl Sender {
    /// How long a segment may be out when a later one has arrived.
    pub(crate) fn patience(&self) -> Span {
        let is_repairing = matches!(self.recovery.phase, Phase::Recovery | Phase::Loss);
        let window = if !self.rack.reordering && (is_repairing || self.scoreboard.sacked() >= 3) {
            0
        } else {
            let quarters = u64::from(self.rack.quarters);
            (self.rtt.min().as_nanos() / 4)
                .saturating_mul(quarters)
                .min(self.rtt.smoothed().as_nanos())
        };
        self.rack.round_trip + Span::from_nanos(window)
    }

    /// Gives up what is overdue, and sets the timer for what will be (§6.2, step 5). Returns how
    /// many were given up.
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
            self.probe.copies += 1;
            let last = self.scoreboard.len() as usize - 1;
            self.send_again(config, now, last)
        };
        self.probe.end = self.next;
        self.probe_at = NEVER;
        probe
    }

    /// What has become of the probe (§7.4)?
    #[inline]
    pub(crate) fn settle_probe(
        &mut self,
        advanced: bool,
        duplicate: Option<(u64, u64)>,
        news: &Delivery,
    ) {
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
    use super::super::PERSISTENCE;
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
