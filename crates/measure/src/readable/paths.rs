//! How soon frames go on by another path, told.

use crate::page::{Chart, count};
use crate::paths::{Report, Switched};
use crate::stats::median;
use crate::{Environment, SwitchKind};

use super::{Readable, Rows, many, repeated};

impl Readable for Report {
    fn title(&self) -> String {
        format!("Cutting one of two paths between hosts, {}", many(self.config.cuts.into(), "time"))
    }

    fn conditions(&self) -> String {
        format!(
            "{} a second cross from one host to the other by Geneve. Both hosts watch both paths by BFD, every 100ms × 3, and \
             nobody tells them of the cut.",
            many(self.config.rate.into(), "datagram")
        )
    }

    fn rows(&self) -> Rows {
        let mut rows = Rows::new([
            "cut",
            "sender's host on the other path",
            "receiver's host",
            "longest outage at the receiver",
            "sent",
            "lost",
            "twice",
        ]);
        for (number, one) in (1..).zip(&self.results) {
            rows.row([
                count(number),
                one.switched_ms.map_or("–".into(), ms),
                one.far_switched_ms.map_or("–".into(), ms),
                ms(one.outage_ms),
                count(one.sent),
                count(one.lost),
                count(one.duplicates),
            ]);
        }
        rows
    }

    fn remarks(&self) -> Vec<String> {
        let of = |one: fn(&Switched) -> Option<f64>, what: &str| {
            let all = || self.results.iter().filter_map(one);
            let longest = all().max_by(f64::total_cmp)?;
            median(all()).map(|median| {
                format!("{what}: {} in the median, {} at most.", ms(median), ms(longest))
            })
        };
        let switched =
            of(|one| one.switched_ms, "From a cut until the sender's host goes by the other path");
        let silence = of(|one| Some(one.outage_ms), "The receiver's longest outage");
        switched.into_iter().chain(silence).collect()
    }

    fn charts(&self) -> Vec<Chart> {
        Vec::new()
    }

    fn broken(&self) -> Vec<String> {
        let lost: u64 = self.results.iter().map(|one| one.lost).sum();
        let lost = (lost > 0)
            .then(|| format!("{} did not come, though a path was left.", many(lost, "datagram")));
        let blind = self
            .results
            .iter()
            .any(|one| one.switched_ms.is_none() || one.far_switched_ms.is_none());
        let blind = blind.then(|| "a cut was not noticed.".to_owned());
        let balanced = self.results.iter().all(|one| one.balanced != Some(false));
        let books = (!balanced).then(|| "a switch's account does not balance.".to_owned());
        let twice = repeated(SwitchKind::Zovn, self.results.iter().map(|one| one.duplicates).sum());
        lost.into_iter().chain(twice).chain(blind).chain(books).collect()
    }

    fn environment(&self) -> &Environment {
        &self.environment
    }
}

fn ms(ms: f64) -> String {
    format!("{ms:.0} ms")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Measurement;
    use crate::paths::Config;

    fn report(change: fn(&mut Switched)) -> Report {
        let mut one = Switched {
            switched_ms: Some(250.0),
            far_switched_ms: Some(260.0),
            outage_ms: 270.0,
            sent: 2000,
            lost: 0,
            duplicates: 0,
            balanced: Some(true),
        };
        change(&mut one);
        Measurement::new("paths", Environment::default(), Config { cuts: 1, rate: 1000 }, vec![one])
    }

    #[test]
    fn nothing_is_lost_and_cuts_are_noticed() {
        assert_eq!(report(|_| ()).broken(), [""; 0]);
        let one = report(|one| (one.lost, one.balanced) = (2, Some(false)));
        assert_eq!(
            one.broken(),
            [
                "2 datagrams did not come, though a path was left.",
                "a switch's account does not balance."
            ]
        );
        assert_eq!(report(|one| one.duplicates = 1).broken(), ["zovn delivered 1 frame twice."]);
        assert_eq!(report(|one| one.switched_ms = None).broken(), ["a cut was not noticed."]);
        assert!(report(|_| ()).remarks()[0].contains("250 ms in the median"));
    }
}
