//! Partition-Aggregate, told.

use crate::pa::{Completion, Era, Report};
use crate::page::{Axis, Bars, Cdf, Chart, Lines, Unit, count, si};
use crate::{Environment, SwitchKind, is_lossless};

use super::{Readable, Rows, many, unbalanced, us};

impl Readable for Report {
    fn title(&self) -> String {
        let config = &self.config;
        let asking = if config.aggregators == 1 {
            String::new()
        } else {
            format!(" of {} aggregators", config.aggregators)
        };
        format!(
            "Partition-Aggregate: {} answer each query{asking} at once",
            many(config.workers.into(), "worker")
        )
    }

    fn conditions(&self) -> String {
        let config = &self.config;
        let rate = config.rate.map_or("ports as fast as they go".into(), |rate| format!("{rate} ports"));
        let buffer = config
            .buffer
            .map_or("the switch's own buffers".into(), |frames| format!("{frames}-frame buffers"));
        let offload = if self.config.offload { "large segments whole" } else { "every frame of the MTU" };
        let think = if config.think == units::Span::ZERO { "none".into() } else { config.think.to_string() };
        let background = config.background.as_ref().map_or(String::new(), |flows| {
            format!("; beside them {} flows, {} apart at each endpoint", flows.name, flows.gap)
        });
        format!(
            "{rate} with {buffer}, {offload}, {} each, think time {think}, {}{background}.",
            if config.queries == 1 { "1 query".into() } else { format!("{} queries", count(config.queries)) },
            many(config.rounds.into(), "round"),
        )
    }

    fn rows(&self) -> Rows {
        let mut rows = Rows::new([
            "switch", "TCP", "segments", "mean", "p50", "p99", "p99.9", "ideal", "resent", "timeouts",
            "lost", "gain", "p99 gain",
        ]);
        for one in self.in_order() {
            let gain = |gain: Option<f64>| gain.map_or("–".into(), |gain| si(gain, Unit::TIMES));
            rows.row([
                one.switch.to_string(),
                format!("{}, {}", one.tcp, one.era),
                count(one.response_segments),
                us(one.fct_us.mean),
                us(one.fct_us.p50),
                us(one.fct_us.p99),
                us(one.fct_us.p999),
                one.ideal_us.map_or("–".into(), us),
                count(one.retransmits),
                one.timeouts.map_or("–".into(), count),
                count(one.lost),
                gain(one.gain_over.map(|gain| gain.mean)),
                gain(one.gain_over.map(|gain| gain.p99)),
            ]);
        }
        rows
    }

    fn remarks(&self) -> Vec<String> {
        let mut remarks = Vec::new();
        if self.config.eras == [Era::Today] {
            remarks.push(
                "TCP as this kernel does it today, with tail loss probes and RACK; the paper's could do less: see \
                 --tcp-era both."
                    .to_owned(),
            );
        }
        if self.config.eras.contains(&Era::Paper) {
            remarks.push(
                "Era 2013 switches tail loss probes, RACK and selective acknowledgement off in the endpoints and begins \
                 with 3 segments: TCP as the paper had it."
                    .to_owned(),
            );
        }
        remarks.push(format!(
            "A segment is 1448 B. The ideal is all frames of all responses over the port's rate. Gains compare with {}.",
            self.config.baseline
        ));
        remarks
    }

    fn charts(&self) -> Vec<Chart> {
        let seconds = |label: &str| Axis::log10(label, Unit::SECONDS);
        let x = || Axis::log2("response of each worker, segments", Unit::NONE);
        let mut means = Lines::new("Mean completion time", x(), seconds("mean"));
        let mut tails = Lines::new("99th percentile", x(), seconds("p99"));
        for name in self.names() {
            let line = |y: fn(&Completion) -> f64| {
                let mine = self.results.iter().filter(|one| self.name(one) == name);
                mine.map(|one| (one.response_segments as f64, y(one) / 1e6)).collect::<Vec<_>>()
            };
            means = means.series(name.as_str(), line(|one| one.fct_us.mean));
            tails = tails.series(name.as_str(), line(|one| one.fct_us.p99));
        }
        let ideal =
            self.results.iter().filter_map(|one| Some((one.response_segments as f64, one.ideal_us? / 1e6)));
        let mut ideal: Vec<(f64, f64)> = ideal.collect();
        ideal.sort_by(|a, b| a.0.total_cmp(&b.0));
        ideal.dedup();
        if !ideal.is_empty() {
            means = means.series("ideal", ideal);
        }
        let mut charts: Vec<Chart> = vec![means.into(), tails.into()];
        charts.extend(self.gains());
        charts.extend(self.distribution());
        charts
    }

