//! The paper's measurement of switches, told.

use crate::Environment;
use crate::page::{Axis, Boxes, Chart, Unit, Whiskered, count, si};
use crate::profile::paper::{Carried, Report, Transfer};
use crate::profile::{Tunnel, Way};
use crate::stats::Boxplot;

use super::{Readable, Rows, many, unbalanced};

impl Readable for Report {
    fn title(&self) -> String {
        "The paper's measurement: streams, and downloads of files".into()
    }

    fn conditions(&self) -> String {
        let config = &self.config;
        let sizes: Vec<_> = config.downloads.iter().map(|it| size(it.0)).collect();
        format!(
            "{} for {}, then {} of {}; no delay is added.",
            many(config.streams.into(), "TCP stream"),
            config.duration,
            many(config.rounds.into(), "download"),
            sizes.join(" and of "),
        )
    }

    fn rows(&self) -> Rows {
        let mut rows = Rows::new([
            "switch",
            "way",
            "tunnel",
            "load",
            "median",
            "half between",
            "whiskers",
            "beyond",
            "mean",
            "bound by",
            "sent again",
        ]);
        for one in &self.results {
            let Boxplot { quartiles, low, high, outliers, mean, .. } = &one.gbps;
            rows.row([
                one.switch.to_string(),
                one.way.to_string(),
                one.tunnel.to_string(),
                load(one),
                rate(quartiles.median),
                format!("{} – {}", rate(quartiles.q1), rate(quartiles.q3)),
                format!("{} – {}", rate(*low), rate(*high)),
                count(outliers.len() as u64),
                rate(*mean),
                one.bound_by.to_string(),
                count(one.retransmits),
            ]);
        }
        rows
    }

    fn remarks(&self) -> Vec<String> {
        let told = [
            "Payload in bits a second: of all streams together in each second, or in each twentieth of a shorter time; of a \
             download from before its connection is opened to its end.",
            "Whiskers end at the last value that is at most 1.5 times the distance between the quartiles from them; what lies \
             beyond is drawn by itself. The paper's whiskers end at the smallest and the largest value.",
            "Bound by: what could do no more, in most downloads. waiting: nobody ran all the time; a small file is \
             over while TCP's window still grows.",
        ];
        let both = self.config.ways.contains(&Way::Link).then(|| {
            "Both ends of the link are on this machine: its processors do the work of two hosts.".to_owned()
        });
        both.into_iter().chain(told.map(str::to_owned)).collect()
    }

    fn charts(&self) -> Vec<Chart> {
        let loads = self.distinct(|one| (one.load, one.bytes));
        let places = self.distinct(|one| (one.way, one.tunnel));
        let switches = self.distinct(|one| one.switch);
        let chart = |(load, bytes): &(Transfer, Option<u64>)| {
            let axis = Axis::linear("payload", Unit::BITS_PER_SEC);
            let groups = places.iter().map(|(way, tunnel)| place(*way, *tunnel));
            let chart = Boxes::new(heading(*load, *bytes), axis, "way and tunnel", groups);
            switches.iter().fold(chart, |chart, switch| {
                let at = |&(way, tunnel): &(Way, Tunnel)| {
                    let mut all = self.results.iter();
                    let found = all.find(|one| {
                        (one.switch, one.way, one.tunnel) == (*switch, way, tunnel)
                            && (one.load, one.bytes) == (*load, *bytes)
                    });
                    found.map(|one| whiskered(&one.gbps))
                };
                chart.series(switch.to_string(), places.iter().map(at))
            })
        };
        loads.iter().map(|load| chart(load).into()).collect()
    }

    fn broken(&self) -> Vec<String> {
        let name =
            |one: &Carried| format!("{}, {}, {}, {}", one.switch, one.way, one.tunnel, load(one));
        let lost = self.results.iter().filter(|one| one.is_lossless() && one.lost > 0);
        let lost = lost.map(|one| format!("{} lost {}.", name(one), many(one.lost, "frame")));
        let books = self.results.iter().filter_map(|one| unbalanced(name(one), one.balanced));
        lost.chain(books).collect()
    }

    fn environment(&self) -> &Environment {
        &self.environment
    }
}

impl Report {
    /// What results have of something, each once and in their order.
    fn distinct<T: PartialEq>(&self, of: impl Fn(&Carried) -> T) -> Vec<T> {
        let mut all = Vec::new();
        for one in self.results.iter().map(of) {
            if !all.contains(&one) {
                all.push(one);
            }
        }
        all
    }
}

