//! What credit for servers' links does for networks with terms, by the code that agents grant by.

use crate::common::run;
use proptest::prelude::*;
use sim::Outcome;

/// A network with a minimum of 3 Gb/s sends all it can to a server, and so do so many servers of
/// others, over one switch of 10 Gb/s, for so long. The minimum's network begins with them, before
/// them or after them.
fn incast(senders: u32, control: &str, starts: [&str; 2], duration: &str) -> Outcome {
    let [victim, flood] = starts;
    let terms = match control.contains("grants") {
        true => "[network.victim]\nmachines = \"vm@1\"\nmin = \"3gbit\"",
        false => "",
    };
    run(&format!(
        r#"
version = 1
name = "incast"
run.duration = "{duration}"
topology = {{ kind = "star", servers = {} }}
[virtual]
{control}
{terms}
[workload.victim]
kind = "stream"
source = "vm@1"
destination = "vm@0"
transport = "udp"
start = "{victim}"
[workload.flood]
kind = "stream"
source = "vm@2-{}"
destination = "vm@0"
transport = "udp"
start = "{flood}"
"#,
        senders + 2,
        senders + 1
    ))
}

/// What of the receiver's link the first of the streams had, and all others, as frames on it.
fn rates(outcome: &Outcome) -> [f64; 2] {
    let of = |is_victim: bool| {
        let all = outcome.record.streams().iter().filter(|it| (it.from == 1) == is_victim);
        all.map(|it| it.bytes as f64 * 8.0 / (it.ended - it.begun).as_secs_f64()).sum::<f64>()
    };
    [of(true), of(false)].map(|rate| rate * 1520.0 / 1418.0 / 1e9)
}

fn paused(outcome: &Outcome) -> f64 {
    outcome.classes.iter().map(|it| it.paused.as_secs_f64()).sum()
}

const GRANTS: &str = "grants = true";
const BOTH: &str = "grants = true\ncongestion = \"lanes\"";

#[test]
fn a_minimum_holds_from_the_first_millisecond_of_an_incast_on_and_nobody_is_paused() {
    for control in [GRANTS, BOTH] {
        for senders in [15, 63] {
            for duration in ["1ms", "2ms", "5ms", "20ms"] {
                let outcome = incast(senders, control, ["0ms", "0ms"], duration);
                let [victim, others] = rates(&outcome);
                let ms: f64 = duration.trim_end_matches("ms").parse().unwrap();
                // What all send unasked comes first, and a round trip of its own.
                let late = 0.05 + 2.0 * f64::from(senders + 1) * 1.22e-3;
                assert!(victim * ms > 3.0 * (ms - late), "{control} {senders} {duration}: {victim}");
                assert!(victim + others > 0.9 * 10.0 * (1.0 - late / ms), "{victim} {others}");
                assert_eq!(paused(&outcome), 0.0, "{control} {senders} {duration}");
            }
        }
    }
}

#[test]
fn without_credit_the_same_network_has_a_fair_part_and_is_paused() {
    for control in ["", "congestion = \"lanes\""] {
        let outcome = incast(15, control, ["0ms", "0ms"], "5ms");
        let [victim, _] = rates(&outcome);
        assert!(victim < 1.2, "{control}: {victim}");
        assert!(paused(&outcome) > 0.0, "{control}");
    }
}
