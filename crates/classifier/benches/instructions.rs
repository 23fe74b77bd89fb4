//! How many instructions a search costs, and whether that is still as few as it was.
//!
//! `cargo bench -p classifier --bench instructions`. Keys have eight words. `exact` finds what
//! is remembered; `first` decides a packet of which nothing is remembered, with 100,000 members in
//! 100 sets and so many rules, of which hardly one holds but the last, and keeps it; `member` adds
//! one to so many, or takes it away. What the bench itself does counts.

use std::process::ExitCode;

use classifier::cells::{CellId, Cells, Depends};
use classifier::class::SetId;
use classifier::classes::{Classes, Member};
use classifier::decisions::{Condition, Decisions, End, Facts, Memory, Peer, Rule};
use classifier::exact::Exact;
use classifier::intervals::{Form, Services};
use classifier::table::HashKey;
use units::Rng;

const CASES: [callgrind::Case<'_>; 5] = [
    ("exact 1", 65.5),
    ("first 10", 2860.0),
    ("first 1000", 3705.0),
    ("first 10000", 11016.0),
    ("member 100000", 3673.0),
];

const KEY: HashKey = HashKey([0x1234_5678_9abc_def1, 0x0fed_cba9_8765_4321]);
const SETS: u32 = 100;
const MEMBERS: u32 = 100_000;

fn main() -> ExitCode {
    callgrind::main("search", &CASES, 20_000, searches)
}

fn searches(case: &str, much: u64) -> u64 {
    let (kind, many) = case.split_once(' ').expect("a case is two words");
    let many: u64 = many.parse().expect("the second is a number");
    match kind {
        "exact" => exact(much),
        "first" => first(many, much),
        _ => member(much),
    }
    much
}

fn exact(much: u64) {
    let cells = Cells::new(8);
    let mut flows = Exact::new(1024, KEY);
    let key = |flow: u64| [flow & 511, 1, 2, 3, 4, 5, 6, 7];
    for flow in 0..512 {
        flows.insert(&cells, key(flow), flow, Depends::now(&cells));
    }
    let found: u64 = (0..much).filter_map(|flow| flows.find(&cells, &key(flow))).sum();
    assert!(found > much, "most are found");
}

/// The place of a member: anywhere among the addresses.
fn address(member: u32) -> u32 {
    member.wrapping_mul(0x9e37_79b1)
}

fn members() -> Classes {
    let mut classes = Classes::default();
    for member in 0..MEMBERS {
        let address = address(member);
        classes.add(SetId(member % SETS), Member::V4(address, address), |_| {});
    }
    classes
}

fn first(rules: u64, much: u64) {
    let classes = members();
    let forms = (0..1000_u16).map(|it| {
        let form = Form { protocol: 6, destination: vec![(it, it)], source: vec![] };
        (SetId(it.into()), form)
    });
    let mut services = Services::new(forms, 1024, KEY);
    let mut level: Vec<Rule> = (1..rules as u32)
        .map(|rule| {
            let peer = |set| Some(Peer { sets: vec![SetId(set % SETS)], ..Peer::default() });
            let condition = Condition {
                source: peer(rule),
                // Never the one that it is sent to.
                destination: peer(rule + 1),
                services: vec![SetId(rule % 1000)],
                ..Condition::default()
            };
            Rule { conditions: vec![condition], names_control: true, ..Rule::default() }
        })
        .collect();
    level.push(Rule { names_control: true, ..Rule::default() });
    let memory = Memory { bitmaps: 1024, decisions: 4096 };
    let mut list = Decisions::new(&[level], memory, KEY);
    let cells = Cells::new(8);
    let mut known: Exact<8, Option<u32>> = Exact::new(4096, KEY);
    let mut rng = Rng::new(1);
    for _ in 0..much {
        let source = address(rng.below(MEMBERS.into()) as u32 / SETS * SETS + 3);
        let destination = address(rng.below(MEMBERS.into()) as u32);
        let port = rng.below(2000) as u16;
        let key = [source.into(), destination.into(), rng.next_u64(), port.into(), 4, 5, 6, 7];
        let mut depends = Depends::now(&cells);
        let source = classes.class_of_v4(source);
        let destination = classes.class_of_v4(destination);
        let service = services.class_of(6, 7, port);
        let found = list.decide(&Facts {
            source: End::Address(source.class),
            destination: End::Address(destination.class),
            service: service.class,
            ..Facts::default()
        });
        depends.on(CellId(1));
        depends.on(CellId(2));
        known.insert(&cells, key, found.rule, depends);
    }
}

fn member(much: u64) {
    let mut classes = members();
    for change in 0..much as u32 / 2 {
        let member = Member::V4(address(change) ^ 1, address(change) ^ 1);
        classes.add(SetId(7), member, |_| {});
        assert!(classes.remove(SetId(7), member, |_| {}));
    }
}
