//! Advice to move.

use demand::Source;
use placement::{
    Advice, History, Host, Move, MoveSettings, Pattern, Placement, Problem, Watch, advise,
    host_risk,
};
use proptest::prelude::*;
use units::{Instant, Span};

use crate::worlds::{GBIT, MBIT, any_problem, class, host_type, three_classes};

fn settings(problem: &Problem) -> MoveSettings {
    MoveSettings {
        horizon: Span::from_secs(6 * 3600),
        cooldown: Span::from_secs(1800),
        aim: 0.5,
        most: 10,
        rate: GBIT,
        dirty: vec![100 * MBIT; problem.classes.len()],
        flow: problem.types.iter().map(|it| vec![0; it.limits.len()]).collect(),
    }
}

fn overload(problem: &Problem, placement: &Placement, host: usize) -> f64 {
    host_risk(problem, problem.hosts[host].kind, &placement.hosts[host]).overload.high
}

/// A host with twice what it should have, and one that is half empty.
fn uneven() -> (Problem, Placement) {
    let mut problem = three_classes(3);
    problem.types = vec![host_type(64, 256, GBIT, 1)];
    problem.classes = vec![class(60, 1, 2, Source::on_off(100 * MBIT, 0.1), 1)];
    let mut placement = Placement::empty(&problem);
    placement.hosts[0] = Pattern::new([(0, 42)]);
    placement.hosts[1] = Pattern::new([(0, 18)]);
    (problem, placement)
}

#[test]
fn an_overloaded_host_gives_machines_away_until_half_the_goal() {
    let (problem, placement) = uneven();
    let found =
        advise(&problem, &placement, &[0], &History::default(), Instant::ZERO, &settings(&problem));
    assert!(!found.steps.is_empty() && found.go_secs < found.stay_secs / 2.0, "{found:?}");
    let mut after = placement.clone();
    for step in &found.steps {
        let Move { class, from, to } = step.it;
        assert_eq!((from, to), (0, 1));
        after.hosts[from].remove(class);
        after.hosts[to].add(class, 1);
        // 2 GiB at 900 Mb/s.
        assert_eq!(step.takes.as_nanos() / 1_000_000_000, 19);
    }
    assert!(overload(&problem, &after, 0) <= 5e-4);
    assert!(overload(&problem, &after, 1) <= 5e-4);
}

#[test]
fn who_came_rests_and_nobody_goes_back() {
    let (problem, placement) = uneven();
    let mut history = History::default();
    for _ in 0..42 {
        history.note(Instant::ZERO, Move { class: 0, from: 2, to: 0 });
    }
    let at = |secs| Instant::ZERO + Span::from_secs(secs);
    let ask = |history: &History, now| {
        advise(&problem, &placement, &[0], history, now, &settings(&problem))
    };
    assert_eq!(ask(&history, at(60)).steps, []);
    let later = ask(&history, at(1800));
    assert!(later.steps.iter().all(|it| it.it.to == 1) && !later.steps.is_empty());
    let mut back = History::default();
    back.note(Instant::ZERO, Move { class: 0, from: 1, to: 0 });
    back.note(Instant::ZERO, Move { class: 0, from: 2, to: 0 });
    assert_eq!(ask(&back, at(2000)).steps, []);
    assert_ne!(ask(&back, at(6 * 3600)).steps, [], "it is long ago");
}

#[test]
fn a_host_that_may_not_be_gone_back_to_hides_none_that_is_like_it() {
    let (problem, mut placement) = uneven();
    placement.hosts[1] = Pattern::default();
    let mut history = History::default();
    history.note(Instant::ZERO, Move { class: 0, from: 1, to: 0 });
    let now = Instant::ZERO + Span::from_secs(1800);
    let found = advise(&problem, &placement, &[0], &history, now, &settings(&problem));
    assert!(!found.steps.is_empty() && found.steps.iter().all(|it| it.it.to == 2), "{found:?}");
}

