//! What workloads promise: when they begin, go on and end.

mod common;

use common::run;
use sim::{Ending, Outcome};

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

/// Flows of 20 kB from each of four machines.
fn four_sources(more: &str) -> Outcome {
    run(&format!(
        r#"
version = 1
name = "sources"
[run]
duration = "5ms"
warmup = "1ms"
[topology]
kind = "star"
servers = 4
[workload.flows]
kind = "flows"
sizes = "20kb"
gap = "20us"
{more}
"#
    ))
}

/// Whether a source ever has two flows at once.
fn overlap(out: &Outcome) -> bool {
    let flows = out.record.flows();
    flows.iter().enumerate().any(|(place, one)| {
        let others = flows[..place].iter().filter(|other| other.from == one.from);
        others.into_iter().any(|other| other.begun < one.ended && one.begun < other.ended)
    })
}

#[test]
fn a_source_that_waits_has_one_flow_at_a_time() {
    let (waiting, others) = (four_sources("closed = true"), four_sources(""));
    assert!(waiting.record.flows().len() > 100 && !overlap(&waiting));
    assert!(overlap(&others));
}

#[test]
fn what_begins_in_the_warmup_does_not_count_and_nothing_begins_after_the_stop() {
    let out = four_sources("stop = \"3ms\"");
    let begun: Vec<u64> = out.record.flows().iter().map(|flow| flow.begun.as_nanos()).collect();
    let (first, last) = (begun.iter().min().unwrap(), begun.iter().max().unwrap());
    // Four sources each 20 µs: 100 µs without any would be one in e^20.
    assert!(
        (1_000_000..1_100_000).contains(first) && (2_900_000..=3_000_000).contains(last),
        "{first} {last}"
    );
}

/// Queries of one server, and of one more far away.
fn queries(more: &str) -> Outcome {
    run(&format!(
        r#"
version = 1
name = "queries"
[run]
queries = 400
warmup = "1ms"
[flow_control]
physical = "lossy"
[topology]
kind = "dumbbell"
left = 5
right = 1
bottleneck.delay = "1ms"
[workload.queries]
kind = "partition-aggregate"
aggregators = "vm@0-3"
request = "1kb"
reply = "1kb"
{more}
"#
    ))
}

#[test]
fn an_aggregator_that_waits_has_one_query_at_a_time_and_each_has_one() {
    let out = queries("workers = \"vm@4\"\ngap = \"20us\"\nclosed = true");
    let queries = out.record.queries();
    assert!(queries.iter().all(|query| query.begun.as_nanos() >= 1_000_000));
    for aggregator in 0..4 {
        let mut of: Vec<_> = queries.iter().filter(|query| query.at == aggregator).collect();
        of.sort_by_key(|query| query.begun);
        assert!(of.len() > 50 && of.windows(2).all(|pair| pair[0].ended <= pair[1].begun));
    }
}

#[test]
fn a_query_draws_whom_it_asks() {
    let out = queries("workers = \"vm@4-5\"\nfan_out = 1\ngap = \"100us\"");
    let far = out.record.queries().iter().filter(|query| (query.ended - query.begun).as_nanos() > 2_000_000);
    // Half of 400, five deviations of 10.
    assert!((150..250).contains(&far.count()));
}
