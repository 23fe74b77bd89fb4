//! What credit for servers' links does for networks with terms, by the code that agents grant by.

use std::path::Path;

use crate::common::{plan, run};
use proptest::prelude::*;
use sim::scenario::{Plan, Scenario};
use sim::{Instruments, Outcome};

/// What a frame's payload takes of a link with everything around it.
const ON_LINK: f64 = 1520.0 / 1418.0;

/// One machine sends to a server, as much as this says, and so many others all they can, over one
/// switch of 10 Gb/s, for so long. Where credit is granted, the machine has a minimum of 3 Gb/s.
/// The outcome, and whether the machine's host was paused.
fn incast(senders: u32, control: &str, victim: &str, duration: &str) -> (Outcome, bool) {
    let terms = match control.contains("grants") {
        true => {
            "[network.victim]\nmachines = \"vm@1\"\nmin = \"3gbit\"\nweight = 1\n\
             [network.flood]\nmachines = \"vm@2-100\"\nweight = 15"
        }
        false => "",
    };
    let text = format!(
        r#"
version = 1
name = "incast"
run.duration = "{duration}"
output.samples = "1us"
topology = {{ kind = "star", servers = 101 }}
[virtual]
latency = "100us"
{control}
{terms}
[workload.victim]
kind = "stream"
source = "vm@1"
destination = "vm@0"
transport = "udp"
{victim}
[workload.flood]
kind = "stream"
source = "vm@2-{}"
destination = "vm@0"
transport = "udp"
"#,
        senders + 1
    );
    let (outcome, paused) = seen(&plan(&text).cell(0).scenario);
    (outcome, paused.iter().any(|port| port == "server1-switch0"))
}

/// The outcome of a scenario that samples, and the transmitters that were seen paused.
fn seen(scenario: &Scenario) -> (Outcome, Vec<String>) {
    let instruments = Instruments { samples: true, ..Instruments::default() };
    let (outcome, seen) = sim::run_seen(scenario, instruments, &mut |_| true);
    assert_eq!(outcome.defects, [""; 0]);
    let samples = seen.samples.expect("they are wanted");
    let paused = samples.iter().filter(|it| it.paused > 0.0 && it.port.contains('-'));
    (outcome, paused.map(|it| it.port.to_owned()).collect())
}

/// What of the receiver's link the first machine had, and all others, in Gb/s.
fn rates(outcome: &Outcome) -> [f64; 2] {
    let of = |is_victim: bool| {
        let all = outcome.record.streams().iter().filter(|it| (it.from == 1) == is_victim);
        all.map(|it| it.bytes as f64 * 8.0 / (it.ended - it.begun).as_secs_f64()).sum::<f64>()
    };
    [of(true), of(false)].map(|rate| rate * ON_LINK / 1e9)
}

fn paused(outcome: &Outcome) -> f64 {
    outcome.classes.iter().map(|it| it.paused.as_secs_f64()).sum()
}

const GRANTS: &str = "grants = true";
const BOTH: &str = "grants = true\ncongestion = \"lanes\"";

#[test]
fn a_minimum_holds_from_the_first_millisecond_of_an_incast_on() {
    for control in [GRANTS, BOTH] {
        for senders in [15, 63] {
            // What all send unasked comes first, each frame 1.22 us, and a round trip.
            let late = 0.03 + 2.0 * f64::from(senders + 1) * 1.22e-3;
            for ms in [1, 2, 5, 20] {
                let (outcome, is_paused) = incast(senders, control, "", &format!("{ms}ms"));
                let ([victim, others], ms) = (rates(&outcome), f64::from(ms));
                let case = format!("{control} {senders} {ms} ms: {victim} and {others} Gb/s");
                assert!(victim * ms > 3.0 * (ms - late), "{case}");
                assert!(victim + others > 9.6 * (1.0 - late / ms), "{case}");
                // What it may have beside its minimum is little at a weight of 1 of 16.
                assert!(victim * ms < 4.0 * (ms + 1.0), "{case}");
                // With grants alone, whoever is heard first has credit for a round trip that is not
                // known yet, and fills a switch with it once.
                let none = !is_paused && paused(&outcome) == 0.0;
                assert!(none || control != BOTH, "{case}: hosts are paused");
                assert!(paused(&outcome) < 0.001, "{case}: {} s", paused(&outcome));
            }
        }
    }
}

