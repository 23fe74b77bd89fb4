//! What physical switches and NICs do with frames, told by small networks whose every frame can be
//! counted.

use crate::common::{plan, run};
use sim::{Ending, Outcome};

/// 16 servers of one switch send at 10 Gb/s each to 16 of another.
fn across(topology: &str) -> Outcome {
    run(&format!(
        r#"
version = 1
name = "across"
[run]
duration = "2ms"
[topology]
{topology}
[flow_control]
physical = "lossy"
[workload.across]
kind = "stream"
source = "vm@0-15"
destination = "vm@16-31"
transport = "udp"
"#
    ))
}

#[test]
fn flows_are_spread_over_equal_paths_anew_at_each_switch() {
    // What one link of 10 Gb/s carries in 2 ms: 1500 bytes and 20.
    let link = 2e-3 * 10e9 / 8.0 / 1520.0;
    let spines = "kind = \"leaf-spine\"\nleaves = 2\nspines = 8\nservers = 16";
    // 16 to the leaf, and then as many on each of three layers as there are spines that were drawn.
    assert!(across(spines).hops as f64 / link > 16.0 + 3.0 * 4.0);
    // Each of a pod's four aggregation switches has four cores. If they drew as the edge switches
    // do, it would always be the same one: 16 to the edge, up to 16 from there, and then 4 on each
    // of four layers.
    let pods = across("kind = \"k-ary\"\nk = 8");
    assert!(pods.hops as f64 / link > 16.0 + 16.0 + 4.0 * 4.0);
}

