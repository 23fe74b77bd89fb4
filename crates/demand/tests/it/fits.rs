//! Models fitted to traces of known machines.

use demand::{Doubt, Fit, FitSettings, Model, Precision, Series, State, fit, risk};
use units::{Instant, Span};

use crate::machine::{Lengths, Machine};

fn web() -> Model {
    Model::new(
        [(5_000_000, 20), (60_000_000, 8), (200_000_000, 5)]
            .map(|(rate, hold)| State { rate, hold: Span::from_secs(hold) })
            .into(),
        &[vec![0.0, 0.7, 0.3], vec![0.6, 0.0, 0.4], vec![0.3, 0.7, 0.0]],
    )
    .unwrap()
}

fn fitted(model: &Model, lengths: Lengths, step: Span, samples: usize, seed: u64) -> Fit {
    let rates = Machine::new(model, lengths, seed).trace(step, samples);
    let series = Series::from_rates(Instant::ZERO, step, &rates).unwrap();
    fit(&series, &FitSettings::default())
}

fn has(fit: &Fit, doubt: impl Fn(&Doubt) -> bool) -> bool {
    fit.doubts.iter().any(doubt)
}

#[test]
fn a_known_machine_is_found_to_a_hundredth() {
    let (model, step) = (web(), Span::from_secs(2));
    let rates = Machine::new(&model, Lengths::Exponential, 9).glances(step, 500_000);
    let series = Series::from_rates(Instant::ZERO, step, &rates).unwrap();
    let (found, known) = (fit(&series, &FitSettings::default()).model.source(), model.source());
    assert_eq!(found.shares().len(), known.shares().len(), "{found:?}");
    for ((rate, share), (is, part)) in found.shares().iter().zip(known.shares()) {
        assert!((*rate as f64 / *is as f64 - 1.0).abs() < 0.01, "{found:?} {known:?}");
        assert!((share - part).abs() < 0.01, "{found:?} {known:?}");
    }
}

/// Counters add up what is sent in a step. Where a state changes within one, its sample lies
/// between two rates: so less is known than of glances at the rate.
#[test]
fn a_known_machine_is_found_again_by_its_counters() {
    let model = web();
    let fit = fitted(&model, Lengths::Exponential, Span::from_millis(100), 200_000, 3);
    // Samples between two rates may get a state of their own.
    let (found, known) = (fit.model.source(), model.source());
    assert!((found.mean() / known.mean() - 1.0).abs() < 0.05, "{found:?} {known:?}");
    for (rate, _) in known.shares() {
        let near = |it: u64| (it as f64 / *rate as f64 - 1.0).abs() < 0.05;
        assert!(found.shares().iter().any(|(it, _)| near(*it)), "{rate} in {found:?}");
        assert!((found.above(*rate + 3_000_000) - known.above(*rate + 3_000_000)).abs() < 0.03);
    }
    assert!(fit.mean.low <= known.mean() && known.mean() <= fit.mean.high, "{:?}", fit.mean);
    assert!(
        !has(&fit, |it| matches!(it, Doubt::Step { .. } | Doubt::Tail { .. })),
        "{:?}",
        fit.doubts
    );
    let raised = fit.careful().source().mean();
    assert!((raised / fit.mean.high - 1.0).abs() < 1e-3, "{raised} {:?}", fit.mean);
}

#[test]
fn shares_of_time_are_those_of_the_trace() {
    let rates = [0, 0, 10, 10, 10, 0, 0, 90, 0, 0, 10, 10, 90, 90, 0, 0, 0, 10, 10, 0].repeat(20);
    let series = Series::from_rates(Instant::ZERO, Span::from_secs(1), &rates).unwrap();
    let source = fit(&series, &FitSettings::default()).model.source();
    assert_eq!(source.shares().len(), 3);
    for ((rate, share), (is, part)) in
        source.shares().iter().zip([(0, 0.5), (10, 0.35), (90, 0.15)])
    {
        assert!(*rate == is && (share - part).abs() < 1e-9, "{source:?}");
    }
}

#[test]
fn a_constant_has_one_state_and_no_noise_makes_more() {
    let series = Series::from_rates(Instant::ZERO, Span::from_secs(1), &[7; 5000]).unwrap();
    let fit = fit(&series, &FitSettings::default());
    assert_eq!(fit.model, Model::constant(7));
    assert_eq!(fit.doubts, []);
}

