//! What tests of the engine share.

use sim::Outcome;
use sim::scenario::{Plan, Scenario};

pub fn plan(text: &str) -> Plan {
    Plan::parse(text).unwrap_or_else(|faults| panic!("{}", faults[0]))
}

/// The outcome of a scenario that has to go without defects.
pub fn outcome(scenario: &Scenario) -> Outcome {
    let outcome = sim::run(scenario, |_| true);
    assert_eq!(outcome.defects, [""; 0]);
    outcome
}

/// The same, of the first cell of a plan.
pub fn run(text: &str) -> Outcome {
    outcome(&plan(text).cell(0).scenario)
}
