//! What congestion control does for whoever shares links with those who send too much.

use crate::common::{plan, run};
use proptest::prelude::*;
use sim::Outcome;

/// So many servers send all they can to one, and as much to one each, over one switch of 10 Gb/s.
fn hot_spot(senders: u32, control: &str) -> Outcome {
    let [last, hot, first, end] = [senders - 1, senders, senders + 1, 2 * senders];
    run(&format!(
        r#"
version = 1
name = "hot spot"
run.duration = "30ms"
run.warmup = "10ms"
topology = {{ kind = "star", servers = {} }}
virtual.congestion = "{control}"
[workload.hot]
kind = "stream"
source = "vm@0-{last}"
destination = "vm@{hot}"
transport = "udp"
[workload.victims]
kind = "stream"
source = "vm@0-{last}"
destination = "vm@{first}-{end}"
transport = "udp"
"#,
        end + 1
    ))
}

/// The streams' payload as shares of what a link carries of it in the time that counts, in the
/// order of their destinations.
fn shares(outcome: &Outcome) -> Vec<f64> {
    let link = 0.02 * 10e9 / 8.0 * 1418.0 / 1520.0;
    let mut streams: Vec<_> = outcome.record.streams().iter().collect();
    streams.sort_by_key(|it| (it.to, it.from));
    streams.iter().map(|it| it.bytes as f64 / link).collect()
}

fn paused(outcome: &Outcome) -> f64 {
    outcome.classes.iter().map(|it| it.paused.as_secs_f64()).sum()
}

#[test]
fn lanes_free_the_victims_of_a_hot_spot() {
    const SENDERS: usize = 8;
    let outcome = hot_spot(SENDERS as u32, "none");
    let all = shares(&outcome);
    let (hot, victims) = all.split_at(SENDERS);
    assert!(hot.iter().sum::<f64>() > 0.98, "{hot:?}");
    assert!(victims.iter().all(|it| *it < 0.2), "{victims:?}");
    let before = paused(&outcome);

    let outcome = hot_spot(SENDERS as u32, "lanes");
    let all = shares(&outcome);
    let (hot, victims) = all.split_at(SENDERS);
    // What the hot link does not take of a sender's link.
    let ideal = 1.0 - 1.0 / SENDERS as f64;
    assert!(hot.iter().sum::<f64>() > 0.95, "{hot:?}");
    let mean = victims.iter().sum::<f64>() / SENDERS as f64;
    assert!(mean > 0.97 * ideal, "{victims:?}");
    assert!(victims.iter().all(|it| *it > 0.9 * ideal), "{victims:?}");
    let after = paused(&outcome);
    assert!(after < before / 20.0, "{after} s, not {before} s");
}

#[test]
fn notices_of_switches_free_the_victims_too_and_share_the_hot_link_unevenly() {
    const SENDERS: usize = 8;
    let outcome = hot_spot(SENDERS as u32, "qcn");
    let all = shares(&outcome);
    let (hot, victims) = all.split_at(SENDERS);
    assert!(hot.iter().sum::<f64>() > 0.9, "{hot:?}");
    assert!(victims.iter().all(|it| *it > 0.8), "{victims:?}");
    let [least, most] = [f64::min, f64::max].map(|of| hot.iter().copied().reduce(of).unwrap());
    assert!(most > 2.0 * least, "{hot:?}");
    let paused = paused(&outcome);
    assert!(paused < 0.001, "{paused} s");
}

#[test]
fn switches_that_pause_flows_free_the_victims_and_share_the_hot_link_evenly() {
    const SENDERS: usize = 8;
    let outcome = hot_spot(SENDERS as u32, "bfc");
    let all = shares(&outcome);
    let (hot, victims) = all.split_at(SENDERS);
    assert!(hot.iter().sum::<f64>() > 0.98, "{hot:?}");
    let [least, most] = [f64::min, f64::max].map(|of| hot.iter().copied().reduce(of).unwrap());
    assert!(most < 1.05 * least, "{hot:?}");
    // What the hot link does not take of a sender's link.
    let ideal = 1.0 - 1.0 / SENDERS as f64;
    assert!(victims.iter().all(|it| *it > 0.97 * ideal), "{victims:?}");
    assert_eq!(paused(&outcome), 0.0, "classes are not paused");
}

/// So many servers send all they can to one across a link that carries it, and one more to another
/// server: the victim's share of its receiver's link.
fn victim_behind_a_link(senders: u32, queues: u32, control: &str) -> f64 {
    let (victim, left) = (senders, senders + 1);
    let outcome = run(&format!(
        r#"
version = 1
name = "victim"
run.duration = "30ms"
run.warmup = "10ms"
fabric.flow_queues = {queues}
virtual.congestion = "{control}"
[topology]
kind = "dumbbell"
left = {left}
right = 2
bottleneck.rate = "{}gbit"
[workload.hot]
kind = "stream"
source = "vm@0-{}"
destination = "vm@{left}"
transport = "udp"
[workload.victim]
kind = "stream"
source = "vm@{victim}"
destination = "vm@{}"
transport = "udp"
"#,
        10 * left,
        senders - 1,
        left + 1,
    ));
    *shares(&outcome).last().unwrap()
}

