//! How fast plans are computed, against the goals that hold for 100,000 machines on 10,000 hosts.

use std::error::Error;
use std::fmt::Write as _;
use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use demand::{FitSettings, Series, fit};
use placement::{BoundSettings, Placement, Tables, lower_bound, place};
use serde::Serialize;
use serde_json::json;
use units::Rng;

use crate::columns::Columns;
use crate::plan::Plan;
use crate::purchase::offers;
use crate::reasons::reasons;
use crate::risks::risks;
use crate::serve::{Question, Scheduler, by_model, respond};
use crate::trace::read;

/// How large a bench is. Goals are for the default; on less they are easier.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Size {
    /// Hosts. There are ten times as many machines, and a tenth as many traces.
    pub hosts: u32,
    /// Samples of a trace.
    pub samples: u32,
    /// Questions of a scheduler.
    pub questions: u32,
}

impl Default for Size {
    fn default() -> Self {
        Self { hosts: 10_000, samples: 100_000, questions: 1000 }
    }
}

/// What one thing took, or how good it is.
#[derive(Clone, Debug, Serialize)]
pub struct Figure {
    /// What was done.
    pub what: String,
    /// What was found.
    pub value: f64,
    /// What it is to be at most.
    pub goal: f64,
    /// What both are in.
    pub unit: Measure,
    /// Whether it is no more.
    pub is_met: bool,
}

/// What a figure is in.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Measure {
    /// Seconds that something took.
    Seconds,
    /// How many times as much as is needed.
    Ratio,
}

impl Figure {
    fn took(what: String, goal: f64, took: Duration) -> Self {
        let value = took.as_secs_f64();
        Self { what, value, goal, unit: Measure::Seconds, is_met: value <= goal }
    }

    fn times(what: String, goal: f64, value: f64) -> Self {
        Self { what, value, goal, unit: Measure::Ratio, is_met: value <= goal }
    }
}

/// A placement has at most so many times the hosts that are needed.
const MOST_TIMES: f64 = 1.05;

/// How many traces are read from files.
const READ: u32 = 20;

/// How many models there are; machines are named like them.
const MODELS: u32 = 20;

/// Places, bounds, judges, answers, explains, reads, fits and buys; a figure each. `tell` hears of
/// each.
///
/// # Errors
///
/// A sentence: a machine had no place, so that figures would be of something else, or there is no
/// folder for temporary files.
pub fn bench(size: Size, tell: &mut dyn FnMut(&str)) -> Result<Vec<Figure>, String> {
    let mut plan = Plan::of_text(Path::new("bench.yaml"), &large(size.hosts))
        .map_err(|error| format!("cannot read the bench's own plan: {error}"))?;
    let problem = plan.problem();
    let (machines, hosts) = (plan.machines(), size.hosts);
    let mut figures = Vec::new();

    tell("placing");
    let begun = Instant::now();
    let placement = place(&problem, &Placement::empty(&problem));
    figures.push(Figure::took(
        format!("place {machines} machines on {hosts} hosts"),
        3.0,
        begun.elapsed(),
    ));
    if placement.unplaced(&problem).iter().any(|it| *it > 0) {
        return Err("cannot measure: some of the bench's machines have no place".into());
    }

    tell("bounding");
    let begun = Instant::now();
    let bound = lower_bound(&problem, BoundSettings::default()).bound;
    figures.push(Figure::took(
        format!("prove that {bound} hosts are needed"),
        10.0,
        begun.elapsed(),
    ));
    let used = placement.hosts_used();
    let ratio = used as f64 / bound.max(1) as f64;
    figures.push(Figure::times(
        format!("use {used} hosts, where {bound} are needed"),
        MOST_TIMES,
        ratio,
    ));

    tell("judging");
    plan.placement = placement;
    let begun = Instant::now();
    let groups = risks(&plan).len();
    figures.push(Figure::took(
        format!("risk of that placement, {groups} kinds of hosts"),
        2.0,
        begun.elapsed(),
    ));

    tell("answering");
    let took = answers(&plan, size.questions)?;
    figures.push(Figure::took(format!("answer a scheduler about {hosts} hosts, p99"), 0.02, took));

    tell("explaining");
    let begun = Instant::now();
    let why = reasons(&plan, 0, 0);
    drop(why);
    figures.push(Figure::took("why a host takes a machine, or not".into(), 0.05, begun.elapsed()));

    tell("reading");
    let took = reads(size.samples)
        .map_err(|error| format!("cannot read the bench's own traces: {error}"))?;
    figures.push(Figure::took(
        format!("read a CSV trace of {} samples, mean of {READ}", size.samples),
        0.03,
        took / READ,
    ));

    let traces = (size.hosts / 10).max(1);
    tell("fitting");
    let took = fits(traces, size.samples);
    figures.push(Figure::took(
        format!("fit {traces} traces of {} samples, in memory", size.samples),
        30.0,
        took,
    ));

    tell("buying");
    let plan = Plan::of_text(Path::new("bench.yaml"), &market(size.hosts / 200))
        .map_err(|error| format!("cannot read the bench's own plan: {error}"))?;
    let begun = Instant::now();
    let offers = offers(&plan)?.len();
    figures.push(Figure::took(format!("{offers} offers of hosts to buy"), 1.0, begun.elapsed()));
    Ok(figures)
}

