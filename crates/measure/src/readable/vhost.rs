//! Throughput between virtual machines, told.

use crate::page::{Axis, Bars, Chart, Unit, count, percent, si};
use crate::vhost::{Latency, Report, Throughput};
use crate::{Environment, SwitchKind, is_lossless};

use super::{Readable, Rows, many, repeated, unbalanced, us};

/// What is told of a load of which a part was for a machine that took nothing.
const BESIDE: &str = "beside a stalled receiver";

impl Readable for Report {
    fn title(&self) -> String {
        "Throughput between virtual machines, by vhost-user".into()
    }

    fn conditions(&self) -> String {
        let config = &self.config;
        let slow = config.slow_receiver.map_or(String::new(), |times| {
            format!(" The receiver takes one frame where it could take {times}.")
        });
        let frames = match config.frames {
            0 => String::new(),
            frames => format!(" and {} at least", many(frames, "frame")),
        };
        let disturbed = config.disturb.map_or(String::new(), |share| {
            let share = percent(share);
            format!(" Somebody else wants {share} of the switch's core, at nice 5.")
        });
        format!(
            "One core for the switch, one for all machines; {}{frames} each; medians of {}.{slow}{disturbed}",
            config.duration,
            many(config.rounds.into(), "round"),
        )
    }

    fn rows(&self) -> Rows {
        let mut rows = Rows::new([
            "switch", "frame", "flows", "senders", "frames/s", "worst", "best", "bit/s", "lost",
            "of sent", "cycles", "a turn", "empty", "p50", "p99", "p99.9", "line",
        ]);
        for one in &self.results {
            let fps = |mfps: f64| Unit::FRAMES_PER_SEC.brief(mfps * 1e6);
            let half = at_half(one);
            let time =
                |part: fn(&Latency) -> f64| half.map_or("–".into(), |latency| us(part(latency)));
            rows.row([
                name(one.switch, one.stalled),
                format!("{} B", one.size),
                count(one.flows.into()),
                count(one.senders.into()),
                fps(one.mfps),
                fps(one.mfps_range[0]),
                fps(one.mfps_range[1]),
                si(one.gbps * 1e9, Unit::BITS_PER_SEC),
                count(one.lost),
                percent(one.lost as f64 / one.sent.max(1) as f64),
                whole(one.cycles_per_frame),
                whole(one.frames_per_turn),
                one.empty_turns.map_or("–".into(), percent),
                time(|latency| latency.p50_us),
                time(|latency| latency.p99_us),
                time(|latency| latency.p999_us),
                one.round_trip_ns.map_or("–".into(), |ns| us(ns / 1e3)),
            ]);
        }
        rows
    }

