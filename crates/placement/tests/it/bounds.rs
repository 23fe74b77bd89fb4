//! Bound ≤ optimum ≤ what is placed, where enumeration knows the optimum.

use std::collections::BTreeMap;

use demand::Source;
use placement::{
    BoundSettings, Certificate, Class, Domain, Goal, Host, HostType, Limit, Pattern, Periods,
    Placement, Problem, check, exact, improve, lower_bound, place,
};
use proptest::prelude::*;

use crate::worlds::{GBIT, MBIT, any_problem, class, host_type, three_classes};

/// Every pattern that a host may have, with what the host costs. Asks nothing but `check` whether a
/// host is within its rules.
fn patterns(problem: &Problem) -> Vec<(u64, Vec<u32>)> {
    let mut patterns: Vec<(u64, Vec<u32>)> = Vec::new();
    let counts: Vec<u32> = problem.classes.iter().map(|it| it.count).collect();
    let mut pattern = vec![0u32; counts.len()];
    loop {
        let place = (0..counts.len()).find(|place| pattern[*place] < counts[*place]);
        let Some(place) = place else { break };
        pattern[place] += 1;
        pattern[..place].fill(0);
        for (kind, it) in problem.types.iter().enumerate() {
            let one = Problem { hosts: vec![Host { kind, rack: 0 }], ..problem.clone() };
            let host = Pattern::new(pattern.iter().copied().enumerate());
            if check(&one, &Placement { hosts: vec![host] }).is_ok() {
                patterns.push((it.cost, pattern.clone()));
            }
        }
    }
    patterns
}

/// The least cost of hosts, any number of each type, by trying every pattern on every host.
fn optimum(problem: &Problem) -> Option<u64> {
    let counts: Vec<u32> = problem.classes.iter().map(|it| it.count).collect();
    cheapest(&counts, &patterns(problem), &mut BTreeMap::new())
}

fn cheapest(
    left: &[u32],
    patterns: &[(u64, Vec<u32>)],
    known: &mut BTreeMap<Vec<u32>, Option<u64>>,
) -> Option<u64> {
    if left.iter().all(|it| *it == 0) {
        return Some(0);
    }
    if let Some(cost) = known.get(left) {
        return *cost;
    }
    let mut best: Option<u64> = None;
    for (cost, pattern) in patterns {
        if pattern.iter().zip(left).all(|(has, left)| has <= left) {
            let rest: Vec<u32> = left.iter().zip(pattern).map(|(left, has)| left - has).collect();
            if let Some(rest) = cheapest(&rest, patterns, known) {
                best = Some(best.map_or(cost + rest, |best| best.min(cost + rest)));
            }
        }
    }
    known.insert(left.to_vec(), best);
    best
}

fn is_by_rack(problem: &Problem) -> bool {
    problem.classes.iter().any(|it| it.apart.is_some_and(|it| it.domain == Domain::Rack))
}

/// With as many hosts of each type as there are machines.
fn with_hosts(mut problem: Problem) -> Problem {
    let machines = problem.machines() as usize;
    let types = problem.types.len();
    problem.hosts = (0..machines * types).map(|it| Host { kind: it % types, rack: it }).collect();
    problem
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn a_bound_is_no_more_than_the_optimum_and_that_no_more_than_what_is_placed(
        problem in any_problem(),
    ) {
        let problem = with_hosts(problem);
        let Some(optimum) = optimum(&problem) else { return Ok(()) };
        for steps in [1, 20, 20_000] {
            let found = lower_bound(&problem, BoundSettings { rounds: 400, steps });
            prop_assert!(found.bound <= optimum, "{} > {optimum}", found.bound);
        }
        let placement = place(&problem, &Placement::empty(&problem));
        prop_assert_eq!(placement.unplaced(&problem).iter().sum::<u32>(), 0);
        prop_assert!(placement.cost(&problem) >= optimum);
        let best = exact(&problem, 1_000_000);
        prop_assert_eq!(check(&problem, &best.placement), Ok(()));
        prop_assert_eq!(best.placement.unplaced(&problem).iter().sum::<u32>(), 0);
        if best.is_optimal {
            prop_assert_eq!(best.placement.cost(&problem), optimum);
        } else {
            prop_assert!(is_by_rack(&problem));
        }
    }

    /// The prices that are found with a bound are fair: so whoever searches by them misses nothing.
    #[test]
    fn nothing_that_fits_a_host_is_worth_more_than_it(problem in any_problem()) {
        let problem = with_hosts(problem);
        let patterns = patterns(&problem);
        for steps in [1, 20, 20_000] {
            let found = lower_bound(&problem, BoundSettings { rounds: 3, steps });
            let worth = |counts: &[u32]| -> f64 {
                counts.iter().zip(&found.prices).map(|(n, price)| f64::from(*n) * price).sum()
            };
            for (cost, counts) in &patterns {
                prop_assert!(worth(counts) <= *cost as f64 * (1.0 + 1e-9), "{counts:?} {found:?}");
            }
        }
    }

    /// However few steps it has.
    #[test]
    fn exact_costs_no_more_than_what_was_improved(problem in any_problem(), steps in 0u64..50) {
        let problem = with_hosts(problem);
        let improved = improve(&problem, &place(&problem, &Placement::empty(&problem)), steps);
        let found = exact(&problem, steps).placement;
        prop_assert_eq!(check(&problem, &found), Ok(()));
        prop_assert!(found.unplaced(&problem) <= improved.unplaced(&problem));
        prop_assert!(found.cost(&problem) <= improved.cost(&problem));
    }

    /// A certificate is prices, and any prices prove no more than holds.
    #[test]
    fn no_prices_prove_too_much(
        problem in any_problem(),
        prices in prop::collection::vec(0.0..3.0f64, 3),
        steps in 1u64..200,
    ) {
        let problem = with_hosts(problem);
        let Some(optimum) = optimum(&problem) else { return Ok(()) };
        let prices = prices[..problem.classes.len()].to_vec();
        let certificate = Certificate { prices, bound: 0 };
        prop_assert!(certificate.proves(&problem, steps) <= optimum);
    }
}

