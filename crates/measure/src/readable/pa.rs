//! Partition-Aggregate, told.

use crate::pa::{Completion, Era, Report};
use crate::page::{Axis, Bars, Cdf, Chart, Lines, Unit, count, si};
use crate::{Environment, SwitchKind};

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
        let rate =
            config.rate.map_or("ports as fast as they go".into(), |rate| format!("{rate} ports"));
        let buffer = config
            .buffer
            .map_or("the switch's own buffers".into(), |frames| format!("{frames}-frame buffers"));
        let offload =
            if self.config.offload { "large segments whole" } else { "every frame of the MTU" };
        let think = if config.think == units::Span::ZERO {
            "none".into()
        } else {
            config.think.to_string()
        };
        let background = config.background.as_ref().map_or(String::new(), |flows| {
            format!("; beside them {} flows, {} apart at each endpoint", flows.name, flows.gap)
        });
        let between = config
            .testbed
            .as_ref()
            .and_then(|testbed| Some((&testbed.lab.name, testbed.lab.hosts.as_ref()?)));
        let hosts = between.map_or(String::new(), |(name, hosts)| {
            let (physical, hosts) = (&hosts.physical, many(hosts.count.into(), "host"));
            let (rate, buffer) = (physical.rate, physical.buffer.bytes);
            format!(
                "{name}: {hosts} with {rate} links to a switch that buffers {buffer} of each; machines have "
            )
        });
        format!(
            "{hosts}{rate} with {buffer}, {offload}, {} each, think time {think}, {}{background}.",
            if config.queries == 1 {
                "1 query".into()
            } else {
                format!("{} queries", count(config.queries))
            },
            many(config.rounds.into(), "round"),
        )
    }

    fn rows(&self) -> Rows {
        let what = if self.config.testbed.is_some() { "flow control" } else { "switch" };
        let mut rows = Rows::new([
            what, "TCP", "segments", "mean", "p50", "p99", "p99.9", "ideal", "resent", "timeouts",
            "lost", "gain", "p99 gain",
        ]);
        for one in self.in_order() {
            let gain = |gain: Option<f64>| gain.map_or("–".into(), |gain| si(gain, Unit::TIMES));
            rows.row([
                one.subject.to_string(),
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
            self.config.baseline()
        ));
        let dropped = |one: &Completion| {
            one.dropped_between_hosts.filter(|frames| *frames > 0 && one.subject.is_lossless())
        };
        let repaired: u64 = self.results.iter().filter_map(dropped).sum();
        if repaired > 0 {
            remarks.push(format!(
                "The switch between hosts dropped {} that hosts sent again, with the flow controls that promise to lose nothing: \
                 they are not lost.",
                many(repaired, "frame")
            ));
        }
        remarks
    }

    fn charts(&self) -> Vec<Chart> {
        let mut charts: Vec<Chart> = Vec::new();
        for panel in self.panels() {
            charts.extend(panel.lines());
            charts.extend(panel.gains(self));
        }
        charts.extend(self.distribution());
        charts
    }

    fn broken(&self) -> Vec<String> {
        let mut broken = Vec::new();
        for one in &self.results {
            let what = format!(
                "{} with {} segments ({}, {})",
                one.subject, one.response_segments, one.tcp, one.era
            );
            if one.subject.is_lossless() && one.lost > 0 {
                broken.push(format!("{what} lost {}.", many(one.lost, "frame")));
            }
            broken.extend(unbalanced(one.subject, one.balanced));
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

    /// What charts show together: all results or, on a testbed, those of one congestion control in
    /// one era.
    fn panels(&self) -> Vec<Panel<'_>> {
        let config = &self.config;
        if config.testbed.is_none() {
            let mut panel = Panel::default();
            for one in &self.results {
                let mut name = one.subject.to_string();
                if config.tcp.len() > 1 {
                    name += &format!(" · {}", one.tcp);
                }
                if config.eras.len() > 1 {
                    name += &format!(" · {}", one.era);
                }
                panel.add(name, one);
            }
            return vec![panel];
        }
        let conditions =
            config.eras.iter().flat_map(|era| config.tcp.iter().map(move |tcp| (era, tcp)));
        let panel = |(era, tcp): (&Era, &String)| {
            let mut panel = Panel { of: format!(", {tcp}, {era}"), ..Panel::default() };
            for one in self.results.iter().filter(|one| (one.era, &one.tcp) == (*era, tcp)) {
                panel.add(one.subject.to_string(), one);
            }
            panel
        };
        conditions.map(panel).collect()
    }

    /// How completion times are distributed where the switches differ most.
    fn distribution(&self) -> Option<Chart> {
        let best =
            self.gaining_most(|one| one.subject.is_lossless()).or_else(|| self.results.first())?;
        let same = |one: &&Completion| {
            (&one.tcp, one.era, one.response_segments)
                == (&best.tcp, best.era, best.response_segments)
        };
        let title = format!(
            "Completion times, {} segments, {}, {}",
            best.response_segments, best.tcp, best.era
        );
        let cdf = Cdf::new(title, Axis::log10("completion time", Unit::SECONDS));
        let cdf = self.results.iter().filter(same).fold(cdf, |cdf, one| {
            cdf.steps(
                one.subject.to_string(),
                (0..).zip(&one.percentiles_us).map(|(p, us)| (us / 1e6, f64::from(p) / 100.0)),
            )
        });
        Some(cdf.into())
    }

    /// Where `switch` gains most over the baseline, by the mean.
    pub fn best(&self, switch: SwitchKind) -> Option<&Completion> {
        self.gaining_most(|one| one.subject.switch == switch)
    }

    fn gaining_most(&self, which: impl Fn(&Completion) -> bool) -> Option<&Completion> {
        let gain = |one: &&Completion| one.gain_over.map(|gain| gain.mean);
        let compared = self.results.iter().filter(|one| which(one) && gain(one).is_some());
        compared.max_by(|a, b| gain(a).partial_cmp(&gain(b)).unwrap_or(std::cmp::Ordering::Equal))
    }
}

/// Results that one set of charts shows.
#[derive(Default)]
struct Panel<'a> {
    /// What they have in common, behind the charts' titles.
    of: String,
    /// Each with its results, in order of appearance.
    lines: Vec<(String, Vec<&'a Completion>)>,
}

impl<'a> Panel<'a> {
    fn add(&mut self, name: String, one: &'a Completion) {
        match self.lines.iter_mut().find(|(other, _)| *other == name) {
            Some((_, results)) => results.push(one),
            None => self.lines.push((name, vec![one])),
        }
    }

    /// Means and tails over the size of responses.
    fn lines(&self) -> [Chart; 2] {
        let seconds = |label: &str| Axis::log10(label, Unit::SECONDS);
        let x = || Axis::log2("response of each worker, segments", Unit::NONE);
        let titled = |title: &str| format!("{title}{}", self.of);
        let mut means = Lines::new(titled("Mean completion time"), x(), seconds("mean"));
        let mut tails = Lines::new(titled("99th percentile"), x(), seconds("p99"));
        for (name, results) in &self.lines {
            let line = |y: fn(&Completion) -> f64| {
                results.iter().map(move |one| (one.response_segments as f64, y(one) / 1e6))
            };
            means = means.series(name.as_str(), line(|one| one.fct_us.mean));
            tails = tails.series(name.as_str(), line(|one| one.fct_us.p99));
        }
        let all = self.lines.iter().flat_map(|(_, results)| results);
        let ideal = all.filter_map(|one| Some((one.response_segments as f64, one.ideal_us? / 1e6)));
        let mut ideal: Vec<(f64, f64)> = ideal.collect();
        ideal.sort_by(|a, b| a.0.total_cmp(&b.0));
        ideal.dedup();
        if !ideal.is_empty() {
            means = means.series("ideal", ideal);
        }
        [means.into(), tails.into()]
    }

    fn gains(&self, report: &Report) -> Option<Chart> {
        let sizes = &report.config.sizes;
        let title =
            format!("Gain over {}: its mean over ours{}", report.config.baseline(), self.of);
        let mut bars = Bars::new(title, Axis::log10("gain", Unit::TIMES))
            .groups("segments", sizes.iter().map(u64::to_string).collect::<Vec<_>>());
        let mut compared = false;
        for (name, results) in &self.lines {
            let of = |size: &u64| {
                let mine = results.iter().find(|one| one.response_segments == *size);
                mine.and_then(|one| one.gain_over).map_or(f64::NAN, |gain| gain.mean)
            };
            let gains: Vec<f64> = sizes.iter().map(of).collect();
            if gains.iter().any(|gain| gain.is_finite()) {
                compared = true;
                bars = bars.series(name.as_str(), gains);
            }
        }
        compared.then(|| bars.into())
    }
}
