//! One case's rounds, and what is told of them together.

use super::cases::Case;
use super::clock::Clock;
use super::report::{Dropped, Latency, Ports, RoundFigures, SHARES, Throughput};
use super::sink::Carried;
use super::switch::Account;
use crate::losses::both_hold;
use crate::stats::median;

/// What one round found.
#[derive(Clone, Debug)]
pub struct Round {
    /// All that the switch took.
    pub carried: Carried,
    /// What the switch says of that.
    pub account: Account,
    /// A cache line's round trip between the cores just before, in nanoseconds.
    pub round_trip_ns: Option<f64>,
    /// Frames a second that a slow receiver took.
    pub taken: Option<f64>,
    /// Frames a second of which none were lost.
    pub lossless: Option<f64>,
    /// At shares of that, how long frames took.
    pub timed: Vec<Timed>,
}

/// How long frames took.
#[derive(Clone, Copy, Debug)]
pub struct Timed {
    share: f64,
    rate: f64,
    /// In seconds: half of them, 99 %, 99.9 %.
    quantiles: [f64; 3],
}

impl Round {
    /// What was carried with all that there was to send.
    pub fn new(carried: Carried, account: Account, taken: Option<f64>) -> Self {
        let timed = Vec::new();
        Self { carried, account, taken, round_trip_ns: None, lossless: None, timed }
    }

    fn figures(&self) -> RoundFigures {
        let Self { carried, account: Account { busy, turns, .. }, round_trip_ns, timed, .. } = self;
        let frames = carried.sent + carried.to_stalled;
        let at_half = timed.iter().find(|timed| timed.share == 0.5);
        RoundFigures {
            mfps: carried.rate() / 1e6,
            round_trip_ns: *round_trip_ns,
            cycles_per_frame: ratio(*busy, frames).filter(|_| *busy > 0),
            frames_per_turn: turns.and_then(|turns| ratio(frames, turns.all - turns.empty)),
            empty_turns: turns.and_then(|turns| ratio(turns.empty, turns.all)),
            generator_busy: carried.busy,
            p99_us: at_half.map(|timed| timed.quantiles[1] * 1e6),
        }
    }
}

impl Timed {
    /// Of what was carried at a share of the rate without loss; none if nothing arrived.
    pub fn of(share: f64, carried: &Carried, clock: Clock) -> Option<Self> {
        let seconds = |part| carried.delays.quantile(part).map(|ticks| clock.seconds(ticks));
        let quantiles = [seconds(0.5)?, seconds(0.99)?, seconds(0.999)?];
        Some(Self { share, rate: carried.rate(), quantiles })
    }
}

/// What is told of a case: medians of rates and times, sums of counts.
pub fn told(case: Case, rounds: &[Round]) -> Throughput {
    let Case { switch, senders, size, flows, stalled } = case;
    let figures: Vec<_> = rounds.iter().map(Round::figures).collect();
    let figure = |one: fn(&RoundFigures) -> Option<f64>| median(figures.iter().filter_map(one));
    let of = |one: &dyn Fn(&Round) -> Option<f64>| median(rounds.iter().filter_map(one));
    let sum = |one: &dyn Fn(&Round) -> u64| rounds.iter().map(one).sum::<u64>();
    let rates = figures.iter().map(|round| round.mfps);
    let mfps = median(rates.clone()).unwrap_or(0.0);
    let (sent, received) = (sum(&|round| round.carried.sent), sum(&|round| round.carried.received));
    Throughput {
        switch,
        ports: Ports::VhostUser,
        size,
        flows,
        senders,
        stalled,
        mfps,
        mfps_range: [rates.clone().fold(f64::INFINITY, f64::min), rates.fold(0.0, f64::max)],
        gbps: mfps * f64::from(size) * 8e-3,
        sent,
        received,
        lost: sent.saturating_sub(received),
        duplicates: sum(&|round| round.carried.duplicates),
        out_of_order: sum(&|round| round.carried.out_of_order),
        dropped: Dropped {
            ingress: sum(&|round| round.account.dropped.ingress),
            egress: sum(&|round| round.account.dropped.egress),
        },
        cycles_per_frame: figure(|round| round.cycles_per_frame),
        generator_busy: figure(|round| Some(round.generator_busy)).unwrap_or(0.0),
        round_trip_ns: figure(|round| round.round_trip_ns),
        frames_per_turn: figure(|round| round.frames_per_turn),
        empty_turns: figure(|round| round.empty_turns),
        receiver_mfps: of(&|round| round.taken.map(|rate| rate / 1e6)),
        lossless_mfps: of(&|round| round.lossless.map(|rate| rate / 1e6)),
        latency: latency(rounds),
        balanced: rounds.iter().fold(None, |all, round| both_hold(all, round.account.balanced)),
        rounds: figures,
    }
}

