//! Reads what is to be simulated, and tells what is wrong with it.

use std::path::Path;

use sim::scenario::{Plan, ScenarioError};

/// How many mistakes are told to people, who will look for one cause of all of them. JSON has the
/// rest.
const MOST_FAULTS: usize = 20;

/// Reads a plan; none, and complaints on stderr, if it cannot be simulated.
pub fn plan(file: &Path) -> Result<Option<Plan>, ScenarioError> {
    match Plan::read(file) {
        Ok(plan) => Ok(Some(plan)),
        Err(error) => complain(error).map(|()| None),
    }
}

/// Tells mistakes in a scenario on stderr; any other error is its caller's.
pub fn complain(error: ScenarioError) -> Result<(), ScenarioError> {
    let ScenarioError::Faults { path, faults } = error else { return Err(error) };
    for fault in faults.iter().take(MOST_FAULTS) {
        eprintln!("zovn: {}, {fault}", path.display());
    }
    if let more @ 1.. = faults.len().saturating_sub(MOST_FAULTS) {
        eprintln!("zovn: {}, and {more} more", path.display());
    }
    Ok(())
}
