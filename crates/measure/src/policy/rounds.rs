//! One load's rounds, and what is told of them together.

use super::cases::{Path, What};
use super::report::{Delay, Policed};
use crate::losses::both_hold;
use crate::stats::median;
use crate::vhost::RoundFigures;
use crate::vhost::clock::Clock;
use crate::vhost::sink::Carried;
use crate::vhost::switch::Account;

/// What one round found.
#[derive(Clone, Debug)]
pub struct Round {
    /// What the switch took.
    pub carried: Carried,
    /// What the switch says of that.
    pub account: Account,
    /// A cache line's round trip between the cores just before, in nanoseconds.
    pub round_trip_ns: Option<f64>,
    /// How long frames took.
    pub latency: Option<Delay>,
    /// How long those of a known flow took beside new ones.
    pub known: Option<Delay>,
    /// Time of all processors, in nanoseconds, where that says something.
    pub cpu_ns: Option<u64>,
    /// What to know of it.
    pub remark: Option<String>,
}

impl Round {
    /// What was carried, and nothing else.
    pub fn new(carried: Carried, account: Account) -> Self {
        let (round_trip_ns, latency, known, cpu_ns, remark) = (None, None, None, None, None);
        Self { carried, account, round_trip_ns, latency, known, cpu_ns, remark }
    }

    fn figures(&self) -> RoundFigures {
        let Self { carried, account, round_trip_ns, latency, .. } = self;
        let turns = account.turns;
        RoundFigures {
            mfps: carried.rate() / 1e6,
            round_trip_ns: *round_trip_ns,
            cycles_per_frame: ratio(account.busy, carried.sent).filter(|_| account.busy > 0),
            frames_per_turn: turns.and_then(|it| ratio(carried.sent, it.all - it.empty)),
            empty_turns: turns.and_then(|it| ratio(it.empty, it.all)),
            generator_busy: carried.busy,
            p99_us: latency.map(|latency| latency.p99_us),
        }
    }

    fn cpu_ns_per_frame(&self) -> Option<f64> {
        ratio(self.cpu_ns?, self.carried.in_time)
    }
}

impl Delay {
    /// Of what was carried; none if nothing arrived.
    pub fn of(carried: &Carried, clock: Clock) -> Option<Self> {
        let us = |part| carried.delays.quantile(part).map(|ticks| clock.seconds(ticks) * 1e6);
        Some(Self {
            mfps: carried.rate() / 1e6,
            p50_us: us(0.5)?,
            p99_us: us(0.99)?,
            p999_us: us(0.999)?,
        })
    }

    /// The medians of several.
    fn median(all: impl Iterator<Item = Self> + Clone) -> Option<Self> {
        let of = |one: fn(&Self) -> f64| median(all.clone().map(|delay| one(&delay)));
        Some(Self {
            mfps: of(|delay| delay.mfps)?,
            p50_us: of(|delay| delay.p50_us)?,
            p99_us: of(|delay| delay.p99_us)?,
            p999_us: of(|delay| delay.p999_us)?,
        })
    }
}

/// What is told of a load: medians of rates and times, sums of counts.
pub fn told(path: &Path, what: What, rounds: &[Round]) -> Policed {
    let Path { switch, through, rules } = *path;
    let figures: Vec<_> = rounds.iter().map(Round::figures).collect();
    let rates = figures.iter().map(|round| round.mfps);
    let sum = |one: fn(&Round) -> u64| rounds.iter().map(one).sum::<u64>();
    let (sent, received) = (sum(|round| round.carried.sent), sum(|round| round.carried.received));
    Policed {
        switch,
        through,
        rules,
        load: what.load(),
        flows: what.flows(),
        mfps: median(rates.clone()).unwrap_or(0.0),
        mfps_range: [rates.clone().fold(f64::INFINITY, f64::min), rates.fold(0.0, f64::max)],
        sent,
        received,
        lost: sent.saturating_sub(received),
        duplicates: sum(|round| round.carried.duplicates),
        out_of_order: sum(|round| round.carried.out_of_order),
        cycles_per_frame: median(figures.iter().filter_map(|round| round.cycles_per_frame)),
        cpu_ns_per_frame: median(rounds.iter().filter_map(Round::cpu_ns_per_frame)),
        generator_busy: median(figures.iter().map(|round| round.generator_busy)).unwrap_or(0.0),
        latency: Delay::median(rounds.iter().filter_map(|round| round.latency)),
        known: Delay::median(rounds.iter().filter_map(|round| round.known)),
        balanced: rounds.iter().fold(None, |all, round| both_hold(all, round.account.balanced)),
        rounds: figures,
        remark: rounds.iter().find_map(|round| round.remark.clone()),
    }
}

/// How many of the one come on one of the other; none on nothing.
fn ratio(of: u64, on: u64) -> Option<f64> {
    (on > 0).then(|| of as f64 / on as f64)
}

#[cfg(test)]
mod tests {
    use lab::SwitchKind;

    use super::super::report::Through;
    use super::*;
    use crate::vhost::delays::Delays;

    fn round(mfps: f64, sent: u64, received: u64, balanced: bool) -> Round {
        let mut delays = Delays::default();
        delays.book(10);
        let in_time = (mfps * 1e6) as u64;
        Round {
            carried: Carried {
                sent,
                to_stalled: 0,
                received,
                in_time,
                duplicates: 0,
                out_of_order: 1,
                strangers: 0,
                seconds: 1.0,
                busy: 0.5,
                delays,
            },
            account: Account { busy: sent * 100, balanced: Some(balanced), ..Account::default() },
            round_trip_ns: Some(100.0),
            latency: None,
            known: None,
            cpu_ns: Some(in_time * 500),
            remark: None,
        }
    }

    #[test]
    fn rounds_become_a_median_a_range_and_sums() {
        let path = Path { switch: SwitchKind::Zovn, through: Through::Acl, rules: 10 };
        let rounds =
            [round(3.0, 10, 10, true), round(1.0, 20, 19, true), round(2.0, 30, 30, false)];
        let told = told(&path, What::Flows(7), &rounds);
        assert_eq!((told.mfps, told.mfps_range), (2.0, [1.0, 3.0]));
        assert_eq!((told.sent, told.received, told.lost, told.out_of_order), (60, 59, 1, 3));
        assert_eq!((told.cycles_per_frame, told.flows), (Some(100.0), Some(7)));
        assert_eq!((told.cpu_ns_per_frame, told.remark), (Some(500.0), None));
        assert_eq!((told.balanced, told.latency, told.rounds.len()), (Some(false), None, 3));
    }

    #[test]
    fn delays_are_told_in_microseconds() {
        let clock = Clock { rate: 1e6 };
        let delay = Delay::of(&round(1.0, 1, 1, true).carried, clock).unwrap();
        assert_eq!((delay.p50_us, delay.p999_us, delay.mfps), (10.0, 10.0, 1.0));
        let twice = Delay { p50_us: 30.0, ..delay };
        let both = Delay::median([delay, twice].into_iter()).unwrap();
        assert_eq!((both.p50_us, both.p99_us), (20.0, 10.0));
    }
}
