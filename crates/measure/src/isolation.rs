//! Experiment 5 (Gusat et al., *Virtual network isolation*, figures 3 to 6 and table II): what a
//! burst of one virtual network does to another that keeps to its rate.
//!
//! ```text
//!   first  ── β₁ all the time ────────────▶ ┐
//!                                           ├─ the switch ── port of rate c ──▶ receiver
//!   second ── β₂ in bursts of t_b ────────▶ ┘
//! ```
//!
//! Each frame is due at a known moment and tells when it was sent, so that what is lost and how
//! long the rest took is known frame by frame, before, in and behind every burst.

mod peer;
mod set;
mod tally;

use std::time::Duration;

use lab::LabSpec;
use serde::{Deserialize, Serialize};
use traffic::{Samples, TimesUs};
use units::{Rate, Span};

pub use self::peer::Peer;
use self::peer::{FIRST, FRAME, RECEIVER, SECOND};
pub use self::set::Set;
pub use self::tally::{Moment, Spell};
use self::tally::{Run, tally};
use crate::endpoint::{
    Order, Role, SMALLEST_TIMED_FRAME, TimedReceive, TimedReceived, TimedSend, TimedSent, Timetable,
};
use crate::fleet::{Program, finish_all, start_all};
use crate::losses::{Losses, both_hold, settled};
use crate::site::{address, quiet_endpoint, raise};
use crate::{Bench, Environment, MeasureError, Measurement};

const PORT: u16 = 5001;

/// How long a program may take to report after its time.
const PATIENCE: Duration = Duration::from_secs(60);

/// A processor of which a program takes more than this may be what limits it.
pub(crate) const BUSY: f64 = 0.7;

/// How the experiment is made.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Config {
    /// The switches to compare.
    pub peers: Vec<Peer>,
    /// The parameter sets.
    pub sets: Vec<Set>,
    /// c: the rate of the port where both networks meet, in bits of L2 frame.
    pub rate: Rate,
    /// How many frames of each network wait at that port, at most.
    pub buffer: u32,
    /// t_b: how long a burst of the second network lasts; several are compared.
    pub bursts_last: Vec<Span>,
    /// t_Δ: how long it is silent behind each.
    pub gap: Span,
    /// n_b: how many bursts a run has.
    pub bursts: u32,
    /// t_0: how long the first network is alone at first.
    pub lead: Span,
    /// How often each switch has its turn.
    pub rounds: u32,
}

/// What one switch did with one set and one length of burst, over all rounds.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Isolation {
    /// The switch.
    pub peer: Peer,
    /// The parameter set.
    pub set: Set,
    /// How long each burst lasted.
    pub burst: Span,
    /// Frames that the first network sent.
    pub sent: u64,
    /// p₁: the share of the first network's frames that were lost.
    pub p1: f64,
    /// The same, of those that were due in bursts.
    pub p1_in_bursts: f64,
    /// p_a1: how many frames of the first network were lost in each burst.
    pub pa1: Vec<u64>,
    /// How long the second network breached the first one's isolation, in the mean of all bursts.
    pub ti: Ti,
    /// How long a bucket of one second of β_l2 would let it, in milliseconds.
    pub bucket_ms: f64,
    /// β₁ʳ and β₂ʳ: what came of both networks in bursts, in bits a second.
    pub received: [f64; 2],
    /// The share of the second network's frames that were sent in bursts and lost.
    pub p2: f64,
    /// How long the first network's frames took when it was alone.
    pub alone: TimesUs,
    /// How long they took in bursts.
    pub in_bursts: TimesUs,
    /// The largest share of a processor that a program took.
    pub generator_busy: f64,
    /// How many parts of 10 ms do not count, as a sender did not run when it should have.
    pub marked: u64,
    /// Frames that came again.
    pub duplicates: u64,
    /// Whether the switch's own account held; none where it keeps none.
    pub balanced: Option<bool>,
    /// The first round, in parts of 100 ms.
    pub course: Vec<Moment>,
}