/// Two machines of which one sends in 9.75 % of the time share a host whose goal is a tenth,
/// however much they send: so two hosts are not needed.
#[test]
fn a_loose_goal_proves_no_more_than_holds() {
    let mut problem = three_classes(0);
    problem.goal.epsilon = 0.1;
    problem.types = vec![host_type(8, 8, 20, 1)];
    problem.classes = vec![class(2, 1, 1, Source::on_off(1000, 0.05), 1)];
    let certificate = Certificate { prices: vec![1.0], bound: 2 };
    assert_eq!(certificate.proves(&problem, 20_000), 1);
}

/// A period is above the goal by no more than its share of the week allows: so means are bounded
/// without a search.
#[test]
fn a_mean_over_periods_bounds_what_each_is_asked_for() {
    let mut problem = three_classes(0);
    problem.goal = Goal { epsilon: 0.01, periods: Periods::Mean(vec![0.25, 0.75]) };
    let limit = |period| Limit { capacity: 100, period };
    problem.types = vec![HostType { limits: vec![limit(0), limit(1)], ..host_type(99, 99, 0, 1) }];
    let load = vec![vec![Source::constant(10); 2]];
    problem.classes = vec![Class { loads: load, ..class(80, 1, 1, Source::constant(0), 1) }];
    let certificate = Certificate { prices: vec![0.1], bound: 8 };
    assert_eq!(certificate.proves(&problem, 0), 8);
}

#[test]
fn three_classes_are_placed_on_as_few_hosts_as_can_be() {
    let problem = three_classes(60);
    let found = lower_bound(&problem, BoundSettings::default());
    let placement = place(&problem, &Placement::empty(&problem));
    assert_eq!((found.bound, placement.hosts_used()), (20, 20));
    assert_eq!(found.proves(&problem, 100_000), 20);
    assert!(exact(&problem, 1_000).is_optimal);
}

/// Twenty classes that all send, where cores bind all the same.
#[test]
fn cores_are_proven_at_once() {
    let mut problem = three_classes(0);
    problem.types = vec![host_type(62, 256, 10 * GBIT, 1)];
    problem.classes = (1..=20)
        .map(|it| class(5_000, 1 << (it % 3), 4, Source::on_off(it * 10 * MBIT, 0.1), 1))
        .collect();
    let cores: u32 = problem.classes.iter().map(|it| it.count * it.cores).sum();
    let found = lower_bound(&problem, BoundSettings { rounds: 20, steps: 500 });
    assert_eq!(found.bound, u64::from(cores.div_ceil(62)));
    assert_eq!(found.proves(&problem, 1), found.bound);
}

/// Twelve classes of two machines each, whose peaks sum to 7620 Mbit/s, on hosts that carry 1000.
/// Those that are on for half of the time are all at their peaks at once for more than the goal, as
/// few as go to a host. So a host takes peaks that sum to 1000, and seven hosts are too few. Eight
/// are enough: two for each three classes in a row.
#[test]
fn exact_knows_the_optimum_of_a_dozen_classes() {
    let peaks = [450, 300, 200, 480, 280, 190, 520, 260, 180, 550, 250, 150];
    let loads: [fn(u64) -> Source; 2] = [Source::constant, |peak| Source::on_off(peak, 0.5)];
    for load in loads {
        let mut problem = three_classes(24);
        problem.classes = peaks.map(|mbit| class(2, 1, 4, load(mbit * MBIT), 1)).into();
        let found = exact(&problem, 20_000);
        assert_eq!(check(&problem, &found.placement), Ok(()));
        assert_eq!(found.placement.unplaced(&problem), [0; 12]);
        assert_eq!((found.placement.hosts_used(), found.is_optimal), (8, true));
    }
}

/// Twelve classes that are limited by the network: what was placed is the optimum, or within a
/// twentieth of what is proven.
#[test]
fn a_dozen_classes_are_within_a_twentieth_of_their_bound() {
    let mut problem = three_classes(400);
    problem.types = vec![host_type(64, 256, 2 * GBIT, 1)];
    problem.classes = (1..=12)
        .map(|it| {
            let source = Source::on_off(it * 15 * MBIT, 0.3 / it as f64);
            class(100, 1 + it as u32 % 3, 4, source, 1)
        })
        .collect();
    let found = lower_bound(&problem, BoundSettings::default());
    let placement = place(&problem, &Placement::empty(&problem));
    assert_eq!(placement.unplaced(&problem).iter().sum::<u32>(), 0);
    let hosts = placement.hosts_used() as f64;
    assert!(hosts <= 1.05 * found.bound as f64, "{hosts} hosts, at least {}", found.bound);
}
