//! `zovn net test`: cases of what networks must do.

use std::collections::BTreeMap;
use std::io::{self, Write};
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use cases::{File, OnInterpreter, OnPipeline, Outcome as Ended, Report, run as run_case};
use clap::ValueEnum;
use units::Span;

use super::files::read;
use super::on_lab::OnLab;
use crate::ending::{Outcome, print_json};
use crate::signals;
use crate::table::{headed, text};

/// What cases can be run on.
#[derive(Clone, Copy, Debug, Eq, PartialEq, ValueEnum)]
enum On {
    /// Objects alone decide.
    Interpreter,
    /// Rows that are compiled of objects decide, at several hosts.
    Pipeline,
    /// Real hosts execute objects: an agent each, in network namespaces of this machine. It takes
    /// root.
    Lab,
}

/// Run cases of what networks must do (docs/cases.md).
///
/// A case whose needs are not met is skipped, and counted as skipped. Exit code 0 if none failed, 1
/// if one did that is not optional, or a file cannot be read.
#[derive(clap::Args)]
pub struct Args {
    /// Files of cases.
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
    /// What they are run on.
    #[arg(long, value_delimiter = ',', default_value = "interpreter")]
    on: Vec<On>,
    /// Only cases with this name.
    #[arg(long, value_name = "NAME")]
    case: Option<String>,
    /// On the lab, how much time cases may let go by at once; who needs more is skipped. `5m` is
    /// enough for all, and takes 23 minutes.
    #[arg(long, value_name = "TIME", default_value = "2s")]
    wait: Span,
    /// Tell it as JSON: a list, with an entry for each case and execution.
    #[arg(long)]
    json: bool,
}

/// Runs them, and tells.
pub fn run(args: &Args) -> Outcome {
    let mut reports = Vec::new();
    let interrupted = match args.on.contains(&On::Lab) {
        true => signals::stop()?,
        false => Arc::default(),
    };
    let mut lab = None;
    for path in &args.files {
        let file = File::read(&read(path)?);
        let file = file.map_err(|error| format!("cannot read {}:{error}", path.display()))?;
        let is_meant = |it: &&cases::Case| args.case.as_ref().is_none_or(|name| it.name == *name);
        for case in file.cases.iter().filter(is_meant) {
            for on in &args.on {
                let report = match on {
                    On::Interpreter => run_case(&file, case, &mut OnInterpreter::new()),
                    On::Pipeline => run_case(&file, case, &mut OnPipeline::new()),
                    On::Lab => {
                        let lab = match &mut lab {
                            Some(lab) => lab,
                            None => lab.insert(OnLab::new(interrupted.clone(), args.wait)?),
                        };
                        run_case(&file, case, lab)
                    }
                };
                if interrupted.load(Ordering::Relaxed) {
                    return Ok(ExitCode::from(signals::INTERRUPTED));
                }
                if !args.json && report.outcome == Ended::Failed {
                    complain(path, case, &report)?;
                }
                reports.push(report);
            }
        }
    }
    if reports.is_empty() {
        return Err("no case was run: name files that have some".into());
    }
    if args.json {
        print_json(&reports)?;
    } else {
        writeln!(io::stdout(), "{}", table(&reports))?;
    }
    let is_failure = |it: &Report| it.outcome == Ended::Failed && !it.optional;
    Ok(if reports.iter().any(is_failure) { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

fn complain(path: &std::path::Path, case: &cases::Case, report: &Report) -> io::Result<()> {
    let step = report.step.map_or_else(String::new, |step| format!(" step {step}"));
    let mut line = format!(
        "{}:{}: {} failed on the {}{step}",
        path.display(),
        case.at.line,
        report.case,
        report.execution
    );
    if let Some(expected) = &report.expected {
        line.push_str(&format!("\n  expected: {expected}"));
    }
    if let Some(seen) = &report.seen {
        line.push_str(&format!("\n  seen: {seen}"));
    }
    writeln!(io::stderr(), "{line}")
}

/// How many of each category passed, failed and were skipped.
fn table(reports: &[Report]) -> String {
    let mut rows: BTreeMap<(&str, &str), [usize; 3]> = BTreeMap::new();
    let mut sums = [0; 3];
    for report in reports {
        let place = match report.outcome {
            Ended::Passed => 0,
            Ended::Failed => 1,
            Ended::Skipped => 2,
        };
        rows.entry((&report.category, report.execution)).or_default()[place] += 1;
        sums[place] += 1;
    }
    let mut table = headed(["category", "on", "passed", "failed", "skipped"]);
    let mut add = |category: &str, on: &str, [passed, failed, skipped]: [usize; 3]| {
        table.add_row([
            category.to_owned(),
            on.to_owned(),
            passed.to_string(),
            failed.to_string(),
            skipped.to_string(),
        ]);
    };
    rows.iter().for_each(|((category, on), counts)| add(category, on, *counts));
    add("all", "", sums);
    text(table)
}