    fn broken(&self) -> Vec<String> {
        let mut broken = Vec::new();
        for one in &self.results {
            let what =
                format!("{} with {} segments ({}, {})", one.switch, one.response_segments, one.tcp, one.era);
            if is_lossless(one.switch) && one.lost > 0 {
                broken.push(format!("{what} lost {}.", many(one.lost, "frame")));
            }
            broken.extend(unbalanced(one.switch, one.balanced));
            let asked = self.config.queries * u64::from(self.config.aggregators);
            if one.queries != asked {
                broken.push(format!("{what} completed {} of {asked} queries.", one.queries));
            }
        }
        broken
    }

    fn environment(&self) -> &Environment {
        &self.environment
    }
}

impl Report {
    /// The results, with those that are to be compared side by side.
    fn in_order(&self) -> Vec<&Completion> {
        let mut results: Vec<_> = self.results.iter().collect();
        results.sort_by_key(|one| (one.era, one.tcp.as_str(), one.response_segments));
        results
    }

    /// What a result's line is called: its switch, and what else tells it from others.
    fn name(&self, one: &Completion) -> String {
        let mut name = one.switch.to_string();
        if self.config.tcp.len() > 1 {
            name += &format!(" · {}", one.tcp);
        }
        if self.config.eras.len() > 1 {
            name += &format!(" · {}", one.era);
        }
        name
    }

    fn names(&self) -> Vec<String> {
        let mut names: Vec<String> = Vec::new();
        for one in &self.results {
            let name = self.name(one);
            if !names.contains(&name) {
                names.push(name);
            }
        }
        names
    }

    fn gains(&self) -> Option<Chart> {
        let sizes: Vec<String> = self.config.sizes.iter().map(u64::to_string).collect();
        let title = format!("Gain over {}: its mean over ours", self.config.baseline);
        let mut bars = Bars::new(title, Axis::log10("gain", Unit::TIMES)).groups("segments", sizes);
        let compared = self.results.iter().any(|one| one.gain_over.is_some());
        for name in self.names() {
            let of = |size: &u64| {
                let mine =
                    self.results.iter().find(|one| self.name(one) == name && one.response_segments == *size);
                mine.and_then(|one| one.gain_over).map_or(f64::NAN, |gain| gain.mean)
            };
            let gains: Vec<f64> = self.config.sizes.iter().map(of).collect();
            if gains.iter().any(|gain| gain.is_finite()) {
                bars = bars.series(name, gains);
            }
        }
        compared.then(|| bars.into())
    }

    /// How completion times are distributed where the switches differ most.
    fn distribution(&self) -> Option<Chart> {
        let best = self.best(SwitchKind::Zovn).or_else(|| self.results.first())?;
        let same = |one: &&Completion| {
            (&one.tcp, one.era, one.response_segments) == (&best.tcp, best.era, best.response_segments)
        };
        let title =
            format!("Completion times, {} segments, {}, {}", best.response_segments, best.tcp, best.era);
        let cdf = Cdf::new(title, Axis::log10("completion time", Unit::SECONDS));
        let cdf = self.results.iter().filter(same).fold(cdf, |cdf, one| {
            cdf.steps(
                one.switch.to_string(),
                (0..).zip(&one.percentiles_us).map(|(p, us)| (us / 1e6, f64::from(p) / 100.0)),
            )
        });
        Some(cdf.into())
    }

    /// Where `switch` gains most over the baseline, by the mean.
    pub fn best(&self, switch: SwitchKind) -> Option<&Completion> {
        let gain = |one: &&Completion| one.gain_over.map(|gain| gain.mean);
        let compared = self.results.iter().filter(|one| one.switch == switch && gain(one).is_some());
        compared.max_by(|a, b| gain(a).partial_cmp(&gain(b)).unwrap_or(std::cmp::Ordering::Equal))
    }
}
