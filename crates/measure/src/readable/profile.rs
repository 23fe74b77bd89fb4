//! What switches carry, told.

use crate::Environment;
use crate::page::{Axis, Bars, Chart, Lines, Unit, count, percent, si};
use crate::profile::{Config, Entry, Load, Report, Tunnel, Underlay, Way};

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
            "far hosts",
            "cores",
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
                if one.way == Way::Host { "–".into() } else { count(one.far.into()) },
                count(one.cores.into()),
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
            "All hosts are on this machine: its processors do the work of all.".to_owned()
        });
        let is_joined = self.results.iter().any(|one| one.underlay == Some(Underlay::Bridge));
        let joined = is_joined.then(|| {
            "Where there are several far hosts, the kernel's bridge joins them, also with one: its work is done in the time              of whoever sends."
                .to_owned()
        });
        let told = [
            "Bound by: what could do no more while senders sent what they could. switch: its busiest thread ran all the time, or \
             frames were lost in it; senders, receiver: those ran all the time, or frames were lost at the receiver's socket; \
             processors: the machine had none left; waiting: nobody ran all the time.",
            "A bridge has no threads: its work is done in its senders' time. ns/frame is the time of processors that the switch's \
             threads take over a frame, on all hosts together.",
            "Cores: the processors that switches, senders and receivers have together. A switch here has one thread on each              host, so what one with more threads carries is not measured.",
        ];
        more.into_iter().chain(both).chain(joined).chain(told.map(str::to_owned)).collect()
    }

    fn charts(&self) -> Vec<Chart> {
        let mut charts = Vec::new();
        for place in self.places() {
            let there = || self.results.iter().filter(move |it| Place::of(it) == place);
            let place = place.words(&self.config);
            charts.extend(by_size(&place, there()));
            for size in self.extremes() {
                let of = |it: &&Entry| it.load == Load::Frames && it.size == size;
                charts.extend(curves(&format!("{size} B, {place}"), there().filter(of)));
            }
            charts.extend(streams(&place, there().filter(|it| it.load == Load::Stream)));
        }
        charts.extend(self.by_number("far hosts", |it| &mut it.far));
        charts.extend(self.by_number("processors", |it| &mut it.cores));
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

/// Where switches are compared.
#[derive(Clone, Copy, PartialEq)]
struct Place {
    way: Way,
    tunnel: Tunnel,
    far: u32,
    cores: u32,
}

impl Place {
    fn of(one: &Entry) -> Self {
        let Entry { way, tunnel, far, cores, .. } = *one;
        Self { way, tunnel, far, cores }
    }

    fn words(self, config: &Config) -> String {
        let mut words = match (self.way, self.tunnel) {
            (Way::Host, _) => "within the host".to_owned(),
            (Way::Link, Tunnel::None) => "over the link".to_owned(),
            (Way::Link, tunnel) => format!("over the link by {tunnel}"),
        };
        if self.far > 1 {
            words += &format!(" to {} hosts", self.far);
        }
        if config.cores.len() > 1 && self.cores > 0 {
            words += &format!(", on {}", many(self.cores.into(), "processor"));
        }
        words
    }
}

impl Report {
    /// The places that there are, in their order.
    fn places(&self) -> Vec<Place> {
        let mut places = Vec::new();
        for place in self.results.iter().map(Place::of) {
            if !places.contains(&place) {
                places.push(place);
            }
        }
        places
    }

    /// The smallest and the largest size of frames.
    fn extremes(&self) -> Vec<u32> {
        let sizes = &self.config.sizes;
        let mut extremes: Vec<u32> =
            sizes.iter().min().into_iter().chain(sizes.iter().max()).copied().collect();
        extremes.dedup();
        extremes
    }

    /// What frames of these sizes are carried by a number that places have, all else being alike;
    /// nothing where there is one number alone.
    fn by_number(&self, label: &str, number: fn(&mut Place) -> &mut u32) -> Vec<Chart> {
        // A place's number, and the place without it.
        let apart = |one: &Entry| {
            let mut place = Place::of(one);
            let number = std::mem::take(number(&mut place));
            (number, place)
        };
        let mut charts = Vec::new();
        let mut seen = Vec::new();
        for (first, place) in self.results.iter().map(apart) {
            let there = || self.results.iter().filter(move |it| apart(it).1 == place);
            if seen.contains(&place) || there().all(|it| apart(it).0 == first) {
                continue;
            }
            seen.push(place);
            for size in self.extremes() {
                let of = |it: &&Entry| it.load == Load::Frames && it.size == size;
                let chart = Lines::new(
                    format!("Carried by {label}: {size} B, {}", place.words(&self.config)),
                    Axis::linear(label, Unit::NONE),
                    Axis::linear("carried", Unit::FRAMES_PER_SEC),
                );
                let series = by_switch(there().filter(of));
                let chart = series.iter().fold(chart, |chart, (name, entries)| {
                    let point = |it: &&Entry| (f64::from(apart(it).0), it.fps.median);
                    chart.series(name, entries.iter().map(point))
                });
                charts.extend((!series.is_empty()).then(|| chart.into()));
            }
        }
        charts
    }
}

fn place(one: &Entry) -> String {
    let Entry { switch, way, tunnel, size, .. } = one;
    let far = if one.far > 1 { format!(", {} far hosts", one.far) } else { String::new() };
    format!("{switch}, {way}, {tunnel}{far}, {size} B")
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
    use crate::profile::{Bound, Busy, Quartiles, Step};

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
            far: 0,
            underlay: None,
            cores: 2,
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
            tunnels: Tunnel::USUAL.into(),
            far: vec![1],
            cores: vec![1, 2],
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
        let far = |it: &mut Entry| {
            (it.way, it.tunnel, it.far, it.lost) = (Way::Link, Tunnel::Geneve, 4, 1)
        };
        let told = report(vec![entry(far)]).broken();
        assert_eq!(told, ["zovn, link, geneve, 4 far hosts, 64 B lost 1 frame."]);
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

    #[test]
    fn each_number_of_processors_and_of_hosts_has_its_charts() {
        let one = |it: &mut Entry| it.cores = 1;
        let far = |it: &mut Entry| (it.way, it.tunnel, it.far) = (Way::Link, Tunnel::Geneve, 4);
        let report = report(vec![entry(|_| ()), entry(one), entry(far)]);
        let places: Vec<_> =
            report.places().into_iter().map(|place| place.words(&report.config)).collect();
        let expected = [
            "within the host, on 2 processors",
            "within the host, on 1 processor",
            "over the link by geneve to 4 hosts, on 2 processors",
        ];
        assert_eq!(places, expected);
        // By size, and a curve; and one by processors.
        assert_eq!(report.charts().len(), 3 * 2 + 1);
    }
}
