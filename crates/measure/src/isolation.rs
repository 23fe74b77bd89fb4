//! Experiment 5 (Gusat et al., *Virtual network isolation*, figures 3 to 6 and table II): what a
//! burst of one virtual network does to another that keeps to its rate.
//!
//! ```text
//!   first  ── β₁ all the time ────────────▶ ┐
//!                                           ├─ where they meet ── rate c ──▶ receiver
//!   second ── β₂ in bursts of t_b ────────▶ ┘
//! ```
//!
//! Each frame is due at a known moment and tells when it was sent, so that what is lost and how
//! long the rest took is known frame by frame, before, in and behind every burst.

pub mod adversary;
pub mod machines;
mod meeting;
mod peer;
mod set;
mod spent;
mod tally;

use std::fmt;
use std::time::Duration;

use model::ClassKind;
use serde::{Deserialize, Serialize};
use traffic::{Samples, TimesUs};
use units::{Rate, Span};

pub use self::meeting::Meeting;
use self::meeting::promises;
pub use self::peer::Peer;
use self::peer::{FIRST, FRAME, SECOND};
pub use self::set::Set;
pub use self::spent::Spent;
pub use self::tally::{Moment, Spell};
use self::tally::{Run, tally};
use crate::endpoint::{
    Order, Role, SMALLEST_TIMED_FRAME, TimedReceive, TimedReceived, TimedSend, TimedSent, Timetable,
};
use crate::fleet::{Program, finish_all, start_all};
use crate::losses::{Losses, both_hold, settled};
use crate::site::{address, raise};
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
    /// Where both networks meet.
    pub at: Vec<Meeting>,
    /// What the fabric between hosts promises; what suits each switch if empty.
    pub promises: Vec<ClassKind>,
    /// c: the rate of the link where both networks meet, in bits of the frames that are sent.
    pub rate: Rate,
    /// How many frames of each network wait at a port, at most.
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
    /// Where both networks met.
    pub at: Meeting,
    /// What the fabric between hosts promised, where there is one.
    pub promise: Option<ClassKind>,
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
    /// β₁ʳ and β₂ʳ: what came of both networks while bursts lasted, in bits a second.
    pub received: [f64; 2],
    /// Both together, of c.
    pub utilization: f64,
    /// The share of the second network's frames that were sent in bursts and lost.
    pub p2: f64,
    /// How long the first network's frames took when it was alone.
    pub alone: TimesUs,
    /// How long they took in bursts.
    pub in_bursts: TimesUs,
    /// How many of them took longer than so long, alone and in bursts.
    pub exceeded: Exceeded,
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

/// Complementary distributions of the first network's delays: pairs of a delay, in a frame's times
/// on the link (L/C), and the share of its frames that took longer.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Exceeded {
    /// When it was alone.
    pub alone: Vec<(f64, f64)>,
    /// In bursts.
    pub in_bursts: Vec<(f64, f64)>,
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
    let mut cases: Vec<(Case, Found)> =
        cases(&config).map(|case| (case, Found::default())).collect();
    bench.rounds(config.rounds, &mut cases, |case, found| {
        found.add(one_run(bench, &config, *case)?);
        Ok(())
    })?;
    let results =
        cases.into_iter().map(|(case, found)| found.conclude(case, config.rate)).collect();
    Ok(Measurement::new("isolation", environment, config, results))
}

/// What is compared.
#[derive(Clone, Copy, Debug)]
struct Case {
    at: Meeting,
    promise: Option<ClassKind>,
    set: Set,
    burst: Span,
    peer: Peer,
}

impl fmt::Display for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { at, set, burst, peer, .. } = self;
        write!(f, "{peer}, {at}: {set}, bursts of {burst}")
    }
}

/// All cases; switches take turns.
fn cases(config: &Config) -> impl Iterator<Item = Case> {
    let Config { at, sets, bursts_last, peers, promises: asked, .. } = config;
    at.iter().flat_map(move |at| {
        let peers = peers.iter().filter(|peer| at.has(**peer));
        let peers = peers.flat_map(move |peer| {
            promises(*at, *peer, asked).into_iter().map(move |promise| (*peer, promise))
        });
        sets.iter().flat_map(move |set| {
            let peers = peers.clone();
            bursts_last.iter().flat_map(move |burst| {
                let case =
                    |(peer, promise)| Case { at: *at, promise, set: *set, burst: *burst, peer };
                peers.clone().map(case)
            })
        })
    })
}