#[test]
fn a_victim_keeps_its_rate_while_there_are_as_many_queues_as_flows() {
    let paused = victim_behind_a_link(7, 32, "none");
    assert!(paused < 0.3, "{paused}");
    for queues in [32, 8] {
        let share = victim_behind_a_link(7, queues, "bfc");
        assert!(share > 0.98, "{share} with {queues} queues");
    }
    // With fewer it shares a queue with who has to wait.
    for queues in [2, 1] {
        let share = victim_behind_a_link(7, queues, "bfc");
        assert!(share < 0.7, "{share} with {queues} queues");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    /// Whatever switches pause, nothing is lost, nothing is overtaken, and all of it arrives: also
    /// with few queues, and with little memory.
    #[test]
    fn nothing_is_lost_and_everything_arrives_where_flows_are_paused(
        queues in prop_oneof![1..4_u32, Just(32)],
        buffer in 14..60_u32,
        spines in 1..3_u32,
        bytes in 1..200_u32,
        seed in 0..1000_u64,
    ) {
        let outcome = run(&format!(
            r#"
version = 1
name = "paused"
run.seed = {seed}
fabric.flow_queues = {queues}
fabric.buffer = {{ kind = "private-input", bytes = "{buffer}kb" }}
virtual.congestion = "bfc"
virtual.vms = {{ vm = 2 }}
topology = {{ kind = "leaf-spine", leaves = 2, spines = {spines}, servers = 3 }}
[workload.datagrams]
kind = "permutation"
transport = "udp"
bytes = "{bytes}kb"
[workload.burst]
kind = "incast"
senders = "vm@1-5"
receiver = "vm@0/0"
bytes = "{bytes}kb"
rounds = 3
[workload.all]
kind = "all-to-all"
vms = "any/1"
bytes = "{bytes}kb"
"#
        ));
        prop_assert_eq!(outcome.unfinished, 0);
        // An answer that is late sets off a probe, where nothing was lost.
        prop_assert_eq!((outcome.retransmitted, outcome.timeouts), (outcome.probes, 0));
        prop_assert_eq!(outcome.record.queries().len(), 4);
    }
}

/// The rate at which sixteen servers send 64 kB each to one, round after round, as a share of the
/// link: Zhang and Ansari, "FQCN", INFOCOM 2011, have 0.35 to 0.5 with QCN.
#[test]
fn synchronized_reads_use_half_of_a_link_whose_switch_gives_notices() {
    let share = |control: &str| {
        let outcome = run(&format!(
            r#"
version = 1
name = "synchronized reads"
run.duration = "10s"
link.rate = "1gbit"
topology = {{ kind = "star", servers = 17 }}
virtual.congestion = "{control}"
[workload.reads]
kind = "incast"
senders = "vm@1-16"
receiver = "vm@0"
bytes = "64kb"
rounds = 40
gap = "1us"
"#
        ));
        let rounds = outcome.record.queries();
        let took: f64 = rounds.iter().map(|it| (it.ended - it.begun).as_secs_f64()).sum();
        rounds.len() as f64 * 16.0 * 64e3 * 8.0 / took / 1e9
    };
    let (without, with) = (share("none"), share("qcn"));
    assert!(without > 0.85, "{without}");
    assert!((0.35..0.6).contains(&with), "{with}");
    // Where flows are paused, the link never waits.
    let paused = share("bfc");
    assert!(paused > 0.91, "{paused}");
}

#[test]
fn who_shares_a_link_with_nobody_loses_next_to_nothing() {
    let bytes = |control: &str| {
        let outcome = run(&format!(
            r#"
version = 1
name = "alone"
run.duration = "20ms"
topology = {{ kind = "star", servers = 2 }}
virtual.congestion = "{control}"
[workload.alone]
kind = "stream"
source = "vm@0"
destination = "vm@1"
transport = "udp"
"#
        ));
        outcome.record.streams()[0].bytes as f64
    };
    let without = bytes("none");
    for control in ["lanes", "bfc"] {
        let with = bytes(control);
        assert!(with > 0.99 * without, "{with} with {control}, not {without}");
    }
}

/// All kinds of workloads at once, on a small network.
const MIXED: &str = include_str!("../mixed.toml");

#[test]
fn everything_arrives_where_lossless_and_lossy_classes_are_mixed() {
    for control in ["lanes", "qcn", "bfc"] {
        let text = MIXED.replace("[virtual]", &format!("[virtual]\ncongestion = \"{control}\""));
        assert_ne!(text, MIXED);
        for cell in plan(&text).cells() {
            let outcome = sim::run(&cell.scenario, |_| true);
            assert_eq!(outcome.defects, [""; 0], "{}", cell.name);
            assert!(outcome.record.queries().len() > 30, "{}", cell.name);
        }
    }
}
