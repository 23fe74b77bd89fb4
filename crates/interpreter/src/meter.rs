//! How often something may be: answers to a port, lines of rules.
//!
//! A meter is one instant: when all that was taken from it would have been taken at its rate. What
//! lies further ahead than its burst is too much (the virtual scheduling of ITU-T I.371, annex A).

use logical::objects::{Identity, Meter, MeterUnit};
use logical::topology::PortIndex;
use units::Span;

use crate::decision::Line;
use crate::rule::RuleId;
use crate::state::{Change, MeterOf, What};
use crate::walk::Walk;

/// How many lines rules without a Meter write at each port.
const LINES: Meter = Meter { rate: 100, burst: None, unit: MeterUnit::Pps, shared: false };

impl Walk<'_> {
    /// Takes a frame of so many bytes from a meter. Whether it had so much left.
    pub fn take(&mut self, of: MeterOf, meter: &Meter, bytes: usize) -> bool {
        let each = match meter.unit {
            MeterUnit::Pps => 1,
            MeterUnit::Bps => bytes as u64 * 8,
        };
        let span =
            |count: u64| Span::from_nanos(count.saturating_mul(1_000_000_000) / meter.rate.max(1));
        // What this frame has taken before counts, too.
        let mut before = self.decision.changes.iter().rev();
        let before = before.find_map(|it| match it {
            Change(What::Metered(it, until)) if *it == of => Some(*until),
            _ => None,
        });
        let used = before.or_else(|| self.state.metered(&of)).unwrap_or(self.now).max(self.now);
        let until = used + span(each);
        let has_room = until <= self.now + span(meter.burst.unwrap_or(meter.rate).max(each));
        if has_room {
            self.decision.changes.push(Change(What::Metered(of, until)));
        }
        has_room
    }

    /// Writes a line if the rule wants one, and its meter lets it.
    pub fn write_line(&mut self, port: PortIndex, by: Option<&RuleId>, what: &'static str) {
        let (topology, Some(by)) = (self.topology, by) else { return };
        let policy = topology.policies().find(|(_, it)| it.id == by.policy);
        let rule = policy.and_then(|(_, it)| it.rules.iter().find(|rule| rule.name == by.rule));
        let Some(log) = rule.and_then(|rule| rule.log.as_ref()) else { return };
        let at = &topology[port].id;
        let mut meters = topology.meters().map(|(_, it)| it);
        let named = meters.find(|it| log.meter.as_ref() == Some(&it.id.name));
        let (of, meter): (&Identity, &Meter) = named.map_or((at, &LINES), |it| (&it.id, &it.meter));
        let whose = (of.clone(), (!meter.shared).then(|| by.clone()));
        if self.take(whose, meter, self.sent.len()) {
            let (at, by) = (at.clone(), by.clone());
            self.decision.lines.push(Line { at, by, severity: log.severity, what });
        }
    }
}
