//! What a controller takes for thousands of hosts, told.

use crate::Environment;
use crate::control::beside::{self, Beside};
use crate::control::{Moment, Phase, Report};
use crate::page::{Axis, Bars, Chart, Lines, Unit, count, si};

use super::{Readable, Rows, many};

impl Readable for Report {
    fn title(&self) -> String {
        format!("A controller of {}", many(self.config.hosts.into(), "host"))
    }

    fn conditions(&self) -> String {
        format!(
            "21 ports a host, 9 ports a switch, seed {}; changes are made {}, and the median is told. {}.",
            self.config.seed,
            many(self.config.rounds.into(), "time"),
            match self.config.tls {
                true => "Connections are encrypted (TLS 1.3), agents have certificates",
                false => "Connections are not encrypted, and nobody proves who they are",
            }
        )
    }

    fn rows(&self) -> Rows {
        let mut rows = Rows::new([
            "phase",
            "done after",
            "goal",
            "NVP",
            "OVN",
            "served after",
            "computed in",
            "processors",
            "memory",
            "tuples",
            "rows",
            "wakes",
            "wrong pings",
            "meanwhile",
            "refusals",
        ]);
        let told = |it: Option<f64>| it.map_or("–".into(), |it| si(it, Unit::SECONDS));
        let pings = |wrong: u32, asked: u32| match asked {
            0 => "–".into(),
            asked => format!("{wrong} of {}", count(asked.into())),
        };
        let some = |it: Option<f64>| it.map_or("–".into(), seconds);
        for one in &self.results {
            let Beside { nvp, ovn } = beside::seconds(&one.phase);
            let is_missed = |name: &str| one.missed.iter().any(|it| it == name);
            let judged =
                |name: &str, it: String| it + if is_missed(name) { ", missed" } else { "" };
            rows.row([
                one.phase.clone(),
                seconds(one.seconds),
                judged("seconds", told(one.goals.get("seconds").copied())),
                told(nvp),
                told(ovn),
                judged("served_s", some(one.served_s)),
                judged("computed_s", some(one.computed_s)),
                seconds(one.cpu_s),
                judged("rss_bytes", format!("{} MB", count(one.rss_bytes / 1_000_000))),
                judged("tuples_a_flow", count(one.tuples)),
                count(one.flows),
                judged("wakes", count(one.wakes.round() as u64)),
                pings(one.pings_wrong, one.pings),
                pings(one.pings_wrong_during, one.pings_during),
                count(one.refusals),
            ]);
        }
        rows
    }

    fn remarks(&self) -> Vec<String> {
        let share = |it: &Phase| {
            let (tuples, bytes) = it.tuples_a_flow.zip(it.bytes_a_tuple)?;
            Some(format!("{tuples:.1} tuples for each row, {bytes:.1} bytes each."))
        };
        let share = self.results.iter().find_map(share);
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
            [
                amount("Memory while all is computed", memory, it, "rss_bytes", beside::MEMORY),
                amount("Tuples for each row", tuples, it, "tuples_a_flow", beside::TUPLES),
            ]
        });
        let agents = |it: &Moment| f64::from(it.agents);
        let over_time = [
            self.over_time("Agents that execute all, after a start", "agents", agents),
            self.over_time("Rows that agents have, after a start", "rows", |it| it.rows as f64),
        ];
        let over_time = over_time.into_iter().flatten();
        starts.into_iter().chain(over_time).chain(changes).chain(amounts).collect()
    }

    fn broken(&self) -> Vec<String> {
        let told = |it: &Phase| {
            let pings = |when: &str, wrong: u32, asked: u32| {
                let wrong = many(wrong.into(), "ping");
                format!("{when} `{}`, {wrong} of {asked} went otherwise than intended.", it.phase)
            };
            let refused = many(it.refusals, "update");
            [
                (it.pings_wrong > 0).then(|| pings("after", it.pings_wrong, it.pings)),
                (it.pings_wrong_during > 0)
                    .then(|| pings("during", it.pings_wrong_during, it.pings_during)),
                (it.refusals > 0)
                    .then(|| format!("during `{}`, agents refused {refused}.", it.phase)),
            ]
        };
        self.results.iter().flat_map(told).flatten().collect()
    }

    fn environment(&self) -> &Environment {
        &self.environment
    }
}

impl Report {
    /// How something grows after starts, as NVP's figures 8 and 9 have it; nothing if there is no
    /// start.
    fn over_time(&self, title: &str, what: &str, value: fn(&Moment) -> f64) -> Option<Chart> {
        let (time, what) = (Axis::linear("time", Unit::SECONDS), Axis::linear(what, Unit::NONE));
        let starts: Vec<_> = self.results.iter().filter(|it| !it.over_time.is_empty()).collect();
        let lines = starts.iter().fold(Lines::new(title, time, what), |lines, it| {
            let points = it.over_time.iter().map(|it| (it.seconds, value(it)));
            lines.series(it.phase.as_str(), points)
        });
        (!starts.is_empty()).then(|| lines.into())
    }

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
            .series("goal", of(|it, _| it.goals.get("seconds").copied()))
            .series("NVP", of(|_, it| it.nvp))
            .series("OVN", of(|_, it| it.ovn));
        (!there.is_empty()).then(|| bars.into())
    }
}

