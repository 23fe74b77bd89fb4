//! What a simulated network must do, held against theory and against itself.

use crate::common::{outcome, plan, run};
use sim::{CellResult, Ending, Outcome};

/// Completion times in microseconds.
fn fct_us(outcome: &Outcome) -> Vec<f64> {
    let us = |it: &sim::Query| (it.ended - it.begun).as_picos() as f64 / 1e6;
    outcome.record.queries().iter().map(us).collect()
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

/// All kinds of workloads at once, on a small network.
const MIXED: &str = include_str!("../mixed.toml");

#[test]
fn the_number_of_threads_changes_nothing() {
    struct Nobody;
    impl sim::Watcher for Nobody {
        fn see(&self, _: &sim::scenario::Cell, _: &sim::Progress, _: f64) -> bool {
            true
        }
        fn end(&self, _: &sim::scenario::Cell, _: &Outcome, _: &CellResult, _: sim::Seen) -> bool {
            true
        }
    }
    let cells: Vec<_> = plan(MIXED).cells().collect();
    assert_eq!(sim::run_cells(&cells, 1, &Nobody), sim::run_cells(&cells, 3, &Nobody));
}

#[test]
fn a_run_whose_time_is_over_too_early_says_so() {
    let shortfall = |run: &str| {
        let cell = plan(&MIXED.replace("duration = \"30ms\"", run)).cell(0);
        let result = CellResult::new(&cell, &sim::run(&cell.scenario, |_| true));
        (result.queries, result.shortfall())
    };
    assert_eq!(shortfall("duration = \"30ms\"").1, None, "nothing was wanted");
    assert_eq!(shortfall("duration = \"30ms\"\nqueries = 3"), (3, None));
    let (queries, told) = shortfall("duration = \"30ms\"\nqueries = 1000");
    assert!((3..1000).contains(&queries));
    assert!(told.unwrap().contains(&format!("its time was over after {queries} queries")));
}

/// The digest of all rows, which must be the same in every build, on every machine. A change here
/// is a change of results: say so in the changelog.
#[test]
fn results_are_the_same_everywhere() {
    let plan = plan(MIXED);
    let rows = |index| {
        let cell = plan.cell(index);
        CellResult::new(&cell, &sim::run(&cell.scenario, |_| true)).rows
    };
    assert_eq!([rows(1), rows(13)], ["deedc76aad212ccf", "e13e8d5c15b17aa4"]);
}

#[test]
fn seeds_choose_among_equal_paths() {
    let rows = |seed: u64, ecmp_seed: u64| {
        // Apart from paths nothing in it is drawn.
        let text = format!(
            r#"
            version = 1
            name = "paths"
            run.seed = {seed}
            fabric.ecmp_seed = {ecmp_seed}
            [topology]
            kind = "leaf-spine"
            leaves = 2
            spines = 4
            servers = 8
            [workload.flows]
            kind = "permutation"
            stride = 8
            bytes = "200kb"
            "#
        );
        let cell = plan(&text).cell(0);
        CellResult::new(&cell, &outcome(&cell.scenario)).rows
    };
    assert_eq!(rows(1, 1), rows(1, 1));
    assert_ne!(rows(1, 1), rows(1, 2));
    assert_ne!(rows(1, 1), rows(2, 1));
}

#[test]
fn a_link_carries_what_its_rate_says() {
    // Full datagrams of 1446 bytes and 54 around them, 20 more on the wire: 1418 bytes of payload
    // in 1520.
    let out = run(r#"
version = 1
name = "link"
[run]
duration = "20ms"
[topology]
kind = "star"
servers = 2
[workload.stream]
kind = "stream"
source = "vm@0"
destination = "vm@1"
transport = "udp"
"#);
    let expected = 0.02 * 10e9 / 8.0 / 1520.0;
    // Two links each.
    let carried = out.hops as f64 / 2.0;
    assert!((carried / expected - 1.0).abs() < 0.002, "{carried} frames, not {expected}");
}

#[test]
fn tcp_fills_a_lossless_link() {
    let out = run(r#"
version = 1
name = "link"
[run]
duration = "60ms"
[topology]
kind = "star"
servers = 2
[workload.flow]
kind = "permutation"
vms = "vm"
stride = 1
bytes = "50mb"
"#);
    // Segments of 1394 bytes with timestamps, in 1520 on the wire; acknowledgements of the other
    // direction share the link.
    for flow in out.record.flows() {
        let ms = (flow.ended - flow.begun).as_picos() as f64 / 1e9;
        let ideal = 50e6 / 1394.0 * 1520.0 * 8.0 / 10e9 * 1e3;
        assert!((1.0..1.07).contains(&(ms / ideal)), "{ms} ms, not {ideal}");
    }
    assert_eq!((out.record.flows().len(), out.retransmitted), (2, 0));
}

#[test]
fn waiting_in_an_output_is_that_of_an_md1_queue() {
    // Many sources of single datagrams, each Poisson, into one link: M/D/1. The mean wait is ρ / (2
    // (1 - ρ)) services (Pollaczek and Khinchine). A source's own datagrams hardly ever meet on its
    // own link.
    for (load, tolerance) in [(0.5, 0.04), (0.8, 0.06)] {
        let out = run(&format!(
            r#"
version = 1
name = "md1"
[run]
duration = "600ms"
[topology]
kind = "star"
servers = 101
access.rate = "10gbit"
[fabric]
nic_queue = "10mb"
buffer = {{ kind = "per-output", bytes = "10mb" }}
[virtual]
switch = false
stack_delay = "0ns"
[workload.arrivals]
kind = "flows"
sources = "vm@1-100"
destinations = "vm@0"
transport = "udp"
sizes = "1418b"
gap = "{}ns"
"#,
            // 1520 bytes are 1216 ns at 10 Gb/s.
            (1216.0 / load * 100.0_f64).round()
        ));
        let us = |it: &sim::Flow| (it.ended - it.begun).as_picos() as f64 / 1e6;
        let times: Vec<f64> = out.record.flows().iter().map(us).collect();
        // Two links of 1.216 µs and 0.5 µs each.
        let wait = mean(&times) - 2.0 * 1.716;
        let expected = 1.216 * load / (2.0 * (1.0 - load));
        assert!(times.len() > 200_000, "{}", times.len());
        assert!(
            (wait / expected - 1.0).abs() < tolerance,
            "waits {wait} µs, not {expected}, at {load}"
        );
    }
}

/// A sender at full speed whose frames go on by a link a thousand times slower, while its own
/// link's other direction is full as well: its switch pauses it again and again, at ever other
/// phases.
fn paused(headroom: u64) -> Outcome {
    let text = format!(
        r#"
version = 1
name = "headroom"
[run]
duration = "200ms"
[topology]
kind = "dumbbell"
left = 2
right = 1
bottleneck.rate = "10mbit"
[fabric]
buffer = {{ kind = "private-input", bytes = "100kb" }}
[fabric.pfc]
headroom = "{headroom}b"
xoff = "40500b"             # 27 frames
[virtual]
switch = false
[workload.there]
kind = "stream"
source = "vm@0"
destination = "vm@2"
transport = "udp"
[workload.back]
kind = "stream"
source = "vm@1"
destination = "vm@0"
transport = "udp"
"#
    );
    sim::run(&plan(&text).cell(0).scenario, |_| true)
}

#[test]
fn computed_headroom_is_just_enough() {
    // At 10 Gb/s and 500 ns: a frame each way, the pause, both ways, the response.
    let computed = 2 * 1520 + 84 + 1251 + 5888;
    let lost = |headroom| paused(headroom).classes[0].lost_physical;
    let out = paused(computed);
    assert!(
        out.defects.is_empty() && out.classes[0].paused.as_secs_f64() > 0.1,
        "{:?}",
        out.classes
    );
    let (mut too_little, mut enough) = (1000, computed);
    assert!(lost(too_little) > 0);
    while enough - too_little > 1 {
        let middle = (too_little + enough) / 2;
        if lost(middle) > 0 { too_little = middle } else { enough = middle }
    }
    // Memory holds frames without preamble and gap, and whole ones.
    assert!(computed - enough < 1520, "{enough} bytes are enough, {computed} were computed");
    let out = paused(too_little);
    assert!(
        out.defects.iter().any(|what| what.contains("frames lost by lossless links")),
        "{:?}",
        out.defects
    );
}

#[test]
fn a_lossless_incast_takes_as_long_as_its_link_needs() {
    let text = std::fs::read_to_string("../../scenarios/incast.toml").unwrap();
    let plan = plan(&text);
    let [lossy, lossless] = [0, 1].map(|index| outcome(&plan.cell(index).scenario));
    // 32 × 20 kB in segments of 1394 bytes: 15 each, of which the last has 484.
    let wire = 32.0 * (14.0 * 1520.0 + (484.0 + 126.0)) * 8.0 / 10e3;
    let times = fct_us(&lossless);
    assert_eq!((times.len(), lossless.retransmitted, lossless.timeouts), (100, 0, 0));
    assert!((1.0..1.15).contains(&(mean(&times) / wire)), "{} µs, not {wire}", mean(&times));
    assert!(lossy.classes[0].lost_physical > 100 && lossy.timeouts > 0);
    assert!(mean(&fct_us(&lossy)) > 10.0 * mean(&times));
}

#[test]
fn a_circle_of_pauses_is_found_and_named() {
    let text = std::fs::read_to_string("../../scenarios/pfc-deadlock.toml").unwrap();
    let plan = plan(&text);
    let out = sim::run(&plan.cell(0).scenario, |_| true);
    let Ending::Deadlock(mut circle) = out.ending else { panic!("{:?}", out.ending) };
    circle.sort();
    assert_eq!(
        circle,
        ["switch0-switch1", "switch1-switch2", "switch2-switch3", "switch3-switch0"]
    );
    let out = outcome(&plan.cell(1).scenario);
    assert_eq!(out.ending, Ending::Done);
}

#[test]
fn a_run_can_be_stopped() {
    let plan = plan(MIXED);
    let mut seen = 0;
    let out = sim::run(&plan.cell(0).scenario, |_| {
        seen += 1;
        seen < 3
    });
    assert_eq!((out.ending, seen), (Ending::Stopped, 3));
}
