//! What adversaries do to a virtual machine that is promised frames, told.

use crate::isolation::adversary::Adversary;
use crate::isolation::machines::{Report, VictimMachine};
use crate::isolation::{Peer, Spent};
use crate::page::{Axis, Bars, Chart, Unit, count, percent, si};
use crate::{Environment, SwitchKind};

use super::{Readable, Rows, many, unbalanced, us};

/// A victim that has less of its guarantee was not given it, however busy the machine is.
const KEPT: f64 = 0.9;

/// Where so few of the others' rings are full, the generator bounds them.
const HELD: f64 = 0.5;

impl Readable for Report {
    fn title(&self) -> String {
        "Isolation: adversaries beside a victim, virtual machines".into()
    }

    fn conditions(&self) -> String {
        let config = &self.config;
        format!(
            "One core for the switch, one for all machines, by vhost-user. The victim is promised {} of 64 B where there \
             are terms, and sends 0.95 of that; {} send for {} as much as the switch takes (`incast` and `broadcast` are \
             one network each). {}.",
            si(f64::from(config.min_packets), Unit::FRAMES_PER_SEC),
            many(config.tenants.into(), "other network"),
            config.lasts,
            many(config.rounds.into(), "round"),
        )
    }

    fn rows(&self) -> Rows {
        let mut rows = Rows::new([
            "adversary",
            "switch",
            "lost",
            "goodput",
            "least in 50 ms",
            "at most",
            "least, of promised",
            "alone p50",
            "alone p99",
            "beside p50",
            "beside p99",
            "beside p99.9",
            "others came",
            "held",
            "thread",
            "others' thread",
        ]);
        for one in &self.results {
            let part = |of: fn(&Spent) -> f64| {
                one.thread.as_ref().map_or("–".into(), |spent| percent(of(spent)))
            };
            rows.row([
                one.adversary.to_string(),
                one.peer.to_string(),
                count(one.lost),
                percent(one.goodput),
                percent(one.least_goodput),
                Unit::FRAMES_PER_SEC.brief(one.most),
                percent(one.least_of_guarantee),
                us(one.alone.p50),
                us(one.alone.p99),
                us(one.beside.p50),
                us(one.beside.p99),
                us(one.beside.p999),
                Unit::FRAMES_PER_SEC.brief(one.others),
                percent(one.others_held),
                part(|spent| spent.victim),
                part(|spent| spent.others),
            ]);
        }
        rows
    }

    fn remarks(&self) -> Vec<String> {
        let mut remarks = vec![
            "Goodput is the share of the victim's frames that came within 50 ms of when they were due, beside the others. \
             “At most” is what came of it when it sent all that the switch took, and “least, of promised” the worst 50 ms \
             of that. “Held” is how often a ring of the others was full: near 100 % the switch bounds them, and not the \
             generator. “Thread” is each one's part of the switch's thread."
                .to_owned(),
        ];
        for one in &self.results {
            let case = case(one);
            if let Some(changes) = &one.changes {
                remarks.push(format!(
                    "{case}: {} were made and {} refused; one took {} at most.",
                    many(changes.made, "change"),
                    changes.refused,
                    us(changes.longest_ms * 1e3),
                ));
            }
            if one.others_held < HELD {
                remarks.push(format!(
                    "{case}: others' rings were full {} of the time; the generator may be what bounds them.",
                    percent(one.others_held)
                ));
            }
            if one.marked > 0.1 {
                remarks.push(format!(
                    "{case}: the time of {} of the frames does not count, as the generator was away.",
                    percent(one.marked)
                ));
            }
        }
        remarks
    }

    fn charts(&self) -> Vec<Chart> {
        let delay = Axis::log10("99 of 100 took at most", Unit::SECONDS);
        let rate = Axis::linear("came, of promised", Unit::SHARE);
        let promised = f64::from(self.config.min_packets);
        vec![
            self.bars("Victim's delay beside adversaries", delay, |one| one.beside.p99 / 1e6),
            self.bars("What a victim could have", rate, |one| one.most / promised),
        ]
    }

