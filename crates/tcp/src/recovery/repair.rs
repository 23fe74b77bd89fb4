//! The sender's part: how it goes from phase to phase, and what it sends again.

use units::Instant;

use super::{Phase, Prr, Recovery, Undo};
use crate::scoreboard::Delivery;
use crate::send::{Ack, Sender};
use crate::sent::Fate;
use crate::{Config, NEVER};

/// Duplicate acknowledgements that stand for a loss (RFC 5681 §3.2).
const DUPLICATES: u32 = 3;

impl Sender {
    /// Counts duplicate acknowledgements where there is no SACK (RFC 5681 §2), each for one segment
    /// that has arrived.
    pub(crate) fn count_duplicates(
        &mut self,
        ack: &Ack<'_>,
        advanced: bool,
        moved: bool,
        news: &mut Delivery,
    ) {
        let recovery = &mut self.recovery;
        if advanced {
            news.segments = news.acked.saturating_sub(recovery.duplicates).max(1);
            recovery.duplicates = match recovery.phase {
                // One of them filled the gap, the others had been counted.
                Phase::Recovery => recovery.duplicates.saturating_sub(news.acked.saturating_sub(1)),
                _ => 0,
            };
            return;
        }
        // After a timeout everything is sent again, and what had arrived makes duplicates: they
        // tell of no arrival.
        let tells = recovery.phase != Phase::Loss || self.next > recovery.high;
        if tells && ack.bare && !moved && recovery.duplicates < self.scoreboard.in_flight() {
            recovery.duplicates += 1;
            news.segments += 1;
        }
    }

    /// Draws the conclusions from an acknowledgement: is a phase over, was it needed, what is lost?
    /// Returns how many are.
    #[inline]
    pub(crate) fn repair(
        &mut self,
        config: &Config,
        now: Instant,
        ack: &Ack<'_>,
        advanced: bool,
        duplicate: Option<(u64, u64)>,
        news: &Delivery,
    ) -> u32 {
        let racks = config.rack_tlp && self.sack;
        if let Some((start, end)) = duplicate {
            let segments = end.saturating_sub(start).div_ceil(u64::from(self.mss));
            self.undo.note_duplicate(start, segments as u32);
            if !self.probe.is_copy_until(end) {
                self.rack.on_duplicate(self.una, self.next);
            }
        }
        if racks {
            self.rack.update(now, news);
            self.settle_probe(advanced, duplicate, news);
        }
        let is_calm = self.recovery.phase == Phase::Open
            && self.scoreboard.in_flight() == self.scoreboard.len()
            && self.recovery.duplicates == 0;
        if is_calm && !ack.marked && duplicate.is_none() {
            self.reorder_at = NEVER;
            return 0;
        }
        if self.scoreboard.in_flight() < self.scoreboard.len() {
            // RFC 8985 §7.2: where something is known to have arrived, time tells the rest.
            self.probe_at = NEVER;
        }

        if (advanced || duplicate.is_some())
            && self.undo.is_spurious(ack.echo, advanced)
            && config.undo
        {
            self.take_back();
        } else if self.is_over() {
            self.finish();
        }
        let newly_lost = if racks {
            self.detect_by_time(config, now)
        } else if self.sack {
            self.scoreboard.mark_by_count()
        } else {
            self.detect_by_duplicates(advanced)
        };
        let is_undisturbed = matches!(self.recovery.phase, Phase::Open | Phase::Cwr);
        if is_undisturbed && self.scoreboard.lost() > 0 {
            self.enter_recovery(config);
        } else if self.recovery.phase == Phase::Open && ack.marked && self.ecn {
            self.enter_cwr(config);
        }
        newly_lost
    }

