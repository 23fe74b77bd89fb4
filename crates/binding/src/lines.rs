//! Lines that rules write into the log, as often as their meters let them.
//!
//! A rule that has a `log` writes one for each first packet of a connection, or of a flow that has
//! none, and for each that it refuses. What its meter holds back is counted, and told with the next
//! line, or by a line of its own once it is quiet.

use alloc::collections::{BTreeMap, VecDeque};
use core::num::NonZeroU32;

use logical::objects::{Identity, Log, Meter, MeterUnit, Severity};
use lossless::PortId;
use pipeline::{How, NamedRule, RuleName, Ruled};
use units::{Gcra, Instant, Rate, Span};

use crate::flow_name::FlowName;

/// How many lines rules without a Meter write at each port in a second.
const LINES: Meter = Meter { rate: 100, burst: None, unit: MeterUnit::Pps, shared: false };

/// The most lines that wait to be taken.
const WAITING: usize = 1024;

/// How long it is quiet before it is told how many lines were held back.
const QUIET: Span = Span::from_secs(1);

/// What a rule at a port has decided of a frame that has not left yet.
#[derive(Clone, Copy, Debug)]
pub struct Pending {
    pub port: PortId,
    pub ruled: Ruled,
    /// Whose frame it is, if the rule writes that down.
    pub flow: Option<FlowName>,
}

/// A line for the log.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Line {
    /// The port that the packet came from, or was for.
    pub at: Identity,
    /// The rule.
    pub by: RuleName,
    /// How loud.
    pub severity: Severity,
    /// What it says of the packet. `None`: the line tells of nothing but of those that were held
    /// back.
    pub what: Option<&'static str>,
    /// Whose packet it was.
    pub flow: Option<FlowName>,
    /// By which generation.
    pub generation: u64,
    /// How many lines of the same meter were held back before.
    pub suppressed: u64,
}

/// Whose meter: its own, or the port's; and the rule, unless all rules share it.
type Whose = (Identity, Option<RuleName>);

#[derive(Debug)]
struct Metered {
    bucket: Gcra,
    suppressed: u64,
    /// When a line was held back last, and what it was.
    last: Option<(Instant, Line)>,
}

/// All lines that wait to be taken, and the meters.
#[derive(Debug, Default)]
pub struct Lines {
    waiting: VecDeque<Line>,
    meters: BTreeMap<Whose, Metered>,
    /// How many were held back in all.
    pub suppressed: u64,
    /// When those that were held back may be told of.
    due: Option<Instant>,
}

/// A packet that a rule has decided.
#[derive(Clone, Copy, Debug)]
pub struct Decided<'a> {
    pub now: Instant,
    pub at: &'a Identity,
    pub rule: &'a NamedRule,
    pub how: How,
    pub flow: Option<FlowName>,
    pub bytes: usize,
    pub generation: u64,
}

impl Lines {
    /// Writes a line of a packet if its rule wants one, and the meter lets it.
    pub fn write(&mut self, decided: Decided<'_>) {
        let Decided { now, at, rule, how, flow, bytes, generation } = decided;
        let Some((Log { severity, meter: name }, meter)) = &rule.log else { return };
        let what = match how {
            How::First => "allowed",
            How::Following => return,
            How::Refused(reason) => reason.name(),
        };
        let named = name.as_ref().zip(*meter).map(|(name, meter)| {
            let kind = logical::objects::Kind::Meter;
            (Identity { kind, tenant: None, name: name.clone() }, meter)
        });
        let (of, meter) = named.unwrap_or_else(|| (at.clone(), LINES));
        let whose = (of, (!meter.shared).then(|| rule.name.clone()));
        let new = || Metered { bucket: bucket(&meter), suppressed: 0, last: None };
        let metered = self.meters.entry(whose).or_insert_with(new);
        metered.bucket = bucket(&meter).full_with(&metered.bucket);
        let units = match meter.unit {
            MeterUnit::Pps => 1,
            MeterUnit::Bps => u32::try_from(bytes).unwrap_or(u32::MAX),
        };
        let mut line = Line {
            at: at.clone(),
            by: rule.name.clone(),
            severity: *severity,
            what: Some(what),
            flow,
            generation,
            suppressed: 0,
        };
        if metered.bucket.ready_for(units) > now || self.waiting.len() >= WAITING {
            metered.suppressed += 1;
            self.suppressed += 1;
            metered.last = Some((now, line));
            self.due.get_or_insert(now + QUIET);
            return;
        }
        metered.bucket.take(now, units.into());
        line.suppressed = core::mem::take(&mut metered.suppressed);
        self.waiting.push_back(line);
    }

