//! `zovn net trace`: what becomes of a packet in a network that is a file.

use std::io::{self, Write};
use std::path::PathBuf;
use std::process::ExitCode;

use interpreter::{Arrival, Decision, Reason, Refusal, State, decide};
use logical::Topology;
use serde::Serialize;
use units::Instant;

use super::files::{complain, load};
use super::packet::Words;
use crate::ending::{Outcome, USAGE, print_json};
use crate::table::{bare, text};

/// The exit code if the packet would be refused.
const REFUSED: u8 = 3;

/// Tell what becomes of a packet, step by step: the object, the rule, the rewrite, the verdict.
///
/// The packet is the first of a connection, as the machine would send it. Exit code 0 if somebody
/// gets it or the network answers it, 3 if it is refused, 2 if the file is wrong, 1 if it cannot be
/// read.
#[derive(clap::Args)]
pub struct Args {
    /// The network's files (YAML or JSON); `-` is stdin.
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
    #[command(flatten)]
    packet: Words,
    /// Tell it as JSON.
    #[arg(long)]
    json: bool,
}

/// What `--json` says.
#[derive(Serialize)]
struct Report {
    /// `delivered`, `answered` or `refused`.
    outcome: &'static str,
    /// Who gets it.
    delivered: Vec<String>,
    /// Whom the network answers.
    answered: Vec<String>,
    /// Why copies of it are not delivered.
    refused: Vec<Refused>,
    /// How it came to that.
    steps: Vec<Step>,
}

#[derive(Serialize)]
struct Refused {
    reason: &'static str,
    at: String,
    by: Option<String>,
}

#[derive(Serialize)]
struct Step {
    at: String,
    stage: &'static str,
    what: String,
    by: Option<String>,
}

impl Report {
    fn of(topology: &Topology, decision: &Decision) -> Self {
        let name = |copy: &interpreter::Copy| topology[copy.port].id.to_string();
        // A reset, or an error, is an answer to what was refused.
        let is_served = |it: &Refusal| matches!(it.reason, Reason::Answered | Reason::ToRouter);
        let outcome = match (decision.delivered.is_empty(), decision.answers.is_empty()) {
            (false, _) => "delivered",
            (true, false) if decision.refused.iter().all(is_served) => "answered",
            _ => "refused",
        };
        Self {
            outcome,
            delivered: decision.delivered.iter().map(name).collect(),
            answered: decision.answers.iter().map(name).collect(),
            refused: decision
                .refused
                .iter()
                .map(|it| Refused {
                    reason: it.reason.name(),
                    at: it.at.to_string(),
                    by: it.by.as_ref().map(ToString::to_string),
                })
                .collect(),
            steps: decision
                .trace
                .iter()
                .map(|it| Step {
                    at: it.at.to_string(),
                    stage: it.stage,
                    what: it.what.clone(),
                    by: it.by.clone(),
                })
                .collect(),
        }
    }

    /// The last line.
    fn verdict(&self) -> String {
        match self.outcome {
            "delivered" => format!("delivered to {}", self.delivered.join(", ")),
            "answered" => format!("answered by the network, to {}", self.answered.join(", ")),
            _ => {
                let why = |it: &Refused| match &it.by {
                    Some(by) => format!("{} at {}, by {by}", it.reason, it.at),
                    None => format!("{} at {}", it.reason, it.at),
                };
                let told = if self.answered.is_empty() { "" } else { "; its sender is told" };
                let why: Vec<_> = self.refused.iter().map(why).collect();
                format!("refused: {}{told}", why.join("; "))
            }
        }
    }
}

/// Traces, and tells.
pub fn run(args: &Args) -> Outcome {
    let topology = match load(&args.files)? {
        Ok(topology) => topology,
        Err(faults) => {
            complain(&faults)?;
            return Ok(ExitCode::from(USAGE));
        }
    };
    let (from, frame) = args.packet.frame(&topology)?;
    let node = topology[from].node;
    let arrival = Arrival { port: from, node, frame: &frame };
    let decision = decide(&topology, &State::default(), Instant::ZERO, arrival);
    let report = Report::of(&topology, &decision);
    if args.json {
        print_json(&report)?;
    } else {
        let mut table = bare();
        for step in &report.steps {
            let by = step.by.as_deref().unwrap_or_default();
            table.add_row([step.at.as_str(), step.stage, &step.what, by]);
        }
        writeln!(io::stdout(), "{}\n{}", text(table), report.verdict())?;
    }
    Ok(match report.outcome {
        "refused" => ExitCode::from(REFUSED),
        _ => ExitCode::SUCCESS,
    })
}
