//! How many instructions a plan costs, and whether that is still as few as it was.
//!
//! `cargo bench -p placement --bench instructions`. Twenty classes of machines with up to 8 rates,
//! on hosts with a limit of their switch and two of their network card.

use std::process::ExitCode;

use demand::Source;
use placement::{
    BoundSettings, Class, Goal, Host, HostType, Limit, Periods, Placement, Problem, lower_bound,
    place,
};
use units::Rng;

const CASES: [callgrind::Case<'_>; 3] =
    [("place cores", 9.3e7), ("place network", 5.69e8), ("bound cores", 8.0e8)];

const MACHINES: u64 = 100_000;

fn main() -> ExitCode {
    callgrind::main("plan of 100,000 machines", &CASES, 1, work)
}

fn work(case: &str, times: u64) -> u64 {
    let (kind, binds) = case.split_once(' ').expect("a case is two words");
    let problem = fleet(MACHINES, if binds == "cores" { 1 } else { 4 });
    for _ in 0..times {
        if kind == "place" {
            let placement = place(&problem, &Placement::empty(&problem));
            assert!(placement.unplaced(&problem).iter().all(|left| *left == 0));
        } else {
            let found = lower_bound(&problem, BoundSettings { rounds: 400, steps: 1_000 });
            assert!(found.bound > MACHINES / 30);
        }
    }
    times
}

/// So many machines, and a host for each four.
fn fleet(machines: u64, traffic: u64) -> Problem {
    const CLASSES: u64 = 20;
    const GBIT: u64 = 1_000_000_000;
    let mut rng = Rng::new(1);
    let classes = (0..CLASSES).map(|class| {
        let states = 2 + class % 7;
        let peak = traffic * (20 + rng.below(300)) * 1_000_000;
        let weights: Vec<f64> = (0..states).map(|it| 1.0 / (1 + it * it) as f64).collect();
        let sum: f64 = weights.iter().sum();
        let rates = (0..states).map(|it| (peak * it / (states - 1), weights[it as usize] / sum));
        let sent = Source::new(rates).expect("shares sum to 1");
        let cores = 1 << rng.below(3);
        Class {
            count: (machines / CLASSES) as u32,
            cores,
            memory: (u64::from(cores) * 4) << 30,
            // The switch takes 60 ns for each kilobit both ways.
            loads: vec![vec![
                sent.map(|rate| rate / 1000 * 60),
                sent.clone(),
                sent.map(|it| it / 2),
            ]],
            together: None,
            apart: None,
            cluster: None,
        }
    });
    let limit = |capacity| Limit { capacity, period: 0 };
    let cost = 1;
    let limits = vec![limit(2 * GBIT / 10), limit(25 * GBIT / 10), limit(25 * GBIT / 10)];
    Problem {
        goal: Goal { epsilon: 1e-3, periods: Periods::Worst },
        types: vec![HostType { cores: 62, memory: 256 << 30, limits, cost }],
        hosts: (0..machines / 4).map(|it| Host { kind: 0, rack: it as usize / 32 }).collect(),
        classes: classes.collect(),
        clusters: Vec::new(),
    }
}
