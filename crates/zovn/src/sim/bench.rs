//! `zovn sim bench`: how fast this machine simulates.

use std::fs;
use std::io::{self, Write};
use std::process::ExitCode;
use std::sync::atomic::Ordering;

use rustix::time::{ClockId, clock_gettime};
use serde::Serialize;
use sim::scenario::Plan;

use super::{bare, text};
use crate::ending::{Outcome, print_json};
use crate::signals;

/// Partition-Aggregate on a fat tree of 256 servers, everything on: virtual switches, flow control,
/// SACK, the ledger.
const SCENARIO: &str = include_str!("bench.toml");

/// Simulates, and tells how fast.
pub fn run(queries: u64, rounds: u16, json: bool) -> Outcome {
    let scenario = SCENARIO.replace("queries = 1000", &format!("queries = {queries}"));
    let plan = Plan::parse(&scenario).map_err(|faults| faults[0].to_string())?;
    let cell = plan.cell(0);
    let stop = signals::stop()?;
    let mut runs = Vec::new();
    for _ in 0..rounds {
        let began = cpu_seconds();
        let outcome = sim::run(&cell.scenario, |_| !stop.load(Ordering::Relaxed));
        let cpu_s = cpu_seconds() - began;
        if outcome.ending == sim::Ending::Stopped {
            eprintln!("zovn: interrupted: {} of {rounds} rounds are done", runs.len());
            return Ok(ExitCode::from(signals::INTERRUPTED));
        }
        runs.push((cpu_s, sim::CellResult::new(&cell, &outcome)));
    }
    runs.sort_by(|a, b| a.0.total_cmp(&b.0));
    let (cpu_s, result) = &runs[runs.len() / 2];
    let figures = Figures {
        queries: result.queries,
        simulated_s: result.time_s,
        cpu_s: *cpu_s,
        packet_hops: result.packet_hops,
        packet_hops_per_cpu_s: result.packet_hops as f64 / cpu_s,
        events: result.events,
        events_per_cpu_s: result.events as f64 / cpu_s,
        rss_bytes: peak_memory()?,
        fct_mean_us: result.completion.fct_us.map_or(0.0, |times| times.mean),
    };
    for complaint in result.complaints() {
        eprintln!("zovn: {complaint}");
    }
    if json {
        print_json(&Bench {
            zovn: env!("CARGO_PKG_VERSION"),
            experiment: "sim-bench",
            config: Config { scenario: plan.first().name.clone(), queries, rounds },
            results: [&figures],
        })?;
    } else {
        print(&figures)?;
    }
    Ok(if result.complaints().is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// What `bench --json` says.
#[derive(Serialize)]
struct Bench<'a> {
    zovn: &'a str,
    experiment: &'a str,
    config: Config,
    results: [&'a Figures; 1],
}

#[derive(Serialize)]
struct Config {
    scenario: String,
    queries: u64,
    rounds: u16,
}

/// Of the median round.
#[derive(Serialize)]
struct Figures {
    queries: u64,
    simulated_s: f64,
    cpu_s: f64,
    packet_hops: u64,
    packet_hops_per_cpu_s: f64,
    events: u64,
    events_per_cpu_s: f64,
    /// The most memory that was resident, of the whole process.
    rss_bytes: u64,
    fct_mean_us: f64,
}

fn print(figures: &Figures) -> io::Result<()> {
    let mut table = bare();
    let mega = |value: f64| format!("{:.2} M", value / 1e6);
    let rows = [
        ("frames over links, a CPU second", mega(figures.packet_hops_per_cpu_s)),
        ("events, a CPU second", mega(figures.events_per_cpu_s)),
        ("CPU seconds for a simulated one", format!("{:.2}", figures.cpu_s / figures.simulated_s)),
        ("queries", figures.queries.to_string()),
        ("their mean completion time", format!("{:.1} µs", figures.fct_mean_us)),
        ("memory", format!("{:.1} MiB", figures.rss_bytes as f64 / f64::from(1 << 20))),
    ];
    for (name, value) in rows {
        table.add_row([name, &value]);
    }
    writeln!(io::stdout(), "{}", text(table))
}

/// CPU time that this process has used.
fn cpu_seconds() -> f64 {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}

/// The most memory that this process had (proc(5), `VmHWM`).
fn peak_memory() -> io::Result<u64> {
    let status = fs::read_to_string("/proc/self/status")?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kib = line.and_then(|rest| rest.trim().strip_suffix("kB")?.trim().parse::<u64>().ok());
    kib.map(|kib| kib << 10)
        .ok_or_else(|| io::Error::other("/proc/self/status does not say how much memory was used"))
}
