//! The exact value lies in its bracket: by closed forms, by enumeration, by draws.

use demand::{
    Grid, Load, Model, Precision, Source, State, Verdict, decide, episodes, excess, risk,
};
use proptest::prelude::*;
use units::{Rng, Span};

use crate::machine::{Lengths, Machine, draw};

/// The chance of each number of successes, by the recurrence that only multiplies and adds.
fn binomial(tries: usize, chance: f64) -> Vec<f64> {
    let mut chances = vec![1.0];
    for _ in 0..tries {
        let mut next = vec![0.0; chances.len() + 1];
        for (k, it) in chances.iter().enumerate() {
            next[k] += it * (1.0 - chance);
            next[k + 1] += it * chance;
        }
        chances = next;
    }
    chances
}

#[test]
fn on_off_machines_are_binomial_down_to_the_rarest() {
    for (tries, chance, fits) in [(40, 0.1, 10), (200, 0.01, 20), (30, 0.001, 9), (500, 0.3, 300)] {
        let exact: f64 = binomial(tries, chance)[fits + 1..].iter().sum();
        let source = Source::on_off(100_000_000, chance);
        let mix = [(&source, tries as u32)];
        let risk = risk(fits as u64 * 100_000_000, &mix, Precision::default());
        let middle = risk.time.middle();
        assert!((middle / exact - 1.0).abs() < 1e-9, "{middle} is to be {exact}");
        assert!(risk.time.width() < 1e-9);
    }
}

/// Every combination of states: P(S > C) and E(S − C)⁺.
fn enumerated(capacity: u64, sources: &[Source]) -> (f64, f64) {
    let (mut above, mut beyond) = (0.0, 0.0);
    let mut places = vec![0; sources.len()];
    loop {
        let (mut sum, mut chance) = (0, 1.0);
        for (source, place) in sources.iter().zip(&places) {
            let (rate, share) = source.shares()[*place];
            (sum, chance) = (sum + rate, chance * share);
        }
        if sum > capacity {
            above += chance;
            beyond += chance * (sum - capacity) as f64;
        }
        let mut carry = 0;
        loop {
            let Some(place) = places.get_mut(carry) else { return (above, beyond) };
            *place += 1;
            if *place < sources[carry].shares().len() {
                break;
            }
            *place = 0;
            carry += 1;
        }
    }
}

