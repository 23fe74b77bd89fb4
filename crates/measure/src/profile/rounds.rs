//! One load's rounds: what is sent, and what is told of them together.

use lab::{Counters, Lab};

use super::cases::{Case, What};
use super::processors::{Bound, Busy, Processors};
use super::report::{CONGESTION, Config, Entry, Step};
use crate::flood::{Flood, Sum, sender};
use crate::losses::{Losses, both_hold, settled};
use crate::points::SeenAt;
use crate::stats::{Quartiles, median};
use crate::streams::Streams;
use crate::{Bench, MeasureError};

/// More of what was sent than this may not be lost: else the switch does not follow.
const TOLERATED: f64 = 0.05;

/// What senders aim at, of what was carried at first.
const SHARES: [f64; 6] = [0.5, 0.8, 0.9, 1.0, 1.1, 1.25];

/// How often the interval is halved that the first estimate is searched in.
const HALVINGS: u32 = 5;

/// Where runs are made.
pub struct Runs<'a> {
    pub bench: &'a Bench<'a>,
    pub lab: &'a Lab,
    /// The endpoints that receive.
    pub receivers: &'a [&'a str],
    pub config: &'a Config,
}

/// All rounds of a load on one way through a switch.
pub struct Rounds {
    pub what: What,
    /// What was carried at first, in frames a second, by which senders aim: the same in all rounds.
    estimate: Option<f64>,
    rounds: Vec<Round>,
}

/// What one round found.
struct Round {
    /// Its steps; the last is the one at which senders sent what they could.
    steps: Vec<Run>,
    /// The place of the step of which most was carried, and at most so much lost as is tolerated.
    best: usize,
    bound: Bound,
    busy: Busy,
}

/// One run.
#[derive(Clone, Copy, Debug, Default)]
struct Run {
    target_fps: Option<f64>,
    sent_fps: f64,
    carried_fps: f64,
    carried_bps: f64,
    sent: u64,
    lost: u64,
    duplicates: u64,
    seen: SeenAt,
    busy: Busy,
    processors: Processors,
    balanced: Option<bool>,
}

impl Rounds {
    pub fn new(what: What) -> Self {
        Self { what, estimate: None, rounds: Vec::new() }
    }

    /// Makes one more round.
    pub fn add(&mut self, runs: &Runs<'_>) -> Result<(), MeasureError> {
        let round = match self.what {
            What::Stream { .. } => vec![runs.stream()?],
            What::Frames(size) => {
                let estimate = match self.estimate {
                    Some(estimate) => estimate,
                    None => *self.estimate.insert(runs.estimate(size)?),
                };
                let targets = SHARES.into_iter().map(|share| Some(share * estimate));
                let targets = targets.chain([None]);
                targets.map(|target| runs.frames(size, target)).collect::<Result<_, _>>()?
            }
        };
        self.rounds.push(Round::of(round));
        Ok(())
    }

    /// What they found together; none if nothing arrived.
    pub fn told(&self, case: &Case) -> Option<Entry> {
        let Case { switch, way, tunnel, far, underlay, cores } = *case;
        let best = || self.rounds.iter().map(|round| &round.steps[round.best]);
        let of = |figure: fn(&Run) -> f64| Quartiles::of(best().map(figure));
        let fps = of(|run| run.carried_fps).filter(|it| it.max > 0.0)?;
        let size = match self.what {
            What::Frames(size) => size,
            What::Stream { .. } => {
                of(|run| run.carried_bps / 8.0 / run.carried_fps)?.median.round() as u32
            }
        };
        let busy = Busy::middle(self.rounds.iter().map(|round| round.busy));
        let bound_by = most(self.rounds.iter().map(|round| round.bound))?;
        let steps = || self.rounds.iter().flat_map(|round| &round.steps);
        Some(Entry {
            switch,
            way,
            tunnel,
            far,
            underlay,
            cores,
            load: self.what.load(),
            offload: self.what.offload(),
            size,
            fps,
            gbps: of(|run| run.carried_bps / 1e9)?,
            bound_by,
            at_least: bound_by != Bound::Switch,
            busy,
            switch_ns_per_frame: busy
                .switch
                .and_then(|_| median(best().map(|run| run.processors.all * 1e9 / run.carried_fps))),
            curve: if self.estimate.is_some() { self.curve() } else { Vec::new() },
            lost: steps().map(|run| run.lost).sum(),
            duplicates: steps().map(|run| run.duplicates).sum(),
            balanced: steps().fold(None, |all, run| both_hold(all, run.balanced)),
        })
    }

