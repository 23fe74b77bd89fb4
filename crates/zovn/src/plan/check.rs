//! `zovn plan check`: what a plan is, and all that is wrong with it.

use std::process::ExitCode;

use figures::{Unit, si};
use planner::{Fault, Plan};
use serde::Serialize;

use super::files::{Files, complain};
use crate::ending::{Outcome, USAGE, print_json, show};
use crate::table::{headed, text};

/// Tell what a plan is, and all that is wrong with it at once.
///
/// Exit code 0 if all of it is right, 2 if not, 1 if a file cannot be read. Models are told with
/// the reasons not to trust them, of their traces and of what was taken because nothing says it;
/// so are switches that were profiled.
#[derive(clap::Args)]
pub struct Args {
    #[command(flatten)]
    files: Files,
    /// Tell it as JSON.
    #[arg(long)]
    json: bool,
}

/// What `--json` says.
#[derive(Serialize)]
struct Verdict<'a> {
    /// The plan at a glance; none if anything is wrong.
    plan: Option<Glance>,
    /// What is wrong.
    faults: &'a [Fault],
}

#[derive(Serialize)]
struct Glance {
    types: usize,
    hosts: usize,
    machines: u64,
    models: Vec<ModelTold>,
    /// Reasons why switches may carry more or less than the plan counts on, by type.
    switches: Vec<SwitchTold>,
}

#[derive(Serialize)]
struct SwitchTold {
    name: String,
    doubts: Vec<String>,
}

#[derive(Serialize)]
struct ModelTold {
    name: String,
    /// The class of hours, if the plan divides them.
    period: Option<String>,
    /// How many machines have it.
    machines: u64,
    states: usize,
    /// Bits a second.
    mean: f64,
    peak: u64,
    doubts: Vec<String>,
}

impl Glance {
    fn of(plan: &Plan) -> Self {
        let is_divided = plan.periods.len() > 1;
        let models = plan.models.iter().enumerate().flat_map(|(place, it)| {
            let machines = plan.machines_of(place);
            it.it.models.iter().zip(&plan.periods).enumerate().map(move |(period, (model, of))| {
                let source = model.source();
                ModelTold {
                    name: it.name.clone(),
                    period: is_divided.then(|| of.name.clone()),
                    machines,
                    states: model.states().len(),
                    mean: source.mean(),
                    peak: source.peak(),
                    // They are of all hours.
                    doubts: if period == 0 { it.it.doubts() } else { Vec::new() },
                }
            })
        });
        let switches = plan.kinds.iter().filter(|it| !it.doubts().is_empty());
        let switches =
            switches.map(|it| SwitchTold { name: it.name.clone(), doubts: it.doubts().to_vec() });
        Self {
            types: plan.kinds.len(),
            hosts: plan.hosts().len(),
            machines: plan.machines(),
            models: models.collect(),
            switches: switches.collect(),
        }
    }

    fn table(&self) -> String {
        let mut table = headed(["model", "machines", "states", "mean", "peak"]);
        let rate = |rate: f64| si(rate, Unit::BITS_PER_SEC);
        for it in &self.models {
            let counts = [it.machines.to_string(), it.states.to_string()];
            let [machines, states] = counts;
            let name = match &it.period {
                None => it.name.clone(),
                Some(period) => format!("{}, {period}", it.name),
            };
            table.add_row([name, machines, states, rate(it.mean), rate(it.peak as f64)]);
        }
        let Self { types, hosts, machines, .. } = self;
        let mut told = format!(
            "{machines} machines, {hosts} hosts, {types} types of hosts: all of it is right\n\n{}",
            text(table)
        );
        let models = self.models.iter().map(|it| (&it.name, &it.doubts));
        for (name, doubts) in models.chain(self.switches.iter().map(|it| (&it.name, &it.doubts))) {
            for doubt in doubts {
                told += &format!("\n{name}: {doubt}");
            }
        }
        told
    }
}

/// Checks, and tells.
pub fn run(args: &Args) -> Outcome {
    match args.files.load()? {
        Ok(plan) if args.json => {
            print_json(&Verdict { plan: Some(Glance::of(&plan)), faults: &[] })?;
            Ok(ExitCode::SUCCESS)
        }
        Ok(plan) => {
            let glance = Glance::of(&plan);
            show(&(), false, || glance.table())?;
            Ok(ExitCode::SUCCESS)
        }
        Err(faults) => {
            if args.json {
                print_json(&Verdict { plan: None, faults: &faults })?;
            } else {
                complain(&faults)?;
            }
            Ok(ExitCode::from(USAGE))
        }
    }
}
