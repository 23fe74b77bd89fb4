//! What experiments on plans say as JSON: the object of those of `zovn measure` and `zovn sim`.

use serde::Serialize;

/// An experiment.
#[derive(Serialize)]
pub struct Experiment<'a, C, R> {
    zovn: &'static str,
    experiment: &'static str,
    config: C,
    results: &'a [R],
}

impl<'a, C, R> Experiment<'a, C, R> {
    /// How it was made, and what was found.
    pub fn new(experiment: &'static str, config: C, results: &'a [R]) -> Self {
        Self { zovn: env!("CARGO_PKG_VERSION"), experiment, config, results }
    }
}
