//! The files of a plan, and what is wrong with them.

use std::io::{self, Write};
use std::path::PathBuf;
use std::process::ExitCode;

use planner::{Fault, Plan, PlanError};

use crate::ending::{Outcome, USAGE};

/// The files of a plan.
#[derive(clap::Args)]
pub struct Files {
    /// The plan's file (YAML; docs/planning.md shows every field).
    file: PathBuf,
    /// More of the plan, as fitted models or a placement. May be given several times.
    #[arg(long, value_name = "FILE")]
    with: Vec<PathBuf>,
}

impl Files {
    /// The plan, or all that is wrong with it.
    pub fn load(&self) -> Result<Result<Plan, Vec<Fault>>, PlanError> {
        let mut paths = vec![self.file.clone()];
        paths.extend(self.with.iter().cloned());
        match Plan::load(&paths) {
            Ok(plan) => Ok(Ok(plan)),
            Err(PlanError::Faults(faults)) => Ok(Err(faults)),
            Err(error) => Err(error),
        }
    }

    /// Does something with the plan; what is wrong with it is told, with exit code 2.
    pub fn then(&self, run: impl FnOnce(&Plan) -> Outcome) -> Outcome {
        match self.load()? {
            Ok(plan) => run(&plan),
            Err(faults) => {
                complain(&faults)?;
                Ok(ExitCode::from(USAGE))
            }
        }
    }

    /// The same with a plan that has hosts.
    pub fn then_on_hosts(&self, run: impl FnOnce(&Plan) -> Outcome) -> Outcome {
        self.then(|plan| {
            if plan.hosts().len() == 0 {
                return Err("the plan has no hosts: add some, or ask `zovn plan buy`".into());
            }
            run(plan)
        })
    }
}

/// Tells what is wrong, a line each.
pub fn complain(faults: &[Fault]) -> io::Result<()> {
    let mut out = io::stderr().lock();
    for fault in faults {
        writeln!(out, "{fault}")?;
    }
    Ok(())
}