    fn curve(&self) -> Vec<Step> {
        let step = |place: usize| {
            let runs = || self.rounds.iter().map(move |round| &round.steps[place]);
            Some(Step {
                target_fps: runs().next()?.target_fps,
                sent_fps: median(runs().map(|run| run.sent_fps))?,
                carried_fps: Quartiles::of(runs().map(|run| run.carried_fps))?,
                loss_ratio: median(runs().map(Run::loss_ratio))?,
            })
        };
        (0..=SHARES.len()).filter_map(step).collect()
    }
}

/// The one that there is most of; of as many, the first in their order.
pub fn most(bounds: impl Iterator<Item = Bound> + Clone) -> Option<Bound> {
    let count = |bound: &Bound| bounds.clone().filter(|it| it == bound).count();
    let mut all: Vec<Bound> = bounds.clone().collect();
    all.sort();
    all.into_iter().rev().max_by_key(count)
}

impl Round {
    fn of(steps: Vec<Run>) -> Self {
        let all = steps.last().copied().unwrap_or_default();
        let followed = |place: &usize| steps[*place].loss_ratio() <= TOLERATED;
        let by_carried = |one: &usize, other: &usize| {
            steps[*one].carried_fps.total_cmp(&steps[*other].carried_fps)
        };
        let places = 0..steps.len();
        // If it follows none, it is the least of them that says most of it.
        let best = places.filter(followed).max_by(by_carried).unwrap_or(0);
        let lost = all.seen.lost_at();
        let lost = (all.loss_ratio() > TOLERATED).then_some(&lost);
        let bound = Bound::of(&all.busy, all.processors.wanted, lost);
        Self { best, bound, busy: all.busy, steps }
    }
}

impl Run {
    fn loss_ratio(&self) -> f64 {
        self.lost as f64 / self.sent.max(1) as f64
    }
}

impl Runs<'_> {
    /// About what is carried of frames of this size, in frames a second: all that senders can send,
    /// or else the most of which little is lost, searched by halving.
    fn estimate(&self, size: u32) -> Result<f64, MeasureError> {
        let all = self.frames(size, None)?;
        if all.loss_ratio() <= TOLERATED {
            return Ok(all.carried_fps);
        }
        let (mut low, mut high) = (0.0, all.sent_fps);
        for _ in 0..HALVINGS {
            let middle = (low + high) / 2.0;
            let run = self.frames(size, Some(middle))?;
            if run.loss_ratio() <= TOLERATED {
                low = middle;
            } else {
                high = middle;
            }
        }
        Ok(if low > 0.0 { low } else { high })
    }

    /// Sends UDP frames, together so many a second, or as many as senders can.
    fn frames(&self, size: u32, target_fps: Option<f64>) -> Result<Run, MeasureError> {
        let Self { bench, lab, receivers, config } = *self;
        let rate = target_fps.map(|all| all / f64::from(config.senders));
        let flood = Flood { duration: config.duration, size, rate, pace: None };
        let watch = || Processors::watch(bench, lab, config.duration);
        let (flooded, processors) = flood.run_to(bench, lab, receivers, config.senders, watch)?;
        let (sent, received) = (&flooded.sent, &flooded.received);
        let mut sum = Sum::default();
        sum.add(sent, received);
        let carried_fps = sum.rx_fps().unwrap_or(0.0);
        let all: u64 = sent.iter().map(|it| it.sent).sum();
        let busy: f64 = sent.iter().map(|it| share(it.busy_ns, it.elapsed_ns)).sum();
        Ok(Run {
            target_fps,
            sent_fps: sum.sent_fps(),
            carried_fps,
            carried_bps: carried_fps * f64::from(size) * 8.0,
            sent: all,
            lost: all.saturating_sub(received.received),
            duplicates: received.duplicates,
            seen: flooded.seen,
            busy: Busy {
                switch: processors.busiest,
                sender: busy / sent.len().max(1) as f64,
                receiver: share(received.busy_ns, received.elapsed_ns),
                machine: processors.machine,
            },
            processors,
            balanced: flooded.losses.balanced,
        })
    }

    /// Has TCP streams send what they can.
    fn stream(&self) -> Result<Run, MeasureError> {
        let Self { bench, lab, receivers, config } = *self;
        let names: Vec<_> = (1..=config.senders).map(sender).collect();
        let streams = Streams {
            senders: &names,
            receivers,
            congestion: CONGESTION,
            duration: config.duration,
            part: None,
        };
        let before = settled(lab)?;
        let watch = || Processors::watch(bench, lab, config.duration);
        let (streamed, processors) = streams.run_while(bench, lab, watch)?;
        let after = settled(lab)?;
        let came = |counters: &Counters| {
            let devices = names.iter().filter_map(|name| Some(counters.ports.get(name)?.device));
            devices.fold((0, 0), |sum: (u64, u64), it| (sum.0 + it.rx_packets, sum.1 + it.rx_bytes))
        };
        let (before_frames, before_bytes) = came(&before);
        let (frames, bytes) = came(&after);
        let a_second = |count: u64| {
            if streamed.received.elapsed_ns == 0 {
                return 0.0;
            }
            count as f64 * 1e9 / streamed.received.elapsed_ns as f64
        };
        let carried_fps = a_second(frames.saturating_sub(before_frames));
        let senders = &streamed.senders_busy_ns;
        let elapsed_ns = config.duration.as_nanos();
        let busy: f64 = senders.iter().map(|busy_ns| share(*busy_ns, elapsed_ns)).sum();
        let losses = Losses::between(&before, &after);
        Ok(Run {
            sent_fps: carried_fps,
            carried_fps,
            carried_bps: 8.0 * a_second(bytes.saturating_sub(before_bytes)),
            sent: frames.saturating_sub(before_frames),
            lost: losses.lost,
            busy: Busy {
                switch: processors.busiest,
                sender: busy / senders.len().max(1) as f64,
                receiver: share(streamed.received.busy_ns, streamed.received.elapsed_ns),
                machine: processors.machine,
            },
            processors,
            balanced: losses.balanced,
            ..Run::default()
        })
    }
}

