//! Times the rules of the paper's figure 6 at the scale of its §6.1.
//!
//! `cargo run --release -p nlog --example figure6 [DATAPATHS] [COPIES]`: 7,000 datapaths are NVP's
//! 63,000 ports; 400 copies of the rules under other names make 1,203 rules.

#![allow(clippy::disallowed_types, clippy::disallowed_methods, reason = "it measures time")]
#![allow(clippy::print_stdout, reason = "it prints what it measured")]

#[path = "../tests/it/network.rs"]
mod network;

use std::time::{Duration, Instant};

use nlog::{Batch, Engine};

use network::Network;

fn main() {
    let mut args = std::env::args().skip(1).map(|arg| arg.parse().expect("arguments are numbers"));
    let (datapaths, copies) = (args.next().unwrap_or(7000), args.next().unwrap_or(0));
    let mut engine = network::engine(copies);
    let mut network = Network::new(datapaths);
    let mut batch = Batch::new();
    network.insert_all(&mut engine, &mut batch);
    let start = Instant::now();
    let change = engine.commit(1, &batch).expect("the network is valid");
    let cold = start.elapsed();
    drop((change, batch));
    let tuples: usize = engine.tables().map(|table| engine.len(table)).sum();
    let flows = engine.table("ovs_flow").map_or(0, |table| engine.len(table));
    println!(
        "cold: {} ports, {tuples} tuples, {flows} flows in {cold:.3?}: {:.2} M tuples/s, \
         {:.1} B/tuple, {} rules",
        network.ports.len(),
        tuples as f64 / cold.as_secs_f64() / 1e6,
        engine.bytes() as f64 / tuples as f64,
        engine.rules().count(),
    );
    let mut revision = 2;
    let mut time = |engine: &mut Engine, batch: &Batch| {
        let start = Instant::now();
        engine.commit(revision, batch).expect("the change is valid");
        revision += 1;
        start.elapsed()
    };
    let (mut adds, mut moves) = (Vec::new(), Vec::new());
    for step in 0..1000_u32 {
        let mut batch = Batch::new();
        for port in 0..10 {
            let datapath = (step * 10 + port).wrapping_mul(2_654_435_769) % datapaths;
            let hypervisor = (step * 10 + port).wrapping_mul(40_503) % network.hypervisors;
            network.add(datapath, hypervisor, &mut engine, &mut batch);
        }
        adds.push(time(&mut engine, &batch));
        let mut batch = Batch::new();
        let port = step.wrapping_mul(2_654_435_769) % network.ports.len() as u32;
        let to = (network.ports[port as usize].1 + 1 + step) % network.hypervisors;
        network.move_port(port, to, &mut engine, &mut batch);
        moves.push(time(&mut engine, &batch));
    }
    print("add 10 ports", &mut adds);
    print("move a port", &mut moves);
}

fn print(what: &str, times: &mut [Duration]) {
    times.sort_unstable();
    let at = |share: usize| times[(times.len() - 1) * share / 100];
    println!("{what}: p50 {:.3?}, p99 {:.3?}, max {:.3?}", at(50), at(99), at(100));
}
