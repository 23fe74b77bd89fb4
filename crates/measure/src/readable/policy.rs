//! What policy costs, told.

use crate::page::{Axis, Bars, Chart, Unit, count, percent};
use crate::policy::{Load, Policed, Ports, Report, Through};
use crate::{Environment, SwitchKind, is_lossless};

use super::{Readable, Rows, many, repeated, unbalanced, us};

impl Readable for Report {
    fn title(&self) -> String {
        match self.config.ports {
            Ports::VhostUser => "What policy costs between virtual machines".into(),
            Ports::Container => "What policy costs between containers".into(),
        }
    }

    fn conditions(&self) -> String {
        let config = &self.config;
        let is_of_connections = |load: &Load| matches!(load, Load::Connect | Load::Accept);
        let (cores, connects) = match config.ports {
            Ports::VhostUser if config.loads.iter().any(is_of_connections) => {
                let begun = many(config.connections.into(), "connection");
                ("One core for the switch, one for both machines", format!(", {begun} begun"))
            }
            Ports::VhostUser => ("One core for the switch, one for both machines", String::new()),
            Ports::Container => ("All cores for all", String::new()),
        };
        format!(
            "{cores}; frames of {} B, {} each{connects}; medians of {}.",
            config.size,
            config.duration,
            many(config.rounds.into(), "round"),
        )
    }

    fn rows(&self) -> Rows {
        let cost = match self.config.ports {
            Ports::VhostUser => "cycles",
            Ports::Container => "CPU",
        };
        let mut rows = Rows::new([
            "switch", "through", "rules", "load", "flows", "frames/s", "worst", "best", "lost",
            "of sent", cost, "to plain", "p50", "p99", "p99.9",
        ]);
        for one in &self.results {
            let fps = |mfps: f64| Unit::FRAMES_PER_SEC.brief(mfps * 1e6);
            let time = |part: fn(&crate::policy::Delay) -> f64| {
                one.latency.as_ref().map_or("–".into(), |latency| us(part(latency)))
            };
            let rules =
                if one.through.has_rules() { count(one.rules.into()) } else { "–".into() };
            rows.row([
                one.switch.to_string(),
                one.through.to_string(),
                rules,
                one.load.to_string(),
                one.flows.map_or("new".into(), |flows| count(flows.into())),
                fps(one.mfps),
                fps(one.mfps_range[0]),
                fps(one.mfps_range[1]),
                count(one.lost),
                percent(one.lost as f64 / one.sent.max(1) as f64),
                match (one.cycles_per_frame, one.cpu_ns_per_frame) {
                    (Some(cycles), _) => format!("{cycles:.0}"),
                    (None, Some(ns)) => us(ns / 1e3),
                    (None, None) => "–".into(),
                },
                self.to_plain(one).map_or("–".into(), |ratio| format!("{ratio:.2}")),
                time(|latency| latency.p50_us),
                time(|latency| latency.p99_us),
                time(|latency| latency.p999_us),
            ]);
        }
        rows
    }

    fn remarks(&self) -> Vec<String> {
        let mut remarks = Vec::new();
        for remark in self.results.iter().filter_map(|one| {
            let remark = one.remark.as_ref()?;
            Some(format!("{} through {}: {remark}", one.switch, path(one)))
        }) {
            if !remarks.contains(&remark) {
                remarks.push(remark);
            }
        }
        remarks.extend(self.legend().map(str::to_owned));
        remarks.extend(self.results.iter().filter_map(|one| {
            let (latency, known) = (one.latency?, one.known?);
            Some(format!(
                "{}: the first packet of a flow took {} in the median, one of a known flow {} ({}).",
                one.switch,
                us(latency.p50_us),
                us(known.p50_us),
                what(one),
            ))
        }));
        remarks.extend(self.results.iter().filter_map(|one| {
            let other = self.peer(one)?;
            let ratio = one.mfps / other.mfps;
            let than = format!("{} carried {ratio:.2} times what {} did", one.switch, other.switch);
            (one.load != Load::First).then(|| format!("{than} ({}).", what(one)))
        }));
        // Between containers a sender is busy with the switch's own work.
        let is_apart = self.config.ports == Ports::VhostUser;
        let bound = self.results.iter().filter(|one| is_apart && one.generator_busy > 0.9);
        remarks.extend(bound.map(|one| {
            format!(
                "With {} the generator was busy for {} of the time ({}): it may be what bounds that rate.",
                one.switch,
                percent(one.generator_busy),
                what(one),
            )
        }));
        remarks
    }