/// One figure of a phase beside its goal and others'.
fn amount(title: &str, axis: Axis, one: &Phase, name: &str, beside: Beside) -> Chart {
    let (own, goal) = (one.figure(name), one.goals.get(name).copied());
    let bars = [("zovn", own), ("goal", goal), ("NVP", beside.nvp), ("OVN", beside.ovn)];
    let bars = bars.into_iter().filter_map(|(name, value)| Some((name, value?)));
    bars.fold(Bars::new(title, axis), |chart, (name, value)| chart.bar(name, value)).into()
}

/// What of a phase is above its goal, in sentences.
fn missed(one: &Phase) -> impl Iterator<Item = String> {
    one.missed.iter().map(|name| {
        let is = one.figure(name).unwrap_or(f64::NAN);
        let goal = one.goals.get(name).copied().unwrap_or(f64::NAN);
        let (is, goal) = match name.as_str() {
            "rss_bytes" => {
                (format!("has {} of memory", si(is, Unit::BYTES)), si(goal, Unit::BYTES))
            }
            "tuples_a_flow" => (format!("has {is:.1} tuples for each row"), goal.to_string()),
            "bytes_a_tuple" => (format!("has {is:.1} bytes for each tuple"), goal.to_string()),
            "rows_a_host" => (format!("told each host {is:.1} rows"), goal.to_string()),
            "wakes" => (format!("woke {is:.1} agents"), format!("{goal:.1}")),
            "served_s" => (format!("served after {}", seconds(is)), si(goal, Unit::SECONDS)),
            "computed_s" => (format!("was computed in {}", seconds(is)), si(goal, Unit::SECONDS)),
            _ => (format!("was done after {}", seconds(is)), si(goal, Unit::SECONDS)),
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
    fn pings_that_go_wrong_and_refusals_are_told() {
        let report = |phase: Phase| {
            let phase = Phase { phase: "add".into(), pings: 9, pings_during: 8, ..phase };
            let config = Config { hosts: 10, seed: 1, rounds: 1, tls: false };
            Measurement::new("control", Environment::default(), config, vec![phase])
        };
        assert_eq!(report(Phase::default()).broken(), [""; 0]);
        let (pings_wrong, pings_wrong_during, refusals) = (1, 2, 3);
        let phase = Phase { pings_wrong, pings_wrong_during, refusals, ..Phase::default() };
        let told = [
            "after `add`, 1 ping of 9 went otherwise than intended.",
            "during `add`, 2 pings of 8 went otherwise than intended.",
            "during `add`, agents refused 3 updates.",
        ];
        assert_eq!(report(phase).broken(), told);
    }

    #[test]
    fn goals_that_are_missed_and_what_others_took_are_on_the_page() {
        let phase = |phase: &str, seconds| Phase {
            phase: phase.into(),
            seconds,
            tuples_a_flow: Some(5.0),
            bytes_a_tuple: Some(30.04),
            rss_bytes: 800_000_000,
            ..Phase::default()
        };
        let moment = |seconds, agents| Moment { seconds, agents, rows: 60 };
        let over_time = vec![moment(0.0, 0), moment(6.0, 1_500), moment(7.0, 3_000)];
        let restart = Phase { served_s: Some(5.5), over_time, ..phase("restart", 7.0) };
        let add = Phase { computed_s: Some(0.012), wakes: 18.5, ..phase("add", 0.02) };
        let add = Phase { goals: [("wakes".into(), 17.5)].into(), ..add };
        let phases =
            [phase("compute", 4.7), phase("cold", 16.9), restart, add, phase("member", 0.0191)];
        let phases = phases.map(|it| it.judged(3_000));
        let config = Config { hosts: 3_000, seed: 1, rounds: 1, tls: false };
        let report = Measurement::new("control", Environment::default(), config, phases.into());
        assert_eq!(report.broken(), [""; 0], "figures differ by machine");
        let missed = [
            "Missed: `compute` has 5.0 tuples for each row, and its goal is 4.",
            "Missed: `restart` served after 5.50 s, and its goal is 5 s.",
            "Missed: `add` was computed in 12.0 ms, and its goal is 10 ms.",
            "Missed: `add` woke 18.5 agents, and its goal is 17.5.",
            "Missed: `member` was done after 19.1 ms, and its goal is 5 ms.",
            "5.0 tuples for each row, 30.0 bytes each.",
        ];
        assert_eq!(report.remarks()[..6], missed);
        let text = super::super::text(&report);
        for word in [
            "goal",
            "5 ms, missed",
            "12.0 ms, missed",
            "NVP",
            "1,200 s",
            "3,600 s",
            "OVN",
            "55.1 s",
        ] {
            assert!(text.contains(word), "{word}: {text}");
        }
        assert_eq!(report.charts().len(), 6, "starts, agents, rows, changes, memory, tuples");
        let page = super::super::page("Control", "", "", &[&report]);
        for word in
            ["NSDI 2014, figures 8 to 11", "27 GB", "5.55 GB", "NVP: 20", "Missed: `member`"]
        {
            assert!(page.contains(word), "{word}: {page}");
        }
    }
}