#[test]
fn a_pause_lasts_from_xoff_to_xon() {
    // Each way 30 frames at 10 Gb/s into a link where each takes 1.216 ms. The 20th to lie there is
    // the first that leaves no room for another below `xoff`. Until its sender obeys, what it sends
    // at 1.216 µs a frame comes besides: within two delays, PFC's frame and 5888 bytes, 5.8 µs, no
    // more than 5 frames. 10 lie there when it is let go, and the last few no more pause it.
    let out = run(r#"
version = 1
name = "pause"
[run]
duration = "100ms"
[topology]
kind = "dumbbell"
left = 1
right = 1
bottleneck.rate = "10mbit"
[fabric.pfc]
xoff = "30kb"
xon = "15kb"
[virtual]
switch = false
[workload.there]
kind = "permutation"
stride = 1
transport = "udp"
bytes = "42540b"
"#);
    let frames = out.classes[0].paused.as_secs_f64() / 2.0 / 1.216e-3;
    assert!((14.0..16.0).contains(&frames), "paused for {frames} frames");
}

#[test]
fn what_finds_as_much_as_the_threshold_is_marked() {
    // Two bursts of ten frames meet at one output. The first frame finds it idle, the second finds
    // nothing waiting; of the k-th pair one finds k - 1 frames and the other k. Five or more are
    // found by 5 and by 6 of them.
    let out = run(r#"
version = 1
name = "marks"
[topology]
kind = "star"
servers = 3
[tcp]
control = "reno"
ecn = true
[class.marked]
ecn = "7500b"
[workload.burst]
kind = "incast"
class = "marked"
senders = "vm@1-2"
receiver = "vm@0"
bytes = "13940b"
"#);
    assert_eq!((out.retransmitted, out.classes[0].marked), (0, 11));
}

/// Two classes meet at a NIC and at a switch's output; how long 3 MB of each take, in times that
/// they would take alone.
fn two_classes(scheduling: &str) -> [f64; 2] {
    let out = run(&format!(
        r#"
version = 1
name = "classes"
[topology]
kind = "star"
servers = 3
[fabric]
{scheduling}
[class.high]
priority = 5
weight = 3
[class.low]
priority = 1
weight = 1
[workload.a]
kind = "permutation"
class = "high"
vms = "vm@0-1"
stride = 1
transport = "udp"
bytes = "3mb"
[workload.b]
kind = "permutation"
class = "low"
vms = "vm@1-2"
stride = 1
transport = "udp"
bytes = "3mb"
"#
    ));
    let alone = 3e6 / 1418.0 * 1520.0 * 8.0 / 10e9;
    [0, 1].map(|workload| {
        let of = out.record.flows().iter().filter(|flow| flow.workload == workload);
        of.map(|flow| (flow.ended - flow.begun).as_secs_f64() / alone).fold(0.0, f64::max)
    })
}

#[test]
fn outputs_serve_classes_by_priority_or_by_weight() {
    let near = |times: [f64; 2], wanted: [f64; 2]| {
        let apart = times.into_iter().zip(wanted).map(|(time, wanted)| (time / wanted - 1.0).abs());
        assert!(apart.fold(0.0, f64::max) < 0.02, "{times:?}, not {wanted:?}");
    };
    near(two_classes("scheduling = \"strict\""), [1.0, 2.0]);
    // While both send, of four frames three are of the heavier.
    near(two_classes("scheduling = \"weighted\""), [4.0 / 3.0, 2.0]);
}

/// A hundred datagrams that meet at one output at once: how many are lost.
fn lost_of_100(buffer: &str) -> u64 {
    let out = run(&format!(
        r#"
version = 1
name = "tail"
[flow_control]
physical = "lossy"
[topology]
kind = "star"
servers = 101
[fabric]
buffer = {{ {buffer} }}
[virtual]
switch = false
[workload.burst]
kind = "stream"
source = "vm@1-100"
destination = "vm@0"
transport = "udp"
rate = "1mbit"
stop = "1ms"
"#
    ));
    out.classes[0].lost_physical
}

#[test]
fn a_lossy_frame_is_lost_where_its_memory_is_full() {
    // One goes on at once, and frames have 1500 bytes. Each has an input of its own.
    assert_eq!(lost_of_100("kind = \"private-input\", bytes = \"1500b\""), 0);
    assert_eq!(lost_of_100("kind = \"per-output\", bytes = \"15000b\""), 100 - 1 - 10);
    assert_eq!(lost_of_100("kind = \"per-output\", bytes = \"14999b\""), 100 - 1 - 9);
    // A queue takes as much as it leaves: the 50th finds 73,500 bytes, and leaves 75,000 free.
    assert_eq!(lost_of_100("kind = \"shared\", bytes = \"150000b\", alpha = 1.0"), 100 - 1 - 50);
    // There is never more than there is.
    assert_eq!(lost_of_100("kind = \"shared\", bytes = \"15700b\", alpha = 1000.0"), 100 - 1 - 10);
}

/// 32 senders into a shared memory, of which so much is set aside for what comes after a pause.
fn shared(headroom: &str) -> Outcome {
    let text = format!(
        r#"
version = 1
name = "shared"
[run]
duration = "5ms"
[topology]
kind = "star"
servers = 33
[fabric]
buffer = {{ kind = "shared", bytes = "400kb", alpha = 8.0 }}
[fabric.pfc]
{headroom}
[workload.stream]
kind = "stream"
source = "vm@1-32"
destination = "vm@0"
transport = "udp"
"#
    );
    sim::run(&plan(&text).cell(0).scenario, |_| true)
}

#[test]
fn a_shared_memory_holds_no_more_than_it_has() {
    let out = shared("");
    assert!(
        out.defects.is_empty() && out.classes[0].paused.as_secs_f64() > 0.1,
        "{:?}",
        out.classes
    );
    let out = shared("headroom = \"1b\"");
    assert!(out.classes[0].lost_physical > 0 && out.defects.len() == 1, "{:?}", out.defects);
}

/// A ring whose switches have slow servers, to which three of the four servers of the switch before
/// send what they can; the fourth sends to a server of the switch after that, by the same links, at
/// the rate `far`.
fn ring(far: &str) -> Outcome {
    let mut text = String::from(
        r#"
version = 1
name = "ring"
[run]
duration = "1s"
[topology]
kind = "ring"
switches = 4
servers = 4
access.rate = "10mbit"
[fabric.pfc]
xoff = "120kb"
xon = "30kb"
"#,
    );
    for switch in 0..4 {
        let [here, next, third] = [0, 1, 2].map(|ahead| (switch + ahead) % 4 * 4);
        let (last, near, other) = (here + 2, here + 3, third + 1);
        text += &format!(
            "[workload.near{switch}]\nkind = \"stream\"\nsource = \"vm@{here}-{last}\"\ndestination = \"vm@{next}\"\n\
             transport = \"udp\"\n[workload.far{switch}]\nkind = \"stream\"\nsource = \"vm@{near}\"\n\
             destination = \"vm@{other}\"\ntransport = \"udp\"\nrate = \"{far}\"\n"
        );
    }
    run(&text)
}

#[test]
fn ports_that_wait_in_a_circle_are_a_deadlock_only_if_nothing_else_lets_them_go() {
    // Of what makes each pause, nearly all is for slow servers, and drains.
    let out = ring("200kbit");
    assert!(out.classes[0].paused.as_secs_f64() > 1.0, "{:?}", out.classes);
    assert_eq!(out.ending, Ending::Done);
    assert!(matches!(ring("10mbit").ending, Ending::Deadlock(_)));
}

#[test]
fn a_pause_counts_until_the_end() {
    let text = std::fs::read_to_string("../../scenarios/pfc-deadlock.toml").unwrap();
    let out = run(&text);
    assert!(matches!(out.ending, Ending::Deadlock(_)));
    // Four ports of the ring, and those behind them.
    assert!(out.classes[0].paused.as_secs_f64() > 4.0 * 0.9 * out.time.as_secs_f64());
}