/// How long isolation was breached in a burst, in milliseconds, by three measures. Parts of 10 ms
/// count, by the time at which frames were due.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Ti {
    /// Parts in which a frame of the first network was lost: the paper's.
    pub loss_ms: f64,
    /// Parts in which less than 0.98 β₁ came.
    pub rate_ms: f64,
    /// Parts in which a frame took five frames' time on the wire longer than the median before the
    /// first burst.
    pub delay_ms: f64,
}

/// The whole experiment.
pub type Report = Measurement<Config, Isolation>;

/// Makes the experiment.
///
/// # Errors
///
/// [`MeasureError`]
pub fn run(bench: &Bench<'_>, config: Config) -> Result<Report, MeasureError> {
    check(&config)?;
    let environment = Environment::look();
    let mut cases: Vec<(Peer, Set, Span, Found)> = Vec::new();
    for set in &config.sets {
        for burst in &config.bursts_last {
            cases.extend(config.peers.iter().map(|peer| (*peer, *set, *burst, Found::default())));
        }
    }
    bench.progress.begin(cases.len() * config.rounds as usize);
    for _ in 0..config.rounds {
        for (peer, set, burst, found) in &mut cases {
            bench.step(&format!("{peer}: {set}, bursts of {burst}"))?;
            found.add(one_run(bench, &config, *peer, *set, *burst)?);
        }
    }
    let results = cases
        .into_iter()
        .map(|(peer, set, burst, found)| found.conclude(peer, set, burst))
        .collect();
    Ok(Measurement::new("isolation", environment, config, results))
}

fn check(config: &Config) -> Result<(), MeasureError> {
    let is_empty = config.peers.is_empty() || config.sets.is_empty();
    let never = config.bursts == 0 || config.rounds == 0 || config.buffer == 0;
    let shortest = config.bursts_last.iter().copied().min().unwrap_or(Span::ZERO);
    let least = Span::from_millis(100);
    if is_empty || never || shortest < least || config.gap < least || config.lead < least {
        let what = "isolation needs a switch, a set, a round, a place in the queue, a burst, and 100 ms at least for \
                    --tb, --gap and --lead";
        return Err(MeasureError::Config(what.into()));
    }
    let frames = Set::BETA1 * config.rate.bits_per_sec() as f64 / f64::from(8 * FRAME);
    if !(100.0..=200_000.0).contains(&frames) {
        let what = format!(
            "{frames:.0} frames a second are not what we can time: choose --rate 2mbit to 3gbit"
        );
        return Err(MeasureError::Config(what));
    }
    Ok(())
}

/// What all rounds of a case found.
#[derive(Default)]
struct Found {
    spells: Vec<Spell>,
    alone: Samples,
    in_bursts: Samples,
    sent: u64,
    lost: u64,
    busy: f64,
    marked: u64,
    duplicates: u64,
    balanced: Option<bool>,
    course: Vec<Moment>,
}

/// What one run gave.
struct Made {
    run: Run,
    busy: f64,
    duplicates: u64,
    losses: Losses,
}

fn one_run(
    bench: &Bench<'_>,
    config: &Config,
    peer: Peer,
    set: Set,
    burst: Span,
) -> Result<Made, MeasureError> {
    let mut spec = LabSpec::new(format!("measure-{}", std::process::id()), peer.switch());
    spec.offload = false;
    for (number, name) in (1..).zip([RECEIVER, FIRST, SECOND]) {
        spec.endpoints.push(quiet_endpoint(name.into(), number)?);
    }
    spec.endpoints[0].rate = Some(config.rate);
    spec.endpoints[0].buffer = Some(config.buffer);
    let lab = raise(bench, &spec)?;
    peer.isolate(&lab, set, config.rate, config.buffer)?;

    let timetables = timetables(config, set, burst);
    let role = Role::TimedReceive(TimedReceive { port: PORT, senders: 2 });
    let mut receiver = [Program::start(bench, &lab, RECEIVER, &role)?];
    let to = address(&lab, RECEIVER, PORT)?;
    let mut senders = Vec::new();
    for ((sender, name), timetable) in (0..).zip([FIRST, SECOND]).zip(timetables) {
        let role = Role::TimedSend(TimedSend { to, sender, size: FRAME, timetable });
        senders.push(Program::start(bench, &lab, name, &role)?);
    }
    for program in &mut senders {
        program.ready(bench)?;
    }
    let before = settled(&lab)?;
    start_all(bench, &mut receiver)?;
    senders.iter_mut().try_for_each(|program| program.tell(Order::Start))?;
    let lasts = Duration::from(length(config, burst));
    let mut sent = Vec::new();
    for program in &mut senders {
        sent.push(program.report::<TimedSent>(bench, lasts + PATIENCE)?);
    }
    finish_all(&mut receiver)?;
    let [mut receiver] = receiver;
    let received: TimedReceived = receiver.report(bench, PATIENCE)?;
    let losses = Losses::between(&before, &settled(&lab)?);
    let busy = sent.iter().map(|sent| sent.busy).fold(received.busy, f64::max);
    let duplicates = received.duplicates;
    let wire = config.rate.time_for(FRAME.into());
    let run = tally(&timetables, &sent, &received, wire);
    lab.down()?;
    Ok(Made { run, busy, duplicates, losses })
}

