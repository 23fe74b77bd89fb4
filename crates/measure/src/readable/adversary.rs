//! What adversaries do to a network that keeps to its guarantee, told.

use crate::isolation::adversary::{Adversary, Report, Victim};
use crate::isolation::{BUSY, Peer};
use crate::page::{Axis, Bars, Chart, Unit, count, percent, si};
use crate::{Environment, SwitchKind};

use super::{Readable, Rows, many, unbalanced, us};

impl Readable for Report {
    fn title(&self) -> String {
        "Isolation: adversaries beside a victim".into()
    }

    fn conditions(&self) -> String {
        let config = &self.config;
        format!(
            "All networks send from one host by an uplink of {}. The victim has a minimum of a fifth of it where there are \
             terms, and sends 0.95 of that. {} send for {}, each to its own receiver; `flows` is one network of sixteen \
             senders. {}.",
            si(config.rate.bits_per_sec() as f64, Unit::BITS_PER_SEC),
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
            "alone p50",
            "alone p99",
            "beside p50",
            "beside p99",
            "beside p99.9",
            "others came",
        ]);
        for one in &self.results {
            rows.row([
                one.adversary.to_string(),
                one.peer.to_string(),
                count(one.lost),
                percent(one.goodput),
                percent(one.least_goodput),
                us(one.alone.p50),
                us(one.alone.p99),
                us(one.beside.p50),
                us(one.beside.p99),
                us(one.beside.p999),
                si(one.others, Unit::BITS_PER_SEC),
            ]);
        }
        rows
    }

    fn remarks(&self) -> Vec<String> {
        vec![
            "Goodput is the share of the victim's frames that came within 50 ms of when they were due, beside the others; \
             `least` is that of the worst 50 ms. What came of the others is frames of UDP, and the payload of TCP."
                .into(),
        ]
    }

    fn charts(&self) -> Vec<Chart> {
        let delay = Axis::log10("99 of 100 took at most", Unit::SECONDS);
        let least = Axis::linear("came", Unit::SHARE);
        vec![
            self.bars("Victim's delay beside adversaries", delay, |one| one.beside.p99 / 1e6),
            self.bars("Victim's goodput in the worst 50 ms", least, |one| one.least_goodput),
        ]
    }

    fn broken(&self) -> Vec<String> {
        let mut broken = Vec::new();
        for one in &self.results {
            let Victim { peer, adversary, .. } = one;
            if one.generator_busy > BUSY {
                broken.push(format!(
                    "the victim took {} of a processor beside {adversary} on {peer}: the switch is not what was measured.",
                    percent(one.generator_busy)
                ));
            }
            if peer.switch() == SwitchKind::Zovn && (one.lost > 0 || one.duplicates > 0) {
                broken.push(format!(
                    "{peer} lost {} of the victim beside {adversary}, and delivered {} twice.",
                    many(one.lost, "frame"),
                    one.duplicates
                ));
            }
            broken.extend(unbalanced(peer, one.balanced));
        }
        broken
    }

    fn environment(&self) -> &Environment {
        &self.environment
    }
}

impl Report {
    /// A group for each adversary, and a bar for each switch.
    fn bars(&self, title: &str, axis: Axis, value: impl Fn(&Victim) -> f64) -> Chart {
        let adversaries = self.config.adversaries.iter();
        let bars = Bars::new(title, axis).groups("adversary", adversaries.map(ToString::to_string));
        let of = |bars: Bars, peer: &Peer| {
            let value = |adversary: &Adversary| {
                let mut all = self.results.iter();
                let found = all.find(|one| (one.adversary, one.peer) == (*adversary, *peer));
                found.map_or(f64::NAN, &value)
            };
            bars.series(peer.to_string(), self.config.adversaries.iter().map(value))
        };
        self.config.peers.iter().fold(bars, of).into()
    }
}
