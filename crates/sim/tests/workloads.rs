//! What workloads promise: when they begin, go on and end.

mod common;

use common::run;
use sim::Ending;

#[test]
fn a_stream_of_datagrams_ends_at_its_stop() {
    let out = run(r#"
version = 1
name = "stop"
[topology]
kind = "star"
servers = 2
[workload.stream]
kind = "stream"
source = "vm@0"
destination = "vm@1"
transport = "udp"
rate = "1gbit"
datagram = "1000b"
stop = "2ms"
"#);
    // One every 8 µs from 0 to 2 ms, both included.
    assert_eq!((out.ending, out.datagrams), (Ending::Done, 251));
}

#[test]
fn a_source_that_waits_for_its_flow_does_not_wait_for_what_is_lost() {
    // Eight sources of 30 kB, one after the other, by one link: together they fill it, and some is always lost.
    let out = run(r#"
version = 1
name = "closed"
[run]
duration = "100ms"
[flow_control]
virtual = "lossy"
physical = "lossy"
[topology]
kind = "star"
servers = 9
[fabric]
buffer = { kind = "per-output", bytes = "20kb" }
[workload.flows]
kind = "flows"
sources = "vm@1-8"
destinations = "vm@0"
transport = "udp"
sizes = "30kb"
gap = "10us"
closed = true
"#);
    let link = 0.1 * 10e9 / 8.0 / 1520.0;
    // Each datagram that is not lost takes two links.
    let carried = (out.hops - out.classes[0].lost_physical) as f64 / 2.0;
    assert!(carried > link, "{carried}: the link carries {link} of full size");
    // What is not whole does not count, and is not complete.
    let begun = out.record.flows().len() as u64 + out.unfinished;
    assert!(
        (22 * (begun - 8)..=22 * begun).contains(&out.datagrams),
        "{begun} flows, {} datagrams",
        out.datagrams
    );
    assert!(out.unfinished > 8);
}

#[test]
fn a_run_without_a_bound_ends_with_its_last_workload() {
    let out = run(r#"
version = 1
name = "end"
[topology]
kind = "star"
servers = 2
[workload.flows]
kind = "permutation"
bytes = "1mb"
"#);
    let last = out.record.flows().iter().map(|flow| flow.ended).max().unwrap();
    // What closes a connection comes a few microseconds later; no timer counts.
    assert!(out.time >= last && (out.time - last).as_nanos() < 100_000, "{:?} after {last:?}", out.time);
}