fn rate(gbps: f64) -> String {
    si(gbps * 1e9, Unit::BITS_PER_SEC)
}

fn size(bytes: u64) -> String {
    si(bytes as f64, Unit::BYTES)
}

fn load(one: &Carried) -> String {
    one.bytes.map_or("streams".into(), size)
}

fn place(way: Way, tunnel: Tunnel) -> String {
    match way {
        Way::Host => "within the host".into(),
        Way::Link => tunnel.to_string(),
    }
}

/// What a chart shows, and which of the paper's figures it stands beside.
fn heading(load: Transfer, bytes: Option<u64>) -> String {
    let bytes = bytes.unwrap_or(0);
    let figure = match (load, bytes) {
        (Transfer::Streams, _) => " (figure 4)",
        (_, 10_000_000) => " (figure 7)",
        (_, 5_000_000_000) => " (figure 8)",
        _ => "",
    };
    match load {
        Transfer::Streams => format!("Streams{figure}"),
        Transfer::Download => format!("Downloads of {}{figure}", size(bytes)),
    }
}

fn whiskered(plot: &Boxplot) -> Whiskered {
    let Boxplot { quartiles, low, high, outliers, .. } = plot;
    let five = [*low, quartiles.q1, quartiles.median, quartiles.q3, *high];
    let outliers = outliers.iter().map(|gbps| gbps * 1e9).collect();
    Whiskered { five: five.map(|gbps| gbps * 1e9), outliers }
}

#[cfg(test)]
mod tests {
    use lab::SwitchKind;
    use units::{Bytes, Span};

    use super::*;
    use crate::Measurement;
    use crate::profile::paper::Config;
    use crate::profile::{Bound, Busy};

    fn carried(tunnel: Tunnel, bytes: Option<u64>) -> Carried {
        let gbps = (1..10).map(f64::from).chain([30.0]);
        Carried {
            switch: SwitchKind::Zovn,
            way: Way::Link,
            tunnel,
            offload: true,
            load: if bytes.is_some() { Transfer::Download } else { Transfer::Streams },
            bytes,
            gbps: Boxplot::of(gbps).unwrap(),
            bound_by: Bound::Waiting,
            at_least: true,
            busy: Busy::default(),
            retransmits: 3,
            lost: 1,
            balanced: Some(true),
        }
    }

    fn report() -> Report {
        let config = Config {
            switches: vec![SwitchKind::Zovn],
            ways: vec![Way::Link],
            tunnels: vec![Tunnel::Geneve, Tunnel::Vxlan],
            offload: true,
            streams: 4,
            duration: Span::from_secs(300),
            downloads: vec![Bytes(10_000_000)],
            rounds: 10,
        };
        let loads = [None, Some(10_000_000)];
        let results = loads.iter().flat_map(|bytes| {
            [Tunnel::Geneve, Tunnel::Vxlan].map(|tunnel| carried(tunnel, *bytes))
        });
        let results = results.collect();
        Measurement::new("paper", Environment::default(), config, results)
    }

    #[test]
    fn each_load_has_its_chart_and_each_result_its_row() {
        let report = report();
        let charts = report.charts();
        let titles: Vec<_> = charts
            .iter()
            .map(|chart| match chart {
                Chart::Boxes(boxes) => boxes.title(),
                _ => panic!("all are boxes"),
            })
            .collect();
        assert_eq!(titles, ["Streams (figure 4)", "Downloads of 10 MB (figure 7)"]);
        let text = report.rows().text();
        assert_eq!(text.matches("3.25 Gbit/s – 7.75 Gbit/s").count(), 4, "{text}");
        assert_eq!(text.matches("1 Gbit/s – 9 Gbit/s").count(), 4, "{text}");
        let page = crate::readable::page("Paper", "", "zovn", &[&report]);
        assert_eq!(page.matches("class=\"median\"").count(), 4);
        assert_eq!(page.matches("class=\"outlier\"").count(), 4);
    }

    #[test]
    fn only_a_tunnel_that_promises_nothing_may_lose() {
        let expected = [
            "zovn, link, geneve, streams lost 1 frame.",
            "zovn, link, geneve, 10 MB lost 1 frame.",
        ];
        assert_eq!(report().broken(), expected);
    }
}
