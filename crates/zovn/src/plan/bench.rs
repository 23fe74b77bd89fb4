//! `zovn plan bench`: how fast plans are computed.

use std::fs;

use figures::{Unit, si};
use planner::bench::{Figure, Measure, Size, bench};
use serde::Serialize;

use super::experiment::Experiment;
use super::words::ending;
use crate::ending::{Outcome, show};
use crate::number::within;
use crate::table::{headed, text};

/// Measure how fast plans are computed, against the goals for 100,000 machines on 10,000 hosts.
///
/// Exit code 1 if a goal is missed. Goals are for an optimized build on a host that does nothing
/// else, and for the sizes that are the default.
#[derive(clap::Args)]
pub struct Args {
    /// How many hosts; there are ten times as many machines, and a tenth as many traces.
    #[arg(long, value_name = "N", default_value_t = 10_000, value_parser = within(10..=100_000u32))]
    hosts: u32,
    /// How many samples a trace has.
    #[arg(long, value_name = "N", default_value_t = 100_000, value_parser = within(100..=1_000_000u32))]
    samples: u32,
    /// How many machines a scheduler asks about.
    #[arg(long, value_name = "N", default_value_t = 1000, value_parser = within(1..=100_000u32))]
    questions: u32,
    /// Tell it as JSON.
    #[arg(long)]
    json: bool,
}

/// What was found.
#[derive(Serialize)]
struct Told {
    figures: Vec<Figure>,
    /// The most memory that this process has had, in bytes, and what it is to have at most.
    memory: u64,
    memory_goal: u64,
    is_met: bool,
}

const MEMORY_GOAL: u64 = 1 << 30;

/// Measures, and tells.
pub fn run(args: &Args) -> Outcome {
    let Args { hosts, samples, questions, json } = *args;
    let size = Size { hosts, samples, questions };
    let figures = bench(size, &mut |what| eprintln!("zovn: {what} …"))?;
    let memory = peak().ok_or("cannot read the most memory from /proc/self/status: mount /proc")?;
    let is_met = figures.iter().all(|it| it.is_met) && memory <= MEMORY_GOAL;
    let told = [Told { figures, memory, memory_goal: MEMORY_GOAL, is_met }];
    show(&Experiment::new("plan-bench", size, &told), json, || table(&told[0]))?;
    Ok(ending(is_met))
}

/// The most memory that this process has had (proc(5)).
fn peak() -> Option<u64> {
    let status = fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|it| it.strip_prefix("VmHWM:"))?;
    line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok().map(|it| it * 1024)
}

fn table(told: &Told) -> String {
    let mut table = headed(["", "found", "goal", "met"]);
    let word = |is_met| if is_met { "yes" } else { "no" }.to_owned();
    for it in &told.figures {
        let [value, goal] = [it.value, it.goal].map(|value| match it.unit {
            Measure::Seconds => si(value, Unit::SECONDS),
            Measure::Ratio => si(value, Unit::TIMES),
        });
        table.add_row([it.what.clone(), value, goal, word(it.is_met)]);
    }
    let [memory, goal] = [told.memory, MEMORY_GOAL].map(|it| si(it as f64, Unit::BYTES));
    table.add_row(["the most memory".to_owned(), memory, goal, word(told.memory <= MEMORY_GOAL)]);
    text(table)
}