/// Models of two to eight states whose rates differ, and ten machines a host of them.
fn large(hosts: u32) -> String {
    let mut text = format!(
        "goal: {{epsilon: 0.001}}\n\
         types:\n  r: {{cores: 64, memory: 512gib, nic: 25gbit, \
         switch: [{{cores: 2, carries: 10gbit, frames: 3000000}}]}}\n\
         hosts:\n  h: {{type: r, count: {hosts}}}\nmodels:\n"
    );
    models(&mut text);
    text += "vms:\n";
    for model in 0..MODELS {
        // All of them together are ten machines a host.
        let count = (u64::from(hosts) * 10 * u64::from(model + 1) / u64::from(MODELS)
            - u64::from(hosts) * 10 * u64::from(model) / u64::from(MODELS))
        .max(1);
        let (cores, gib) = (1 + model % 4, 2 << (model % 3));
        let _ = writeln!(
            text,
            "  m{model}: {{count: {count}, model: m{model}, cores: {cores}, memory: {gib}gib}}"
        );
    }
    let names: Vec<_> = (0..MODELS).map(|model| format!("m{model}")).collect();
    text + &format!("serve: {{models: [{}], assume: 3600s}}\n", names.join(", "))
}

fn models(text: &mut String) {
    for model in 0..MODELS {
        let states = 2 + model % 7;
        let each = |of: &dyn Fn(u32) -> String| (0..states).map(of).collect::<Vec<_>>().join(", ");
        // The higher a rate, the shorter it is kept.
        let rates = each(&|state| match state {
            0 => "0".into(),
            state => format!("{}mbit", (20 + 3 * model) * state * state + 7 * model),
        });
        let hold = each(&|state| format!("{}ms", 40_000 / (1 << (2 * state).min(12)) + 100));
        let jump = each(&|from| {
            let part = 1.0 / f64::from(states - 1);
            let row = each(&|to| if to == from { "0".into() } else { part.to_string() });
            format!("[{row}]")
        });
        let _ = writeln!(
            text,
            "  m{model}: {{rates: [{rates}], hold: [{hold}], jump: [{jump}], frame: {}b}}",
            300 + 50 * model
        );
    }
}

/// Four types of hosts, whose switches have one of 16 numbers of cores, and so many machines of
/// each model.
fn market(count: u32) -> String {
    let count = count.max(1);
    let mut text = "goal: {epsilon: 0.001}\ntypes:\n".to_owned();
    for kind in 1..=4 {
        let switch: Vec<_> = (1..=16)
            .map(|cores| format!("{{cores: {cores}, carries: {}mbit}}", 900 * cores))
            .collect();
        let (cores, price) = (32 * kind, 5000 * kind);
        let _ = writeln!(
            text,
            "  t{kind}: {{cores: {cores}, memory: {}gib, nic: 25gbit, price: {price}, switch: [{}]}}",
            128 * kind,
            switch.join(", ")
        );
    }
    text += "models:\n";
    models(&mut text);
    text += "vms:\n";
    for model in 0..MODELS {
        let _ = writeln!(
            text,
            "  m{model}: {{count: {count}, model: m{model}, cores: 2, memory: 4gib}}"
        );
    }
    text
}

