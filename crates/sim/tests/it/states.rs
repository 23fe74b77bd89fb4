//! Sources that go through states, beside a switch that carries so much and no more: what is lost
//! of what they ask for is what `demand` computes.

use demand::{Model, Precision, risk};
use sim::scenario::{Plan, WorkloadKind};

use crate::common::{outcome, plan};

/// Machines of one server that send to another machine there, which takes whatever comes.
fn server(capacity: &str, machines: u32, states: &str) -> String {
    format!(
        r#"
version = 1
name = "states"
[run]
duration = "12s"
warmup = "200ms"
[topology]
kind = "star"
servers = 1
[virtual]
vms = {{ vm = {machines}, sink = 1 }}
mtu = 1500
stack_delay = "1us"
capacity = {{ {capacity} }}
[workload.sources]
kind = "markov"
sources = "vm"
destinations = "sink"
frame = "1000b"
queue = "2kb"
{states}
[sweep]
repeat = 8
"#
    )
}

/// The mean of what repetitions say, and its standard error.
fn mean(of: &[f64]) -> (f64, f64) {
    let count = of.len() as f64;
    let mean = of.iter().sum::<f64>() / count;
    let squares: f64 = of.iter().map(|it| (it - mean) * (it - mean)).sum();
    (mean, (squares / (count - 1.0) / count).sqrt())
}

/// The shares of traffic and of time that are too much, as each repetition sees them, and their
/// means with standard errors beside what is computed for `capacity` bits a second.
fn compare(text: &str, machines: u32, capacity: u64) -> [((f64, f64), f64); 2] {
    let plan = plan(text);
    let model = model(&plan);
    let seen = plan.cells().map(|cell| {
        let outcome = outcome(&cell.scenario);
        let overload = outcome.record.overload().expect("it has such sources");
        let [offered, lost] = [overload.offered(), overload.lost()].map(|bytes| bytes as f64);
        let time = overload.overloaded().as_secs_f64() / overload.counted().as_secs_f64();
        [lost / offered, time]
    });
    let seen: Vec<[f64; 2]> = seen.collect();
    let exact = risk(capacity, &[(&model.source(), machines)], Precision::default());
    let exact = [exact.traffic.high, exact.time.high];
    [0, 1].map(|it| {
        let of: Vec<f64> = seen.iter().map(|both| both[it]).collect();
        (mean(&of), exact[it])
    })
}

fn model(plan: &Plan) -> Model {
    let WorkloadKind::Markov(it) = &plan.first().workloads["sources"].kind else {
        panic!("a workload of states")
    };
    it.model().unwrap()
}

/// Never optimistic by more than three standard errors, and within a tenth.
fn agrees([traffic, time]: [((f64, f64), f64); 2]) {
    let ((seen, error), exact) = traffic;
    assert!(error < 0.1 * exact, "too few episodes tell anything: {seen} ± {error}");
    assert!(seen < exact + 3.0 * error, "optimistic: {exact}, and {seen} ± {error} is seen");
    assert!(seen > 0.9 * exact, "{exact}, and {seen} ± {error} is seen");
    let ((seen, error), exact) = time;
    assert!(
        (seen - exact).abs() < 0.2 * exact + 3.0 * error,
        "{exact} of the time: {seen} ± {error}"
    );
}

#[test]
fn what_on_off_sources_lose_is_what_is_computed() {
    // Bursts of 800 packets; 3 of them wait at most. Of 7.6 % that is too much, queues hide a part
    // that is well below a tenth.
    let states = "rates = [\"0\", \"50mbit\"]\nhold = [\"256ms\", \"128ms\"]";
    let text = server("bits = \"375mbit\"", 20, states).replace("12s", "16s");
    agrees(compare(&text, 20, 375_000_000));
}

#[test]
fn what_sources_of_three_states_lose_is_what_is_computed() {
    let states = "rates = [\"2mbit\", \"24mbit\", \"80mbit\"]\nhold = [\"400ms\", \"160ms\", \"100ms\"]\n\
                  jump = [[0, 0.7, 0.3], [0.6, 0, 0.4], [0.3, 0.7, 0]]";
    // 46,875 packets of 1,000 bytes are 375 Mbit.
    let text = server("frames = 46875", 20, states).replace("12s", "16s");
    agrees(compare(&text, 20, 375_000_000));
}