    fn remarks(&self) -> Vec<String> {
        let mut remarks = vec![
            "“Cycles” are ticks of the time stamp counter in which the switch was busy, for each frame that it took. p50, \
             p99 and p99.9 are how long frames were on their way at half of the rate at which the switch lost none."
                .to_owned(),
            "“A turn” is how many frames the switch took in a turn that found some, and “empty” the share of its turns that \
             found none. “Line” is how long a cache line takes from the switch's core to the machines' and back: what is \
             handed from one to the other waits for that."
                .to_owned(),
        ];
        remarks.extend(self.moved().map(|[least, most]| {
            format!(
                "While this was measured the cores were moved: a line's round trip took {} in one round and {} in another. \
                 `--json` has each round by itself.",
                us(least / 1e3),
                us(most / 1e3),
            )
        }));
        if self.config.stalled {
            let told = "Beside a stalled receiver, one in 16 of each sender's buffers is for one more machine, which takes \
                        nothing meanwhile. What is told is of the frames to the other.";
            remarks.push(told.to_owned());
        }
        remarks.extend(self.results.iter().filter_map(|one| {
            let share = percent(one.mfps / self.alone(one)?.mfps);
            Some(format!(
                "{} carried {share} of its rate without that ({}).",
                one.switch,
                what(one)
            ))
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
        for &senders in &self.config.senders {
            for &flows in &self.config.flows {
                let with =
                    format!("{}, {}", many(flows.into(), "flow"), many(senders.into(), "sender"));
                let rates = Axis::linear("received", Unit::FRAMES_PER_SEC);
                let rates = Bars::new(format!("Frames: {with}"), rates);
                let rate = |one: &Throughput| Some(one.mfps * 1e6);
                charts.push(self.bars(rates, senders, flows, rate).into());
                let time = |one: &Throughput| at_half(one).map(|latency| latency.p99_us / 1e6);
                if self.results.iter().any(|one| time(one).is_some()) {
                    let times = Axis::log10("99 % took at most", Unit::SECONDS);
                    let times = Bars::new(format!("On their way at half of that: {with}"), times);
                    charts.push(self.bars(times, senders, flows, time).into());
                }
            }
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
            format!(
                "{} delivered {late} after a later one of their flow ({}).",
                one.switch,
                what(one)
            )
        });
        let idle = self.results.iter().filter(|one| one.received == 0);
        let idle = idle
            .map(|one| format!("nothing arrived through {}: that is no measurement.", one.switch));
        let unbalanced = self.results.iter().filter_map(|one| unbalanced(one.switch, one.balanced));
        let repeated = self.results.iter().filter_map(|one| repeated(one.switch, one.duplicates));
        lost.chain(late).chain(repeated).chain(idle).chain(unbalanced).collect()
    }

    fn environment(&self) -> &Environment {
        &self.environment
    }
}

impl Report {
    /// The same load as this one beside a stalled receiver, without that.
    fn alone(&self, beside: &Throughput) -> Option<&Throughput> {
        if !beside.stalled {
            return None;
        }
        let key = |one: &Throughput| (one.switch, one.size, one.flows, one.senders);
        self.results.iter().find(|one| !one.stalled && key(one) == key(beside) && one.mfps > 0.0)
    }

    /// The shortest round trip of a line and the longest, if they are not nearly the same.
    fn moved(&self) -> Option<[f64; 2]> {
        let rounds = self.results.iter().flat_map(|one| &one.rounds);
        let trips = rounds.filter_map(|round| round.round_trip_ns);
        let least = trips.clone().fold(f64::INFINITY, f64::min);
        let most = trips.fold(0.0, f64::max);
        (most > 1.5 * least).then_some([least, most])
    }

    /// One value of each switch at each size.
    fn bars(
        &self,
        bars: Bars,
        senders: u16,
        flows: u16,
        value: impl Fn(&Throughput) -> Option<f64>,
    ) -> Bars {
        let mut bars = bars.groups(
            "frame",
            self.config.sizes.iter().map(|size| format!("{size} B")).collect::<Vec<_>>(),
        );
        let of = |switch: SwitchKind, stalled: bool, size: u32| {
            let key = (switch, stalled, size, senders, flows);
            let is_it = |one: &&Throughput| {
                (one.switch, one.stalled, one.size, one.senders, one.flows) == key
            };
            self.results.iter().find(is_it).and_then(&value).unwrap_or(f64::NAN)
        };
        for &switch in &self.config.switches {
            for &stalled in self.config.times() {
                let values = self.config.sizes.iter().map(|&size| of(switch, stalled, size));
                bars = bars.series(name(switch, stalled), values);
            }
        }
        bars
    }
}

/// A number without its parts.
fn whole(number: Option<f64>) -> String {
    number.map_or("–".into(), |number| format!("{number:.0}"))
}

/// How long frames took at half of the rate without loss.
fn at_half(one: &Throughput) -> Option<&Latency> {
    one.latency.iter().find(|latency| latency.load == 0.5)
}

/// A row of the table, a series of a chart.
fn name(switch: SwitchKind, stalled: bool) -> String {
    if stalled { format!("{switch} {BESIDE}") } else { switch.to_string() }
}

/// What was carried, in a few words.
fn what(one: &Throughput) -> String {
    let Throughput { size, flows, senders, stalled, .. } = one;
    let (flows, senders) = (many((*flows).into(), "flow"), many((*senders).into(), "sender"));
    let beside = if *stalled { format!(", {BESIDE}") } else { String::new() };
    format!("{size} B, {flows}, {senders}{beside}")
}
