//! Scenarios that cannot be simulated: each kind of mistake is answered with its place and with
//! what to write instead.

mod language;
mod networks;
mod workloads;

use sim::scenario::Plan;

/// The smallest scenario there is.
const SMALL: &str = include_str!("../small.toml");

/// The only thing that is wrong with a text.
fn fault(text: &str) -> String {
    let faults = Plan::parse(text).expect_err(text);
    let [fault] = &faults[..] else { panic!("{text}\n{faults:#?}") };
    fault.to_string()
}

/// Each mistake, in the place of something in the smallest scenario, and its answer.
fn replaced(cases: &[(&str, &str, &str)]) {
    for (from, to, expected) in cases {
        assert!(SMALL.contains(from), "{from}");
        assert_eq!(fault(&SMALL.replacen(from, to, 1)), *expected, "{to}");
    }
}

/// Each mistake, from line 14 on below the smallest scenario, and its answer.
fn added(cases: &[(&str, &str)]) {
    for (text, expected) in cases {
        assert_eq!(fault(&format!("{SMALL}{text}\n")), *expected, "{text}");
    }
}