    fn charts(&self) -> Vec<Chart> {
        let mut charts = Vec::new();
        for &flows in &self.config.flows {
            let is_it = |one: &Policed| one.flows == Some(flows);
            if !self.results.iter().any(is_it) {
                continue;
            }
            let with = many(flows.into(), "flow");
            let rates = Axis::linear("received", Unit::FRAMES_PER_SEC);
            let rates = Bars::new(format!("Frames: {with}"), rates);
            charts.push(self.bars(rates, is_it, |one| Some(one.mfps * 1e6)).into());
            let times = Axis::log10("99 % took at most", Unit::SECONDS);
            let times = Bars::new(format!("On their way at half of that: {with}"), times);
            let time = |one: &Policed| one.latency.map(|latency| latency.p99_us / 1e6);
            charts.push(self.bars(times, is_it, time).into());
        }
        let of = |load: Load| move |one: &Policed| one.load == load;
        for (load, name) in
            [(Load::Connect, "New connections"), (Load::Accept, "Connections opened and closed")]
        {
            if self.results.iter().any(of(load)) {
                let rates = Bars::new(name, Axis::linear("a second", Unit::FRAMES_PER_SEC));
                charts.push(self.bars(rates, of(load), |one| Some(one.mfps * 1e6)).into());
            }
        }
        if self.results.iter().any(of(Load::First)) {
            let times = Axis::log10("half took at most", Unit::SECONDS);
            let times = Bars::new("First packets of flows, on their way", times);
            let time = |one: &Policed| one.latency.map(|latency| latency.p50_us / 1e6);
            charts.push(self.bars(times, of(Load::First), time).into());
        }
        charts
    }

    fn broken(&self) -> Vec<String> {
        let lossless = || self.results.iter().filter(|one| is_lossless(one.switch));
        let lost = lossless().filter(|one| one.lost > 0);
        let lost = lost
            .map(|one| format!("{} lost {} ({}).", one.switch, many(one.lost, "frame"), what(one)));
        let late = lossless().filter(|one| one.out_of_order > 0);
        let late = late.map(|one| {
            let late = many(one.out_of_order, "frame");
            let what = what(one);
            format!("{} delivered {late} after a later one of their flow ({what}).", one.switch)
        });
        let idle = self
            .results
            .iter()
            .filter(|one| one.received == 0 && !(one.sent == 0 && one.remark.is_some()));
        let idle = idle.map(|one| {
            format!(
                "nothing arrived through {} ({}): that is no measurement.",
                one.switch,
                what(one)
            )
        });
        let unbalanced = self.results.iter().filter_map(|one| unbalanced(one.switch, one.balanced));
        let repeated = self.results.iter().filter_map(|one| repeated(one.switch, one.duplicates));
        lost.chain(late).chain(repeated).chain(idle).chain(unbalanced).collect()
    }

    fn environment(&self) -> &Environment {
        &self.environment
    }
}

