//! What a controller takes for thousands of hosts, told.

use crate::Environment;
use crate::control::beside::{self, Beside};
use crate::control::{Phase, Report};
use crate::page::{Axis, Bars, Chart, Unit, count, si};

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
            "goal",
            "NVP",
            "OVN",
            "computed in",
            "processors",
            "memory",
            "tuples",
            "rows",
            "wakes",
            "wrong pings",
        ]);
        let told = |it: Option<f64>| it.map_or("–".into(), |it| si(it, Unit::SECONDS));
        for one in &self.results {
            let Beside { nvp, ovn, .. } = beside::seconds(&one.phase);
            let is_missed = one.missed.iter().any(|it| it == "seconds");
            let goal = told(one.goal_s) + if is_missed { ", missed" } else { "" };
            rows.row([
                one.phase.clone(),
                seconds(one.seconds),
                goal,
                told(nvp),
                told(ovn),
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
        let share = self.results.last().and_then(Phase::tuples_a_row);
        let share = share.map(|it| format!("{it:.1} tuples for each row."));
        let beside = [
            "Goals, and what NVP and OVN took, are for 3,000 hosts with such networks.",
            "NVP: Koponen et al., NSDI 2014, figures 8 to 11. Of three controllers with 12 cores each, one that had \
             two thirds of the flows evaluated rules for about 20 minutes; it was nearly an hour until all pings went \
             as they should.",
            "OVN: version 26.03, whose databases stand alone and are reached by Unix sockets. Done is when the \
             southbound database is complete (compute, restart, delete), when ports are up (add), and when the other \
             hosts have executed it (move).",
        ];
        let missed = self.results.iter().flat_map(missed);
        missed.chain(share).chain(beside.map(str::to_owned)).collect()
    }

    fn charts(&self) -> Vec<Chart> {
        let starts = self.times("Until all is done", &["compute", "cold", "restart", "reconnect"]);
        let changes =
            self.times("Until a change is done", &["add", "delete", "move", "member", "group"]);
        let computed = self.results.iter().find(|it| it.phase == "compute");
        let amounts = computed.into_iter().flat_map(|it| {
            let memory = Axis::linear("memory", Unit::BYTES);
            let tuples = Axis::linear("tuples", Unit::NONE);
            let share = it.tuples_a_row();
            [
                amount(
                    "Memory while all is computed",
                    memory,
                    Some(it.rss_bytes as f64),
                    beside::MEMORY,
                ),
                amount("Tuples for each row", tuples, share, beside::TUPLES),
            ]
        });
        starts.into_iter().chain(changes).chain(amounts).collect()
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

impl Report {
    /// What some phases take, beside their goals and others' times; nothing if there is none of
    /// them.
    fn times(&self, title: &str, phases: &[&str]) -> Option<Chart> {
        let there = self.results.iter().filter(|it| phases.contains(&it.phase.as_str()));
        let there: Vec<_> = there.map(|it| (it, beside::seconds(&it.phase))).collect();
        let of = |value: fn(&Phase, Beside) -> Option<f64>| {
            let values = there.iter().map(move |(one, beside)| value(one, *beside));
            values.map(|it| it.unwrap_or(f64::NAN))
        };
        let bars = Bars::new(title, Axis::log10("time", Unit::SECONDS))
            .groups("phase", there.iter().map(|(it, _)| it.phase.as_str()))
            .series("zovn", of(|it, _| Some(it.seconds)))
            .series("goal", of(|it, _| it.goal_s))
            .series("NVP", of(|_, it| it.nvp))
            .series("OVN", of(|_, it| it.ovn));
        (!there.is_empty()).then(|| bars.into())
    }
}

/// One figure beside its goal and others'.
fn amount(title: &str, axis: Axis, own: Option<f64>, beside: Beside) -> Chart {
    let Beside { goal, nvp, ovn } = beside;
    let bars = [("zovn", own), ("goal", goal), ("NVP", nvp), ("OVN", ovn)];
    let bars = bars.into_iter().filter_map(|(name, value)| Some((name, value?)));
    bars.fold(Bars::new(title, axis), |chart, (name, value)| chart.bar(name, value)).into()
}

/// What of a phase is above its goal, in sentences.
fn missed(one: &Phase) -> impl Iterator<Item = String> {
    one.missed.iter().map(|what| {
        let goal = |it: Beside| it.goal.unwrap_or(f64::NAN);
        let (is, goal) = match what.as_str() {
            "rss_bytes" => {
                let [is, goal] =
                    [one.rss_bytes as f64, goal(beside::MEMORY)].map(|it| si(it, Unit::BYTES));
                (format!("has {is} of memory"), goal)
            }
            "tuples" => {
                let share = one.tuples_a_row().unwrap_or(f64::NAN);
                (format!("has {share:.1} tuples for each row"), goal(beside::TUPLES).to_string())
            }
            _ => {
                let goal = si(one.goal_s.unwrap_or(f64::NAN), Unit::SECONDS);
                (format!("was done after {}", seconds(one.seconds)), goal)
            }
        };
        format!("Missed: `{}` {is}, and its goal is {goal}.", one.phase)
    })
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

    #[test]
    fn goals_that_are_missed_and_what_others_took_are_on_the_page() {
        let phase = |phase: &str, seconds| Phase {
            phase: phase.into(),
            seconds,
            tuples: 500,
            flows: 100,
            rss_bytes: 800_000_000,
            ..Phase::default()
        };
        let phases = [phase("compute", 4.7), phase("cold", 16.9), phase("member", 0.0191)];
        let phases = phases.map(|it| it.judged(3_000));
        let config = Config { hosts: 3_000, seed: 1, rounds: 1 };
        let report = Measurement::new("control", Environment::default(), config, phases.into());
        assert_eq!(report.broken(), [""; 0], "figures differ by machine");
        let missed = [
            "Missed: `compute` has 5.0 tuples for each row, and its goal is 4.",
            "Missed: `member` was done after 19.1 ms, and its goal is 5 ms.",
        ];
        assert_eq!(report.remarks()[..2], missed);
        let text = super::super::text(&report);
        for word in ["goal", "5 ms, missed", "NVP", "1,200 s", "3,600 s", "OVN", "55.1 s"] {
            assert!(text.contains(word), "{word}: {text}");
        }
        assert_eq!(report.charts().len(), 4, "starts, changes, memory, tuples");
        let page = super::super::page("Control", "", "", &[&report]);
        for word in
            ["NSDI 2014, figures 8 to 11", "27 GB", "5.55 GB", "NVP: 20", "Missed: `member`"]
        {
            assert!(page.contains(word), "{word}: {page}");
        }
    }
}
