//! What hosts do with frames: virtual switches, virtual NICs and stacks.

use crate::common::run;
use sim::Outcome;

/// Two machines of one server, 1 Gb/s each, of which two others each want twice that.
fn two_slow_receivers(virtual_kind: &str) -> Outcome {
    run(&format!(
        r#"
version = 1
name = "receivers"
[run]
duration = "20ms"
[flow_control]
virtual = "{virtual_kind}"
[topology]
kind = "star"
servers = 5
[virtual]
rate = "1gbit"
vms = {{ vm = 2 }}
[workload.a]
kind = "stream"
source = "vm@0-1/0"
destination = "vm@4/0"
transport = "udp"
[workload.b]
kind = "stream"
source = "vm@2-3/0"
destination = "vm@4/1"
transport = "udp"
"#
    ))
}

#[test]
fn a_lossy_virtual_switch_loses_what_it_has_no_room_for_and_pauses_nobody() {
    // 6667 frames come, 3333 leave, and 256 kB find room.
    let lossy = two_slow_receivers("lossy").classes[0].clone();
    assert!((3000..3333).contains(&lossy.lost_virtual), "{lossy:?}");
    assert_eq!(lossy.paused, sim::Time::ZERO);
    let out = two_slow_receivers("lossless");
    let lossless = &out.classes[0];
    assert!(lossless.lost_virtual == 0 && lossless.paused > sim::Time::ZERO, "{lossless:?}");
    // By two links each, and nobody who was paused is forgotten.
    assert!(out.hops > 2 * 3300, "{}", out.hops);
}

