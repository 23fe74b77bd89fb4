//! What switches carry, told.

use crate::Environment;
use crate::page::{Axis, Bars, Chart, Lines, Unit, count, percent, si};
use crate::profile::{Entry, Load, Report, Tunnel, Way};

use super::{Readable, Rows, many, unbalanced};

impl Readable for Report {
    fn title(&self) -> String {
        "Profile: what switches carry before they cannot follow".into()
    }

    fn conditions(&self) -> String {
        let config = &self.config;
        format!(
            "{}, {} each, {}; no delay is added. Carried is the most of each round of which at most 5 % were lost: its \
             median, and what half of the rounds lie between.",
            many(config.senders.into(), "sender"),
            config.duration,
            many(config.rounds.into(), "round"),
        )
    }

    fn rows(&self) -> Rows {
        let mut rows = Rows::new([
            "switch",
            "way",
            "tunnel",
            "load",
            "B/frame",
            "frames/s",
            "half between",
            "bit/s",
            "bound by",
            "switch busy",
            "ns/frame",
        ]);
        for one in &self.results {
            let load = match (one.load, one.offload) {
                (Load::Frames, _) => "frames",
                (Load::Stream, false) => "stream",
                (Load::Stream, true) => "stream, offload",
            };
            let brief = |value| Unit::FRAMES_PER_SEC.brief(value);
            rows.row([
                one.switch.to_string(),
                one.way.to_string(),
                one.tunnel.to_string(),
                load.into(),
                count(one.size.into()),
                brief(one.fps.median),
                format!("{} – {}", brief(one.fps.q1), brief(one.fps.q3)),
                si(one.gbps.median * 1e9, Unit::BITS_PER_SEC),
                one.bound_by.to_string(),
                one.busy.switch.map_or("–".into(), percent),
                one.switch_ns_per_frame.map_or("–".into(), |ns| count(ns.round() as u64)),
            ]);
        }
        rows
    }

    fn remarks(&self) -> Vec<String> {
        let more = self.results.iter().filter(|one| one.at_least).count();
        let more = (more > 0).then(|| {
            format!(
                "{} of {} entries are bound by something else than the switch: there it carries so much at least.",
                count(more as u64),
                count(self.results.len() as u64)
            )
        });
        let both = self.config.ways.contains(&Way::Link).then(|| {
            "Both ends of the link are on this machine: its processors do the work of two hosts.".to_owned()
        });
        let told = [
            "Bound by: what could do no more while senders sent what they could. switch: its busiest thread ran all the time, or \
             frames were lost in it; senders, receiver: those ran all the time, or frames were lost at the receiver's socket; \
             processors: the machine had none left; waiting: nobody ran all the time.",
            "A bridge has no threads: its work is done in its senders' time. ns/frame is the time of processors that the switch's \
             threads take over a frame, on both hosts together.",
            "Not measured: switches with more than one core, and more than one far host.",
        ];
        more.into_iter().chain(both).chain(told.map(str::to_owned)).collect()
    }

    fn charts(&self) -> Vec<Chart> {
        let mut charts = Vec::new();
        for (way, tunnel) in self.places() {
            let there =
                || self.results.iter().filter(move |it| (it.way, it.tunnel) == (way, tunnel));
            let place = match (way, tunnel) {
                (Way::Host, _) => "within the host".to_owned(),
                (Way::Link, Tunnel::None) => "over the link".to_owned(),
                (Way::Link, tunnel) => format!("over the link by {tunnel}"),
            };
            charts.extend(by_size(&place, there()));
            let sizes = &self.config.sizes;
            let (least, most) = (sizes.iter().min(), sizes.iter().max());
            for size in least.into_iter().chain(most.filter(|most| Some(*most) != least)) {
                let of = |it: &&Entry| it.load == Load::Frames && it.size == *size;
                charts.extend(curves(&format!("{size} B, {place}"), there().filter(of)));
            }
            charts.extend(streams(&place, there().filter(|it| it.load == Load::Stream)));
        }
        charts
    }

    fn broken(&self) -> Vec<String> {
        let lossless = || self.results.iter().filter(|one| one.is_lossless());
        let lost = lossless().filter(|one| one.lost > 0);
        let lost = lost.map(|one| format!("{} lost {}.", place(one), many(one.lost, "frame")));
        let twice = lossless().filter(|one| one.duplicates > 0);
        let twice = twice.map(|one| {
            format!("{} delivered {} twice.", place(one), many(one.duplicates, "frame"))
        });
        let books = self.results.iter().filter_map(|one| unbalanced(place(one), one.balanced));
        lost.chain(twice).chain(books).collect()
    }

    fn environment(&self) -> &Environment {
        &self.environment
    }
}

impl Report {
    /// The ways and tunnels that there are, in their order.
    fn places(&self) -> Vec<(Way, Tunnel)> {
        let mut places = Vec::new();
        for one in &self.results {
            if !places.contains(&(one.way, one.tunnel)) {
                places.push((one.way, one.tunnel));
            }
        }
        places
    }
}

fn place(one: &Entry) -> String {
    let Entry { switch, way, tunnel, size, .. } = one;
    format!("{switch}, {way}, {tunnel}, {size} B")
}