fn check(config: &Config) -> Result<(), MeasureError> {
    let is_empty = config.peers.is_empty() || config.sets.is_empty() || config.at.is_empty();
    let never = config.bursts == 0 || config.rounds == 0 || config.buffer == 0;
    let shortest = config.bursts_last.iter().copied().min().unwrap_or(Span::ZERO);
    let least = Span::from_millis(100);
    if is_empty || never || shortest < least || config.gap < least || config.lead < least {
        let what = "isolation needs a switch, a set, a round, a place in the queue, a burst, and 100 ms at least for \
                    --tb, --gap and --lead";
        return Err(MeasureError::Config(what.into()));
    }
    for at in &config.at {
        let joins =
            |peer: &Peer| at.has(*peer) && !promises(*at, *peer, &config.promises).is_empty();
        if !config.peers.iter().any(joins) {
            let all = Peer::ALL.into_iter().filter(joins).map(|peer| peer.to_string());
            let what = format!(
                "none of these switches joins two networks at `{at}`: add one of {}",
                all.collect::<Vec<_>>().join(", ")
            );
            return Err(MeasureError::Config(what));
        }
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
    Case { at, promise, set, burst, peer }: Case,
) -> Result<Made, MeasureError> {
    let lab = raise(bench, &at.lab(peer, set, config.rate, config.buffer, promise)?)?;
    if at == Meeting::Port {
        peer.isolate(&lab, set, config.rate, config.buffer)?;
    }

    let timetables = timetables(config, set, burst);
    let role = Role::TimedReceive(TimedReceive { port: PORT, senders: 2 });
    let names = at.receivers();
    let mut receivers = Vec::new();
    for name in names {
        receivers.push(Program::start(bench, &lab, name, &role)?);
    }
    let mut senders = Vec::new();
    let to = names.iter().cycle();
    for (((sender, name), timetable), to) in (0..).zip([FIRST, SECOND]).zip(timetables).zip(to) {
        let to = address(&lab, to, PORT)?;
        let role = Role::TimedSend(TimedSend { to, sender, size: FRAME, timetable });
        senders.push(Program::start(bench, &lab, name, &role)?);
    }
    for program in &mut senders {
        program.ready(bench)?;
    }
    let before = settled(&lab)?;
    start_all(bench, &mut receivers)?;
    senders.iter_mut().try_for_each(|program| program.tell(Order::Start))?;
    let lasts = Duration::from(length(config, burst));
    let mut sent = Vec::new();
    for program in &mut senders {
        sent.push(program.report::<TimedSent>(bench, lasts + PATIENCE)?);
    }
    finish_all(&mut receivers)?;
    let mut received = TimedReceived::default();
    for receiver in &mut receivers {
        received.add(receiver.report(bench, PATIENCE)?);
    }
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

    fn conclude(mut self, case: Case, rate: Rate) -> Isolation {
        let Case { at, promise, set, burst, peer } = case;
        let sum = |of: fn(&Spell) -> u64| self.spells.iter().map(of).sum::<u64>();
        let mean = |of: fn(&Spell) -> u64| sum(of) as f64 / self.spells.len().max(1) as f64;
        let seconds = burst.as_secs_f64() * self.spells.len().max(1) as f64;
        let bits = |frames: u64| frames as f64 * f64::from(8 * FRAME) / seconds;
        let share = |lost: u64, sent: u64| lost as f64 / sent.max(1) as f64;
        let (sent1, lost1) = (sum(|spell| spell.sent[0]), sum(|spell| spell.lost[0]));
        let (sent2, lost2) = (sum(|spell| spell.sent[1]), sum(|spell| spell.lost[1]));
        let received = [bits(sum(|spell| spell.came[0])), bits(sum(|spell| spell.came[1]))];
        let wire = rate.time_for(FRAME.into());
        Isolation {
            at,
            promise,
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
            received,
            utilization: received.iter().sum::<f64>() / rate.bits_per_sec() as f64,
            p2: share(lost2, sent2),
            alone: self.alone.times_us(),
            in_bursts: self.in_bursts.times_us(),
            exceeded: Exceeded {
                alone: exceeded(&mut self.alone, wire),
                in_bursts: exceeded(&mut self.in_bursts, wire),
            },
            generator_busy: self.busy,
            marked: self.marked,
            duplicates: self.duplicates,
            balanced: self.balanced,
            course: self.course,
        }
    }
}

/// How many of these took longer than so long, as far down as there are samples to tell it by: in
/// a third of a factor of ten at a time.
fn exceeded(samples: &mut Samples, wire: Span) -> Vec<(f64, f64)> {
    let count = samples.len() as f64;
    let tail = (1..=7).flat_map(|power| [1.0, 0.5, 0.2].map(|part| part * 10f64.powi(-power)));
    [0.9, 0.75, 0.5, 0.2]
        .into_iter()
        .chain(tail)
        .filter(|share| share * count >= 1.0)
        .map(|share| (samples.quantile(1.0 - share) as f64 / wire.as_nanos() as f64, share))
        .collect()
}

const _: () = assert!(FRAME >= SMALLEST_TIMED_FRAME);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn as_many_exceed_a_delay_as_it_says() {
        let mut samples = Samples::default();
        samples.extend((1..=1000).map(|number| number * 1000));
        let told = exceeded(&mut samples, Span::from_micros(10));
        assert_eq!(told[..3], [(10.0, 0.9), (25.0, 0.75), (50.0, 0.5)]);
        let of = |share: f64| told.iter().find(|one| (one.1 - share).abs() < 1e-9).unwrap().0;
        assert_eq!([of(0.1), of(0.01), of(0.001)], [90.0, 99.0, 99.9]);
        // Of a thousand nobody knows what one of ten thousand takes.
        assert!(told.iter().all(|(_, share)| *share > 0.0009), "{told:?}");
        assert!(told.is_sorted_by(|one, next| one.0 <= next.0 && one.1 > next.1), "{told:?}");
        assert!(exceeded(&mut Samples::default(), Span::from_micros(10)).is_empty());
    }
}
