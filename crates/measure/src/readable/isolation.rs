//! What bursts of one virtual network do to another, told.

use model::ClassKind;
use units::Span;

use crate::isolation::{BUSY, Exceeded, Isolation, Meeting, Moment, Peer, Report, Set};
use crate::page::{Axis, Bars, Cdf, Chart, Lines, Unit, percent, si};
use crate::{Environment, SwitchKind};

use super::{Readable, Rows, many, unbalanced, us};

/// The bits of a frame.
const FRAME_BITS: f64 = 8.0 * 1514.0;

impl Readable for Report {
    fn title(&self) -> String {
        "Isolation: bursts of one network beside another".into()
    }

    fn conditions(&self) -> String {
        let config = &self.config;
        let lasts: Vec<_> = config.bursts_last.iter().map(ToString::to_string).collect();
        let at: Vec<_> = config.at.iter().map(|at| format!("the {at}")).collect();
        format!(
            "Both networks meet at {} of {}; at a port there is room for {} of each. The first sends {} all the time; the \
             second in {} of {}, {} apart. {}.",
            at.join(", "),
            si(config.rate.bits_per_sec() as f64, Unit::BITS_PER_SEC),
            many(config.buffer.into(), "frame"),
            bits(Set::BETA1 * config.rate.bits_per_sec() as f64),
            many(config.bursts.into(), "burst"),
            lasts.join(", "),
            config.gap,
            many(config.rounds.into(), "round"),
        )
    }

    fn rows(&self) -> Rows {
        let mut rows = Rows::new([
            "at",
            "switch",
            "set",
            "burst",
            "p1",
            "in bursts",
            "pa1",
            "ti loss",
            "bucket",
            "ti rate",
            "ti delay",
            "β1 came",
            "β2 came",
            "of c",
            "p2",
            "alone p99",
            "alone p99.9",
            "in bursts p50",
            "in bursts p99",
            "in bursts p99.9",
        ]);
        for one in &self.results {
            let ms = |ms: f64| us(ms * 1e3);
            rows.row([
                one.at.to_string(),
                name(one.peer, one.promise),
                one.set.to_string(),
                one.burst.to_string(),
                percent(one.p1),
                percent(one.p1_in_bursts),
                format!("{:.0}", one.pa1_mean()),
                ms(one.ti.loss_ms),
                ms(one.bucket_ms),
                ms(one.ti.rate_ms),
                ms(one.ti.delay_ms),
                bits(one.received[0]),
                bits(one.received[1]),
                percent(one.utilization),
                percent(one.p2),
                us(one.alone.p99),
                us(one.alone.p999),
                us(one.in_bursts.p50),
                us(one.in_bursts.p99),
                us(one.in_bursts.p999),
            ]);
        }
        rows
    }

    fn remarks(&self) -> Vec<String> {
        let bursts: usize = self.results.iter().map(|one| one.pa1.len()).min().unwrap_or(0);
        vec![
            "p1 is the share of the first network's frames that were lost, pa1 how many of them in each burst. `ti` is how \
             long isolation was breached in a burst, in parts of 10 ms: in which a frame was lost; in which less than 0.98 of \
             what was due came; in which a frame took five frames' time on the wire longer than the median before the \
             first burst."
                .into(),
            "`bucket` is how long a token bucket as deep as one second of the second network's rate lets its burst pass: \
             β_l2/(β2 − β_l2), which is what `bridge-bucket` has to show."
                .into(),
            format!(
                "Where none of {} cost a frame, fewer than {} of all do, at 95 %.",
                many(bursts as u64, "burst"),
                percent((3.0 / bursts.max(1) as f64).min(1.0))
            ),
            "Open vSwitch's userspace datapath shapes nothing by itself: `ovs-meter` drops, `ovs-htb` is HTB at its port's interface."
                .into(),
        ]
    }