    /// NewReno (RFC 6582 §3.2): the third duplicate, or an acknowledgement that stops within a
    /// recovery, is about the first segment that is missing.
    fn detect_by_duplicates(&mut self, advanced: bool) -> u32 {
        let recovery = &mut self.recovery;
        let is_lost = match recovery.phase {
            // Step 1: duplicates about what was sent before the last recovery began tell nothing
            // new.
            Phase::Open => recovery.duplicates >= DUPLICATES && self.una > recovery.high,
            // Then `high` is no recovery's.
            Phase::Cwr => recovery.duplicates >= DUPLICATES,
            // Step 3, of which no more than the first is due at once.
            Phase::Recovery => advanced,
            Phase::Loss => false,
        };
        if is_lost && !self.scoreboard.is_empty() {
            recovery.force = true;
            u32::from(self.scoreboard.mark_lost(0))
        } else {
            0
        }
    }

    pub(crate) fn enter_recovery(&mut self, config: &Config) {
        self.counters.recoveries += 1;
        if self.recovery.phase != Phase::Cwr {
            self.prepare_undo();
            let threshold = self.algorithm.on_loss(&self.window);
            self.fall_to(config, threshold);
        }
        self.recovery.begin(Phase::Recovery, self.next);
        self.recovery.force = true;
    }

    fn enter_cwr(&mut self, config: &Config) {
        self.undo.is_possible = false;
        let threshold = self.algorithm.on_mark(&self.window);
        self.fall_to(config, threshold);
        self.recovery.begin(Phase::Cwr, self.next);
    }

    /// The window begins to fall.
    fn fall_to(&mut self, config: &Config, threshold: u32) {
        self.recovery.prr = Prr { size: self.window.size, ..Prr::default() };
        self.window.threshold = threshold;
        self.window.forget_credit();
        // Recovery sees to what the probe was to find out; the next flight may need one of its own.
        self.probe.forget();
        if !config.prr {
            self.window.size = threshold;
        }
        self.reduced = true;
        self.algorithm.on_calm(false, self.next);
    }

    fn prepare_undo(&mut self) {
        self.undo = Undo {
            from: self.una,
            size: self.window.size,
            threshold: self.window.threshold,
            stamp: 0,
            // Copies that are out already may still be reported as duplicates.
            pending: self.scoreboard.copies(),
            resent: false,
            is_possible: true,
            ..self.undo
        };
    }

    /// Whether what a phase began with is acknowledged. After a mark something more has to be,
    /// since the other side echoes it until CWR has arrived.
    fn is_over(&self) -> bool {
        let Recovery { phase, high, .. } = self.recovery;
        match phase {
            Phase::Open => false,
            Phase::Cwr => self.una > high,
            Phase::Recovery | Phase::Loss => self.una >= high,
        }
    }

    /// What was lost has been repaired, or the window has fallen.
    pub(crate) fn finish(&mut self) {
        match self.recovery.phase {
            Phase::Open => {}
            Phase::Cwr | Phase::Recovery => self.window.size = self.window.threshold,
            // Slow start goes on.
            Phase::Loss => {}
        }
        if matches!(self.recovery.phase, Phase::Recovery | Phase::Loss) {
            self.rack.on_recovered();
        }
        self.calm_down();
    }

    fn calm_down(&mut self) {
        self.recovery.phase = Phase::Open;
        self.recovery.duplicates = 0;
        self.recovery.force = false;
        self.algorithm.on_calm(true, self.next);
    }

    /// Nothing had been lost: the window is what it was (RFC 4015 §3.2).
    fn take_back(&mut self) {
        self.undo.done += 1;
        if self.recovery.phase == Phase::Recovery {
            self.rack.on_overtaken();
        }
        self.scoreboard.unmark_lost();
        self.window.size = self.window.size.max(self.undo.size);
        self.window.threshold = self.window.threshold.max(self.undo.threshold);
        self.undo.is_possible = false;
        self.calm_down();
    }

