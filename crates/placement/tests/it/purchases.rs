//! What to buy.

use demand::Source;
use placement::{Binding, Host, Placement, Problem, buy, place, risks};
use proptest::prelude::*;

use crate::worlds::{GBIT, MBIT, any_problem, class, host_type, three_classes};

/// Large hosts look cheapest by their cores; their switch does not carry what these machines send.
#[test]
fn the_network_changes_what_is_cheapest() {
    let mut problem = three_classes(0);
    problem.types = vec![host_type(64, 512, 2 * GBIT, 16_500), host_type(16, 128, 2 * GBIT, 6_000)];
    problem.classes = vec![class(600, 1, 4, Source::on_off(200 * MBIT, 0.15), 2)];
    let quotes = buy(&problem, &[600, 250]);
    let [large, small] = &quotes[..] else { panic!() };
    assert!(large.ignored.price < small.ignored.price, "{quotes:?}");
    assert!(large.price > small.price, "{quotes:?}");
    assert_eq!((large.binds, small.binds), (Binding::Limit(0), Binding::Cores));
    assert!(large.ignored.overload > 0.1 && small.ignored.overload <= 1e-3, "{quotes:?}");
    assert!(!large.is_efficient || large.cores_free > small.cores_free);
    assert!(small.is_efficient);
    // What one small host may become dearer.
    let more = large.break_even(small);
    assert!((more * small.hosts as f64 - (large.price - small.price) as f64).abs() < 1e-6);
    assert!(more > 0.0);
}

#[test]
fn a_machine_that_fits_no_host_is_told() {
    let mut problem = three_classes(0);
    problem.classes[2].cores = 100;
    let quotes = buy(&problem, &[500]);
    assert_eq!(quotes[0].unplaced, 40);
}

/// The problem with hosts of one type, enough for all machines.
fn with_hosts(problem: &Problem, kind: usize) -> Problem {
    let hosts = (0..problem.machines() as usize).map(|rack| Host { kind, rack });
    Problem { hosts: hosts.collect(), ..problem.clone() }
}

/// The same without limits.
fn without_network(problem: &Problem) -> Problem {
    let mut blind = problem.clone();
    blind.types.iter_mut().for_each(|it| it.limits.clear());
    blind.classes.iter_mut().flat_map(|it| &mut it.loads).for_each(Vec::clear);
    blind
}

proptest! {
    #[test]
    fn a_quote_is_what_placing_and_judging_say(problem in any_problem()) {
        for quote in buy(&problem, &[500, 900]) {
            let own = with_hosts(&problem, quote.kind);
            let placement = place(&own, &Placement::empty(&own));
            let unplaced: u32 = placement.unplaced(&own).iter().sum();
            prop_assert_eq!(quote.hosts, placement.hosts_used());
            prop_assert_eq!(quote.unplaced, u64::from(unplaced));
            let blind = place(&without_network(&own), &Placement::empty(&own));
            prop_assert_eq!(quote.ignored.hosts, blind.hosts_used());
            let overloads = risks(&own, &blind).into_iter().map(|it| it.overload.high);
            let worst = overloads.fold(0.0, f64::max);
            // A bracket may be a twentieth wide, and wider far below the goal.
            let least = 0.95 * worst - problem.goal.epsilon / 100.0;
            let told = quote.ignored.overload;
            prop_assert!(told >= least && told <= worst * (1.0 + 1e-9), "{told} {worst}");
        }
    }
}
