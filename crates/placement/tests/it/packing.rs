//! What is placed obeys every rule.

use placement::paper::{self, Tunnels};
use placement::{Placement, check, place, risks};
use proptest::prelude::*;

use crate::worlds::{any_problem, three_classes};

/// The machines of a problem as a list, classes in turn.
fn list(problem: &placement::Problem) -> Vec<usize> {
    let mut left: Vec<u32> = problem.classes.iter().map(|it| it.count).collect();
    let mut list = Vec::new();
    while left.iter().any(|it| *it > 0) {
        for (class, left) in left.iter_mut().enumerate().filter(|(_, left)| **left > 0) {
            list.push(class);
            *left -= 1;
        }
    }
    list
}

#[test]
fn risk_needs_more_hosts_than_averages_and_fewer_than_peaks() {
    let problem = three_classes(60);
    let list = list(&problem);
    let ours = place(&problem, &Placement::empty(&problem));
    assert_eq!(check(&problem, &ours), Ok(()));
    assert_eq!(ours.unplaced(&problem), [0, 0, 0]);
    let averages = paper::network_aware(&problem, &list, &[Tunnels::default()]);
    let peaks = paper::peaks_reserved(&problem, &list);
    let used = [&averages, &ours, &peaks].map(|it| it.hosts_used());
    assert!(used[0] < used[1] && used[1] < used[2], "{used:?}");
    let worst =
        |it: &Placement| risks(&problem, it).iter().map(|it| it.overload.high).fold(0.0, f64::max);
    assert!(worst(&ours) <= 1e-3);
    assert!(worst(&averages) > 0.1, "{}", worst(&averages));
    assert_eq!(worst(&peaks), 0.0);
}

#[test]
fn figures_as_printed_decide_nothing() {
    let problem = three_classes(1);
    let list = list(&problem);
    assert_eq!(paper::simple_count_as_printed(&list), 180);
    let tunnels = Tunnels { most: Some(100) };
    assert_eq!(paper::network_aware_as_printed(&problem, 0, &list, tunnels), 0);
    assert_eq!(paper::simple_count(&problem, &list).hosts[0].machines(), 48);
}

proptest! {
    #[test]
    fn every_rule_is_kept(problem in any_problem()) {
        let placement = place(&problem, &Placement::empty(&problem));
        prop_assert_eq!(check(&problem, &placement), Ok(()));
        // What is left out does not fit any host as it is.
        let left = placement.unplaced(&problem);
        for (class, _) in left.iter().enumerate().filter(|(_, left)| **left > 0) {
            for host in 0..problem.hosts.len() {
                let mut more = placement.clone();
                more.hosts[host].add(class, 1);
                prop_assert!(check(&problem, &more).is_err(), "class {class} fits host {host}");
            }
        }
    }

    #[test]
    fn what_is_there_stays(problem in any_problem()) {
        let first = place(&problem, &Placement::empty(&problem));
        let mut fewer = first.clone();
        if let Some(host) = fewer.hosts.iter_mut().find(|it| !it.is_empty()) {
            let class = host.iter().next().unwrap().0;
            host.remove(class);
        }
        let again = place(&problem, &fewer);
        prop_assert_eq!(check(&problem, &again), Ok(()));
        for (before, after) in fewer.hosts.iter().zip(&again.hosts) {
            for (class, count) in before.iter() {
                prop_assert!(after.count(class) >= count);
            }
        }
    }
}
