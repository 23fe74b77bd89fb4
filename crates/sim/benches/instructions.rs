//! How many instructions a frame costs on each link, and whether that is still as few as it was.
//!
//! `cargo bench -p sim --bench instructions`.

use std::process::ExitCode;

use sim::scenario::Plan;

/// Partition-Aggregate on the fat tree of `zovn sim bench`, everything on.
const SCENARIO: &str = include_str!("../../zovn/src/sim/bench.toml");

fn main() -> ExitCode {
    callgrind::main("hop", &[("fat-tree", 1379.0)], 30, |_, queries| {
        let text = SCENARIO.replace("queries = 1000", &format!("queries = {queries}"));
        let plan = Plan::parse(&text).expect("it is what `zovn sim bench` runs");
        sim::run(&plan.cell(0).scenario, |_| true).hops
    })
}