/// How many of the one come on one of the other; none on nothing.
fn ratio(of: u64, on: u64) -> Option<f64> {
    (on > 0).then(|| of as f64 / on as f64)
}

fn latency(rounds: &[Round]) -> Vec<Latency> {
    let of_share = |share: f64| {
        let timed =
            rounds.iter().flat_map(|round| &round.timed).filter(move |timed| timed.share == share);
        let of = |one: fn(&Timed) -> f64| median(timed.clone().map(one));
        Some(Latency {
            load: share,
            mfps: of(|timed| timed.rate / 1e6)?,
            p50_us: of(|timed| timed.quantiles[0] * 1e6)?,
            p99_us: of(|timed| timed.quantiles[1] * 1e6)?,
            p999_us: of(|timed| timed.quantiles[2] * 1e6)?,
        })
    };
    SHARES.into_iter().filter_map(of_share).collect()
}

#[cfg(test)]
mod tests {
    use lab::SwitchKind;

    use super::super::delays::Delays;
    use super::super::switch::Turns;
    use super::*;

    const CASE: Case =
        Case { switch: SwitchKind::Zovn, senders: 2, size: 125, flows: 7, stalled: false };

    fn round(in_time: u64, balanced: bool) -> Round {
        let mut delays = Delays::default();
        delays.book(20);
        let carried = Carried {
            sent: in_time + 5,
            to_stalled: 10,
            received: in_time + 3,
            in_time,
            duplicates: 1,
            out_of_order: 2,
            strangers: 0,
            seconds: 2.0,
            busy: 0.5,
            delays,
        };
        let dropped = Dropped { ingress: 0, egress: 2 };
        let frames = carried.sent + carried.to_stalled;
        let account = Account {
            busy: 100 * frames,
            turns: Some(Turns { all: frames / 5, empty: frames / 5 - frames / 20 }),
            dropped,
            balanced: Some(balanced),
        };
        let timed = Timed::of(0.5, &carried, Clock { rate: 1e6 }).into_iter().collect();
        let round_trip_ns = Some(in_time as f64 / 1e4);
        Round { lossless: Some(1e6), timed, round_trip_ns, ..Round::new(carried, account, None) }
    }

    #[test]
    fn rates_are_medians_and_counts_are_sums() {
        let told =
            told(CASE, &[round(2_000_000, true), round(6_000_000, true), round(4_000_000, true)]);
        assert_eq!((told.mfps, told.mfps_range, told.gbps), (2.0, [1.0, 3.0], 2.0));
        assert_eq!((told.sent, told.received, told.lost), (12_000_015, 12_000_009, 6));
        assert_eq!((told.duplicates, told.out_of_order, told.dropped.egress), (3, 6, 6));
        assert_eq!(
            (told.cycles_per_frame, told.lossless_mfps, told.receiver_mfps),
            (Some(100.0), Some(1.0), None)
        );
        assert_eq!((told.round_trip_ns, told.rounds.len()), (Some(400.0), 3));
        assert_eq!(told.rounds[1].round_trip_ns, Some(600.0));
        assert_eq!(told.frames_per_turn.map(f64::round), Some(20.0));
        assert!((told.empty_turns.unwrap() - 0.75).abs() < 1e-3);
        let [latency] = told.latency[..] else { panic!("one share was timed") };
        assert_eq!((latency.load, latency.p50_us, latency.p999_us), (0.5, 20.0, 20.0));
        assert_eq!(told.balanced, Some(true));
    }

    #[test]
    fn one_round_that_does_not_balance_is_enough() {
        assert_eq!(
            told(CASE, &[round(1, true), round(1, false), round(1, true)]).balanced,
            Some(false)
        );
    }
}