#[test]
fn staying_is_the_advice_where_migration_costs_more_than_it_saves() {
    let (problem, placement) = uneven();
    let mut settings = settings(&problem);
    settings.horizon = Span::from_secs(20);
    // The migration itself fills the switch.
    settings.flow = vec![vec![GBIT / 2]];
    let found = advise(&problem, &placement, &[0], &History::default(), Instant::ZERO, &settings);
    assert_eq!((found.steps.len(), found.stay_secs), (0, found.go_secs));
    settings.dirty = vec![2 * GBIT];
    settings.horizon = Span::from_secs(6 * 3600);
    settings.flow = vec![vec![0]];
    let found = advise(&problem, &placement, &[0], &History::default(), Instant::ZERO, &settings);
    assert_eq!(found.steps, [], "a machine that changes its memory faster than it is sent stays");
}

#[test]
fn a_third_host_makes_room() {
    // Constant loads of a gigabit: 0 has 700 + 400, 1 has 500 + 300, 2 has 650. Neither takes 400
    // or 700 until 300 has gone from 1 to 2.
    let mut problem = three_classes(3);
    problem.hosts = (0..3).map(|rack| Host { kind: 0, rack }).collect();
    problem.classes = [700, 400, 500, 300, 650]
        .map(|mbit| class(1, 1, 1, Source::constant(mbit * MBIT), 1))
        .into();
    let mut placement = Placement::empty(&problem);
    for (host, class) in [(0, 0), (0, 1), (1, 2), (1, 3), (2, 4)] {
        placement.hosts[host].add(class, 1);
    }
    let Advice { steps, go_secs, .. } =
        advise(&problem, &placement, &[0], &History::default(), Instant::ZERO, &settings(&problem));
    let moves: Vec<Move> = steps.iter().map(|it| it.it).collect();
    assert_eq!(moves, [Move { class: 3, from: 1, to: 2 }, Move { class: 1, from: 0, to: 1 }]);
    assert_eq!(go_secs, 0.0);
}

#[test]
fn a_moment_is_no_overload() {
    let mut watch = Watch::new(vec![0; 2], 3);
    let mut seen = Vec::new();
    for low in [[2e-3, 0.0], [2e-3, 2e-3], [0.0, 2e-3], [2e-3, 2e-3], [0.0, 0.0]] {
        seen.push(watch.observe(&low, 1e-3));
    }
    assert_eq!(seen, [vec![], vec![], vec![], vec![1], vec![]]);
    // What was seen before counts.
    let mut watch = Watch::new(vec![2, 0], 3);
    assert_eq!(watch.observe(&[2e-3, 2e-3], 1e-3), [0]);
    assert_eq!(watch.above(), [3, 1]);
}

proptest! {
    /// Whatever is overloaded: each step leads to a host with room, and what is done is better than
    /// to stay.
    #[test]
    fn no_step_makes_another_host_worse_than_the_goal(
        problem in any_problem(),
        extra in prop::collection::vec((0usize..3, 0usize..12), 1..12),
    ) {
        let mut problem = problem;
        let mut placement = Placement::empty(&problem);
        for (class, host) in extra {
            let (class, host) = (class % problem.classes.len(), host % problem.hosts.len());
            let mut more = placement.clone();
            more.hosts[host].add(class, 1);
            let machines = more.hosts.iter().map(|it| it.count(class)).sum::<u32>();
            let cores = more.hosts[host].iter().map(|(class, n)| problem.classes[class].cores * n).sum::<u32>();
            let memory = more.hosts[host].iter().map(|(class, n)| problem.classes[class].memory * u64::from(n)).sum::<u64>();
            let kind = &problem.types[problem.hosts[host].kind];
            if machines <= problem.classes[class].count && cores <= kind.cores && memory <= kind.memory {
                placement = more;
            }
        }
        problem.classes.iter_mut().for_each(|it| it.apart = None);
        let epsilon = problem.goal.epsilon;
        let over: Vec<usize> =
            (0..problem.hosts.len()).filter(|host| overload(&problem, &placement, *host) > epsilon).collect();
        let found = advise(&problem, &placement, &over, &History::default(), Instant::ZERO, &settings(&problem));
        prop_assert!(found.go_secs <= found.stay_secs + 1e-9, "{found:?}");
        for step in &found.steps {
            let Move { class, from, to } = step.it;
            placement.hosts[from].remove(class);
            placement.hosts[to].add(class, 1);
            prop_assert!(overload(&problem, &placement, to) <= epsilon);
        }
    }
}
