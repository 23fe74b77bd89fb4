//! What is improved, gathered and explained.

use demand::Source;
use placement::{
    Cluster, Goal, Host, Limit, Periods, Placement, Problem, Refusal, Remedy, check, gather,
    host_risk, improve, place, rack_traffic, risks, why, why_nowhere,
};
use proptest::prelude::*;

use crate::worlds::{GBIT, MBIT, any_problem, class, host_type, three_classes};

/// One machine a host, as far as there are hosts.
fn spread(problem: &Problem) -> Placement {
    let mut placement = Placement::empty(problem);
    let mut hosts = 0..problem.hosts.len();
    for (class, it) in problem.classes.iter().enumerate() {
        for _ in 0..it.count {
            let Some(host) = hosts.next() else { return placement };
            placement.hosts[host].add(class, 1);
            if check(problem, &placement).is_err() {
                placement.hosts[host].remove(class);
            }
        }
    }
    placement
}

fn worst(problem: &Problem, placement: &Placement) -> f64 {
    risks(problem, placement).iter().map(|it| it.overload.high).fold(0.0, f64::max)
}

#[test]
fn machines_that_are_spread_are_brought_together() {
    let problem = three_classes(180);
    let before = spread(&problem);
    let after = improve(&problem, &before, 1_000_000);
    assert_eq!(check(&problem, &after), Ok(()));
    assert_eq!(after.unplaced(&problem), before.unplaced(&problem));
    assert!(after.hosts_used() <= 22, "{} of {}", after.hosts_used(), before.hosts_used());
}

#[test]
fn the_worst_host_is_relieved() {
    let problem = three_classes(21);
    let before = place(&problem, &Placement::empty(&problem));
    assert_eq!(before.unplaced(&problem), [0; 3]);
    let after = improve(&problem, &before, 1_000_000);
    assert!(after.hosts_used() <= before.hosts_used());
    assert!(worst(&problem, &after) <= worst(&problem, &before));
}

proptest! {
    #[test]
    fn improvements_keep_every_rule_and_every_machine(
        problem in any_problem(),
        steps in 0u64..500,
        seed in any::<u64>(),
    ) {
        for before in [place(&problem, &Placement::empty(&problem)), spread(&problem)] {
            prop_assert_eq!(check(&problem, &before), Ok(()));
            let after = improve(&problem, &before, steps);
            prop_assert_eq!(check(&problem, &after), Ok(()));
            prop_assert_eq!(after.unplaced(&problem), before.unplaced(&problem));
            prop_assert!(after.cost(&problem) <= before.cost(&problem));
            let near = gather(&problem, &after, 50, seed);
            prop_assert_eq!(check(&problem, &near), Ok(()));
            prop_assert_eq!(near.unplaced(&problem), before.unplaced(&problem));
            prop_assert!(rack_traffic(&problem, &near) <= rack_traffic(&problem, &after));
        }
    }

    #[test]
    fn a_reason_is_given_exactly_if_a_machine_does_not_fit(
        problem in any_problem(),
        asked in 0usize..3,
    ) {
        let asked = asked % problem.classes.len();
        let placement = place(&problem, &Placement::empty(&problem));
        let nowhere = why_nowhere(&problem, &placement, asked);
        for host in 0..problem.hosts.len() {
            let mut more = problem.clone();
            more.classes[asked].count += 1;
            let mut with = placement.clone();
            with.hosts[host].add(asked, 1);
            let fits = check(&more, &with).is_ok();
            let why = why(&problem, &placement, asked, host);
            prop_assert_eq!(why.refusals.is_empty(), fits, "{:?}", why);
            prop_assert_eq!(nowhere.takes.contains(&host), fits);
            for remedy in why.remedies {
                match remedy {
                    Remedy::Without { class } => {
                        let mut without = with.clone();
                        without.hosts[host].remove(class);
                        prop_assert_eq!(check(&more, &without), Ok(()));
                    }
                    Remedy::Capacity { limit, from } => {
                        let kind = problem.hosts[host].kind;
                        let mut larger = more.clone();
                        larger.types[kind].limits[limit].capacity = from;
                        let risk = host_risk(&larger, kind, &with.hosts[host]);
                        prop_assert!(risk.overload.low <= problem.goal.epsilon);
                    }
                }
            }
        }
    }
}

#[test]
fn a_full_host_says_what_would_make_room() {
    let problem = three_classes(1);
    let placement = place(&problem, &Placement::empty(&problem));
    let said = why(&problem, &placement, 2, 0);
    assert_eq!(said.refusals, [Refusal::Overload { limit: 0 }]);
    assert!(said.before.high <= 1e-3 && said.after.low > 1e-3, "{said:?}");
    let Some(Remedy::Capacity { limit: 0, from }) = said.remedies.first() else {
        panic!("{said:?}")
    };
    assert!((GBIT..2 * GBIT).contains(from), "{from}");
}

/// In the first period, a fiftieth of the time, both limits are exceeded whatever happens. In the
/// second a machine exceeds the third limit for a twentieth, which is more of all time.
#[test]
fn of_a_mean_the_limit_that_adds_most_is_named() {
    let mut problem = three_classes(1);
    problem.goal = Goal { epsilon: 0.03, periods: Periods::Mean(vec![0.02, 0.98]) };
    let limits = [0, 0, 1].map(|period| Limit { capacity: 50, period });
    problem.types[0].limits = limits.into();
    let [always, seldom] = [Source::constant(100), Source::on_off(100, 0.05)];
    problem.classes.truncate(1);
    problem.classes[0].loads = vec![vec![always.clone(), always, seldom]];
    let said = why(&problem, &Placement::empty(&problem), 0, 0);
    assert_eq!(said.refusals, [Refusal::Overload { limit: 2 }]);
    assert_eq!(said.remedies, [Remedy::Capacity { limit: 2, from: 100 }]);
}

#[test]
fn clusters_are_gathered_in_racks() {
    let mut problem = three_classes(16);
    problem.hosts = (0..16).map(|host| Host { kind: 0, rack: host % 2 }).collect();
    problem.types = vec![host_type(64, 256, 10 * GBIT, 1)];
    problem.clusters = vec![Cluster { hose: MBIT }; 2];
    problem.classes = (0..2)
        .map(|cluster| placement::Class {
            cluster: Some(cluster),
            ..class(16, 4, 8, Source::on_off(10 * MBIT, 0.5), 1)
        })
        .collect();
    let mut mixed = Placement::empty(&problem);
    for host in &mut mixed.hosts {
        host.add(0, 1);
        host.add(1, 1);
    }
    assert_eq!(rack_traffic(&problem, &mixed), 2 * 2 * 8 * MBIT);
    let near = gather(&problem, &mixed, 10_000, 1);
    assert_eq!(rack_traffic(&problem, &near), 0);
    assert_eq!(near, gather(&problem, &mixed, 10_000, 1));
}