#[test]
fn datagrams_that_wait_for_room_take_no_events() {
    // Forty flows are handed over at ten times the link's rate, so nine of ten would find their
    // socket full.
    let out = run(r#"
version = 1
name = "waiting"
[run]
duration = "5ms"
[topology]
kind = "star"
servers = 2
[virtual]
vms = { vm = 4 }
[workload.bulk]
kind = "flows"
sources = "vm@0"
destinations = "vm@1"
transport = "udp"
sizes = "10mb"
rate = "100gbit"
gap = "500us"
"#);
    let whole = 5e-3 * 10e9 / 8.0 / 1520.0;
    assert!(out.hops as f64 > 1.95 * whole, "{} hops: the link was not full", out.hops);
    assert!(out.unfinished >= 30, "{} flows wait", out.unfinished);
    assert!(out.events < 10 * out.hops, "{} events for {} hops", out.events, out.hops);
}

#[test]
fn datagrams_wait_for_their_machines_turn_at_their_sender() {
    let out = run(r#"
version = 1
name = "turns"
[run]
duration = "20ms"
[topology]
kind = "star"
servers = 2
[virtual]
stack_gap = "7us"
[workload.stream]
kind = "stream"
source = "vm@0"
destination = "vm@1"
transport = "udp"
"#);
    // A turn each 7 µs. Beside what leaves, no more waits than was handed over in the first 10 µs.
    assert!((2840..2860).contains(&(out.hops / 2)), "{} hops", out.hops);
    assert!(out.datagrams < out.hops / 2 + 20, "{} datagrams for {} hops", out.datagrams, out.hops);
}

#[test]
fn a_virtual_nic_sends_no_faster_than_its_rate() {
    for transport in ["tcp", "udp"] {
        let stream = |to| {
            format!(
                "[workload.to{to}]\nkind = \"stream\"\nsource = \"vm@0\"\ndestination = \"vm@{to}\"\n\
                 transport = \"{transport}\"\n"
            )
        };
        let text = r#"
version = 1
name = "rate"
[run]
duration = "100ms"
[topology]
kind = "star"
servers = 5
[virtual]
rate = "1gbit"
[tcp]
delayed_ack = "0ns"
"#;
        let out = run(&(text.to_owned() + &(1..5).map(stream).collect::<String>()));
        // Frames of 1500 bytes, of which each takes two links, as does each acknowledgement.
        let ways = if transport == "tcp" { 4.0 } else { 2.0 };
        let frames = out.hops as f64 / ways;
        let most = 0.1 * 1e9 / 12_000.0;
        assert!(
            (0.97..1.01).contains(&(frames / most)),
            "{transport}: {frames} frames, not {most}"
        );
    }
}

/// Ten segments between two machines of one server, at 100 Mb/s: how long they take, in
/// microseconds.
fn ten_segments(paced: bool) -> f64 {
    let out = run(&format!(
        r#"
version = 1
name = "burst"
[topology]
kind = "star"
servers = 1
[virtual]
vms = {{ vm = 2 }}
rate = "100mbit"
paced = {paced}
[workload.burst]
kind = "incast"
senders = "vm@0/0"
receiver = "vm@0/1"
bytes = "13940b"
"#
    ));
    let query = out.record.queries()[0];
    (query.ended - query.begun).as_secs_f64() * 1e6
}

#[test]
fn what_is_not_paced_waits_in_the_switch() {
    // A frame of 1500 bytes takes 120 µs, a stack 5. The first goes at once.
    assert!((ten_segments(true) - (9.0 * 120.0 + 10.0)).abs() < 0.1, "{}", ten_segments(true));
    // A bucket of two packets with Ethernet headers lets two go, and lacks 72 bytes for the third.
    let waits = f64::from(2 * 1500 - 2 * (1446 + 18)) * 0.08;
    assert!(
        (ten_segments(false) - (7.0 * 120.0 + waits + 10.0)).abs() < 0.1,
        "{}",
        ten_segments(false)
    );
}

/// Queries to four machines of the same server, one after the other: how long they take, in
/// nanoseconds.
fn queries_on_one_server(reply: &str, stack: &str, seed: u64) -> Vec<u64> {
    let out = run(&format!(
        r#"
version = 1
name = "turns"
[run]
seed = {seed}
[topology]
kind = "star"
servers = 1
[virtual]
vms = {{ aggregator = 1, worker = 4 }}
{stack}
[workload.queries]
kind = "partition-aggregate"
aggregators = "aggregator"
workers = "worker"
request = "16b"
reply = "{reply}"
gap = "1ms"
arrivals = "fixed"
closed = true
queries = 20
"#
    ));
    out.record.queries().iter().map(|query| (query.ended - query.begun).as_nanos()).collect()
}

#[test]
fn a_stack_sends_one_burst_after_the_other() {
    // Through four stacks of 5 µs each.
    assert_eq!(queries_on_one_server("100b", "", 1), [4 * 5_000; 20]);
    // The last of four requests waits for three; the first time its answer waits for an
    // acknowledgement, too.
    let in_turn = queries_on_one_server("100b", "stack_gap = \"100us\"", 1);
    assert_eq!(in_turn[0], 4 * 5_000 + 4 * 100_000);
    assert_eq!(in_turn[1..], [4 * 5_000 + 3 * 100_000; 19]);
}

#[test]
fn a_stack_is_late_by_what_the_seed_says() {
    let late = |seed| queries_on_one_server("20kb", "stack_jitter = \"100us\"", seed);
    let times = late(1);
    assert!(times.iter().all(|time| (20_000..=20_000 + 4 * 100_000).contains(time)), "{times:?}");
    assert!(times == late(1) && times != late(2));
}

#[test]
fn a_virtual_switch_serves_classes_by_their_weights() {
    let out = run(r#"
version = 1
name = "weights"
[topology]
kind = "star"
servers = 3
[virtual]
rate = "1gbit"
scheduling = "weighted"
[class.heavy]
priority = 1
weight = 3
[class.light]
priority = 5
[workload.a]
kind = "incast"
class = "heavy"
senders = "vm@1"
receiver = "vm@0"
bytes = "3mb"
[workload.b]
kind = "incast"
class = "light"
senders = "vm@2"
receiver = "vm@0"
bytes = "3mb"
"#);
    // In segments of 1394 bytes, frames of 1500: while both send, three of four are of the heavier.
    let alone = 3e6 / 1394.0 * 12_000.0 / 1e9;
    let queries = out.record.queries();
    let times: Vec<f64> =
        queries.iter().map(|query| (query.ended - query.begun).as_secs_f64() / alone).collect();
    assert_eq!(queries[0].workload, 0);
    assert!(
        (times[0] / (4.0 / 3.0) - 1.0).abs() < 0.03 && (times[1] / 2.0 - 1.0).abs() < 0.03,
        "{times:?}"
    );
}

#[test]
fn senders_hear_of_marks() {
    // A sender that heeds them fills no memory of 300 kB behind a link of a tenth of its own.
    let lost = |ecn: bool| {
        let out = run(&format!(
            r#"
version = 1
name = "marks"
[flow_control]
physical = "lossy"
[topology]
kind = "dumbbell"
left = 1
right = 1
bottleneck.rate = "1gbit"
[fabric]
buffer = {{ kind = "per-output", bytes = "300kb" }}
[tcp]
control = "reno"
ecn = {ecn}
[class.marked]
ecn = "60kb"
[workload.flow]
kind = "incast"
class = "marked"
senders = "vm@0"
receiver = "vm@1"
bytes = "10mb"
"#
        ));
        out.classes[0].lost_physical
    };
    assert!(lost(true) == 0 && lost(false) > 0);
}