#[test]
fn steps_longer_than_bursts_are_told() {
    let model = Model::on_off(100_000_000, Span::from_millis(50), Span::from_secs(2)).unwrap();
    let long = fitted(&model, Lengths::Exponential, Span::from_secs(1), 50_000, 4);
    assert!(has(&long, |it| matches!(it, Doubt::Step { .. })), "{:?}", long.doubts);
    let short = fitted(&model, Lengths::Exponential, Span::from_millis(2), 50_000, 4);
    assert!(!has(&short, |it| matches!(it, Doubt::Step { .. })), "{:?}", short.doubts);
}

#[test]
fn heavy_tails_are_told() {
    let model = Model::on_off(100_000_000, Span::from_secs(10), Span::from_secs(20)).unwrap();
    let heavy = fitted(&model, Lengths::Heavy(1.3), Span::from_secs(1), 100_000, 5);
    assert!(has(&heavy, |it| matches!(it, Doubt::Tail { .. })), "{:?}", heavy.doubts);
    let light = fitted(&model, Lengths::Exponential, Span::from_secs(1), 100_000, 5);
    assert!(
        !has(&light, |it| matches!(it, Doubt::Tail { .. } | Doubt::Shape { .. })),
        "{:?}",
        light.doubts
    );
    let fixed = fitted(&model, Lengths::Fixed, Span::from_secs(1), 100_000, 5);
    assert!(has(&fixed, |it| matches!(it, Doubt::Shape { .. })), "{:?}", fixed.doubts);
}

#[test]
fn short_traces_and_trends_are_told() {
    let model = web();
    let short = fitted(&model, Lengths::Exponential, Span::from_secs(1), 600, 6);
    assert!(has(&short, |it| matches!(it, Doubt::Short { .. })), "{:?}", short.doubts);

    let mut rates = Machine::new(&model, Lengths::Exponential, 7).trace(Span::from_secs(1), 20_000);
    rates[10_000..].iter_mut().for_each(|it| *it *= 3);
    let series = Series::from_rates(Instant::ZERO, Span::from_secs(1), &rates).unwrap();
    let changed = fit(&series, &FitSettings::default());
    assert!(has(&changed, |it| matches!(it, Doubt::Trend { .. })), "{:?}", changed.doubts);
}

#[test]
fn a_machine_with_a_longer_memory_is_told() {
    // Up by 0, 1, 2 and down by 2, 1, 0: where 1 leads depends on where it was come from.
    let rates = [0, 0, 0, 50, 50, 50, 90, 90, 90, 50, 50, 50].repeat(400);
    let series = Series::from_rates(Instant::ZERO, Span::from_secs(1), &rates).unwrap();
    let found = fit(&series, &FitSettings::default());
    assert!(has(&found, |it| matches!(it, Doubt::Memory { .. })), "{:?}", found.doubts);
    let free = fitted(&web(), Lengths::Exponential, Span::from_millis(20), 200_000, 8);
    assert!(!has(&free, |it| matches!(it, Doubt::Memory { .. })), "{:?}", free.doubts);
}

/// The first half of each trace is fitted; the second half of all is what happens.
#[test]
fn the_overload_of_the_next_day_is_no_more_than_the_careful_fit_says() {
    const HALF: usize = 40_000;
    let model = web();
    let capacity = 1_200_000_000;
    let (mut kept, runs) = (0, 12);
    for run in 0..runs {
        let step = Span::from_millis(500);
        let mut sums = vec![0; HALF];
        let mut sources = Vec::new();
        for machine in 0..12 {
            let rates = Machine::new(&model, Lengths::Exponential, 100 * run + machine)
                .trace(step, 2 * HALF);
            let (first, second) = rates.split_at(HALF);
            let series = Series::from_rates(Instant::ZERO, step, first).unwrap();
            sources.push(fit(&series, &FitSettings::default()).careful().source());
            sums.iter_mut().zip(second).for_each(|(sum, rate)| *sum += rate);
        }
        let mix: Vec<_> = sources.iter().map(|it| (it, 1)).collect();
        let planned = risk(capacity, &mix, Precision::default()).time.high;
        let is = sums.iter().filter(|sum| **sum > capacity).count() as f64 / HALF as f64;
        assert!(planned < 6.0 * is + 1e-3, "{planned} is too careful for {is}");
        kept += u32::from(is <= planned);
    }
    assert!(kept >= 11, "{kept} of {runs}");
}
