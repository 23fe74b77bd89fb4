//! How many instructions figure 6 costs, and whether they are still as few.
//!
//! `cargo bench -p nlog --bench instructions`. `cold` counts by tuple, `move` and `add` by tuple
//! that comes or goes, in a network of 64 datapaths. The number says how many copies of the rules
//! there are beside them, of which nothing changes. What the bench itself does counts.

#[path = "../tests/it/network.rs"]
mod network;

use std::process::ExitCode;

use nlog::Batch;

const CASES: [callgrind::Case<'_>; 4] =
    [("cold 0", 1879.4), ("add 0", 6745.9), ("move 0", 7787.7), ("move 100", 7874.3)];

fn main() -> ExitCode {
    callgrind::main("tuple", &CASES, 200, tuples)
}

fn tuples(case: &str, amount: u64) -> u64 {
    let (kind, copies) = case.split_once(' ').expect("a case is two words");
    let mut engine = network::engine(copies.parse().expect("the second is a number"));
    let datapaths = if kind == "cold" { amount as u32 } else { 64 };
    let mut network = network::Network::new(datapaths);
    let mut batch = Batch::new();
    network.insert_all(&mut engine, &mut batch);
    engine.commit(1, &batch).expect("the network is valid");
    if kind == "cold" {
        return engine.tables().map(|table| engine.len(table) as u64).sum();
    }
    let mut flips = 0;
    for step in 0..amount as u32 {
        let mut batch = Batch::new();
        if kind == "move" {
            let port = step * 7 % network.ports.len() as u32;
            let to = (network.ports[port as usize].1 + 1) % network.hypervisors;
            network.move_port(port, to, &mut engine, &mut batch);
        } else {
            let hypervisor = step % network.hypervisors;
            network.add(step * 7 % 64, hypervisor, &mut engine, &mut batch);
        }
        engine.commit(u64::from(step) + 2, &batch).expect("the change is valid");
        flips += engine.counters().flips;
    }
    flips
}