impl Report {
    /// What the columns mean, for the loads that there are.
    fn legend(&self) -> impl Iterator<Item = &'static str> {
        let has = |load| self.config.loads.contains(&load);
        let (costs, accept) = match self.config.ports {
            Ports::VhostUser => (
                "“Cycles” are ticks of the time stamp counter in which the switch was busy, for each frame that it took; \
                 “to plain” is that over what the same switch took of the same load without logical networks. p50, p99 and \
                 p99.9 are how long frames were on their way: of known flows and of “connect” at half of their rate, of \
                 “first” those of new flows, 20,000 a second.",
                "Of “accept” it is connections of TCP that are counted as frames a second: each is opened and closed again by \
                 six segments without payload, 256 at a time. “Lost”, “of sent” and cycles are of segments; p50, p99 and \
                 p99.9 are how long one took that was the only one.",
            ),
            Ports::Container => (
                "“CPU” is time of all processors for each frame that arrived: switch, sender, receiver and kernel; “to plain” \
                 is that over what the same switch took of the same load without logical networks. “Lost” is also what the \
                 receiver's socket dropped. p50, p99 and p99.9 are how long frames of one known flow were on their way, 5,000 \
                 a second.",
                "Of “accept” it is connections of TCP between sockets that are counted as frames: each is opened, accepted and \
                 closed by both, 8 at a time. “Lost” are those that came to no end; p50, p99 and p99.9 are how long one took \
                 that was the only one.",
            ),
        };
        let connect = "Of “connect” each frame is the first of a UDP flow that is admitted and whose connection is kept: so many \
                       frames are so many connections. Nothing answers, and nothing is closed.";
        let all = [(true, costs), (has(Load::Connect), connect), (has(Load::Accept), accept)];
        all.into_iter().filter_map(|(is_told, words)| is_told.then_some(words))
    }

    /// Cycles, or time, a frame over what the same switch needs for as many flows without logical
    /// networks.
    fn to_plain(&self, one: &Policed) -> Option<f64> {
        let is_plain = |other: &&Policed| {
            (other.switch, other.through, other.load) == (one.switch, Through::Plain, one.load)
                && other.flows == one.flows
        };
        let plain = self.results.iter().find(is_plain)?;
        let cost = |one: &Policed| one.cycles_per_frame.or(one.cpu_ns_per_frame);
        Some(cost(one)? / cost(plain)?)
    }

    /// The same load on what zovn is compared with; none of its own.
    fn peer(&self, one: &Policed) -> Option<&Policed> {
        let key = |one: &Policed| (one.through, one.rules, one.load, one.flows);
        let is_peer = |other: &&Policed| {
            other.switch != SwitchKind::Zovn && key(other) == key(one) && other.mfps > 0.0
        };
        self.results.iter().find(is_peer).filter(|other| other.switch != one.switch)
    }

    /// One value of each switch for each path.
    fn bars(
        &self,
        bars: Bars,
        is_it: impl Fn(&Policed) -> bool,
        value: impl Fn(&Policed) -> Option<f64>,
    ) -> Bars {
        let mut paths: Vec<(Through, u32)> = Vec::new();
        for one in self.results.iter().filter(|one| is_it(one)) {
            if !paths.contains(&(one.through, one.rules)) {
                paths.push((one.through, one.rules));
            }
        }
        let mut bars =
            bars.groups("through", paths.iter().map(|path| name(*path)).collect::<Vec<_>>());
        for &switch in &self.config.switches {
            let values = paths.iter().map(|path| {
                let found = self.results.iter().find(|one| {
                    is_it(one) && one.switch == switch && (one.through, one.rules) == *path
                });
                found.and_then(&value).unwrap_or(f64::NAN)
            });
            bars = bars.series(switch.to_string(), values);
        }
        bars
    }
}

fn name((through, rules): (Through, u32)) -> String {
    if through.has_rules() {
        format!("{through} {}", count(rules.into()))
    } else {
        through.to_string()
    }
}

/// What was carried, in a few words.
fn what(one: &Policed) -> String {
    let path = path(one);
    match one.flows {
        Some(flows) => format!("{path}, {}", many(flows.into(), "flow")),
        None => format!("{path}, {}", one.load),
    }
}

fn path(one: &Policed) -> String {
    match one.through.has_rules() {
        true => format!("{} of {}", one.through, many(one.rules.into(), "rule")),
        false => one.through.to_string(),
    }
}