/// The series of each switch, in their order.
fn by_switch<'a>(entries: impl Iterator<Item = &'a Entry>) -> Vec<(String, Vec<&'a Entry>)> {
    let mut series: Vec<(String, Vec<&Entry>)> = Vec::new();
    for one in entries {
        let name = one.switch.to_string();
        match series.iter_mut().find(|(other, _)| *other == name) {
            Some((_, there)) => there.push(one),
            None => series.push((name, vec![one])),
        }
    }
    series
}

fn by_size<'a>(place: &str, entries: impl Iterator<Item = &'a Entry>) -> Option<Chart> {
    let series = by_switch(entries.filter(|it| it.load == Load::Frames));
    let chart = Lines::new(
        format!("Carried by size of frames, {place}"),
        Axis::log2("size", Unit::BYTES),
        Axis::linear("carried", Unit::FRAMES_PER_SEC),
    );
    let chart = series.iter().fold(chart, |chart, (name, entries)| {
        chart.series(name, entries.iter().map(|it| (f64::from(it.size), it.fps.median)))
    });
    (!series.is_empty()).then(|| chart.into())
}

fn curves<'a>(place: &str, entries: impl Iterator<Item = &'a Entry>) -> Option<Chart> {
    let entries: Vec<_> = entries.collect();
    let chart = Lines::new(
        format!("Carried against sent: {place}"),
        Axis::linear("sent", Unit::FRAMES_PER_SEC),
        Axis::linear("carried", Unit::FRAMES_PER_SEC),
    );
    let chart = entries.iter().fold(chart, |chart, it| {
        let points = it.curve.iter().map(|step| (step.sent_fps, step.carried_fps.median));
        chart.series(it.switch.to_string(), points)
    });
    (!entries.is_empty()).then(|| chart.into())
}

fn streams<'a>(place: &str, entries: impl Iterator<Item = &'a Entry>) -> Option<Chart> {
    let series = by_switch(entries);
    let bars = Bars::new(format!("Streams, {place}"), Axis::linear("carried", Unit::BITS_PER_SEC))
        .groups("segments", ["of the MTU", "large"]);
    let bars = series.iter().fold(bars, |bars, (name, entries)| {
        let of = |offload| {
            let found = entries.iter().find(|it| it.offload == offload);
            found.map_or((f64::NAN, [f64::NAN; 2]), |it| {
                (it.gbps.median * 1e9, [it.gbps.q1 * 1e9, it.gbps.q3 * 1e9])
            })
        };
        bars.ranged(name, [of(false), of(true)])
    });
    (!series.is_empty()).then(|| bars.into())
}

#[cfg(test)]
mod tests {
    use lab::SwitchKind;
    use units::Span;

    use super::*;
    use crate::Measurement;
    use crate::profile::{Bound, Busy, Config, Quartiles, Step};

    fn entry(change: impl Fn(&mut Entry)) -> Entry {
        let quartiles = Quartiles::of([1e5, 2e5, 3e5]).unwrap();
        let curve = [Some(1e5), None].map(|target_fps| Step {
            target_fps,
            sent_fps: target_fps.unwrap_or(3e5),
            carried_fps: quartiles,
            loss_ratio: 0.0,
        });
        let mut entry = Entry {
            switch: SwitchKind::Zovn,
            way: Way::Host,
            tunnel: Tunnel::None,
            load: Load::Frames,
            offload: false,
            size: 64,
            fps: quartiles,
            gbps: Quartiles::of([0.1024]).unwrap(),
            bound_by: Bound::Switch,
            at_least: false,
            busy: Busy { switch: Some(0.98), sender: 0.4, receiver: 0.3, machine: 0.9 },
            switch_ns_per_frame: Some(4900.0),
            curve: curve.into(),
            lost: 0,
            duplicates: 0,
            balanced: Some(true),
        };
        change(&mut entry);
        entry
    }

    fn report(results: Vec<Entry>) -> Report {
        let config = Config {
            switches: vec![SwitchKind::Bridge, SwitchKind::Zovn],
            ways: Way::ALL.into(),
            tunnels: Tunnel::ALL.into(),
            loads: Load::ALL.into(),
            sizes: vec![64, 1514],
            senders: 2,
            duration: Span::from_millis(500),
            rounds: 3,
        };
        Measurement::new("profile", Environment::default(), config, results)
    }

    #[test]
    fn only_a_switch_that_promises_nothing_may_lose() {
        let lossy = |it: &mut Entry| (it.switch, it.lost) = (SwitchKind::Bridge, 7);
        assert_eq!(report(vec![entry(lossy), entry(|_| ())]).broken(), [""; 0]);
        let bare = |it: &mut Entry| (it.way, it.lost) = (Way::Link, 7);
        assert_eq!(report(vec![entry(bare)]).broken(), [""; 0]);
        let lost = report(vec![entry(|it| it.lost = 7), entry(|it| it.balanced = Some(false))]);
        let expected = [
            "zovn, host, none, 64 B lost 7 frames.",
            "the ledger of zovn, host, none, 64 B does not balance.",
        ];
        assert_eq!(lost.broken(), expected);
    }

    #[test]
    fn each_way_has_its_charts_and_each_entry_its_row() {
        let stream = |it: &mut Entry| (it.load, it.curve) = (Load::Stream, Vec::new());
        let report = report(vec![entry(|_| ()), entry(stream)]);
        // By size, one curve, streams.
        assert_eq!(report.charts().len(), 3);
        let text = report.rows().text();
        assert!(
            text.contains("200 k") && text.contains("98 %") && text.contains("4,900"),
            "{text}"
        );
        assert!(!report.remarks()[0].contains("at least"));
    }
}
