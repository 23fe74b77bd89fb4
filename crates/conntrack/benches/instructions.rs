//! How many instructions a packet of a connection costs, and whether that is still as few as it
//! was.
//!
//! `cargo bench -p conntrack --bench instructions`. `make` is what the benchmark itself does for a
//! packet, and is in all others; `recall` decides where the connection is known, `look` finds it,
//! `hit` finds it, decides and commits, both of an established connection's segments. `begin` is a
//! SYN, `accept` the rest of the handshake, `close` both ends' FINs, `expire` one that is
//! forgotten: each of those a connection. All connections that there may be are there, or nine
//! tenths where some come and go. Cache misses do not count here, but in the benchmark
//! `connections` of crate `measure`.

mod common;

use std::process::ExitCode;

use common::{World, at};

const CASES: [callgrind::Case<'_>; 10] = [
    ("make 1000", 55.5),
    ("recall 1000", 104.5),
    ("look 1000", 278.5),
    ("hit 1000", 498.5),
    ("look 100000", 289.0),
    ("hit 1000000", 509.0),
    ("begin 100000", 1234.0),
    ("accept 100000", 1262.0),
    ("close 100000", 1814.0),
    ("expire 100000", 644.0),
];

fn main() -> ExitCode {
    callgrind::main("packet", &CASES, 5_000, packets)
}

fn packets(case: &str, much: u64) -> u64 {
    let (kind, flows) = case.split_once(' ').expect("a case is two words");
    let flows: u32 = flows.parse().expect("the second is a number");
    let count = much as u32;
    let mut world = World::new(if flows == 1000 { 100_000 } else { flows });
    if matches!(kind, "make" | "recall" | "look" | "hit") {
        world.fill(flows);
        let place = |number: u32| number.wrapping_mul(7919) % flows;
        match kind {
            "make" => assert!((0..count).all(|it| !world.make(place(it)))),
            "recall" => {
                let cache = world.cache(flows);
                let is_known = |it: u32| {
                    let flow = place(it);
                    world.recall(flow, cache[flow as usize], at(it.into()))
                };
                assert!((0..count).all(is_known));
            }
            "look" => assert!((0..count).all(|it| world.look(place(it), at(it.into())))),
            _ => (0..count).for_each(|it| world.hit(place(it), at(it.into()))),
        }
        return much;
    }
    let held = flows * 9 / 10;
    world.fill(held);
    // Always as many, so that only what is counted differs.
    let others = held..flows;
    if kind != "begin" {
        others.clone().for_each(|it| world.ask(it, at(0)));
    }
    if kind == "close" {
        others.clone().for_each(|it| world.accept(it, at(0)));
    }
    let counted = others.take(count as usize);
    match kind {
        "begin" => counted.for_each(|it| world.ask(it, at(it.into()))),
        "accept" => counted.for_each(|it| world.accept(it, at(it.into()))),
        "close" => counted.for_each(|it| world.close(it, at(it.into()))),
        _ => {
            let mut forgotten = 0;
            while forgotten < much {
                forgotten += u64::from(world.table.expire(at(200_000_000), 1).forgotten);
            }
        }
    }
    much
}