    /// Lets the window fall by what was delivered (RFC 6937 §3, with the slow start bound while
    /// nothing more is lost).
    pub(crate) fn reduce(
        &mut self,
        config: &Config,
        delivered: u32,
        newly_lost: u32,
        advanced: bool,
    ) {
        if !config.prr || delivered == 0 {
            return;
        }
        let (in_flight, threshold) = (self.pipe(), self.window.threshold);
        let prr = &mut self.recovery.prr;
        prr.delivered += delivered;
        let allowed = if in_flight > threshold {
            let share = u64::from(threshold) * u64::from(prr.delivered);
            (share.div_ceil(u64::from(prr.size)) as u32).saturating_sub(prr.out)
        } else {
            let grown = u32::from(advanced && newly_lost == 0);
            let bound = prr.delivered.saturating_sub(prr.out).max(delivered) + grown;
            bound.min(threshold - in_flight)
        };
        // The first retransmission is never late.
        let least = u32::from(prr.out == 0);
        self.window.size = in_flight + allowed.max(least);
    }

    /// The timer ran out (RFC 6298 §5.4 to §5.6, RFC 5681 §3.1).
    pub(crate) fn on_timeout(&mut self, config: &Config, now: Instant) {
        self.counters.timeouts += 1;
        if self.scoreboard.get(0).is_some_and(|first| first.fate == Fate::Sacked) {
            self.scoreboard.forget_sacks();
        }
        let recovery = &mut self.recovery;
        let is_first = match recovery.phase {
            Phase::Open => true,
            Phase::Loss => recovery.retries == 0,
            Phase::Cwr | Phase::Recovery => self.una >= recovery.high,
        };
        recovery.retries += 1;
        recovery.duplicates = 0;
        if is_first {
            self.prepare_undo();
            self.window.threshold = self.algorithm.on_loss(&self.window);
        }
        if config.rack_tlp && self.sack {
            // RFC 8985 §6.3: what was sent just now is not given up with the rest.
            let patience = self.patience();
            self.scoreboard.mark_where(|index, sent| index == 0 || sent.sent_at + patience <= now);
        } else {
            self.scoreboard.mark_where(|_, _| true);
        }
        self.window.size = self.pipe() + 1;
        self.window.forget_credit();
        self.algorithm.on_timeout();
        self.recovery.begin(Phase::Loss, self.next);
        self.recovery.force = true;
        self.reduced = true;
        self.probe.forget();
        self.probe_at = NEVER;
        self.reorder_at = NEVER;
        self.rtt.back_off();
        self.timeout_at = now + self.rtt.timeout(&config.rto);
    }

    /// What may be sent in a recovery although nobody says it is lost, when there is nothing better
    /// to send (RFC 6675 §4, NextSeg, rules 3 and 4).
    pub(crate) fn doubtful(&mut self, config: &Config) -> Option<usize> {
        if !self.sack || config.rack_tlp {
            return None;
        }
        if let Some(index) = self.scoreboard.first_doubtful() {
            return Some(index);
        }
        if self.recovery.rescued {
            return None;
        }
        self.recovery.rescued = true;
        let is_copy = |index| self.scoreboard.get(index).is_some_and(|sent| sent.again);
        self.scoreboard.last_missing().filter(|index| !is_copy(*index))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Profile;
    use crate::sent::Sent;
    use units::Span;

    #[test]
    fn what_the_other_side_has_thrown_away_is_sent_again() {
        // RFC 2018 §8: the first segment was reported, and is not acknowledged all the same.
        let config = Profile::Linux2013.config();
        let mut sender = Sender::new(&config, 1);
        sender.open(0, 10_000);
        let start = sender.una;
        for seq in [start, start + 100] {
            let sent_at = Instant::ZERO;
            sender.scoreboard.push(Sent::new(seq, sent_at, 100, false));
        }
        sender.next = start + 200;
        let mut news = Delivery::new(Instant::ZERO, Span::ZERO, None);
        sender.scoreboard.sack(start, start + 100, &mut news);
        sender.on_timeout(&config, Instant::from_nanos(1_000_000_000));
        assert_eq!((sender.scoreboard.first_lost(), sender.scoreboard.lost()), (Some(0), 2));
    }
}