    fn charts(&self) -> Vec<Chart> {
        let mut charts = Vec::new();
        for at in &self.config.at {
            charts.extend(self.courses(*at));
            for burst in &self.config.bursts_last {
                charts.push(self.lost_by_set(*at, *burst));
                charts.push(self.breached_by_set(*at, *burst));
            }
            charts.push(self.lost_in_bursts(*at));
            charts.extend(self.exceeded(*at));
        }
        charts
    }

    fn broken(&self) -> Vec<String> {
        let mut broken = Vec::new();
        for one in &self.results {
            let Isolation { at, peer, promise, set, burst, .. } = one;
            let peer = name(*peer, *promise);
            let case = format!("{peer} at the {at} with {set} and bursts of {burst}");
            if one.generator_busy > BUSY {
                broken.push(format!(
                    "a program took {} of a processor beside {case}: the switch is not what was measured.",
                    percent(one.generator_busy)
                ));
            }
            if one.received[0] == 0.0 || one.received[1] == 0.0 {
                broken.push(format!("nothing arrived through {case}: that is no measurement."));
            }
            if one.peer.switch() == SwitchKind::Zovn && (one.p1 > 0.0 || one.p2 > 0.0) {
                broken.push(format!("{case} lost frames."));
            }
            if one.peer.switch() == SwitchKind::Zovn && one.duplicates > 0 {
                broken.push(format!("{case} delivered {} twice.", many(one.duplicates, "frame")));
            }
            broken.extend(unbalanced(&peer, one.balanced));
        }
        broken
    }

    fn environment(&self) -> &Environment {
        &self.environment
    }
}

impl Report {
    /// Figure 3: one run of each switch, with the first set and the first length of burst.
    fn courses(&self, at: Meeting) -> Vec<Chart> {
        let Some(first) = self.results.iter().find(|one| one.at == at) else { return Vec::new() };
        let mine = |one: &&Isolation| (one.at, one.set, one.burst) == (at, first.set, first.burst);
        let of = |what: &str| format!("{what}: {at}, {}, bursts of {}", first.set, first.burst);
        let time = || Axis::linear("time", Unit::SECONDS);
        let came = || Axis::linear("came", Unit::BITS_PER_SEC);
        let course = |what: &str, axis: Axis, of_moment: fn(&Moment) -> f64| -> Chart {
            let lines = Lines::new(of(what), time(), axis);
            self.results
                .iter()
                .filter(mine)
                .fold(lines, |lines, one| {
                    let points = one.course.iter().map(|moment| (moment.at_s, of_moment(moment)));
                    lines.series(name(one.peer, one.promise), points)
                })
                .into()
        };
        vec![
            course("First network (β1)", came(), |moment| moment.first_fps * FRAME_BITS),
            course("Second network (β2)", came(), |moment| moment.second_fps * FRAME_BITS),
            course(
                "First network's frames lost (p1)",
                Axis::linear("lost", Unit::SHARE),
                |moment| moment.p1,
            ),
            course(
                "First network's delay",
                Axis::log10("longest delay", Unit::SECONDS),
                |moment| moment.delay_us / 1e6,
            ),
        ]
    }

    /// Figure 4: how many frames a burst costs the first network.
    fn lost_by_set(&self, at: Meeting, burst: Span) -> Chart {
        let axis = Axis::log10("lost in a burst", Unit::FRAMES);
        let bars = self.by_set(format!("Lost in a burst of {burst} (pa1): {at}"), axis);
        self.each_peer(at, burst, bars, Isolation::pa1_mean)
    }

    /// Figure 5: how long isolation is breached, beside what a bucket of a second explains.
    fn breached_by_set(&self, at: Meeting, burst: Span) -> Chart {
        let axis = Axis::linear("breached in a burst", Unit::SECONDS);
        let bars = self.by_set(format!("Breached in a burst of {burst} (ti, by loss): {at}"), axis);
        let bucket = self.config.sets.iter().map(|set| set.bucket_lasts(burst));
        let bars = bars.series("a bucket of one second", bucket);
        self.each_peer(at, burst, bars, |one| one.ti.loss_ms / 1e3)
    }

    fn by_set(&self, title: String, axis: Axis) -> Bars {
        Bars::new(title, axis).groups("set", self.config.sets.iter().map(ToString::to_string))
    }

