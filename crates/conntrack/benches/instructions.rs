//! How many instructions a packet of a connection costs, and whether that is still as few as it
//! was.
//!
//! `cargo bench -p conntrack --bench instructions`. `make` is what the benchmark itself does for a
//! packet, and is in all others; `look` decides, `hit` decides and commits, both of an established
//! connection's segments. `begin` is a SYN, `accept` the rest of the handshake, `close` both ends'
//! FINs, `expire` one that is forgotten: each of those a connection. All connections that there may
//! be are there, or nine tenths where some come and go. Cache misses do not count here, but in the
//! benchmark `connections`.

mod common;

use std::process::ExitCode;

use common::{World, at};

const CASES: [callgrind::Case<'_>; 9] = [
    ("make 1000", 60.0),
    ("look 1000", 280.0),
    ("hit 1000", 500.0),
    ("look 100000", 290.0),
    ("hit 1000000", 520.0),
    ("begin 100000", 1370.0),
    ("accept 100000", 1265.0),
    ("close 100000", 1815.0),
    ("expire 100000", 645.0),
];

fn main() -> ExitCode {
    callgrind::main("packet", &CASES, 5_000, packets)
}

fn packets(case: &str, much: u64) -> u64 {
    let (kind, flows) = case.split_once(' ').expect("a case is two words");
    let flows: u32 = flows.parse().expect("the second is a number");
    let count = much as u32;
    let mut world = World::new(if flows == 1000 { 100_000 } else { flows });
    if matches!(kind, "make" | "look" | "hit") {
        world.fill(flows);
        let place = |number: u32| number.wrapping_mul(7919) % flows;
        match kind {
            "make" => assert!((0..count).all(|it| !world.make(place(it)))),
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
