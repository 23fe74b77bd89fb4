//! How many instructions a packet of a connection costs, and whether that is still as few as it was.
//!
//! `cargo bench -p conntrack --bench instructions`. `make` is what the benchmark itself does for a
//! packet, and is in all others; `look` decides, `hit` decides and commits. Those at a million flows
//! show what a full index costs; cache misses do not count here, but in the benchmark `connections`.

mod common;

use std::process::ExitCode;

use common::{World, at};

const CASES: [callgrind::Case<'_>; 9] = [
    ("make 1000", 1000.0),
    ("look 1000", 1000.0),
    ("look 1000000", 1000.0),
    ("hit 1000", 1000.0),
    ("hit 1000000", 1000.0),
    ("begin 1000000", 1000.0),
    ("accept 1000000", 1000.0),
    ("close 1000000", 1000.0),
    ("expire 1000000", 1000.0),
];

fn main() -> ExitCode {
    callgrind::main("packet", &CASES, 50_000, packets)
}

fn packets(case: &str, much: u64) -> u64 {
    let (kind, flows) = case.split_once(' ').expect("a case is two words");
    let flows: u32 = flows.parse().expect("the second is a number");
    let mut world = World::new(1_000_000);
    let count = much as u32;
    // What comes and goes is a tenth of all there are.
    let held = if matches!(kind, "begin" | "accept" | "close" | "expire") {
        flows - 100_000
    } else {
        flows
    };
    for flow in 0..held {
        world.ask(flow, at(0));
        world.accept(flow, at(0));
    }
    let place = |number: u32| number.wrapping_mul(7919) % flows;
    match kind {
        "make" => assert!((0..count).filter(|it| world.make(place(*it))).count() == 0),
        "look" => assert!((0..count).all(|it| world.look(place(it), at(it.into())))),
        "hit" => (0..count).for_each(|it| world.hit(place(it), at(it.into()))),
        _ => {
            let flows = || (flows..flows + 100_000);
            // Always as many, so that only what is counted differs.
            let before = if kind == "begin" { 0 } else { 100_000 };
            flows().take(before).for_each(|it| world.ask(it, at(0)));
            let before = if kind == "close" { 100_000 } else { 0 };
            flows().take(before).for_each(|it| world.accept(it, at(0)));
            let counted = flows().take(count as usize);
            match kind {
                "begin" => counted.for_each(|it| world.ask(it, at(it.into()))),
                "accept" => counted.for_each(|it| world.accept(it, at(it.into()))),
                "close" => counted.for_each(|it| world.close(it, at(it.into()))),
                _ => {
                    let expiry = world.table.expire(at(200_000_000), count);
                    return u64::from(expiry.forgotten);
                }
            }
        }
    }
    much
}
