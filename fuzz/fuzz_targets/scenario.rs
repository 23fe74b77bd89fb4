#![no_main]

use sim::scenario::{Plan, Scenario};

libfuzzer_sys::fuzz_target!(|text: &str| {
    if let Ok(plan) = Plan::parse(text) {
        let scenario = plan.cell(plan.len() - 1).scenario;
        let toml = toml::to_string(&scenario).expect("what was read can be written");
        let again: Scenario = toml::from_str(&toml).expect("what was written can be read");
        assert_eq!(again.digest(), scenario.digest());
    }
});