    /// Takes all lines, the first first.
    pub fn take(&mut self, now: Instant) -> impl Iterator<Item = Line> + '_ {
        if self.due.is_some_and(|due| due <= now) {
            self.tell_suppressed(now);
        }
        self.waiting.drain(..)
    }

    /// When there is something to take. `None`: not until something is written.
    pub fn due(&self) -> Option<Instant> {
        if self.waiting.is_empty() { self.due } else { Some(Instant::ZERO) }
    }

    fn tell_suppressed(&mut self, now: Instant) {
        self.due = None;
        for metered in self.meters.values_mut().filter(|it| it.suppressed > 0) {
            let Some((at, line)) = &metered.last else { continue };
            if *at + QUIET > now {
                let due = *at + QUIET;
                self.due = Some(self.due.map_or(due, |before| before.min(due)));
                continue;
            }
            let suppressed = core::mem::take(&mut metered.suppressed);
            self.waiting.push_back(Line { what: None, flow: None, suppressed, ..line.clone() });
        }
    }

    /// Forgets the meters of rules that are no more.
    pub fn retain(&mut self, is_there: impl Fn(&RuleName) -> bool) {
        self.meters.retain(|(_, rule), _| rule.as_ref().is_none_or(&is_there));
    }
}

/// A full bucket.
fn bucket(meter: &Meter) -> Gcra {
    let number = |it: u64| u32::try_from(it).unwrap_or(u32::MAX);
    let burst = meter.burst.unwrap_or(meter.rate);
    match (meter.unit, Rate::from_bits_per_sec(meter.rate)) {
        (MeterUnit::Bps, Some(rate)) => Gcra::of_bytes(rate, number(burst / 8)),
        (MeterUnit::Bps, None) | (MeterUnit::Pps, _) => {
            let rate = NonZeroU32::new(number(meter.rate)).unwrap_or(NonZeroU32::MIN);
            Gcra::per_second(rate, number(burst))
        }
    }
}

#[cfg(test)]
mod tests {
    use alloc::vec::Vec;

    use logical::objects::{Direction, Kind, Name};
    use logical::topology::Verdict;
    use pipeline::Reason;

    use super::*;

    fn name(word: &str) -> Name {
        word.parse().unwrap()
    }

    fn identity(kind: Kind, word: &str) -> Identity {
        Identity { kind, tenant: Some(name("shop")), name: name(word) }
    }

    fn rule(word: &str, meter: Option<Meter>) -> NamedRule {
        let log = Log { severity: Severity::Notice, meter: meter.map(|_| name("slow")) };
        NamedRule {
            name: RuleName { policy: identity(Kind::Policy, "in"), rule: name(word) },
            direction: Direction::ToPort,
            verdict: Verdict::Drop,
            log: Some((log, meter)),
        }
    }

    fn write(lines: &mut Lines, now: u64, rule: &NamedRule, how: How) {
        let at = identity(Kind::LogicalPort, "db");
        let now = Instant::from_nanos(now * 1_000_000);
        lines.write(Decided { now, at: &at, rule, how, flow: None, bytes: 60, generation: 3 });
    }

    fn take(lines: &mut Lines, now: u64) -> Vec<(Option<&'static str>, u64)> {
        let lines = lines.take(Instant::from_nanos(now * 1_000_000));
        lines.map(|line| (line.what, line.suppressed)).collect()
    }

    #[test]
    fn first_packets_and_refused_ones_have_a_line() {
        let (mut lines, rule) = (Lines::default(), rule("a", None));
        for how in [How::First, How::Following, How::Refused(Reason::Rejected)] {
            write(&mut lines, 1000, &rule, how);
        }
        assert_eq!(take(&mut lines, 1000), [(Some("allowed"), 0), (Some("rejected"), 0)]);
        assert_eq!(lines.due(), None);
    }

    #[test]
    fn what_a_meter_holds_back_is_told_with_the_next_line_or_when_it_is_quiet() {
        let meter = Meter { rate: 1, burst: Some(2), unit: MeterUnit::Pps, shared: false };
        let (mut lines, rule) = (Lines::default(), rule("a", Some(meter)));
        let refused = How::Refused(Reason::Policy);
        (0..10).for_each(|_| write(&mut lines, 5000, &rule, refused));
        assert_eq!(take(&mut lines, 5000), [(Some("policy"), 0); 2]);
        write(&mut lines, 6500, &rule, refused);
        assert_eq!(take(&mut lines, 6500), [(Some("policy"), 8)]);
        (0..3).for_each(|_| write(&mut lines, 6500, &rule, refused));
        assert_eq!(take(&mut lines, 6500), []);
        let due = lines.due().unwrap();
        assert!(due > Instant::from_nanos(6_500_000_000));
        assert_eq!(take(&mut lines, 7600), [(None, 3)]);
        assert_eq!((lines.due(), lines.suppressed), (None, 11));
    }

    #[test]
    fn rules_share_a_meter_only_if_it_says_so() {
        for (shared, expected) in [(true, 2), (false, 4)] {
            let meter = Meter { rate: 1, burst: Some(2), unit: MeterUnit::Pps, shared };
            let mut lines = Lines::default();
            for word in ["a", "b"] {
                let rule = rule(word, Some(meter));
                (0..5).for_each(|_| write(&mut lines, 1000, &rule, How::First));
            }
            assert_eq!(take(&mut lines, 1000).len(), expected);
        }
    }
}
