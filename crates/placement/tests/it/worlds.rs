//! Problems: one that is written down, and any small one.

use demand::Source;
use placement::{Apart, Class, Cluster, Domain, Goal, Host, HostType, Limit, Periods, Problem};
use proptest::prelude::*;

pub const GBIT: u64 = 1_000_000_000;
pub const MBIT: u64 = 1_000_000;
pub const GIB: u64 = 1 << 30;

/// A class with one limit, whose load is the same on every type.
pub fn class(count: u32, cores: u32, gib: u64, load: Source, types: usize) -> Class {
    Class {
        count,
        cores,
        memory: gib * GIB,
        loads: vec![vec![load]; types],
        together: None,
        apart: None,
        cluster: None,
    }
}

pub fn host_type(cores: u32, gib: u64, capacity: u64, cost: u64) -> HostType {
    HostType { cores, memory: gib * GIB, limits: vec![Limit { capacity, period: 0 }], cost }
}

/// 180 machines in three classes on hosts that carry a gigabit.
pub fn three_classes(hosts: usize) -> Problem {
    Problem {
        goal: Goal { epsilon: 1e-3, periods: Periods::Worst },
        types: vec![host_type(64, 256, GBIT, 1)],
        hosts: (0..hosts).map(|host| Host { kind: 0, rack: host / 8 }).collect(),
        classes: vec![
            class(60, 1, 2, Source::on_off(100 * MBIT, 0.1), 1),
            class(
                80,
                1,
                2,
                Source::new([(5 * MBIT, 0.6), (60 * MBIT, 0.3), (200 * MBIT, 0.1)]).unwrap(),
                1,
            ),
            class(40, 2, 4, Source::on_off(400 * MBIT, 0.05), 1),
        ],
        clusters: vec![],
    }
}

fn any_source() -> impl Strategy<Value = Source> {
    prop::collection::vec((0u64..600, 1u32..100), 1..4).prop_map(|states| {
        let sum: u32 = states.iter().map(|it| it.1).sum();
        Source::new(states.iter().map(|(rate, share)| (*rate, f64::from(*share) / f64::from(sum))))
            .unwrap()
    })
}

fn any_apart() -> impl Strategy<Value = Option<Apart>> {
    prop_oneof![
        4 => Just(None),
        1 => (0usize..2).prop_map(|group| Some(Apart { group, domain: Domain::Host })),
        1 => (2usize..4).prop_map(|group| Some(Apart { group, domain: Domain::Rack })),
    ]
}

/// A few classes, one or two types, and hosts enough or not; of one period or of two.
pub fn any_problem() -> impl Strategy<Value = Problem> {
    let class = (
        1u32..6,
        1u32..5,
        1u64..5,
        (any_source(), any_source()),
        any_apart(),
        prop::option::weighted(0.2, 0usize..2),
    )
        .prop_map(|(count, cores, gib, (load, rest), apart, together)| Class {
            apart,
            together,
            cluster: Some(0),
            loads: vec![vec![load.clone(), rest]; 2],
            ..class(count, cores, gib, load, 2)
        });
    let epsilon = prop_oneof![Just(1e-1), Just(1e-2), Just(1e-3)];
    let periods = prop_oneof![
        2 => Just(None),
        1 => Just(Some(Periods::Worst)),
        1 => Just(Some(Periods::Mean(vec![0.25, 0.75]))),
    ];
    (prop::collection::vec(class, 1..4), 600u64..2000, 1usize..12, epsilon, periods).prop_map(
        |(mut classes, capacity, hosts, epsilon, periods)| {
            let mut types = vec![host_type(8, 12, capacity, 2), host_type(12, 24, capacity * 2, 3)];
            if periods.is_some() {
                let second = |it: &HostType| Limit { period: 1, ..it.limits[0] };
                types.iter_mut().for_each(|it| it.limits.push(second(it)));
            } else {
                classes.iter_mut().flat_map(|it| &mut it.loads).for_each(|it| it.truncate(1));
            }
            Problem {
                goal: Goal { epsilon, periods: periods.unwrap_or(Periods::Worst) },
                types,
                hosts: (0..hosts).map(|host| Host { kind: host % 2, rack: host / 3 }).collect(),
                classes,
                clusters: vec![Cluster { hose: 10 }],
            }
        },
    )
}
