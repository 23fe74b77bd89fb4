//! What policy costs, told.

use crate::page::{Axis, Bars, Chart, Unit, count, percent};
use crate::policy::{Load, Policed, Report, Through};
use crate::{Environment, SwitchKind, is_lossless};

use super::{Readable, Rows, many, repeated, unbalanced, us};

impl Readable for Report {
    fn title(&self) -> String {
        "What policy costs between virtual machines".into()
    }

    fn conditions(&self) -> String {
        let config = &self.config;
        let connects = if config.loads.iter().any(|load| is_of_connections(*load)) {
            format!(", {} begun", many(config.connections.into(), "connection"))
        } else {
            String::new()
        };
        format!(
            "One core for the switch, one for both machines; frames of {} B, {} each{connects}; medians of {}.",
            config.size,
            config.duration,
            many(config.rounds.into(), "round"),
        )
    }

    fn rows(&self) -> Rows {
        let mut rows = Rows::new([
            "switch", "through", "rules", "load", "flows", "frames/s", "worst", "best", "lost",
            "of sent", "cycles", "to plain", "p50", "p99", "p99.9",
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
                one.cycles_per_frame.map_or("–".into(), |cycles| format!("{cycles:.0}")),
                self.to_plain(one).map_or("–".into(), |ratio| format!("{ratio:.2}")),
                time(|latency| latency.p50_us),
                time(|latency| latency.p99_us),
                time(|latency| latency.p999_us),
            ]);
        }
        rows
    }

    fn remarks(&self) -> Vec<String> {
        let mut remarks = vec![
            "“Cycles” are ticks of the time stamp counter in which the switch was busy, for each frame that it took; “to \
             plain” is that over what the same switch took without logical networks, with as many flows. p50, p99 and \
             p99.9 are how long frames were on their way: of known flows at half of their rate, of “first” those of new \
             flows, 20,000 a second."
                .to_owned(),
        ];
        if self.config.loads.contains(&Load::Connect) {
            let told = "Of “connect” each frame is the first of a UDP flow that a rule admits and whose connection is kept: \
                        so many frames are so many connections. Nothing answers, and nothing is closed.";
            remarks.push(told.to_owned());
        }
        if self.config.loads.contains(&Load::Accept) {
            let told = "Of “accept” it is connections of TCP that are counted as frames a second: each is opened and closed \
                        again by six segments without payload, 256 at a time. “Lost”, “of sent” and cycles are of segments.";
            remarks.push(told.to_owned());
        }
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
        let bound = self.results.iter().filter(|one| one.generator_busy > 0.9);
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
        let idle = self.results.iter().filter(|one| one.received == 0);
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
    /// Cycles a frame over what the same switch needs for as many flows without logical networks.
    fn to_plain(&self, one: &Policed) -> Option<f64> {
        let is_plain = |other: &&Policed| {
            (other.switch, other.through, other.load) == (one.switch, Through::Plain, one.load)
                && other.flows == one.flows
        };
        let plain = self.results.iter().find(is_plain)?;
        Some(one.cycles_per_frame? / plain.cycles_per_frame?)
    }

    /// The same load on Open vSwitch; none of its own.
    fn peer(&self, one: &Policed) -> Option<&Policed> {
        let key = |one: &Policed| (one.through, one.rules, one.load, one.flows);
        let is_peer = |other: &&Policed| {
            other.switch == SwitchKind::OvsDpdk && key(other) == key(one) && other.mfps > 0.0
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

fn is_of_connections(load: Load) -> bool {
    matches!(load, Load::Connect | Load::Accept)
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
    let path = match one.through.has_rules() {
        true => format!("{} of {}", one.through, many(one.rules.into(), "rule")),
        false => one.through.to_string(),
    };
    match one.flows {
        Some(flows) => format!("{path}, {}", many(flows.into(), "flow")),
        None => format!("{path}, {}", one.load),
    }
}