    fn broken(&self) -> Vec<String> {
        let mut broken = Vec::new();
        for one in &self.results {
            let case = case(one);
            if one.peer.switch() == SwitchKind::Zovn && (one.lost > 0 || one.duplicates > 0) {
                broken.push(format!(
                    "{case}: {} of the victim were lost, and {} came twice.",
                    many(one.lost, "frame"),
                    one.duplicates
                ));
            }
            let share = one.most / f64::from(self.config.min_packets);
            if one.has_guarantee() && share.min(one.goodput) < KEPT {
                broken.push(format!(
                    "{case}: the victim had {} of the frames that it is promised, and {} of what it sent within that came \
                     in time.",
                    percent(share),
                    percent(one.goodput)
                ));
            }
            if let Some(changes) = one.changes.as_ref().filter(|changes| changes.refused > 0) {
                broken.push(format!(
                    "{case}: {} refused that can be: {}",
                    many(changes.refused, "change"),
                    changes.why.as_deref().unwrap_or("nobody said why")
                ));
            }
            broken.extend(unbalanced(one.peer.to_string(), one.balanced));
        }
        broken
    }

    fn environment(&self) -> &Environment {
        &self.environment
    }
}

fn case(one: &VictimMachine) -> String {
    format!("{} beside {}", one.peer, one.adversary)
}

impl Report {
    /// A group for each adversary, and a bar for each switch.
    fn bars(&self, title: &str, axis: Axis, value: impl Fn(&VictimMachine) -> f64) -> Chart {
        let (mut rows, mut columns): (Vec<Adversary>, Vec<Peer>) = (Vec::new(), Vec::new());
        for one in &self.results {
            if !rows.contains(&one.adversary) {
                rows.push(one.adversary);
            }
            if !columns.contains(&one.peer) {
                columns.push(one.peer);
            }
        }
        let groups = rows.iter().map(ToString::to_string);
        let bars = Bars::new(title, axis).groups("adversary", groups);
        let of = |bars: Bars, peer: &Peer| {
            let value = |row: &Adversary| {
                let mut all = self.results.iter();
                let found = all.find(|one| one.adversary == *row && one.peer == *peer);
                found.map_or(f64::NAN, &value)
            };
            bars.series(peer.to_string(), rows.iter().map(value))
        };
        columns.iter().fold(bars, of).into()
    }
}

#[cfg(test)]
mod tests {
    use traffic::TimesUs;
    use units::Span;

    use super::*;
    use crate::isolation::machines::Config;

    fn report(peer: Peer, change: impl FnOnce(&mut VictimMachine)) -> Report {
        let config = Config {
            peers: vec![peer],
            adversaries: vec![Adversary::Packets],
            tenants: 8,
            min_packets: 1000,
            lead: Span::ZERO,
            lasts: Span::ZERO,
            rest: Span::ZERO,
            rounds: 1,
        };
        let mut one = VictimMachine {
            peer,
            adversary: Adversary::Packets,
            sent: 100,
            lost: 0,
            duplicates: 0,
            goodput: 1.0,
            least_goodput: 1.0,
            most: 2000.0,
            least_of_guarantee: 1.5,
            alone: TimesUs::default(),
            beside: TimesUs::default(),
            others: 0.0,
            others_bits: 0.0,
            others_held: 1.0,
            changes: None,
            thread: None,
            marked: 0.0,
            balanced: Some(true),
        };
        change(&mut one);
        crate::Measurement::new("machines", Environment::look(), config, vec![one])
    }

    #[test]
    fn only_a_promise_can_be_broken() {
        let starved = |peer| report(peer, |one| one.most = 800.0).broken();
        assert_eq!(starved(Peer::OvsDpdk), [""; 0]);
        assert_eq!(starved(Peer::ZovnUnshared), [""; 0]);
        let [sentence] = &starved(Peer::ZovnLossy)[..] else { panic!() };
        assert!(
            sentence.starts_with("zovn-lossy beside packets: the victim had 80 %"),
            "{sentence}"
        );
        assert_eq!(report(Peer::Zovn, |_| ()).broken(), [""; 0]);
        assert_eq!(report(Peer::Zovn, |one| one.lost = 1).broken().len(), 1);
        assert_eq!(report(Peer::OvsDpdk, |one| one.lost = 1).broken(), [""; 0]);
    }

    #[test]
    fn what_bounds_the_others_is_said() {
        let remarks = |held| report(Peer::Zovn, |one| one.others_held = held).remarks().len();
        assert_eq!((remarks(1.0), remarks(0.2)), (1, 2));
    }
}
