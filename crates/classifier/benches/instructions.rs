//! How many instructions a search costs, and whether that is still as few as it was.
//!
//! `cargo bench -p classifier --bench instructions`. Keys have eight words. `exact` and `mega` find
//! what is remembered, under the last of so many masks; `first` decides a packet of which nothing
//! is remembered, with 100,000 members in 100 sets and so many rules, of which hardly one holds
//! but the last, and keeps it. What the bench itself does counts.

use std::process::ExitCode;

use classifier::cells::{CellId, Cells, Depends};
use classifier::class::SetId;
use classifier::classes::{Classes, Member};
use classifier::decisions::{Condition, Decisions, End, Facts, Memory, Peer, Rule};
use classifier::exact::Exact;
use classifier::intervals::{Form, Services};
use classifier::megaflows::Megaflows;
use classifier::table::HashKey;
use classifier::tracked::{Field, Tracked};
use units::Rng;

const CASES: [callgrind::Case<'_>; 8] = [
    ("exact 1", 65.5),
    ("mega 1", 123.0),
    ("mega 8", 620.0),
    ("mega 32", 2324.0),
    ("first 10", 3212.0),
    ("first 1000", 3964.0),
    ("first 10000", 11016.0),
    ("member 100000", 3673.0),
];

const KEY: HashKey = HashKey([0x1234_5678_9abc_def1, 0x0fed_cba9_8765_4321]);
const SETS: u32 = 100;
const MEMBERS: u32 = 100_000;
const SOURCE: Field = Field::new(0, 128);
const DESTINATION: Field = SOURCE.then(128);

fn main() -> ExitCode {
    callgrind::main("search", &CASES, 20_000, searches)
}

fn searches(case: &str, much: u64) -> u64 {
    let (kind, many) = case.split_once(' ').expect("a case is two words");
    let many: u64 = many.parse().expect("the second is a number");
    match kind {
        "exact" => exact(much),
        "mega" => mega(many, much),
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

fn mega(masks: u64, much: u64) {
    let cells = Cells::new(8);
    let mut flows = Megaflows::new(32, 1024, KEY);
    for mask in 1..=masks {
        let bits = [u64::MAX, u64::MAX << mask, 0, 0, u64::MAX, 0, u64::MAX, 0];
        flows.insert(&cells, &[mask, 0, 2, 3, 4, 5, 6, 7], &bits, mask, Depends::now(&cells));
    }
    let mut found = 0;
    for flow in 0..much {
        let key = [masks, 1, flow, 3, 4, flow, 6, flow];
        found += flows.find(&cells, &key).map_or(0, |(value, _)| *value);
    }
    assert_eq!(found, masks * much, "the last mask has them");
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
    let mut flows: Megaflows<8, Option<u32>> = Megaflows::new(32, 4096, KEY);
    let mut rng = Rng::new(1);
    for _ in 0..much {
        let source = address(rng.below(MEMBERS.into()) as u32 / SETS * SETS + 3);
        let destination = address(rng.below(MEMBERS.into()) as u32);
        let port = rng.below(2000) as u16;
        let mut key = [0, 0, 0, 0, rng.next_u64(), port.into(), 6, 7];
        SOURCE.set(&mut key, u128::from(source) << 96);
        DESTINATION.set(&mut key, u128::from(destination) << 96);
        let mut depends = Depends::now(&cells);
        let mut packet = Tracked::new(&key);
        let source = classes.class_of_v4((packet.peek(SOURCE) >> 96) as u32);
        let destination = classes.class_of_v4((packet.peek(DESTINATION) >> 96) as u32);
        let service = services.class_of(6, 7, port);
        let found = list.decide(&Facts {
            source: End::Address(source.class),
            destination: End::Address(destination.class),
            service: service.class,
            ..Facts::default()
        });
        packet.note(SOURCE, source.bits);
        packet.note(DESTINATION, destination.bits);
        depends.on(CellId(1));
        depends.on(CellId(2));
        flows.insert(&cells, &key, packet.mask(), found.rule, depends);
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