/// The share of a time that something had.
pub fn share(of_ns: u64, all_ns: u64) -> f64 {
    of_ns as f64 / all_ns.max(1) as f64
}

#[cfg(test)]
mod tests {
    use lab::SwitchKind;

    use super::super::cases::{Tunnel, Way};
    use super::*;

    fn run(carried_fps: f64, lost: u64) -> Run {
        Run {
            sent: 100,
            sent_fps: carried_fps,
            carried_fps,
            carried_bps: 800.0,
            lost,
            ..Run::default()
        }
    }

    #[test]
    fn what_is_lost_is_not_carried() {
        let round = Round::of(vec![run(50.0, 0), run(90.0, 5), run(95.0, 6), run(20.0, 80)]);
        assert_eq!(round.best, 1);
        // Frames were lost in the switch, as far as points tell.
        assert_eq!(round.bound, Bound::Switch);
        assert_eq!(Round::of(vec![run(50.0, 50), run(90.0, 60)]).best, 0);
    }

    #[test]
    fn a_switch_that_holds_senders_back_carries_what_they_can_send() {
        let round = Round::of(vec![run(50.0, 0), run(90.0, 0), run(97.0, 0)]);
        assert_eq!((round.best, round.bound), (2, Bound::Waiting));
    }

    #[test]
    fn rounds_are_told_by_their_quartiles() {
        let mut rounds = Rounds::new(What::Stream { offload: true });
        let (switch, way, tunnel) = (SwitchKind::Zovn, Way::Host, Tunnel::None);
        let case = Case { switch, way, tunnel, far: 0, underlay: None, cores: 2 };
        assert_eq!(rounds.told(&case), None);
        for carried in [1.0, 2.0, 4.0] {
            rounds.rounds.push(Round::of(vec![run(carried, 1)]));
        }
        let entry = rounds.told(&case).unwrap();
        assert_eq!((entry.fps.q1, entry.fps.median, entry.fps.q3), (1.5, 2.0, 3.0));
        // 100 bytes a second are 50 a frame of two.
        assert_eq!((entry.size, entry.lost, entry.at_least), (50, 3, true));
        assert_eq!(entry.curve, []);
    }

    #[test]
    fn the_bound_of_most_rounds_is_told() {
        use Bound::{Receiver, Senders, Switch};
        assert_eq!(most([Senders, Switch, Senders].into_iter()), Some(Senders));
        assert_eq!(most([Receiver, Senders].into_iter()), Some(Senders));
        assert_eq!(most([].into_iter()), None);
    }
}