#[test]
fn who_begins_late_has_its_minimum_at_once() {
    for control in [GRANTS, BOTH] {
        for ms in [1, 5] {
            let duration = format!("{}ms", 10 + ms);
            let (outcome, is_paused) = incast(15, control, "start = \"10ms\"", &duration);
            let [victim, _] = rates(&outcome);
            assert!(victim > 0.95 * 3.0 && !is_paused, "{control} {ms} ms: {victim} Gb/s");
        }
    }
}

#[test]
fn who_keeps_to_its_minimum_has_all_that_it_sends() {
    // 2.7 Gb/s of payload take 2.9 of the link.
    let (outcome, is_paused) = incast(15, GRANTS, "rate = \"2700mbit\"", "20ms");
    let [victim, others] = rates(&outcome);
    assert!(victim > 0.99 * 2.7 * ON_LINK && !is_paused, "{victim}");
    assert!(victim + others > 9.0, "{victim} {others}");
}

#[test]
fn without_credit_who_has_a_minimum_elsewhere_has_a_part_like_all_others() {
    let [(pauses, is_paused), (lanes, _)] =
        ["", "congestion = \"lanes\""].map(|control| incast(15, control, "", "5ms"));
    assert!(rates(&pauses)[0] < 0.7 && is_paused, "{:?}", rates(&pauses));
    assert!(rates(&lanes)[0] < 0.7, "{:?}", rates(&lanes));
}

#[test]
fn minima_hold_at_sixteen_servers_of_256_at_once() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scenarios/grants.toml");
    let plan = Plan::read(&path).unwrap_or_else(|error| panic!("{error}"));
    for cell in plan.cells() {
        let control = &cell.values[0].1;
        if !["1ms", "2ms"].contains(&cell.values[1].1.as_str()) || control == "lanes" {
            continue;
        }
        let outcome = sim::run(&cell.scenario, |_| true);
        assert_eq!(outcome.defects, [""; 0], "{}", cell.name);
        // A server's second machine is the promised network's.
        let all = outcome.record.streams().iter().filter(|it| it.from % 2 == 1);
        let rate = |bytes: u64| bytes as f64 * 8.0 * ON_LINK / outcome.time.as_secs_f64() / 1e9;
        let rates: Vec<f64> = all.map(|it| rate(it.bytes)).collect();
        let least = rates.iter().copied().fold(f64::MAX, f64::min);
        assert_eq!(rates.len(), 16);
        let (is_kept, paused) = (least > 0.94 * 3.0, paused(&outcome));
        assert_eq!(is_kept, control != "none", "{}: {rates:?}", cell.name);
        assert!(paused == 0.0 || control != "both", "{}: {paused} s", cell.name);
    }
}