/// When both networks send: the first all the time, the second in bursts.
fn timetables(config: &Config, set: Set, burst: Span) -> [Timetable; 2] {
    let frames = |share| share * config.rate.bits_per_sec() as f64 / f64::from(8 * FRAME);
    let whole = length(config, burst);
    let always = Timetable {
        rate: frames(Set::BETA1),
        lead: Span::ZERO,
        bursts: 1,
        burst: whole,
        gap: Span::ZERO,
    };
    let Config { lead, bursts, gap, .. } = *config;
    [always, Timetable { rate: frames(set.beta2()), lead, bursts, burst, gap }]
}

/// How long a run lasts.
fn length(config: &Config, burst: Span) -> Span {
    (0..config.bursts).fold(config.lead, |sum, _| sum + burst + config.gap)
}

impl Found {
    fn add(&mut self, made: Made) {
        let Made { run, busy, duplicates, losses } = made;
        self.spells.extend(run.spells);
        self.alone.extend(run.alone_ns);
        self.in_bursts.extend(run.in_bursts_ns);
        self.sent += run.sent;
        self.lost += run.lost;
        self.marked += run.marked;
        self.busy = self.busy.max(busy);
        self.duplicates += duplicates;
        self.balanced = both_hold(self.balanced, losses.balanced);
        if self.course.is_empty() {
            self.course = run.course;
        }
    }

    fn conclude(mut self, peer: Peer, set: Set, burst: Span) -> Isolation {
        let sum = |of: fn(&Spell) -> u64| self.spells.iter().map(of).sum::<u64>();
        let mean = |of: fn(&Spell) -> u64| sum(of) as f64 / self.spells.len().max(1) as f64;
        let seconds = burst.as_secs_f64() * self.spells.len().max(1) as f64;
        let bits = |frames: u64| frames as f64 * f64::from(8 * FRAME) / seconds;
        let share = |lost: u64, sent: u64| lost as f64 / sent.max(1) as f64;
        let (sent1, lost1) = (sum(|spell| spell.sent[0]), sum(|spell| spell.lost[0]));
        let (sent2, lost2) = (sum(|spell| spell.sent[1]), sum(|spell| spell.lost[1]));
        Isolation {
            peer,
            set,
            burst,
            sent: self.sent,
            p1: share(self.lost, self.sent),
            p1_in_bursts: share(lost1, sent1),
            pa1: self.spells.iter().map(|spell| spell.lost[0]).collect(),
            ti: Ti {
                loss_ms: mean(|spell| spell.loss_ms),
                rate_ms: mean(|spell| spell.rate_ms),
                delay_ms: mean(|spell| spell.delay_ms),
            },
            bucket_ms: set.bucket_lasts(burst) * 1e3,
            received: [bits(sent1 - lost1), bits(sent2 - lost2)],
            p2: share(lost2, sent2),
            alone: self.alone.times_us(),
            in_bursts: self.in_bursts.times_us(),
            generator_busy: self.busy,
            marked: self.marked,
            duplicates: self.duplicates,
            balanced: self.balanced,
            course: self.course,
        }
    }
}

const _: () = assert!(FRAME >= SMALLEST_TIMED_FRAME);