#[test]
fn hosts_sort_alike_by_what_is_computed_and_by_what_is_seen() {
    let on_off = |rate: &str, off: u32, on: u32| {
        format!("rates = [\"0\", \"{rate}\"]\nhold = [\"{off}ms\", \"{on}ms\"]")
    };
    let steady = "rates = [\"100mbit\"]\nhold = [\"1s\"]\njump = [[0]]".to_owned();
    let hosts = [
        (3, steady),
        (13, on_off("50mbit", 256, 128)),
        (8, on_off("100mbit", 300, 100)),
        (20, on_off("50mbit", 256, 128)),
        (4, on_off("150mbit", 360, 40)),
    ];
    let shares = hosts.map(|(machines, states)| {
        let text = server("bits = \"375mbit\"", machines, &states).replace("12s", "4s");
        let [_, ((seen, _), exact)] = compare(&text, machines, 375_000_000);
        let mean = f64::from(machines) * model(&plan(&text)).source().mean();
        [seen, exact, mean]
    });
    let sorted = |by: usize| {
        let mut hosts = [0, 1, 2, 3, 4];
        hosts.sort_by(|a, b| shares[*a][by].total_cmp(&shares[*b][by]));
        hosts
    };
    let [by_seen, by_exact, by_mean] = [0, 1, 2].map(sorted);
    assert_eq!(by_exact, [0, 4, 1, 2, 3]);
    assert_eq!(by_seen, by_exact, "{shares:?}");
    // Their means would sort them otherwise: the steady host has one of the largest.
    assert_ne!(by_mean, by_exact, "{shares:?}");
}

#[test]
fn sources_that_move_together_are_one() {
    let states =
        "rates = [\"0\", \"50mbit\"]\nhold = [\"600ms\", \"300ms\"]\ntogether = \"nightly\"";
    let plan = plan(&server("bits = \"150mbit\"", 4, states).replace("12s", "4s"));
    for cell in plan.cells() {
        let overload = outcome(&cell.scenario).record.overload().unwrap();
        // Of 200 Mb/s, a quarter.
        let share = overload.lost() as f64 / overload.offered() as f64;
        assert!((share - 0.25).abs() < 0.005, "{share}");
    }
}

#[test]
fn a_switch_carries_what_it_can_and_no_more() {
    let states = "rates = [\"100mbit\"]\nhold = [\"1s\"]\njump = [[0]]";
    for (capacity, share) in
        [("bits = \"300mbit\"", 0.75), ("frames = 25000", 0.5), ("bits = \"500mbit\"", 1.0)]
    {
        let text = server(capacity, 4, states).replace("12s", "1s");
        let outcome = outcome(&plan(&text).cell(0).scenario);
        let overload = outcome.record.overload().unwrap();
        let arrived: u64 = outcome.record.streams().iter().map(|it| it.bytes).sum();
        let expected = share * 0.8 * 50_000.0 * 972.0;
        assert!(
            (arrived as f64 / expected - 1.0).abs() < 0.001,
            "{capacity}: {arrived}, not {expected}"
        );
        let kept = (overload.offered() - overload.lost()) as f64 / overload.offered() as f64;
        assert!((kept - share).abs() < 0.001, "{capacity}: {kept}");
        // Each source has its part.
        let each = outcome.record.streams().iter().map(|it| it.bytes);
        assert!(each.clone().max().unwrap() - each.min().unwrap() < 4 * 972, "{capacity}");
    }
}

#[test]
fn what_comes_by_the_link_waits_too_and_nothing_is_lost_on_the_way() {
    let states = "rates = [\"100mbit\"]\nhold = [\"1s\"]\njump = [[0]]";
    let text = server("bits = \"300mbit\", servers = 1", 4, states)
        .replace("12s", "1s")
        .replace("servers = 1\n[virtual]", "servers = 2\n[virtual]")
        .replace("\"vm\"", "\"vm@1\"")
        .replace("\"sink\"", "\"sink@0\"");
    let outcome = outcome(&plan(&text).cell(0).scenario);
    let overload = outcome.record.overload().unwrap();
    let arrived: u64 = outcome.record.streams().iter().map(|it| it.bytes).sum();
    let expected = 0.75 * 0.8 * 50_000.0 * 972.0;
    assert!((arrived as f64 / expected - 1.0).abs() < 0.002, "{arrived}, not {expected}");
    assert!((overload.lost() as f64 / overload.offered() as f64 - 0.25).abs() < 0.01);
    assert_eq!((outcome.classes[0].lost_virtual, outcome.classes[0].lost_physical), (0, 0));
    assert!(outcome.classes[0].paused.as_secs_f64() > 0.1, "the link is paused");
}