/// The time that one in a hundred questions takes longer than: a machine that may go to any host,
/// read from JSON, judged, and answered in JSON. Each machine is assumed on its host.
fn answers(plan: &Plan, questions: u32) -> Result<Duration, String> {
    let (problem, placement) = by_model(plan);
    let tables = Tables::new(&problem);
    let mut scheduler = Scheduler::new(plan, &tables, &placement);
    scheduler.judge_all();
    let names: Vec<&str> = plan.hosts().collect();
    let mut times = Vec::new();
    for number in 0..questions {
        let uid = number.to_string();
        let body = json!({
            "Pod": {
                "metadata": {"uid": uid, "annotations": {"zovn/model": format!("m{}", number % MODELS)}},
                "spec": {"containers": [{"resources": {"requests": {"cpu": "500m"}}}]},
            },
            "NodeNames": names,
        });
        let body = body.to_string();
        let now = Duration::from_millis(number.into());
        for question in [Question::Filter, Question::Prioritize] {
            let begun = Instant::now();
            let answer = respond(question, body.as_bytes(), now, &mut scheduler);
            times.push(begun.elapsed());
            answer.map_err(|error| format!("cannot ask the bench's own question: {error}"))?;
        }
    }
    times.sort_unstable();
    Ok(times.get(times.len() * 99 / 100).copied().unwrap_or_default())
}

/// Counters of a trace with bursts, a reading each second.
fn counters(trace: u32, samples: u32) -> Vec<[u64; 1]> {
    let mut rng = Rng::new(trace.into());
    let (mut bytes, mut level) = (0u64, 0u64);
    let reading = |_| {
        let read = [bytes];
        if rng.below(10) == 0 {
            level = rng.below(6);
        }
        bytes += level * level * 1_000_000 + rng.below(200_000);
        read
    };
    (0..samples).map(reading).collect()
}

/// The time that it takes to read so many traces from files, which have a counter for each
/// direction.
fn reads(samples: u32) -> Result<Duration, Box<dyn Error>> {
    let folder = tempfile::tempdir()?;
    let path = folder.path().join("trace.csv");
    let mut took = Duration::ZERO;
    for trace in 0..READ {
        let mut text = "time,sent_bytes,received_bytes\n".to_owned();
        for (row, [bytes]) in counters(trace, samples).into_iter().enumerate() {
            let _ = writeln!(text, "{},{bytes},{}", 1_790_000_000 + row, bytes / 2);
        }
        fs::write(&path, text)?;
        let begun = Instant::now();
        std::hint::black_box(read(&path, &Columns::default())?);
        took += begun.elapsed();
    }
    Ok(took)
}

/// The time that fits take of traces.
fn fits(traces: u32, samples: u32) -> Duration {
    let second = |row: u32| units::Instant::from_nanos(u64::from(row) * 1_000_000_000);
    let times: Vec<_> = (0..samples).map(second).collect();
    let mut took = Duration::ZERO;
    for trace in 0..traces {
        let counters = counters(trace, samples);
        let begun = Instant::now();
        if let Ok(series) = Series::from_counters(&times, &counters, 8) {
            std::hint::black_box(fit(&series, &FitSettings::default()));
        }
        took += begun.elapsed();
    }
    took
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_goal_has_its_figure() {
        let mut told = Vec::new();
        let size = Size { hosts: 30, samples: 500, questions: 5 };
        let figures = bench(size, &mut |it| told.push(it.to_owned())).unwrap();
        // Hosts are beside those that are needed as soon as both are known.
        assert_eq!((figures.len(), told.len()), (9, 8));
        assert!(figures.iter().all(|it| it.value > 0.0 && it.goal > 0.0), "{figures:?}");
        assert!(figures[0].what == "place 300 machines on 30 hosts", "{figures:?}");
        assert!(figures[6].what.starts_with("read a CSV trace of 500 samples"), "{figures:?}");
        assert!(figures[8].what.starts_with("64 offers"), "{figures:?}");
        let hosts: Vec<_> = figures.iter().filter(|it| it.unit == Measure::Ratio).collect();
        assert!(hosts.len() == 1 && hosts[0].value >= 1.0, "{hosts:?}");
    }

    #[test]
    fn a_goal_is_met_up_to_its_end() {
        let took = |millis| Figure::took("x".into(), 0.5, Duration::from_millis(millis)).is_met;
        assert_eq!([took(0), took(500), took(501)], [true, true, false]);
        let times = |value| Figure::times("x".into(), MOST_TIMES, value).is_met;
        assert_eq!([times(1.0), times(1.05), times(1.06)], [true, true, false]);
    }
}
