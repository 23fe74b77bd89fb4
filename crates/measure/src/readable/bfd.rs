//! What watching paths costs, told.

use crate::Environment;
use crate::bfd::{Report, Watched};
use crate::page::{Chart, count};
use crate::stats::median;

use super::{Readable, Rows, many};

impl Readable for Report {
    fn title(&self) -> String {
        format!("Watching the paths to {} by BFD", many(self.config.sessions.into(), "host"))
    }

    fn conditions(&self) -> String {
        let config = &self.config;
        format!(
            "Each end sends every {}, less jitter; {} counted, {}; then a cut of paths that are watched every 100ms × 3.",
            config.interval,
            config.duration,
            many(config.rounds.into(), "round")
        )
    }

    fn rows(&self) -> Rows {
        let mut rows = Rows::new([
            "round",
            "all up",
            "of a core",
            "sent",
            "received",
            "failed",
            "sessions lost",
            "cut noticed",
            "at the latest",
        ]);
        for (number, one) in (1..).zip(&self.results) {
            rows.row([
                count(number),
                format!("{:.2} s", one.up_s),
                percent(one.cpu_percent),
                pps(one.sent_pps),
                pps(one.received_pps),
                count(one.failed),
                count(one.lost.into()),
                one.detection_median_ms.map_or("–".into(), ms),
                one.detection_max_ms.map_or("–".into(), ms),
            ]);
        }
        rows
    }

    fn remarks(&self) -> Vec<String> {
        let of = |one: fn(&Watched) -> Option<f64>| median(self.results.iter().filter_map(one));
        let cost = of(|one| Some(one.cpu_percent)).map(|cpu| {
            format!(
                "Median: {} of a core for one end's thread, with what the kernel does for it while it sends and receives: over a \
                 veth pair, taking its packets to the other end's socket.",
                percent(cpu)
            )
        });
        let cut = of(|one| one.detection_median_ms)
            .map(|median| format!("Median: {} from a cut until it is noticed.", ms(median)));
        cost.into_iter().chain(cut).collect()
    }

    fn charts(&self) -> Vec<Chart> {
        Vec::new()
    }

    fn broken(&self) -> Vec<String> {
        let lost: u32 = self.results.iter().map(|one| one.lost).sum();
        let lost = (lost > 0).then(|| {
            format!("{} went down, though nothing was cut.", many(lost.into(), "session"))
        });
        let blind = self.results.iter().any(|one| one.detected < crate::bfd::CUT);
        let blind = blind.then(|| "a cut was not noticed.".to_owned());
        lost.into_iter().chain(blind).collect()
    }

    fn environment(&self) -> &Environment {
        &self.environment
    }
}

fn percent(percent: f64) -> String {
    format!("{percent:.1} %")
}

fn ms(ms: f64) -> String {
    format!("{ms:.0} ms")
}

fn pps(pps: f64) -> String {
    format!("{}/s", count(pps.round() as u64))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Measurement;
    use crate::bfd::Config;
    use units::Span;

    fn report(change: fn(&mut Watched)) -> Report {
        let second = Span::from_secs(1);
        let config = Config { sessions: 5, interval: second, duration: second, rounds: 1 };
        let mut one = Watched {
            up_s: 1.0,
            cpu_percent: 5.0,
            sent_pps: 10.0,
            received_pps: 10.0,
            failed: 0,
            lost: 0,
            detected: 10,
            detection_median_ms: Some(250.0),
            detection_max_ms: Some(290.0),
        };
        change(&mut one);
        Measurement::new("bfd", Environment::default(), config, vec![one])
    }

    #[test]
    fn sessions_stay_up_and_cuts_are_noticed() {
        assert_eq!(report(|_| ()).broken(), [""; 0]);
        assert_eq!(
            report(|one| one.lost = 2).broken(),
            ["2 sessions went down, though nothing was cut."]
        );
        assert_eq!(report(|one| one.detected = 9).broken(), ["a cut was not noticed."]);
    }
}
