//! What hosts say of one more machine while machines come and go.

use placement::{Placement, Problem, Refusal, Tables, Vacancies, why};
use proptest::prelude::*;

use crate::worlds::{any_problem, three_classes};

/// Whether overload alone would refuse.
fn is_overload(problem: &Problem, placement: &Placement, class: usize, host: usize) -> bool {
    let why = why(problem, placement, class, host);
    why.refusals.iter().any(|it| matches!(it, Refusal::Overload { .. }))
}

#[test]
fn a_host_takes_machines_until_one_too_many_and_less_is_left_by_and_by() {
    let problem = three_classes(2);
    let tables = Tables::new(&problem);
    let mut vacancies = Vacancies::new(&tables, &Placement::empty(&problem), &[0, 0]);
    // P(Bin(38, 0.1) > 10) is 9.0e-4, and with 39 it is 1.15e-3.
    let mut left = Vec::new();
    for _ in 0..38 {
        let vacancy = vacancies.vacancy(1, 0);
        assert!(vacancy.fits, "{vacancy:?}");
        left.push(vacancy.left);
        vacancies.put(1, 0);
    }
    assert!(left.is_sorted_by(|a, b| a >= b), "{left:?}");
    assert!(left[0] > 0.85 && left[20] > 0.2 && left[37] < 0.05, "{left:?}");
    let full = vacancies.vacancy(1, 0);
    assert!(!full.fits && full.overload.low > 1e-3 && full.overload.high < 1.2e-3, "{full:?}");
    assert!(vacancies.overload(1).high < 1e-3);
    // The other host is as empty as before, and the two differ.
    assert!(vacancies.vacancy(0, 0).fits);
    assert_eq!((vacancies.contents(), vacancies.pattern(1).count(0)), (2, 38));
    (0..38).for_each(|_| vacancies.remove(1, 0));
    assert_eq!((vacancies.contents(), vacancies.overload(1).high), (1, 0.0));
}

proptest! {
    #[test]
    fn what_is_kept_is_what_would_be_computed_anew(
        problem in any_problem(),
        changes in prop::collection::vec((any::<bool>(), 0usize..12, 0usize..4), 1..40),
    ) {
        let tables = Tables::new(&problem);
        let mut placement = Placement::empty(&problem);
        let mut vacancies = Vacancies::new(&tables, &placement, &[0]);
        for (comes, host, class) in changes {
            let (host, class) = (host % problem.hosts.len(), class % problem.classes.len());
            if comes && placement.hosts[host].machines() < 8 {
                placement.hosts[host].add(class, 1);
                vacancies.put(host, class);
            } else if placement.hosts[host].count(class) > 0 {
                placement.hosts[host].remove(class);
                vacancies.remove(host, class);
            }
            let vacancy = vacancies.vacancy(host, class);
            prop_assert_eq!(!vacancy.fits, is_overload(&problem, &placement, class, host));
            prop_assert!((0.0..=1.0).contains(&vacancy.left));
        }
        prop_assert!(vacancies.contents() <= problem.hosts.len());
        for host in 0..problem.hosts.len() {
            prop_assert_eq!(vacancies.pattern(host), &placement.hosts[host]);
        }
    }
}