#[test]
fn a_maximum_and_weights_hold() {
    let outcome = run(r#"
version = 1
name = "terms"
run.duration = "30ms"
run.warmup = "10ms"
topology = { kind = "star", servers = 10 }
virtual.grants = true
[network.bounded]
machines = "vm@1-3"
max = "1gbit"
weight = 5
[network.light]
machines = "vm@4-6"
weight = 1
[network.heavy]
machines = "vm@7-9"
weight = 3
[workload.all]
kind = "stream"
source = "vm@1-9"
destination = "vm@0"
transport = "udp"
"#);
    let rate = |hosts: std::ops::RangeInclusive<u32>| {
        let all = outcome.record.streams().iter().filter(|it| hosts.contains(&it.from));
        all.map(|it| it.bytes as f64 * 8.0 * ON_LINK / 0.02 / 1e9).sum::<f64>()
    };
    let [bounded, light, heavy] = [rate(1..=3), rate(4..=6), rate(7..=9)];
    // What its turns come late for beyond the maximum's burst is lost to it.
    assert!((0.7..1.02).contains(&bounded), "{bounded}");
    assert!((2.9..3.1).contains(&(heavy / light)), "{heavy} {light}");
    assert!(bounded + light + heavy > 9.6, "{bounded} {light} {heavy}");
    assert_eq!(paused(&outcome), 0.0);
}

#[test]
fn credit_frees_the_victims_of_a_hot_spot() {
    for control in [GRANTS, BOTH] {
        let outcome = run(&format!(
            r#"
version = 1
name = "hot spot"
run.duration = "30ms"
run.warmup = "10ms"
topology = {{ kind = "star", servers = 17 }}
[virtual]
{control}
[workload.hot]
kind = "stream"
source = "vm@0-7"
destination = "vm@8"
transport = "udp"
[workload.victims]
kind = "stream"
source = "vm@0-7"
destination = "vm@9-16"
transport = "udp"
"#
        ));
        let link = 0.02 * 10e9 / 8.0 / ON_LINK;
        let shares = |is_hot: bool| {
            let all = outcome.record.streams().iter().filter(move |it| (it.to == 8) == is_hot);
            all.map(|it| it.bytes as f64 / link).collect::<Vec<_>>()
        };
        let (hot, victims) = (shares(true), shares(false));
        assert!(hot.iter().sum::<f64>() > 0.95, "{control}: {hot:?}");
        // Reports take some of the links, too.
        assert!(victims.iter().all(|it| *it > 0.92 * (1.0 - 1.0 / 8.0)), "{control}: {victims:?}");
        assert_eq!(paused(&outcome), 0.0, "{control}");
    }
}

/// What all send at once, three times over, where two tenants have terms.
#[derive(Clone, Debug)]
struct Granted {
    control: &'static str,
    /// In Gb/s.
    min: u32,
    weight: u32,
    /// In Mb/s.
    max: u32,
    spines: u32,
    /// In kilobytes.
    bytes: u32,
    /// In microseconds.
    latency: u32,
    seed: u64,
}

impl Granted {
    fn run(&self) -> Outcome {
        let Self { control, min, weight, max, spines, bytes, latency, seed } = self;
        run(&format!(
            r#"
version = 1
name = "granted"
run.seed = {seed}
topology = {{ kind = "leaf-spine", leaves = 2, spines = {spines}, servers = 3 }}
[virtual]
vms = {{ vm = 2 }}
latency = "{latency}us"
{control}
[network.first]
machines = "any/0"
min = "{min}gbit"
weight = {weight}
[network.second]
machines = "vm@0-3/1"
max = "{max}mbit"
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
        ))
    }
}

prop_compose! {
    fn granted()(
        control in prop_oneof![Just(GRANTS), Just(BOTH)],
        min in 1..9_u32,
        weight in 1..9_u32,
        max in 10..5000_u32,
        spines in 1..3_u32,
        bytes in 1..200_u32,
        latency in 10..5000_u32,
        seed in 0..1000_u64,
    ) -> Granted {
        Granted { control, min, weight, max, spines, bytes, latency, seed }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    /// Whatever is promised, nothing is lost, nothing is overtaken, and all of it arrives.
    #[test]
    fn nothing_is_lost_and_everything_arrives_where_credit_is_granted(granted in granted()) {
        let outcome = granted.run();
        prop_assert_eq!(outcome.unfinished, 0);
        // An answer that is late sets off a probe, where nothing was lost.
        prop_assert_eq!((outcome.retransmitted, outcome.timeouts), (outcome.probes, 0));
        prop_assert_eq!(outcome.record.queries().len(), 4);
    }
}

#[test]
fn who_waits_for_its_maximum_is_probed_and_loses_nothing() {
    let (control, min, weight, max, spines, bytes) = (GRANTS, 1, 1, 10, 1, 2);
    let outcome =
        Granted { control, min, weight, max, spines, bytes, latency: 10, seed: 775 }.run();
    assert_eq!((outcome.unfinished, outcome.timeouts), (0, 0));
    assert_eq!((outcome.retransmitted, outcome.probes), (2, 2));
}

/// All kinds of workloads at once, on a small network.
const MIXED: &str = include_str!("../mixed.toml");

#[test]
fn everything_arrives_where_lossless_and_lossy_classes_are_mixed() {
    for control in [GRANTS, BOTH] {
        let text = MIXED.replace("[virtual]", &format!("[virtual]\n{control}"));
        assert_ne!(text, MIXED);
        for cell in plan(&text).cells() {
            let outcome = sim::run(&cell.scenario, |_| true);
            assert_eq!(outcome.defects, [""; 0], "{}", cell.name);
            assert!(outcome.record.queries().len() > 30, "{}", cell.name);
        }
    }
}
