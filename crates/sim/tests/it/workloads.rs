//! What workloads promise: when they begin, go on and end.

use crate::common::run;
use sim::{Ending, Flow, Outcome, Time};

/// A datagram of 1000 bytes every 8 µs.
const DATAGRAMS: &str = r#"
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
"#;

#[test]
fn a_stream_of_datagrams_ends_at_its_stop() {
    let out = run(&format!("version = 1\nname = \"stop\"{DATAGRAMS}stop = \"2ms\""));
    // From 0 to 2 ms, both included.
    assert_eq!((out.ending, out.datagrams), (Ending::Done, 251));
}

/// What the only stream of a scenario has brought.
fn streamed(more: &str) -> (Outcome, Flow) {
    let out = run(&format!("version = 1\nname = \"stream\"\n{more}"));
    let [stream] = out.record.streams() else { panic!("{:?}", out.record.streams()) };
    let stream = *stream;
    (out, stream)
}

#[test]
fn a_stream_counts_from_the_warmup_to_its_stop() {
    let run_for =
        |warmup: &str| format!("[run]\nduration = \"10ms\"\nwarmup = \"{warmup}\"{DATAGRAMS}");
    for (more, end, bytes) in [("", 10, 1_125_000), ("stop = \"3ms\"", 3, 250_000)] {
        let (out, stream) = streamed(&(run_for("1ms") + more));
        let [begun, ended] = [stream.begun, stream.ended].map(Time::as_nanos);
        assert_eq!([begun, ended], [1_000_000, end * 1_000_000]);
        assert!(stream.bytes.abs_diff(bytes) <= 1000, "{} bytes, not {bytes}", stream.bytes);
        assert_eq!((out.record.flows().len(), out.unfinished), (0, 0));
    }
    let out = run(&format!("version = 1\nname = \"early\"\n{}stop = \"3ms\"", run_for("4ms")));
    assert!(out.record.streams().is_empty(), "it stops before anything counts");
}

#[test]
fn what_a_stream_loses_has_not_arrived() {
    let (out, stream) = streamed(
        r#"
[run]
duration = "10ms"
[flow_control]
virtual = "lossy"
physical = "lossy"
[topology]
kind = "dumbbell"
left = 1
right = 1
bottleneck.rate = "1gbit"
[workload.stream]
kind = "stream"
source = "vm@0"
destination = "vm@1"
transport = "udp"
"#,
    );
    let link = 0.01 * 1e9 / 8.0 * 1418.0 / 1520.0;
    assert!((stream.bytes as f64 / link - 1.0).abs() < 0.01, "{} bytes, not {link}", stream.bytes);
    assert!(out.classes[0].lost_physical > 1000);
}

/// TCP at 4 Gb/s by a link that datagrams of a higher priority fill from 5 to 8 ms, until
/// `duration`.
fn stalled(duration: &str) -> f64 {
    let scenario = format!(
        r#"
version = 1
name = "stall"
run.duration = "{duration}"
[topology]
kind = "star"
servers = 3
[class.front]
priority = 7
[class.back]
priority = 0
[workload.stream]
kind = "stream"
class = "back"
source = "vm@0"
destination = "vm@2"
rate = "4gbit"
[workload.wall]
kind = "stream"
class = "front"
source = "vm@1"
destination = "vm@2"
transport = "udp"
start = "5ms"
stop = "8ms"
"#
    );
    let out = run(&scenario);
    let stream = out.record.streams().iter().find(|it| it.from == 0).unwrap();
    stream.bytes as f64
}

#[test]
fn a_stream_of_tcp_keeps_its_rate_and_catches_up_after_a_stall() {
    let sent = |ms: f64| ms / 1e3 * 4e9 / 8.0;
    let (held_back, caught_up) = (stalled("8ms"), stalled("20ms"));
    assert!((sent(4.9)..sent(5.5)).contains(&held_back), "{held_back} bytes in 8 ms");
    assert!((sent(19.8)..sent(20.01)).contains(&caught_up), "{caught_up} bytes in 20 ms");
}

#[test]
fn a_stream_of_tcp_that_is_faster_than_its_path_writes_what_a_buffer_takes() {
    let out = run(r#"
version = 1
name = "buffer"
[topology]
kind = "dumbbell"
left = 1
right = 1
bottleneck.rate = "100mbit"
[workload.stream]
kind = "stream"
source = "vm@0"
destination = "vm@1"
rate = "10gbit"
stop = "50ms"
"#);
    // 8 MiB are left at the stop, in segments of 1394 bytes and 1520 on the wire. Without a bound
    // it were 62 MB.
    let drain = f64::from(8 << 20) / 1394.0 * 1520.0 * 8.0 / 100e6;
    let took = out.time.as_secs_f64() - 0.05;
    assert!((0.95..1.05).contains(&(took / drain)), "{took} s, not {drain}");
}

#[test]
fn a_source_that_waits_for_its_flow_does_not_wait_for_what_is_lost() {
    // Eight sources of 30 kB, one after the other, by one link: together they fill it, and some is
    // always lost.
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
    assert!(
        out.time >= last && (out.time - last).as_nanos() < 100_000,
        "{:?} after {last:?}",
        out.time
    );
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
    let far = out
        .record
        .queries()
        .iter()
        .filter(|query| (query.ended - query.begun).as_nanos() > 2_000_000);
    // Half of 400, five deviations of 10.
    assert!((150..250).contains(&far.count()));
}

#[test]
fn a_message_without_a_connection_that_stays_opens_and_closes_one() {
    let asked = |persistent: bool| {
        let out = queries(&format!("workers = \"vm@4\"\ngap = \"1ms\"\npersistent = {persistent}"));
        assert!(out.record.queries().len() == 400 && out.unfinished < 40, "{}", out.unfinished);
        let all: u64 =
            out.record.queries().iter().map(|query| (query.ended - query.begun).as_nanos()).sum();
        (out.segments as f64 / 400.0, all as f64 / 400e3)
    };
    let ((stays, fast), (anew, slow)) = (asked(true), asked(false));
    // Two messages; each is opened by two segments more, and closed by at least two.
    assert!(anew > stays + 8.0, "{anew} segments a query, and {stays} on connections that stay");
    // And each waits for a round trip more.
    assert!(slow > 2.0 * fast, "{slow} µs, and {fast} on connections that stay");
}
