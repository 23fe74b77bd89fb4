//! How many instructions a sum and a fit cost, and whether that is still as few as it was.
//!
//! `cargo bench -p demand --bench instructions`.

use std::process::ExitCode;

use demand::{FitSettings, Grid, Load, Series, Source, fit};
use units::{Instant, Rng, Span};

const SUMS: [callgrind::Case<'_>; 4] =
    [("push 2", 12_504.0), ("push 8", 52_705.0), ("with 8", 262.0), ("fit", 653.0)];

fn main() -> ExitCode {
    callgrind::main("machine, or sample", &SUMS, 40_000, work)
}

/// A source of so many states, none of which is a whole step.
fn source(states: u64) -> Source {
    let share = 1.0 / states as f64;
    Source::new((0..states).map(|state| (state * 9_999_991, share))).expect("shares sum to 1")
}

fn work(case: &str, amount: u64) -> u64 {
    if case == "fit" {
        return fitted(amount);
    }
    let (kind, states) = case.split_once(' ').expect("a case is two words");
    let grid = Grid::new(1_000_000_000, 1024);
    let binned = grid.bin(&source(states.parse().expect("the second is a number")));
    let mut load = Load::new(grid);
    let mut sum = 0.0;
    if kind == "with" {
        load.push_many(&binned, 20);
        for _ in 0..amount {
            sum += std::hint::black_box(&load).overload_with(&binned).high;
        }
        assert!(sum > 0.0);
        return amount;
    }
    let machines = amount / 100;
    for machine in 0..machines {
        if machine % 30 == 0 {
            load = Load::new(grid);
        }
        load.push(&binned);
    }
    assert!(load.overload().high < 1.0);
    machines
}

fn fitted(samples: u64) -> u64 {
    let mut rng = Rng::new(2);
    let mut level = 0;
    let mut rate = || {
        if rng.below(20) == 0 {
            level = rng.below(4) * 50_000_000;
        }
        level + rng.below(5_000_000)
    };
    let rates: Vec<u64> = (0..samples).map(|_| rate()).collect();
    let series = Series::from_rates(Instant::ZERO, Span::from_secs(1), &rates).expect("a trace");
    assert!(fit(&series, &FitSettings::default()).model.states().len() > 1);
    samples
}
