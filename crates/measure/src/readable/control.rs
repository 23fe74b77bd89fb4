//! What a controller takes for thousands of hosts, told.

use crate::Environment;
use crate::control::{Phase, Report};
use crate::page::{Chart, count};

use super::{Readable, Rows, many};

impl Readable for Report {
    fn title(&self) -> String {
        format!("A controller of {}", many(self.config.hosts.into(), "host"))
    }

    fn conditions(&self) -> String {
        format!(
            "21 ports a host, 9 ports a switch, seed {}; changes are made {}, and the median is told.",
            self.config.seed,
            many(self.config.rounds.into(), "time")
        )
    }

    fn rows(&self) -> Rows {
        let mut rows = Rows::new([
            "phase",
            "done after",
            "computed in",
            "processors",
            "memory",
            "tuples",
            "rows",
            "wakes",
            "wrong pings",
        ]);
        for one in &self.results {
            rows.row([
                one.phase.clone(),
                seconds(one.seconds),
                one.computed_s.map_or("–".into(), seconds),
                seconds(one.cpu_s),
                format!("{} MB", count(one.rss_bytes / 1_000_000)),
                count(one.tuples),
                count(one.flows),
                count(one.wakes.round() as u64),
                match one.pings {
                    0 => "–".into(),
                    pings => format!("{} of {}", one.pings_wrong, count(pings.into())),
                },
            ]);
        }
        rows
    }

    fn remarks(&self) -> Vec<String> {
        let last = self.results.last();
        let share = last
            .filter(|it| it.flows > 0)
            .map(|it| format!("{:.1} tuples for each row.", it.tuples as f64 / it.flows as f64));
        share.into_iter().collect()
    }

    fn charts(&self) -> Vec<Chart> {
        Vec::new()
    }

    fn broken(&self) -> Vec<String> {
        let is_wrong = |it: &&Phase| it.pings_wrong > 0;
        let told = |it: &Phase| {
            let pings = many(it.pings_wrong.into(), "ping");
            format!("after `{}`, {pings} of {} went otherwise than intended.", it.phase, it.pings)
        };
        self.results.iter().filter(is_wrong).map(told).collect()
    }

    fn environment(&self) -> &Environment {
        &self.environment
    }
}

/// A time, in milliseconds where it is short.
fn seconds(seconds: f64) -> String {
    if seconds < 1.0 { format!("{:.1} ms", seconds * 1e3) } else { format!("{seconds:.2} s") }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Measurement;
    use crate::control::Config;

    #[test]
    fn a_ping_that_goes_wrong_is_told() {
        let report = |pings_wrong| {
            let phase = Phase { phase: "cold".into(), pings: 9, pings_wrong, ..Phase::default() };
            let config = Config { hosts: 10, seed: 1, rounds: 1 };
            Measurement::new("control", Environment::default(), config, vec![phase])
        };
        assert_eq!(report(0).broken(), [""; 0]);
        let told = ["after `cold`, 1 ping of 9 went otherwise than intended."];
        assert_eq!(report(1).broken(), told);
    }
}
