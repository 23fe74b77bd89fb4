//! `zovn nlog`: what the rules that compile logical networks cost.

use std::cmp::Reverse;
use std::io::{self, Write};
use std::path::PathBuf;
use std::process::ExitCode;

use clap::Subcommand;
use hypervisor::profile::{Profile, RuleProfile, profile};
use serde::Serialize;

use crate::ending::{Outcome, USAGE, print_json};
use crate::net::files::{complain, load_objects};
use crate::table::{headed, text};

const EXAMPLES: &str = "\
Examples:
  zovn nlog profile examples/shop.yaml
  zovn nlog profile examples/shop.yaml --json | jq '.rules[0]'

docs/nlog.md says what rules are, and what makes them slow.";

/// Ask what the rules that compile logical networks cost.
#[derive(clap::Args)]
#[command(after_long_help = EXAMPLES)]
pub struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    Profile(ProfileArgs),
}

/// Tell which rules the networks of files cost what.
///
/// All objects come at once; then some are taken away and put back, one at a time. Rules are told
/// by what they searched for such edits, the most first, and those that did nothing not at all.
/// Exit code 0 if it is told, 2 if a file is wrong, 1 if one cannot be read.
#[derive(clap::Args)]
#[command(after_long_help = EXAMPLES)]
struct ProfileArgs {
    /// The files (YAML or JSON); `-` is stdin.
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
    /// How many objects are taken away and put back at most.
    #[arg(long, value_name = "N", default_value_t = 200)]
    objects: usize,
    /// Tell it as JSON.
    #[arg(long)]
    json: bool,
}

/// What `--json` says.
#[derive(Serialize)]
struct Report {
    edits: u64,
    tuples: usize,
    bytes: usize,
    /// Parts of recursive tables that were computed anew.
    recomputed: u64,
    rules: Vec<Rule>,
}

#[derive(Serialize)]
struct Rule {
    /// Where it is.
    place: String,
    /// The table that it derives.
    table: String,
    /// When all came at once.
    cold: Counts,
    /// For all edits together.
    edits: Counts,
}

#[derive(Serialize)]
struct Counts {
    /// Tuples that it was asked about.
    asked: u64,
    searches: u64,
    rows: u64,
    calls: u64,
    solutions: u64,
}

impl From<nlog::RuleCounters> for Counts {
    fn from(it: nlog::RuleCounters) -> Self {
        Self {
            asked: it.runs,
            searches: it.probes,
            rows: it.rows,
            calls: it.calls,
            solutions: it.derivations,
        }
    }
}

/// Does what was asked.
pub fn run(args: &Args) -> Outcome {
    let Command::Profile(args) = &args.command;
    let objects = match load_objects(&args.files)? {
        Ok(objects) => objects,
        Err(faults) => {
            complain(&faults)?;
            return Ok(ExitCode::from(USAGE));
        }
    };
    let report = report(profile(&objects, args.objects));
    match args.json {
        true => print_json(&report)?,
        false => writeln!(io::stdout(), "{}", told(&report))?,
    }
    Ok(ExitCode::SUCCESS)
}

fn report(profile: Profile) -> Report {
    let Profile { rules, edits, tuples, bytes, recomputed } = profile;
    let rule = |RuleProfile { rule, cold, edits }| Rule {
        place: format!("{}:{}", rule.file, rule.line),
        table: rule.message,
        cold: cold.into(),
        edits: edits.into(),
    };
    let mut rules: Vec<_> = rules.into_iter().map(rule).collect();
    rules.sort_by_key(|rule| Reverse(rule.edits.searches + rule.edits.rows));
    Report { edits, tuples, bytes, recomputed, rules }
}

fn told(report: &Report) -> String {
    let mut table =
        headed(["RULE", "TABLE", "ASKED", "SEARCHES", "ROWS", "CALLS", "SOLUTIONS", "AT ONCE"]);
    for Rule { place, table: derived, cold, edits } in &report.rules {
        if edits.asked > 0 {
            let of = |it: u64| it.to_string();
            table.add_row([
                place.clone(),
                derived.clone(),
                of(edits.asked),
                of(edits.searches),
                of(edits.rows),
                of(edits.calls),
                of(edits.solutions),
                of(cold.solutions),
            ]);
        }
    }
    let Report { edits, tuples, bytes, recomputed, .. } = report;
    let table = text(table);
    format!(
        "{tuples} tuples of {bytes} bytes; of {edits} edits, parts computed anew: {recomputed}\n{table}"
    )
}