    /// A series for each switch that was there.
    fn each_peer(
        &self,
        at: Meeting,
        burst: Span,
        bars: Bars,
        value: impl Fn(&Isolation) -> f64,
    ) -> Chart {
        self.series(at)
            .into_iter()
            .fold(bars, |bars, (peer, promise)| {
                let of_set = |set: &Set| {
                    let mut all = self.results.iter().filter(|one| one.is(at, peer, promise));
                    let found = all.find(|one| (one.set, one.burst) == (*set, burst));
                    found.map_or(f64::NAN, &value)
                };
                bars.series(name(peer, promise), self.config.sets.iter().map(of_set))
            })
            .into()
    }

    /// Figure 6: how losses in bursts are distributed.
    fn lost_in_bursts(&self, at: Meeting) -> Chart {
        let axis = Axis::log10("lost in a burst", Unit::FRAMES);
        let chart = Cdf::new(format!("Lost in a burst, all sets: {at}"), axis);
        self.series(at)
            .into_iter()
            .fold(chart, |chart, (peer, promise)| {
                let mine = self.results.iter().filter(|one| one.is(at, peer, promise));
                let mut lost: Vec<u64> = mine.flat_map(|one| one.pa1.iter().copied()).collect();
                lost.sort_unstable();
                let share = |place: usize| (place + 1) as f64 / lost.len() as f64;
                let steps =
                    lost.iter().enumerate().map(|(place, lost)| (*lost as f64, share(place)));
                chart.steps(name(peer, promise), steps)
            })
            .into()
    }

    /// How many of the first network's frames took longer than so long, alone and in bursts, of the
    /// first set and the first length of burst.
    fn exceeded(&self, at: Meeting) -> Vec<Chart> {
        let Some(first) = self.results.iter().find(|one| one.at == at) else { return Vec::new() };
        let mine = |one: &&Isolation| (one.at, one.set, one.burst) == (at, first.set, first.burst);
        let chart = |when: &str, of: fn(&Exceeded) -> &Vec<(f64, f64)>| -> Chart {
            let title = format!("First network's delay {when}: {at}, {}", first.set);
            let took = Axis::log10("frames' times on the link (L/C)", Unit::NONE);
            let lines = Lines::new(title, took, Axis::log10("share that took longer", Unit::NONE));
            let series = |lines: Lines, one: &Isolation| {
                lines.series(name(one.peer, one.promise), of(&one.exceeded).iter().copied())
            };
            self.results.iter().filter(mine).fold(lines, series).into()
        };
        vec![chart("alone", |of| &of.alone), chart("in bursts", |of| &of.in_bursts)]
    }

    /// The switches that were there, each with what the fabric promised.
    fn series(&self, at: Meeting) -> Vec<(Peer, Option<ClassKind>)> {
        let mut all = Vec::new();
        for one in self.results.iter().filter(|one| one.at == at) {
            if !all.contains(&(one.peer, one.promise)) {
                all.push((one.peer, one.promise));
            }
        }
        all
    }
}

/// A switch, and the fabric if it is not the one that suits the switch.
pub fn name(peer: Peer, promise: Option<ClassKind>) -> String {
    match (promise, peer.switch()) {
        (Some(ClassKind::Lossy), SwitchKind::Zovn) => format!("{peer}, lossy fabric"),
        (Some(ClassKind::Lossless), SwitchKind::ZovnLossy) => format!("{peer}, lossless fabric"),
        _ => peer.to_string(),
    }
}

impl Isolation {
    fn is(&self, at: Meeting, peer: Peer, promise: Option<ClassKind>) -> bool {
        (self.at, self.peer, self.promise) == (at, peer, promise)
    }

    /// How many frames of the first network a burst costs, in the mean.
    fn pa1_mean(&self) -> f64 {
        self.pa1.iter().sum::<u64>() as f64 / self.pa1.len().max(1) as f64
    }
}

fn bits(bits: f64) -> String {
    si(bits, Unit::BITS_PER_SEC)
}
