//! What hosts do with frames: virtual switches, virtual NICs and stacks.

mod common;

use common::run;

/// Two machines of one server, 1 Gb/s each, of which two others each want twice that.
fn two_slow_receivers(virtual_kind: &str) -> sim::ClassOutcome {
    let out = run(&format!(
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
    ));
    out.classes[0].clone()
}

#[test]
fn a_lossy_virtual_switch_loses_what_it_has_no_room_for_and_pauses_nobody() {
    // 6667 frames come, 3333 leave, and 256 kB find room.
    let lossy = two_slow_receivers("lossy");
    assert!((3000..3333).contains(&lossy.lost_virtual), "{lossy:?}");
    assert_eq!(lossy.paused, sim::Time::ZERO);
    let lossless = two_slow_receivers("lossless");
    assert!(lossless.lost_virtual == 0 && lossless.paused > sim::Time::ZERO, "{lossless:?}");
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
        assert!((0.97..1.01).contains(&(frames / most)), "{transport}: {frames} frames, not {most}");
    }
}