fn any_source() -> impl Strategy<Value = Source> {
    prop::collection::vec((0u64..400, 1u32..1000), 1..5).prop_map(|states| {
        let sum: u32 = states.iter().map(|it| it.1).sum();
        Source::new(states.iter().map(|(rate, share)| (*rate, f64::from(*share) / f64::from(sum))))
            .unwrap()
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(10_000))]

    /// Enumeration itself is rounded, in its last digits.
    #[test]
    fn a_bracket_contains_what_enumeration_finds(
        sources in prop::collection::vec(any_source(), 1..7),
        capacity in 0u64..1200,
        cells in 1u64..300,
    ) {
        let (above, beyond) = enumerated(capacity, &sources);
        let grid = Grid::new(capacity, cells);
        let mut load = Load::new(grid);
        sources.iter().for_each(|it| load.push(&grid.bin(it)));
        let time = load.overload();
        let slack = 1e-12;
        prop_assert!(time.low <= above * (1.0 + slack) && above <= time.high * (1.0 + slack) + 1e-300,
            "{above} in {time:?}");
        let excess = excess(grid, sources.iter().map(|it| (it, 1)));
        prop_assert!(excess.low <= beyond * (1.0 + slack), "{beyond} in {excess:?}");
        prop_assert!(beyond <= excess.high * (1.0 + slack), "{beyond} in {excess:?}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]

    #[test]
    fn a_refined_risk_is_what_enumeration_finds(
        sources in prop::collection::vec(any_source(), 1..7),
        capacity in 1u64..1200,
    ) {
        let (above, beyond) = enumerated(capacity, &sources);
        let mix: Vec<_> = sources.iter().map(|it| (it, 1)).collect();
        let risk = risk(capacity, &mix, Precision::default());
        // Rates are below the finest grid's cells here, so nothing is left of rounding.
        prop_assert!((risk.time.middle() - above).abs() <= 1e-12 * above);
        let mean: f64 = sources.iter().map(Source::mean).sum();
        let part = if mean > 0.0 { beyond / mean } else { 0.0 };
        prop_assert!((risk.traffic.middle() - part).abs() <= 1e-9 * part + 1e-15);
        for factor in [0.5, 1.0 - 1e-9, 1.0 + 1e-9, 2.0] {
            let epsilon = above * factor;
            if epsilon > 0.0 && epsilon < 1.0 {
                let verdict = decide(capacity, &mix, epsilon, Precision::default());
                let is = if above <= epsilon { Verdict::Within } else { Verdict::Beyond };
                prop_assert_eq!(verdict, is);
            }
        }
    }

    #[test]
    fn more_machines_are_never_less_risk(
        sources in prop::collection::vec(any_source(), 2..12),
        capacity in 1u64..1200,
    ) {
        let grid = Grid::new(capacity, 64);
        let mut load = Load::new(grid);
        let mut before = load.overload();
        for source in &sources {
            load.push(&grid.bin(source));
            let now = load.overload();
            prop_assert!(now.low >= before.low * (1.0 - 1e-12));
            prop_assert!(now.high >= before.high * (1.0 - 1e-12));
            before = now;
        }
    }
}

#[test]
fn draws_agree_as_often_as_they_should() {
    hundred_mixes(30_000, 1e-3);
}

/// `cargo test --release -p demand --test it -- --ignored million`
#[test]
#[ignore = "takes a minute"]
fn a_million_draws_agree_as_often_as_they_should() {
    hundred_mixes(1_000_000, 1e-4);
}

/// Draws mixes that ask for too much in so much of the time at least, and so many times each.
fn hundred_mixes(draws: u64, least: f64) {
    let mut rng = Rng::new(4);
    let (mut mixes, mut agree) = (0, 0);
    while mixes < 100 {
        let sources: Vec<Source> = (0..5)
            .map(|_| {
                let peak = 10_000_019 + rng.below(90_000_000);
                let on = 0.02 + 0.4 * rng.unit_f64();
                Source::new([(0, 1.0 - on), (peak / 3, on / 2.0), (peak, on / 2.0)]).unwrap()
            })
            .collect();
        let mix: Vec<_> = sources.iter().map(|it| (it, 4)).collect();
        let capacity = 300_000_000 + rng.below(400_000_000);
        let exact = risk(capacity, &mix, Precision::default()).time;
        if exact.middle() < least || exact.middle() > 0.5 {
            continue;
        }
        let above = (0..draws).filter(|_| {
            let sum: u64 =
                sources.iter().map(|it| (0..4).map(|_| draw(it, &mut rng)).sum::<u64>()).sum();
            sum > capacity
        });
        let share = above.count() as f64 / draws as f64;
        let error = (exact.middle() * (1.0 - exact.middle()) / draws as f64).sqrt();
        mixes += 1;
        agree += u32::from(share >= exact.low - 1.96 * error && share <= exact.high + 1.96 * error);
    }
    // 95 are expected; 86 or fewer come up once in two thousand times.
    assert!(agree >= 87, "{agree} of {mixes}");
}

/// Episodes of the sum of machines, counted one by one, whatever the shape of visits.
#[test]
fn episodes_are_as_often_and_as_long_as_those_that_are_counted() {
    let web = Model::new(
        [(5, 20), (60, 8), (200, 5)]
            .map(|(rate, hold)| State { rate, hold: Span::from_secs(hold) })
            .into(),
        &[vec![0.0, 0.7, 0.3], vec![0.6, 0.0, 0.4], vec![0.3, 0.7, 0.0]],
    )
    .unwrap();
    let backup = Model::on_off(150, Span::from_secs(30), Span::from_secs(60)).unwrap();
    let capacity = 500;
    let machines = [(&web, 4), (&backup, 2)];
    let grid = Grid::fitting(capacity, [&web.source(), &backup.source()], 1024, 4096);
    let predicted = episodes(grid, &machines);
    for lengths in [Lengths::Exponential, Lengths::Heavy(2.5)] {
        let end = 2_000_000.0;
        let mut changes: Vec<(f64, i64)> = Vec::new();
        let mut seed = 0;
        for (model, count) in machines {
            for _ in 0..count {
                seed += 1;
                let mut before = 0;
                for (at, rate) in Machine::new(model, lengths, seed).jumps(end) {
                    changes.push((at, rate as i64 - before));
                    before = rate as i64;
                }
            }
        }
        changes.sort_by(|a, b| a.0.total_cmp(&b.0));
        let (mut sum, mut count, mut above, mut since) = (0, 0.0, 0.0, None);
        for (at, change) in changes {
            sum += change;
            match since {
                None if sum > capacity as i64 => (count, since) = (count + 1.0, Some(at)),
                Some(begin) if sum <= capacity as i64 => {
                    (above, since) = (above + at - begin, None)
                }
                _ => {}
            }
        }
        let often = predicted.per_second.middle();
        assert!(
            (count / end / often - 1.0).abs() < 0.05,
            "{lengths:?}: {} and {often}",
            count / end
        );
        let long = predicted.mean_secs.unwrap().middle();
        assert!(
            (above / count / long - 1.0).abs() < 0.05,
            "{lengths:?}: {} and {long}",
            above / count
        );
    }
}
